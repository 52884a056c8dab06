"""The contract of an environment, and the suites that are known by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agentlab.errors import AgentLabError, ConfigError, unknown_name
from agentlab.plan_rules import RulePack
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Criterion, Task, Text
from agentlab.tools import Tool

SUITES: dict[str, str] = {
    "orders": "agentlab.environments.orders:load_suite",
    "sales": "agentlab.environments.sales:load_suite",
    "service": "agentlab.environments.service:load_suite",
    "toy": "agentlab.environments.toy:load_suite",
}


class Environment(Protocol):
    """The system under test for one run. Methods may be plain or async.

    An instance serves one run: `reset` first, `close` last. Randomness comes from the seed of `reset` alone.
    `agentlab do` needs a plain `snapshot`: its journal stores one with every step that ends, before anything else can
    happen, so it refuses an asynchronous one.

    One more method is optional: `happened(tool: str, arguments: Mapping[str, Any]) -> ToolResult | None`, plain or
    async. After a kill in the middle of a step with an effect, `agentlab resume` asks it of a fresh instance with the
    same settings, before any `reset`. A successful result, with the data that the call would have returned, says that
    the effect is there; a failed one (`did_not_happen`) that it surely is not, so the step runs again; None that it
    cannot be known, and a person is asked. Without the method a person is always asked.
    """

    version: str
    """Changes whenever tools or behaviour change; a factor of the run."""

    def reset(self, task: Task, seed: int) -> Any:
        """Bring the system into the task's initial state, defects included."""

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every strategy and every task of the suite."""

    def observe(self) -> Any:
        """Return what can be seen before the first action, as text; empty when there is nothing to see."""

    def facts(self) -> Any:
        """Return the truth of the final state for scoring (JSON values); never shown to a strategy."""

    def snapshot(self) -> Any:
        """Return the state as JSON values, for the record and for `restore`."""

    def restore(self, snapshot: Any) -> Any:
        """Bring the system into the state of a snapshot."""

    def close(self) -> Any:
        """Release what the environment holds."""


@dataclass(frozen=True, slots=True)
class WorkerType:
    """A kind of worker that plan steps can be given to: what it knows, and the only tools it may use."""

    tools: tuple[str, ...]
    """Names of tools of the suite's environment; a tool may belong to several types."""
    expertise: Text
    """One line for planner and worker."""


@dataclass(frozen=True)
class Suite:
    """A collection of tasks over one environment."""

    name: str
    title: Text
    tasks: tuple[Task, ...]
    make_environment: Callable[[Mapping[str, Any]], Environment]
    """Builds a fresh environment for one run from the experiment's `environment` settings."""
    default_criteria: tuple[Criterion, ...] = ()
    """What `agentlab try` asks for when the text is no task of the suite."""
    approved_tools: Mapping[str, tuple[str, ...]] | None = None
    """Task id -> tools with permission `ask` that the suite approves beforehand."""
    workers: Mapping[str, WorkerType] = field(default_factory=dict)
    """Worker type -> what it may use, for strategies that assign steps; the others get the union of the tools."""
    rules: RulePack | None = None
    """What every plan for this suite must contain, for strategies that plan."""
    policy: JsonObject | None = None
    """What a failed step of a plan leads to, as data (`agentlab.planning.policy`); None leaves it to the strategy."""
    folder: Path | None = None
    """Folder of the suite's source; known once `load_suite` has loaded it."""
    source_digest: str = ""
    """Digest of the Python files in that folder (provenance, no factor of a run); set by `load_suite`."""

    def new_environment(self, settings: Mapping[str, Any]) -> Environment:
        """Return a fresh environment with these settings.

        Raises:
            ConfigError: it cannot be made; names the suite, the cause and, where it is known, the line.
        """
        try:
            return self.make_environment(settings)
        except AgentLabError:
            raise
        except (Exception, SystemExit) as error:
            raise _cannot_be_made(self, settings, error) from error

    def task(self, task_id: str) -> Task:
        """Return the task of that id; an unknown id is a `ConfigError` that lists close ones."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise unknown_name("task", task_id, [task.id for task in self.tasks])


def load_suite(name: str) -> Suite:
    """Return the suite that a name, a folder or a module stands for.

    Args:
        name: a registered name, the path of a folder with `suite.py` (`./my_suite`, from the working
            directory), or an importable module with a function `load_suite` (`my_package.suite`).

    Raises:
        ConfigError: there is none, or it cannot be loaded; says where and what is expected.
        TaskError: a task of it cannot be used; says the line and the field.
    """
    from agentlab.environments.loading import load

    return load(name)


def _cannot_be_made(suite: Suite, settings: Mapping[str, Any], error: BaseException) -> ConfigError:
    from agentlab.environments.folder_package import place_of
    from agentlab.secrets import scrub

    settings_digest(settings)  # what is secret in them must not be shown, should the error repeat it
    place = place_of(error, suite.folder) if suite.folder is not None else None
    return ConfigError(
        scrub(
            f"The environment of the suite {suite.name} cannot be made: {type(error).__name__}: {error}"
            f"{f' ({place})' if place else ''}. `agentlab check suite` says more."
        )
    )


async def settle(value: Any) -> Any:
    """Return a value, or what an awaitable gives: environments may be plain or async."""
    return await value if inspect.isawaitable(value) else value


def did_not_happen(tool: str) -> ToolResult:
    """Return what an environment's `happened` says about a call that surely took no effect."""
    return ToolResult(False, error_kind="not_happened", message=f"{tool} took no effect before the stop.")


def settings_digest(settings: Mapping[str, Any]) -> JsonObject:
    """Return the settings of an environment as they may be recorded: addresses without passwords."""
    from agentlab.secrets import without_password

    return {key: without_password(value) if isinstance(value, str) else value for key, value in settings.items()}
