"""Who may use the tools that ask: a rule of the experiment, the suite beforehand, or a person, call by call."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from agentlab.records import JsonObject
from agentlab.tools import Tool

Policy = Literal["allow", "deny", "ask"]
POLICIES: tuple[Policy, ...] = ("allow", "deny", "ask")
Ask = Callable[[Tool, JsonObject, str | None], Awaitable[bool | None]]
"""Asks a person about one call (tool, arguments, id of the plan step): True approves it, False refuses it, None leaves
it open."""


@dataclass(slots=True)
class Approvals:
    """The approvals of one run. What a person approves is one call with exactly these arguments, once."""

    policy: Policy = "deny"
    """What happens to a tool with permission `ask` that the suite did not approve: allow, deny, or ask a person."""
    tools: frozenset[str] = frozenset()
    """Tools that the suite approves for this task beforehand."""
    ask: Ask | None = None
    """Reaches the person; None when there is nobody, so that nothing waits."""
    _given: set[str] = field(default_factory=set)

    def is_open(self, tool: Tool, digest: str) -> bool:
        """Return whether a person has to decide on this call first.

        Args:
            tool: the tool.
            digest: stands for tool and arguments.
        """
        asks = tool.permission == "ask" and self.policy == "ask" and tool.name not in self.tools
        return asks and digest not in self._given

    async def request(self, tool: Tool, arguments: JsonObject, digest: str, step_id: str | None) -> bool | None:
        """Return a person's decision on a call; None when there is none yet."""
        decision = None if self.ask is None else await self.ask(tool, arguments, step_id)
        if decision:
            self._given.add(digest)
        return decision

    def give(self, digest: str) -> None:
        """Take up an approval that a person gave in an earlier attempt, and that was not used."""
        self._given.add(digest)

    def use(self, tool: Tool, digest: str) -> Literal["person", "suite", "settings"] | None:
        """Return who approves a call of a tool that asks, None when nobody does; a person's approval is used up."""
        if digest in self._given:
            self._given.remove(digest)
            return "person"
        if tool.permission == "deny":
            return None
        if tool.name in self.tools:
            return "suite"
        return "settings" if self.policy == "allow" else None
