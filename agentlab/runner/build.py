"""From names to objects: the planned runs of an experiment, and the fresh parts of one run."""

import dataclasses
import inspect
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import agentlab
from agentlab.answers import refuse_name_of_submit, submit_tool
from agentlab.budget import Budget
from agentlab.environments.base import Environment, Suite, settings_digest, settle
from agentlab.environments.loading import load_suites
from agentlab.environments.reference import run_in_thread
from agentlab.errors import ConfigError, unknown_name
from agentlab.json_values import canonical
from agentlab.models.base import build_model
from agentlab.models.constraints import constraint_of
from agentlab.models.rate_limit import RateLimiter
from agentlab.prompts import prompt_hash
from agentlab.records import JsonObject, Model
from agentlab.runner.spec import CellOrder, Experiment, cells, run_id_of, run_seed
from agentlab.session import SessionSettings
from agentlab.strategies.base import Strategy, build_strategy, source_digest
from agentlab.tasks import Task
from agentlab.tools import Tool

CALLS_PER_STEP = 2
TOKENS_PER_CALL = 1_500
TOKENS_PER_HISTORY_CALL = 300
WORK_S_PER_CALL = 30.0


@dataclass(frozen=True, slots=True)
class RunDesign:
    """What all repeats of one cell of the grid share."""

    suite: Suite
    task: Task
    settings: SessionSettings
    budget: Budget
    environment_settings: JsonObject
    factors: JsonObject
    """Every factor but `repeat` and `seed`."""
    row: JsonObject
    """Columns that are known before a run starts, but those that tell the repeats apart."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run of the grid: identity, what to build it from, and what is known of it before it starts."""

    run_id: str
    cell: CellOrder
    seed: int
    design: RunDesign
    """Shared: of a large grid, each run holds but a few hundred bytes of its own."""

    @property
    def suite(self) -> Suite:
        """The suite of the task."""
        return self.design.suite

    @property
    def task(self) -> Task:
        """The task, with its truth."""
        return self.design.task

    @property
    def settings(self) -> SessionSettings:
        """What the experiment fixes for all strategies."""
        return self.design.settings

    @property
    def budget(self) -> Budget:
        """Limits of the run."""
        return self.design.budget

    @property
    def factors(self) -> JsonObject:
        """Every factor that defines the run."""
        return {**self.design.factors, "repeat": self.cell.repeat, "seed": self.seed}

    @property
    def row(self) -> JsonObject:
        """The columns of the run's row that are known before it starts."""
        own = {"run_id": self.run_id, "repeat": self.cell.repeat, "seed": self.seed}
        return {**self.design.row, **own, "factors": json.dumps(self.factors, ensure_ascii=False)}

    def environment(self) -> Environment:
        """Return a fresh environment."""
        return self.design.suite.new_environment(self.design.environment_settings)

    def strategy(self) -> Strategy:
        """Return a fresh strategy."""
        return build_strategy(self.cell.strategy.name, self.cell.strategy.parameters)


class ModelPool:
    """One model object per name, shared by the runs of a process and closed together.

    Args:
        limiter: one rate limit for all of them; None sends at once.
    """

    def __init__(self, limiter: RateLimiter | None = None) -> None:
        self._models: dict[str, Model] = {}
        self._limiter = limiter

    def get(self, name: str) -> Model:
        """Return the model of that name, made on first use."""
        if name not in self._models:
            model = self._models[name] = build_model(name)
            if self._limiter is not None and hasattr(model, "limiter"):
                model.limiter = self._limiter
        return self._models[name]

    async def close(self) -> None:
        """Close all models."""
        for model in self._models.values():
            await model.close()
        self._models.clear()


def plan_runs(experiment: Experiment, models: ModelPool) -> list[PlannedRun]:
    """Return the runs of the experiment in their stable order.

    Raises:
        ConfigError: an unknown suite, task, strategy, parameter or model, each with the valid names.
    """
    tasks = _tasks(experiment)
    if not tasks:
        raise ConfigError(f"Experiment {experiment.name} has no tasks.")
    suites = {suite.name: suite for suite, _ in tasks}
    offers = {name: run_in_thread(_offer(suite, experiment)) for name, suite in suites.items()}
    designs: dict[tuple[Any, ...], RunDesign] = {}
    planned = []
    for cell in cells(experiment, len(tasks)):
        key = (cell.task_index, cell.language, cell.model, cell.strategy.title)
        if key not in designs:
            designs[key] = _design(experiment, tasks, cell, models, offers)
        planned.append(_planned(experiment, cell, designs[key]))
    if len({run.run_id for run in planned}) != len(planned):
        raise ConfigError(
            "Two strategies of the experiment are the same in every factor; remove one or change a parameter."
        )
    return planned


def auto_budget(task: Task) -> Budget:
    """Return the default budget of a task: generous, and equal for all strategies.

    Twice as many calls as the reference has steps (two more for planning and answering), each with a prompt
    that grows with the history.
    """
    n_calls = CALLS_PER_STEP * (task.declared.steps + 2)
    total_tokens = n_calls * TOKENS_PER_CALL + TOKENS_PER_HISTORY_CALL * n_calls * (n_calls + 1) // 2
    return Budget(total_tokens=total_tokens, work_s=n_calls * WORK_S_PER_CALL)


def _tasks(experiment: Experiment) -> list[tuple[Suite, Task]]:
    found = [(suite, task) for suite in load_suites(experiment.suites) for task in suite.tasks]
    if not experiment.tasks:
        return found
    by_id = {task.id: (suite, task) for suite, task in found}
    for task_id in experiment.tasks:
        if task_id not in by_id:
            raise unknown_name("task", task_id, by_id)
    return [by_id[task_id] for task_id in experiment.tasks]


class _Offer(NamedTuple):
    """What an environment offers to all runs of a suite."""

    tools: tuple[Tool, ...]
    """For their schemas; they are not called."""
    tools_hash: str
    """Hash of what the model is told about the tools."""
    version: str
    """The environment's version."""


async def _offer(suite: Suite, experiment: Experiment) -> _Offer:
    environment = suite.new_environment(experiment.environment)
    try:
        tools = tuple(await settle(environment.tools()))
        refuse_name_of_submit(tools)
        described = [[t.native_schema("en"), t.native_schema("zh"), t.effect, t.permission, t.max_uses] for t in tools]
        return _Offer(tools, run_id_of({"tools": described}), environment.version)
    finally:
        await settle(environment.close())


def _planned(experiment: Experiment, cell: CellOrder, design: RunDesign) -> PlannedRun:
    seed = run_seed(experiment.seed, design.task.id, cell.repeat)
    run_id = run_id_of({**design.factors, "repeat": cell.repeat, "seed": seed})
    return PlannedRun(run_id, cell, seed, design)


def _design(
    experiment: Experiment,
    tasks: list[tuple[Suite, Task]],
    cell: CellOrder,
    models: ModelPool,
    offers: dict[str, _Offer],
) -> RunDesign:
    suite, task = tasks[cell.task_index]
    model = models.get(cell.model)
    strategy = build_strategy(cell.strategy.name, cell.strategy.parameters)
    offer = offers[suite.name]
    budget = auto_budget(task) if experiment.budget == "auto" else experiment.budget
    settings = SessionSettings(
        language=cell.language,
        temperature=experiment.temperature,
        max_output_tokens=experiment.max_output_tokens,
        examples=experiment.examples,
        constrained=experiment.constrained and _can_be_bound(strategy, model, offer.tools, cell.language),
        memory=experiment.memory,
        observe=experiment.observe,
        approvals=experiment.approvals,
        approved_tools=frozenset((suite.approved_tools or {}).get(task.id, ())),
    )
    factors: JsonObject = {
        "task": [suite.name, task.id, task.version, task.digest()],
        "strategy": [strategy.name, strategy.version, _all_parameters(strategy, cell)],
        "prompts": prompt_hash(strategy.prompts, cell.language),
        "tools": [offer.tools_hash, _submit_hash(task, cell.language)],
        "environment": [offer.version, settings_digest(experiment.environment)],
        "model": cell.model,
        "settings": _settings_factors(settings),
        "budget": budget.model_dump(),
    }
    row = {
        "experiment": experiment.name,
        "suite": suite.name,
        "task_id": task.id,
        "task_version": task.version,
        "cluster": task.cluster,
        "defective": task.is_defective,
        "complexity": task.complexity,
        "language": cell.language,
        "strategy": cell.strategy.title,
        "strategy_name": strategy.name,
        "strategy_version": strategy.version,
        "strategy_parameters": canonical(cell.strategy.parameters),
        "answer_by": strategy.answer_by,
        "model": cell.model,
        "model_kind": model.kind,
        "temperature": experiment.temperature,
        "examples": experiment.examples,
        "constrained": "on" if settings.constrained else "off",
        "memory": experiment.memory,
        "observe": experiment.observe,
        "truth_verdict": task.true_verdict,
        "checks_total": len(task.checks),
        "checks_defective": sum(status == "failed" for status in task.checks.values()),
        "prompt_hash": factors["prompts"],
        "tools_hash": offer.tools_hash,
        "environment_version": offer.version,
        "source_digest": source_digest(strategy.name),
        "suite_digest": suite.source_digest,
        "package_version": agentlab.__version__,
    }
    return RunDesign(suite, task, settings, budget, dict(experiment.environment), factors, row)


def _can_be_bound(strategy: Strategy, model: Model, tools: tuple[Tool, ...], language: str) -> bool:
    """Is there a format of the strategy that the model's replies can be bound to?"""
    return any(constraint_of(make(language), tools, model.capabilities) for make in strategy.formats)


def _all_parameters(strategy: Strategy, cell: CellOrder) -> JsonObject:
    """The parameters with their defaults, so that naming a default makes no other run."""
    defaults = {p.name: p.default for p in inspect.signature(type(strategy)).parameters.values()}
    return {**defaults, **cell.strategy.parameters}


def _submit_hash(task: Task, language: str) -> str:
    view = task.view("zh" if language == "zh" else "en")
    return run_id_of({"submit": submit_tool(view.criteria, view.language).native_schema(language)})


def _settings_factors(settings: SessionSettings) -> JsonObject:
    return {**dataclasses.asdict(settings), "approved_tools": sorted(settings.approved_tools)}
