"""Who decides when a plan cannot go on alone. Nobody has to answer at once: what is left open waits in the journal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from agentlab.approvals import Ask
from agentlab.planning.plan import PlanStep
from agentlab.records import JsonObject
from agentlab.tools import Tool

Approve = Callable[[str | None, Tool, JsonObject], bool | None]
"""Says whether a call may be made (plan step, tool, arguments)."""
Happened = Callable[[PlanStep, JsonObject], bool | None]
"""Says whether the effect of an interrupted step, or of its undo, has happened."""
Escalated = Callable[[str, str], Literal["restart", "end"] | None]
"""Says what becomes of a plan that stopped for a person (step, reason)."""


@dataclass(frozen=True, slots=True)
class Person:
    """The answers of a person; a missing function, or None from it, leaves a question open."""

    approve: Approve | None = None
    happened: Happened | None = None
    escalated: Escalated | None = None

    @property
    def ask(self) -> Ask | None:
        """What a session asks about approvals."""
        approve = self.approve
        if approve is None:
            return None

        # Not in a thread: one that waits for a terminal could not be ended by Ctrl-C.
        async def ask(tool: Tool, arguments: JsonObject, step_id: str | None) -> bool | None:
            return approve(step_id, tool, arguments)

        return ask
