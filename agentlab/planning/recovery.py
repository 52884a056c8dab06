"""Undo a part of a plan, and pick a plan up again after a crash: what would have to be done, as data."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.step_state import StepError, StepState
from agentlab.planning.view import PlanView
from agentlab.records import JsonObject
from agentlab.tools import Tool

RecoveryKind = Literal["idle", "completed", "recovered", "cannot_recover", "unknown"]


@dataclass(frozen=True, slots=True)
class StepUndo:
    """One step that has to be undone, and how."""

    step: str
    tool: str | None
    """The undo tool; None when there is none, so that the undo fails and stays visible."""
    calls: tuple[JsonObject, ...] = ()
    """The arguments of each call of it: one, of a map step one per entry that took effect, the last one first."""
    problem: str = ""
    """Why the undo cannot be called; empty when it can."""


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The affected part of a plan."""

    undo: tuple[StepUndo, ...]
    """The effects to undo, the last one first. Each is tried, whatever becomes of the others."""
    affected: tuple[str, ...]
    """All steps of the part, in plan order; with a restart these run again."""
    unsure: tuple[str, ...] = ()
    """Steps of which nobody knows whether their effect is there; they need a person."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a plan found after a restart of the program needs."""

    kind: RecoveryKind
    """idle: nothing had started. completed: nothing is left to do, and all went well. recovered: it goes on from
    where it stood. cannot_recover: it had failed, or a person has to decide first. unknown: there is no state."""
    rerun: tuple[str, ...] = ()
    """Interrupted steps that may simply run again: they read or are idempotent."""
    ask: tuple[str, ...] = ()
    """Interrupted steps with an effect that may have happened: reconcile by key, or ask a person."""
    open_undos: tuple[str, ...] = ()
    """Steps whose undo was started and may have happened."""
    redo: tuple[str, ...] = ()
    """Steps whose undo was started and may simply be made again: its tool is idempotent."""
    approvals: tuple[str, ...] = ()
    """Steps that wait for a person's approval."""
    escalated: tuple[str, ...] = ()
    """Steps because of which the plan stopped for a person to decide what becomes of it."""
    reason: str = ""


def rollback_plan(
    graph: PlanGraph, state: PlanView, failed: str, tools: Mapping[str, Tool], back_to: str | None = None
) -> RollbackPlan:
    """Return what to undo because a step failed.

    Without `back_to` the effects that the failed step rested on are undone (those of its ancestors), and what was
    built on them; steps that have nothing to do with it stay. With `back_to` everything from there on is undone.
    Where nobody knows whether an effect is there, it is undone too if the undo tool is idempotent, so that undoing
    nothing does no harm.

    Args:
        graph: the plan.
        state: where it stands.
        failed: the step that failed.
        tools: name -> tool, for effects and undo tools.
        back_to: id of a step, or `layer:<name>`.

    Raises:
        ValueError: `back_to` is not before the failed step.
    """
    before = graph.ancestors(failed)
    if back_to is None:
        roots = [name for name in before if has_effect(graph.step(name), tools) or state[name].effects]
    else:
        roots = list(graph.steps_back(failed, back_to))
        if not roots:
            raise ValueError(f"{back_to!r} is not before step {failed}: {', '.join(before) or 'nothing is'}")
    reached = {failed, *roots, *graph.descendants(failed, *roots)}
    affected = tuple(step.id for step in graph.steps if step.id in reached)
    settled = ("completed", "rolled_back", "rollback_failed")
    errors = ((name, state[name].error) for name in affected if state[name].status not in settled)
    unsure = [name for name, error in errors if error is not None and error.may_have_happened]
    undoable = [name for name in unsure if _has_harmless_undo(graph.step(name), tools)]
    there = [name for name in affected if has_effect(graph.step(name), tools) and _is_there(state[name])]
    there += [name for name in affected if state[name].effects]
    done = sorted({*there, *undoable}, key=lambda name: (_place(state[name]), graph.position(name)), reverse=True)
    left = tuple(name for name in unsure if name not in undoable)
    return RollbackPlan(tuple(undo_of(graph.step(name), state, tools) for name in done), affected, left)


def recover(state: PlanView | None, tools: Mapping[str, Tool]) -> Recovery:
    """Return what a plan needs that is found in the journal, after its running steps were marked as interrupted.

    Args:
        state: the plan as it was stored; None when there is none.
        tools: name -> tool, for effects.
    """
    if state is None:
        return Recovery("unknown", reason="no state of a plan is stored")
    interrupted = state.with_status("interrupted")
    ask = tuple(name for name in interrupted if not _may_rerun(state.graph.step(name), tools))
    rerun = tuple(name for name in interrupted if name not in ask)
    begun = [step.id for step in state.graph.steps if state[step.id].is_undo_open]
    redo = tuple(name for name in begun if not _undo_has_effect(state[name], tools))
    undos = tuple(name for name in begun if name not in redo)
    approvals = state.with_status("awaiting_approval")
    escalated = state.escalated
    if undos or ask:
        names = ", ".join((*ask, *undos))
        reason = f"nobody knows whether these took effect: {names}"
        return Recovery("cannot_recover", rerun, ask, undos, redo, approvals, escalated, reason)
    if state.is_finished and not redo:
        kind: RecoveryKind = "completed" if state.status == "completed" else "cannot_recover"
        return Recovery(kind, reason=f"the plan is {state.status}")
    if len(state.with_status("pending")) == len(state.graph):
        return Recovery("idle", reason="no step had started")
    n_kept = len(state.with_status("completed"))
    kept = "1 step is kept" if n_kept == 1 else f"{n_kept} steps are kept"
    return Recovery("recovered", rerun, (), (), redo, approvals, escalated, kept)


def undo_arguments(undo: Tool, arguments: Mapping[str, Any], output: Any) -> tuple[JsonObject, str]:
    """Return the arguments of an undo tool, and which required one is missing (empty when none is).

    An undo tool takes what it needs by name: from the output of the step, else from the step's own arguments.
    """
    known = {**arguments, **(output if isinstance(output, dict) else {})}
    found = {name: known[name] for name in undo.parameters.get("properties", {}) if name in known}
    missing = [name for name in undo.parameters.get("required", ()) if name not in found]
    return found, ", ".join(missing)


def undo_of(step: PlanStep, state: PlanView, tools: Mapping[str, Tool]) -> StepUndo:
    """Return how a step with an effect is undone: with the arguments that its calls were really made with."""
    if step.tool is None:
        used = ", ".join(state[step.id].effects)
        return StepUndo(step.id, None, problem=f"its worker used {used}, which has to be undone by hand")
    tool = tools[step.tool]
    undo = tools.get(tool.compensate or "")
    if undo is None:
        return StepUndo(step.id, None, problem=f"{tool.name} cannot be undone: it has no undo tool")
    calls = []
    made = state[step.id].calls or state.inputs(step.id).calls
    for arguments, result in zip(made, state[step.id].results, strict=False):
        if arguments is not None and (result.success or StepError.of(result, tool).may_have_happened):
            found, missing = undo_arguments(undo, arguments, result.data)
            if missing:
                return StepUndo(step.id, undo.name, problem=f"{undo.name} needs {missing}")
            calls.append(found)
    return StepUndo(step.id, undo.name, tuple(reversed(calls)))


def _is_there(state: StepState) -> bool:
    """True when an effect stands: of a completed step, or of the part of a map step that succeeded before it failed."""
    is_cut_short = state.status in ("failed", "skipped", "retry_wait")
    is_partial = is_cut_short and any(result.success for result in state.results)
    return state.status == "completed" or is_partial


def _place(state: StepState) -> float:
    """Place in the order of completion; a step that failed half-way comes after all that completed."""
    return math.inf if state.completed_seq is None else state.completed_seq


def has_effect(step: PlanStep, tools: Mapping[str, Tool]) -> bool:
    """Return whether a step's tool changes something, so that an undo has to know what was done."""
    tool = tools.get(step.tool or "")
    return tool is not None and (tool.has_side_effect or tool.compensate is not None)


def _has_harmless_undo(step: PlanStep, tools: Mapping[str, Tool]) -> bool:
    tool = tools.get(step.tool or "")
    undo = tools.get(tool.compensate or "") if tool is not None else None
    return undo is not None and not undo.has_side_effect


def _undo_has_effect(state: StepState, tools: Mapping[str, Tool]) -> bool:
    """True when making a started undo again could do harm, or its tool is gone."""
    undo = tools.get(state.undos[-1].tool)
    return undo is None or undo.has_side_effect


def _may_rerun(step: PlanStep, tools: Mapping[str, Tool]) -> bool:
    """True when running the step twice can do no harm; a goal step may have done anything."""
    if step.kind in ("collect", "report"):
        return True
    tool = tools.get(step.tool or "")
    return tool is not None and not tool.has_side_effect
