"""The sales environment: the system under test of the suite `sales`."""

from collections.abc import Mapping
from typing import Any

from agentlab.environments.changes import starting_state
from agentlab.environments.sales.fulfilment import SalesTools, fulfilment_facts
from agentlab.environments.sales.mail import Mailer
from agentlab.environments.sales.reports import mentioned_products
from agentlab.environments.sales.state import BASE_STATE, SalesState
from agentlab.errors import unknown_name
from agentlab.records import JsonObject
from agentlab.tasks import Task
from agentlab.tools import Tool, tools_of


class SalesEnvironment:
    """Sales records, reports by mail, and customers' requests; see the README beside this file.

    Args:
        settings: `smtp_url`, a mail server that the mails go to as well; by default they stay in the run's outbox.

    Raises:
        ConfigError: an unknown setting, or an address that cannot be used.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        settings = settings or {}
        for name in settings:
            if name != "smtp_url":
                raise unknown_name("setting of the sales environment", name, ["smtp_url"])
        self._state = SalesState()
        self._offered = tools_of(SalesTools(self._state, Mailer(settings.get("smtp_url"))))

    def reset(self, task: Task, seed: int) -> None:
        """Bring the data into the task's initial state, defects included; nothing is random."""
        self._state.start(starting_state(task, BASE_STATE))

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return self._offered

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return what is true of mails, orders and stock; the names are explained in the README."""
        with self._state.transaction() as database:
            mails = database.execute("SELECT * FROM mails WHERE request_id = '' ORDER BY mail_id").fetchall()
            return {
                "mails": len(mails),
                "recipients": sorted(mail["recipient"] for mail in mails),
                "report_top_ids": mentioned_products(mail["content"] for mail in mails),
                **fulfilment_facts(database),
            }

    def snapshot(self) -> JsonObject:
        """Return the state that the run started from and what its tools have written."""
        return self._state.content()

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the run into the state of a snapshot."""
        self._state.restore(snapshot)

    def close(self) -> None:
        """Drop the run's database."""
        self._state.close()
