"""Read the tool calls of a reply: the native ones, and those that a model wrote into its text."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentlab.errors import UnknownTool
from agentlab.json_values import clean_text
from agentlab.models.arguments import fenced, read_arguments, strict_loads
from agentlab.records import JsonObject, ToolCall
from agentlab.tools import Tool, find_tool

# Servers differ in what they accept as an id: letters and digits only, and nine of them at Mistral's.
MADE_ID_CHARS = 9
CUT_DETAIL = "Your reply was cut at the output limit before it was complete; nothing was executed. Write less at once."
_VALID_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_MARKERS = re.compile(r"<tool_call>|\[TOOL_CALLS\]|<function=|<\|python_tag\|>|<｜tool▁call|<\|tool_call|<invoke name=")
_CALL_KEYS = frozenset({"id", "type", "name", "arguments", "parameters", "function"})


@dataclass(slots=True)
class Calls:
    """The calls of one reply in order, and what had to be repaired."""

    calls: list[ToolCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call that stands in the text of a reply."""

    call: JsonObject | None
    """The one call that the text makes beyond doubt; None when it must not be read as one."""
    text: str = ""
    """What remains of the text without the call."""


def read_calls(sent: Sequence[Any], tools: Sequence[Tool], taken_ids: frozenset[str], *, is_cut: bool) -> Calls:
    """Return the calls that a server sent, each with a unique id and either arguments or a problem.

    Args:
        sent: the entries of `tool_calls`.
        tools: the offered tools.
        taken_ids: ids of the conversation so far; an id that occurs again is replaced.
        is_cut: the reply ended before it was complete, so no call may be executed.
    """
    result = Calls()
    taken = set(taken_ids)
    for entry in sent:
        if not isinstance(entry, dict):
            result.notes.append(f"an entry of tool_calls is no object: {clean_text(str(entry))[:80]}")
            continue
        call_id = _unique_id(entry.get("id"), taken, result.notes)
        taken.add(call_id)
        result.calls.append(_read_call(entry, call_id, tools, result.notes, is_cut))
    return result


def call_in_text(text: str, tools: Sequence[Tool]) -> TextCall | None:
    """Return the call that a text makes; None when the text makes none.

    Read as a call are one `<tool_call>` tag, and a JSON object that is the whole text (fenced or bare), when they
    name an offered tool. Everything else that looks like a call is found, but not read. The answer format
    (`{"findings": ...}`) is no call.
    """
    tagged = _TAGGED.findall(text)
    if len(tagged) == 1:
        call = _as_call(tagged[0], tools)
        return TextCall(call, _TAGGED.sub("", text).strip() if call else text)
    whole = fenced(text) or text.strip()
    if whole.startswith("{"):
        call = _as_call(whole, tools)
        if call or _has_call_shape(whole):
            return TextCall(call)
    if _MARKERS.search(text) or any(_as_call(block, tools) for block in _FENCED.findall(text)):
        return TextCall(None, text)
    return None


def _read_call(entry: JsonObject, call_id: str, tools: Sequence[Tool], notes: list[str], is_cut: bool) -> ToolCall:
    function = _function(entry)
    name = function.get("name")
    sent_name = clean_text(name) if isinstance(name, str) else ""
    tool = _offered(sent_name, tools)
    if tool is not None and tool.name != sent_name:
        notes.append(f"tool name {sent_name!r} read as {tool.name!r}")
    known_name = tool.name if tool is not None else sent_name
    changed_name = sent_name if sent_name != known_name else None
    if is_cut:
        return ToolCall(call_id, known_name, None, "truncated", changed_name, CUT_DETAIL)
    if tool is None:
        return ToolCall(call_id, sent_name, None, "unknown_tool", None, _unknown(sent_name, tools))
    arguments = read_arguments(function.get("arguments", function.get("parameters")), tool)
    notes += arguments.notes
    problem = "bad_arguments" if arguments.value is None else None
    return ToolCall(call_id, tool.name, arguments.value, problem, changed_name, arguments.detail, arguments.sent)


def _function(entry: JsonObject) -> JsonObject:
    """The part with name and arguments; some servers leave the `function` level out."""
    function = entry.get("function")
    return function if isinstance(function, dict) else entry


def _offered(name: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool of that name, or the one that its last segment names (`functions.query`)."""
    for candidate in (name, re.split(r"[./:]", name)[-1].strip()):
        for tool in tools:
            if tool.name == candidate:
                return tool
    return None


def _unknown(name: str, tools: Sequence[Tool]) -> str:
    try:
        find_tool(tools, name)
    except UnknownTool as error:
        return f"{error} Nothing was executed."
    raise AssertionError(f"{name} is offered")


def _unique_id(sent: Any, taken: set[str], notes: list[str]) -> str:
    if isinstance(sent, str) and _VALID_ID.fullmatch(sent) and sent not in taken:
        return sent
    made = uuid.uuid4().hex[:MADE_ID_CHARS]
    if sent:
        reason = "used before" if isinstance(sent, str) and sent in taken else "not valid everywhere"
        notes.append(f"call id {clean_text(str(sent))[:64]!r} is {reason}; replaced by {made!r}")
    return made


def _as_call(text: str, tools: Sequence[Tool]) -> JsonObject | None:
    """The call that a JSON text makes of an offered tool."""
    value = _object(text)
    function = _function(value) if value else {}
    name = function.get("name")
    if not isinstance(name, str) or not ({"arguments", "parameters"} & set(function)):
        return None
    return function if _offered(name, tools) else None


def _has_call_shape(text: str) -> bool:
    """True when the whole text is an object with a call's keys alone, whatever it names."""
    value = _object(text)
    function = _function(value) if value else {}
    named = isinstance(function.get("name"), str) and bool({"arguments", "parameters"} & set(function))
    return named and set(value or ()) <= _CALL_KEYS


def _object(text: str) -> JsonObject | None:
    try:
        value = strict_loads(text.strip())
    except ValueError:
        return None
    return value if isinstance(value, dict) and "findings" not in value else None
