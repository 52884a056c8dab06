from typing import Any

import pytest
from plan_runner import Runner, failing, scripted, steps

from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import FailurePolicy, Rule, When
from agentlab.planning.recovery import RollbackPlan, StepUndo, recover, rollback_plan, undo_arguments
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import IllegalTransition, StepError
from agentlab.records import ToolResult
from agentlab.references import Reference
from agentlab.tools import Tool


def schema(*names: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in (*names, *optional)}, "required": list(names)}


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("read", "", schema()),
        Tool("set", "", schema(), effect="idempotent"),
        Tool("create", "", schema("request"), effect="write", compensate="cancel"),
        Tool("cancel", "", schema("order_id", optional=("request",)), effect="idempotent"),
        Tool("deduct", "", schema("order_id", "quantity"), effect="write", compensate="restore"),
        Tool("restore", "", schema("order_id"), effect="idempotent"),
        Tool("mail", "", schema("order_id"), effect="irreversible"),
        Tool("broken", "", schema(), effect="write", compensate="cancel"),
        Tool("lost", "", schema(), effect="write", compensate="nobody"),
    )
}
CREATED = ToolResult(True, data={"order_id": "O1"})


def runner(graph: PlanGraph, results: dict[str, Any], policy: str | FailurePolicy = "rollback_critical") -> Runner:
    made = Runner(graph, scripted(results), policy, TOOLS)
    made.run()
    return made


# 004.10 and E07


def fulfilment() -> PlanGraph:
    order = Reference("order", ("order_id",))
    vital: dict[str, Any] = {"is_critical": True}
    return PlanGraph((
        PlanStep("other", tool="create", arguments={"request": "R0"}),
        PlanStep("look", tool="read"),
        PlanStep("order", tool="create", arguments={"request": "R1"}, depends_on=("look",), **vital),
        PlanStep("stock", tool="deduct", arguments={"order_id": order, "quantity": 2}, depends_on=("order",), **vital),
        PlanStep("pack", tool="deduct", arguments={"order_id": order, "quantity": 1}, depends_on=("stock",), **vital),
        PlanStep("mail", tool="mail", arguments={"order_id": order}, depends_on=("pack",)),
    ))  # fmt: skip


def test_004_10_a_critical_failure_undoes_what_it_rested_on_and_nothing_else() -> None:
    made = runner(fulfilment(), {"order": CREATED, "other": CREATED, "pack": failing("no_stock", "none left")})
    assert [call for call in made.calls if call[0].startswith("undo:")] == [
        ("undo:stock", {"order_id": "O1"}), ("undo:order", {"order_id": "O1", "request": "R1"}),
    ]  # fmt: skip
    assert made.statuses == {
        "other": "completed", "look": "completed", "order": "rolled_back", "stock": "rolled_back", "pack": "failed",
        "mail": "blocked",
    }  # fmt: skip
    assert made.state.status == "partial"
    assert "mail" not in made.executed


def test_004_10_a_mail_that_fails_is_skipped_and_recorded() -> None:
    made = runner(fulfilment(), {"order": CREATED, "other": CREATED, "mail": failing("refused", "mailbox full")})
    assert made.statuses["mail"] == "skipped"
    assert made.state.status == "completed"
    error = made.state["mail"].error
    assert error is not None
    assert error.message == "mailbox full"
    assert made.state.rollback is None


def test_e07_a_failing_undo_keeps_no_other_from_being_tried_and_stays_visible() -> None:
    undoable = {"tool": "create", "arguments": {"request": "R"}}
    graph = steps(
        ("1", "", undoable),
        ("2", "1", undoable),
        ("3", "2", undoable),
        ("4", "3", {"tool": "read", "is_critical": True}),
    )
    answers = {"1": CREATED, "2": CREATED, "3": CREATED, "4": failing(), "undo:2": failing("gone", "order is locked")}
    made = runner(graph, answers)
    assert [name for name, _ in made.calls if name.startswith("undo:")] == ["undo:3", "undo:2", "undo:1"]
    assert made.statuses == {"1": "rolled_back", "2": "rollback_failed", "3": "rolled_back", "4": "failed"}
    assert made.state.explain("2") == "undo with cancel failed: order is locked"
    assert made.state.with_status("rollback_failed") == ("2",)
    assert made.state.status == "failed"


# 002.12: the three scenarios, each as a policy


def test_002_12_a_three_retries_then_roll_back_to_the_design_and_start_again_from_there() -> None:
    design = {"tool": "create", "arguments": {"request": "design"}}
    graph = steps(
        ("1", "", {"tool": "read"}), ("2.1", "1", design), ("2.2", "1", design),
        ("3.1", "2.1", {"tool": "set", "priority": "high"}), ("4", "3.1", {"tool": "read"}),
    )  # fmt: skip
    policy = FailurePolicy(name="a", rules=(
        Rule(name="retry", on_error="retry", attempts=4),
        Rule(
            name="redesign", on_error="rollback", when=When(priorities=("high",)), back_to="2.1", restart=True, limit=1
        ),
        Rule(name="rest", on_error="terminate"),
    ))  # fmt: skip
    dropped = failing("connection_failed", "lock timeout")
    made = runner(graph, {"2.1": CREATED, "2.2": CREATED, "3.1": [dropped] * 4 + [ToolResult(True)]}, policy)
    assert [action.kind for action in made.actions] == ["retry", "retry", "retry", "rollback"]
    assert [name for name, _ in made.calls] == [
        "1",
        "2.1",
        "3.1",
        "3.1",
        "3.1",
        "3.1",
        "undo:2.1",
        "2.1",
        "3.1",
        "2.2",
        "4",
    ]
    assert made.state.status == "completed"
    assert (made.state["2.1"].restarts, made.state["1"].restarts, made.state["2.2"].restarts) == (1, 0, 0)
    assert [undo.state for undo in made.state["2.1"].undos] == ["done"]
    assert made.state["3.1"].tries == 1, "counters start again"

    hopeless = runner(graph, {"2.1": CREATED, "2.2": CREATED, "3.1": dropped}, policy)
    assert [action.kind for action in hopeless.actions].count("rollback") == 1
    assert hopeless.actions[-1].kind == "terminate"
    assert hopeless.state.status == "failed"


def test_002_12_b_a_cache_that_is_not_critical_is_skipped_with_a_gap_note() -> None:
    graph = steps(
        ("3.1", ""), ("3.2", "", {"priority": "low"}), ("3.3", ""), ("4", "3.1 3.3 ~3.2", {"priority": "high"}),
        ("cache report", "3.2"),
    )  # fmt: skip
    made = runner(graph, {"3.2": failing("refused", "cache server is down")}, "rollback_high")
    assert made.statuses == {
        "3.1": "completed", "3.2": "skipped", "3.3": "completed", "4": "completed", "cache report": "blocked",
    }  # fmt: skip
    assert made.state["4"].gaps == ("3.2",)
    assert made.state["3.2"].reason == "skip by rule 'low priority': refused after 1 try"


def test_002_12_c_a_failed_verification_stops_the_flow_until_someone_decides() -> None:
    graph = steps(
        ("3.1", "", {"tool": "set"}), ("3.2", "", {"tool": "set"}), ("4", "3.1 3.2", {"is_critical": True}),
        ("5.1", "4"), ("aside", "3.1", {"priority": "low"}),
    )  # fmt: skip
    policy = FailurePolicy(name="c", rules=(Rule(name="stop", on_error="terminate", when=When(critical=True)),))
    made = runner(graph, {"4": failing("not_passed", "target missed")}, policy)
    assert made.statuses == {
        "3.1": "completed", "3.2": "completed", "4": "failed", "5.1": "blocked", "aside": "skipped",
    }  # fmt: skip
    assert made.state.status == "failed"
    assert made.state.stopped == "terminate by rule 'stop': not_passed after 1 try"
    made.state.restart(["3.1", "3.2", "4", "5.1", "aside"])
    assert made.state.next_ready() is graph.step("3.1")


# The affected part


def completed(graph: PlanGraph, *order: str, outputs: dict[str, Any] | None = None) -> PlanState:
    state = PlanState(graph)
    for name in order:
        state.start(name)
        state.complete(name, [ToolResult(True, data=(outputs or {}).get(name, {"order_id": name}))])
    return state


def test_undo_goes_in_reverse_order_of_completion_not_of_the_plan() -> None:
    made = {"tool": "create", "arguments": {"request": "R"}}
    graph = steps(("a", "", made), ("b", "", made), ("c", "", made), ("z", "a b c"))
    state = completed(graph, "b", "c", "a")
    assert [undo.step for undo in rollback_plan(graph, state, "z", TOOLS).undo] == ["a", "c", "b"]


def test_what_was_built_on_an_undone_effect_goes_too() -> None:
    made = {"tool": "create", "arguments": {"request": "R"}}
    graph = steps(("a", "", made), ("b", "a", made), ("c", "a"), ("d", "", made), ("e", "d", made))
    plan = rollback_plan(graph, completed(graph, "a", "b", "d", "e"), "c", TOOLS)
    assert [undo.step for undo in plan.undo] == ["b", "a"]
    assert plan.affected == ("a", "b", "c")


def test_back_to_a_step_or_a_layer() -> None:
    made = {"tool": "create", "arguments": {"request": "R"}}
    two = {**made, "layer": "two"}
    graph = steps(("a", "", made), ("b", "a", two), ("c", "a", two), ("d", "b c"), ("e", "d"))
    state = completed(graph, "a", "b", "c", "d")
    assert rollback_plan(graph, state, "e", TOOLS, "layer:two").affected == ("b", "c", "d", "e")
    assert rollback_plan(graph, state, "e", TOOLS, "c").affected == ("c", "d", "e")
    with pytest.raises(ValueError, match="'e' is not before step d"):
        rollback_plan(graph, state, "d", TOOLS, "e")
    with pytest.raises(ValueError, match="'layer:nine' is not before"):
        rollback_plan(graph, state, "d", TOOLS, "layer:nine")


def test_a_step_without_an_undo_is_in_the_list_with_the_reason() -> None:
    graph = steps(("mail", "", {"tool": "mail"}), ("lost", "", {"tool": "lost"}), ("broken", "", {"tool": "broken"}),
                  ("z", "mail lost broken"))  # fmt: skip
    plan = rollback_plan(graph, completed(graph, "mail", "lost", "broken", outputs={"broken": "text"}), "z", TOOLS)
    assert plan.undo == (
        StepUndo("broken", "cancel", problem="cancel needs order_id"),
        StepUndo("lost", None, problem="lost cannot be undone: it has no undo tool"),
        StepUndo("mail", None, problem="mail cannot be undone: it has no undo tool"),
    )


def test_nothing_to_undo_is_no_rollback() -> None:
    graph = steps(("a", "", {"tool": "read"}), ("b", "a", {"tool": "set"}), ("c", "b"))
    assert rollback_plan(graph, completed(graph, "a", "b"), "c", TOOLS) == RollbackPlan((), ("c",))


def test_every_call_of_a_map_step_is_undone_and_a_half_failed_one_as_far_as_it_went() -> None:
    mapped = {"kind": "map", "tool": "create", "over": ["R1", "R2", "R3"], "arguments": {"request": Reference(None)}}
    results = [ToolResult(True, data={"order_id": f"O{i}"}) for i in (1, 2)]
    graph = steps(("m", "", mapped), ("z", "m"))
    state = PlanState(graph)
    state.start("m")
    state.complete("m", [*results, ToolResult(True, data={"order_id": "O3"})])
    (undo,) = rollback_plan(graph, state, "z", TOOLS).undo
    assert [call["order_id"] for call in undo.calls] == ["O3", "O2", "O1"]

    half = PlanState(graph)
    half.start("m")
    half.fail("m", StepError("refused", "no"), results=[*results, failing("refused")])
    plan = rollback_plan(graph, half, "m", TOOLS)
    assert plan.undo == (
        StepUndo("m", "cancel", ({"order_id": "O2", "request": "R2"}, {"order_id": "O1", "request": "R1"})),
    )
    half.start_undo("m", "cancel")
    half.finish_undo("m", success=True)
    assert half["m"].status == "rolled_back"


def test_an_effect_of_which_nobody_knows_is_named_for_a_person() -> None:
    for tool, arguments in (("mail", {"order_id": "O1"}), ("broken", {}), ("lost", {})):
        graph = steps(("a", "", {"tool": tool, "arguments": arguments}))
        state = PlanState(graph)
        state.start("a")
        state.fail("a", StepError.of(failing("timed_out"), TOOLS[tool]), results=[failing("timed_out")])
        plan = rollback_plan(graph, state, "a", TOOLS)
        if tool == "broken":
            assert (plan.unsure, [undo.problem for undo in plan.undo]) == ((), ["cancel needs order_id"])
        else:
            assert (plan.unsure, plan.undo) == (("a",), ())


def test_an_effect_of_which_nobody_knows_is_undone_where_that_does_no_harm() -> None:
    graph = steps(("a", "", {"tool": "deduct", "arguments": {"order_id": "O1", "quantity": 2}}))
    state = PlanState(graph)
    state.start("a")
    lost = failing("timed_out")
    state.fail("a", StepError.of(lost, TOOLS["deduct"]), results=[lost])
    plan = rollback_plan(graph, state, "a", TOOLS)
    assert (plan.unsure, [(undo.tool, undo.calls) for undo in plan.undo]) == ((), [("restore", ({"order_id": "O1"},))])


def test_an_undo_tool_takes_what_it_needs_by_name() -> None:
    assert undo_arguments(TOOLS["cancel"], {"request": "R", "x": 1}, {"order_id": "O"}) == (
        {"order_id": "O", "request": "R"}, "",
    )  # fmt: skip
    assert undo_arguments(TOOLS["restore"], {"order_id": "from the call"}, "text") == (
        {"order_id": "from the call"},
        "",
    )
    assert undo_arguments(TOOLS["restore"], {}, None) == ({}, "order_id")


def test_an_unfinished_rollback_is_planned_again_for_the_rest_alone() -> None:
    made = {"tool": "create", "arguments": {"request": "R"}}
    graph = steps(("a", "", made), ("b", "a", made), ("c", "b"))
    state = completed(graph, "a", "b")
    state.start("c")
    state.fail("c", StepError("refused", "no"))
    state.start_rollback("c")
    state.start_undo("b", "cancel")
    state.finish_undo("b", success=True)
    again = PlanState.from_json(state.to_json())
    assert again.rollback == {"failed": "c", "back_to": None, "restart": False}
    assert [undo.step for undo in rollback_plan(again.graph, again, "c", TOOLS).undo] == ["a"]
    assert recover(again, TOOLS).kind == "recovered"


# 002.19: what is found after a restart


def found(*tools: str, running: tuple[str, ...] = (), done: tuple[str, ...] = ()) -> PlanState:
    graph = PlanGraph(tuple(PlanStep(str(i), tool=tool, arguments={"request": "R"}) for i, tool in enumerate(tools)))
    state = completed(graph, *done)
    for name in running:
        state.start(name)
    again = PlanState.from_json(state.to_json())
    again.interrupt()
    return again


def test_002_19_the_kinds_of_recovery() -> None:
    assert recover(None, TOOLS).kind == "unknown"
    assert recover(found("read", "read"), TOOLS).kind == "idle"
    assert recover(found("read", done=("0",)), TOOLS).kind == "completed"
    harmless = recover(found("read", "set", "read", running=("0", "1")), TOOLS)
    assert (harmless.kind, harmless.rerun, harmless.ask) == ("recovered", ("0", "1"), ())
    asked = recover(found("create", "read", running=("0", "1")), TOOLS)
    assert (asked.kind, asked.rerun, asked.ask) == ("cannot_recover", ("1",), ("0",))
    assert "took effect: 0" in asked.reason
    failed = found("read", "read", done=("0",))
    failed.fail("1", StepError("not_found", "no"))
    assert recover(failed, TOOLS) == recover(PlanState.from_json(failed.to_json()), TOOLS)
    assert (recover(failed, TOOLS).kind, recover(failed, TOOLS).reason) == ("cannot_recover", "the plan is partial")
    between = recover(found("read", "read", done=("0",)), TOOLS)
    assert (between.kind, between.reason) == ("recovered", "1 step is kept")


def test_an_undo_that_may_have_happened_needs_a_person() -> None:
    state = found("create", done=("0",))
    state.start_undo("0", "deduct")
    after = recover(PlanState.from_json(state.to_json()), TOOLS)
    assert (after.kind, after.open_undos, after.redo) == ("cannot_recover", ("0",), ())


def test_an_idempotent_undo_that_may_have_happened_is_made_again() -> None:
    state = found("create", done=("0",))
    state.start_undo("0", "cancel")
    after = recover(PlanState.from_json(state.to_json()), TOOLS)
    assert (after.kind, after.open_undos, after.redo) == ("recovered", (), ("0",))
    state.reopen_undo("0")
    assert recover(state, TOOLS).redo == ()
    state.start_undo("0", "cancel")
    state.finish_undo("0", success=True)
    assert [undo.state for undo in state["0"].undos] == ["interrupted", "done"]
    with pytest.raises(IllegalTransition, match="no undo of step 0 was started"):
        state.reopen_undo("0")


def test_goal_steps_may_have_done_anything_and_pure_ones_nothing() -> None:
    graph = steps(
        ("g", "", {"kind": "goal", "tool": None, "description": "x"}), ("c", "", {"kind": "collect", "tool": None})
    )
    state = PlanState(graph)
    state.start("g")
    state.start("c")
    state.interrupt()
    assert (recover(state, TOOLS).ask, recover(state, TOOLS).rerun) == (("g",), ("c",))
