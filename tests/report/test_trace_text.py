from typing import Any

from agentlab.budget import Budget, Meter
from agentlab.environments.base import load_suite
from agentlab.models.scripted import ScriptedModel
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.records import Event, ToolCall, ToolResult
from agentlab.references import Reference
from agentlab.report.plan_records import plan_hints
from agentlab.report.trace_text import trace_lines
from agentlab.session import Session, SessionSettings, SuiteKnowledge
from agentlab.tools import Tool
from agentlab.trace import Trace


def plan_event(*steps: PlanStep) -> Event:
    return Event("r", 0, 0.0, "plan", "planner", {"plan": PlanGraph(steps).to_json(), "repairs": 0})


def entry(step: str, index: int) -> PlanStep:
    arguments = {"id": Reference("list", ("rows", index, "id"))}
    return PlanStep(step, "Check one", tool="check", arguments=arguments, depends_on=("list",))


def test_a_printed_plan_ends_with_hints_on_how_it_is_cut() -> None:
    event = plan_event(PlanStep("list", "List", tool="list"), entry("c0", 0), entry("c1", 1))
    assert trace_lines(event)[1:] == [
        "    list: list  List",
        "    c0: check  Check one  after list",
        "    c1: check  Check one  after list",
        '    hint: Steps c0, c1 make one call per entry of a list: use one map step with "over".',
    ]
    assert plan_hints([event], "zh") == '步骤 c0, c1 对列表逐项做同一调用：请用一个带 "over" 的 map 步骤。'


def test_a_plan_that_is_cut_right_has_no_hint() -> None:
    # Nothing is said about order, which depends on what the tools do, and the trace does not say.
    event = plan_event(PlanStep("a", "One", tool="read"), PlanStep("b", "Another", tool="read"))
    assert trace_lines(event)[1:] == ["    a: read  One", "    b: read  Another"]
    assert plan_hints([event]) == "Nothing to remark on how the plan is cut."


def test_several_entries_of_a_list_in_one_call_are_no_fragments() -> None:
    ids = [Reference("top", (index, "id")) for index in range(3)]
    batch = PlanStep("all", "Look up", tool="batch", arguments={"ids": ids}, depends_on=("top",))
    event = plan_event(PlanStep("top", "Rank", tool="rank"), batch)
    assert not [line for line in trace_lines(event) if "hint" in line]


def shown(kind: str, language: str = "en", **data: Any) -> str:
    (line,) = trace_lines(Event("r", 0, 1.5, kind, "scheduler", data), language=language)
    return line.removeprefix("[   1.500 s] scheduler: ")


def test_what_the_scheduler_decides_and_a_person_approves_is_said_in_words() -> None:
    payload = {"command": "retry", "rule": "r", "reason": "retry by rule 'r': timed_out after 1 try", "delay_s": 0.45}
    command = shown("decision", message="recovery_command", step="2", payload=payload)
    assert command == "step 2: retry, in 0.5 s (retry by rule 'r': timed_out after 1 try)"
    for allowed, words in ((True, "approved"), (False, "refused"), (None, "undecided")):
        line = shown("approval", tool="pay", arguments={"amount": 1}, allowed=allowed, by="person")
        assert line == f"pay(amount=1) {words} by person"
    begun = {"failed": "3", "back_to": None, "restart": False}
    assert shown("step", step=None, before="executing", after="executing", rollback=begun) == (
        "plan executing: rolling back because of step 3"
    )
    undone = [{"tool": "cancel", "state": "done"}]
    assert shown("step", step="1", before="completed", after="rolled_back", undos=undone) == (
        "step 1 completed -> rolled_back: undo with cancel done"
    )


def test_a_running_step_says_how_far_it_is_and_what_it_does() -> None:
    running = {"step": "m", "before": "running", "after": "running"}
    assert shown("step", **running, progress=2 / 3) == "step m running, 67 %"
    assert shown("step", **running, activity="check_order") == "step m running, calls check_order"
    assert shown("step", **running, progress=0.5, activity="check_order") == "step m running, 50 %, calls check_order"
    assert shown("step", "zh", **running, progress=0.5, activity="check_order") == (
        "step m running，50 %，调用 check_order"
    )
    done = {"step": "m", "before": "running", "after": "completed", "progress": 1.0, "activity": ""}
    assert shown("step", **done) == "step m running -> completed"


def test_what_is_decided_about_the_whole_plan_is_said() -> None:
    both = [{"kind": "rollback", "step": "3", "reason": "r"}, {"kind": "replan", "step": "4", "reason": "r"}]
    plan = {"step": None, "before": "executing", "after": "executing"}
    assert shown("step", **plan, decisions=both) == (
        "plan executing: still to do: rollback because of step 3, replan because of step 4"
    )
    assert shown("step", **plan, decisions=[]) == "plan executing: still to do: nothing"


FULL = (
    PlanStep("list", "List", tool="list"),
    PlanStep("each", "Check", kind="map", tool="check", over=Reference("list", ("rows",)), depends_on=("list",)),
    PlanStep("few", "Check two", kind="map", tool="check", over=["A", "B"], weak_depends_on=("list",)),
    PlanStep("mail", "Send", tool="mail", depends_on=("list",), only_if_passed=("each",), max_retries=1,
             on_error="rollback", back_to="layer:data", restart=True),
    PlanStep("back", "Undo", tool="back", only_if_not_passed=("each", "few"), on_not_passed="replan"),
)  # fmt: skip


def test_a_printed_plan_shows_weak_edges_conditions_lists_and_wishes() -> None:
    assert trace_lines(plan_event(*FULL))[1:] == [
        "    list: list  List",
        "    each: check  Check  for each of steps.list.output.rows  after list",
        '    few: check  Check two  for each of ["A", "B"]  with list if there',
        "    mail: mail  Send  after list  only if each passed"
        "  [max_retries 1, on_error rollback, back_to layer:data, restart]",
        "    back: back  Undo  only if each, few did not pass  [on_not_passed replan]",
    ]
    assert trace_lines(plan_event(*FULL), language="zh")[2:] == [
        "    each: check  Check  对 steps.list.output.rows 的每一项  在 list 之后",
        '    few: check  Check two  对 ["A", "B"] 的每一项  有 list 的输出就用',
        "    mail: mail  Send  在 list 之后  仅当 each 通过"
        "  [max_retries 1, on_error rollback, back_to layer:data, restart]",
        "    back: back  Undo  仅当 each、few 未通过  [on_not_passed replan]",
    ]


def test_hints_are_in_the_language_of_the_run() -> None:
    event = plan_event(PlanStep("list", "List", tool="list"), entry("c0", 0), entry("c1", 1))
    assert trace_lines(event, language="zh")[-1] == (
        '    提示: 步骤 c0, c1 对列表逐项做同一调用：请用一个带 "over" 的 map 步骤。'
    )


def recalled_call() -> Event:
    """The event of a call that a resumed run takes over from before the stop, as the session writes it."""
    task, trace = load_suite("toy").tasks[0], Trace("r")
    session = Session(
        task.view("en"), (Tool("check", "", {}),), SessionSettings(), SuiteKnowledge(), task, ScriptedModel([]),
        Meter(Budget()), trace,
    )  # fmt: skip
    session.recall("worker", ToolCall("c_0", "check", {"id": 1}), ToolResult(True, message="fine"), "c")
    session.close()
    return trace.events[-1]


def test_a_recalled_call_does_not_read_as_made_again() -> None:
    made = {"tool": "check", "arguments": {"id": 1}, "observation": "fine"}
    event = Event("r", 0, 0.0, "tool_call", "worker", {**made, "executed": True, "tries": 1})
    assert trace_lines(event)[0].endswith("worker -> check(id=1)")
    refused = Event("r", 0, 0.0, "tool_call", "worker", {**made, "executed": False, "tries": 0})
    assert trace_lines(refused)[0].endswith("worker -> check(id=1)  (not executed)")
    recalled = recalled_call()
    english, chinese = trace_lines(recalled)[0], trace_lines(recalled, language="zh")[0]
    assert english.endswith("worker: done before the stop: check(id=1)")
    assert chinese.endswith("worker: 中断前已完成: check(id=1)")
    assert "->" not in english + chinese


def test_a_report_in_a_note_is_printed_as_text_and_whole() -> None:
    report = "1. Totals\n- a: failed\n" + "\n".join(f"line {number}" for number in range(200))
    for language, word in (("en", "report"), ("zh", "报告")):
        lines = trace_lines(Event("r", 0, 0.0, "note", "scheduler", {"report": report}), language=language)
        assert lines[0].endswith(f"scheduler: {word}")
        assert lines[1:] == [f"    {line}" for line in report.splitlines()]
    other = shown("note", reporter="python", reason="the model changed facts")
    assert other == 'note {"reporter": "python", "reason": "the model changed facts"}'
