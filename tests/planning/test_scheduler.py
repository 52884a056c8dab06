"""The scheduler alone: steps are functions of the test, so every order and every end can be brought about."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_runner import failing, steps

from agentlab.errors import BudgetExceeded, Interrupted
from agentlab.planning.outcomes import Approve, Ended, StepOutcome, digest_of
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import Action, Backoff, FailurePolicy, Rule, When, load_policy
from agentlab.planning.report import changed_facts, plan_report
from agentlab.planning.scheduler import Scheduler
from agentlab.planning.state import Changes, PlanState
from agentlab.planning.step_state import Transition
from agentlab.records import JsonObject, ToolResult
from agentlab.references import Reference
from agentlab.tools import Tool

ANY: JsonObject = {"type": "object", "properties": {"k": {}}}
TOOLS = {
    "work": Tool("work", "", {}),
    "write": Tool("write", "", ANY, effect="write", compensate="undo"),
    "plain_write": Tool("plain_write", "", ANY, effect="write"),
    "mail": Tool("mail", "", {}, effect="irreversible"),
    "undo": Tool("undo", "", ANY, effect="idempotent"),
}
WRITE = {"tool": "write", "arguments": {"k": 1}}
NOT_PASSED = ToolResult(True, passed=False, check="c", subject="s")
DROPPED = failing("connection_failed", "dropped")


class Plan:
    """A scheduler over functions of the test; keeps what was executed, recorded, decided and waited for."""

    def __init__(
        self,
        graph: PlanGraph,
        results: Mapping[str, ToolResult | list[ToolResult]] | None = None,
        policy: str | FailurePolicy = "block",
        *,
        parallelism: int = 1,
        before: Callable[[PlanStep], Awaitable[None]] | None = None,
        undo: Callable[[str], ToolResult] = lambda step: ToolResult(True),
        state: PlanState | None = None,
        rescue: Callable[[PlanStep], ToolResult] | None = None,
        approve: Approve | None = None,
    ) -> None:
        self.state = state or PlanState(graph)
        self.executed: list[str] = []
        self.calls: list[list[JsonObject]] = []
        self.undone: list[str] = []
        self.changes: list[Transition] = []
        self.groups: list[list[tuple[str | None, str]]] = []
        self.told: list[tuple[str, Action]] = []
        self.waits: list[float] = []
        self.n_running = self.most_running = 0
        self._left = {k: list(v) if isinstance(v, list) else [v] for k, v in (results or {}).items()}
        self._before, self._undo, self._rescue = before, undo, rescue
        self.scheduler = Scheduler(
            self.state, TOOLS, load_policy(policy), self._run, self._run_undo, self._record,
            parallelism=parallelism, sleep=self._sleep, told=lambda step, action: self.told.append((step, action)),
            rescue=self._rescued if rescue else None,
            approve=approve,
        )  # fmt: skip

    def run(self) -> Ended:
        return asyncio.run(self.scheduler.run())

    @property
    def statuses(self) -> dict[str, str]:
        return {step.id: self.state[step.id].status for step in self.state.graph.steps}

    async def _run(self, step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        self.executed.append(step.id)
        self.calls.append(list(calls))
        self.n_running += 1
        self.most_running = max(self.most_running, self.n_running)
        try:
            if self._before is not None:
                await self._before(step)
            answers = self._left.get(step.id, [ToolResult(True)])
            return StepOutcome((answers.pop(0) if len(answers) > 1 else answers[0],))
        finally:
            self.n_running -= 1

    async def _run_undo(self, step: PlanStep, tool: str, arguments: JsonObject) -> ToolResult:
        self.undone.append(step.id)
        return self._undo(step.id)

    async def _rescued(self, step: PlanStep, outcome: StepOutcome) -> StepOutcome:
        assert self._rescue is not None
        return StepOutcome((self._rescue(step),), outcome.tries + 1)

    async def _sleep(self, delay_s: float) -> None:
        self.waits.append(delay_s)
        await asyncio.sleep(0)

    def _record(self, changes: Changes) -> None:
        self.changes += changes
        self.groups.append([(change.step, change.after) for change in changes])


def numbered(n: int) -> PlanGraph:
    return steps(*((str(i), "") for i in range(n)))


# Order and parallelism


def test_one_step_at_a_time_in_the_order_of_the_plan() -> None:
    rows = [("c", "a b"), ("b", "a"), ("a", ""), ("d", ""), ("e", "d", {"priority": "high"})]
    plan = Plan(steps(*rows))
    assert plan.run() == Ended("finished")
    assert plan.executed == ["a", "b", "c", "d", "e"]
    assert plan.most_running == 1
    again = Plan(steps(*rows))
    again.run()
    assert [(c.step, c.after) for c in again.changes] == [(c.step, c.after) for c in plan.changes]


@pytest.mark.parametrize("parallelism", [2, 4, 50])
def test_as_many_steps_as_allowed_really_overlap(parallelism: int) -> None:
    graph = numbered(12)
    together = min(parallelism, 12)

    async def body() -> Plan:
        gate = asyncio.Barrier(together)

        async def meet(step: PlanStep) -> None:
            if int(step.id) < together:
                await asyncio.wait_for(gate.wait(), 5)

        plan = Plan(graph, parallelism=parallelism, before=meet)
        await plan.scheduler.run()
        return plan

    plan = asyncio.run(body())
    assert (plan.most_running, plan.state.status) == (together, "completed")


def test_a_fast_branch_goes_on_while_a_slow_step_runs() -> None:
    graph = steps(("slow", ""), ("fast1", ""), ("fast2", "fast1"), ("fast3", "fast2"))

    async def body() -> Plan:
        done = asyncio.Event()

        async def wait(step: PlanStep) -> None:
            if step.id == "slow":
                # In batches fast2 would wait for slow, and slow for ever.
                await asyncio.wait_for(done.wait(), 5)
            if step.id == "fast3":
                done.set()

        plan = Plan(graph, parallelism=2, before=wait)
        await plan.scheduler.run()
        return plan

    assert asyncio.run(body()).state.status == "completed"


def test_d15_a_worker_gets_its_next_step_only_when_it_is_free() -> None:
    db = {"worker_type": "db"}
    graph = steps(("1", "", db), ("2", "", db), ("3", "", {"worker_type": "cache"}), ("4", "", db), ("5", ""))
    busy: list[str | None] = []
    overlaps: list[str | None] = []

    async def work(step: PlanStep) -> None:
        if step.worker_type in busy:
            overlaps.append(step.worker_type)
        busy.append(step.worker_type)
        await asyncio.sleep(0.001)
        busy.remove(step.worker_type)

    plan = Plan(graph, parallelism=4, before=work)
    plan.run()
    assert plan.state.status == "completed"
    assert overlaps == []
    assert (plan.most_running, plan.executed) == (3, ["1", "3", "5", "2", "4"])


# A failing step


def test_e06_one_of_several_parallel_branches_fails() -> None:
    effects: list[str] = []
    running: set[str] = set()

    async def wait(step: PlanStep) -> None:
        running.add(step.id)
        await asyncio.sleep({"A": 0.01, "B": 0.05}.get(step.id, 0))
        if step.id == "B":
            effects.append("B")
        running.discard(step.id)

    graph = steps(("A", ""), ("B", ""), ("C", "A"), ("D", "B"))
    plan = Plan(graph, {"A": failing(), "B": ToolResult(True, data=5)}, parallelism=2, before=wait)
    assert plan.run() == Ended("finished")
    assert plan.statuses == {"A": "failed", "B": "completed", "C": "blocked", "D": "completed"}
    assert plan.state["C"].cause == "A"
    assert (plan.state.status, plan.state["B"].output, effects, running) == ("partial", 5, ["B"], set())
    assert "C" in plan_report(plan.state).splitlines()[-1]


@pytest.mark.parametrize("policy", ["block", "default"])
def test_an_argument_that_leads_nowhere_fails_the_step_and_nothing_is_called(policy: str) -> None:
    graph = steps(("a", ""), ("b", "a", {"arguments": {"x": Reference("a", ("y",))}}), ("c", "b"), ("d", ""))
    plan = Plan(graph, {"a": ToolResult(True, data={})}, policy)
    plan.run()
    assert plan.executed == ["a", "d"]
    assert plan.statuses == {"a": "completed", "b": "failed", "c": "blocked", "d": "completed"}
    assert plan.state["b"].tries == 0
    assert plan.state.current_steps == ()


def test_the_policy_has_its_say_about_an_argument_that_leads_nowhere() -> None:
    lost = {"arguments": {"x": Reference("a", ("y",))}, "is_critical": True}
    graph = steps(("w", "", WRITE), ("a", "w"), ("b", "a", lost))
    plan = Plan(graph, {"a": ToolResult(True, data={})}, "rollback_critical")
    plan.run()
    assert plan.statuses == {"w": "rolled_back", "a": "completed", "b": "failed"}
    eager = FailurePolicy(name="p", rules=(Rule(name="again", on_error="retry", only_transient=False),))
    plan = Plan(graph, {"a": ToolResult(True, data={})}, eager)
    plan.run()
    assert (plan.statuses["b"], plan.waits) == ("failed", [])


def test_a_retry_is_a_timer_and_other_steps_run_meanwhile() -> None:
    policy = FailurePolicy(name="p", rules=(Rule(name="r", on_error="retry", attempts=4, backoff=Backoff(cap_s=1.0)),))
    plan = Plan(steps(("a", ""), ("b", ""), ("c", "a")), {"a": [DROPPED, DROPPED, DROPPED, ToolResult(True)]}, policy)
    assert plan.run() == Ended("finished")
    assert plan.executed == ["a", "b", "a", "a", "a", "c"], "b does not wait for the retry of a"
    assert (plan.state["a"].tries, plan.state.status) == (4, "completed")
    delays = [0.5, 1.0, 1.0]
    assert len(plan.waits) == 3
    assert all(0 < wait <= delay for wait, delay in zip(plan.waits, delays, strict=True))
    assert "failed" not in [change.after for change in plan.changes], "failed is said after the policy ran"
    assert [action.kind for _, action in plan.told] == ["retry"] * 3


def test_what_may_have_happened_is_not_tried_again() -> None:
    plan = Plan(steps(("a", "", WRITE)), {"a": failing("timed_out")}, "default")
    plan.run()
    assert plan.executed == ["a"]
    assert "Unknown whether it took effect: a" in plan_report(plan.state)


def test_a_skipped_step_blocks_strong_dependents_and_leaves_weak_ones_a_gap() -> None:
    graph = steps(("a", "", {"priority": "low"}), ("strong", "a"), ("weak", "~a"))
    plan = Plan(graph, {"a": failing("refused")}, "rollback_high")
    plan.run()
    assert plan.statuses == {"a": "skipped", "strong": "blocked", "weak": "completed"}
    assert plan.state["weak"].gaps == ("a",)


@pytest.mark.parametrize("wish", ["terminate", "escalate"])
def test_terminate_and_escalate_start_nothing_more_and_keep_what_runs(wish: str) -> None:
    async def wait(step: PlanStep) -> None:
        await asyncio.sleep(0.02 if step.id == "slow" else 0)

    graph = steps(("a", "", {"on_error": wish}), ("slow", ""), ("later", ""))
    plan = Plan(graph, {"a": failing("refused", "no")}, parallelism=2, before=wait)
    ended = plan.run()
    assert plan.statuses == {"a": "failed", "slow": "completed", "later": "skipped"}
    assert (ended.kind, ended.step) == (("escalate", "a") if wish == "escalate" else ("finished", None))
    assert plan.state.status == ("failed" if wish == "terminate" else "awaiting_approval")
    together = next(group for group in plan.groups if ("a", "failed") in group)
    assert ("later", "skipped") in together, "failure and decision are one transaction"


def test_after_a_stop_nothing_is_tried_again() -> None:
    async def wait(step: PlanStep) -> None:
        await asyncio.sleep(0.02 if step.id == "slow" else 0)

    policy = FailurePolicy(name="p", rules=(
        Rule(name="stop", on_error="terminate", when=When(critical=True)), Rule(name="retry", on_error="retry"),
    ))  # fmt: skip
    graph = steps(("a", "", {"is_critical": True}), ("slow", ""))
    plan = Plan(graph, {"a": failing("refused"), "slow": DROPPED}, policy, parallelism=2, before=wait)
    plan.run()
    assert plan.executed == ["a", "slow"]
    assert plan.statuses == {"a": "failed", "slow": "failed"}


def test_a_replan_waits_for_what_runs_and_is_in_the_journal() -> None:
    async def wait(step: PlanStep) -> None:
        await asyncio.sleep(0.02 if step.id == "slow" else 0)

    graph = steps(("a", "", {"on_error": "replan"}), ("slow", ""), ("b", "a"), ("later", ""))
    plan = Plan(graph, {"a": failing("refused")}, parallelism=2, before=wait)
    ended = plan.run()
    assert (ended.kind, ended.step) == ("replan", "a")
    assert plan.statuses == {"a": "failed", "slow": "completed", "b": "blocked", "later": "pending"}
    assert (plan.state.status, plan.state.applied) == ("replanning", {"plan:a": 1})
    resumed = Plan(graph, state=PlanState.from_json(plan.state.to_json()))
    assert (resumed.run().kind, resumed.executed) == ("replan", [])


# Rollback


def test_a_rollback_touches_the_affected_part_in_reverse_order_of_completion() -> None:
    graph = steps(
        ("2", "", WRITE), ("1", "", {**WRITE, "priority": "high"}), ("other", "", WRITE),
        ("3", "1 2", {**WRITE, "is_critical": True}), ("4", "3"), ("free", "other", {"priority": "low"}),
    )  # fmt: skip
    plan = Plan(graph, {"3": failing("refused")}, "rollback_critical")
    assert plan.run() == Ended("finished")
    assert plan.undone == ["2", "1"]
    assert plan.statuses == {
        "2": "rolled_back", "1": "rolled_back", "other": "completed", "3": "failed", "4": "blocked",
        "free": "completed",
    }  # fmt: skip
    assert plan.state.rollback is None
    assert [undo.state for undo in plan.state["1"].undos] == ["done"]
    assert next(group for group in plan.groups if ("3", "failed") in group)[-1] == (None, "executing")


def test_e07_the_rollback_itself_fails() -> None:
    graph = steps(
        ("1", "", WRITE), ("2", "1", WRITE), ("3", "2", WRITE), ("4", "3", {**WRITE, "is_critical": True}), ("5", "4")
    )
    broken = failing("tool_failed", "the undo raised")
    plan = Plan(
        graph, {"4": failing("refused")}, "rollback_critical", undo=lambda s: broken if s == "2" else ToolResult(True)
    )
    plan.run()
    assert plan.undone == ["3", "2", "1"]
    assert [plan.statuses[name] for name in "12345"] == [
        "rolled_back", "rollback_failed", "rolled_back", "failed", "blocked",
    ]  # fmt: skip
    assert plan.state.status == "failed"
    report = plan_report(plan.state)
    assert "Rollback incomplete: 2;" in report
    assert "undo with undo failed: the undo raised" in report


def test_a_restart_runs_the_undone_part_again_a_bounded_number_of_times() -> None:
    rule = Rule(name="again", on_error="rollback", back_to="1", restart=True, limit=1)
    graph = steps(("0", "", WRITE), ("1", "0", WRITE), ("2", "1"), ("3", "2"))
    plan = Plan(graph, {"2": [failing("refused"), ToolResult(True)]}, FailurePolicy(name="p", rules=(rule,)))
    plan.run()
    assert plan.executed == ["0", "1", "2", "1", "2", "3"]
    assert (plan.undone, plan.state.status, plan.state["1"].restarts) == (["1"], "completed", 1)
    hopeless = Plan(graph, {"2": failing("refused")}, FailurePolicy(name="p", rules=(rule,)))
    hopeless.run()
    assert (hopeless.executed.count("2"), hopeless.state.status) == (2, "partial")


def test_two_failures_at_once_are_both_rolled_back() -> None:
    critical = {**WRITE, "is_critical": True}
    graph = steps(("1", "", WRITE), ("2", "", WRITE), ("3", "1", critical), ("4", "2", critical))
    plan = Plan(graph, {"3": failing("refused"), "4": failing("refused")}, "rollback_critical", parallelism=2)
    plan.run()
    assert plan.statuses == {"1": "rolled_back", "2": "rolled_back", "3": "failed", "4": "failed"}
    assert sorted(plan.undone) == ["1", "2"]


def test_a_rollback_that_was_cut_short_goes_on() -> None:
    graph = steps(("1", "", WRITE), ("2", "1", WRITE), ("3", "2", {**WRITE, "is_critical": True}))
    plan = Plan(graph, {"3": failing("refused")}, "rollback_critical")

    def die(step: str) -> ToolResult:
        raise Interrupted("stopped")

    plan._undo = lambda step: ToolResult(True) if step == "2" else die(step)
    with pytest.raises(Interrupted):
        plan.run()
    assert plan.state["1"].is_undo_open
    state = PlanState.from_json(plan.state.to_json())
    state.finish_undo("1", success=False, message="a person looked: it had not happened")
    resumed = Plan(graph, state=state)
    resumed.run()
    assert resumed.undone == []
    assert resumed.statuses == {"1": "rollback_failed", "2": "rolled_back", "3": "failed"}
    assert resumed.state.rollback is None


@pytest.mark.parametrize("second", ["rollback", "replan"])
def test_no_decision_is_lost_when_a_rollback_is_cut_short(second: str) -> None:
    graph = steps(
        ("1", "", WRITE), ("2", "", WRITE), ("3", "1", {**WRITE, "on_error": "rollback"}),
        ("4", "2", {**WRITE, "on_error": second}),
    )  # fmt: skip
    plan = Plan(graph, {"3": failing("refused"), "4": failing("refused")}, parallelism=2)

    def die(step: str) -> ToolResult:
        raise Interrupted("stopped")

    plan._undo = die
    with pytest.raises(Interrupted):
        plan.run()
    state = PlanState.from_json(plan.state.to_json())
    assert [decision["step"] for decision in state.decisions] == ["3", "4"]
    state.reopen_undo("1")
    resumed = Plan(graph, state=state)
    ended = resumed.run()
    if second == "rollback":
        assert (resumed.undone, ended.kind) == (["1", "2"], "finished")
    else:
        assert (resumed.undone, ended.kind, ended.step) == (["1"], "replan", "4")
    assert state.decisions == ()


def test_a_rollback_goes_on_where_the_next_undo_had_not_begun() -> None:
    graph = steps(("1", "", WRITE), ("2", "1", WRITE), ("3", "2", {**WRITE, "is_critical": True}))
    plan = Plan(graph, {"3": failing("refused")}, "rollback_critical")
    plan.run()
    state = PlanState(graph)
    for change in plan.changes:
        if change.step == "1" and "undos" in change.changes:
            break
        state.apply(change)
    resumed = Plan(graph, state=state)
    resumed.run()
    assert (plan.undone, resumed.undone, resumed.statuses) == (["2", "1"], ["1"], plan.statuses)


# Gate and rescue


@pytest.mark.parametrize(
    ("check", "is_sent"),
    [
        (ToolResult(True, passed=True), True),
        (NOT_PASSED, False),
        (ToolResult(True, visible={"c@s": "failed"}), False),
        (ToolResult(True, visible={"c@s": "passed"}), True),
    ],
)
def test_what_cannot_be_undone_is_not_done_after_a_check_that_did_not_pass(check: ToolResult, is_sent: bool) -> None:
    graph = steps(
        ("check", ""), ("other", ""), ("step", "check"), ("mail", "step other", {"tool": "mail"}), ("end", "")
    )
    plan = Plan(graph, {"check": check})
    plan.run()
    assert ("mail" in plan.executed) == is_sent
    assert plan.state.status == "completed"
    if not is_sent:
        assert plan.state["mail"].reason == "check check did not pass, so this was not done"
        assert [(step, action.kind, action.rule) for step, action in plan.told] == [("mail", "skip", "gate")]


@pytest.mark.parametrize("passed", [(False, True), (True, False), (True, True)])
def test_one_entry_of_a_map_step_that_did_not_pass_keeps_the_gate_shut(passed: tuple[bool, bool]) -> None:
    graph = steps(("check", "", {"kind": "map", "over": [1, 2]}), ("mail", "check", {"tool": "mail"}))
    plan = Plan(graph)
    results = [ToolResult(True, passed=each, check="c") for each in passed]
    plan.state.start("check")
    plan.state.complete("check", results)
    plan.run()
    assert (plan.executed == ["mail"]) == all(passed)


def test_the_last_result_of_a_check_opens_the_gate_again() -> None:
    passed = ToolResult(True, passed=True, check="c", subject="s")
    graph = steps(("check", ""), ("fix", "check"), ("again", "fix"), ("mail", "again", {"tool": "mail"}))
    plan = Plan(graph, {"check": NOT_PASSED, "again": passed})
    plan.run()
    assert plan.statuses["mail"] == "completed"
    plan = Plan(graph, {"check": passed, "again": NOT_PASSED})
    plan.run()
    assert plan.statuses["mail"] == "skipped"


# Approvals


class Person:
    """Decides about steps with the tool `mail`: by step, what is said the first time, the second time, ..."""

    def __init__(self, **decisions: list[bool | None]) -> None:
        self.decisions = decisions
        self.asked: list[str] = []
        self.approved: set[str] = set()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def is_needed(self, step: PlanStep, calls: Sequence[JsonObject]) -> bool:
        return step.tool == "mail" and digest_of(step, calls) not in self.approved

    async def ask(self, step: PlanStep, calls: Sequence[JsonObject]) -> bool | None:
        self.asked.append(step.id)
        await self.may_answer.wait()
        decision = self.decisions[step.id].pop(0)
        if decision:
            self.approved.add(digest_of(step, calls))
        return decision


MAIL = {"tool": "mail"}


def test_an_approved_step_runs_once_and_others_do_not_wait_for_it() -> None:
    person = Person(mail=[True])
    person.may_answer.clear()

    async def before(step: PlanStep) -> None:
        if step.id == "2":
            person.may_answer.set()

    graph = steps(("mail", "", MAIL), ("1", ""), ("2", "1"), ("end", "mail"))
    plan = Plan(graph, approve=person, before=before)
    plan.run()
    assert plan.executed == ["1", "2", "mail", "end"]
    moves = [(c.before, c.after) for c in plan.changes if c.step == "mail"]
    assert moves == [
        ("pending", "awaiting_approval"), ("awaiting_approval", "pending"), ("pending", "running"),
        ("running", "completed"),
    ]  # fmt: skip
    assert (person.asked, plan.state["mail"].approval) == (["mail"], None)


def test_a_refused_step_goes_to_the_policy_and_is_never_tried_again() -> None:
    graph = steps(("mail", "", {**MAIL, "on_error": "retry"}), ("2", "mail"), ("3", ""))
    plan = Plan(graph, policy="default", approve=Person(mail=[False]))
    plan.run()
    assert plan.statuses == {"mail": "failed", "2": "blocked", "3": "completed"}
    assert plan.state.explain("mail") == "not_approved: a person did not approve mail"
    skipped = Plan(steps(("mail", "", {**MAIL, "on_error": "skip"})), approve=Person(mail=[False]))
    skipped.run()
    assert skipped.statuses == {"mail": "skipped"}


def test_without_an_answer_the_rest_is_done_and_a_later_run_asks_again() -> None:
    graph = steps(("mail", "", MAIL), ("1", ""), ("end", "mail"))
    plan = Plan(graph, approve=Person(mail=[None]))
    ended = plan.run()
    assert (ended.kind, ended.step, plan.executed) == ("escalate", "mail", ["1"])
    assert plan.state.status == "awaiting_approval"
    state = PlanState.from_json(plan.state.to_json())
    assert state["mail"].approval == digest_of(graph.step("mail"), [{}])
    later = Plan(graph, state=state, approve=Person(mail=[True]))
    assert later.run().kind == "finished"
    assert (later.executed, later.state.status) == (["mail", "end"], "completed")


def test_a_plan_that_is_stopped_waits_for_nobody() -> None:
    person = Person(mail=[True])
    person.may_answer.clear()
    graph = steps(("mail", "", MAIL), ("1", "", {"on_error": "terminate"}))
    plan = Plan(graph, {"1": failing()}, approve=person)
    plan.run()
    assert plan.statuses == {"mail": "skipped", "1": "failed"}


# Checks that did not pass


@pytest.mark.parametrize(
    ("check", "statuses"),
    [
        (ToolResult(True, passed=True), {"good": "completed", "bad": "skipped", "more": "skipped"}),
        (NOT_PASSED, {"good": "skipped", "bad": "completed", "more": "completed"}),
        (ToolResult(True, visible={"c@s": "failed"}), {"good": "skipped", "bad": "completed", "more": "completed"}),
        (ToolResult(True), {"good": "completed", "bad": "skipped", "more": "skipped"}),
        (failing(), {"good": "blocked", "bad": "blocked", "more": "blocked"}),
    ],
    ids=["passed", "not passed", "visible", "no check", "could not check"],
)
def test_a_step_with_a_condition_runs_for_its_outcome_alone(check: ToolResult, statuses: dict[str, str]) -> None:
    graph = steps(
        ("good", "", {"only_if_passed": ("check",)}), ("bad", "", {"only_if_not_passed": ("check", "other")}),
        ("more", "bad"), ("check", ""), ("other", ""),
    )  # fmt: skip
    plan = Plan(graph, {"check": check})
    plan.run()
    assert {name: plan.statuses[name] for name in statuses} == statuses
    assert plan.state.status == ("completed" if check.success else "partial")


def test_why_a_step_was_not_needed_is_told() -> None:
    graph = steps(("check", ""), ("back", "", {"only_if_not_passed": ("check",)}), ("more", "back"))
    plan = Plan(graph, {"check": ToolResult(True, passed=True)})
    plan.run()
    assert plan.state.explain("back") == "only if a check of check does not pass, and none did"
    assert plan.state.explain("more") == "step back was not needed"


def test_a_check_that_did_not_pass_undoes_what_the_plan_says() -> None:
    ask = {"on_not_passed": "rollback", "back_to": "2"}
    graph = steps(("1", "", WRITE), ("2", "1", WRITE), ("check", "2", ask), ("4", "2", WRITE), ("end", "1"))
    plan = Plan(graph, {"check": NOT_PASSED})
    plan.run()
    assert plan.statuses == {
        "1": "completed", "2": "rolled_back", "check": "completed", "4": "blocked", "end": "completed",
    }  # fmt: skip
    assert plan.undone == ["2"]
    assert [(step, action.kind, action.rule) for step, action in plan.told] == [("check", "rollback", "plan")]
    together = next(group for group in plan.groups if ("check", "completed") in group)
    assert len(together) == 2, "the decision is stored with the result that led to it"


def test_002_3_the_verification_goes_back_to_the_optimisation_a_bounded_number_of_times() -> None:
    verify = When(not_passed=True, layers=("verification",))
    rule = Rule(name="loop", on_error="rollback", when=verify, back_to="layer:optimisation", restart=True, limit=2)
    graph = steps(
        ("look", ""), ("change", "look", {**WRITE, "layer": "optimisation"}),
        ("test", "change", {"layer": "verification"}), ("mail", "test", {"tool": "mail"}),
    )  # fmt: skip
    policy = FailurePolicy(name="p", rules=(rule,))
    plan = Plan(graph, {"test": [NOT_PASSED, NOT_PASSED, ToolResult(True, passed=True)]}, policy)
    plan.run()
    assert plan.executed == ["look", "change", "test", "change", "test", "change", "test", "mail"]
    assert (plan.undone, plan.state.status) == (["change", "change"], "completed")
    hopeless = Plan(graph, {"test": NOT_PASSED}, policy)
    hopeless.run()
    assert (hopeless.executed.count("test"), hopeless.statuses["mail"]) == (3, "skipped")


@pytest.mark.parametrize("wish", ["terminate", "escalate", "replan"])
def test_a_check_that_did_not_pass_may_end_the_plan_or_ask_for_another(wish: str) -> None:
    plan = Plan(steps(("check", "", {"on_not_passed": wish}), ("2", "check")), {"check": NOT_PASSED})
    ended = plan.run()
    assert plan.executed == ["check"]
    assert plan.statuses == {"check": "completed", "2": "pending" if wish == "replan" else "skipped"}
    assert (ended.kind, ended.step) == (("finished", None) if wish == "terminate" else (wish, "check"))
    assert wish == "replan" or plan.state.stopped == f"{wish} by rule 'plan': a check did not pass"


def test_rules_for_failures_do_not_hear_of_checks_and_the_plan_may_say_go_on() -> None:
    stop = FailurePolicy(name="p", rules=(Rule(name="stop", on_error="terminate"),))
    plan = Plan(steps(("check", ""), ("2", "check")), {"check": NOT_PASSED}, stop)
    plan.run()
    assert plan.state.status == "completed"
    checked = Rule(name="stop", on_error="terminate", when=When(not_passed=True))
    graph = steps(("check", "", {"on_not_passed": "continue"}), ("2", "check"))
    plan = Plan(graph, {"check": NOT_PASSED}, FailurePolicy(name="p", rules=(checked,)))
    plan.run()
    assert plan.state.status == "completed"


def test_a_rescue_comes_after_the_retries_and_once() -> None:
    graph = steps(("a", ""), ("b", "a"))
    plan = Plan(graph, {"a": DROPPED}, "default", rescue=lambda step: ToolResult(True, data="other way"))
    plan.run()
    assert (plan.executed, plan.state.status, plan.state["a"].output) == (
        ["a", "a", "a", "b"],
        "completed",
        "other way",
    )
    assert plan.state["a"].tries == 4
    useless = Plan(graph, {"a": failing()}, rescue=lambda step: failing())
    useless.run()
    assert useless.statuses == {"a": "failed", "b": "blocked"}
    unsure = Plan(steps(("a", "", WRITE)), {"a": failing("timed_out")}, rescue=lambda step: ToolResult(True))
    unsure.run()
    assert unsure.statuses == {"a": "failed"}, "nobody acts again on what may have happened"


def test_collect_is_the_object_of_its_arguments() -> None:
    gather = {"kind": "collect", "tool": None, "arguments": {"x": Reference("a"), "y": 1}}
    use = {"arguments": {"k": Reference("c", ("x", "v"))}}
    plan = Plan(steps(("a", ""), ("c", "a", gather), ("b", "c", use)), {"a": ToolResult(True, data={"v": 7})})
    plan.run()
    assert plan.state["c"].output == {"x": {"v": 7}, "y": 1}
    assert plan.calls[-1] == [{"k": 7}]


# Ends


def test_a_plan_with_open_steps_is_never_called_finished() -> None:
    lost = PlanState(steps(("a", ""), ("b", "a"))).to_json() | {"steps": {"a": {"status": "failed"}}}
    with pytest.raises(RuntimeError, match="unschedulable steps: b"):
        Plan(PlanGraph(()), state=PlanState.from_json(lost)).run()
    state = PlanState(steps(("a", ""), ("b", "a"), ("c", "")))
    state.start("a")
    state.interrupt()
    plan = Plan(state.graph, state=state)
    assert plan.run() == Ended("escalate", "a", "step a is interrupted")
    assert plan.executed == ["c"]


def test_cancellation_leaves_nothing_running_and_nothing_marked_as_running() -> None:
    async def body() -> tuple[Plan, list[str]]:
        ended: list[str] = []

        async def hang(step: PlanStep) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(step.id)

        plan = Plan(numbered(6), parallelism=3, before=hang)
        task = asyncio.create_task(plan.scheduler.run())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1
        return plan, ended

    plan, ended = asyncio.run(body())
    assert sorted(ended) == ["0", "1", "2"]
    assert list(plan.statuses.values()) == ["interrupted"] * 3 + ["pending"] * 3
    assert plan.changes[-1].after == "interrupted"


def test_a_spent_budget_lets_the_steps_in_flight_finish() -> None:
    async def spend(step: PlanStep) -> None:
        await asyncio.sleep(0.02 if step.id == "1" else 0)
        if step.id in ("0", "2"):
            raise BudgetExceeded("tool_calls", "spent")

    plan = Plan(numbered(5), parallelism=3, before=spend)
    with pytest.raises(BudgetExceeded):
        plan.run()
    assert list(plan.statuses.values()) == ["interrupted", "completed", "interrupted", "pending", "pending"]
    assert plan.n_running == 0


def test_after_a_change_that_was_not_stored_nothing_more_is_written() -> None:
    plan = Plan(numbered(3))
    stored: list[Transition] = []
    troubles = iter([OSError("the disk is full")])

    def full(changes: Changes) -> None:
        if len(stored) == 3 and (trouble := next(troubles, None)):
            raise trouble
        stored.extend(changes)

    plan.scheduler._record = full
    with pytest.raises(OSError, match="full"):
        plan.run()
    assert [change.seq for change in stored] == [0, 1, 2]


def test_every_change_is_recorded_and_repeats_the_state() -> None:
    graph = steps(("a", "", WRITE), ("b", "a", {"is_critical": True}), ("c", ""), ("d", "c ~b"))
    plan = Plan(graph, {"b": failing("refused"), "c": [DROPPED, ToolResult(True)]}, "rollback_critical", parallelism=2)
    plan.run()
    again = PlanState(graph)
    for change in plan.changes:
        again.apply(Transition.from_json(change.to_json()))
    assert again.to_json() == plan.state.to_json()


@pytest.mark.parametrize("parallelism", [1, 8])
def test_ten_thousand_steps_take_seconds(parallelism: int) -> None:
    rows = [(str(i), " ".join(str(j) for j in (i - 100, i // 2) if 0 <= j < i)) for i in range(10_000)]
    plan = Plan(steps(*rows), parallelism=parallelism)
    started = time.perf_counter()
    plan.run()
    assert time.perf_counter() - started < 15
    assert plan.state.counts()["completed"] == 10_000


# Any plan


@st.composite
def dags(draw: st.DrawFn) -> tuple[PlanGraph, list[int]]:
    n = draw(st.integers(1, 14))
    order = draw(st.permutations(range(n)))
    rows: list[tuple[str, str]] = [("", "")] * n
    for rank, node in enumerate(order):
        before = draw(st.lists(st.sampled_from(order[:rank]), unique=True, max_size=3)) if rank else []
        rows[node] = (str(node), " ".join(map(str, before)))
    return steps(*rows), draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))


@settings(max_examples=60, deadline=None)
@given(dags(), st.integers(1, 5))
def test_any_plan_runs_every_step_once_in_a_legal_order(dag: tuple[PlanGraph, list[int]], parallelism: int) -> None:
    graph, turns = dag
    ended: list[str] = []

    async def wait(step: PlanStep) -> None:
        assert set(step.depends_on) <= set(ended)
        for _ in range(turns[int(step.id)]):
            await asyncio.sleep(0)
        ended.append(step.id)

    plan = Plan(graph, parallelism=parallelism, before=wait)
    assert plan.run() == Ended("finished")
    assert sorted(plan.executed) == sorted(step.id for step in graph.steps)
    assert plan.state.status == "completed"
    assert plan.most_running <= parallelism


@settings(max_examples=60, deadline=None)
@given(dags(), st.integers(1, 5), st.data())
def test_any_failures_block_just_what_needs_them(
    dag: tuple[PlanGraph, list[int]], parallelism: int, data: st.DataObject
) -> None:
    graph, turns = dag
    ids = [step.id for step in graph.steps]
    broken = data.draw(st.sets(st.sampled_from(ids)))

    async def wait(step: PlanStep) -> None:
        for _ in range(turns[int(step.id)]):
            await asyncio.sleep(0)

    plan = Plan(graph, dict.fromkeys(broken, failing()), parallelism=parallelism, before=wait)
    plan.run()
    blocked: set[str] = set()
    for _ in ids:
        blocked |= {s.id for s in graph.steps if any(b in broken | blocked for b in s.depends_on)}
    expected = {name: "blocked" if name in blocked else "failed" if name in broken else "completed" for name in ids}
    assert plan.statuses == expected
    assert plan.state.is_finished


# The report


def test_a_new_wording_keeps_its_facts_or_is_refused() -> None:
    graph = steps(("query", ""), ("check_1", "query"), ("c", "check_1"))
    plan = Plan(graph, {"check_1": failing("not_found", "ORDER9999 is not there")})
    plan.run()
    report, names = plan_report(plan.state), ["query", "check_1", "c"]
    assert changed_facts(report, report, names) == []
    assert changed_facts(report, report.replace("Totals:", "In total"), names) == []
    changes: dict[str, tuple[str, str]] = {
        "number": ("1 completed", "2 completed"), "status": ("check_1 work: failed", "check_1 work: completed"),
        "id": ("ORDER9999", "ORDER9998"), "step": ("- c work", "- d work"), "negation": ("is not there", "is there"),
        "left out": ("Execution incomplete", "Execution done"),
    }  # fmt: skip
    for kind, (old, new) in changes.items():
        assert old in report, kind
        assert changed_facts(report, report.replace(old, new, 1), names), kind
    assert changed_facts("a: failed, b: passed", "a: passed, b: failed") != []
    assert changed_facts("步骤 1 未通过", "步骤 1 通过") == ["-未通过", "+通过"]


def test_the_report_names_both_axes_in_both_languages() -> None:
    graph = steps(("1", ""), ("2", "1"), ("3", ""), ("4", "3"))
    plan = Plan(graph, {"2": NOT_PASSED, "3": failing("not_found", "gone")})
    plan.run()
    english, chinese = plan_report(plan.state), plan_report(plan.state, "zh")
    assert "4 steps: 2 completed, 1 failed, 1 blocked, 0 skipped" in english
    assert "Checks: 0 passed, 1 not passed" in english
    assert english.endswith("Execution incomplete: 3, 4.\nNot passed: 2.")
    assert chinese.endswith("执行不完整：3, 4。\n未通过：2。")
    assert "blocked, because step 3 is failed: not_found: gone" in english
