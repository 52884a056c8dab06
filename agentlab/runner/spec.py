"""What an experiment declares (YAML), and the identity of each run in it."""

import contextlib
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from agentlab.budget import Budget
from agentlab.environments.loading import load_suites, locate, refuse_unknown_suite
from agentlab.errors import ConfigError, unknown_name
from agentlab.html_text import lines, table
from agentlab.json_values import canonical, dumps
from agentlab.models.base import PROVIDERS, build_model
from agentlab.records import JsonObject
from agentlab.strategies.base import build_strategy
from agentlab.tasks import Language


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StrategyEntry(_Frozen):
    """One strategy with one set of parameters."""

    name: str
    """Registered name."""
    label: str = ""
    """Name in tables and charts; the strategy's name where it is empty."""
    parameters: JsonObject = Field(default_factory=dict)
    """Arguments of the strategy, e.g. `max_rounds`."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def title(self) -> str:
        """The label, or the name without one."""
        return self.label or self.name


class Experiment(_Frozen):
    """A declared grid: tasks x strategies x models x languages x repeats, and what all runs share."""

    name: str = Field(pattern=r"^[\w.-]+$")
    """Also the name of the folder under results/."""
    question: str = ""
    """What the comparison is to answer; it heads the report."""
    suites: tuple[str, ...] = Field(min_length=1)
    """Registered names, folders (`./my_suite`), importable modules (`my_package.suite`)."""
    tasks: tuple[str, ...] = ()
    """Ids of the tasks to run; empty: all tasks of the suites."""
    strategies: tuple[StrategyEntry, ...] = Field(min_length=1)
    """What is compared; one strategy may stand here several times with different parameters."""
    models: tuple[str, ...] = Field(min_length=1)
    """Each as `provider:name`; models are never pooled."""
    languages: tuple[Language, ...] = ("en",)
    """Languages of the instructions and prompts."""
    repeats: PositiveInt = 3
    """Runs of each task with each strategy, model and language."""
    seed: int = 0
    """Shuffles the tasks and seeds the runs; the seed of a run is the same for every strategy."""
    budget: Budget | Literal["auto"] = "auto"
    """`auto`: total_tokens and work_s per task from its reference, with a generous factor."""
    concurrency: PositiveInt = 8
    """Runs in flight at once."""
    baseline: str = ""
    """Label of the strategy the others are compared with; the first one where it is empty."""
    margin: float = Field(default=0.05, gt=0, lt=1)
    """Smallest difference of the pass rate that matters, declared before the first run."""
    approvals: Literal["allow", "deny"] = "deny"
    """The answer to tools with `permission="ask"`."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """Sampling temperature of every model call; at 0 repeats may be identical."""
    max_output_tokens: PositiveInt | None = None
    """Limit of one reply."""
    examples: Literal["none", "one"] = "none"
    """`one` puts a worked example into the prompt."""
    constrained: bool = False
    """Bind replies to the expected format by schema, where the model can."""
    memory: Literal["none"] = "none"
    """Memory of the actors."""
    observe: Literal["text"] = "text"
    """What is shown of the environment."""
    max_cost_usd: PositiveFloat | None = None
    """No further run is started once all attempts together have cost this much."""
    max_tokens: PositiveInt | None = None
    """No further run is started once all attempts together have used so many tokens."""
    requests_per_minute: PositiveFloat | None = None
    """Rate limit of requests; all models and runs share it."""
    tokens_per_minute: PositiveFloat | None = None
    """Rate limit of tokens; all models and runs share it."""
    environment: JsonObject = Field(default_factory=dict)
    """Settings of the environment, e.g. database_url."""

    @field_validator("suites", "models", "languages", "tasks", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("repeats", "seed", "concurrency", "max_output_tokens", "max_tokens", mode="before")
    @classmethod
    def _no_truth_value(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError(f"{str(value).lower()} is no number")
        return value

    @field_validator("models", "languages", "tasks")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [name for name, count in Counter(value).items() if count > 1]:
            raise ValueError(f"{', '.join(twice)} stands here more than once; name each once (`repeats` repeats runs)")
        return value

    @field_validator("name")
    @classmethod
    def _no_place(cls, value: str) -> str:
        if value in (".", ".."):
            raise ValueError("the name becomes a folder under results/, so it cannot be . or ..")
        return value

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        titles = [entry.title for entry in self.strategies]
        if len(set(titles)) != len(titles):
            raise ValueError(f"two strategies have the same label in {titles}; give each a label of its own")
        if self.baseline and self.baseline not in titles:
            raise ValueError(f"baseline {self.baseline!r} is none of the strategies {titles}")
        return self

    def _repr_html_(self) -> str:
        """The declaration in a notebook: what is compared, and what was changed from its default."""
        entries = [(entry.title, entry.name, dumps(entry.parameters)) for entry in self.strategies]
        declared = self.model_dump(mode="json", exclude_defaults=True, exclude={"name", "question", "strategies"})
        return (
            lines(self.name, *([self.question] if self.question else []))
            + table(("strategy", "kind", "parameters"), entries)
            + table(("setting", "value"), [(name, dumps(value)) for name, value in declared.items()])
        )

    def replaced(self, **changes: Any) -> "Experiment":
        """Return the experiment with some fields changed; None leaves a field as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        return type(self).model_validate({**self.model_dump(), **given})


def load_experiment(path: str | Path) -> Experiment:
    """Return the experiment that a YAML file declares.

    Suite folders are looked up beside the file first, then in the working directory.

    Raises:
        ConfigError: the file is missing, is no YAML, a field is wrong, or a name is unknown; names file, line and
            allowed values.
        TaskError: a task of a suite cannot be used.
    """
    file = Path(path)
    node, data = _read(file)
    if not isinstance(data, dict):
        raise ConfigError(f"{file}, line 1: an experiment is a mapping with {', '.join(_required())}.")
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(_in_words(file, node, problem) for problem in error.errors())) from error
    experiment = experiment.replaced(suites=_located(experiment.suites, file, node))
    _refuse_unknown_names(experiment, file, node)
    return experiment


class _Loader(yaml.SafeLoader):
    """Says in which line a value is that looks like a date or a number and is none (2026-13-45)."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from error


def _read(file: Path) -> tuple[yaml.Node | None, Any]:
    """The file as nodes, which know their lines, and as data."""
    content = b""
    try:
        content = file.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        here = file.parent.glob("*.yaml") if file.parent.is_dir() else ()
        near = sorted(str(found) for found in here if found.is_file())
        raise ConfigError(
            f"{file}: {error.strerror or error}. Experiment files here: {', '.join(near) or 'none'}."
        ) from error
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{file}, line {line}: this is no UTF-8 text. Save the file in UTF-8.") from error
    try:
        node = yaml.compose(text, Loader=_Loader)
        _refuse_keys_used_twice(file, node)
        return node, yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {str(error).replace('<unicode string>', str(file))}") from error


def _refuse_keys_used_twice(file: Path, root: yaml.Node | None) -> None:
    """YAML readers keep the last of several equal keys, so the others would be ignored without a word."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        if isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
            lines: dict[str, int] = {}
            for key, _ in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.value in lines:
                    raise ConfigError(
                        f"{file}, line {line}: the key {key.value!r} stands in line {lines[key.value]} already. "
                        "Remove one of them."
                    )
                lines[key.value] = line


def _refuse_unknown_names(experiment: Experiment, file: Path, node: yaml.Node | None) -> None:
    """Refuse what names nothing, where it stands in the file."""
    for index, entry in enumerate(experiment.strategies):
        with _at(file, node, ["strategies", index]):
            build_strategy(entry.name, entry.parameters)
    for index, name in enumerate(experiment.models):
        with _at(file, node, ["models", index]):
            if name.partition(":")[0] not in PROVIDERS:
                build_model(name)
    if experiment.tasks:
        ids = [task.id for suite in load_suites(experiment.suites) for task in suite.tasks]
        for index, name in enumerate(experiment.tasks):
            if name not in ids:
                with _at(file, node, ["tasks", index]):
                    raise unknown_name("task", name, ids)


@contextlib.contextmanager
def _at(file: Path, node: yaml.Node | None, location: list[Any]) -> Iterator[None]:
    """Put file and line before the words of an error."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{file}, line {_line_of(node, location)}: {error}") from error


def run_seed(experiment_seed: int, task_id: str, repeat: int) -> int:
    """Return the seed of a run: the same for every strategy, so that runs are paired."""
    digest = hashlib.sha256(f"{experiment_seed}:{task_id}:{repeat}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def run_id_of(factors: Mapping[str, Any]) -> str:
    """Return the identity of a run: a hash of every factor that defines it."""
    return hashlib.sha256(canonical(factors).encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class CellOrder:
    """One cell of the grid, before names are looked up."""

    repeat: int
    task_index: int
    language: Language
    model: str
    strategy: StrategyEntry


def cells(experiment: Experiment, n_tasks: int) -> Iterator[CellOrder]:
    """Yield the grid in its stable order: repeats outermost, tasks shuffled by the seed, strategies innermost."""
    import random

    order = list(range(n_tasks))
    random.Random(experiment.seed).shuffle(order)
    for repeat in range(experiment.repeats):
        for task_index in order:
            for language in experiment.languages:
                for model in experiment.models:
                    for strategy in experiment.strategies:
                        yield CellOrder(repeat, task_index, language, model, strategy)


def _located(suites: tuple[str, ...], file: Path, node: yaml.Node | None) -> tuple[str, ...]:
    """The suites with folders as seen from the working directory."""
    located = []
    for index, name in enumerate(suites):
        with _at(file, node, ["suites", index]):
            found = locate(name, file.parent)
            refuse_unknown_suite(found)
            located.append(found)
    return tuple(located)


def _required() -> list[str]:
    return [name for name, field in Experiment.model_fields.items() if field.is_required()]


def _in_words(file: Path, node: yaml.Node | None, problem: Any) -> str:
    """One validation problem with its line, and the valid choices where they are known."""
    location = [part for part in problem["loc"] if part not in ("Budget", "literal['auto']")]
    where = f"{file}, line {_line_of(node, location)}: "
    if problem["type"] == "extra_forbidden":
        return f"{where}unknown field {location[-1]!r}. Valid: {', '.join(_fields_beside(location))}."
    field = ".".join(str(part) for part in location)
    if problem["type"] == "tuple_type":
        found = problem["input"]
        return f"{where}{field} must be a list, for example `{field}: [{found if isinstance(found, str) else '...'}]`."
    text = f"{where}{field + ': ' if field else ''}{problem['msg'].removeprefix('Value error, ')}"
    if problem["type"] == "missing":
        return f"{text}. Needed: {', '.join(_required())}."
    return text if isinstance(problem["input"], dict | list) else f"{text} (found {problem['input']!r})"


def _fields_beside(location: list[Any]) -> list[str]:
    """The valid field names at the place of an unknown one."""
    owners: dict[str, type[BaseModel]] = {"budget": Budget, "strategies": StrategyEntry}
    owner = owners.get(str(location[0]), Experiment) if len(location) > 1 else Experiment
    return list(owner.model_fields)


def _line_of(node: yaml.Node | None, location: list[Any]) -> int:
    """The line of the deepest part of the location that the file has."""
    line = node.start_mark.line + 1 if node is not None else 1
    for part in location:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = (node.value[part], node.value[part])
        if found is None:
            return int(line)
        line, node = found[0].start_mark.line + 1, found[1]
    return int(line)
