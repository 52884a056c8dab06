"""What a step works on: its arguments with every reference resolved, for a map step once per entry of its list."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentlab.errors import UnresolvedReference
from agentlab.planning.plan import PlanStep
from agentlab.records import JsonObject
from agentlab.references import Reference, references_in, resolve


@dataclass(frozen=True, slots=True)
class Inputs:
    """The resolved inputs of a step."""

    calls: tuple[JsonObject, ...]
    """The arguments of each call: one, of a map step one per entry of its list."""
    items: tuple[Any, ...] = ()
    """Of a map step: the entries."""
    left_out: tuple[str, ...] = ()
    """Arguments that are not given, because their weak dependency has no output."""


def inputs_of(step: PlanStep, outputs: Mapping[str, Any], not_passed: Mapping[str, list[Any]] | None = None) -> Inputs:
    """Return the inputs of a step.

    Args:
        step: the step.
        outputs: id -> output of the completed steps.
        not_passed: id -> outputs of the calls of the completed steps of which a check did not pass.

    Raises:
        UnresolvedReference: a reference leads nowhere, or `over` is no list; says what is there instead.
    """
    arguments = dict(step.arguments)
    left_out = tuple(name for name, value in arguments.items() if _is_gap(value, step, outputs))
    for name in left_out:
        del arguments[name]
    if step.kind != "map":
        return Inputs((resolve(arguments, outputs, not_passed=not_passed),), left_out=left_out)
    items = resolve(step.over, outputs, not_passed=not_passed)
    if not isinstance(items, list):
        written = step.over.text() if isinstance(step.over, Reference) else "over"
        raise UnresolvedReference(written, f"a map step needs a list, and this is a {type(items).__name__}")
    calls = tuple(resolve(arguments, outputs, item, not_passed=not_passed) for item in items)
    return Inputs(calls, tuple(items), left_out)


def _is_gap(value: Any, step: PlanStep, outputs: Mapping[str, Any]) -> bool:
    """True when a value needs the output of a weak dependency that is not there."""
    return any(ref.step in step.weak_depends_on and ref.step not in outputs for ref in references_in(value))
