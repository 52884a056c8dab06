"""The defects of the sources' code (requirements 1.6), as far as a plan and its state can have them."""

import inspect
import json
import random
import threading
from typing import Any

import pytest
from plan_runner import Runner, failing, scripted, steps

import agentlab.planning.state as state_module
from agentlab.environments.base import load_suite
from agentlab.errors import PlanError, UnresolvedReference
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import POLICIES, Backoff
from agentlab.planning.reading import read_plan
from agentlab.planning.recovery import recover
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import IllegalTransition, StepError, Transition
from agentlab.records import ToolResult
from agentlab.references import Reference
from agentlab.tasks import CriterionView
from agentlab.tools import Tool

SUITE = load_suite("orders")
TOOLS: tuple[Tool, ...] = tuple(SUITE.make_environment({}).tools())
SALES = {
    "type": "object",
    "properties": {"month": {"type": "string"}},
    "required": ["month"],
    "additionalProperties": False,
}
TOP: dict[str, Any] = {
    "type": "object",
    "properties": {"data": {}, "limit": {"type": "integer"}},
    "required": ["data", "limit"],
    "additionalProperties": False,
}
SALES_TOOLS = (Tool("query_sales_data", "", SALES), Tool("aggregate_and_sort", "", TOP))
DROPPED = StepError("connection_failed", "dropped", is_transient=True)


def text(*written: dict[str, Any]) -> str:
    return json.dumps(written, ensure_ascii=False)


def refused(written: str, tools: tuple[Tool, ...] = TOOLS, **options: Any) -> PlanError:
    with pytest.raises(PlanError) as caught:
        read_plan(written, tools, **options)
    return caught.value


def query(step_id: Any = "1", order_id: str = "ORDER1002", **fields: Any) -> dict[str, Any]:
    arguments = {"order_id": order_id}
    return {"id": step_id, "description": "look", "tool": "query_order_detail", "args": arguments, **fields}


def test_d01_a_cycle_is_found_and_an_open_plan_is_never_completed() -> None:
    error = refused(text(query(1, dependsOn=[3]), query(2, dependsOn=[1]), query(3, dependsOn=[2])))
    assert error.codes == ("cycle",)
    assert "1 -> 3 -> 2 -> 1" in str(error)
    state = PlanState(steps(("a", ""), ("b", "a")))
    seen = {state.status}
    state.start("a")
    seen.add(state.status)
    state.complete("a")
    seen.add(state.status)
    assert seen == {"executing"}
    assert PlanState(PlanGraph(())).status == "failed", "nothing was done, so nothing is completed"


def test_d02_a_double_id_is_called_one() -> None:
    error = refused(text(query(1), query(1)))
    assert error.codes == ("duplicate_id",)
    assert "the id 1 is used 2 times" in str(error)


def test_d03_one_grammar_by_id_whatever_the_output_is_called() -> None:
    written = text(
        {"id": 1, "tool": "query_sales_data", "args": {"month": "2026-10"}, "output": "sales_data"},
        {
            "id": 2,
            "tool": "aggregate_and_sort",
            "args": {"data": "$steps.1.output.rows[0]", "limit": 5},
            "dependsOn": [1],
        },
    )
    runner = Runner(read_plan(written, SALES_TOOLS), scripted({"1": ToolResult(True, data={"rows": [["A", 3]]})}))
    runner.run()
    assert dict(runner.calls)["2"] == {"data": ["A", 3], "limit": 5}
    error = refused(written.replace("$steps.1", "steps.7"), SALES_TOOLS)
    assert error.codes == ("unknown_reference",)
    assert "steps.7.output.rows[0]" in str(error)


def test_d04_a_reference_that_leads_nowhere_fails_its_step_and_the_plan_ends() -> None:
    graph = steps(("a", ""), ("b", "a", {"arguments": {"x": Reference("a", ("rows", 0))}}), ("c", "b"))
    runner = Runner(graph, scripted({"a": ToolResult(True, data={"rows": []})}))
    state = runner.run()
    assert runner.statuses == {"a": "completed", "b": "failed", "c": "blocked"}
    assert runner.executed == ["a"]
    assert (state.status, state.stuck(), state.current_steps) == ("partial", (), ())
    with pytest.raises(UnresolvedReference):
        state.inputs("b")


def test_d04_a_step_that_could_never_start_is_noticed() -> None:
    data = PlanState(steps(("a", ""), ("b", "a"))).to_json()
    data["steps"] = {"a": {"status": "failed"}}
    lost = PlanState.from_json(data)
    assert (lost.stuck(), lost.status) == (("b",), "executing")


def test_d05_dependents_of_a_failed_step_are_blocked_with_the_cause() -> None:
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "b")))
    state.start("a")
    state.fail("a", DROPPED)
    assert (state["b"].status, state["c"].status) == ("blocked", "blocked")
    assert state.cause_chain("c") == ("b", "a")


def test_d06_a_rollback_touches_the_affected_part_in_reverse_order_and_tells_every_outcome() -> None:
    write = Tool("work", "", {"type": "object", "properties": {"k": {}}}, effect="write", compensate="undo")
    tools = {"work": write, "undo": Tool("undo", "", {"type": "object", "properties": {"k": {}}})}
    one = {"arguments": {"k": 1}}
    graph = steps(("b", "a", one), ("a", "", one), ("other", "", one), ("c", "b", {"is_critical": True}), ("d", "c"))
    runner = Runner(graph, scripted({"c": failing("refused")}), "rollback_critical", tools)
    runner.run()
    assert [name for name, _ in runner.calls if name.startswith("undo")] == ["undo:b", "undo:a"]
    assert runner.statuses == {
        "b": "rolled_back", "a": "rolled_back", "other": "completed", "c": "failed", "d": "blocked",
    }  # fmt: skip
    nothing = Runner(
        steps(("a", ""), ("b", "a", {"is_critical": True})), scripted({"b": failing()}), "rollback_critical"
    )
    nothing.run()
    assert nothing.statuses == {"a": "completed", "b": "failed"}, "nothing had an undo, so nothing is rolled back"


def test_d06_dependents_of_a_skipped_step_follow_the_kind_of_their_dependency() -> None:
    graph = steps(("a", ""), ("strong", "a", {"arguments": {"x": Reference("a")}}), ("weak", "~a"))
    runner = Runner(graph, scripted({"a": failing()}), "rollback_critical")
    runner.run()
    assert runner.statuses == {"a": "skipped", "strong": "blocked", "weak": "completed"}


def test_d07_arguments_are_checked_against_the_schema_and_may_be_any_json() -> None:
    first = {"id": 1, "tool": "query_sales_data", "args": {"month": {"type": "literal", "value": "2026-10"}}}
    second = {"id": 2, "tool": "aggregate_and_sort", "args": {"data": {"type": "reference", "path": "steps.1.output"}}}
    error = refused(text(first, second), SALES_TOOLS)
    assert error.codes == ("missing_argument",)
    assert "limit" in str(error)
    data = [{"a": None, "b": [1, {"c": True}]}]
    second["args"] = {"data": {"type": "literal", "value": data}, "limit": {"type": "literal", "value": 5}}
    assert read_plan(text(first, second), SALES_TOOLS).step("2").arguments == {"data": data, "limit": 5}


def test_d08_a_fenced_reply_is_read_and_a_stringified_response_is_no_plan() -> None:
    assert len(read_plan(f"```json\n{text(query())}\n```", TOOLS)) == 1
    assert refused(json.dumps({"response": text(query()), "usage": {}})).codes == ("not_a_plan",)
    assert refused("[object Object]").codes == ("not_a_plan",)


def test_d09_state_and_changes_are_plain_json_with_nothing_left_out() -> None:
    state = PlanState(steps(("a", ""), ("b", "a")))
    changes = [*state.start("a"), *state.retry_later("a", DROPPED, 1.0), *state.wake("a"), *state.start("a")]
    changes += state.complete("a", [ToolResult(True, passed=False, data={"n": 1}, visible={"k": "failed"})])
    stored = json.dumps([change.to_json() for change in changes])
    again = PlanState(state.graph)
    for change in json.loads(stored):
        again.apply(Transition.from_json(change))
    assert json.loads(json.dumps(again.to_json())) == json.loads(json.dumps(state.to_json()))


def test_d10_failed_is_said_only_after_the_policy_had_its_say() -> None:
    runner = Runner(
        steps(("a", ""), ("b", "a")), scripted({"a": [failing("connection_failed"), ToolResult(True)]}), "default"
    )
    runner.run()
    passed_through = [change.after for group in runner.changes for change in group if change.step == "a"]
    assert passed_through == ["running", "retry_wait", "pending", "running", "completed"]
    assert runner.state.status == "completed"


@pytest.mark.parametrize("answer", [ToolResult(True), failing()])
def test_d11_every_plan_ends_in_a_final_state(answer: ToolResult) -> None:
    state = Runner(steps(("a", ""), ("b", "a")), scripted({"b": answer})).run()
    assert state.is_finished
    assert state.status in ("completed", "partial", "failed", "cancelled")
    assert state.next_ready() is None


def test_d12_the_number_of_the_try_travels_and_the_error_is_classified() -> None:
    seen: list[int] = []

    def call(name: str, arguments: dict[str, Any]) -> ToolResult:
        seen.append(runner.state[name].tries)
        return failing("connection_failed") if seen[-1] == 1 else ToolResult(True)

    runner = Runner(steps(("a", "")), call, "default")
    assert runner.run().status == "completed"
    assert seen == [1, 2]
    assert runner.actions[0].reason == "retry by rule 'retry': connection_failed after 1 try"
    assert POLICIES["default"].decide(
        PlanStep("a"), StepError("not_found", "no"), 1, runner.state.graph, runner.state
    ).kind == "block"  # fmt: skip


def test_d13_a_skipped_step_never_leaves_a_dependent_waiting() -> None:
    graph = steps(("3.2", "", {"priority": "low"}), ("strong", "3.2"), ("weak", "~3.2"))
    state = Runner(graph, scripted({"3.2": failing()}), "rollback_high").run()
    assert state.is_finished
    assert [state[step.id].status for step in graph.steps] == ["skipped", "blocked", "completed"]
    assert state["weak"].gaps == ("3.2",)


def test_d13_the_critical_path_is_judged_by_the_dependents() -> None:
    on_path = steps(("a", ""), ("b", "a", {"priority": "high"}))
    off_path = steps(("a", ""), ("b", "a"))
    for graph, kind in ((on_path, "terminate"), (off_path, "skip")):
        runner = Runner(graph, scripted({"a": failing()}), "skip_off_path")
        runner.run()
        assert runner.actions[0].kind == kind


def test_d14_one_table_decides_and_high_priority_does_roll_back() -> None:
    graph = steps(("a", "", {"priority": "high"}))
    runner = Runner(graph, scripted({"a": failing()}), "rollback_high")
    runner.run()
    assert [(action.kind, action.rule) for action in runner.actions] == [("rollback", "high priority")]


def test_d16_result_and_status_are_one_record_and_come_from_one_thread() -> None:
    state = PlanState(steps(("a", "")))
    state.start("a")
    seen: list[tuple[str, Any]] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            record = state["a"]
            seen.append((record.status, record.output))

    watcher = threading.Thread(target=watch)
    watcher.start()
    state.complete("a", [ToolResult(True, data="out")])
    while ("completed", "out") not in seen[-50:]:
        pass
    stop.set()
    watcher.join()
    assert set(seen) <= {("running", None), ("completed", "out")}
    writes = [
        line for line in inspect.getsource(state_module).splitlines() if "self._steps[" in line and "] = " in line
    ]
    assert len(writes) == 1, "one place writes"


def test_d17_a_missing_dependency_is_refused_before_anything_runs() -> None:
    error = refused(text(query(1, dependsOn=["task_9"]), query(2, weak_dependencies=["task_8"])))
    assert error.codes == ("unknown_dependency", "unknown_dependency")
    assert "task_9" in str(error)
    assert "task_8" in str(error)


def test_d18_recovery_reads_what_was_stored_and_cancelled_is_a_state() -> None:
    tools = {"work": Tool("work", "", {})}
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "")))
    state.start("a")
    state.fail("a", DROPPED)
    state.start("c")
    again = PlanState.from_json(json.loads(json.dumps(state.to_json())))
    again.interrupt()
    assert recover(again, tools).kind == "recovered", "what was running is not idle"
    again.rerun("c")
    again.start("c")
    again.complete("c")
    assert recover(again, tools).kind == "cannot_recover", "what has failed is not completed"
    stopped = PlanState(state.graph)
    stopped.start("c")
    stopped.cancel("stopped by a person")
    assert (stopped.status, stopped["c"].status) == ("cancelled", "cancelled")
    with pytest.raises(IllegalTransition):
        stopped.fail("c", DROPPED)


def test_d19_a_restart_is_no_undo_and_never_touches_what_runs() -> None:
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "a")))
    state.start("a")
    state.complete("a", [ToolResult(True, data=1)])
    state.start("b")
    with pytest.raises(IllegalTransition, match="step b is running"):
        state.restart(["a", "b", "c"])
    state.retry_later("b", DROPPED, 1.0, tries=3)
    before = state.to_json()
    log = state.restart(["a", "b", "c"])
    assert [change.step for change in log] == ["a", "b"]
    assert (state["b"].tries, state["a"].undos, state["a"].restarts) == (0, (), 1)
    again = PlanState.from_json(before)
    for change in log:
        again.apply(change)
    assert again.to_json() == state.to_json()


def test_d20_what_was_running_at_a_crash_is_neither_failed_nor_simply_repeated() -> None:
    tools = {"read": Tool("read", "", {}), "pay": Tool("pay", "", {}, effect="irreversible")}
    state = PlanState(steps(("r", "", {"tool": "read"}), ("p", "", {"tool": "pay"})))
    state.start("r")
    state.start("p")
    again = PlanState.from_json(state.to_json())
    again.interrupt()
    assert (again["r"].status, again["p"].status) == ("interrupted", "interrupted")
    found = recover(again, tools)
    assert (found.rerun, found.ask) == (("r",), ("p",))


def test_d21_waits_have_a_cap_and_a_jitter_and_no_worker_is_no_error() -> None:
    backoff = Backoff()
    delays = [backoff.delay_s(tries, step) for tries in range(1, 40) for step in ("a", "b")]
    assert max(delays) <= backoff.cap_s
    assert len(set(delays)) == len(delays)
    state = PlanState(steps(("a", "", {"priority": "low"}), ("b", "", {"priority": "high", "worker_type": "db"})))
    busy = state.next_ready(lambda step: step.worker_type != "db")
    assert busy is not None
    assert busy.id == "a"
    first = state.next_ready()
    assert first is not None
    assert first.id == "b", "priority is used"


def test_d22_domain_rules_schemas_and_odd_items_are_problems_of_the_plan() -> None:
    criteria = [CriterionView(name="amount_valid", subject="ORDER1002", description="")]
    criteria.append(CriterionView(name="status_valid", subject="ORDER1002", description=""))
    amount = query(2, tool="check_order_amount", description="")
    error = refused(text(query(1), amount), rules=SUITE.rules, criteria=criteria)
    assert sorted(error.codes) == ["missing_check", "missing_description", "missing_edge"]
    assert "status_valid@ORDER1002" in str(error)
    owner = query(2, tool="check_order_owner", args={"order_id": "O", "user_id": "U"}, depends_on=[1])
    assert read_plan(text(query(1), owner), TOOLS).step("2").arguments["user_id"] == "U"
    assert refused('[{"id": 1, "tool": "query_order_detail", "args": {"order_id": "O"}}, "check it"]').codes == (
        "not_an_object",
    )


def test_d23_both_axes_are_counted_whatever_else_failed() -> None:
    graph = steps(("amount", ""), ("status", ""), ("query", ""), ("other", "query"))
    script = {
        "amount": ToolResult(True, passed=False),
        "status": ToolResult(True, passed=True),
        "query": failing("not_found"),
    }
    state = Runner(graph, scripted(script)).run()
    counts = state.counts()
    assert (counts["completed"], counts["failed"], counts["blocked"]) == (2, 1, 1)
    assert state.business_counts() == {"passed": 1, "failed": 1}
    assert state.checks_not_passed() == ("amount",)


def test_d24_a_check_for_every_order_of_a_user_in_seven_steps() -> None:
    def check(step_id: str, tool: str) -> dict[str, Any]:
        return {
            "id": step_id,
            "description": step_id,
            "tool": tool,
            "over": "$found.orders",
            "args": {"order_id": "item.order_id"},
        }

    def user(step_id: str, tool: str, *before: str, **fields: Any) -> dict[str, Any]:
        arguments = {"user_id": "USER001"}
        return {
            "id": step_id,
            "description": step_id,
            "tool": tool,
            "args": arguments,
            "dependsOn": [*before],
            **fields,
        }

    written = text(
        user("user", "query_user"),
        user("valid", "check_user_valid", "user"),
        user("orders", "query_user_orders", "valid", output="found"),
        check("amounts", "check_order_amount"),
        check("statuses", "check_order_status"),
        {
            "id": "abnormal",
            "kind": "collect",
            "description": "odd",
            "args": {"amounts": "$amounts", "statuses": "$statuses"},
        },
        {"id": "report", "kind": "report", "description": "report", "dependsOn": ["abnormal"]},
    )
    criteria = [
        CriterionView(name=name, subject="USER001", description="")
        for name in ("user_valid", "amount_valid", "status_valid")
    ]
    graph = read_plan(written, TOOLS, rules=SUITE.rules, criteria=criteria)
    ids = ["ORDER1001", "ORDER1002", "ORDER1003"]
    script = {"orders": ToolResult(True, data={"orders": [{"order_id": order} for order in ids]})}
    runner = Runner(graph, scripted(script))
    assert runner.run().status == "completed"
    assert [arguments["order_id"] for name, arguments in runner.calls if name == "amounts"] == ids
    assert len(graph) == 7
    assert graph.waves() == (
        ("user",), ("valid",), ("orders",), ("amounts", "statuses"), ("abnormal",), ("report",),
    )  # fmt: skip


def test_blocking_does_not_depend_on_chance() -> None:
    rng = random.Random(1)
    graph = steps(*((str(i), " ".join(str(j) for j in range(i) if rng.random() < 0.1)) for i in range(40)))
    failed = {str(i) for i in range(0, 40, 7)}
    runs = [Runner(graph, scripted(dict.fromkeys(failed, failing()))) for _ in range(2)]
    assert runs[0].run().to_json() == runs[1].run().to_json()
