"""Carry out a plan: a ready queue, bounded parallelism, one writer of the state, and the failure policy.

The scheduler knows neither models nor sessions: whoever runs it passes a function that makes one call.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentlab.errors import UnresolvedReference
from agentlab.planning.plan import PlanStep
from agentlab.planning.policy import Action, FailurePolicy
from agentlab.planning.recovery import RollbackPlan, StepUndo, rollback_plan
from agentlab.planning.state import Changes, PlanState
from agentlab.planning.step_state import StepError
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import Tool


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What running a step brought: the results of its calls, of a map step one per entry."""

    results: tuple[ToolResult, ...] = ()
    tries: int = 1
    """Executions behind it, the session's own repeats included."""

    @property
    def failure(self) -> ToolResult | None:
        """The first result without success; None when all succeeded."""
        return next((result for result in self.results if not result.success), None)


@dataclass(frozen=True, slots=True)
class Ended:
    """How the execution ended: finished, or stopped for somebody else to decide."""

    kind: Literal["finished", "replan", "escalate"]
    step: str | None = None
    reason: str = ""


RunStep = Callable[[PlanStep, Sequence[JsonObject]], Awaitable[StepOutcome]]
"""Runs a step with its resolved arguments (one object, of a map step one per entry)."""
RunUndo = Callable[[PlanStep, str, JsonObject], Awaitable[ToolResult]]
"""Calls an undo tool for a step."""


class Scheduler:
    """Runs the steps of a plan until nothing is left to do, or a decision is needed.

    Every change of the state goes to `record` before anything else happens, so a journal that stores them can
    continue after a kill. A high-risk step (irreversible, or one that asks for an approval) is not run when a
    check before it did not pass: it is skipped, by decision.

    Args:
        state: the plan's state; only this scheduler writes to it.
        tools: name -> tool.
        policy: what to do about a failed step.
        run_step: runs one step.
        run_undo: undoes one step.
        record: receives every group of changes; one call is one transaction.
        parallelism: steps in flight at once; 1 makes the order reproducible.
        sleep: waits before retries; tests pass their own.
    """

    def __init__(
        self,
        state: PlanState,
        tools: Mapping[str, Tool],
        policy: FailurePolicy,
        run_step: RunStep,
        run_undo: RunUndo,
        record: Callable[[Changes], None],
        *,
        parallelism: int = 1,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._state = state
        self._tools = tools
        self._policy = policy
        self._run_step = run_step
        self._run_undo = run_undo
        self._record = record
        self._parallelism = parallelism
        self._sleep = sleep
        self._running: dict[asyncio.Task[StepOutcome | None], str] = {}
        self._waiting: Action | None = None
        self._waiting_step = ""
        self._started = time.perf_counter()

    async def run(self) -> Ended:
        """Run the plan and return how it ended.

        Raises:
            RuntimeError: steps wait although nothing can start: a bug, never reported as a finished plan.
        """
        self._note(self._state.set_phase("executing"))
        try:
            while True:
                self._start_what_is_ready()
                if self._running:
                    done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                    # In the order of the plan, so that two runs with the same results decide alike.
                    for task in sorted(done, key=lambda task: self._state.graph.position(self._running[task])):
                        self._settle(self._running.pop(task), task.result())
                elif self._waiting is not None:
                    ended = await self._decide_alone()
                    if ended is not None:
                        return ended
                elif stuck := self._state.stuck():
                    raise RuntimeError(f"unschedulable steps: {', '.join(stuck)}")
                else:
                    return Ended("finished")
        finally:
            await self._end_running()

    def _start_what_is_ready(self) -> None:
        n_steps = sum(1 for step_id in self._running.values() if self._state[step_id].status == "running")
        while self._waiting is None and n_steps < self._parallelism:
            step = self._state.next_ready()
            if step is None:
                return
            n_steps += self._start(step)

    def _start(self, step: PlanStep) -> bool:
        """Start a ready step; False when it ended at once."""
        if (gate := self._failed_gate(step)) is not None:
            self._note(self._state.skip(step.id, f"check {gate} did not pass, so this was not done"))
            return False
        try:
            calls = self._state.inputs(step.id).calls
        except UnresolvedReference as error:
            self._note(self._state.fail(step.id, StepError("unresolved_reference", str(error)), at_s=self._now()))
            return False
        self._note(self._state.start(step.id, at_s=self._now()))
        task: asyncio.Task[StepOutcome | None] = asyncio.create_task(self._outcome(step, calls))
        self._running[task] = step.id
        return True

    async def _outcome(self, step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        if step.kind in ("collect", "report"):
            return StepOutcome((ToolResult(True, data=[dict(call) for call in calls]),))
        return await self._run_step(step, calls)

    def _settle(self, step_id: str, outcome: StepOutcome | None) -> None:
        """Record what a step brought, or that its wait is over."""
        if outcome is None:
            self._note(self._state.wake(step_id))
            return
        failure = outcome.failure
        if failure is None:
            self._note(self._state.complete(step_id, outcome.results, tries=outcome.tries, at_s=self._now()))
            return
        step = self._state.graph.step(step_id)
        error = StepError.of(failure, self._tools.get(step.tool or ""))
        tries = self._state[step_id].tries + outcome.tries - 1
        action = self._policy.decide(step, error, tries, self._state.graph, self._state)
        self._apply(step_id, error, outcome, action)

    def _apply(self, step_id: str, error: StepError, outcome: StepOutcome, action: Action) -> None:
        if action.kind == "retry":
            self._note(self._state.retry_later(step_id, error, action.delay_s, tries=outcome.tries))
            task: asyncio.Task[StepOutcome | None] = asyncio.create_task(self._pause(action.delay_s))
            self._running[task] = step_id
            return
        if action.is_counted:
            self._note(self._state.count_rule(action.rule))
        if action.kind == "skip":
            self._note(self._state.skip(step_id, action.reason, error, tries=outcome.tries, at_s=self._now()))
            return
        self._note(self._state.fail(step_id, error, results=outcome.results, tries=outcome.tries, at_s=self._now()))
        if action.kind != "block" and self._waiting is None:
            # Decided once nothing runs any more: nothing may change under a rollback or a new plan.
            self._waiting, self._waiting_step = action, step_id

    async def _decide_alone(self) -> Ended | None:
        """Do what the policy wants of the whole plan; None when the execution goes on."""
        action, step_id = self._waiting, self._waiting_step
        assert action is not None
        self._waiting = None
        if action.kind == "rollback":
            await self._roll_back(step_id, action)
            return None
        if action.kind == "replan":
            return Ended("replan", step_id, action.reason)
        self._note(self._state.stop(action.reason))
        return Ended("escalate", step_id, action.reason) if action.kind == "escalate" else None

    async def _roll_back(self, step_id: str, action: Action) -> None:
        """Undo the affected part in reverse order; each step is tried once, whatever becomes of the others."""
        plan = rollback_plan(self._state.graph, self._state, step_id, self._tools, action.back_to)
        for undo in plan.undo:
            await self._undo(undo)
        failed = self._state.with_status("rollback_failed")
        if action.restart and not failed and not plan.unsure:
            self._note(self._state.restart(_with_descendants(self._state, plan)))
            return
        reason = f"rollback incomplete: {', '.join(failed)}" if failed else f"rolled back: {action.reason}"
        self._note(self._state.stop(reason))

    async def _undo(self, undo: StepUndo) -> None:
        step = self._state.graph.step(undo.step)
        self._note(self._state.start_undo(undo.step, undo.tool or "none"))
        problem = undo.problem
        for call in undo.calls if not problem else ():
            result = await self._run_undo(step, undo.tool or "", call)
            if not result.success:
                problem = problem or result.message or result.error_kind or "the undo tool failed"
        self._note(self._state.finish_undo(undo.step, success=not problem, message=problem))

    def _failed_gate(self, step: PlanStep) -> str | None:
        """The check before a high-risk step that did not pass; None when there is none."""
        tool = self._tools.get(step.tool or "")
        if tool is None or not (tool.effect == "irreversible" or tool.permission == "ask"):
            return None
        not_passed = set(self._state.checks_not_passed())
        return next((name for name in self._state.graph.ancestors(step.id) if name in not_passed), None)

    async def _pause(self, delay_s: float) -> None:
        await self._sleep(delay_s)

    async def _end_running(self) -> None:
        """Nothing may outlive the execution: what still runs when it ends by an error is cancelled and awaited."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    def _note(self, changes: Changes) -> None:
        if changes:
            self._record(changes)

    def _now(self) -> float:
        return time.perf_counter() - self._started


def _with_descendants(state: PlanState, plan: RollbackPlan) -> list[str]:
    """The affected steps and everything that needs them, as a restart demands."""
    return list(dict.fromkeys([*plan.affected, *state.graph.descendants(*plan.affected)]))
