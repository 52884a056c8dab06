"""The orders environment: the system under test of the suite `orders`."""

from collections.abc import Mapping
from typing import Any

from agentlab.environments.changes import starting_state
from agentlab.environments.orders.state import IN_MEMORY, SOURCE_DATA, OrdersState
from agentlab.environments.orders.tools import OrderTools
from agentlab.errors import ConfigError, unknown_name
from agentlab.records import JsonObject
from agentlab.tasks import Task
from agentlab.tools import Tool, tools_of


class OrdersEnvironment:
    """A small shop back end with orders, users, refunds and logins; see the README beside this file.

    Args:
        settings: `database_url`, a database of the user's own (SQLite, MySQL, PostgreSQL); by default each
            run has an in-memory SQLite.

    Raises:
        ConfigError: an unknown setting, or an address that cannot be used.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        settings = settings or {}
        for name in settings:
            if name != "database_url":
                raise unknown_name("setting of the orders environment", name, ["database_url"])
        url = settings.get("database_url") or IN_MEMORY
        if not isinstance(url, str):
            raise ConfigError(f"database_url must be text such as sqlite:///orders.sqlite, not {type(url).__name__}.")
        self._state = OrdersState(url)
        self._tools = OrderTools(self._state)
        self._offered = tools_of(self._tools)
        self._blocking: list[str] = []

    def reset(self, task: Task, seed: int) -> None:
        """Bring the data into the task's initial state (laid over the source data), defects included."""
        self._blocking = [defect.name for defect in task.defects if defect.blocking]
        self.restore(
            {"data": starting_state(task, SOURCE_DATA), "seed": seed, "was_refused": False, "is_detour": False}
        )

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return self._offered

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return `orders`, `refunds`, `user_states`, `logged_in` (user ids), `detours` (defects worked around)."""
        content = self._state.content()
        return {
            "orders": content["orders"],
            "refunds": content["refunds"],
            "user_states": {user_id: user["state"] for user_id, user in content["users"].items()},
            "logged_in": sorted({session["user_id"] for session in content["sessions"].values()}),
            "detours": self._blocking if self._tools.is_detour else [],
        }

    def snapshot(self) -> JsonObject:
        """Return the data of the run, its seed, and how far it went around a refused login."""
        tools = self._tools
        return {
            "data": self._state.content(),
            "seed": tools.seed,
            "was_refused": tools.was_refused,
            "is_detour": tools.is_detour,
        }

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the run into the state of a snapshot."""
        self._state.load(snapshot["data"])
        self._tools.seed = snapshot["seed"]
        self._tools.was_refused = snapshot["was_refused"]
        self._tools.is_detour = snapshot["is_detour"]

    def close(self) -> None:
        """Delete the run's rows and release its connection."""
        self._state.close()
