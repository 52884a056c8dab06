import asyncio
from typing import Any

import pytest
from plan_runner import Runner, failing, scripted, steps

from agentlab.planning.outcomes import StepOutcome
from agentlab.planning.plan import PlanStep
from agentlab.planning.policy import FailurePolicy, Rule, When
from agentlab.planning.reasons import is_condition, problem_words, reason_words, undo_words
from agentlab.planning.report import changed_facts, plan_report
from agentlab.planning.scheduler import Scheduler
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import STATUS_WORDS, STEP_STATUSES
from agentlab.planning.step_state import StepError
from agentlab.records import ToolResult
from agentlab.tools import Tool

PASSED, NOT_PASSED = ToolResult(True, passed=True), ToolResult(True, passed=False)
TOOLS = {
    "work": Tool("work", "", {}),
    "write": Tool("write", "", {}, effect="write", compensate="undo"),
    "lasting": Tool("lasting", "", {}, effect="write"),
    "mail": Tool("mail", "", {}, effect="irreversible"),
    "undo": Tool("undo", "", {}, effect="idempotent"),
}
ABOUT_ONE = {"only_if_not_passed": ("check",)}


def carried_out(
    rows: tuple[Any, ...], results: dict[str, ToolResult | list[ToolResult]], rules: tuple[Rule, ...] = ()
) -> PlanState:
    """The state as it is stored after the scheduler ran a plan."""
    state, answer = PlanState(steps(*rows)), scripted(results)

    async def run_step(step: PlanStep, calls: Any) -> StepOutcome:
        return StepOutcome((answer(step.id, {}),))

    async def run_undo(step: PlanStep, tool: str, call: Any) -> ToolResult:
        return answer(f"undo:{step.id}", {})

    policy = FailurePolicy(name="p", rules=rules)
    asyncio.run(Scheduler(state, TOOLS, policy, run_step, run_undo, lambda changes: None).run())
    return PlanState.from_json(state.to_json())


def test_a_step_whose_condition_is_not_met_is_not_needed_in_both_languages() -> None:
    state = carried_out((("check", ""), ("back", "", ABOUT_ONE), ("more", "back")), {"check": PASSED})
    english, chinese = plan_report(state), plan_report(state, "zh")
    assert "3 steps: 1 completed, 0 failed, 0 blocked, 0 skipped, 2 not needed" in english
    assert "- back work: not needed\n    only if a check of check does not pass, and none did" in english
    assert english.endswith("Every step that was needed was executed, and every check passed.")
    assert "共 3 步，完成 1，失败 0，阻塞 0，跳过 0，无需执行 2" in chinese
    assert "- back work: 无需执行\n    仅当步骤 check 有检查未通过时才需要，实际没有" in chinese
    assert "- more work: 无需执行\n    它所依赖的步骤 back 无需执行" in chinese
    assert chinese.endswith("需要执行的步骤均已执行，所有检查均通过。")
    assert state["back"].reason.startswith("only if"), "records do not depend on the language of the report"


def test_what_an_error_or_a_gate_skipped_is_skipped_and_no_success() -> None:
    rows = (
        ("check", ""),
        ("mail", "check", {"tool": "mail"}),
        ("bad", ""),
        ("fine", "", {"only_if_passed": ("check",)}),
    )
    rest = (Rule(name="rest", on_error="skip"),)
    state = carried_out(rows, {"check": NOT_PASSED, "bad": failing("not_found", "gone")}, rest)
    assert state.not_needed() == ("fine",)
    english, chinese = plan_report(state), plan_report(state, "zh")
    assert "1 completed, 0 failed, 0 blocked, 2 skipped, 1 not needed" in english
    assert english.endswith("Skipped: mail, bad.\nNot passed: check.")
    assert "- mail work" not in chinese
    assert "步骤 check 的检查未通过，因此没有执行" in chinese
    assert "按规则 'rest' 跳过：not_found，已尝试 1 次" in chinese
    assert "仅当步骤 check 的检查全部通过时才需要，实际未通过" in chinese
    assert chinese.endswith("已跳过：mail, bad。\n未通过：check。")


def test_without_anything_skipped_for_its_condition_nothing_is_said_about_it() -> None:
    state = carried_out((("a", ""), ("b", "a")), {"a": PASSED})
    for language in ("en", "zh"):
        assert "not needed" not in plan_report(state, language)
        assert "需要" not in plan_report(state, language)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((Rule(name="stop", on_error="terminate"),), "按规则 'stop' 终止计划：tool_failed，已尝试 1 次"),
        ((Rule(name="ask", on_error="escalate"),), "按规则 'ask' 转人工：tool_failed，已尝试 1 次"),
        (
            (Rule(name="it's", on_error="terminate", when=When(not_passed=True)),),
            '按规则 "it\'s" 终止计划：检查未通过',
        ),
    ],
)
def test_why_a_plan_was_stopped_reads_in_chinese(rules: tuple[Rule, ...], words: str) -> None:
    bad = NOT_PASSED if rules[0].when.not_passed else failing()
    state = carried_out((("a", ""), ("b", "~a")), {"a": bad}, rules)
    assert (state["b"].status, state.explain("b", "zh")) == ("skipped", words)
    assert state.explain("b") == state["b"].reason


def test_undos_and_blocked_steps_read_in_chinese() -> None:
    rows = (("a", "", {"tool": "write"}), ("b", "a", {"tool": "lasting"}), ("c", "b"), ("d", "c"), ("e", "d"))
    rules = (Rule(name="all", on_error="rollback"),)
    state = carried_out(rows, {"c": failing("not_found", "gone"), "undo:a": failing("x", "locked")}, rules)
    assert state.explain("a", "zh") == "用 undo 撤销失败：locked"
    assert state.explain("b", "zh") == "用 none 撤销失败：lasting 没有对应的撤销工具"
    assert state.explain("d", "zh") == "阻塞，因为步骤 c 失败：not_found: gone"
    assert state.explain("e", "zh") == "阻塞，因为步骤 c 失败（经由 d）：not_found: gone"
    chinese = plan_report(state, "zh")
    assert "阻塞 2，跳过 0，回滚失败 2" in chinese
    assert chinese.endswith("执行不完整：c, d, e。\n回滚不完整：a, b，需要人工处理。")


def test_what_a_tool_said_is_never_translated() -> None:
    assert reason_words("the user asked for it", "zh") == "the user asked for it"
    assert problem_words("It needs time", "zh") == "It needs time"
    assert problem_words("a person did not approve mail", "zh") == "mail 没有得到人工批准"
    assert undo_words("undo", "failed", "undo needs id, name", "zh") == "用 undo 撤销失败：undo 缺少参数 id, name"
    assert undo_words("undo", "failed", "it needs time", "zh") == "用 undo 撤销失败：it needs time"
    assert undo_words("undo", "done", "", "zh") == "已用 undo 撤销"
    assert not is_condition("check c did not pass, so this was not done")


def test_undone_steps_and_open_ones_are_no_success() -> None:
    state = PlanState(steps(("a", ""), ("b", "")))
    state.start("a")
    state.complete("a", (PASSED,))
    state.start_undo("a", "undo")
    state.finish_undo("a", success=True)
    state.start("b")
    assert plan_report(state).endswith("Execution incomplete: b.\nUndone: a.")
    assert "0 skipped, 1 running, 1 rolled back" in plan_report(state)
    assert plan_report(state, "zh").endswith("执行不完整：b。\n已撤销：a。")


@pytest.mark.parametrize("status", STEP_STATUSES)
def test_every_status_reads_in_the_language_of_the_report(status: str) -> None:
    stored = PlanState(steps(("a", ""), ("b", ""))).to_json()
    stored["steps"] = {"a": {"status": status, "cause": "b"}, "b": {"status": "failed"}}
    state = PlanState.from_json(stored)
    english, chinese = STATUS_WORDS[status]
    assert f"- a work: {english}" in plan_report(state)
    assert f"- a work: {chinese}" in plan_report(state, "zh")
    if status not in ("completed", "skipped"):
        assert "均已执行" not in plan_report(state, "zh")


# Several criteria in one step


def test_criteria_that_a_step_only_shows_decide_the_conclusion() -> None:
    shown = {
        "errors_not_up@web": "passed",
        "response_time_halved@web": "failed",
        "resources_not_up@web": "not_evaluated",
    }
    runner = Runner(steps(("test", ""), ("end", "test")), scripted({"test": ToolResult(True, visible=shown)}))
    state = runner.run()
    assert state.business_counts() == {"passed": 1, "failed": 1}
    assert "Checks: 1 passed, 1 not passed" in plan_report(state)
    assert plan_report(state).endswith("Not passed: test (response_time_halved@web).")
    assert plan_report(state, "zh").endswith("未通过：test（response_time_halved@web）。")
    assert '"visible": {"errors_not_up@web": "passed"' in plan_report(state)


def test_criteria_that_all_pass_are_checks_that_passed() -> None:
    shown = {"errors_not_up@web": "passed", "resources_not_up@web": "passed"}
    state = Runner(steps(("test", "")), scripted({"test": ToolResult(True, visible=shown)})).run()
    assert plan_report(state).endswith("Every step was executed and every check passed.")
    nothing = ToolResult(True, visible=dict.fromkeys(shown, "not_evaluated"))
    state = Runner(steps(("test", "")), scripted({"test": nothing})).run()
    assert plan_report(state).endswith("there was no check.")


# New wordings


@pytest.mark.parametrize("status", STEP_STATUSES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_status_may_be_replaced_by_another(status: str, language: str) -> None:
    index = ("en", "zh").index(language)
    for other in STEP_STATUSES:
        before, after = STATUS_WORDS[status][index], STATUS_WORDS[other][index]
        changed = changed_facts(f"- a: {before}\n", f"- a: {after}\n", ["a"])
        assert bool(changed) == (other != status), (before, after)


def test_chinese_facts_stay_in_a_new_wording() -> None:
    report = "- a: 无需执行\n- b: 执行中\n- c: 已回滚\n所有检查均通过。"
    assert changed_facts(report, report.replace("- a:", "步骤 a 的情况是"), ["a", "b", "c"]) == []
    for old, new in (("无需执行", "需要执行"), ("执行中", "执行中断"), ("已回滚", "完成"), ("均通过", "没通过")):
        assert changed_facts(report, report.replace(old, new), ["a", "b", "c"]), (old, new)


def test_an_error_that_may_have_had_an_effect_is_told_in_both_languages() -> None:
    state = PlanState(steps(("a", "")))
    state.start("a")
    state.fail("a", StepError("timed_out", "no answer", may_have_happened=True))
    assert plan_report(state, "zh").endswith("不清楚是否已生效：a，需要人工确认。")
    assert plan_report(state).endswith("somebody has to look.")
