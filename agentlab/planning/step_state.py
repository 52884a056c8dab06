"""The records of a plan's execution: what is known of a step, why it failed, and one change of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from agentlab.errors import CorruptRecord
from agentlab.planning.statuses import StepStatus
from agentlab.records import JsonObject, ToolResult
from agentlab.tool_execution import TRANSIENT_ERROR_KINDS, UNCERTAIN_ERROR_KINDS
from agentlab.tools import Tool


class IllegalTransition(RuntimeError):
    """A change of a plan's state that is not possible: a bug of the caller, never an outcome of a run."""


@dataclass(frozen=True, slots=True)
class StepError:
    """Why a step did not succeed."""

    kind: str
    """The tool's error_kind, or unresolved_reference, not_approved, not_passed, ..."""
    message: str
    is_transient: bool = False
    """True when the same step may succeed if it is tried again."""
    is_safe_to_repeat: bool = True
    """True when trying again can do no harm: it reads, is idempotent or repeatable, or surely had no effect."""
    may_have_happened: bool = False
    """True when nobody knows whether the effect is there (a write that timed out)."""

    @classmethod
    def of(cls, result: ToolResult, tool: Tool | None) -> "StepError":
        """Return the error of a tool result without success."""
        kind = result.error_kind or "tool_failed"
        has_effect = tool is not None and tool.has_side_effect
        is_uncertain = has_effect and kind in UNCERTAIN_ERROR_KINDS
        return cls(
            kind=kind,
            message=result.message,
            is_transient=kind in TRANSIENT_ERROR_KINDS,
            is_safe_to_repeat=not is_uncertain or (tool is not None and tool.repeatable),
            may_have_happened=is_uncertain,
        )


@dataclass(frozen=True, slots=True)
class Undo:
    """One attempt to undo a completed step."""

    tool: str
    state: str = "started"
    """started, done, failed, or interrupted by a crash; one that is still `started` after a crash may have happened."""
    message: str = ""
    n_made: int = 0
    """Calls of it that are done with, of a map step one per entry; the next one may have happened after a crash."""


@dataclass(frozen=True, slots=True)
class StepState:
    """What is known of one step. A change makes a new record, so status and result are always published together."""

    status: StepStatus = "pending"
    tries: int = 0
    """Executions so far, the session's own repeats included; a restart counts from 0 again."""
    results: tuple[ToolResult, ...] = ()
    """The tool results behind the step: one of a tool step, one per entry of a map step."""
    calls: tuple[JsonObject | None, ...] = ()
    """Of a step with an effect the arguments that each call was really made with, for its undo; None where it was not
    made because its effect was there already."""
    effects: tuple[str, ...] = ()
    """The tools with an effect that the worker of a goal step used; nothing undoes these."""
    output: Any = None
    """What references to the step resolve to; None until it has completed."""
    error: StepError | None = None
    """The last error; kept through a wait, and where policy decided to skip the step."""
    cause: str | None = None
    """Of a blocked step: the dependency that did not succeed."""
    reason: str = ""
    """Why it was skipped or cancelled."""
    gaps: tuple[str, ...] = ()
    """Weak dependencies that had no output when it started."""
    delay_s: float | None = None
    """Seconds to wait before the next try, while it waits for one."""
    approval: str | None = None
    """Digest of the arguments that an approval is asked or was given for; used up when the step starts."""
    is_approved: bool = False
    progress: float | None = None
    """Share that is done, 0 to 1, where the worker reports it."""
    activity: str = ""
    """What the worker is doing."""
    started_s: float | None = None
    """When it last started, in seconds of the caller's clock."""
    ended_s: float | None = None
    undos: tuple[Undo, ...] = ()
    """Every attempt to undo it."""
    completed_seq: int | None = None
    """Place of its completion among all changes; a rollback goes through these backwards."""
    restarts: int = 0

    @property
    def is_undo_open(self) -> bool:
        """True when an undo was started and its outcome is not known."""
        return bool(self.undos) and self.undos[-1].state == "started"


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a plan's state: what the journal stores, and `PlanState.apply` repeats."""

    seq: int
    """Place among all changes of the plan, from 0, without gaps."""
    step: str | None
    """The step; None for the plan as a whole."""
    before: str
    """Status of the step before, or phase of the plan."""
    after: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """New values of other fields of `StepState`, or of the plan: phase, stopped, rule, rollback."""

    def to_json(self) -> JsonObject:
        """Return the change as a JSON object."""
        changes = fields_to_json(self.changes)
        return {"seq": self.seq, "step": self.step, "before": self.before, "after": self.after, "changes": changes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Transition":
        """Return the change that `to_json` wrote; a `CorruptRecord` when it is none."""
        try:
            changes = fields_from_json(data["changes"])
            return cls(data["seq"], data["step"], data["before"], data["after"], changes)
        except (KeyError, TypeError, AttributeError) as error:
            raise CorruptRecord(f"a stored change of a plan cannot be read: {error!r}") from error


def step_state_to_json(state: StepState) -> JsonObject:
    """Return a step's state as a JSON object; what has its default is left out."""
    changed = {each.name: getattr(state, each.name) for each in fields(StepState)}
    return fields_to_json(
        {each.name: changed[each.name] for each in fields(StepState) if changed[each.name] != each.default}
    )


def fields_to_json(values: Mapping[str, Any]) -> JsonObject:
    """Return fields of `StepState` in JSON values; an output that the one result holds is stored once."""
    data: JsonObject = {}
    for name, value in values.items():
        if name == "results":
            data[name] = [result_to_json(result) for result in value]
        elif name == "undos":
            data[name] = [_present(undo) for undo in value]
        elif name == "error":
            data[name] = None if value is None else _present(value)
        elif isinstance(value, tuple):
            data[name] = list(value)
        else:
            data[name] = value
    results = values.get("results", ())
    if len(results) == 1 and "output" in data and data["output"] is results[0].data:
        del data["output"]
        data["output_is_data"] = True
    return data


def fields_from_json(data: Mapping[str, Any]) -> JsonObject:
    """Return the fields that `fields_to_json` wrote."""
    values: JsonObject = {}
    for name, value in data.items():
        if name == "results":
            values[name] = tuple(ToolResult(**result) for result in value)
        elif name == "undos":
            values[name] = tuple(Undo(**undo) for undo in value)
        elif name == "error":
            values[name] = None if value is None else StepError(**value)
        elif name in ("gaps", "calls", "effects"):
            values[name] = tuple(value)
        elif name != "output_is_data":
            values[name] = value
    if "output_is_data" in data:
        values["output"] = values["results"][0].data
    return values


def result_to_json(result: ToolResult) -> JsonObject:
    """Return a tool result as a JSON object; what has its default is left out."""
    return _present(result)


def _present(record: Any) -> JsonObject:
    """The fields of a record that differ from their default, with mappings as objects."""
    data = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if value != each.default and value != {}:
            data[each.name] = dict(value) if isinstance(value, Mapping) else value
    return data
