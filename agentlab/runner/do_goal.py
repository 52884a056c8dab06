"""Carry out one goal with a plan that survives a kill: `agentlab do`. `resume_goal` goes on with it.

The journal is a store of the normal schema with one run in it.
"""

import asyncio
import contextlib
import inspect
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab.approvals import POLICIES, Policy
from agentlab.budget import Budget
from agentlab.environments.base import Environment, Suite, load_suite, settle
from agentlab.errors import ConfigError, StoreError, unknown_name
from agentlab.models.base import build_model
from agentlab.planning.journal import Journal, read_journal
from agentlab.planning.recovery import Recovery
from agentlab.records import Event, JsonObject
from agentlab.runner.person import Person
from agentlab.runner.rows import call_rows, run_row, step_rows
from agentlab.runner.run_one import RunResult, knowledge_of, run_one
from agentlab.runner.try_one import Resolved, no_truth, resolve_task
from agentlab.session import SessionSettings
from agentlab.store import HEARTBEAT_S, Store
from agentlab.strategies.base import build_strategy
from agentlab.strategies.plan_execute import PlanExecute
from agentlab.tasks import Task
from agentlab.trace import pack

LANGUAGES = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Done:
    """What carrying out a goal came to."""

    result: RunResult | None
    """None when a person has to decide first, or there was nothing to go on with."""
    has_truth: bool = False
    recovery: Recovery | None = None
    """What was found of a resumed run, or what a run waits for."""
    plan_status: str = ""
    """How the plan stands; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a goal: its journal, and what was asked with which settings."""

    store: Store
    run_id: str
    number: int
    about: JsonObject
    suite: Suite

    def journal(self, environment: Environment | None = None) -> Journal:
        """Return the journal; with an environment it keeps snapshots of it."""
        snapshot = None if environment is None else environment.snapshot
        return Journal(self.store, self.run_id, self.number, snapshot)


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
    person: Person | None = None,
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
        person: who is asked; without an answer the step waits, the rest goes on, and `resume` asks again.
        on_event: called with every event as it happens.

    Raises:
        ConfigError: the journal holds a run already (`agentlab resume` continues it), an empty goal, or an unknown
            name; a journal is only begun when everything is known.
    """
    held = load_suite(suite)
    if not goal.strip():
        raise ConfigError("The goal is empty. Say what is to be done, or name a task of the suite.")
    resolved = resolve_task(held, goal)
    about: JsonObject = {
        "goal": goal, "suite": suite, "model": model, "language": language, "parameters": dict(parameters or {}),
        "approvals": approvals, "environment": dict(environment or {}),
        "task": resolved.task.model_dump(mode="json"), "has_truth": resolved.has_truth,
    }  # fmt: skip
    await _refuse_what_cannot_work(about, held, resolved)
    store = Store(journal, create=True)
    try:
        run_id = uuid.uuid4().hex[:20]
        with store.together():
            # In the transaction that plans: of two that begin at the same moment, one finds the run of the other.
            if not store.is_unused():
                raise ConfigError(
                    f"{journal} holds a run already. Continue it with `agentlab resume {journal}`, or name a new file."
                )
            store.claim_folder("do", 0, {"name": "do", "goal": goal})
            store.plan([_row(run_id, about, resolved.task)])
            number = store.claim(run_id)
            assert number is not None
            store.add_to_journal(run_id, number, [("goal", about)])
        attempt = Attempt(store, run_id, number, about, held)
        strategy = PlanExecute(**about["parameters"])
        return await carry_out(
            attempt, strategy, held.new_environment(about["environment"]), person or Person(), on_event
        )
    finally:
        store.close()


async def _refuse_what_cannot_work(about: JsonObject, suite: Suite, resolved: Resolved) -> None:
    """Raise a `ConfigError` for anything that would only show after a journal was begun."""
    if about["approvals"] not in POLICIES:
        raise unknown_name("answer to approvals", about["approvals"], POLICIES)
    if about["language"] not in LANGUAGES:
        raise unknown_name("language", about["language"], LANGUAGES)
    build_strategy("plan_execute", about["parameters"])
    environment = suite.new_environment(about["environment"])
    is_async = inspect.iscoroutinefunction(environment.snapshot)
    await settle(environment.close())
    if is_async:
        raise ConfigError(
            f"snapshot() of the environment of the suite {suite.name} is asynchronous, and the journal of `agentlab "
            "do` needs a plain one: it stores the state with every step that ends. Make `snapshot` a plain method."
        )
    model = build_model(about["model"])
    await model.close()
    if model.kind == "simulated" and not resolved.has_truth:
        raise no_truth(suite, about["goal"])


async def carry_out(
    attempt: Attempt,
    strategy: PlanExecute,
    environment: Environment,
    person: Person,
    on_event: Callable[[Event], Any] | None = None,
) -> Done:
    """Run one attempt, and store how it ended; one that waits for a person is not at its end."""
    about, store, run_id = attempt.about, attempt.store, attempt.run_id
    task = Task.model_validate(about["task"])
    approved = (attempt.suite.approved_tools or {}).get(task.id, ())
    settings = SessionSettings(
        language=about["language"], approvals=about["approvals"], approved_tools=frozenset(approved)
    )
    model = build_model(about["model"])
    try:
        async with _heartbeats(store):
            result = await run_one(
                task,
                environment,
                strategy,
                model,
                settings,
                Budget(),
                suite=knowledge_of(attempt.suite, is_free_text=not about["has_truth"]),
                journal=attempt.journal(environment),
                ask_person=person.ask,
                run_id=run_id,
                on_event=on_event,
            )
    finally:
        await model.close()
    state = read_journal(store, run_id).state
    status = state.status if state is not None else ""
    approvals = state.with_status("awaiting_approval") if state is not None else ()
    escalated = state.escalated if state is not None else ()
    if result.end_reason == "escalated" and (approvals or escalated):
        # Not the end of the run: its journal holds all of it, and the next attempt goes on.
        store.interrupt(run_id, attempt.number)
        needed = "an approval is needed" if approvals else "a person has to decide what becomes of the plan"
        reason = f"{needed}: {', '.join(approvals or escalated)}"
        waiting = Recovery("cannot_recover", reason=reason, approvals=approvals, escalated=escalated)
        return Done(result, about["has_truth"], waiting, status)
    events = result.events
    store.finish(run_id, attempt.number, run_row(result), step_rows(events), call_rows(events), pack(events))
    return Done(result, about["has_truth"], plan_status=status)


@contextlib.asynccontextmanager
async def _heartbeats(store: Store) -> AsyncIterator[None]:
    """Within the block, say again and again that this process works on its run."""
    task = asyncio.create_task(_beat(store))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _beat(store: Store) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        # In the thread of the event loop, as all writes of the journal. One that fails must not be the last.
        with contextlib.suppress(StoreError):
            store.heartbeat()


def _row(run_id: str, about: JsonObject, task: Task) -> JsonObject:
    return {
        "run_id": run_id, "experiment": "do", "suite": about["suite"], "task_id": task.id, "cluster": task.cluster,
        "defective": task.is_defective, "language": about["language"], "strategy": "plan_execute",
        "strategy_name": "plan_execute", "strategy_parameters": json.dumps(about["parameters"]), "answer_by": "python",
        "model": about["model"], "repeat": 0, "seed": 0, "planned_order": 0,
    }  # fmt: skip
