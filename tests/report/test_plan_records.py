import asyncio
from typing import Any

import pytest

from agentlab.errors import ConfigError
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import StepError
from agentlab.records import Event, ToolResult
from agentlab.report.plan_records import (
    Bar,
    plan_of_events,
    plan_of_state,
    plan_summary,
    plans_of_events,
    record_of,
    steps_table,
)
from agentlab.runner.try_one import try_task

GRAPH = PlanGraph((PlanStep("a", tool="get"), PlanStep("b", depends_on=("a",)), PlanStep("c", depends_on=("b",))))


class Trace:
    """Events by hand, a second after each other unless told otherwise."""

    def __init__(self, graph: PlanGraph = GRAPH) -> None:
        self.events: list[Event] = []
        self.plan(graph, 0.0)

    def add(self, kind: str, t_s: float, **data: Any) -> None:
        self.events.append(Event("r1", len(self.events), t_s, kind, "scheduler", data))

    def plan(self, graph: PlanGraph, t_s: float) -> None:
        self.add("plan", t_s, plan=graph.to_json(), repairs=0)

    def step(self, t_s: float, step: str | None, before: str, after: str, **changes: Any) -> None:
        self.add("step", t_s, step=step, before=before, after=after, **changes)

    def runs(self, step: str, start_s: float, end_s: float, after: str = "completed", **changes: Any) -> None:
        self.step(start_s, step, "pending", "running")
        self.step(end_s, step, "running", after, **changes)


def test_tries_waits_and_times_come_from_the_events() -> None:
    trace = Trace()
    trace.step(0.5, None, "executing", "executing", phase="executing")
    trace.step(1, "a", "pending", "running", tries=1, started_s=0.0)
    trace.step(2, "a", "running", "retry_wait", error={"kind": "timed_out", "message": "no answer"}, delay_s=3)
    trace.step(5, "a", "retry_wait", "pending", delay_s=None)
    trace.step(5, "a", "pending", "running", tries=2, error=None)
    trace.step(6, "a", "running", "completed")
    step = plan_of_events(trace.events).steps["a"]
    assert step.bars == (
        Bar("try", "retry_wait", 1, 2),
        Bar("wait", "pending", 2, 5),
        Bar("try", "completed", 5, 6),
    )
    assert (step.status, step.tries, step.duration_s, step.reason) == ("completed", 2, 5, "")


def test_a_blocked_step_names_the_step_at_the_root() -> None:
    trace = Trace()
    trace.runs("a", 1, 2, "failed", error={"kind": "not_found", "message": "no such order"})
    trace.step(2, "b", "pending", "blocked", cause="a")
    trace.step(2, "c", "pending", "blocked", cause="b")
    steps = plan_of_events(trace.events).steps
    assert (steps["a"].reason, steps["a"].bars[0].status) == ("not_found: no such order", "failed")
    assert (steps["c"].status, steps["c"].cause, steps["c"].reason) == ("blocked", "b", "step a is failed")


def test_checks_count_of_the_last_try_and_not_of_an_undo() -> None:
    trace = Trace()
    trace.step(1, "a", "pending", "running")
    trace.add("tool_call", 1.2, plan_step_id="a", passed=False)
    trace.step(1.3, "a", "running", "retry_wait")
    trace.step(1.4, "a", "retry_wait", "pending")
    trace.step(1.5, "a", "pending", "running")
    trace.add("tool_call", 1.6, plan_step_id="a", passed=True)
    trace.add("tool_call", 1.6, plan_step_id="a", visible={"x": "failed", "y": "not_evaluated"})
    trace.add("tool_call", 1.6, plan_step_id="b", passed=False)
    trace.step(1.7, "a", "running", "completed")
    trace.add("tool_call", 1.8, plan_step_id="a", visible={"x": "failed"})
    record = plan_of_events(trace.events)
    assert (record.steps["a"].n_passed, record.steps["a"].n_not_passed) == (1, 1)
    assert (record.steps["b"].n_passed, record.steps["b"].n_not_passed) == (0, 0)


def test_an_undo_is_a_bar_of_its_own_and_a_failed_one_stays_visible() -> None:
    trace = Trace()
    trace.runs("a", 1, 2)
    trace.runs("b", 2, 3)
    trace.step(4, "b", "completed", "completed", undos=[{"tool": "put_back"}])
    trace.step(5, "b", "completed", "rolled_back", undos=[{"tool": "put_back", "state": "done"}])
    trace.step(5, "a", "completed", "completed", undos=[{"tool": "cancel"}])
    trace.step(7, "a", "completed", "rollback_failed", undos=[{"tool": "cancel", "state": "failed", "message": "503"}])
    steps = plan_of_events(trace.events).steps
    assert steps["b"].bars[1] == Bar("undo", "done", 4, 5)
    assert steps["a"].bars[1] == Bar("undo", "failed", 5, 7)
    assert (steps["b"].reason, steps["a"].reason) == ("undo with put_back done", "undo with cancel failed: 503")
    assert steps["a"].duration_s == 1


def test_a_new_plan_keeps_what_completed_and_the_old_one_stands_as_it_was() -> None:
    trace = Trace()
    trace.runs("a", 1, 2)
    trace.runs("b", 2, 3, "failed", error={"kind": "timed_out", "message": ""})
    trace.step(3, "c", "pending", "blocked", cause="b")
    trace.plan(PlanGraph((PlanStep("a", tool="get"), PlanStep("d", depends_on=("a",)))), 4)
    trace.runs("d", 5, 6)
    first, second = plans_of_events(trace.events)
    assert [step.status for step in first.steps.values()] == ["completed", "failed", "blocked"]
    assert [(step.id, step.status) for step in second.steps.values()] == [("a", "completed"), ("d", "completed")]
    assert (first.number, first.end_s, second.number, second.start_s) == (1, 4, 2, 4)
    assert second.steps["a"].bars == first.steps["a"].bars


def test_what_still_runs_when_the_events_stop_has_no_end() -> None:
    trace = Trace()
    trace.step(1, "a", "pending", "running")
    trace.add("budget_hit", 3)
    record = plan_of_events(trace.events)
    assert record.steps["a"].bars == (Bar("try", "running", 1, None),)
    assert (record.steps["a"].duration_s, record.end_s, record.critical_path()) == (None, 3, ())


def test_the_critical_path_counts_waits_and_ends_with_a_step_that_ran() -> None:
    graph = PlanGraph(
        (PlanStep("a"), PlanStep("b"), PlanStep("c", depends_on=("a", "b")), PlanStep("d", depends_on=("c",)))
    )
    trace = Trace(graph)
    trace.runs("a", 0, 1)
    trace.runs("b", 0, 3)
    trace.runs("c", 3, 4, "failed", error={"kind": "timed_out", "message": ""})
    trace.step(4, "d", "pending", "blocked", cause="c")
    assert plan_of_events(trace.events).critical_path() == ("b", "c")


def test_a_state_gives_the_same_statuses_as_its_changes() -> None:
    state, trace = PlanState(GRAPH), Trace()
    for t_s, changes in enumerate(
        [
            state.start("a", at_s=1.0),
            state.complete("a", [ToolResult(True, passed=False), ToolResult(True, visible={"x": "passed"})], at_s=2.0),
            state.start("b", at_s=2.0),
            state.fail("b", StepError("not_found", "gone"), at_s=3.0),
        ]
    ):
        for change in changes:
            trace.add(
                "step", t_s, step=change.step, before=change.before, after=change.after, **change.to_json()["changes"]
            )
    by_state, by_events = plan_of_state(state), plan_of_events(trace.events)
    assert [s.status for s in by_state.steps.values()] == [s.status for s in by_events.steps.values()]
    assert by_state.steps["a"].bars == (Bar("try", "completed", 1.0, 2.0),)
    assert (by_state.steps["a"].n_passed, by_state.steps["a"].n_not_passed) == (1, 1)
    assert by_state.steps["b"].reason == by_events.steps["b"].reason == "not_found: gone"
    assert record_of(state).graph is GRAPH
    assert plan_summary(state) == "3 steps: 1 completed, 1 failed, 1 blocked; checks not passed: a"
    assert plan_summary(state, "zh") == "共 3 步：完成 1，失败 1，阻塞 1；检查未通过：a"


def test_the_table_has_a_row_per_step_also_of_an_empty_plan() -> None:
    trace = Trace()
    trace.runs("a", 1, 2.5)
    table = steps_table(trace.events)
    assert list(table["step"]) == ["a", "b", "c"]
    assert list(table["does"]) == ["get", "tool", "tool"]
    assert table["seconds"][0] == 1.5
    assert table["seconds"].isna().tolist() == [False, True, True]
    assert list(steps_table(PlanState(PlanGraph(()))).columns) == list(table.columns)


def test_a_run_without_a_plan_says_so() -> None:
    result, _ = asyncio.run(try_task("ORDER1002", strategy="tool_loop"))
    with pytest.raises(ConfigError, match=r"no plan \(strategy tool_loop, end_reason answered\)"):
        plan_of_events(result.events)
    with pytest.raises(ConfigError, match="no events of a run"):
        plans_of_events([])


def test_a_real_run_is_read_with_its_provenance() -> None:
    result, _ = asyncio.run(try_task("ORDER9999", strategy="plan_execute"))
    record = plan_of_events(result.events)
    assert [step.status for step in record.steps.values()] == ["failed", "blocked", "blocked"]
    assert record.run["model_kind"] == "simulated"
    assert record.run["strategy"] == "plan_execute"
