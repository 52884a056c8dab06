from typing import Any

from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.records import Event
from agentlab.references import Reference
from agentlab.report.plan_records import plan_hints
from agentlab.report.trace_text import trace_lines


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


def shown(kind: str, **data: Any) -> str:
    (line,) = trace_lines(Event("r", 0, 1.5, kind, "scheduler", data))
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
