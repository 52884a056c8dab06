"""What an experiment declares (YAML), and the identity of each run in it."""

import hashlib
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
from agentlab.environments.loading import locate
from agentlab.errors import ConfigError
from agentlab.json_values import canonical
from agentlab.records import JsonObject
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
    suites: tuple[str, ...]
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

    @model_validator(mode="after")
    def _check(self) -> "Experiment":
        titles = [entry.title for entry in self.strategies]
        if len(set(titles)) != len(titles):
            raise ValueError(f"two strategies have the same label in {titles}; give each a label of its own")
        if self.baseline and self.baseline not in titles:
            raise ValueError(f"baseline {self.baseline!r} is none of the strategies {titles}")
        return self

    def replaced(self, **changes: Any) -> "Experiment":
        """Return the experiment with some fields changed; None leaves a field as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        return type(self).model_validate({**self.model_dump(), **given})


def load_experiment(path: str | Path) -> Experiment:
    """Return the experiment that a YAML file declares.

    Suite folders are looked up beside the file first, then in the working directory.

    Raises:
        ConfigError: the file is missing, is no YAML, or a field is wrong; names file, line and allowed values.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        near = sorted(str(found) for found in file.parent.glob("*.yaml")) if file.parent.is_dir() else []
        raise ConfigError(
            f"{file}: {error.strerror or error}. Experiment files here: {', '.join(near) or 'none'}."
        ) from error
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{file}, line 1: an experiment is a mapping with {', '.join(_required())}.")
    try:
        experiment = Experiment.model_validate(data)
    except ValidationError as error:
        raise ConfigError("\n".join(_in_words(file, node, problem) for problem in error.errors())) from error
    return experiment.replaced(suites=_located(experiment.suites, file, node))


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
        try:
            located.append(locate(name, file.parent))
        except ConfigError as error:
            raise ConfigError(f"{file}, line {_line_of(node, ['suites', index])}: {error}") from error
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
