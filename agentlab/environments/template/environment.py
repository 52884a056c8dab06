"""The system under test, and the tools that look at it.

Here it is a feature-flag service held in memory. To test a system of yours, keep the methods and change what
they do: `reset` brings your system into the state of a task, the tools call it, `facts` says what is true
afterwards.
"""

import copy
from collections.abc import Mapping
from typing import Any

from agentlab.environments.changes import starting_state
from agentlab.errors import ConfigError
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tool, tools_of

# What every run starts from; `initial_state` and `defects` of a task are laid over it (JSON Merge Patch).
BASE: JsonObject = {
    "flags": {
        "dark-mode": {"is_on": True, "rollout_percent": 25, "owner": "team-web"},
        "fast-search": {"is_on": False, "rollout_percent": 0, "owner": "team-search"},
    }
}


class FlagTools:
    """The tools of one run: methods with type hints and a docstring, which is what the model reads.

    A query returns what is there. A check names the criterion that it checks and says `passed` or not: a check
    that finds a fault has run well (`success` true, `passed` false).
    """

    def __init__(self) -> None:
        self.state: JsonObject = {}

    @tool(zh="查询功能开关：是否开启、灰度比例和负责人。")
    def get_flag(self, name: str) -> ToolResult:
        """Look up a feature flag: whether it is on, its rollout in percent, and its owner.

        Args:
            name: Name of the flag.
        """
        flag = self._find(name)
        return ToolResult(True, subject=name, data=flag) if flag else _not_found(name)

    @tool(zh="检查灰度比例是否有效：在 0 到 100 之间，未开启的开关必须为 0。")
    def check_rollout(self, name: str) -> ToolResult:
        """Check whether the rollout of a flag is valid: 0 to 100 percent, and 0 while the flag is off.

        Args:
            name: Name of the flag.
        """
        flag = self._find(name)
        if not flag:
            return _not_found(name)
        percent = flag["rollout_percent"]
        passed = 0 <= percent <= 100 if flag["is_on"] else percent == 0
        message = f"The flag is {'on' if flag['is_on'] else 'off'}, its rollout is {percent} percent."
        return ToolResult(True, passed, check="rollout_valid", subject=name, message=message)

    @tool(zh="检查功能开关是否有负责人。")
    def check_owner(self, name: str) -> ToolResult:
        """Check whether a flag has an owner.

        Args:
            name: Name of the flag.
        """
        flag = self._find(name)
        if not flag:
            return _not_found(name)
        return ToolResult(True, bool(flag["owner"]), check="owner_valid", subject=name, data={"owner": flag["owner"]})

    def _find(self, name: str) -> JsonObject | None:
        flag: JsonObject | None = self.state["flags"].get(name)
        return flag


class FlagEnvironment:
    """The service of one run. `agentlab check suite` says which of these promises is broken, if one is.

    Args:
        settings: the `environment` entry of the experiment; this environment has no settings.
    """

    # Change it whenever the tools or their answers change: runs of different versions are not mixed.
    version = "1"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        if settings:
            raise ConfigError(f"This environment has no settings, found {', '.join(settings)}.")
        self._tools = FlagTools()

    def reset(self, task: Task, seed: int) -> None:
        """Bring the system into the task's initial state, defects included. Draw from `seed` alone."""
        self._tools.state = starting_state(task, BASE)

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return tools_of(self._tools)

    def observe(self) -> str:
        """Return what can be seen before the first call; empty when there is nothing."""
        return ""

    def facts(self) -> JsonObject:
        """Return what is true afterwards; the `end_state` of a task names entries of it. Never shown to a model."""
        return self.snapshot()

    def snapshot(self) -> JsonObject:
        """Return a copy of the whole state as JSON values."""
        return copy.deepcopy(self._tools.state)

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the system into the state of a snapshot."""
        self._tools.state = copy.deepcopy(snapshot)

    def close(self) -> None:
        """Release what the run holds: connections, processes, temporary files. Here there is nothing."""


def _not_found(name: str) -> ToolResult:
    return ToolResult(False, subject=name, error_kind="not_found", message=f"There is no flag {name}.")
