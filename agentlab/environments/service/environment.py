"""The service environment: the system under test of the suite `service`."""

from collections.abc import Mapping
from typing import Any

from agentlab.environments.base import did_not_happen
from agentlab.environments.changes import starting_state
from agentlab.environments.service.state import ServiceState
from agentlab.environments.service.tools import ServiceTools
from agentlab.errors import ConfigError, unknown_name
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tools_of

MOST_DELAY = 5.0
"""Largest `delay_scale`: the longest work (5 simulated seconds) stays within a tool's time limit of 30 s."""


class ServiceEnvironment:
    """Back-end services that are optimised, tested and deployed; see the README beside this file.

    Args:
        settings: `delay_scale`, real seconds per simulated second of work, 0 (the default) to 5.

    Raises:
        ConfigError: an unknown setting, or a delay that is no such number.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        settings = settings or {}
        for name in settings:
            if name != "delay_scale":
                raise unknown_name("setting of the service environment", name, ["delay_scale"])
        scale = settings.get("delay_scale", 0)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 <= scale <= MOST_DELAY:
            raise ConfigError(f"delay_scale must be a number from 0 (no waiting) to {MOST_DELAY:g}, not {scale!r}.")
        self._state = ServiceState()
        self._offered = tools_of(ServiceTools(self._state, float(scale)))

    def reset(self, task: Task, seed: int) -> None:
        """Bring the services into the task's initial state, defects included. The ids follow from the seed."""
        start = starting_state(task, {"services": {}})
        for name in start:
            if name != "services":
                raise unknown_name("part of the service environment's state", name, ["services"])
        self._state.load(start["services"], seed, [])

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return self._offered

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return `build`, `deployed`, `checkpoints`, `deployments`, `rolled_back` and `effects` (see the README)."""
        return self._state.facts()

    def snapshot(self) -> JsonObject:
        """Return a copy of services, seed and effects."""
        return self._state.content()

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the run into the state of a snapshot."""
        self._state.load(snapshot["services"], snapshot["seed"], snapshot["effects"])

    def happened(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return that a call of a process that died did not happen: the services lived in that process."""
        return did_not_happen(tool)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
