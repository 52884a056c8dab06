"""How a plan went, as records: rebuilt from the events of a run, or read off a `PlanState`. Nothing is drawn here.

Events tell more than the state: every try of a step with its times, waits, undos, and the plans that were replaced.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from agentlab.errors import ConfigError
from agentlab.planning.granularity import hints
from agentlab.planning.plan import PlanGraph
from agentlab.planning.reasons import undo_words
from agentlab.planning.statuses import OPEN, STATUS_WORDS, STEP_STATUSES, StepStatus
from agentlab.planning.step_state import StepState
from agentlab.planning.view import PlanView
from agentlab.records import Event, JsonObject
from agentlab.report.labels import plural, text, word


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time of one step."""

    kind: str
    """try, wait (between two tries) or undo."""
    status: str
    """What it led to: of a try the status after it (`retry_wait` where it is repeated), of an undo done or failed."""
    start_s: float
    end_s: float | None
    """Seconds, on the clock of `start_s`; None when the records stop before it ended."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What became of one step of a plan."""

    id: str
    status: StepStatus = "pending"
    bars: tuple[Bar, ...] = ()
    tries: int = 0
    """Executions, the session's own repeats included."""
    n_passed: int = 0
    """Checks that its last try made and that passed."""
    n_not_passed: int = 0
    reason: str = ""
    """Why it did not complete, in words; empty when it did or is open."""
    cause: str | None = None
    """Of a blocked step: the dependency that did not succeed."""

    @property
    def duration_s(self) -> float | None:
        """Seconds from its first start to the end of its last try, waits included; None when it has no end."""
        tries = [bar for bar in self.bars if bar.kind != "undo"]
        return None if not tries or tries[-1].end_s is None else tries[-1].end_s - tries[0].start_s


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """One plan of a run and what became of its steps."""

    graph: PlanGraph
    steps: Mapping[str, StepRecord]
    """By id, in plan order."""
    number: int = 1
    """Place among the plans of the run, from 1."""
    start_s: float = 0.0
    """When the plan was there, on the clock of the bars."""
    end_s: float | None = None
    """When a new plan replaced it, or the records stop; None when that is not known."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """run_id, strategy, model, model_kind; empty for a state."""

    def critical_path(self) -> tuple[str, ...]:
        """Return the chain of strong dependencies that took longest; empty when no step has a known duration."""
        seconds = {id: step.duration_s for id, step in self.steps.items()}
        known = {id: value for id, value in seconds.items() if value is not None}
        path = self.graph.critical_path(known).steps if known else ()
        return tuple(id for id in path if id in known)


Source = PlanRecord | PlanView | Sequence[Event]
"""What a chart of a plan is drawn from."""


def record_of(source: Source) -> PlanRecord:
    """Return the record behind a source: of events the last plan of the run.

    Raises:
        ConfigError: the events hold no plan.
    """
    if isinstance(source, PlanRecord):
        return source
    return plan_of_state(source) if isinstance(source, PlanView) else plan_of_events(source)


def plan_of_state(state: PlanView) -> PlanRecord:
    """Return the record of a plan's state; of each step only the last try has times."""
    steps = {step.id: _of_state(step.id, state) for step in state.graph.steps}
    return PlanRecord(state.graph, steps)


def plan_of_events(events: Sequence[Event]) -> PlanRecord:
    """Return the record of the plan that a run ended with.

    Raises:
        ConfigError: the events hold no plan.
    """
    return plans_of_events(events)[-1]


def plans_of_events(events: Sequence[Event]) -> tuple[PlanRecord, ...]:
    """Return the record of every plan of a run, each as it stood when the next one replaced it.

    Steps that a new plan keeps because they had completed have their bars in both.

    Raises:
        ConfigError: the events hold no plan.
    """
    run = _run(events)
    reader = _Reader()
    plans: list[PlanRecord] = []
    for event in events:
        if event.kind == "plan" and "plan" in event.data:
            plans += reader.close(run, event.t_s)
            reader.open(PlanGraph.from_json(event.data["plan"]), event.t_s)
        elif event.kind == "step" and event.data.get("step") is not None:
            reader.move(event)
        elif event.kind == "tool_call":
            reader.call(event.data)
    plans += reader.close(run, events[-1].t_s if events else None)
    if not plans:
        raise ConfigError(f"This run holds no plan ({_why_no_plan(events)}); only plan_execute makes one.")
    return tuple(plans)


def steps_table(source: Source) -> pd.DataFrame:
    """Return one row per step, in plan order.

    Columns: `step, does` (tool or kind), `depends_on, status, tries, checks_passed, checks_not_passed, seconds`
    (waits included, missing where unknown), `reason`.
    """
    record = record_of(source)
    rows = []
    for step in record.graph.steps:
        kept = record.steps[step.id]
        rows.append(
            {
                "step": step.id,
                "does": step.tool or step.kind,
                "depends_on": ", ".join(step.depends_on),
                "status": kept.status,
                "tries": kept.tries,
                "checks_passed": kept.n_passed,
                "checks_not_passed": kept.n_not_passed,
                "seconds": kept.duration_s,
                "reason": kept.reason,
            }
        )
    columns = ["step", "does", "depends_on", "status", "tries", "checks_passed", "checks_not_passed", "seconds"]
    return pd.DataFrame(rows, columns=[*columns, "reason"]).astype({"seconds": "Float64"}).round({"seconds": 3})


def statuses_of(record: PlanRecord) -> list[StepStatus]:
    """Return the statuses that occur among the steps, finished ones first."""
    found = {step.status for step in record.steps.values()}
    return sorted(found, key=lambda status: (status in OPEN, STEP_STATUSES.index(status)))


def plan_summary(source: Source, language: str = "en") -> str:
    """Return in one line how many steps have which status, and which checks did not pass.

    Raises:
        ConfigError: the events hold no plan.
    """
    record = record_of(source)
    statuses = [step.status for step in record.steps.values()]
    comma = text("plan_comma", language)
    counts = comma.join(
        text("plan_count", language, n=statuses.count(status), status=word(STATUS_WORDS, status, language))
        for status in statuses_of(record)
    )
    bad = comma.join(id for id, step in record.steps.items() if step.n_not_passed)
    checks = text("plan_caption_checks", language, steps=bad) if bad else ""
    return text("plan_caption", language, n=len(statuses), s=plural(len(statuses)), counts=counts, checks=checks)


def plan_hints(source: Source, language: str = "en") -> str:
    """Return what there is to remark on how the plan is cut, a line each; says so where there is nothing.

    Remarks that follow from the plan alone (`planning.granularity`); the effects of its tools are not in a trace.

    Raises:
        ConfigError: the events hold no plan.
    """
    found = hints(record_of(source).graph)
    lines = [hint.message_zh if language == "zh" else hint.message for hint in found]
    return "\n".join(lines) or text("plan_no_hints", language)


class _Reader:
    """Follows the changes of one plan after the other."""

    def __init__(self) -> None:
        self._graph: PlanGraph | None = None
        self._number = 0
        self._start_s = 0.0
        self._steps: dict[str, StepRecord] = {}

    def open(self, graph: PlanGraph, t_s: float) -> None:
        kept = {id: step for id, step in self._steps.items() if step.status == "completed"}
        self._graph, self._number, self._start_s = graph, self._number + 1, t_s
        self._steps = {step.id: kept.get(step.id, StepRecord(step.id)) for step in graph.steps}

    def close(self, run: JsonObject, t_s: float | None) -> list[PlanRecord]:
        if self._graph is None:
            return []
        steps = {id: dataclasses.replace(step, reason=self._reason(step)) for id, step in self._steps.items()}
        return [PlanRecord(self._graph, steps, self._number, self._start_s, t_s, run)]

    def move(self, event: Event) -> None:
        """Take in one change of a step."""
        data = event.data
        step = self._steps.get(data["step"])
        if step is None:
            return
        changes: JsonObject = {"status": data["after"], "tries": data.get("tries", step.tries)}
        changes["bars"] = _more_bars(step, data, event.t_s)
        if data["after"] == "running" and data["before"] != "running":
            changes |= {"n_passed": 0, "n_not_passed": 0, "reason": ""}
        if error := data.get("error"):
            changes["reason"] = f"{error['kind']}: {error['message']}"
        if data.get("reason"):
            changes["reason"] = data["reason"]
        if data["after"] in OPEN or data["after"] == "completed":
            changes["reason"] = ""
        if data.get("undos") and (undo := data["undos"][-1]).get("state", "started") != "started":
            changes["reason"] = undo_words(undo["tool"], undo["state"], undo.get("message", ""), "en")
        changes["cause"] = data.get("cause") if data["after"] == "blocked" else None
        self._steps[step.id] = dataclasses.replace(step, **changes)

    def call(self, data: JsonObject) -> None:
        """Take in the checks of one tool call."""
        step = self._steps.get(str(data.get("plan_step_id")))
        # What an undo shows afterwards is no check of the step.
        if step is None or step.status != "running":
            return
        shown = list((data.get("visible") or {}).values())
        passed = (data.get("passed") is True) + shown.count("passed")
        not_passed = (data.get("passed") is False) + shown.count("failed")
        self._steps[step.id] = dataclasses.replace(
            step, n_passed=step.n_passed + passed, n_not_passed=step.n_not_passed + not_passed
        )

    def _reason(self, step: StepRecord) -> str:
        if step.status != "blocked" or step.cause is None:
            return step.reason
        seen, root = [step.id], step.cause
        while (further := self._steps[root].cause) is not None and root not in seen:
            seen.append(root)
            root = further
        return f"step {root} is {self._steps[root].status}"


def _more_bars(step: StepRecord, data: JsonObject, t_s: float) -> tuple[Bar, ...]:
    """The bars of a step after a change: one opens when something starts, and closes when it ends."""
    before, after, bars = data["before"], data["after"], list(step.bars)
    if bars and bars[-1].end_s is None and (after != before or data.get("undos")):
        outcome = data["undos"][-1]["state"] if data.get("undos") and bars[-1].kind == "undo" else after
        bars[-1] = dataclasses.replace(bars[-1], status=outcome, end_s=t_s)
    if after == "running" and before != "running":
        bars.append(Bar("try", "running", t_s, None))
    elif after == "retry_wait":
        bars.append(Bar("wait", "retry_wait", t_s, None))
    elif data.get("undos") and data["undos"][-1].get("state", "started") == "started":
        bars.append(Bar("undo", "started", t_s, None))
    return tuple(bars)


def _of_state(id: str, state: PlanView) -> StepRecord:
    step = state[id]
    passed = [result.passed for result in step.results] + [
        status == "passed" for result in step.results for status in result.visible.values() if status != "not_evaluated"
    ]
    return StepRecord(
        id, step.status, _bars_of_state(step), step.tries, passed.count(True), passed.count(False),
        state.explain(id), step.cause,
    )  # fmt: skip


def _bars_of_state(step: StepState) -> tuple[Bar, ...]:
    if step.started_s is None:
        return ()
    ended = None if step.status in OPEN else step.ended_s
    return (Bar("try", step.status, step.started_s, ended),)


def _run(events: Sequence[Event]) -> JsonObject:
    start = next((event for event in events if event.kind == "run_start"), None)
    if start is None:
        return {}
    model = start.data["model"]
    return {
        "run_id": start.run_id,
        "strategy": start.data["strategy"]["name"],
        "model": model["name"],
        "model_kind": model["kind"],
    }


def _why_no_plan(events: Sequence[Event]) -> str:
    name = _run(events).get("strategy")
    end = next((event.data for event in reversed(events) if event.kind == "run_end"), {})
    parts = [f"strategy {name}" if name else "", f"end_reason {end['end_reason']}" if "end_reason" in end else ""]
    return ", ".join(part for part in parts if part) or "no events of a run"
