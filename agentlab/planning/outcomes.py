"""What the scheduler needs from whoever runs it, and what it gets and gives back."""

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agentlab.json_values import canonical
from agentlab.planning.plan import PlanStep
from agentlab.planning.policy import Action
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import Tool


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What running a step brought: the results of its calls, of a map step one per entry."""

    results: tuple[ToolResult, ...] = ()
    tries: int = 1
    """Executions behind it, the session's own repeats included."""
    calls: tuple[JsonObject | None, ...] | None = None
    """The arguments really used, one for each result; None for a call that was not made, because its effect was there
    already. None as a whole: as they were planned."""
    effects: tuple[str, ...] = ()
    """Tools with an effect that the worker of a goal step used."""

    def made(self) -> JsonObject:
        """Return what the state of a step has to remember for an undo."""
        return ({} if self.calls is None else {"calls": self.calls}) | (
            {"effects": self.effects} if self.effects else {}
        )

    @property
    def failure(self) -> ToolResult | None:
        """The first result without success; None when all succeeded."""
        return next((result for result in self.results if not result.success), None)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person said about a step that needs an approval; None: nothing yet."""

    is_approved: bool | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How the execution ended: finished, or stopped for somebody else to decide."""

    kind: Literal["finished", "replan", "escalate"]
    step: str | None = None
    reason: str = ""


RunStep = Callable[[PlanStep, Sequence[JsonObject]], Awaitable[StepOutcome]]
"""Runs a step with its resolved arguments (one object, of a map step one per entry)."""
RunUndo = Callable[[PlanStep, str, JsonObject], Awaitable[ToolResult]]
"""Calls an undo tool for a step."""


class Approve(Protocol):
    """Brings about the approvals of steps whose tools ask."""

    def is_needed(self, step: PlanStep, calls: Sequence[JsonObject]) -> bool:
        """Return whether a person has to approve a step before it may run."""

    async def ask(self, step: PlanStep, calls: Sequence[JsonObject]) -> bool | None:
        """Return the person's decision; None when there is none yet."""


Rescue = Callable[[PlanStep, StepOutcome], Coroutine[Any, Any, StepOutcome]]
"""Tries to reach the goal of a step that failed for good in another way; returns what came of it."""
Told = Callable[[str, Action], None]
"""Hears what was decided about a step that did not succeed."""


def digest_of(step: PlanStep, calls: Sequence[JsonObject]) -> str:
    """Return what an approval is bound to: the step's tool and its resolved arguments."""
    return hashlib.sha256(canonical([step.tool, list(calls)]).encode()).hexdigest()


def is_high_risk(tool: Tool | None) -> bool:
    """Return whether a tool must not be used once a check before it did not pass: irreversible, or it asks first."""
    return tool is not None and (tool.effect == "irreversible" or tool.permission == "ask")
