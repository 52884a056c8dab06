"""Plan-and-Execute from the goal to the answer, on the suites and on a small environment of its own."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agentlab.budget import Budget
from agentlab.environments.base import Suite, WorkerType, load_suite
from agentlab.errors import ConfigError, ModelUnavailable
from agentlab.models.base import build_model
from agentlab.models.scripted import ScriptedModel
from agentlab.records import Event, ModelRequest, Reply, ToolResult
from agentlab.runner.run_one import RunResult, knowledge_of, run_one
from agentlab.runner.try_one import try_task
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy
from agentlab.tasks import Criterion, Declared, Task, Text
from agentlab.tools import Tool, tool, tools_of

LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])
ORDER = {"order_id": "ORDER1002"}
GOOD = [
    {"id": "q", "description": "look", "tool": "query_order_detail", "arguments": ORDER, "depends_on": []},
    {"id": "a", "description": "amount", "tool": "check_order_amount", "arguments": ORDER, "depends_on": ["q"]},
    {"id": "s", "description": "status", "tool": "check_order_status", "arguments": ORDER, "depends_on": ["q"]},
]


def plan(*steps: Mapping[str, Any], **rest: Any) -> str:
    return json.dumps({"steps": list(steps), **rest}, ensure_ascii=False)


def attempt(text: str = "ORDER1002", **settings: Any) -> RunResult:
    result, _ = asyncio.run(try_task(text, strategy="plan_execute", **settings))
    return result


def scripted(*replies: Any, text: str = "ORDER1002", **settings: Any) -> RunResult:
    return attempt(text, model=ScriptedModel(list(replies)), **settings)


def report_of(result: RunResult) -> str:
    assert result.answer is not None
    return result.answer.text


def events(result: RunResult, kind: str, **about: Any) -> list[Event]:
    return [e for e in result.events if e.kind == kind and all(e.data.get(k) == v for k, v in about.items())]


def calls(result: RunResult) -> list[str]:
    return [event.data["tool"] for event in events(result, "tool_call") if event.data["executed"]]


# The scenarios of the sources


@LANGUAGES
@pytest.mark.parametrize("parallelism", [1, 4])
def test_order1002_has_two_defects_and_no_failed_step(language: str, parallelism: int) -> None:
    result = attempt("ORDER1002", language=language, parameters={"parallelism": parallelism})
    totals, last = report_of(result).splitlines()[0], report_of(result).splitlines()[-1]
    words = {"en": "3 completed, 0 failed, 0 blocked", "zh": "完成 3，失败 0，阻塞 0"}
    assert words[language] in totals
    assert {"en": "Not passed: ", "zh": "未通过："}[language] in last
    assert last.count(",") == 1, "both failed checks are named"
    assert (result.score.verdict, result.score.success, result.score.outcome) == ("failed", 1, "found")
    assert result.meter.model_calls == 1


@LANGUAGES
def test_order9999_blocks_both_checks(language: str) -> None:
    result = attempt("ORDER9999", language=language)
    text = report_of(result)
    assert {"en": "0 completed, 1 failed, 2 blocked", "zh": "完成 0，失败 1，阻塞 2"}[language] in text
    assert {"en": "Execution incomplete", "zh": "执行不完整"}[language] in text
    assert calls(result) == ["query_order_detail"]
    assert (result.score.verdict, result.score.success, result.score.outcome) == ("incomplete", 1, "incomplete_right")


@pytest.mark.parametrize("parallelism", [1, 4])
def test_user001_in_seven_steps_with_a_check_per_order(parallelism: int) -> None:
    result = attempt("USER001", parameters={"parallelism": parallelism})
    assert "7 steps: 7 completed" in report_of(result)
    assert calls(result).count("check_order_amount") == calls(result).count("check_order_status") == 3
    assert result.score.success == 1
    updates = [event.data["progress"] for event in events(result, "step", message="update")]
    assert len(updates) == 4
    assert all(0 < share < 1 for share in updates)


def test_parallel_steps_give_the_same_answer() -> None:
    for text in ("ORDER1002", "ORDER9999", "USER001", "order-batch--negative-amount"):
        one, four = (attempt(text, parameters={"parallelism": n}) for n in (1, 4))
        assert (one.answer, one.score) == (four.answer, four.score)


def test_the_answer_does_not_depend_on_which_step_was_faster() -> None:
    for slow in ("a", "b", "c"):
        waits = [step(name, "wait", arguments={"name": name, "slow": name == slow}) for name in "abc"]
        result, lab = in_lab([plan(*waits)], parallelism=3)
        assert result.answer is not None
        assert [part.split()[1] for part in result.answer.findings[0].evidence.split("; ")] == ["a,", "b,", "c,"]
        assert lab.log[-1] == f"wait {slow}"


def test_the_service_workflow_completes_with_one_retry() -> None:
    result = attempt("workflow", suite="service")
    assert "8 steps: 8 completed, 0 failed" in report_of(result)
    retries = events(result, "step", after="retry_wait")
    assert [event.data["step"] for event in retries] == ["3.2"]
    commands = events(result, "decision", message="recovery_command")
    assert [event.data["payload"]["command"] for event in commands] == ["retry"]
    assert result.score.success == 1


@pytest.mark.parametrize(
    ("twin", "verdict", "mails"),
    [
        ("", "passed", 1),
        ("--wrong-sum", "failed", 0),
        ("--wrong-address", "failed", 0),
        ("--duplicate-rows", "failed", 0),
    ],
)
def test_the_mail_goes_out_only_when_every_check_passed(twin: str, verdict: str, mails: int) -> None:
    result = attempt(f"top5-last-month{twin}", suite="sales")
    assert (result.score.verdict, result.facts["mails"], result.score.success) == (verdict, mails, 1)
    if not mails:
        (skipped,) = events(result, "step", after="skipped")
        assert "did not pass, so this was not done" in skipped.data["reason"]
        assert "send_email" not in calls(result)


def test_large_results_travel_by_handle() -> None:
    result = attempt("top5-last-month", suite="sales")
    sizes = [len(json.dumps(event.data["arguments"], ensure_ascii=False)) for event in events(result, "tool_call")]
    assert max(sizes) < 3000
    handles = [event for event in events(result, "tool_call") if "result_" in json.dumps(event.data["arguments"])]
    assert handles


# Plans that are none


def test_c14_nothing_to_do_gives_up_without_repair() -> None:
    result = scripted(plan(explanation="The order number is empty."))
    assert (result.end_reason, report_of(result), result.meter.model_calls) == (
        "gave_up",
        "The order number is empty.",
        1,
    )
    assert calls(result) == []


@LANGUAGES
def test_c15_an_answer_in_place_of_a_plan_is_asked_for_a_plan(language: str) -> None:
    prose = "订单 ORDER1002 金额为 -20.0，状态为 unknown，存在两项异常。"
    result = scripted(prose, plan(*GOOD), language=language)
    assert (result.end_reason, result.meter.model_calls, result.score.success) == ("answered", 2, 1)
    (rejected,) = events(result, "error", where="plan")
    assert [problem["code"] for problem in rejected.data["problems"]] == ["not_a_plan"]
    assert prose not in report_of(result)


def test_c15_a_second_answer_in_place_of_a_plan_ends_the_run() -> None:
    result = scripted("All is well.", "As I said, all is well.", plan(*GOOD), parameters={"max_repairs": 5})
    assert (result.end_reason, result.meter.model_calls, calls(result)) == ("invalid_plan", 2, [])
    bad = plan({**GOOD[0], "tool": "drop_table"})
    mixed = scripted("All is well.", bad, plan(*GOOD))
    assert (mixed.end_reason, mixed.meter.model_calls) == ("answered", 3)


@pytest.mark.parametrize("max_repairs", [0, 1, 2])
def test_an_invalid_plan_is_sent_back_a_bounded_number_of_times_and_each_time_is_billed(max_repairs: int) -> None:
    bad = plan({**GOOD[0], "tool": "drop_table"})
    usage = {"input_tokens": 100, "output_tokens": 10}
    result = scripted(*[{"text": bad, "usage": usage}] * 5, parameters={"max_repairs": max_repairs})
    assert (result.end_reason, calls(result), result.score.success) == ("invalid_plan", [], 0)
    assert result.meter.model_calls == max_repairs + 1
    assert result.meter.total_tokens == 110 * (max_repairs + 1)
    assert len(events(result, "error", where="plan")) == max_repairs + 1


def test_what_is_wrong_is_said_to_the_planner() -> None:
    asked: list[str] = []

    def model(request: ModelRequest) -> str:
        asked.append(request.messages[-1]["content"])
        return plan({**GOOD[0], "tool": "drop_table"}, *GOOD[1:]) if len(asked) == 1 else plan(*GOOD)

    assert attempt(model=ScriptedModel(model)).score.success == 1
    assert "drop_table" in asked[1]


def test_a_plan_that_was_cut_off_is_not_carried_out() -> None:
    result = scripted({"text": plan(*GOOD), "problem": "truncated"}, plan(*GOOD))
    assert (result.meter.model_calls, result.score.success) == (2, 1)


# A small environment, for what goes wrong on the way


class Lab:
    """Answers from a table; a list of answers is used up, its last entry stays."""

    version = "1"

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.log: list[str] = []
        self.answers = {k: list(v) if isinstance(v, list) else [v] for k, v in answers.items()}

    def _answer(self, name: str, *values: Any) -> ToolResult:
        self.log.append(" ".join([name, *map(str, values)]))
        answers = self.answers.get(name, [ToolResult(True, data={"by": name})])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    @tool(timeout_s=None)
    def look(self, where: str) -> ToolResult:
        """Look somewhere."""
        return self._answer("look", where)

    @tool(timeout_s=None)
    def check(self) -> ToolResult:
        """Check."""
        return self._answer("check")

    @tool(timeout_s=None)
    async def wait(self, name: str, slow: bool) -> ToolResult:
        """Check one thing, perhaps slowly."""
        await asyncio.sleep(0.02 if slow else 0)
        self.log.append(f"wait {name}")
        return ToolResult(True, True, "fine", name)

    @tool(effect="write", compensate="remove", timeout_s=None)
    def create(self, name: str) -> ToolResult:
        """Create."""
        return self._answer("create", name)

    @tool(effect="idempotent", timeout_s=None)
    def remove(self, name: str) -> ToolResult:
        """Remove."""
        return self._answer("remove", name)

    @tool(effect="irreversible", permission="ask", timeout_s=None)
    def release(self) -> ToolResult:
        """Release."""
        return self._answer("release")

    @tool(timeout_s=None)
    def use(self, data: list[Any]) -> ToolResult:
        """Use rows."""
        return self._answer("use", len(data))

    def reset(self, task: Task, seed: int) -> None:
        return None

    def tools(self) -> tuple[Tool, ...]:
        return tools_of(self)

    def observe(self) -> str:
        return ""

    def facts(self) -> dict[str, Any]:
        return {}

    def snapshot(self) -> None:
        return None

    def restore(self, snapshot: Any) -> None:
        return None

    def close(self) -> None:
        return None


TEXT = Text(zh="做", en="do")
TASK = Task(
    id="t", suite="lab", instruction=TEXT, environment="lab", initial_state={}, cluster="t", reference=(),
    criteria=(Criterion(name="fine", description=TEXT),), checks={"fine": "passed"}, declared=Declared(steps=3),
    tags=("no-truth",),
)  # fmt: skip
FINE = ToolResult(True, True, "fine")
WORKERS = {"looker": WorkerType(("look", "check"), Text(zh="你负责查看", en="You look"))}


def step(step_id: str, tool_name: str, *before: str, **fields: Any) -> dict[str, Any]:
    arguments = {"look": {"where": "here"}, "create": {"name": "A"}, "remove": {"name": "A"}}.get(tool_name, {})
    return {
        "id": step_id, "description": step_id, "tool": tool_name, "arguments": arguments, "depends_on": [*before],
        **fields,
    }  # fmt: skip


def in_lab(
    replies: list[Any] | Callable[[ModelRequest], Any],
    answers: Mapping[str, Any] | None = None,
    *,
    budget: Budget | None = None,
    language: str = "en",
    approvals: str = "allow",
    **parameters: Any,
) -> tuple[RunResult, Lab]:
    lab = Lab({"check": FINE, **(answers or {})})
    suite = Suite("lab", TEXT, (TASK,), lambda settings: lab, workers=WORKERS)
    result = asyncio.run(
        run_one(
            TASK, lab, build_strategy("plan_execute", parameters), ScriptedModel(replies),
            SessionSettings(language=language, approvals=approvals), budget or Budget(), suite=knowledge_of(suite),
            debug=True,
        )
    )  # fmt: skip
    return result, lab


GONE = ToolResult(False, error_kind="gone", message="it is gone")


def test_a_new_plan_keeps_what_was_done_and_is_told_what_happened() -> None:
    asked: list[str] = []
    first = plan(step("1", "create"), step("2", "look", "1"), step("3", "check", "2"))
    second = plan(step("4", "check", "1"))

    def model(request: ModelRequest) -> str:
        asked.append(request.messages[-1]["content"])
        return first if len(asked) == 1 else second

    result, lab = in_lab(model, {"look": GONE}, on_surprise="replan")
    assert lab.log == ["create A", "look here", "check"]
    assert "step 2: gone: it is gone" in asked[1]
    assert '"by": "create"' in asked[1] or '"by":"create"' in asked[1]
    assert "2 steps: 2 completed" in report_of(result)
    assert (result.answer and result.answer.verdict, result.meter.model_calls) == ("passed", 2)
    plans = events(result, "plan")
    assert [len(event.data["plan"]["steps"]) for event in plans] == [3, 2]


@pytest.mark.parametrize(("max_replans", "asked"), [(0, 1), (1, 2), (3, 4)])
@pytest.mark.parametrize("by", ["parameter", "plan"])
def test_replans_are_bounded_whoever_asks_for_them(max_replans: int, asked: int, by: str) -> None:
    numbers = iter(range(100))
    wish = {"on_error": "replan"} if by == "plan" else {}

    def model(request: ModelRequest) -> str:
        return plan(step(f"look{next(numbers)}", "look", **wish), step(f"other{next(numbers)}", "check"))

    surprise = "replan" if by == "parameter" else "block"
    result, lab = in_lab(model, {"look": GONE}, on_surprise=surprise, max_replans=max_replans)
    assert (result.end_reason, result.meter.model_calls) == ("answered", asked)
    assert lab.log[-1] == "check", "what does not need the failed step is still done"


def test_a_planner_without_a_new_idea_ends_the_plan_and_repeats_nothing() -> None:
    first = plan(step("1", "look"), step("2", "check"))
    result, lab = in_lab([first, plan(explanation="nothing else helps")], {"look": GONE}, on_surprise="replan")
    assert lab.log == ["look here", "check"]
    assert "1 completed, 1 failed" in report_of(result)


def test_a_surprise_is_met_by_a_local_repair() -> None:
    action = 'Thought: elsewhere\nAction: look\nAction Input: {"where": "there"}'
    replies = [plan(step("1", "look"), step("2", "check", "1")), action, "Final Answer: done"]
    result, lab = in_lab(replies, {"look": [GONE, ToolResult(True, data=5)]}, on_surprise="react")
    assert lab.log == ["look here", "look there", "check"]
    assert "2 steps: 2 completed" in report_of(result)
    assert result.meter.model_calls == 3


def test_a_repair_comes_after_the_retries_and_has_no_dangerous_tools() -> None:
    dropped = ToolResult(False, error_kind="refused_for_now", message="later")
    seen: list[set[str]] = []

    def model(request: ModelRequest) -> str:
        if request.context.actor == "planner":
            return plan(step("1", "look"), step("2", "check", "1"))
        seen.append({offered.name for offered in request.tools})
        return "Action: release\nAction Input: {}"

    result, lab = in_lab(model, {"look": dropped}, on_surprise="react")
    assert seen == [{"look", "check", "wait", "create", "remove", "use"}]
    assert lab.log == ["look here"]
    assert "0 completed, 1 failed, 1 blocked" in report_of(result)


def test_transient_failures_need_no_model() -> None:
    dropped = ToolResult(False, error_kind="connection_failed", message="dropped")
    policy = {
        "name": "p", "rules": [{"name": "r", "on_error": "retry", "attempts": 6, "backoff": {"base_s": 0}}],
    }  # fmt: skip
    result, lab = in_lab(
        [plan(step("1", "look"), step("2", "check", "1"))],
        {"look": [dropped] * 4 + [ToolResult(True)]},
        on_surprise="react",
        policy=policy,
    )
    assert (result.meter.model_calls, lab.log.count("look here")) == (1, 5)
    assert "2 completed" in report_of(result)


def test_what_was_not_approved_is_not_tried_another_way() -> None:
    result, lab = in_lab([plan(step("1", "release"))], on_surprise="react", approvals="deny")
    assert (lab.log, result.meter.model_calls) == ([], 1)
    assert "not_approved" in report_of(result)


# Goal steps


def goal(**fields: Any) -> dict[str, Any]:
    return {"id": "g", "kind": "goal", "description": "find it", "worker_type": "looker", "depends_on": [], **fields}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


@LANGUAGES
def test_a_goal_step_is_a_worker_with_its_own_tools_and_inputs(language: str) -> None:
    seen: list[ModelRequest] = []
    replies = iter([call("look", where="x"), call("release"), call("check"), "found it"])

    def model(request: ModelRequest) -> Any:
        if request.context.actor == "planner":
            return plan(step("1", "look"), goal(depends_on=["1"], arguments={"hint": "steps.1.output.by"}))
        seen.append(request)
        return next(replies)

    result, lab = in_lab(model, language=language)
    assert {offered.name for offered in seen[0].tools} == {"look", "check"}
    assert [message["role"] for message in seen[0].messages] == ["system", "user"]
    assert seen[0].messages[0]["content"] == {"en": "You look", "zh": "你负责查看"}[language]
    assert '"hint"' in seen[0].messages[1]["content"]
    assert "look" in seen[0].messages[1]["content"]
    assert lab.log == ["look here", "look x", "check"]
    refused = events(result, "tool_call", tool="release")
    assert [(event.data["executed"], event.data["error_kind"]) for event in refused] == [(False, "unknown_tool")]
    assert result.answer is not None
    assert result.answer.verdict == "passed"
    assert {event.actor for event in events(result, "model_call")} == {"planner", "looker"}
    assert [event.data["activity"] for event in events(result, "step", message="update")] == [
        "look",
        "release",
        "check",
    ]


def test_a_goal_step_whose_check_fails_closes_the_gate() -> None:
    not_fine = ToolResult(True, False, "fine")
    replies = [plan(goal(), step("2", "release", "g")), call("check"), "all looked at"]
    result, lab = in_lab(replies, {"check": not_fine})
    assert lab.log == ["check"]
    assert "check g did not pass" in report_of(result)


def test_a_worker_may_not_do_either_what_the_gate_forbids() -> None:
    not_fine = ToolResult(True, False, "fine")
    everything = goal(worker_type=None, depends_on=["1"])
    result, lab = in_lab([plan(step("1", "check"), everything), call("release"), "done"], {"check": not_fine})
    assert lab.log == ["check"]
    assert [event.data["error_kind"] for event in events(result, "tool_call", tool="release")] == ["check_not_passed"]


def test_a_worker_that_does_not_come_to_an_end_fails_its_step() -> None:
    places = iter("abcdefghij")
    first = iter([plan(goal(), step("2", "check", "g"))])
    result, lab = in_lab(lambda request: next(first, None) or call("look", where=next(places)))
    assert len(lab.log) == 6
    assert "round_limit" in report_of(result)
    assert "1 failed, 1 blocked" in report_of(result)


# Rollback, restart, escalation


def test_a_restart_after_an_undo_really_does_it_again() -> None:
    policy = {
        "name": "p",
        "rules": [{"name": "again", "on_error": "rollback", "back_to": "1", "restart": True, "limit": 1}],
    }
    replies = [plan(step("1", "create"), step("2", "look", "1"), step("3", "check", "2"))]
    result, lab = in_lab(replies, {"look": [GONE, ToolResult(True)]}, policy=policy)
    assert lab.log == ["create A", "look here", "remove A", "create A", "look here", "check"]
    assert "3 completed" in report_of(result)


def test_escalation_ends_the_run_and_says_what_stands() -> None:
    result, lab = in_lab([plan(step("1", "look", on_error="escalate"), step("2", "check"))], {"look": GONE})
    assert (result.end_reason, lab.log) == ("escalated", ["look here"])
    assert "step 1 needs a person" in (result.error or "")
    (note,) = events(result, "note")
    assert "1 failed, 0 blocked, 1 skipped" in note.data["report"]


def test_values_inside_a_large_result_stay_usable() -> None:
    rows = [{"n": i, "text": "x" * 40} for i in range(2000)]
    use = step("2", "use", "1", arguments={"data": "steps.1.output"})
    result, lab = in_lab([plan(step("1", "look"), use, step("3", "check"))], {"look": ToolResult(True, data=rows)})
    assert lab.log == ["look here", "use 2000", "check"]
    (used,) = events(result, "tool_call", tool="use")
    assert used.data["arguments"] == {"data": "result_1"}


# Messages of 002.15


def test_scheduler_and_workers_talk_in_events() -> None:
    replies = [plan(step("1", "look", worker_type="looker", max_retries=0, on_error="skip"), step("2", "check"))]
    result, _ = in_lab(replies, {"look": GONE})
    spoken = [e for e in result.events if e.kind in ("step", "decision") and "message" in e.data]
    talk = [(e.data["message"], e.data["sender"], e.data["receiver"], e.data["step"]) for e in spoken]
    assert talk == [
        ("assign", "scheduler", "looker", "1"),
        ("failure", "looker", "scheduler", "1"),
        ("recovery_command", "scheduler", "looker", "1"),
        ("assign", "scheduler", "worker", "2"),
        ("result", "worker", "scheduler", "2"),
    ]
    payloads = [e.data["payload"] for e in spoken]
    assert payloads[0] == {"tool": "look", "arguments": {"where": "here"}, "description": "1"}
    assert payloads[1] == {"can_recover": False}
    assert spoken[1].data["error"]["kind"] == "gone"
    assert (payloads[2]["command"], payloads[2]["next_step"]) == ("skip", "2")
    assert payloads[4] == {"results": 1, "passed": 1, "not_passed": 0}
    assert all(e.t_s >= 0 for e in spoken)


# The reporter


def reported(reword: Callable[[str], Any], **settings: Any) -> RunResult:
    def model(request: ModelRequest) -> Any:
        is_plan = request.format.name == "plan"
        return plan(*GOOD) if is_plan else reword(request.messages[-1]["content"])

    return attempt(model=ScriptedModel(model), parameters={"reporter": "model"}, **settings)


@LANGUAGES
def test_a_model_may_word_the_report(language: str) -> None:
    friendly = {"en": ("1. Totals:", "1. In total:"), "zh": ("一、统计：", "一、总体情况：")}[language]
    result = reported(lambda text: text.replace(*friendly), language=language)
    assert friendly[1] in report_of(result)
    assert (result.meter.model_calls, result.score.success, result.answer and result.answer.verdict) == (2, 1, "failed")
    assert [event.data["reporter"] for event in events(result, "note")] == ["model"]


@pytest.mark.parametrize(
    "reword",
    [
        lambda text: text.replace("3 completed", "2 completed"),
        lambda text: text.replace("Not passed: a, s.", "Every check passed."),
        lambda text: text.replace("-20", "20"),
        lambda text: text.replace("ORDER1002", "ORDER1003"),
        lambda text: "All is well.",
        lambda text: {"text": text, "problem": "truncated"},
        lambda text: "",
    ],
)
def test_a_report_with_other_facts_is_refused(reword: Callable[[str], Any]) -> None:
    result = reported(reword)
    assert report_of(result) == report_of(scripted(plan(*GOOD)))
    (note,) = events(result, "note")
    assert (note.data["reporter"], bool(note.data["changed"])) == ("python", True)
    assert (result.meter.model_calls, result.score.success) == (2, 1)


def test_the_report_stands_without_the_model() -> None:
    def down(text: str) -> Reply:
        raise ModelUnavailable("down")

    result = reported(down)
    assert (result.end_reason, result.score.success) == ("answered", 1)
    limited, _ = in_lab([plan(step("1", "check"))], reporter="model", budget=Budget(model_calls=1))
    assert (limited.end_reason, limited.meter.model_calls) == ("answered", 1)
    assert "1 completed" in report_of(limited)


def test_parameters_are_checked() -> None:
    for wrong in ({"reporter": "nobody"}, {"on_surprise": "panic"}, {"parallelism": 0}, {"policy": "hope"}):
        with pytest.raises(ConfigError):
            build_strategy("plan_execute", wrong)
    assert "plan_report" in build_strategy("plan_execute", {"reporter": "model"}).prompts
    assert "plan_report" not in build_strategy("plan_execute").prompts


@pytest.mark.parametrize("parameters", [{"max_repairs": 0, "max_replans": 0}, {"reporter": "model", "parallelism": 4}])
def test_the_simulated_planner_does_with_every_variant(parameters: dict[str, Any]) -> None:
    model = build_model("simulated:perfect")
    suite = load_suite("orders")
    for task in suite.tasks[:6]:
        result = attempt(task.id, suite=suite, model=model, parameters=parameters)
        assert (result.end_reason, result.score.success) == ("answered", 1)
