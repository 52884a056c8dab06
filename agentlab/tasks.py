"""Tasks: what is asked, and, kept apart from it, what is true.

A strategy only ever sees the `TaskView`. A task is one line of JSONL in its suite's folder.
"""

import difflib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentlab.errors import TaskError
from agentlab.records import JsonObject, verdict_of
from agentlab.references import parse_values, resolve

Status = Literal["passed", "failed", "not_evaluated"]
Language = Literal["zh", "en"]
NO_TRUTH_TAG = "no_truth"
"""Marks a task made from free text: it can be run, but not judged."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Text(_Frozen):
    """One text in the two languages of the project."""

    zh: str
    en: str

    def in_language(self, language: str) -> str:
        """Return the text in `language` (zh or en)."""
        return self.zh if language == "zh" else self.en


class Criterion(_Frozen):
    """What a run has to report on."""

    name: str
    subject: str = ""
    """What it is about (`ORDER1002`, or the owner `USER001` of an unknown number of orders)."""
    description: Text

    @property
    def key(self) -> str:
        """`name@subject`, or the bare name without a subject."""
        return f"{self.name}@{self.subject}" if self.subject else self.name


class Defect(_Frozen):
    """A fault seeded into the initial state of a defect twin."""

    name: str
    changes: JsonObject = Field(default_factory=dict)
    """What the environment changes in its initial state; its form is the environment's own."""
    blocking: bool = False
    """True when the flow cannot go on as designed; an agent that works around it masks it."""


class RequiredCall(_Frozen):
    """A call that must stand in the trace with a given outcome before an answer is entitled to rest on it."""

    tool: str
    arguments: JsonObject = Field(default_factory=dict)
    """The arguments that must match; others are free."""
    success: bool = True
    error_kind: str | None = None


class ReferenceStep(_Frozen):
    """One step of the reference path. Arguments may hold references `steps.<id>.output.<path>`."""

    id: str
    tool: str
    arguments: JsonObject = Field(default_factory=dict)


class Declared(_Frozen):
    """What is known of a flow before it is run; twins share it, strategies see it."""

    steps: int
    pages: int = 1
    exceptions: bool = False


class Task(_Frozen):
    """One problem with its truth.

    `checks` gives the true status of every criterion. For a criterion over an unknown number of things,
    `members` names them: a claim of failed needs evidence of one failing member, a claim of passed of all.
    """

    id: str
    suite: str
    version: int = 1
    instruction: Text
    environment: str
    initial_state: JsonObject = Field(default_factory=dict)
    defects: tuple[Defect, ...] = ()
    criteria: tuple[Criterion, ...]
    checks: dict[str, Status]
    members: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    failing_members: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The members that truly fail; whether an answer names them is a column of its own."""
    required_evidence: tuple[RequiredCall, ...] = ()
    end_state: JsonObject = Field(default_factory=dict)
    """Facts that must hold in the environment afterwards: name -> value."""
    reference: tuple[ReferenceStep, ...]
    plan: JsonObject = Field(default_factory=dict)
    """The plan of a planner that does everything right, in the planner's JSON form; the same for all twins of a
    flow. Only simulated planners see it. Empty: the reference, step after step."""
    cluster: str
    declared: Declared
    subject: str = ""
    """The one thing the task is about (`ORDER1002`); lets `agentlab try ORDER1002` find it."""
    canonical: bool = False
    """True for the task that wins when several share a subject."""
    proof: str = "required"
    """`required`, or `waived(reason)` in the toy suite."""
    tags: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> "Task":
        keys = [criterion.key for criterion in self.criteria]
        if not keys:
            raise ValueError(f"task {self.id}: no criteria, so nothing could ever be judged")
        if len(set(keys)) != len(keys):
            raise ValueError(f"task {self.id}: a criterion is listed twice in {keys}")
        if set(keys) != set(self.checks):
            raise ValueError(
                f"task {self.id}: checks {sorted(self.checks)} must name exactly the criteria {sorted(keys)}"
            )
        if unknown := set(self.members) - set(keys):
            raise ValueError(f"task {self.id}: members of unknown criteria {sorted(unknown)}")
        if "not_evaluated" in self.checks.values() and not self.required_evidence:
            raise ValueError(f"task {self.id}: a check that is not_evaluated needs required_evidence of why")
        return self

    @property
    def is_defective(self) -> bool:
        """True for a defect twin."""
        return bool(self.defects)

    @property
    def complexity(self) -> int:
        """Steps of the reference path; for analysis only."""
        return len(self.reference)

    @property
    def true_verdict(self) -> str:
        """The verdict that follows from the true statuses."""
        return verdict_of(self.checks)

    def digest(self) -> str:
        """Return a hash of everything in the task; a changed task is another task version."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def view(self, language: Language) -> "TaskView":
        """Return what a strategy may see of this task."""
        opaque = hashlib.sha256(f"view:{self.cluster}".encode()).hexdigest()[:10]
        return TaskView(
            id=f"task-{opaque}",
            instruction=self.instruction.in_language(language),
            language=language,
            criteria=tuple(
                CriterionView(name=c.name, subject=c.subject, description=c.description.in_language(language))
                for c in self.criteria
            ),
            declared=self.declared,
        )


class CriterionView(_Frozen):
    """A criterion as a strategy sees it: no status."""

    name: str
    subject: str
    description: str


class TaskView(_Frozen):
    """All that a strategy ever sees of a task. The id is opaque and the same for a task and its twins."""

    id: str
    instruction: str
    language: Language
    criteria: tuple[CriterionView, ...]
    declared: Declared


def load_tasks(path: Path) -> list[Task]:
    """Return the tasks of a JSONL file in file order.

    Raises:
        TaskError: there is no such file, a line is no valid task (every such line, with its number and the
            fields), or an id is used twice.
    """
    try:
        # utf-8-sig: some editors put a mark in front of the first line.
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TaskError(f"{path}: {error.strerror}. Tasks stand here as JSON, one task a line.") from error
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise TaskError(f"{path}, line {number}: not UTF-8; save the file as UTF-8.") from error
    tasks: list[Task] = []
    problems: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            tasks.append(Task.model_validate_json(line))
        except ValidationError as error:
            problems += [f"{path}, line {number}: {_in_words(problem)}" for problem in error.errors(include_url=False)]
    if problems:
        raise TaskError("\n".join(problems))
    _refuse_duplicates(tasks, path)
    return tasks


def _in_words(problem: Any) -> str:
    """One validation problem of a task: the field and what it needs."""
    field = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "json_invalid":
        return f"no valid JSON: {problem['ctx']['error'].replace('at line 1 column', 'at column')}"
    if problem["type"] == "missing":
        language = {"zh": " (the Chinese text)", "en": " (the English text)"}.get(str(problem["loc"][-1]), "")
        return f"{field} is missing{language}."
    if problem["type"] == "extra_forbidden":
        close = difflib.get_close_matches(field, Task.model_fields, n=1)
        return f"{field} is no known field.{f' Did you mean {close[0]!r}?' if close else ''}"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not field:
        return message
    found = "" if isinstance(problem["input"], dict | list) else f", found {problem['input']!r}"
    return f"{field}: {message}{found}."


def _refuse_duplicates(tasks: Iterable[Task], path: Path) -> None:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise TaskError(f"{path}: task id {task.id!r} is used twice")
        seen.add(task.id)


def resolve_references(arguments: Any, outputs: dict[str, Any]) -> Any:
    """Return `arguments` with every reference (`steps.<id>.output.<path>[i]`) replaced by what it stands for.

    Raises:
        UnresolvedReference: a `KeyError` that names the reference and says what is really there.
    """
    return resolve(parse_values(arguments), outputs)
