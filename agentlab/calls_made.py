"""The calls that a run has made: an effect happens at most once, and a model that turns in circles is noticed."""

import dataclasses
from dataclasses import dataclass, field

from agentlab.errors import BadArguments
from agentlab.json_values import canonical
from agentlab.records import ToolCall, ToolResult
from agentlab.tool_execution import UNCERTAIN_ERROR_KINDS
from agentlab.tools import Tool


@dataclass(slots=True)
class _Made:
    """What is known of one call (tool and arguments) that was made before."""

    observation: str
    result: ToolResult
    count: int = 1


@dataclass(slots=True)
class CallsMade:
    """The calls of one run by their keys."""

    _made: dict[str, _Made] = field(default_factory=dict)

    def earlier_effect(self, tool: Tool, key: str) -> ToolResult | None:
        """Return the earlier result of a call whose effect may be there already, so that it is not executed again."""
        made = self._made.get(key)
        if made is None or tool.repeatable or not _may_have_happened(tool, made.result):
            return None
        message = f"Already requested; not executed again. {made.result.message}".strip()
        return dataclasses.replace(made.result, message=message)

    def keep(self, key: str, observation: str, result: ToolResult) -> None:
        """Take note of a call of an earlier attempt."""
        self._made[key] = _Made(observation, result)

    def forget(self, key: str) -> None:
        """Let a call be executed again whose effect was undone."""
        self._made.pop(key, None)

    def count(self, key: str, tool: Tool | None, observation: str, result: ToolResult) -> int:
        """Return how often a call has brought this observation; a changed observation starts again."""
        if tool is not None and tool.repeatable:
            return 1
        made = self._made.get(key)
        is_refused = made is not None and tool is not None and _may_have_happened(tool, made.result)
        if made is None or not (is_refused or made.observation == observation):
            self._made[key] = _Made(observation, result)
            return 1
        made.count += 1
        return made.count


def call_key(call: ToolCall) -> str:
    """Return a text that is the same for calls that differ only in spacing or the order of keys."""
    try:
        return f"{call.name} {canonical(call.arguments)}"
    except ValueError as error:
        raise BadArguments(str(error)) from error


def _may_have_happened(tool: Tool, result: ToolResult) -> bool:
    """Could the effect of a call be there already? Not when the tool itself says that it refused the call."""
    return tool.has_side_effect and (result.success or result.error_kind in UNCERTAIN_ERROR_KINDS)
