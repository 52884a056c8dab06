"""Where a plan stands: what is done, what may start, what can never start. The scheduler is its only writer.

    pending -> running -> completed | failed | retry_wait -> pending ...
    pending -> awaiting_approval -> pending     pending -> blocked (a dependency did not succeed)
    running -> interrupted (found after a crash) -> pending | completed | failed
    completed -> rolled_back | rollback_failed  everything final but rollback_failed -> pending (restart)

The whole table is `statuses.TRANSITIONS`. Every method that changes something returns the changes it made, in
order: they belong into one transaction of the journal, before anything else happens. `apply` repeats a change.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from agentlab.errors import CorruptRecord
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.reasons import condition
from agentlab.planning.statuses import OPEN, TRANSITIONS, Phase, StepStatus
from agentlab.planning.step_state import (
    IllegalTransition,
    StepError,
    StepState,
    Transition,
    Undo,
    fields_from_json,
    step_state_to_json,
)
from agentlab.planning.view import PlanView
from agentlab.records import JsonObject, ToolResult

Changes = tuple[Transition, ...]
_RESTARTABLE = {
    "completed", "failed", "blocked", "skipped", "cancelled", "rolled_back", "retry_wait", "awaiting_approval",
}  # fmt: skip
_NOT_RUN = {"pending", "blocked", "skipped", "cancelled"}
_CLEARED: JsonObject = {
    each.name: each.default
    for each in dataclasses.fields(StepState)
    if each.name not in ("status", "undos", "restarts")
}


class PlanState(PlanView):
    """The state of one plan's execution, with everything that can happen to it.

    Only one thread may write: the one that writes first.

    Args:
        graph: the plan.
    """

    def __init__(self, graph: PlanGraph) -> None:
        super().__init__(graph)
        self._writer: int | None = None

    def next_ready(self, fits: Callable[[PlanStep], bool] = lambda step: True) -> PlanStep | None:
        """Return the step that is to start next, by priority and then plan order; None when none may start.

        Asking changes nothing: the step stays ready until it is started.

        Args:
            fits: False passes a step over for now, for example while no worker of its type is free.
        """
        return self._ready.first(fits)

    # Writing: a step

    def start(self, step_id: str, *, calls: Sequence[JsonObject] = (), at_s: float | None = None) -> Changes:
        """Mark a ready step as running. An approval is used up by it.

        Args:
            step_id: a ready step.
            calls: of a step with an effect the arguments of its calls.
            at_s: now, in seconds of the caller's clock.
        """
        if step_id not in self._ready:
            raise IllegalTransition(f"step {step_id} is {self._steps[step_id].status} and not ready")
        state = self._steps[step_id]
        gaps = tuple(n for n in self.graph.step(step_id).weak_depends_on if self._steps[n].status != "completed")
        fresh = {"error": None, "progress": None, "activity": "", "ended_s": None, "delay_s": None, "results": ()}
        used = {"approval": None, "is_approved": False} if state.approval is not None else {}
        counted = {"tries": state.tries + 1, "started_s": at_s, "gaps": gaps, "calls": tuple(calls), "effects": ()}
        return (self._move(step_id, "running", **counted, **fresh, **used),)

    def complete(
        self,
        step_id: str,
        results: Sequence[ToolResult] = (),
        *,
        output: Any = ...,
        made: Mapping[str, Any] | None = None,
        tries: int = 1,
        at_s: float | None = None,
    ) -> Changes:
        """Record that a step did its work; result and status become visible together.

        Args:
            step_id: a running step, or an interrupted one of which the effect was found.
            results: the tool results behind it, of a map step one per entry, in the order of the list.
            output: what references to the step get; by default the data of the result, of a map step the list.
            made: `calls` and `effects` of the step as they really were, where that is known.
            tries: executions of the tool for this start.
            at_s: now, in seconds of the caller's clock.
        """
        if output is ...:
            is_map = self.graph.step(step_id).kind == "map"
            output = [r.data for r in results] if is_map else results[0].data if len(results) == 1 else None
        more = self._more_tries(step_id, tries)
        done = {"error": None, "progress": 1.0, "activity": "", "ended_s": at_s, "completed_seq": self.seq}
        return (
            self._move(step_id, "completed", results=tuple(results), output=output, **more, **done, **(made or {})),
        )

    def fail(
        self,
        step_id: str,
        error: StepError,
        *,
        results: Sequence[ToolResult] = (),
        made: Mapping[str, Any] | None = None,
        tries: int = 1,
        at_s: float | None = None,
    ) -> Changes:
        """Record that a step failed for good, after the policy had its say, and block what needs it."""
        more = {**self._more_tries(step_id, tries), **(made or {})}
        first = self._move(step_id, "failed", error=error, results=tuple(results), ended_s=at_s, **more)
        return (first, *self._block_dependents(step_id))

    def skip(
        self,
        step_id: str,
        reason: str,
        error: StepError | None = None,
        *,
        results: Sequence[ToolResult] = (),
        made: Mapping[str, Any] | None = None,
        tries: int = 1,
        at_s: float | None = None,
    ) -> Changes:
        """Record the decision to go on without a step: what needs it strongly is blocked, the rest runs with a gap.

        What it did before (entries of a map step) stays on record: a rollback has to undo it.
        """
        more = {**self._more_tries(step_id, tries), **(made or {}), "results": tuple(results)}
        first = self._move(step_id, "skipped", error=error, reason=reason, ended_s=at_s, **more)
        return (first, *self._block_dependents(step_id))

    def pass_over(self, step_id: str, reason: str) -> Changes:
        """Record that a step is not needed because its condition is not met; neither is what strongly needs it."""
        changes = [self._move(step_id, "skipped", reason=reason)]
        for name in self.graph.descendants(step_id):
            if self._steps[name].status == "pending":
                changes.append(self._move(name, "skipped", reason=condition("after_not_needed", step=step_id)))
        return tuple(changes)

    def retry_later(
        self,
        step_id: str,
        error: StepError,
        delay_s: float,
        *,
        results: Sequence[ToolResult] = (),
        made: Mapping[str, Any] | None = None,
        tries: int = 1,
    ) -> Changes:
        """Record a failed try that will be repeated after `delay_s` seconds; the caller's timer calls `wake`."""
        more = {**self._more_tries(step_id, tries), **(made or {}), "results": tuple(results)}
        return (self._move(step_id, "retry_wait", error=error, delay_s=delay_s, **more),)

    def wake(self, step_id: str) -> Changes:
        """Make a step ready whose wait is over."""
        return (self._move(step_id, "pending", delay_s=None),)

    def await_approval(self, step_id: str, digest: str) -> Changes:
        """Hold a ready step back until the arguments with this digest are approved."""
        return (self._move(step_id, "awaiting_approval", approval=digest, is_approved=False),)

    def approve(self, step_id: str, digest: str) -> Changes:
        """Make a step ready again; an approval of other arguments than those asked for is an `IllegalTransition`."""
        if self._steps[step_id].approval != digest:
            raise IllegalTransition(f"the approval of step {step_id} is for other arguments")
        return (self._move(step_id, "pending", is_approved=True),)

    def report(self, step_id: str, *, progress: float | None = None, activity: str = "") -> Changes:
        """Record how far a running step is (share, 0 to 1) and what it does."""
        if self._steps[step_id].status != "running":
            raise IllegalTransition(f"step {step_id} is {self._steps[step_id].status}, so it reports no progress")
        return (self._change(step_id, "running", progress=progress, activity=activity),)

    def start_undo(self, step_id: str, tool: str) -> Changes:
        """Record that a step is about to be undone, before anything happens."""
        state = self._steps[step_id]
        if not {"rolled_back", "rollback_failed"} & TRANSITIONS[state.status] or state.is_undo_open:
            raise IllegalTransition(f"step {step_id} is {state.status} and cannot be undone now")
        last = state.undos[-1] if state.undos else None
        is_continued = last is not None and last.state == "interrupted" and last.tool == tool
        undo = dataclasses.replace(last, state="started") if last is not None and is_continued else Undo(tool)
        return (self._change(step_id, state.status, undos=(*state.undos, undo)),)

    def report_undo(self, step_id: str, message: str = "") -> Changes:
        """Record that one call of an undo is done with and is not made again; `message` says what went wrong."""
        state = self._steps[step_id]
        if not state.is_undo_open:
            raise IllegalTransition(f"no undo of step {step_id} was started")
        undo = dataclasses.replace(state.undos[-1], n_made=state.undos[-1].n_made + 1, message=message)
        return (self._change(step_id, state.status, undos=(*state.undos[:-1], undo)),)

    def finish_undo(self, step_id: str, *, success: bool, message: str = "") -> Changes:
        """Record the outcome of an undo; a failed one stays visible as `rollback_failed`.

        What needs the step and has not started is blocked.
        """
        state = self._steps[step_id]
        if not state.is_undo_open:
            raise IllegalTransition(f"no undo of step {step_id} was started")
        outcome = Undo(state.undos[-1].tool, "done" if success else "failed", message)
        undos = (*state.undos[:-1], outcome)
        if not success and state.status == "rollback_failed":
            return (self._change(step_id, state.status, undos=undos),)
        first = self._move(step_id, "rolled_back" if success else "rollback_failed", undos=undos)
        return (first, *self._block_dependents(step_id))

    def reopen_undo(self, step_id: str, *, has_happened: bool = False) -> Changes:
        """Record that an undo that was cut short goes on.

        Args:
            step_id: its step.
            has_happened: the call that was cut short has happened, so the next one is made; otherwise it had not
                happened, or twice does no harm.
        """
        state = self._steps[step_id]
        if not state.is_undo_open:
            raise IllegalTransition(f"no undo of step {step_id} was started")
        last = state.undos[-1]
        undo = dataclasses.replace(last, state="interrupted", n_made=last.n_made + has_happened)
        return (self._change(step_id, state.status, undos=(*state.undos[:-1], undo)),)

    # Writing: the plan

    def set_phase(self, phase: Phase) -> Changes:
        """Enter a phase: planning, validating, executing, replanning."""
        return (self._commit(self._of_plan(phase=phase)),)

    def count_rule(self, rule: str) -> Changes:
        """Record that a rule of the policy was applied, for its limit."""
        return (self._commit(self._of_plan(rule=rule)),)

    def announce(self, decision: JsonObject) -> Changes:
        """Record a decision about the whole plan, to be carried out once nothing runs."""
        return (self._commit(self._of_plan(decisions=[*self.decisions, decision])),)

    def answer_escalation(self, step_id: str, *, restart: bool) -> Changes:
        """Record what a person decided about a plan that stopped at a step: run from it on once more, or end here.

        Raises:
            IllegalTransition: the plan did not stop at this step, or running it again could repeat an effect.
        """
        found = [each for each in self.decisions if each["kind"] == "escalate" and each["step"] == step_id]
        if not found:
            raise IllegalTransition(f"the plan did not stop at step {step_id}")
        changes = [change for decision in found for change in self.carried_out(decision)]
        if restart:
            error = self._steps[step_id].error
            if error is not None and error.may_have_happened and not error.is_safe_to_repeat:
                raise IllegalTransition(f"step {step_id} may have taken effect, so it cannot simply run again")
            # What the stop kept from running starts too.
            skipped = self.with_status("skipped") if self.stopped else ()
            stopped = [name for name in skipped if self._steps[name].reason == self.stopped]
            changes += self.restart({step_id, *self.graph.descendants(step_id), *stopped})
        return tuple(changes)

    def carried_out(self, decision: JsonObject) -> Changes:
        """Record that a decision was carried out, or is no longer called for."""
        left = [other for other in self.decisions if other != decision]
        return (self._commit(self._of_plan(decisions=left)),)

    def start_rollback(self, failed: str, *, back_to: str | None = None, restart: bool = False) -> Changes:
        """Record that effects are going to be undone because a step failed (see `recovery.rollback_plan`)."""
        if self.rollback is not None:
            raise IllegalTransition(f"a rollback because of step {self.rollback['failed']} is going on")
        return (self._commit(self._of_plan(rollback={"failed": failed, "back_to": back_to, "restart": restart})),)

    def finish_rollback(self) -> Changes:
        """Record that every undo of the rollback was tried."""
        return (self._commit(self._of_plan(rollback=None)),)

    def stop(self, reason: str) -> Changes:
        """End the plan: no further step starts. What has not run is skipped; running steps are the caller's to end.

        Of several reasons the first one stands, with all steps that were kept from running.
        """
        reason = self.stopped or reason
        first = self._commit(self._of_plan(stopped=reason))
        waiting = self.with_status("pending", "awaiting_approval", "retry_wait")
        return (first, *(self._move(step_id, "skipped", reason=reason) for step_id in waiting))

    def cancel(self, reason: str, *, at_s: float | None = None) -> Changes:
        """Cancel every open step, those that run included: a person or the caller wants no more of this plan."""
        return tuple(self._move(s, "cancelled", reason=reason, ended_s=at_s) for s in self.with_status(*OPEN))

    def interrupt(self) -> Changes:
        """Mark what was running when the process died: whether it happened is not known."""
        return tuple(self._move(step_id, "interrupted") for step_id in self.with_status("running"))

    def rerun(self, step_id: str) -> Changes:
        """Make an interrupted step ready again; only for one that may safely run twice."""
        if self._steps[step_id].status != "interrupted":
            raise IllegalTransition(f"step {step_id} is {self._steps[step_id].status}, not interrupted")
        return (self._move(step_id, "pending"),)

    def restart(self, step_ids: Iterable[str]) -> Changes:
        """Make a part of the plan pending again, with counters from 0; its effects must have been undone before.

        Raises:
            IllegalTransition: a step is running or its undo failed, or one that needs a restarted step has run and is
                not restarted with it.
        """
        wanted = set(step_ids)
        closed = [
            step.id for step in self.graph.steps if step.id in wanted and self._steps[step.id].status != "pending"
        ]
        for step_id in closed:
            if self._steps[step_id].status not in _RESTARTABLE:
                raise IllegalTransition(f"step {step_id} is {self._steps[step_id].status} and cannot be restarted")
        for step_id in self.graph.descendants(*wanted):
            if step_id not in wanted and self._steps[step_id].status not in _NOT_RUN:
                raise IllegalTransition(f"step {step_id} is {self._steps[step_id].status} and has to be restarted too")
        changes = [self._commit(self._of_plan(stopped=""))] if self.stopped else []
        for step_id in closed:
            changes.append(self._change(step_id, "pending", restarts=self._steps[step_id].restarts + 1, **_CLEARED))
        return tuple(changes)

    def continued(self, graph: PlanGraph) -> "PlanState":
        """Return the state of a plan that replaces this one: what has completed stays so, the rest starts anew.

        Raises:
            IllegalTransition: a step is running or interrupted, or a completed step is missing in the new plan.
        """
        completed = self.with_status("completed")
        if unsettled := self.with_status("running", "interrupted"):
            raise IllegalTransition(f"step {unsettled[0]} is {self._steps[unsettled[0]].status}: settle it first")
        if missing := [step_id for step_id in completed if step_id not in graph]:
            raise IllegalTransition(f"the new plan has lost the completed step {missing[0]}")
        state = PlanState(graph)
        state._steps.update({step_id: self._steps[step_id] for step_id in completed})
        tried = [(s, old) for s, old in self._steps.items() if old.status not in ("completed", "pending", "blocked")]
        state.superseded = (*self.superseded, *tried)
        state.applied, state.seq = dict(self.applied), self.seq
        state._derive()
        return state

    def apply(self, change: Transition) -> None:
        """Repeat a stored change.

        Raises:
            IllegalTransition: it does not follow on what is there.
        """
        before = self.phase if change.step is None else self._steps[change.step].status
        if change.seq != self.seq or change.before != before:
            raise IllegalTransition(f"change {change.seq} ({change.step}: {change.before}) does not follow on {before}")
        self._commit(change)

    def to_json(self) -> JsonObject:
        """Return graph and state as a JSON object, which `from_json` reads back."""
        steps = {step_id: step_state_to_json(state) for step_id, state in self._steps.items()}
        return {
            "graph": self.graph.to_json(),
            "phase": self.phase,
            "stopped": self.stopped,
            "rollback": self.rollback,
            "decisions": list(self.decisions),
            "applied": dict(self.applied),
            "seq": self.seq,
            "steps": {step_id: data for step_id, data in steps.items() if data},
            "superseded": [[step_id, step_state_to_json(state)] for step_id, state in self.superseded],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PlanState":
        """Return the state that `to_json` wrote.

        Raises:
            CorruptRecord: this is no stored state.
        """
        try:
            state = cls(PlanGraph.from_json(data["graph"]))
            state.phase, state.stopped, state.rollback = data["phase"], data["stopped"], data["rollback"]
            state.decisions = tuple(data["decisions"])
            state.applied, state.seq = dict(data["applied"]), data["seq"]
            for step_id, stored in data["steps"].items():
                if step_id not in state._steps:
                    raise KeyError(step_id)
                state._steps[step_id] = StepState(**fields_from_json(stored))
            state.superseded = tuple((s, StepState(**fields_from_json(old))) for s, old in data["superseded"])
            state._derive()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CorruptRecord(f"a stored state of a plan cannot be read: {error!r}") from error
        return state

    # Inside

    def _more_tries(self, step_id: str, tries: int) -> JsonObject:
        # `start` has counted one; a step that fails before it runs has made none.
        is_running = self._steps[step_id].status == "running"
        return {"tries": self._steps[step_id].tries + max(0, tries - 1)} if is_running and tries > 1 else {}

    def _block_dependents(self, step_id: str) -> list[Transition]:
        """Block what needs a step, directly or not, as far as it has not started."""
        blocked = []
        waiting = [step_id]
        while waiting:
            cause = waiting.pop(0)
            for name in self.graph.dependents(cause):
                if self._steps[name].status in ("pending", "awaiting_approval", "retry_wait"):
                    blocked.append(self._move(name, "blocked", cause=cause))
                    waiting.append(name)
        return blocked

    def _of_plan(self, **changes: Any) -> Transition:
        return Transition(self.seq, None, self.phase, changes.get("phase", self.phase), changes)

    def _move(self, step_id: str, after: StepStatus, **changes: Any) -> Transition:
        self._refuse(step_id, after)
        return self._change(step_id, after, **changes)

    def _refuse(self, step_id: str, after: StepStatus) -> None:
        before = self._steps[step_id].status
        if after not in TRANSITIONS[before]:
            raise IllegalTransition(f"step {step_id} is {before} and cannot become {after}")

    def _change(self, step_id: str, after: StepStatus, **changes: Any) -> Transition:
        state = self._steps[step_id]
        changed = {name: value for name, value in changes.items() if getattr(state, name) != value}
        return self._commit(Transition(self.seq, step_id, state.status, after, changed))

    def _commit(self, change: Transition) -> Transition:
        """Make one change visible; the only place where anything is written."""
        writer = threading.get_ident()
        self._writer = self._writer or writer
        if self._writer != writer:
            raise IllegalTransition("a second thread writes to the state of a plan")
        if change.step is None:
            self.phase = change.changes.get("phase", self.phase)
            self.stopped = change.changes.get("stopped", self.stopped)
            self.rollback = change.changes.get("rollback", self.rollback)
            self.decisions = tuple(change.changes.get("decisions", self.decisions))
            if (rule := change.changes.get("rule")) is not None:
                self.applied[rule] = self.applied.get(rule, 0) + 1
        else:
            before = self._steps[change.step]
            after = cast(StepStatus, change.after)
            self._steps[change.step] = dataclasses.replace(before, status=after, **change.changes)
            self._counts[before.status] -= 1
            self._counts[after] += 1
            self._ready.update(change.step, before.status, after)
        self.seq = change.seq + 1
        return change
