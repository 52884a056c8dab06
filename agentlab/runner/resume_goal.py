"""Continue a goal from where its journal ends: `agentlab resume`.

What has completed is never run again; what may have taken effect is looked up or asked about, never simply repeated.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentlab.environments.base import Environment, load_suite, settle
from agentlab.errors import ConfigError
from agentlab.json_values import dumps
from agentlab.planning.journal import Journal, JournalContent, read_journal
from agentlab.planning.plan import PlanStep
from agentlab.planning.recovery import Recovery, recover
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
        happened = _asked(person, state.graph.step(step_id), {"undo": state[step_id].undos[-1].tool})
        if happened is not None:
            journal.changes(state.finish_undo(step_id, success=True) if happened else state.reopen_undo(step_id))
    for step_id in found.ask:
        step, calls = state.graph.step(step_id), state.inputs(step_id).calls
        known = [await settle(_happened(environment, step.tool, arguments)) for arguments in calls]
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
        journal.changes(state.rerun(step_id))
        content.known += [
            (step_id, arguments, result) for arguments, result in zip(calls, known, strict=True) if result.success
        ]


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
        state = self._state
        for step_id in sorted(state.with_status("completed"), key=lambda name: state[name].completed_seq or 0):
            for arguments, result in zip(state.inputs(step_id).calls, state[step_id].results, strict=False):
                self._recall(session, step_id, arguments, result)
        execution = Execution(session, state, self)
        for step_id, arguments, result in self._content.known:
            execution.take_up(step_id, self._recall(session, step_id, arguments, result, is_open=True))
        for step_id in state.with_status("pending"):
            if state[step_id].is_approved:
                for arguments in state.inputs(step_id).calls:
                    session.recall_approval(ToolCall(step_id, state.graph.step(step_id).tool or "", arguments))
        return await self.carry_out(session, execution)

    def _recall(
        self, session: Session, step_id: str, arguments: JsonObject, result: ToolResult, *, is_open: bool = False
    ) -> ToolCall:
        step = self._state.graph.step(step_id)
        call = ToolCall(f"{step_id} {dumps(arguments)}"[:64], step.tool or "", arguments)
        if step.tool is not None:
            session.recall(step.worker_type or "worker", call, result, step_id, is_open=is_open)
        return call


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
