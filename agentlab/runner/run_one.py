"""Execute one run with live objects. No names are looked up here, and no file is touched."""

import asyncio
import datetime
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentlab.answers import submit_tool
from agentlab.approvals import Ask
from agentlab.budget import Budget, Meter
from agentlab.environments.base import Environment, Suite, settle
from agentlab.errors import (
    AgentLabError,
    BudgetExceeded,
    ConfigError,
    InfrastructureError,
    Interrupted,
    ModelUnavailable,
    QuotaExhausted,
    StopRun,
)
from agentlab.html_text import lines, table
from agentlab.records import Answer, Event, JsonObject, Model
from agentlab.scoring import Score, calls_of, score_run
from agentlab.secrets import scrub
from agentlab.session import PlanJournal, Session, SessionSettings, SuiteKnowledge
from agentlab.strategies.base import Strategy
from agentlab.tasks import Task
from agentlab.trace import Trace

WALL_LIMIT_S = 3600.0
"""A run that takes longer than this, waits included, is stuck: infrastructure."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything that one run brought."""

    run_id: str
    task: Task
    strategy: str
    model: str
    model_kind: str
    language: str
    end_reason: str
    answer: Answer | None
    score: Score
    meter: Meter
    events: list[Event]
    facts: JsonObject
    started_at: datetime.datetime
    wall_s: float
    error: str | None = None
    is_quota_exhausted: bool = False
    failure_kind: str = ""
    """`ModelUnavailable.kind` of what ended the run; empty for any other end."""

    @property
    def ended_at(self) -> datetime.datetime:
        """Start plus elapsed monotonic time, so a clock that jumps cannot make a run end before it began."""
        return self.started_at + datetime.timedelta(seconds=self.wall_s)

    def _repr_html_(self) -> str:
        """The run in a notebook: what it was, how it was judged, what it did."""
        score = self.score
        about = f"{self.strategy} with {self.model} ({self.model_kind}), task {self.task.id}"
        judged = f"verdict {score.verdict}, success {score.success}, outcome {score.outcome}, ended: {self.end_reason}"
        checks = [(c.key, c.truth, c.claimed, c.supported, c.is_right) for c in score.checks]
        calls = [
            (e.data["tool"], e.data["arguments"], e.data["success"], e.data.get("passed"), e.data["observation"])
            for e in self.events
            if e.kind == "tool_call"
        ]
        return (
            lines(about, judged, *([self.error] if self.error else []))
            + table(("criterion", "truth", "claimed", "supported", "right"), checks)
            + table(("tool", "arguments", "success", "passed", "observation"), calls)
        )


async def run_one(
    task: Task,
    environment: Environment,
    strategy: Strategy,
    model: Model,
    settings: SessionSettings,
    budget: Budget,
    *,
    suite: SuiteKnowledge | None = None,
    journal: PlanJournal | None = None,
    ask_person: Ask | None = None,
    run_id: str = "run",
    repeat: int = 0,
    seed: int = 0,
    on_event: Callable[[Event], Any] | None = None,
    debug: bool = False,
) -> RunResult:
    """Return the judged result of one run.

    Args:
        task: with its truth; the strategy gets its view only.
        environment: fresh; it is reset here and closed here.
        strategy: fresh.
        model: may be shared with other runs.
        settings: what the experiment fixes for all strategies.
        budget: limits of this run.
        suite: rules and workers that the suite tells every strategy.
        journal: where a plan's changes are stored as they happen; None keeps them in memory.
        ask_person: reaches a person, where the settings ask one about approvals; None when nobody is there.
        run_id: identity of the run in the trace.
        repeat: index of the repetition.
        seed: seed of environment and model.
        on_event: called with every event as it is recorded (live display).
        debug: raise bugs instead of recording them as end_reason `error`.

    Raises:
        ConfigError: a setting of the user's cannot work, which is no property of the strategy.
        Interrupted: a person pressed Ctrl-C while a tool ran.
        asyncio.CancelledError: the run was cancelled from outside.
    """
    started_at = datetime.datetime.now(datetime.UTC)
    trace = Trace(run_id, on_event)
    meter = Meter(budget)
    parts = _Parts(
        task, environment, strategy, model, settings, suite or SuiteKnowledge(), journal, ask_person, repeat, seed
    )
    ended = await _solve(parts, meter, trace, debug)
    n_malformed = sum(1 for event in trace.of_kind("error") if event.data.get("where") == "reply")
    calls = calls_of(trace.events)
    score = score_run(task, ended.answer, ended.end_reason, calls, ended.facts, ended.facts_before, n_malformed)
    message = _message(ended.error)
    judged = {"success": score.success, "outcome": score.outcome, "answer": _answer_data(ended.answer)}
    trace.add("run_end", "session", end_reason=ended.end_reason, message=message, **judged)
    return RunResult(
        run_id=run_id,
        task=task,
        strategy=strategy.name,
        model=model.name,
        model_kind=model.kind,
        language=settings.language,
        end_reason=ended.end_reason,
        answer=ended.answer,
        score=score,
        meter=meter,
        events=trace.events,
        facts=ended.facts,
        started_at=started_at,
        wall_s=time.perf_counter() - trace.started,
        error=message,
        is_quota_exhausted=isinstance(ended.error, QuotaExhausted),
        failure_kind=ended.error.kind if isinstance(ended.error, ModelUnavailable) else "",
    )


@dataclass(frozen=True, slots=True)
class _Parts:
    """The live objects of a run."""

    task: Task
    environment: Environment
    strategy: Strategy
    model: Model
    settings: SessionSettings
    suite: SuiteKnowledge
    journal: PlanJournal | None
    ask_person: Ask | None
    repeat: int
    seed: int


@dataclass(slots=True)
class _Ended:
    """How the strategy's work ended."""

    end_reason: str = "error"
    answer: Answer | None = None
    error: Exception | None = None
    facts: JsonObject = field(default_factory=dict)
    facts_before: JsonObject = field(default_factory=dict)


async def _solve(parts: _Parts, meter: Meter, trace: Trace, debug: bool) -> _Ended:
    """Let the strategy work, and name the way it ended; only what is nobody's result leaves as an exception."""
    ended = _Ended()
    try:
        async with asyncio.timeout(WALL_LIMIT_S):
            session = await _open(parts, meter, trace)
            ended.facts_before = await settle(parts.environment.facts())
            try:
                ended.answer = await parts.strategy.solve(session)
            finally:
                session.close()
                ended.facts = await settle(parts.environment.facts())
        ended.end_reason = "gave_up" if ended.answer.gave_up else "answered"
    except StopRun as stop:
        ended.end_reason, ended.error = stop.end_reason, stop
        if isinstance(stop, BudgetExceeded):
            trace.add("budget_hit", "session", limit=stop.kind, message=str(stop))
    except (InfrastructureError, TimeoutError) as trouble:
        ended.end_reason, ended.error = "infrastructure", trouble
    except (ConfigError, Interrupted, asyncio.CancelledError):
        raise
    except Exception as bug:
        if debug:
            raise
        ended.end_reason, ended.error = "error", bug
        trace.add("error", "session", where="agentlab", traceback=scrub(traceback.format_exc()))
    finally:
        await _close(parts.environment, trace)
    return ended


async def _close(environment: Environment, trace: Trace) -> None:
    """Close the environment; that it failed to close is worth a line in the trace, and changes no result."""
    try:
        await settle(environment.close())
    except Exception as error:
        trace.add("error", "session", where="environment.close", message=scrub(f"{type(error).__name__}: {error}"))


def _message(error: Exception | None) -> str | None:
    """What went wrong, in words; of a foreign exception also its class, of a bug where."""
    if error is None:
        return None
    if isinstance(error, AgentLabError):
        return scrub(str(error))
    text = f"{type(error).__name__}: {error}"
    if not isinstance(error, TimeoutError):
        last = traceback.extract_tb(error.__traceback__)[-1]
        text += f" ({Path(last.filename).name}, line {last.lineno})"
    return scrub(text)


def knowledge_of(suite: Suite, *, is_free_text: bool = False) -> SuiteKnowledge:
    """Return what a suite tells every strategy.

    Args:
        suite: the suite.
        is_free_text: True for a task made of free text. It has the default criteria of the suite, which need not be
            what was asked for, so no plan has to check them.
    """
    rules = suite.rules
    if rules is not None and is_free_text:
        rules = rules.model_copy(update={"checks": {}})
    return SuiteKnowledge(rules, suite.workers, suite.policy)


async def _open(parts: _Parts, meter: Meter, trace: Trace) -> Session:
    """Reset the environment and open the session on it."""
    await settle(parts.environment.reset(parts.task, parts.seed))
    view = parts.task.view("zh" if parts.settings.language == "zh" else "en")
    tools = (*await settle(parts.environment.tools()), submit_tool(view.criteria, view.language))
    strategy, model = parts.strategy, parts.model
    trace.add(
        "run_start",
        "session",
        task=view.model_dump(mode="json"),
        strategy={"name": strategy.name, "version": strategy.version, "actors": list(strategy.actors)},
        model={"name": model.name, "kind": model.kind},
        tools=[tool.name for tool in tools],
        budget=meter.budget.model_dump(exclude_none=True),
        seed=parts.seed,
        repeat=parts.repeat,
    )
    session = Session(
        view,
        tools,
        parts.settings,
        parts.suite,
        parts.task,
        model,
        meter,
        trace,
        parts.repeat,
        parts.seed,
        parts.ask_person,
    )
    session.journal = parts.journal
    return session


def _answer_data(answer: Answer | None) -> JsonObject | None:
    if answer is None:
        return None
    findings = [
        {"criterion": f.criterion, "subject": f.subject, "status": f.status, "evidence": f.evidence}
        for f in answer.findings
    ]
    return {"findings": findings, "verdict": answer.verdict, "text": answer.text}
