"""Find the plan inside a reply: fences, prose, one level of wrapping. A text is read exactly or not at all.

Strict JSON first; then Python's way of writing the same value (single quotes, None, comments, trailing commas),
where JSON can carry exactly that value. Nothing is repaired and a cut text is never completed: a plan that has
lost a step or a dependency would still run.
"""

import ast
import functools
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentlab.errors import PlanError
from agentlab.json_values import canonical, clean_text
from agentlab.planning.problems import problem
from agentlab.records import JsonObject

STEP_LISTS = ("steps", "tasks", "plan")
"""Names under which a plan may hold its steps."""
MOST_BROKEN_STARTS = 100
"""Brackets that open nothing readable and are still tried; bounds the work on garbage."""
EXCERPT_CHARS = 60


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan as written."""

    field: str
    """The name under which the steps stand."""
    steps: Any
    """What stands there; a list of objects, if the planner did well."""
    rest: JsonObject
    """The other fields of the plan."""


def extract_plan(text: str) -> Draft:
    """Return the one plan that a reply contains.

    Raises:
        PlanError: `not_a_plan`, `not_json` with the place, or `several_plans`.
    """
    text = text.lstrip("\ufeff")
    values, broken = _values(text)
    drafts = {canonical(value): draft for value in values if (draft := _draft(value)) is not None}
    if len(drafts) > 1:
        raise PlanError([problem("several_plans", count=len(drafts))])
    if drafts:
        return next(iter(drafts.values()))
    if broken is not None and any(f"{quote}{name}{quote}" in text for name in STEP_LISTS for quote in "\"'"):
        reason, place = broken
        raise PlanError([problem("not_json", reason=reason, excerpt=_excerpt(text, place))])
    raise PlanError([problem("not_a_plan")])


def read_value(text: str) -> Any:
    """Return the value that a whole text is, as JSON or as a Python literal; `...` when it is neither."""
    try:
        value, end = _DECODER.raw_decode(text)
    except _RepeatedKey:
        return ...
    except (ValueError, RecursionError):
        return _python_value(text)
    return value if not text[end:].strip() else ...


@functools.lru_cache(maxsize=1024)
def normal_name(name: Any) -> str:
    """Return a field name in snake case: `dependsOn`, `depends-on` and `Depends On` are `depends_on`."""
    text = clean_text(str(name)).strip().replace("-", "_").replace(" ", "_")
    separated = ["_" + c if c.isupper() and i and text[i - 1].islower() else c for i, c in enumerate(text)]
    return "".join(separated).lower()


class _RepeatedKey(ValueError):
    """A key is given twice in one object: whichever value were taken, the other would be lost."""


def _draft(value: Any) -> Draft | None:
    """The plan that a value is; None when it is something else."""
    if isinstance(value, list):
        is_steps = bool(value) and any(isinstance(entry, dict) for entry in value)
        return Draft("steps", value, {}) if is_steps else None
    if not isinstance(value, dict):
        return None
    named = {normal_name(key): key for key in value}
    for name in STEP_LISTS:
        if name not in named:
            continue
        inner, outer = value[named[name]], {key: entry for key, entry in value.items() if key != named[name]}
        if name == "plan" and isinstance(inner, dict):
            draft = _draft(inner)
            return None if draft is None else Draft(draft.field, draft.steps, {**outer, **draft.rest})
        return Draft(named[name], inner, outer)
    return None


def _values(text: str) -> tuple[list[Any], tuple[str, int] | None]:
    """Every value that the text holds, and where reading failed first (reason and place) if nothing was held."""
    whole = text.strip()
    parts = [part for part in (whole, *_fenced(text)) if part]
    for part in parts:
        if (read := read_value(part)) is not ... and _draft(read) is not None:
            # Fences are looked at together: two plans in two fences are two plans.
            others = [value for other in parts if other is not part and (value := read_value(other)) is not ...]
            return [read, *others], None
    values, broken = _in_prose(text)
    if not any(_draft(value) is not None for value in values):
        start = min((i for i in (text.find("{"), text.find("[")) if i != -1), default=-1)
        end = max(text.rfind("}"), text.rfind("]"))
        if start != -1 and (value := _python_value(text[start : end + 1])) is not ...:
            values.append(value)
    return values, broken


def _fenced(text: str) -> Iterator[str]:
    """The contents of the Markdown fences, an unclosed one included."""
    for index, part in enumerate(text.split("```")):
        if index % 2:
            first_line, _, rest = part.partition("\n")
            yield (rest if first_line.strip().isalpha() or not first_line.strip() else part).strip()


def _in_prose(text: str) -> tuple[list[Any], tuple[str, int] | None]:
    """The outermost JSON values inside a text, and where reading failed.

    Nothing inside a broken plan is taken for a plan, and after broken JSON only an object that names its steps.
    """
    values: list[Any] = []
    broken: tuple[str, int] | None = None
    place, tried = 0, 0
    while tried < MOST_BROKEN_STARTS:
        starts = [start for start in (text.find("{", place), text.find("[", place)) if start != -1]
        if not starts:
            break
        start = min(starts)
        try:
            value, place = _DECODER.raw_decode(text, start)
            if isinstance(value, dict) or broken is None:
                values.append(value)
        except (ValueError, RecursionError) as error:
            tried += 1
            reason, place = _failure(text, start, error)
            if place > start + 1 or broken is None:
                broken = (reason, place)
            if isinstance(error, _RepeatedKey) or any(f'"{name}"' in text[start:place] for name in STEP_LISTS):
                return [], broken
            place = max(place, start + 1)
    return values, broken


def _failure(text: str, start: int, error: Exception) -> tuple[str, int]:
    """Why and where the value that begins at `start` cannot be read."""
    if not isinstance(error, json.JSONDecodeError):
        return "nested too deeply" if isinstance(error, RecursionError) else str(error), start
    is_cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    reason = "the text ends before the plan is closed" if is_cut else error.msg
    return f"{reason} (line {error.lineno}, column {error.colno})", error.pos


def _python_value(source: str) -> Any:
    """The value of a Python literal that JSON can carry unchanged; `...` when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an invalid escape would otherwise be read in one of two ways
            tree = _JsonNames().visit(ast.parse(source.strip(), mode="eval"))
        if any(_repeats_a_key(node) for node in ast.walk(tree)):
            return ...
        value = ast.literal_eval(tree)
        return value if json.loads(json.dumps(value, allow_nan=False)) == value else ...
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return ...


class _JsonNames(ast.NodeTransformer):
    """JSON's words inside a Python literal."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        words = {"true": True, "false": False, "null": None}
        return ast.Constant(words[node.id]) if node.id in words else node


def _repeats_a_key(node: ast.AST) -> bool:
    keys = [ast.dump(key) for key in node.keys if key is not None] if isinstance(node, ast.Dict) else []
    return len(set(keys)) != len(keys)


def _without_repeats(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKey(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, strict=False)
"""Line ends inside strings are accepted; NaN, Infinity and repeated keys are not."""


def _excerpt(text: str, place: int) -> str:
    start = max(0, place - EXCERPT_CHARS // 2)
    return clean_text(" ".join(text[start : start + EXCERPT_CHARS].split()))
