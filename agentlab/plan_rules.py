"""Rules of a domain that a plan has to keep, as data that a suite brings along; `agentlab.planning.rules` applies them.

A prompt that asks for them is not enough: a plan that leaves out a required check is refused before anything runs.
In every rule a name stands for the tool of a step or for its worker type.
"""

from pydantic import BaseModel, ConfigDict, Field

from agentlab.tasks import Text

_NO_REASON = Text(zh="", en="")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class RequiredStep(_Frozen):
    """A plan needs at least one step with one of these names."""

    names: tuple[str, ...]
    reason: Text = _NO_REASON


class RequiredEdge(_Frozen):
    """A step with one of the `later` names needs, among the steps before it, one with an `earlier` name."""

    later: tuple[str, ...]
    earlier: tuple[str, ...]
    same: str | None = None
    """Argument that must be equal in both, where both steps give it as plain text or number."""
    every: bool = False
    """True: all steps of the plan with an `earlier` name come before, and there need not be one. So no check that a
    plan holds can come too late for what it is to stop."""
    reason: Text = _NO_REASON


class Exclusive(_Frozen):
    """Steps with these names change the same thing, so any two of them must be ordered by a dependency."""

    names: tuple[str, ...]
    reason: Text = _NO_REASON


class RulePack(_Frozen):
    """The rules of a suite for plans."""

    name: str
    required_steps: tuple[RequiredStep, ...] = ()
    required_edges: tuple[RequiredEdge, ...] = ()
    exclusive: tuple[Exclusive, ...] = ()
    checks: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Criterion -> names of which one must be planned for each of the task's criteria of that name.

    The step must mention the criterion's subject in its arguments, or take them from another step."""
    requires_description: bool = False
    """True when every step must say what it is for."""
    requires_recovery: bool = False
    """True when a step with a side effect needs an undo tool or a stated `on_error`."""
