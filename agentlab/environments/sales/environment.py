"""The sales environment: the system under test of the suite `sales`."""

import uuid
from collections.abc import Mapping
from typing import Any

from agentlab.environments.base import did_not_happen
from agentlab.environments.changes import starting_state
from agentlab.environments.sales.fulfilment import SalesTools, fulfilment_facts
from agentlab.environments.sales.mail import IDENTITY, Mailer
from agentlab.environments.sales.outbox import Outbox
from agentlab.environments.sales.reports import mentioned_products
from agentlab.environments.sales.state import BASE_STATE, SalesState
from agentlab.errors import ConfigError, unknown_name
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tools_of

SETTINGS = ("outbox", "smtp_url")
_RUN_CHARS = 16


class SalesEnvironment:
    """Sales records, reports by mail, and customers' requests; see the README beside this file.

    Args:
        settings: where the mails go as well, by default nowhere: they stay in the run's own database, so that a batch
            of thousands of runs writes no files. `smtp_url`, a mail server; `outbox`, an absolute path of a folder
            that belongs to this one run and gets each mail as a file, whereby a killed run finds what it has sent.

    Raises:
        ConfigError: an unknown setting, or an address or a folder that cannot be used.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        settings = settings or {}
        for name in settings:
            if name not in SETTINGS:
                raise unknown_name("setting of the sales environment", name, SETTINGS)
        self._state = SalesState()
        outbox = Outbox(settings["outbox"]) if settings.get("outbox") is not None else None
        self._mailer = Mailer(settings.get("smtp_url"), outbox)
        self._offered = tools_of(SalesTools(self._state, self._mailer))

    def reset(self, task: Task, seed: int) -> None:
        """Bring the data into the task's initial state, defects included.

        Nothing in it is random but the name of the run, which only mails that leave the process bear.
        """
        self._state.start(starting_state(task, BASE_STATE))
        self._mailer.run = uuid.uuid4().hex[:_RUN_CHARS] if self._mailer.delivers else ""

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return self._offered

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return what is true of mails, orders and stock; the names are explained in the README.

        Raises:
            ConfigError: the outbox is another run's.
        """
        self._refuse_another_runs_outbox()
        with self._state.transaction() as database:
            mails = database.execute("SELECT * FROM mails WHERE request_id = '' ORDER BY mail_id").fetchall()
            return {
                "mails": len(mails),
                "recipients": sorted(mail["recipient"] for mail in mails),
                "report_top_ids": mentioned_products(mail["content"] for mail in mails),
                **fulfilment_facts(database),
            }

    def snapshot(self) -> JsonObject:
        """Return the state that the run started from, what its tools have written, and the name that its mails bear."""
        content = self._state.content()
        return {**content, "run": self._mailer.run} if self._mailer.delivers else content

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the run into the state of a snapshot; mails that were sent since stay sent, where an outbox has them.

        Raises:
            ConfigError: the outbox is another run's.
        """
        self._state.restore(snapshot)
        self._mailer.run = snapshot.get("run", self._mailer.run)
        self._refuse_another_runs_outbox()
        for mail in self._mailer.all_kept():
            self._state.add_mail(mail, once=True)

    def happened(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult | None:
        """Return what a call of a process that died came to: only mails can outlive it.

        Returns:
            The result of a mail that the outbox has; a failed result for what surely did not happen; None when a mail
            server alone could tell.
        """
        return self._mailer.happened(tool, arguments) if tool in IDENTITY else did_not_happen(tool)

    def close(self) -> None:
        """Drop the run's database."""
        self._state.close()

    def _refuse_another_runs_outbox(self) -> None:
        outbox = self._mailer.outbox
        if outbox is not None and (problem := outbox.problem(self._mailer.run)):
            raise ConfigError(problem)
