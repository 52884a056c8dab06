"""Carry out one goal with a plan that survives a kill: `agentlab do` and `agentlab resume`.

The journal is a store of the normal schema with one run in it. A killed run continues from where it stood: what has
completed is never run again, what may have taken effect is looked up or asked about, never simply repeated.
"""

import dataclasses
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab.approvals import POLICIES, Ask, Policy
from agentlab.budget import Budget
from agentlab.environments.base import Environment, Suite, load_suite, settle
from agentlab.errors import ConfigError, unknown_name
from agentlab.models.base import build_model
from agentlab.planning.journal import Journal, JournalContent, read_journal
from agentlab.planning.plan import PlanStep
from agentlab.planning.recovery import Recovery, recover
from agentlab.planning.state import PlanState
from agentlab.records import Answer, Event, JsonObject, ToolCall, ToolResult
from agentlab.runner.rows import call_rows, run_row, step_rows
from agentlab.runner.run_one import RunResult, knowledge_of, run_one
from agentlab.runner.try_one import resolve_task
from agentlab.session import Session, SessionSettings
from agentlab.store import Store
from agentlab.strategies.plan_execute import Execution, PlanExecute
from agentlab.tasks import Task
from agentlab.tools import Tool
from agentlab.trace import pack

Decide = Callable[[PlanStep, JsonObject], bool | None]
"""Says whether the effect of an interrupted step, or of its undo, has happened; None leaves it open."""
Approve = Callable[[str | None, Tool, JsonObject], bool | None]
"""Says whether a call may be made (plan step, tool, arguments); None leaves it open."""


@dataclass(frozen=True, slots=True)
class Done:
    """What carrying out a goal came to."""

    result: RunResult | None
    """None when a person has to decide first."""
    has_truth: bool = False
    recovery: Recovery | None = None
    """Of a resumed run: what was found."""


async def do_goal(
    goal: str,
    journal: str | Path,
    *,
    suite: str = "sales",
    model: str = "simulated:perfect",
    language: str = "en",
    parameters: Mapping[str, Any] | None = None,
    approvals: Policy = "ask",
    environment: Mapping[str, Any] | None = None,
    approve: Approve | None = None,
    on_event: Callable[[Event], Any] | None = None,
) -> Done:
    """Plan and carry out a goal, with every change stored before the next thing happens.

    Args:
        goal: a task id, an instruction, a subject, or free text.
        journal: file (SQLite) or database URL; it must be new.
        suite: where the tools come from.
        model: `provider:name` of the planner.
        language: zh or en.
        parameters: of `plan_execute`.
        approvals: what happens to tools that ask and that the suite did not approve beforehand: allow, deny, or ask
            for each call.
        environment: settings of the environment.
        approve: answers for a person who is asked; without an answer the step waits, the rest goes on, and `resume`
            asks again.
        on_event: called with every event as it happens.

    Raises:
        ConfigError: the journal holds a run already (`agentlab resume` continues it), or an unknown name.
    """
    if approvals not in POLICIES:
        raise unknown_name("answer to approvals", approvals, POLICIES)
    held = load_suite(suite)
    resolved = resolve_task(held, goal)
    # Settings that cannot work are refused before a journal is begun.
    await settle(held.make_environment(environment or {}).close())
    store = Store(journal, create=True)
    try:
        if store.read("runs"):
            raise ConfigError(
                f"{journal} holds a run already. Continue it with `agentlab resume {journal}`, or name a new file."
            )
        run_id = uuid.uuid4().hex[:20]
        about = {
            "goal": goal, "suite": suite, "model": model, "language": language, "parameters": dict(parameters or {}),
            "approvals": approvals, "environment": dict(environment or {}),
            "task": resolved.task.model_dump(mode="json"), "has_truth": resolved.has_truth,
        }  # fmt: skip
        store.claim_folder("do", 0, {"name": "do", "goal": goal})
        store.plan([_row(run_id, about, resolved.task)])
        attempt = store.claim(run_id)
        assert attempt is not None
        store.add_to_journal(run_id, attempt, [("goal", about)])
        return await _carry_out(store, run_id, attempt, about, held, None, approve, on_event)
    finally:
        store.close()


async def resume(
    journal: str | Path,
    *,
    decide: Decide | None = None,
    approve: Approve | None = None,
    on_event: Callable[[Event], Any] | None = None,
) -> Done:
    """Continue a run that was killed or stopped, from where its journal ends.

    Args:
        journal: file or database URL of `do_goal`.
        decide: asked about steps whose effect may have happened and which the environment cannot look up.
        approve: answers for a person about calls that need an approval.
        on_event: called with every event as it happens.

    Returns:
        `Done.result` is None when somebody has to decide first, or when there is nothing to continue;
        `Done.recovery` says which.

    Raises:
        ConfigError: there is no run in the journal, or another process works on it.
    """
    store = Store(journal)
    try:
        rows = store.read("runs")
        if not rows:
            raise ConfigError(f"{journal} holds no run; `agentlab do GOAL --journal {journal}` makes one.")
        run_id = str(rows[-1]["run_id"])
        content = read_journal(store, run_id)
        held = load_suite(content.goal["suite"])
        if rows[-1]["state"] == "finished" and rows[-1]["end_reason"] not in ("infrastructure", "cancelled"):
            found = Recovery("completed", reason=f"it ended: {rows[-1]['end_reason']}")
            return Done(None, content.goal["has_truth"], found)
        attempt = store.claim(run_id)
        if attempt is None:
            raise ConfigError(f"Another process works on {journal}; wait for it, or end it first.")
        return await _resume(store, run_id, attempt, content, held, decide, approve, on_event)
    finally:
        store.close()


async def _resume(
    store: Store,
    run_id: str,
    attempt: int,
    content: JournalContent,
    suite: Suite,
    decide: Decide | None,
    approve: Approve | None,
    on_event: Callable[[Event], Any] | None,
) -> Done:
    has_truth = bool(content.goal["has_truth"])
    recovery = None
    if content.state is not None:
        environment = suite.make_environment(content.goal["environment"])
        tools = {tool.name: tool for tool in environment.tools()}
        journal = Journal(store, run_id, attempt)
        journal.changes(content.state.interrupt())
        await _look_up(content.state, environment, tools, journal, decide)
        await settle(environment.close())
        recovery = recover(content.state, tools)
        if recovery.ask or recovery.open_undos:
            store.interrupt(run_id, attempt)
            return Done(None, has_truth, recovery)
        for step_id in recovery.rerun:
            journal.changes(content.state.rerun(step_id))
        for step_id in recovery.redo:
            journal.changes(content.state.reopen_undo(step_id))
    done = await _carry_out(store, run_id, attempt, content.goal, suite, content, approve, on_event)
    return dataclasses.replace(done, recovery=done.recovery or recovery)


async def _look_up(
    state: PlanState, environment: Environment, tools: Mapping[str, Tool], journal: Journal, decide: Decide | None
) -> None:
    """Settle interrupted steps with an effect: the environment knows, or somebody does, or they stay open."""
    found = recover(state, tools)
    for step_id in found.open_undos:
        about = {"undo": state[step_id].undos[-1].tool}
        happened = decide(state.graph.step(step_id), about) if decide is not None else None
        if happened is not None:
            done = state.finish_undo(step_id, success=True) if happened else state.reopen_undo(step_id)
            journal.changes(done)
    for step_id in found.ask:
        step = state.graph.step(step_id)
        calls = state.inputs(step_id).calls
        if len(calls) != 1 or step.tool is None:
            continue
        known = await settle(_happened(environment, step.tool, calls[0]))
        happened = known.success if known is not None else decide(step, calls[0]) if decide is not None else None
        if happened:
            result = known if known is not None else ToolResult(True, message="found to have happened before the stop")
            journal.changes(state.complete(step_id, (result,)))
        elif happened is False:
            journal.changes(state.rerun(step_id))


def _happened(environment: Environment, tool: str, arguments: JsonObject) -> Any:
    """What the environment knows about a call of the past: a result, a failed result (it did not happen), or None."""
    look_up = getattr(environment, "happened", None)
    return None if look_up is None else look_up(tool, arguments)


async def _carry_out(
    store: Store,
    run_id: str,
    attempt: int,
    about: JsonObject,
    suite: Suite,
    found: JournalContent | None,
    approve: Approve | None,
    on_event: Callable[[Event], Any] | None,
) -> Done:
    task = Task.model_validate(about["task"])
    environment = suite.make_environment(about["environment"])
    strategy = PlanExecute(**about["parameters"])
    if found is not None and found.state is not None:
        strategy = Resumed(found.state, **about["parameters"])
    if found is not None and found.snapshot is not None:
        environment = Restored(environment, found.snapshot)
    model = build_model(about["model"])
    approved = (suite.approved_tools or {}).get(task.id, ())
    settings = SessionSettings(
        language=about["language"], approvals=about["approvals"], approved_tools=frozenset(approved)
    )
    try:
        result = await run_one(
            task,
            environment,
            strategy,
            model,
            settings,
            Budget(),
            suite=knowledge_of(suite),
            journal=Journal(store, run_id, attempt, environment.snapshot),
            ask_person=_asking(approve),
            run_id=run_id,
            on_event=on_event,
        )
    finally:
        await model.close()
    if waiting := _awaiting_approval(store, run_id, result):
        # Not the end of the run: its journal holds all of it, and the next attempt goes on.
        store.interrupt(run_id, attempt)
        return Done(None, about["has_truth"], waiting)
    store.finish(
        run_id, attempt, run_row(result), step_rows(result.events), call_rows(result.events), pack(result.events)
    )
    return Done(result, about["has_truth"])


def _asking(approve: Approve | None) -> Ask | None:
    """What the session asks."""
    if approve is None:
        return None

    # Not in a thread: one that waits for a terminal could not be ended by Ctrl-C.
    async def ask(tool: Tool, arguments: JsonObject, step_id: str | None) -> bool | None:
        return approve(step_id, tool, arguments)

    return ask


def _awaiting_approval(store: Store, run_id: str, result: RunResult) -> Recovery | None:
    """What a run waits for that ended because a person has to approve something; None when it ended otherwise."""
    state = read_journal(store, run_id).state if result.end_reason == "escalated" else None
    waiting = state.with_status("awaiting_approval") if state is not None else ()
    if not waiting:
        return None
    return Recovery("cannot_recover", reason=f"an approval is needed: {', '.join(waiting)}", approvals=waiting)


class Resumed(PlanExecute):
    """Goes on with a plan that stands in the journal, instead of asking for one.

    Args:
        state: the plan as it stood.
        parameters: of `plan_execute`.
    """

    def __init__(self, state: PlanState, **parameters: Any) -> None:
        super().__init__(**parameters)
        self._state = state

    async def solve(self, session: Session) -> Answer:
        """Return the answer that follows from the old results and the new ones."""
        session.note("plan", "planner", plan=self._state.graph.to_json(), resumed=True)
        state = self._state
        for step_id in sorted(state.with_status("completed"), key=lambda name: state[name].completed_seq or 0):
            step = state.graph.step(step_id)
            for number, (arguments, result) in enumerate(
                zip(state.inputs(step_id).calls, state[step_id].results, strict=False)
            ):
                if step.tool is not None:
                    call = ToolCall(f"{step_id}_{number}", step.tool, arguments)
                    session.recall(step.worker_type or "worker", call, result, step_id)
        for step_id in state.with_status("pending"):
            if state[step_id].is_approved:
                for arguments in state.inputs(step_id).calls:
                    session.recall_approval(ToolCall(step_id, state.graph.step(step_id).tool or "", arguments))
        return await self.carry_out(session, Execution(session, self._state, self))


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


def _row(run_id: str, about: JsonObject, task: Task) -> JsonObject:
    return {
        "run_id": run_id, "experiment": "do", "suite": about["suite"], "task_id": task.id, "cluster": task.cluster,
        "defective": task.is_defective, "language": about["language"], "strategy": "plan_execute",
        "strategy_name": "plan_execute", "strategy_parameters": json.dumps(about["parameters"]), "answer_by": "python",
        "model": about["model"], "repeat": 0, "seed": 0, "planned_order": 0,
    }  # fmt: skip
