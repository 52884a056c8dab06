"""The scheduler where effects, waits, stops and undos meet."""

import asyncio
from collections.abc import Sequence

import pytest
from plan_runner import failing
from test_scheduler import DROPPED, TOOLS, WRITE, Plan

from agentlab.planning.outcomes import StepOutcome
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import load_policy
from agentlab.planning.reading import read_plan
from agentlab.planning.report import plan_report
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import StepError
from agentlab.records import JsonObject, ToolResult
from agentlab.references import Reference

NOT_FOUND = failing("not_found", "x")
RETRY_CRITICAL = load_policy(
    {
        "name": "p",
        "rules": [
            {"name": "retry", "on_error": "retry", "backoff": {"base_s": 0.05, "jitter": 0}},
            {"name": "critical", "when": {"critical": True}, "on_error": "rollback"},
            {"name": "rest", "on_error": "skip"},
        ],
    }
)


def test_a_step_that_waits_for_a_retry_is_blocked_when_what_it_needs_is_undone() -> None:
    critical = PlanStep("c", tool="work", depends_on=("a",), is_critical=True)
    graph = PlanGraph((PlanStep("a", **WRITE), PlanStep("b", tool="work", depends_on=("a",)), critical))
    plan = Plan(graph, {"b": [DROPPED, ToolResult(True)], "c": NOT_FOUND}, RETRY_CRITICAL)
    plan.scheduler._sleep = asyncio.sleep
    assert plan.run().kind == "finished"
    assert plan.statuses == {"a": "rolled_back", "b": "blocked", "c": "failed"}


def test_a_skipped_step_whose_effect_may_be_there_is_undone_too() -> None:
    unsure = PlanStep("b", tool="write", arguments={"k": 2}, depends_on=("a",))
    critical = PlanStep("c", tool="work", depends_on=("a",), is_critical=True)
    plan = Plan(
        PlanGraph((PlanStep("a", **WRITE), unsure, critical)),
        {"b": failing("timed_out", "x"), "c": NOT_FOUND},
        "rollback_critical",
    )
    assert plan.run().kind == "finished"
    assert plan.statuses == {"a": "rolled_back", "b": "rolled_back", "c": "failed"}
    assert plan.undone == ["b", "a"]


def test_a_wait_that_was_cut_short_goes_on() -> None:
    graph = PlanGraph((PlanStep("a", tool="work"), PlanStep("b", tool="work", depends_on=("a",))))
    state = PlanState(graph)
    state.set_phase("executing")
    state.start("a")
    state.retry_later("a", StepError("connection_failed", "x", is_transient=True), 1.0)
    plan = Plan(graph, state=state)
    assert plan.run().kind == "finished"
    assert plan.waits == [1.0]
    assert state.status == "completed"


def test_a_restart_by_a_person_leaves_alone_what_something_else_blocks() -> None:
    graph = PlanGraph(
        (
            PlanStep("f", tool="work"),
            PlanStep("e", tool="work", on_error="escalate"),
            PlanStep("s", tool="work"),
            PlanStep("d", tool="work", depends_on=("f", "s")),
        )
    )
    plan = Plan(graph, {"f": NOT_FOUND, "e": NOT_FOUND}, "default")
    assert plan.run().kind == "escalate"
    plan.state.answer_escalation("e", restart=True)
    assert plan.statuses == {"f": "failed", "e": "pending", "s": "pending", "d": "blocked"}


def test_two_stops_keep_all_that_they_kept_from_running() -> None:
    async def before(step: PlanStep) -> None:
        await asyncio.sleep(0.05 * (step.id == "e2"))

    stops = tuple(PlanStep(name, tool="work", on_error="escalate") for name in ("e1", "e2"))
    results = {"e1": NOT_FOUND, "e2": failing("refused", "y")}
    plan = Plan(PlanGraph((*stops, PlanStep("s", tool="work"))), results, "default", parallelism=2, before=before)
    assert plan.run().kind == "escalate"
    for name in plan.state.escalated:
        plan.state.answer_escalation(name, restart=True)
    assert plan.statuses == {"e1": "pending", "e2": "pending", "s": "pending"}


def test_an_undo_gets_the_arguments_that_were_used_not_those_of_now() -> None:
    graph = PlanGraph(
        (
            PlanStep("a", **WRITE),
            PlanStep("w", tool="work", depends_on=("a",)),
            PlanStep(
                "x",
                tool="write",
                arguments={"k": Reference("w", ("id",))},
                depends_on=("s",),
                weak_depends_on=("w",),
            ),
            PlanStep("c", tool="work", depends_on=("w",), on_error="rollback", restart=True, priority="low"),
            PlanStep("s", tool="work"),
            PlanStep("d", tool="work", depends_on=("x", "c"), on_error="rollback", back_to="x"),
        )
    )
    rows = [ToolResult(True, data={"id": f"ROW-{number}"}) for number in (1, 2)]
    plan = Plan(graph, {"w": rows, "c": [NOT_FOUND, ToolResult(True)], "d": NOT_FOUND}, "default")
    undone = undo_calls(plan)
    plan.run()
    assert plan.state["x"].status == "rolled_back"
    assert undone == [("a", {"k": 1}), ("x", {"k": "ROW-1"})]


def undo_calls(plan: Plan) -> list[tuple[str, JsonObject]]:
    undone: list[tuple[str, JsonObject]] = []
    undo = plan.scheduler._run_undo

    async def kept(step: PlanStep, tool: str, arguments: JsonObject) -> ToolResult:
        undone.append((step.id, arguments))
        return await undo(step, tool, arguments)

    plan.scheduler._run_undo = kept
    return undone


@pytest.mark.parametrize("on_error", ["block", "skip"])
def test_entries_that_took_effect_before_a_map_step_ended_are_undone(on_error: str) -> None:
    entries = PlanStep(
        "m", kind="map", tool="write", over=[1, 2], arguments={"k": Reference(None)}, depends_on=("a",),
        on_error=on_error,  # type: ignore[arg-type]
    )  # fmt: skip
    last = PlanStep("c", tool="work", depends_on=("a",), on_error="rollback")
    plan = Plan(PlanGraph((PlanStep("a", **WRITE), entries, last)), {"c": NOT_FOUND}, "default")
    undone = undo_calls(plan)
    run_step = plan.scheduler._run_step

    async def half(step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        if step.id == "m":
            return StepOutcome((ToolResult(True), failing("no_stock", "x")))
        return await run_step(step, calls)

    plan.scheduler._run_step = half
    plan.run()
    assert undone == [("m", {"k": 1}), ("a", {"k": 1})]
    assert plan.state["m"].status == "rolled_back"


def test_what_a_worker_changed_is_told_to_be_undone_by_hand() -> None:
    goal = PlanStep("g", kind="goal", description="create it")
    last = PlanStep("c", tool="work", depends_on=("g",), on_error="rollback", restart=True)
    plan = Plan(PlanGraph((goal, last)), {"c": NOT_FOUND}, "default")
    run_step = plan.scheduler._run_step

    async def worked(step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        outcome = await run_step(step, calls)
        return StepOutcome(outcome.results, effects=("create",)) if step.id == "g" else outcome

    plan.scheduler._run_step = worked
    plan.run()
    assert plan.statuses == {"g": "rollback_failed", "c": "failed"}
    assert "its worker used create, which has to be undone by hand" in plan_report(plan.state)


def test_a_new_plan_keeps_a_completed_step_that_rested_on_one_that_was_undone() -> None:
    done = [PlanStep("chk", tool="write", arguments={"k": Reference("a", ("id",))}, depends_on=("a",))]
    graph = read_plan(
        '{"steps": [{"id": "y", "tool": "work", "depends_on": ["chk"]}]}', tuple(TOOLS.values()), done=done
    )
    assert [(step.id, step.depends_on) for step in graph.steps] == [("chk", ()), ("y", ("chk",))]
