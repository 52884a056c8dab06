"""Read the arguments of a tool call, whatever form a model gave them; nothing is guessed for a tool with an effect."""

import ast
import json
import warnings
from dataclasses import dataclass
from typing import Any

from agentlab.errors import BadArguments
from agentlab.json_values import clean_text, to_json_value
from agentlab.records import JsonObject
from agentlab.tools import Tool

EXCERPT_CHARS = 200
DEEPEST_NESTING = 50


@dataclass(frozen=True, slots=True)
class Arguments:
    """What could be read of a call's arguments."""

    value: JsonObject | None
    """Arguments that fit the tool's schema; None when the call may not be executed."""
    sent: JsonObject | None = None
    """The object as sent, where it could be read but does not fit."""
    detail: str = ""
    """Why the call may not be executed, in words that the model can act on."""
    notes: tuple[str, ...] = ()
    """Repairs that were made."""


def read_arguments(raw: Any, tool: Tool) -> Arguments:
    """Return the arguments that fit the tool's schema, or the reason why there are none.

    Read as they are: an object, its JSON text, JSON text encoded twice, nothing (no arguments). Read with a note:
    a fenced block and a Python literal, both exactly. Other broken JSON is repaired (json-repair) only for a tool
    that changes nothing, and only when the object is closed: a cut text is never completed.
    """
    notes: list[str] = []
    try:
        value = _parse(raw, tool, notes) if isinstance(raw, str) else raw
    except _NotRead as error:
        return Arguments(None, detail=str(error))
    if _is_deeper(value, DEEPEST_NESTING):
        return Arguments(None, detail=f"The arguments of {tool.name} are nested too deeply. Expected {tool.shape()}.")
    value = {} if value is None else to_json_value(value)
    try:
        tool.check_arguments(value, may_hold_handles=True)
    except BadArguments as error:
        sent = value if isinstance(value, dict) else None
        return Arguments(None, sent, f"{error} You sent: {excerpt(raw)}", tuple(notes))
    return Arguments(value, notes=tuple(notes))


def strict_loads(text: str) -> Any:
    """Return the value of strict JSON text.

    Raises:
        ValueError: no JSON, NaN or Infinity in it, or a key that is given twice in one object.
    """
    try:
        return _STRICT.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def fenced(text: str) -> str | None:
    """Return what stands in the Markdown fence when the whole text is one fenced block; None otherwise."""
    text = text.strip()
    first_line, _, rest = text.partition("\n")
    if not first_line.startswith("```") or not rest.endswith("```") or "```" in rest[:-3]:
        return None
    return rest[:-3].strip()


def excerpt(value: Any) -> str:
    """Return the beginning of a value as clean text of one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = clean_text(" ".join(text.split()))
    return text if len(text) <= EXCERPT_CHARS else text[:EXCERPT_CHARS] + "…"


class _NotRead(Exception):
    """The text cannot be read as arguments; its text is written for the model."""


class _RepeatedKey(ValueError):
    """A key is given twice in one object: whichever value were taken, the other would be dropped silently."""


def _parse(text: str, tool: Tool, notes: list[str]) -> Any:
    text = text.strip()
    if not text:
        return None
    try:
        value = strict_loads(text)
        return _unwrapped(value) if isinstance(value, str) else value
    except ValueError as error:
        reason = str(error)
        is_ambiguous = isinstance(error, _RepeatedKey)
    inner = fenced(text)
    if inner is not None:
        notes.append(f"{tool.name}: arguments read from a fenced block")
        return _parse(inner, tool, notes)
    value = None if is_ambiguous else _python_literal(text)
    if value is not None:
        notes.append(f"{tool.name}: arguments read as a Python literal: {excerpt(text)}")
        return value
    if tool.effect == "read" and not is_ambiguous and text[0] == "{" and text[-1] == "}":
        value = _repaired(text)
        if value:
            notes.append(f"{tool.name}: broken JSON arguments repaired: {excerpt(text)}")
            return value
    raise _NotRead(
        f"The arguments of {tool.name} are not valid JSON ({reason}); nothing was executed. "
        f"Expected {tool.shape()}. You sent: {excerpt(text)}"
    )


def _is_deeper(value: Any, levels: int) -> bool:
    """True when containers are nested beyond `levels`; later code walks the value recursively."""
    if not isinstance(value, dict | list):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def _unwrapped(text: str) -> Any:
    """The object inside a string that was encoded once more; the string itself when there is no object in it."""
    try:
        value = strict_loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def _python_literal(text: str) -> JsonObject | None:
    """The dict that a Python literal stands for; None unless JSON can carry exactly the same value."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an invalid escape would otherwise be read in one of two ways
            tree = ast.parse(text, mode="eval")
        if any(_repeats_a_key(node) for node in ast.walk(tree)):
            return None
        value = ast.literal_eval(tree)
        if isinstance(value, dict) and json.loads(json.dumps(value, allow_nan=False)) == value:
            return value
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        pass
    return None


def _repeats_a_key(node: ast.AST) -> bool:
    keys = [ast.dump(key) for key in node.keys if key is not None] if isinstance(node, ast.Dict) else []
    return len(set(keys)) != len(keys)


def _repaired(text: str) -> JsonObject | None:
    import json_repair

    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_repeats(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise _RepeatedKey(f"the key {repeated!r} is given twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


# Built once: `json.loads` makes a decoder for every call with options.
_STRICT = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
