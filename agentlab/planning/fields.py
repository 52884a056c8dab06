"""Read one step of a plan as written: spellings, types, references. What cannot be read is a problem with a fix."""

import dataclasses
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.json_values import clean_text, to_json_value
from agentlab.planning.extraction import normal_name, read_value
from agentlab.planning.plan import KINDS, ON_ERROR, ON_NOT_PASSED, PRIORITIES, PlanStep
from agentlab.planning.problems import problem, shown
from agentlab.records import JsonObject, PlanProblem
from agentlab.references import parse_values

DEEPEST_NESTING = 50
MOST_RETRIES = 10

ALIASES = {
    "task_id": "id", "step_id": "id",
    "tool_name": "tool", "action": "tool", "function": "tool",
    "args": "arguments", "parameters": "arguments", "params": "arguments", "inputs": "arguments",
    "input_data": "arguments",
    "dependencies": "depends_on", "deps": "depends_on", "strong_dependencies": "depends_on",
    "weak_dependencies": "weak_depends_on",
    "output_name": "output", "save_as": "output",
    "map_over": "over", "for_each": "over", "foreach": "over",
    "type": "kind", "on_failure": "on_error", "retries": "max_retries", "critical": "is_critical",
    "worker": "worker_type",
    "if_passed": "only_if_passed", "if_not_passed": "only_if_not_passed", "only_if_failed": "only_if_not_passed",
    "rollback_to": "back_to", "on_check_failed": "on_not_passed",
}  # fmt: skip
"""Spelling -> field of `PlanStep`; case and camelCase do not matter."""
IGNORED = {
    "status", "result", "error", "progress", "current_step", "start_time", "end_time", "retry_count", "created_at",
    "reason", "rationale", "thought", "note", "notes", "comment", "comments", "purpose", "expected", "expected_result",
    "expected_output", "summary",
}  # fmt: skip
"""Claims about progress, which only the program makes, and remarks."""
_TITLES = ("name", "title", "task")
"""Stand in for a missing description; `name` also for a missing tool."""
_NUMBERS = ("step", "index", "number")
"""Stand in for a missing id."""
_FIELDS = tuple(each.name for each in dataclasses.fields(PlanStep))
_WORDS = {
    "tool_call": "tool", "function": "tool", "foreach": "map", "for_each": "map",
    "高": "high", "中": "medium", "低": "low",
}  # fmt: skip
_SHORT_NAME = re.compile(r"[\w.-]{1,20}")
_UNFIT_ID = re.compile(r"[\s\[\]{}\"'$]|\.output")


@dataclass(slots=True)
class StepReader:
    """Reads the steps of one plan; collects problems and notes."""

    tool_names: Collection[str]
    problems: list[PlanProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Id or output name -> id, of all steps that references may name."""

    def read_all(self, entries: list[Any]) -> list[PlanStep]:
        """Return the steps that can be read at all; a field that cannot has its default."""
        fields = [self._fields(entry, f"#{position}") for position, entry in enumerate(entries, 1)]
        named = [given for given in fields if given is not None]
        outputs = {given["output"]: given["id"] for given in named if isinstance(given.get("output"), str)}
        self.names = {**outputs, **self.names, **{given["id"]: given["id"] for given in named}}
        return [self._step(given) for given in named]

    def _fields(self, entry: Any, place: str) -> JsonObject | None:
        """The fields of one step under their own names, with an id."""
        if not isinstance(entry, dict):
            self.problems.append(problem("not_an_object", place, found=shown(entry)))
            return None
        given: JsonObject = {}
        spelled: dict[str, str] = {}
        spare: JsonObject = {}
        others: list[str] = []
        twice: list[tuple[str, str, str]] = []
        for key, value in entry.items():
            name = ALIASES.get(normal_name(key), normal_name(key))
            if name in (*_TITLES, *_NUMBERS):
                spare[name] = value
            elif name not in _FIELDS:
                others.append(str(key))
            elif name in given and given[name] != value:
                twice.append((name, spelled[name], str(key)))
            elif value is not None:
                given[name], spelled[name] = value, str(key)
        self._stand_in(given, spare)
        given["id"] = step_id = self._id(given.get("id"), place)
        for name, first, second in twice:
            self.problems.append(problem("field_given_twice", step_id, field=name, first=first, second=second))
        if unknown := unknown_fields(step_id, others, IGNORED, self.notes):
            self.problems.append(problem("unknown_fields", step_id, fields=unknown, names=", ".join(_FIELDS)))
        return given

    def _stand_in(self, given: JsonObject, spare: JsonObject) -> None:
        """Use a number for a missing id, a tool's name for a missing tool, a title for a missing description."""
        for name in _NUMBERS:
            number = spare.get(name)
            is_short = isinstance(number, str | int) and _SHORT_NAME.fullmatch(str(number)) is not None
            if "id" not in given and is_short:
                given["id"] = spare.pop(name)
        if "tool" not in given and isinstance(spare.get("name"), str) and spare["name"] in self.tool_names:
            given["tool"] = spare.pop("name")
        texts = [text for name in (*_TITLES, *_NUMBERS) if isinstance(text := spare.get(name), str)]
        if texts:
            given.setdefault("description", texts[0])

    def _id(self, value: Any, place: str) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        text = clean_text(text).strip() if isinstance(text, str) else ""
        if text and not _UNFIT_ID.search(text):
            return text
        self.problems.append(problem("bad_id", place, found=shown(value)))
        return place

    def _step(self, given: JsonObject) -> PlanStep:
        step_id = given["id"]
        kind = self._word(given, "kind", KINDS, "map" if "over" in given else "tool")
        strong = self._ids(given, "depends_on")
        passed, not_passed = (self._ids(given, name) for name in ("only_if_passed", "only_if_not_passed"))
        needed = (*strong, *passed, *not_passed)
        weak = tuple(name for name in self._ids(given, "weak_depends_on") if name not in needed)
        return PlanStep(
            id=step_id,
            description=self._text(given, "description") or "",
            kind=kind,
            tool=self._text(given, "tool"),
            arguments=self._arguments(given, in_map=kind == "map"),
            depends_on=strong,
            weak_depends_on=weak,
            only_if_passed=passed,
            only_if_not_passed=not_passed,
            over=self._values(given.get("over"), step_id),
            output=self._text(given, "output"),
            priority=self._word(given, "priority", PRIORITIES, "medium"),
            worker_type=self._text(given, "worker_type"),
            layer=self._text(given, "layer"),
            on_error=self._word(given, "on_error", ON_ERROR, None),
            max_retries=self._retries(given),
            on_not_passed=self._word(given, "on_not_passed", ON_NOT_PASSED, None),
            back_to=self._text(given, "back_to"),
            restart=self._truth(given, "restart"),
            is_critical=self._truth(given, "is_critical"),
        )

    def _text(self, given: JsonObject, name: str) -> str | None:
        value = given.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and name in ("description", "layer"):
            value = str(value)
        if value is None or isinstance(value, str):
            return clean_text(value).strip() or None if value else None
        self._bad(given, name, "a text")
        return None

    def _word(self, given: JsonObject, name: str, valid: Collection[str], default: Any) -> Any:
        value = given.get(name, default)
        word = value.strip().lower() if isinstance(value, str) else value
        word = _WORDS.get(word, word) if isinstance(word, str) else word
        if word is None or word in valid:
            return word
        self._bad(given, name, ", ".join(valid))
        return default

    def _retries(self, given: JsonObject) -> int | None:
        value = given.get("max_retries")
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_RETRIES):
            return value
        self._bad(given, "max_retries", f"a number from 0 to {MOST_RETRIES}")
        return None

    def _truth(self, given: JsonObject, name: str) -> bool | None:
        value = given.get(name)
        if value is None or isinstance(value, bool):
            return value
        self._bad(given, name, "true, false")
        return None

    def _ids(self, given: JsonObject, name: str) -> tuple[str, ...]:
        value = given.get(name, [])
        if not isinstance(value, list):
            self.problems.append(problem("dependencies_not_list", given["id"], field=name, found=shown(value)))
            return ()
        ids = []
        for entry in value:
            if isinstance(entry, str | int) and not isinstance(entry, bool) and str(entry).strip():
                ids.append(clean_text(str(entry)).strip())
            else:
                self.problems.append(problem("bad_dependency", given["id"], field=name, found=shown(entry)))
        return tuple(dict.fromkeys(ids))

    def _arguments(self, given: JsonObject, *, in_map: bool) -> Mapping[str, Any]:
        value = given.get("arguments", {})
        if isinstance(value, str) and isinstance(read := read_value(value), dict):
            self.notes.append(f"{given['id']}: arguments read from text")
            value = read
        if not isinstance(value, dict):
            found = shown(value)
            self.problems.append(problem("arguments_not_object", given["id"], found=found, shape="{...}"))
            return {}
        # The object itself is never a reference, even where a tool has arguments named `type` and `value`.
        return {key: self._values(entry, given["id"], in_map=in_map) for key, entry in value.items()}

    def _values(self, value: Any, step_id: str, *, in_map: bool = False) -> Any:
        if _is_deeper(value, DEEPEST_NESTING):
            self.problems.append(problem("too_deep", step_id))
            return {}
        bad: list[str] = []
        read = parse_values(to_json_value(value), self.names, in_map=in_map, bad=bad)
        self.problems += [problem("bad_reference", step_id, text=shown(text)) for text in bad]
        return read

    def _bad(self, given: JsonObject, name: str, valid: str) -> None:
        self.problems.append(problem("bad_field", given["id"], field=name, found=shown(given[name]), valid=valid))


def unknown_fields(owner: str, names: list[str], ignored: Collection[str], notes: list[str]) -> str:
    """Return the fields that nobody knows, as text; note those that are known to be meaningless here."""
    meaningless = [name for name in names if normal_name(name) in ignored]
    if meaningless:
        notes.append(f"{owner}: left out {', '.join(meaningless)}")
    return ", ".join(name for name in names if name not in meaningless)


def _is_deeper(value: Any, levels: int) -> bool:
    """True when containers are nested beyond `levels`; later code walks the value recursively."""
    if not isinstance(value, dict | list):
        return False
    entries = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(entry, levels - 1) for entry in entries)
