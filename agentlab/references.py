"""References to the output of a plan step: one grammar for plans, tasks and stored records.

    steps.<id>.output                   the whole output of a step
    steps.<id>.output.items[0].id       a field of it; [-1] is the last entry, ["a b"] an unusual key
    steps.<id>.not_passed               the outputs of its calls of which a check did not pass, as a list
    item, item.<path>                   in a map step: the entry that is being worked on

Also read: `$steps...`, `${steps...}`, `{{steps...}}`, `steps.<id>` without `.output`, the name of an output in
place of the id, `{"type": "reference", "path": ...}` and `{"$ref": ...}`. `{"type": "literal", "value": ...}`
is its value as it stands, also where the value reads like a reference. A reference is always a whole value:
text with a reference inside is no reference, and `parse_values` reports it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from agentlab.errors import UnresolvedReference
from agentlab.records import JsonObject

MOST_NAMES_SHOWN = 10

_WRAPPED = re.compile(r"\$\{\s*(.+?)\s*\}|\{\{\s*(.+?)\s*\}\}|\$(.+)", re.DOTALL)
_STEP = re.compile(r"steps\.(?P<step>[^\n]+?)\.(?P<part>output|not_passed)(?P<path>(?:[.\[].*)?)", re.DOTALL)
_BARE_STEP = re.compile(r"steps\.(?P<step>[\w.-]*\w)")
_ITEM = re.compile(r"item(?P<path>(?:[.\[].*)?)", re.DOTALL)
_NUMBER = re.compile(r"[\d.,]+")
_NAMED = re.compile(r"(?P<step>[^.\[\]\s]+)(?P<path>(?:[.\[].*)?)", re.DOTALL)
_PIECE = re.compile(
    r"""\.(?P<field>[^.\[\]\s"'{}$]+)
      | \[(?P<index>-?\d+)\]
      | \[(?P<json>"(?:[^"\\]|\\.)*")\]
      | \['(?P<key>[^']*)'\]""",
    re.VERBOSE,
)
_PLAIN_FIELD = re.compile(r"[^.\[\]\s\"'{}$]+")
_MENTION = re.compile(
    r"(?:\$\{|\{\{)\s*(?:steps|item)\b | (?<![\w/])steps[.\[]\S*?(?:output|not_passed)\b | (?<!\w)\$steps\b", re.VERBOSE
)
_MAY_BE_READ = re.compile(r"\s*(?:\$|\{\{|steps\b|item\b)")


Part = Literal["output", "not_passed"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The canonical form of a reference: which step, and the way to the value inside its output."""

    step: str | None
    """Id of the step; None for the item of a map step."""
    path: tuple[str | int, ...] = ()
    part: Part = "output"
    """What of the step: its output, or the list of outputs of its calls that did not pass."""

    def text(self) -> str:
        """Return the reference in the grammar: `steps.1.output.items[0].id`."""
        root = "item" if self.step is None else f"steps.{self.step}.{self.part}"
        return root + "".join(_piece_text(piece) for piece in self.path)


def parse_reference(
    text: str, names: Mapping[str, str] | None = None, *, in_map: bool = False, is_explicit: bool = False
) -> Reference | None:
    """Return the reference that a text is as a whole; None when it is other text.

    Args:
        text: the value as written.
        names: id or output name -> id of the step; a name that is not in it is kept as the id.
        in_map: True inside a map step, where `item` is a reference.
        is_explicit: True when the text stands where only a reference can stand (`{"$ref": ...}`), so that
            the bare name or id of a step counts too; `$name` and `${name}` count like that, if it is no number.
    """
    body = text.strip()
    if wrapped := _WRAPPED.fullmatch(body):
        body = next(group for group in wrapped.groups() if group is not None)
        # `$5` is a price, even where a step has the id 5.
        is_explicit = is_explicit or not _NUMBER.fullmatch(body)
    names = names or {}
    match = _STEP.fullmatch(body)
    if match is None and in_map and (item := _ITEM.fullmatch(body)):
        path = _path(item["path"])
        return None if path is None else Reference(None, path)
    if match is None and (bare := _BARE_STEP.fullmatch(body)):
        return Reference(names.get(bare["step"], bare["step"]))
    if match is None and is_explicit and (named := _NAMED.fullmatch(body)) and named["step"] in names:
        match = named
    if match is None or (path := _path(match["path"])) is None:
        return None
    part = cast(Part, match.groupdict().get("part") or "output")
    return Reference(names.get(match["step"], match["step"]), path, part)


def parse_values(
    value: Any, names: Mapping[str, str] | None = None, *, in_map: bool = False, bad: list[str] | None = None
) -> Any:
    """Return a JSON value with every reference in it replaced by its `Reference`.

    Args:
        value: arguments as written, or a part of them.
        names: see `parse_reference`.
        in_map: see `parse_reference`.
        bad: receives every text that looks like a reference but is none (a reference inside other text, a
            broken path); such a text stays as it is.
    """
    bad = [] if bad is None else bad
    if isinstance(value, str):
        reference = parse_reference(value, names, in_map=in_map)
        if reference is None and _MENTION.search(value):
            bad.append(value)
        return value if reference is None else reference
    if isinstance(value, list):
        return [parse_values(entry, names, in_map=in_map, bad=bad) for entry in value]
    if not isinstance(value, dict):
        return value
    if _is_literal(value):
        return value["value"]
    if (written := _explicit_text(value)) is not None:
        reference = parse_reference(written, names, in_map=in_map, is_explicit=True)
        if reference is None:
            bad.append(written)
        return value if reference is None else reference
    return {key: parse_values(entry, names, in_map=in_map, bad=bad) for key, entry in value.items()}


def values_to_json(value: Any) -> Any:
    """Return the JSON form of arguments: `parse_values` gives the same arguments back."""
    if isinstance(value, Reference):
        return {"$ref": value.text()}
    if isinstance(value, str):
        is_plain = not (_MAY_BE_READ.match(value) or _MENTION.search(value))
        return value if is_plain else {"type": "literal", "value": value}
    if isinstance(value, list | tuple):
        return [values_to_json(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if _is_literal(value) or _explicit_text(value) is not None:
        return {"type": "literal", "value": value}
    return {key: values_to_json(entry) for key, entry in value.items()}


def references_in(value: Any) -> Iterator[Reference]:
    """Yield the references inside arguments, in order."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from references_in(entry)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from references_in(entry)


def resolve(
    value: Any, outputs: Mapping[str, Any], item: Any = ..., *, not_passed: Mapping[str, list[Any]] | None = None
) -> Any:
    """Return arguments with every `Reference` replaced by the value it stands for.

    Args:
        value: arguments as `parse_values` returns them.
        outputs: step id -> output.
        item: the entry of a map step; `...` outside one.
        not_passed: step id -> outputs of its calls of which a check did not pass.

    Raises:
        UnresolvedReference: names the reference and says what is really there.
    """
    if isinstance(value, Reference):
        known = outputs if value.part == "output" else not_passed or {}
        return _look_up(value, known, item)
    if isinstance(value, dict):
        return {key: resolve(entry, outputs, item, not_passed=not_passed) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(entry, outputs, item, not_passed=not_passed) for entry in value]
    return value


def _path(text: str) -> tuple[str | int, ...] | None:
    """The pieces of `.items[0].id`; None when it is no path."""
    pieces: list[str | int] = []
    end = 0
    while end < len(text):
        match = _PIECE.match(text, end)
        if match is None:
            return None
        if match["index"] is not None:
            pieces.append(int(match["index"]))
        elif match["json"] is not None:
            try:
                pieces.append(json.loads(match["json"], strict=False))
            except ValueError:
                return None
        else:
            pieces.append(match["field"] if match["key"] is None else match["key"])
        end = match.end()
    return tuple(pieces)


def _piece_text(piece: str | int) -> str:
    if isinstance(piece, int):
        return f"[{piece}]"
    return f".{piece}" if _PLAIN_FIELD.fullmatch(piece) else f"[{json.dumps(piece, ensure_ascii=False)}]"


def _is_literal(value: JsonObject) -> bool:
    return value.keys() == {"type", "value"} and value["type"] == "literal"


def _explicit_text(value: JsonObject) -> str | None:
    """What `{"$ref": ...}` or `{"type": "reference", "path": ...}` refers to; None for any other object."""
    written: Any = None
    if value.keys() == {"$ref"}:
        written = value["$ref"]
    elif value.keys() == {"type", "path"} and value["type"] == "reference":
        written = value["path"]
    return written if isinstance(written, str) else None


def _look_up(reference: Reference, outputs: Mapping[str, Any], item: Any) -> Any:
    if reference.step is None:
        if item is ...:
            raise UnresolvedReference(reference.text(), "there is an item only inside a map step")
        value, name = item, "the item"
    elif reference.step in outputs:
        value, name = outputs[reference.step], f"the output of step {reference.step}"
    else:
        raise UnresolvedReference(reference.text(), f"step {reference.step} has no output")
    for piece in reference.path:
        try:
            value = _child(value, piece)
        except LookupError as error:
            raise UnresolvedReference(reference.text(), f"{name} {error.args[0]}") from None
        name = piece if isinstance(piece, str) else f"entry [{piece}] of {name}"
    return value


def _child(value: Any, piece: str | int) -> Any:
    """One step down; the error says what the value is or has."""
    if isinstance(value, dict):
        if (key := str(piece)) in value:
            return value[key]
        shown = ", ".join(list(value)[:MOST_NAMES_SHOWN]) + (", ..." if len(value) > MOST_NAMES_SHOWN else "")
        raise LookupError(f"has no {key!r}; it has {shown or 'no fields'}")
    if isinstance(value, list):
        count = f"{len(value)} {'entry' if len(value) == 1 else 'entries'}"
        if isinstance(piece, str) and not piece.isdecimal():
            raise LookupError(f"is a list of {count}, so it has no {piece!r}; pick one entry with [0], or use a map")
        if -len(value) <= int(piece) < len(value):
            return value[int(piece)]
        raise LookupError(f"has {count}")
    shown = json.dumps(value, ensure_ascii=False, default=str)
    raise LookupError(f"is {shown if len(shown) <= 40 else shown[:40] + '...'}, so it has no {piece!r}")
