"""Read one turn of the text format Thought / Action / Action Input / Final Answer, in English or Chinese words.

Strict in what counts (one action, nothing invented, no guessed arguments), forgiving in how it is laid out.
Markers count at the start of a line only. What follows an action is a guess about its result and is dropped.
"""

import ast
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentlab.records import JsonObject
from agentlab.tools import Tool, tools_from_schemas

_MARKER = re.compile(
    r"""^[ \t>#-]*(?:\d+[.)][ \t]*|[*+][ \t]+)?(?P<bold>[*_`]+)?   # quote, heading, list, bold before the word
    (?:(?P<input>action[ _]?input|行动[ \t]*输入|动作[ \t]*输入)
      |(?P<action>action|行动|动作)
      |(?P<observation>observation|观察结果|观察)
      |(?P<final>final[ _]?answer|最终答案|最终回答)
      |(?P<thought>thought|思考))
    (?:[ \t]*\d+)?[ \t*_`]*[:：](?(bold)[*_`]*)    # "Action 1:" and "**Action:**" are the same marker""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_DECIDING = ("action", "final", "observation")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_OPENING = re.compile(r"\s*(?:```\w*|`)?\s*")
_CLOSING = re.compile(r"\s*(?:```|`)")
_DECORATION = " \t*`\"'“”「」"
_NO_ACTION = {
    "", "-", "none", "null", "nil", "n/a", "na", "no action", "finish", "final answer",
    "无", "没有", "不需要", "结束", "完成", "最终答案",
}  # fmt: skip
_NO_ARGUMENTS = {"", "none", "null", "无"}
_LONGEST_PYTHON_CHARS = 2000
"""Python syntax above this length is not tried: its parser is recursive."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What one reply in the text format asks for."""

    kind: Literal["action", "final", "format_error"]
    tool: str = ""
    """Name as written; it may be no offered tool, which the session answers."""
    arguments: JsonObject | None = None
    """As written; whether they fit the tool's schema is the session's question."""
    answer: str = ""
    """Text after the final marker."""
    feedback: str = ""
    """For a format_error: what to write instead."""
    thought: str = ""
    kept: str = ""
    """The part of the text that belongs into the history."""
    dropped: str = ""
    """The part that is used for nothing and must not be sent again."""


def read_turn(text: str, tools: Sequence[Tool | Mapping[str, Any]], language: str = "en") -> Turn:
    """Return what a reply in the text format asks for.

    An unknown tool, or arguments that do not fit its schema, are an `action`: the session answers it with an
    observation. A `format_error` is a form that cannot be read.

    Args:
        text: one reply of the model.
        tools: the offered tools, or their chat-completions dicts.
        language: zh or en, for the feedback.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    deciding = next((m for m in _MARKER.finditer(text) if m.lastgroup in _DECIDING), None)
    reader = _Reader(text, _by_name(tools), "zh" if language == "zh" else "en")
    if deciding is None:
        return reader.error("neither", thought=_thought(text), kept_chars=len(text))
    thought = _thought(text[: deciding.start()])
    if deciding.lastgroup == "observation":
        return reader.error("own_observation", thought=thought, kept_chars=deciding.start())
    if deciding.lastgroup == "final":
        return reader.final(deciding, thought)
    return reader.action(deciding, thought)


class _Refused(Exception):
    """The form cannot be read; carries the key of the feedback and the tool it is about."""

    def __init__(self, feedback: str, tool: Tool | None = None) -> None:
        super().__init__(feedback)
        self.feedback = feedback
        self.tool = tool


class _Reader:
    """One reply while it is read: the text, the offered tools and the language of the feedback."""

    def __init__(self, text: str, tools: Mapping[str, Tool], language: str) -> None:
        self._text = text
        self._tools = tools
        self._language = language

    def final(self, marker: re.Match[str], thought: str) -> Turn:
        """The answer: everything to the end, or to an observation, where a stop sequence would have cut it."""
        end = self._next_marker(marker.end(), "observation")
        answer = self._text[marker.end() : end].strip()
        if answer.endswith("```") and answer.count("```") % 2:
            answer = answer[:-3].rstrip()
        kept, dropped = self._split(end)
        if not answer:
            return self.error("no_answer", thought=thought, kept_chars=end)
        return Turn("final", answer=answer, thought=thought, kept=kept, dropped=dropped)

    def action(self, marker: re.Match[str], thought: str) -> Turn:
        """The one action, with its arguments from the input, from a call's brackets, or none where none are needed."""
        try:
            name, arguments, end = self._call(marker.end())
        except _Refused as refused:
            end = self._next_marker(marker.end(), "observation")
            return self.error(refused.feedback, refused.tool, thought=thought, kept_chars=end)
        kept, dropped = self._split(end)
        return Turn("action", tool=name, arguments=arguments, thought=thought, kept=kept, dropped=dropped)

    def error(self, feedback: str, tool: Tool | None = None, *, thought: str, kept_chars: int) -> Turn:
        """A form that cannot be read, with what to write instead."""
        words = _FEEDBACK[self._language][feedback].format(
            tool=tool.name if tool else "", shape=tool.shape() if tool else "", names=", ".join(self._tools)
        )
        kept, dropped = self._split(kept_chars)
        return Turn("format_error", feedback=words, thought=thought, kept=kept, dropped=dropped)

    def _call(self, start: int) -> tuple[str, JsonObject, int]:
        """Name, arguments and end of the action whose marker ends at `start`."""
        following = _MARKER.search(self._text, start)
        region_end = following.start() if following else len(self._text)
        name, in_line, end = self._name(start, region_end)
        tool = self._tools.get(name)
        if following is None or following.lastgroup != "input":
            if in_line is None and tool is not None and tool.parameters.get("required"):
                raise _Refused("no_input", tool)
            return name, in_line or {}, end
        arguments, end = self._input(following.end(), name)
        if in_line and arguments and in_line != arguments:
            raise _Refused("two_inputs", tool or Tool(name, "", {}))
        return name, arguments or in_line or {}, end

    def _name(self, start: int, region_end: int) -> tuple[str, JsonObject | None, int]:
        """The tool's name, the arguments written beside it (None: there are none), and where both end."""
        region = self._text[start:region_end]
        if region.lstrip().startswith(("{", "```")):
            raise _Refused("bad_name")
        indent = len(region) - len(region.lstrip(_DECORATION + "\n"))
        lines = region[indent:].split("\n", 1)
        line = lines[0].rstrip(_DECORATION + "。.,，;；")
        line_end = start + indent + len(lines[0])
        match = _NAME.match(line)
        name = line if line in self._tools else match[0] if match else ""
        beside = line[len(name) :].lstrip(" \t:：,，")
        is_alone = not beside and bool(name)
        if line not in self._tools and line.lower() in _NO_ACTION:
            raise _Refused("no_action")
        if name and beside.startswith("("):
            return self._bracketed(name, start + indent, region_end)
        if is_alone and not _OPENING.sub("", "".join(lines[1:]), count=1).startswith("{"):
            return name, None, line_end
        brace = self._text.find("{", start + indent + len(name), region_end)
        between = self._text[start + indent + len(name) : brace]
        if name and brace != -1 and not re.sub(r"```\w*|[\s`:：,，]", "", between):
            arguments, end = self._input(brace, name)
            return name, arguments, end
        raise _Refused("bad_name")

    def _bracketed(self, name: str, start: int, region_end: int) -> tuple[str, JsonObject, int]:
        """Function-call syntax, read as data."""
        source = self._text[start:region_end].rstrip(_DECORATION + "\n")
        for candidate in (source, source.split("\n", 1)[0].rstrip(_DECORATION + "。.;；")):
            arguments = _call_arguments(candidate, self._tools.get(name))
            if arguments is not None:
                return name, arguments, start + len(candidate)
        raise _Refused("bad_input", self._tools.get(name) or Tool(name, "", {}))

    def _input(self, start: int, name: str) -> tuple[JsonObject, int]:
        """The arguments object that begins at `start`, and where it ends with its fence."""
        tool = self._tools.get(name) or Tool(name, "", {})
        following = _MARKER.search(self._text, start)
        limit = following.start() if following else len(self._text)
        begin = min(_skip(_OPENING, self._text, start), limit)
        try:
            value, end = _DECODER.raw_decode(self._text, begin)
        except (ValueError, RecursionError):
            written = self._text[begin:limit].rstrip(_DECORATION + "\n")
            value, end = _python_value(written), begin + len(written)
            if written.lower() in _NO_ARGUMENTS:
                value = None
        if isinstance(value, str):
            value = _object_in(value)
        if value is None:
            if tool.parameters.get("required"):
                raise _Refused("no_input", tool)
            value = {}
        if not isinstance(value, dict):
            raise _Refused("bad_input", tool)
        return value, _skip(_CLOSING, self._text, end)

    def _next_marker(self, start: int, kind: str) -> int:
        found = (m.start() for m in _MARKER.finditer(self._text, start) if m.lastgroup == kind)
        return next(found, len(self._text))

    def _split(self, end: int) -> tuple[str, str]:
        return self._text[:end].rstrip(), self._text[end:].strip()


def _skip(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _by_name(tools: Sequence[Tool | Mapping[str, Any]]) -> dict[str, Tool]:
    given = [tool if isinstance(tool, Tool) else tools_from_schemas([dict(tool)])[0] for tool in tools]
    return {tool.name: tool for tool in given if not tool.is_control}


def _thought(before: str) -> str:
    """The text before the deciding marker, without the thought marker."""
    marker = next((m for m in _MARKER.finditer(before) if m.lastgroup == "thought"), None)
    return before[marker.end() if marker else 0 :].strip()


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)
"""Line ends inside strings are accepted, NaN and Infinity are not."""


def _object_in(text: str) -> Any:
    """The object that a string holds as JSON once more; the string itself when it holds none."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def _python_value(source: str) -> Any:
    """The value of a Python literal that JSON can carry (`{'a': True,}`); Ellipsis when it is none."""
    tree = _parsed(source)
    try:
        return json.loads(json.dumps(_literal(tree.body), allow_nan=False)) if tree else ...
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ...


def _call_arguments(source: str, tool: Tool | None) -> JsonObject | None:
    """The arguments of `name(key=value, ...)`; None when they cannot be told without evaluating or guessing."""
    tree = _parsed(source)
    call = tree.body if tree else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
        return None
    try:
        values = [_literal(argument) for argument in call.args]
        named: dict[Any, Any] = {keyword.arg: _literal(keyword.value) for keyword in call.keywords}
        if values:
            if named or len(values) > 1:
                return None
            named = values[0] if isinstance(values[0], dict) else _only_argument(tool, values[0])
        if None in named or (values and not named):
            return None
        read: JsonObject = json.loads(json.dumps(named, allow_nan=False))
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    return read


def _only_argument(tool: Tool | None, value: Any) -> JsonObject:
    """A value without a name as the tool's one argument; empty when the tool has none or several."""
    names = list(tool.parameters.get("properties", {})) if tool else []
    return {names[0]: value} if len(names) == 1 else {}


def _parsed(source: str) -> ast.Expression | None:
    if len(source) > _LONGEST_PYTHON_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _literal(node: ast.expr) -> Any:
    """A literal's value; the JSON words true, false and null count as literals."""
    if isinstance(node, ast.Name):
        return {"true": True, "false": False, "null": None}.get(node.id, ...)
    return ast.literal_eval(node)


_FORMS = {
    "en": "Action: <tool>\nAction Input: <arguments as one JSON object>",
    "zh": "行动：<工具>\n行动输入：<参数，一个 JSON 对象>",
}
_EITHER = {
    "en": f"Write either\n{_FORMS['en']}\nor\nFinal Answer: <answer>",
    "zh": f"请写\n{_FORMS['zh']}\n或者写\n最终答案：<答案>",
}
_THIS_TOOL = {
    "en": "Write\nAction: {tool}\nAction Input: {shape}",
    "zh": "请写\n行动：{tool}\n行动输入：{shape}",
}
_FEEDBACK = {
    "en": {
        "neither": f"Your reply has neither an action nor a final answer. {_EITHER['en']}",
        "own_observation": f"Observations come from the program; yours was ignored. {_EITHER['en']}",
        "no_action": "You named no tool. Without an action the reply has to be\nFinal Answer: <answer>\n"
        f"To call a tool, write\n{_FORMS['en']}",
        "no_answer": "Nothing follows Final Answer. Write the answer after it.",
        "no_input": f"Action Input is missing. {_THIS_TOOL['en']}",
        "bad_input": f"The arguments are not one JSON object. {_THIS_TOOL['en']}",
        "two_inputs": f"The arguments are given twice and differ. {_THIS_TOOL['en']}",
        "bad_name": "After Action there must be the name of one tool and nothing else. Write\n"
        f"{_FORMS['en']}\nTools: {{names}}",
    },
    "zh": {
        "neither": f"回复中既没有行动，也没有最终答案。{_EITHER['zh']}",
        "own_observation": f"观察由程序给出，你自己写的观察已被忽略。{_EITHER['zh']}",
        "no_action": f"没有写出工具。不调用工具时，回复必须是\n最终答案：<答案>\n要调用工具，请写\n{_FORMS['zh']}",
        "no_answer": "“最终答案”之后没有内容。请在其后写出答案。",
        "no_input": f"缺少行动输入。{_THIS_TOOL['zh']}",
        "bad_input": f"参数不是一个 JSON 对象。{_THIS_TOOL['zh']}",
        "two_inputs": f"参数给出了两次，而且不一致。{_THIS_TOOL['zh']}",
        "bad_name": f"“行动”之后只能写一个工具的名称。请写\n{_FORMS['zh']}\n工具：{{names}}",
    },
}
