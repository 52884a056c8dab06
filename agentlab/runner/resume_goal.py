"""Continue a goal from where its journal ends: `agentlab resume`.

What has completed is never run again; what may have taken effect is looked up or asked about, never simply repeated.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab.environments.base import Environment, load_suite, settle
from agentlab.errors import ConfigError, UnresolvedReference
from agentlab.json_values import dumps
from agentlab.planning.journal import Journal, JournalContent, MadeCall, read_journal
from agentlab.planning.outcomes import digest_of
from agentlab.planning.plan import PlanStep
from agentlab.planning.recovery import Recovery, recover, undo_of
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import IllegalTransition
from agentlab.records import Answer, Event, JsonObject, ToolCall, ToolResult
from agentlab.runner.do_goal import Attempt, Done, carry_out
from agentlab.runner.person import Person
from agentlab.session import Session
from agentlab.store import Store
from agentlab.strategies.plan_execute import Execution, PlanExecute
from agentlab.tasks import Task
from agentlab.tools import Tool

_RESUMABLE = ("infrastructure", "cancelled", "error")
"""Ways to end that say nothing about the goal."""


async def resume(
    journal: str | Path, *, person: Person | None = None, on_event: Callable[[Event], Any] | None = None
) -> Done:
    """Continue a run that was killed or stopped.

    Args:
        journal: file or database URL of `do_goal`.
        person: asked about steps whose effect may have happened and which the environment cannot look up, about
            approvals, and about a plan that stopped for a decision.
        on_event: called with every event as it happens.

    Returns:
        `Done.result` is None when somebody has to decide first, or when there is nothing to continue;
        `Done.recovery` says which.

    Raises:
        ConfigError: there is no goal in the journal, or another process works on it.
    """
    store = Store(journal)
    try:
        rows = store.read("runs")
        content = read_journal(store, str(rows[-1]["run_id"])) if rows else JournalContent()
        if not content.goal:
            raise ConfigError(
                f"{journal} holds no goal. `agentlab do GOAL --journal FILE` begins one; an experiment is continued "
                "with `agentlab run`."
            )
        last = rows[-1]
        if last["state"] == "finished" and last["end_reason"] not in _RESUMABLE:
            return _ended(content, last["end_reason"])
        suite = load_suite(content.goal["suite"])
        number = store.claim(last["run_id"], retry_errors=True)
        if number is None:
            raise ConfigError(f"Another process works on {journal}; wait for it, or end it first.")
        attempt = Attempt(store, last["run_id"], number, content.goal, suite)
        return await _resume(attempt, content, person or Person(), on_event)
    finally:
        store.close()


def _ended(content: JournalContent, end_reason: str) -> Done:
    status = content.state.status if content.state is not None else ""
    is_reached = status == "completed" and end_reason == "answered"
    found = Recovery("completed" if is_reached else "cannot_recover", reason=f"it ended: {end_reason}")
    return Done(None, bool(content.goal["has_truth"]), found, status)


async def _resume(
    attempt: Attempt, content: JournalContent, person: Person, on_event: Callable[[Event], Any] | None
) -> Done:
    environment = attempt.suite.new_environment(attempt.about["environment"])
    strategy = PlanExecute(**attempt.about["parameters"])
    if content.state is not None:
        waiting = await _settle_what_is_open(attempt, content, environment, person)
        if waiting is not None:
            attempt.store.interrupt(attempt.run_id, attempt.number)
            return Done(None, bool(attempt.about["has_truth"]), waiting, content.state.status)
        strategy = Resumed(content, **attempt.about["parameters"])
    # A fresh one: what was looked up may have changed the first.
    environment = attempt.suite.new_environment(attempt.about["environment"])
    if content.snapshot is not None:
        environment = Restored(environment, content.snapshot)
    return await carry_out(attempt, strategy, environment, person, on_event)


async def _settle_what_is_open(
    attempt: Attempt, content: JournalContent, environment: Environment, person: Person
) -> Recovery | None:
    """Bring a plan that was cut short into a state it can go on from; what a person has to decide first is returned."""
    state = content.state
    assert state is not None
    tools = {tool.name: tool for tool in await settle(environment.tools())}
    journal = attempt.journal()
    journal.changes(state.interrupt())
    await _look_up(content, environment, tools, journal, person)
    await settle(environment.close())
    found = recover(state, tools)
    if found.ask or found.open_undos:
        return found
    for step_id in found.rerun:
        journal.changes(state.rerun(step_id))
    for step_id in found.redo:
        journal.changes(state.reopen_undo(step_id))
    for decision in [each for each in state.decisions if each["kind"] == "escalate"]:
        answer = person.escalated(decision["step"], decision["reason"]) if person.escalated is not None else None
        if answer is None:
            return Recovery("cannot_recover", reason=decision["reason"], escalated=(decision["step"],))
        try:
            journal.changes(state.answer_escalation(decision["step"], restart=answer == "restart"))
        except IllegalTransition as error:
            raise ConfigError(f"{error}. `--end {decision['step']}` ends the plan as it stands.") from error
    return None


async def _look_up(
    content: JournalContent, environment: Environment, tools: Mapping[str, Tool], journal: Journal, person: Person
) -> None:
    """Settle interrupted steps with an effect: the environment knows, or somebody does, or they stay open."""
    state = content.state
    assert state is not None
    found = recover(state, tools)
    for step_id in found.open_undos:
        undo = state[step_id].undos[-1]
        happened = _asked(person, state.graph.step(step_id), {"undo": undo.tool})
        n_calls = len(undo_of(state.graph.step(step_id), state, tools).calls)
        if happened and undo.n_made + 1 >= n_calls and not undo.message:
            journal.changes(state.finish_undo(step_id, success=True))
        elif happened is not None:
            journal.changes(state.reopen_undo(step_id, has_happened=happened))
    for step_id in found.ask:
        step, calls = state.graph.step(step_id), state.inputs(step_id).calls
        made = content.results_of(step_id, step.tool, calls)
        known = [
            result or await settle(_happened(environment, step.tool, arguments))
            for arguments, result in zip(calls, made, strict=True)
        ]
        if None in known:
            shown = calls[0] if len(calls) == 1 else {"calls": list(calls)}
            happened = _asked(person, step, shown)
            if happened is None:
                continue
            told = ToolResult(happened, message="" if not happened else "found to have happened before the stop")
            known = [told if result is None else result for result in known]
        if all(result.success for result in known):
            journal.changes(state.complete(step_id, known))
            continue
        for arguments, result, recorded in zip(calls, known, made, strict=True):
            if result.success and recorded is None:
                # Before the step is ready again: what was found out must not be lost with another stop.
                journal.call(step_id, step.tool or "", arguments, result)
                content.calls.append(MadeCall(step_id, step.tool or "", arguments, result))
        journal.changes(state.rerun(step_id))


def _asked(person: Person, step: PlanStep, about: JsonObject) -> bool | None:
    return person.happened(step, about) if person.happened is not None else None


def _happened(environment: Environment, tool: str | None, arguments: JsonObject) -> Any:
    """What the environment knows about a call of the past: a result, a failed result (it did not happen), or None."""
    look_up = getattr(environment, "happened", None)
    return None if look_up is None or tool is None else look_up(tool, arguments)


class Resumed(PlanExecute):
    """Goes on with a plan that stands in the journal, instead of asking for one.

    Args:
        content: of the journal.
        parameters: of `plan_execute`.
    """

    def __init__(self, content: JournalContent, **parameters: Any) -> None:
        super().__init__(**parameters)
        assert content.state is not None
        self._content = content
        self._state: PlanState = content.state

    async def solve(self, session: Session) -> Answer:
        """Return the answer that follows from the old results and the new ones."""
        session.note("plan", "planner", plan=self._state.graph.to_json(), resumed=True)
        execution = Execution(session, self._state, self)
        self._recall_steps(session, execution)
        self._recall_approvals(session)
        return await self.carry_out(session, execution, n_replans=max(0, self._content.n_plans - 1))

    def _recall_steps(self, session: Session, execution: Execution) -> None:
        """Put what was done into this attempt: it is evidence, and no effect of it may happen again."""
        state = self._state
        for step_id in sorted(state.with_status("completed"), key=lambda name: state[name].completed_seq or 0):
            tool = state.graph.step(step_id).tool
            for arguments, result in zip(_calls_of(state, step_id), state[step_id].results, strict=False):
                # Without arguments it was the effect of another step, or what they referred to is gone.
                if tool is not None and (arguments is not None or not state[step_id].calls):
                    self._recall(session, execution, MadeCall(step_id, tool, arguments or {}, result))
        for call in self._content.calls:
            if not self._is_result(call):
                self._recall(session, execution, call, is_evidence=True)

    def _recall(self, session: Session, execution: Execution, made: MadeCall, *, is_evidence: bool = False) -> None:
        step = self._state.graph.step(made.step) if made.step in self._state.graph else None
        actor = (step.worker_type if step is not None else None) or "worker"
        call = ToolCall(f"{made.step} {dumps(made.arguments)}"[:64], made.tool, made.arguments)
        session.recall(actor, call, made.result, made.step, is_open=True)
        execution.take_up(made.step, call, made.result if is_evidence else None)

    def _is_result(self, call: MadeCall) -> bool:
        """Whether a call is one of those whose results a completed step holds."""
        state = self._state
        if call.step not in state.graph or state[call.step].status != "completed":
            return False
        calls = _calls_of(state, call.step)
        return any(call.is_of(call.step, state.graph.step(call.step).tool, arguments) for arguments in calls)

    def _recall_approvals(self, session: Session) -> None:
        """Take up approvals that were not used, as far as they are for what the step would do now."""
        state = self._state
        for step_id in state.with_status("pending"):
            if not state[step_id].is_approved:
                continue
            step, calls = state.graph.step(step_id), state.inputs(step_id).calls
            if digest_of(step, calls) == state[step_id].approval:
                for arguments in calls:
                    session.recall_approval(ToolCall(step_id, step.tool or "", arguments))


def _calls_of(state: PlanState, step_id: str) -> Sequence[JsonObject | None]:
    """The arguments of a step's calls: as they were, else as they follow from the plan; none where that is gone."""
    try:
        return state[step_id].calls or state.inputs(step_id).calls
    except UnresolvedReference:
        return [None] * len(state[step_id].results)


class Restored:
    """An environment that goes on from a snapshot: after its reset it is brought back to where it was.

    Args:
        inner: the environment.
        snapshot: its state at the last step that ended.
    """

    def __init__(self, inner: Environment, snapshot: Any) -> None:
        self._inner = inner
        self._snapshot = snapshot
        self.version = inner.version

    async def reset(self, task: Task, seed: int) -> None:
        """Reset, then restore."""
        await settle(self._inner.reset(task, seed))
        await settle(self._inner.restore(self._snapshot))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
