"""Carry out a plan: a ready queue, bounded parallelism, one writer of the state, and the failure policy.

The scheduler knows neither models nor sessions: whoever runs it passes a function that makes one call.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from agentlab.errors import InfrastructureError, StopRun, UnresolvedReference
from agentlab.planning.outcomes import (
    Approve,
    Decision,
    Ended,
    Rescue,
    RunStep,
    RunUndo,
    StepOutcome,
    Told,
    digest_of,
    is_high_risk,
)
from agentlab.planning.plan import PlanStep
from agentlab.planning.policy import Action, FailurePolicy
from agentlab.planning.recovery import StepUndo, has_effect, rollback_plan
from agentlab.planning.state import Changes, PlanState
from agentlab.planning.step_state import StepError
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import Tool

# Effects are undone before anybody else decides; a new plan is made last, when everything has come to rest.
_DECISION_ORDER = {"rollback": 0, "terminate": 1, "escalate": 1, "replan": 2}


class Scheduler:
    """Runs the steps of a plan until nothing is left to do, or a decision is needed.

    Every change of the state goes to `record` before anything else happens, so a journal that stores them can
    continue after a kill: a decision is stored together with the failure that led to it. A high-risk step
    (irreversible, or one that asks for an approval) is not run when a check before it did not pass: it is skipped,
    by decision. Each worker type is one worker, which does one step at a time.

    A step that needs an approval waits for it, and others go on meanwhile. The approval is for its resolved arguments:
    with others it is asked for again. When nothing else is left to do, the execution ends with `escalate`.

    When a limit or a failing provider ends the execution, steps in flight are finished first: they are paid for.
    When it is cancelled, they are cancelled too, and stand as `interrupted`. Nothing outlives it in either case.

    Args:
        state: the plan's state; only this scheduler writes to it.
        tools: name -> tool.
        policy: what to do about a failed step.
        run_step: runs one step.
        run_undo: undoes one step.
        record: receives every group of changes; one call is one transaction.
        parallelism: steps in flight at once; 1 makes the order reproducible.
        rescue: asked once per step before what needs it is blocked; never after an effect that may have happened.
        approve: reaches a person about tools that ask; None leaves them to whoever makes the calls.
        told: called with every decision about a step, after it was recorded.
        sleep: waits before retries; tests pass their own.
        now_s: seconds on the clock of the step times; by default since the scheduler was made.
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
        rescue: Rescue | None = None,
        approve: Approve | None = None,
        told: Told | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        self._state = state
        self._tools = tools
        self._policy = policy
        self._run_step = run_step
        self._run_undo = run_undo
        self._record = record
        self._parallelism = parallelism
        self._rescue = rescue
        self._approve = approve
        self._told = told
        self._sleep = sleep
        started = time.perf_counter()
        self._now = now_s or (lambda: time.perf_counter() - started)
        self._running: dict[asyncio.Task[StepOutcome | Decision | None], str] = {}
        self._rescued: set[str] = set()
        self._is_recorded = True

    async def run(self) -> Ended:
        """Run the plan and return how it ended.

        Raises:
            RuntimeError: steps wait although nothing can start: a bug, never reported as a finished plan.
            Exception: what `run_step` raised; a failed step is no exception.
        """
        if self._state.phase == "replanning":
            failed = next(iter(self._state.with_status("failed") or self._state.checks_not_passed()), None)
            return Ended("replan", failed, "the plan was stopped while it was being replaced")
        self._note(self._state.set_phase("executing"))
        for step_id in self._state.with_status("awaiting_approval") if self._approve is not None else ():
            self._launch(step_id, self._decision(self._state.graph.step(step_id), self._state.inputs(step_id).calls))
        for step_id in self._state.with_status("retry_wait"):
            self._launch(step_id, self._pause(self._state[step_id].delay_s or 0.0))
        try:
            while True:
                self._start_what_is_ready()
                if self._running and not (self._state.decisions and not self._n_steps()):
                    await self._settle_next()
                elif self._state.decisions:
                    if (ended := await self._decide_alone()) is not None:
                        return ended
                else:
                    return self._end()
        except BaseException:
            await self._end_running()
            # After a change that could not be stored, a later one would leave a hole in the journal.
            if self._is_recorded:
                self._note(self._state.interrupt())
            raise
        finally:
            await self._end_running()

    def report(self, step_id: str, *, progress: float | None = None, activity: str = "") -> None:
        """Record how far a running step is; for `run_step` to call."""
        self._note(self._state.report(step_id, progress=progress, activity=activity))

    # Starting

    def _start_what_is_ready(self) -> None:
        while not self._state.decisions and not self._state.stopped and self._n_steps() < self._parallelism:
            step = self._state.next_ready(self._has_free_worker)
            if step is None:
                return
            self._start(step)

    def _start(self, step: PlanStep) -> None:
        if condition := self._state.unmet_condition(step.id):
            self._note(self._state.pass_over(step.id, condition))
            return
        if is_high_risk(self._tools.get(step.tool or "")) and (gate := self._state.failed_gate(step.id)) is not None:
            action = Action("skip", "gate", f"check {gate} did not pass, so this was not done")
            self._note(self._state.skip(step.id, action.reason))
            self._tell(step.id, action)
            return
        try:
            calls = self._state.inputs(step.id).calls
        except UnresolvedReference as error:
            # The same inputs would resolve in the same way, so there is no use in repeating it.
            failed = StepError("unresolved_reference", str(error), is_safe_to_repeat=False)
            action = self._policy.decide(step, failed, 0, self._state.graph, self._state)
            self._apply(step.id, failed, StepOutcome(), action)
            return
        if self._approve is not None and self._approve.is_needed(step, calls):
            self._note(self._state.await_approval(step.id, digest_of(step, calls)))
            self._launch(step.id, self._decision(step, calls))
            return
        kept = calls if has_effect(step, self._tools) else ()
        self._note(self._state.start(step.id, calls=kept, at_s=self._now()))
        self._launch(step.id, self._outcome(step, calls))

    def _has_free_worker(self, step: PlanStep) -> bool:
        if step.worker_type is None:
            return True
        running = (name for name in self._running.values() if self._state[name].status == "running")
        return all(self._state.graph.step(name).worker_type != step.worker_type for name in running)

    async def _outcome(self, step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        if step.kind in ("collect", "report"):
            return StepOutcome((ToolResult(True, data=dict(calls[0])),))
        return await self._run_step(step, calls)

    async def _decision(self, step: PlanStep, calls: Sequence[JsonObject]) -> Decision:
        assert self._approve is not None
        return Decision(await self._approve.ask(step, calls))

    def _launch(self, step_id: str, work: Coroutine[Any, Any, StepOutcome | Decision | None]) -> None:
        self._running[asyncio.create_task(work)] = step_id

    def _n_steps(self) -> int:
        """Steps that run, without those that only wait for their next try."""
        return sum(self._state[step_id].status == "running" for step_id in self._running.values())

    # Settling

    async def _settle_next(self) -> None:
        done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        errors = []
        # In the order of the plan, so that two runs with the same results decide alike.
        for task in sorted(done, key=lambda task: self._state.graph.position(self._running[task])):
            # None: a wait that a decision about another step has ended.
            step_id = self._running.pop(task, None)
            if step_id is None:
                continue
            if (error := task.exception()) is None:
                self._settle(step_id, task.result())
            else:
                errors.append(error)
        if not errors:
            return
        if all(isinstance(error, StopRun | InfrastructureError) for error in errors):
            await self._finish_steps()
        raise errors[0]

    async def _finish_steps(self) -> None:
        """Wait for the steps in flight and keep their results; an error among them adds nothing to the first one."""
        while steps := [task for task, name in self._running.items() if self._state[name].status == "running"]:
            done, _ = await asyncio.wait(steps, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda task: self._state.graph.position(self._running[task])):
                step_id = self._running.pop(task)
                if task.exception() is None:
                    self._settle(step_id, task.result(), may_rescue=False)

    def _settle(self, step_id: str, outcome: StepOutcome | Decision | None, *, may_rescue: bool = True) -> None:
        """Record what a step brought, what a person decided about it, or that its wait is over."""
        if outcome is None:
            self._note(self._state.wake(step_id))
            return
        if isinstance(outcome, Decision):
            self._settle_decision(self._state.graph.step(step_id), outcome)
            return
        failure = outcome.failure
        step = self._state.graph.step(step_id)
        if failure is None:
            self._complete(step, outcome)
            return
        error = StepError.of(failure, self._tools.get(step.tool or ""))
        tries = self._state[step_id].tries + outcome.tries - 1
        action = self._policy.decide(step, error, tries, self._state.graph, self._state)
        if action.kind == "retry" and self._state.stopped:
            action = Action("block", "stopped", self._state.stopped)
        if may_rescue and action.kind == "block" and self._may_rescue(step_id, error):
            assert self._rescue is not None
            self._rescued.add(step_id)
            self._launch(step_id, self._rescue(step, outcome))
            return
        self._apply(step_id, error, outcome, action)

    def _settle_decision(self, step: PlanStep, decision: Decision) -> None:
        """Let an approved step start, and a refused one fail; without a decision it goes on waiting."""
        if decision.is_approved:
            self._note(self._state.approve(step.id, self._state[step.id].approval or ""))
        elif decision.is_approved is False:
            refused = StepError("not_approved", f"a person did not approve {step.tool}", is_safe_to_repeat=False)
            action = self._policy.decide(step, refused, 0, self._state.graph, self._state)
            self._apply(step.id, refused, StepOutcome(), action)

    def _complete(self, step: PlanStep, outcome: StepOutcome) -> None:
        """Record a step that did its work, with what a check of it that did not pass leads to."""
        state = self._state
        made, tries = self._made(step, outcome), outcome.tries
        changes = state.complete(step.id, outcome.results, made=made, tries=tries, at_s=self._now())
        action = None if state.has_passed(step.id) else self._policy.after_check(step, state.graph, state)
        if action is not None:
            counted = state.count_rule(action.rule) if action.is_counted else ()
            changes = (*changes, *counted, *self._announced(step.id, action))
        self._note(changes)
        if action is not None:
            self._tell(step.id, action)
            self._drop_timers()

    def _made(self, step: PlanStep, outcome: StepOutcome) -> JsonObject:
        made = outcome.made()
        return made if has_effect(step, self._tools) or outcome.effects else {}

    def _may_rescue(self, step_id: str, error: StepError) -> bool:
        is_quiet = not self._state.decisions and not self._state.stopped
        return self._rescue is not None and is_quiet and step_id not in self._rescued and not error.may_have_happened

    def _apply(self, step_id: str, error: StepError, outcome: StepOutcome, action: Action) -> None:
        state = self._state
        about: JsonObject = {"results": outcome.results, "made": self._made(state.graph.step(step_id), outcome)}
        about["tries"] = outcome.tries
        if action.kind == "retry":
            self._note(state.retry_later(step_id, error, action.delay_s, **about))
            self._launch(step_id, self._pause(action.delay_s))
        else:
            changes = list(state.count_rule(action.rule) if action.is_counted else ())
            if action.kind == "skip":
                changes += state.skip(step_id, action.reason, error, at_s=self._now(), **about)
            else:
                changes += state.fail(step_id, error, at_s=self._now(), **about)
                changes += self._announced(step_id, action)
            self._note(tuple(changes))
        self._tell(step_id, action)
        self._drop_timers()

    def _announced(self, step_id: str, action: Action) -> Changes:
        """Record what has to be done about the whole plan once nothing runs."""
        if action.kind == "block":
            return ()
        about = {"back_to": action.back_to, "restart": action.restart}
        decision = {"kind": action.kind, "step": step_id, "rule": action.rule, "reason": action.reason, **about}
        announced = self._state.announce(decision)
        return announced if action.kind in ("rollback", "replan") else (*announced, *self._state.stop(action.reason))

    # Deciding

    async def _decide_alone(self) -> Ended | None:
        """Do what the policy wants of the whole plan, while no step runs; None when the execution goes on."""
        state = self._state
        decision = min(state.decisions, key=lambda each: _DECISION_ORDER[each["kind"]])
        step_id, kind = decision["step"], decision["kind"]
        if kind == "escalate":
            # It stays on record until somebody decides.
            return Ended("escalate", step_id, decision["reason"])
        # An earlier rollback may have undone this part, and restarts it.
        is_moot = state[step_id].status == "pending"
        if kind == "rollback" and not is_moot:
            await self._roll_back(decision)
        elif kind == "replan" and not is_moot and not state.stopped:
            self._note((*state.set_phase("replanning"), *state.carried_out(decision)))
            return Ended("replan", step_id, decision["reason"])
        else:
            self._note(state.carried_out(decision))
        return None

    async def _roll_back(self, decision: JsonObject) -> None:
        """Undo the affected part in reverse order; each step is tried once, whatever becomes of the others."""
        state = self._state
        step_id, back_to, restart = decision["step"], decision["back_to"], decision["restart"]
        if state.rollback is None:
            self._note(state.start_rollback(step_id, back_to=back_to, restart=restart))
        plan = rollback_plan(state.graph, state, step_id, self._tools, back_to)
        for undo in plan.undo:
            await self._undo(undo)
        is_clean = not plan.unsure and not any(state[name].status == "rollback_failed" for name in plan.affected)
        restarted = state.restart(plan.affected) if restart and is_clean and not state.stopped else ()
        self._note((*restarted, *state.finish_rollback(), *state.carried_out(decision)))
        self._drop_timers()

    async def _undo(self, undo: StepUndo) -> None:
        step = self._state.graph.step(undo.step)
        self._note(self._state.start_undo(undo.step, undo.tool or "none"))
        begun = self._state[undo.step].undos[-1]
        problem = undo.problem or begun.message
        calls = () if undo.problem else undo.calls
        for number, call in enumerate(calls[begun.n_made :], begun.n_made + 1):
            result = await self._run_undo(step, undo.tool or "", call)
            if not result.success:
                problem = problem or result.message or result.error_kind or "the undo tool failed"
            if number < len(calls):
                self._note(self._state.report_undo(undo.step, problem))
        self._note(self._state.finish_undo(undo.step, success=not problem, message=problem))

    # Ending

    def _end(self) -> Ended:
        if stuck := self._state.stuck():
            raise RuntimeError(f"unschedulable steps: {', '.join(stuck)}")
        for step_id in self._state.with_status("interrupted", "awaiting_approval"):
            return Ended("escalate", step_id, f"step {step_id} is {self._state[step_id].status}")
        return Ended("finished")

    async def _pause(self, delay_s: float) -> None:
        await self._sleep(delay_s)

    def _drop_timers(self) -> None:
        """End the waits of steps that wait no more: they were skipped, or run again from the start."""
        for task, step_id in list(self._running.items()):
            if self._state[step_id].status not in ("running", "retry_wait", "awaiting_approval"):
                task.cancel()
                del self._running[task]

    async def _end_running(self) -> None:
        """Nothing may outlive the execution: what still runs when it ends by an error is cancelled and awaited."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()

    def _tell(self, step_id: str, action: Action) -> None:
        if self._told is not None:
            self._told(step_id, action)

    def _note(self, changes: Changes) -> None:
        if changes:
            self._is_recorded = False
            self._record(changes)
            self._is_recorded = True
