import json
import threading
from typing import Any

import pytest
from plan_runner import Runner, failing, scripted, steps

from agentlab.errors import CorruptRecord, UnresolvedReference
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import OPEN, STEP_STATUSES, TRANSITIONS, StepStatus
from agentlab.planning.step_state import IllegalTransition, StepError, StepState, Transition, Undo
from agentlab.records import ToolResult
from agentlab.references import Reference, parse_reference
from agentlab.tools import Tool

ERROR = StepError("timed_out", "too slow", is_transient=True)


def statuses(state: PlanState) -> list[str]:
    return [state[step.id].status for step in state.graph.steps]


def advance(state: PlanState, *step_ids: str) -> None:
    for step_id in step_ids:
        state.start(step_id)
        state.complete(step_id)


# The table of transitions


def bring(status: StepStatus) -> PlanState:
    """A plan with one step that has the status."""
    state = PlanState(steps(("a", "")))
    ways: dict[StepStatus, Any] = {
        "pending": [],
        "awaiting_approval": [lambda: state.await_approval("a", "d")],
        "running": [lambda: state.start("a")],
        "retry_wait": [lambda: state.start("a"), lambda: state.retry_later("a", ERROR, 1.0)],
        "interrupted": [lambda: state.start("a"), state.interrupt],
        "completed": [lambda: state.start("a"), lambda: state.complete("a")],
        "failed": [lambda: state.start("a"), lambda: state.fail("a", ERROR)],
        "skipped": [lambda: state.skip("a", "no need")],
        "cancelled": [lambda: state.cancel("enough")],
    }
    undone = [*ways["completed"], lambda: state.start_undo("a", "undo")]
    ways["rolled_back"] = [*undone, lambda: state.finish_undo("a", success=True)]
    ways["rollback_failed"] = [*undone, lambda: state.finish_undo("a", success=False)]
    for step in ways[status]:
        step()
    assert state["a"].status == status
    return state


def attempts(state: PlanState) -> dict[StepStatus, Any]:
    def undo(success: bool) -> None:
        state.start_undo("a", "undo")
        state.finish_undo("a", success=success)

    return {
        "awaiting_approval": lambda: state.await_approval("a", "d"),
        "running": lambda: state.start("a"),
        "completed": lambda: state.complete("a"),
        "failed": lambda: state.fail("a", ERROR),
        "retry_wait": lambda: state.retry_later("a", ERROR, 1.0),
        "skipped": lambda: state.skip("a", "no"),
        "rolled_back": lambda: undo(True),
        "rollback_failed": lambda: undo(False),
    }


BROUGHT = [status for status in STEP_STATUSES if status != "blocked"]


@pytest.mark.parametrize("before", BROUGHT)
def test_every_change_is_in_the_table_or_raises(before: StepStatus) -> None:
    for after in attempts(bring(before)):
        state = bring(before)
        seq = state.seq
        possible = after in TRANSITIONS[before]
        if before == after == "rollback_failed":
            continue
        if possible:
            attempts(state)[after]()
            assert state[("a")].status == after
        else:
            with pytest.raises(IllegalTransition, match=f"step a is {before}"):
                attempts(state)[after]()
            assert (state["a"].status, state.seq) == (before, seq)


def test_the_table_covers_every_status_and_ends_where_nothing_is_open() -> None:
    assert set(TRANSITIONS) == set(STEP_STATUSES)
    for status, after in TRANSITIONS.items():
        assert status not in after
        assert (status in OPEN) == bool(after - {"pending", "rolled_back", "rollback_failed"})


def test_a_blocked_step_waits_for_a_restart() -> None:
    state = PlanState(steps(("a", ""), ("b", "a")))
    state.fail("a", ERROR)
    for attempt in (lambda: state.start("b"), lambda: state.complete("b"), lambda: state.skip("b", "no")):
        with pytest.raises(IllegalTransition, match="step b is blocked"):
            attempt()
    state.restart(["a", "b"])
    assert statuses(state) == ["pending", "pending"]


def test_only_a_ready_step_starts() -> None:
    state = PlanState(steps(("a", ""), ("b", "a")))
    with pytest.raises(IllegalTransition, match="step b is pending and not ready"):
        state.start("b")


def test_a_second_thread_may_read_but_not_write() -> None:
    state = PlanState(steps(("a", ""), ("b", "")))
    state.start("a")
    seen: list[Any] = []

    def other() -> None:
        seen.append(state["a"].status)
        try:
            state.start("b")
        except IllegalTransition as error:
            seen.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == ["running", "a second thread writes to the state of a plan"]
    assert state["b"].status == "pending"


# Ready


def test_ready_steps_come_by_priority_and_then_plan_order() -> None:
    state = PlanState(
        steps(("low", "", {"priority": "low"}), ("b", ""), ("a", ""), ("top", "", {"priority": "high"}), ("z", "a"))
    )
    order = []
    while step := state.next_ready():
        assert state.next_ready() is step, "asking changes nothing"
        order.append(step.id)
        advance(state, step.id)
    assert order == ["top", "b", "a", "z", "low"]


def test_a_step_that_does_not_fit_now_is_passed_over_and_kept() -> None:
    state = PlanState(steps(("a", "", {"worker_type": "db"}), ("b", ""), ("c", "", {"worker_type": "db"})))
    free = state.next_ready(lambda step: step.worker_type != "db")
    assert free is not None
    assert free.id == "b"
    assert state.next_ready(lambda step: False) is None
    first = state.next_ready()
    assert first is not None
    assert first.id == "a"


def test_a_weak_edge_never_delays_and_leaves_a_gap() -> None:
    step = {"weak_depends_on": ("a",), "arguments": {"x": Reference("a", ("v",)), "y": 1}, "tool": "work"}
    graph = PlanGraph((PlanStep("a", tool="work"), PlanStep("b", **step), PlanStep("c", **step)))
    state = PlanState(graph)
    assert state.inputs("b").calls == ({"y": 1},)
    assert state.inputs("b").left_out == ("x",)
    state.start("b")
    assert state["b"].gaps == ("a",)
    state.start("a")
    state.complete("a", [ToolResult(True, data={"v": 5})])
    assert state.inputs("b").calls == ({"y": 1},), "what it started without stays without"
    assert state.inputs("c").calls == ({"x": 5, "y": 1},)
    state.start("c")
    assert state["c"].gaps == ()


def test_the_inputs_of_a_map_step() -> None:
    item = {"id": Reference(None, ("id",)), "all": Reference("a", ("n",))}
    mapped = PlanStep("m", kind="map", tool="t", over=Reference("a", ("rows",)), arguments=item, depends_on=("a",))
    state = PlanState(PlanGraph((PlanStep("a", tool="t"), mapped)))
    state.start("a")
    state.complete("a", [ToolResult(True, data={"rows": [{"id": 1}, {"id": 2}], "n": 2})])
    assert state.inputs("m").calls == ({"id": 1, "all": 2}, {"id": 2, "all": 2})
    assert state.inputs("m").items == ({"id": 1}, {"id": 2})
    state.start("m")
    state.complete("m", [ToolResult(True, data="x"), ToolResult(True, data="y")])
    assert state["m"].output == ["x", "y"]


def test_a_map_over_something_else_says_what_it_is() -> None:
    mapped = PlanStep("m", kind="map", tool="t", over=Reference("a"), depends_on=("a",))
    state = PlanState(PlanGraph((PlanStep("a", tool="t"), mapped)))
    state.start("a")
    state.complete("a", output={"rows": []})
    with pytest.raises(UnresolvedReference, match=r"steps\.a\.output leads nowhere: a map step needs a list.*dict"):
        state.inputs("m")


def test_an_empty_list_is_mapped_to_an_empty_output() -> None:
    state = PlanState(PlanGraph((PlanStep("m", kind="map", tool="t", over=[]),)))
    assert state.inputs("m").calls == ()
    state.start("m")
    state.complete("m")
    assert state["m"].output == []


# Blocking


def test_e06_a_failed_branch_blocks_its_own_descendants_alone() -> None:
    runner = Runner(
        steps(("A", ""), ("B", ""), ("C", "A"), ("D", "B")), scripted({"A": failing("tool_failed", "boom")})
    )
    state = runner.run()
    assert runner.statuses == {"A": "failed", "B": "completed", "C": "blocked", "D": "completed"}
    assert state.cause_chain("C") == ("A",)
    assert state.explain("C") == "blocked, because step A is failed: tool_failed: boom"
    assert (state.status, state.is_finished, state.current_steps) == ("partial", True, ())
    assert runner.executed == ["A", "B", "D"]


def test_the_cause_chain_leads_to_the_root() -> None:
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "b"), ("d", "c ~a"), ("e", "~a")))
    changes = state.fail("a", ERROR)
    assert [(change.step, change.after) for change in changes] == [
        ("a", "failed"), ("b", "blocked"), ("c", "blocked"), ("d", "blocked"),
    ]  # fmt: skip
    assert state.cause_chain("d") == ("c", "b", "a")
    assert state.explain("d") == "blocked, because step a is failed (through c, b): timed_out: too slow"
    assert statuses(state)[-1] == "pending"


def test_skipping_blocks_strong_dependents_and_leaves_weak_ones_a_gap() -> None:
    state = PlanState(steps(("a", ""), ("strong", "a"), ("weak", "~a")))
    state.start("a")
    state.skip("a", "not critical", ERROR)
    assert statuses(state) == ["skipped", "blocked", "pending"]
    assert state.explain("strong") == "blocked, because step a is skipped: not critical"
    assert state.explain("weak") == ""
    advance(state, "weak")
    assert state["weak"].gaps == ("a",)
    assert state.status == "partial"
    assert PlanState.from_json(json.loads(json.dumps(state.to_json())))["weak"] == state["weak"]


# Retry, approval, progress, time


def test_a_retry_waits_and_counts_its_tries() -> None:
    state = PlanState(steps(("a", "")))
    state.start("a", at_s=1.0)
    state.retry_later("a", ERROR, 2.5, tries=3)
    assert (state["a"].tries, state["a"].delay_s, state["a"].error) == (3, 2.5, ERROR)
    assert state.next_ready() is None
    assert state.status == "executing"
    state.wake("a")
    state.start("a", at_s=4.0)
    state.complete("a", at_s=5.0)
    assert (state["a"].tries, state["a"].error, state["a"].started_s, state["a"].ended_s) == (4, None, 4.0, 5.0)


def test_an_approval_is_for_these_arguments_and_used_once() -> None:
    state = PlanState(steps(("a", ""), ("b", "a")))
    state.await_approval("a", "digest-1")
    assert (state.status, state.next_ready()) == ("awaiting_approval", None)
    with pytest.raises(IllegalTransition, match="for other arguments"):
        state.approve("a", "digest-2")
    state.approve("a", "digest-1")
    assert state["a"].is_approved
    state.start("a")
    assert (state["a"].is_approved, state["a"].approval) == (False, None)
    state.retry_later("a", ERROR, 0.0)
    state.wake("a")
    assert not state["a"].is_approved


def test_progress_of_steps_and_of_the_plan() -> None:
    state = PlanState(steps(("a", ""), ("b", ""), ("c", "b"), ("d", "")))
    state.start("a")
    state.start("b")
    assert state.current_steps == ("a", "b")
    state.report("a", progress=0.5, activity="half way")
    assert (state["a"].progress, state["a"].activity) == (0.5, "half way")
    state.fail("b", ERROR)
    assert state.progress == 0.5
    state.complete("a")
    assert state["a"].progress == 1.0
    with pytest.raises(IllegalTransition, match="reports no progress"):
        state.report("a", progress=0.1)
    assert PlanState(PlanGraph(())).progress == 1.0


# Undo and restart


def test_undoing_is_recorded_before_and_after_and_blocks_what_waits() -> None:
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "b")))
    advance(state, "a")
    state.start_undo("a", "cancel_order")
    assert state["a"].is_undo_open
    assert state["a"].status == "completed"
    with pytest.raises(IllegalTransition, match="cannot be undone now"):
        state.start_undo("a", "cancel_order")
    state.finish_undo("a", success=False, message="gone")
    assert statuses(state) == ["rollback_failed", "blocked", "blocked"]
    assert state.explain("a") == "undo with cancel_order failed: gone"
    state.start_undo("a", "cancel_order")
    state.finish_undo("a", success=False, message="still gone")
    state.start_undo("a", "by hand")
    state.finish_undo("a", success=True)
    assert state["a"].undos == (
        Undo("cancel_order", "failed", "gone"), Undo("cancel_order", "failed", "still gone"), Undo("by hand", "done"),
    )  # fmt: skip
    assert state["a"].status == "rolled_back"
    with pytest.raises(IllegalTransition, match="no undo of step a was started"):
        state.finish_undo("a", success=True)


def test_a_rollback_that_goes_on_keeps_the_plan_open() -> None:
    state = PlanState(steps(("a", "")))
    advance(state, "a")
    state.start_rollback("a", back_to="a", restart=True)
    assert (state.is_finished, state.status) == (False, "executing")
    assert state.rollback == {"failed": "a", "back_to": "a", "restart": True}
    with pytest.raises(IllegalTransition, match="is going on"):
        state.start_rollback("a")
    state.finish_rollback()
    assert state.status == "completed"


def test_a_restart_takes_a_closed_part_and_counts_from_zero() -> None:
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "b"), ("d", "")))
    advance(state, "a", "d")
    state.start("b")
    state.fail("b", ERROR, tries=3)
    with pytest.raises(IllegalTransition, match="step b is failed and has to be restarted too"):
        state.restart(["a"])
    state.restart(["a", "b", "c"])
    assert statuses(state) == ["pending", "pending", "pending", "completed"]
    assert state["b"] == StepState(restarts=1)
    assert state.next_ready() is state.graph.step("a")
    advance(state, "a", "b", "c")
    assert state.status == "completed"


def test_a_restart_refuses_what_runs_what_may_have_happened_and_what_is_half_undone() -> None:
    for status in ("running", "interrupted", "rollback_failed"):
        state = bring(status)
        with pytest.raises(IllegalTransition, match=f"step a is {status} and cannot be restarted"):
            state.restart(["a"])


def test_a_restart_after_a_stop_goes_on() -> None:
    state = PlanState(steps(("a", ""), ("b", "a")))
    advance(state, "a")
    state.stop("verification failed")
    assert (statuses(state), state.status) == (["completed", "skipped"], "failed")
    assert state.explain("b") == "verification failed"
    assert state.next_ready() is None
    state.restart(["b"])
    advance(state, "b")
    assert state.status == "completed"


# The plan as a whole


def test_phases_come_before_what_the_steps_say() -> None:
    state = PlanState(steps(("a", "")))
    seen = []
    for phase in ("planning", "validating", "executing", "replanning", "executing"):
        state.set_phase(phase)  # type: ignore[arg-type]
        seen.append(state.status)
    assert seen == ["planning", "validating", "executing", "replanning", "executing"]


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (["completed", "completed"], "completed"),
        (["completed", "skipped"], "completed"),
        (["skipped", "skipped"], "failed"),
        (["completed", "failed"], "partial"),
        (["failed", "failed"], "failed"),
        (["completed", "rolled_back"], "partial"),
        (["rollback_failed", "rolled_back"], "failed"),
        (["completed", "cancelled"], "cancelled"),
        (["completed", "pending"], "executing"),
        (["completed", "retry_wait"], "executing"),
        (["completed", "interrupted"], "interrupted"),
        (["pending", "interrupted"], "executing"),
        (["failed", "awaiting_approval"], "awaiting_approval"),
    ],
)
def test_the_status_of_a_plan_follows_from_its_steps(ends: list[StepStatus], status: str) -> None:
    state = PlanState(steps(("a", ""), ("b", "")))
    data = state.to_json()
    data["steps"] = {name: {"status": end} for name, end in zip("ab", ends, strict=True)}
    assert PlanState.from_json(data).status == status


def test_cancelling_and_interrupting() -> None:
    state = PlanState(steps(("a", ""), ("b", ""), ("c", "a")))
    advance(state, "a")
    state.start("b")
    assert [change.step for change in state.interrupt()] == ["b"]
    state.rerun("b")
    with pytest.raises(IllegalTransition, match="not interrupted"):
        state.rerun("b")
    state.start("b")
    state.cancel("a person stopped it", at_s=9.0)
    assert statuses(state) == ["completed", "cancelled", "cancelled"]
    assert (state.status, state["b"].ended_s, state.explain("c")) == ("cancelled", 9.0, "a person stopped it")


def test_an_interrupted_step_that_turned_out_to_have_happened_is_completed() -> None:
    state = bring("interrupted")
    state.complete("a", [ToolResult(True, data=5)])
    assert (state.status, state["a"].output) == ("completed", 5)


def test_a_new_plan_keeps_what_has_completed_and_remembers_what_was_tried() -> None:
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "b")))
    advance(state, "a")
    state.count_rule("replan")
    state.start("b")
    with pytest.raises(IllegalTransition, match="step b is running: settle it first"):
        state.continued(steps(("a", "")))
    state.fail("b", ERROR)
    with pytest.raises(IllegalTransition, match="lost the completed step a"):
        state.continued(steps(("x", "")))
    new = state.continued(steps(("a", ""), ("b2", "a")))
    assert (new["a"], new.applied, new.seq) == (state["a"], {"replan": 1}, state.seq)
    assert [(name, old.status) for name, old in new.superseded] == [("b", "failed")]
    ready = new.next_ready()
    assert ready is not None
    assert ready.id == "b2"
    advance(new, "b2")
    assert new.status == "completed"
    assert PlanState.from_json(new.to_json()).superseded == new.superseded


# Storing


def eventful() -> tuple[Runner, PlanState]:
    tools = {"work": Tool("work", "w", {}, effect="write", compensate="undo"), "undo": Tool("undo", "u", {})}
    graph = steps(
        ("a", ""),
        ("b", "a", {"is_critical": True}),
        ("c", "b ~d"),
        ("d", "", {"tool": "read"}),
        ("e", "d", {"kind": "map", "over": [1, 2]}),
    )
    script = {
        "a": ToolResult(True, data={"x": [1]}, visible={"k": "passed"}),
        "b": [failing("connection_failed", "once"), failing("refused", "never")],
        "e": ToolResult(True, passed=False, check="c", subject="s", data="out"),
    }
    runner = Runner(graph, scripted(script), "rollback_critical", tools)
    state = runner.run()
    state.set_phase("replanning")
    return runner, state


def test_a_state_comes_back_from_json() -> None:
    _, state = eventful()
    stored = json.loads(json.dumps(state.to_json()))
    again = PlanState.from_json(stored)
    assert again.to_json() == state.to_json()
    assert all(again[step.id] == state[step.id] for step in state.graph.steps)
    assert (again.counts(), again.seq, again.phase) == (state.counts(), state.seq, "replanning")


def test_the_changes_repeat_the_state() -> None:
    runner, state = eventful()
    changes = [change for group in runner.changes for change in group]
    assert [change.seq for change in changes] == list(range(len(changes)))
    again = PlanState(state.graph)
    for change in changes:
        again.apply(Transition.from_json(json.loads(json.dumps(change.to_json()))))
    again.set_phase("replanning")
    assert again.to_json() == state.to_json()


def test_a_change_that_does_not_follow_is_refused() -> None:
    state = PlanState(steps(("a", "")))
    other = PlanState(steps(("a", "")))
    (started,) = other.start("a")
    (completed,) = other.complete("a")
    with pytest.raises(IllegalTransition, match="does not follow"):
        state.apply(completed)
    state.apply(started)
    with pytest.raises(IllegalTransition, match="does not follow"):
        state.apply(started)


@pytest.mark.parametrize(
    "change", [{"graph": {}}, {"steps": {"ghost": {}}}, {"steps": {"a": {"colour": 1}}}, {"phase": None}]
)
def test_what_is_no_stored_state_is_a_corrupt_record(change: dict[str, Any]) -> None:
    data = PlanState(steps(("a", ""))).to_json() | change
    if change == {"phase": None}:
        del data["phase"]
    with pytest.raises(CorruptRecord):
        PlanState.from_json(data)
    with pytest.raises(CorruptRecord, match="a stored change"):
        Transition.from_json(change)


def test_a_result_is_stored_once() -> None:
    state = PlanState(steps(("a", "")))
    state.start("a")
    rows = [{"id": 1}]
    (change,) = state.complete("a", [ToolResult(True, data=rows)])
    assert json.dumps(change.to_json()).count('{"id": 1}') == 1
    assert Transition.from_json(change.to_json()).changes["output"] == rows


def test_an_error_knows_whether_repeating_it_is_safe() -> None:
    read, write = Tool("r", "", {}), Tool("w", "", {}, effect="write")
    same = Tool("s", "", {}, effect="write", repeatable=True)
    timed_out, refused = failing("timed_out"), failing("refused")
    table = {
        "read": StepError.of(timed_out, read), "write": StepError.of(timed_out, write),
        "repeatable": StepError.of(timed_out, same), "refused": StepError.of(refused, write),
        "unknown": StepError.of(ToolResult(False), None),
    }  # fmt: skip
    shown = {name: (e.is_transient, e.is_safe_to_repeat, e.may_have_happened) for name, e in table.items()}
    assert shown == {
        "read": (True, True, False), "write": (True, False, True), "repeatable": (True, True, True),
        "refused": (False, True, False), "unknown": (False, True, False),
    }  # fmt: skip
    assert table["unknown"].kind == "tool_failed"


def test_what_did_not_pass_can_be_referred_to() -> None:
    checks = PlanStep("c", kind="map", tool="check", over=[1, 2, 3], arguments={"x": Reference(None)})
    bad = PlanStep("bad", kind="collect", arguments={"all": Reference("c", (), "not_passed")}, depends_on=("c",))
    first = PlanStep("one", tool="t", arguments={"x": Reference("c", (0, "n"), "not_passed")}, depends_on=("c",))
    state = PlanState(PlanGraph((checks, bad, first)))
    state.start("c")
    state.complete("c", [ToolResult(True, passed=n != 2, data={"n": n}) for n in (1, 2, 3)])
    assert state.inputs("bad").calls == ({"all": [{"n": 2}]},)
    assert state.inputs("one").calls == ({"x": 2},)
    assert PlanGraph.from_json(state.graph.to_json()) == state.graph
    assert parse_reference("steps.c.not_passed[0].n") == Reference("c", (0, "n"), "not_passed")
