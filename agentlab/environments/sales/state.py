"""The database of one run: the data set with the task's changes in it, and what the tools have written."""

import contextlib
import datetime
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

from agentlab.environments.sales.mail import Mail
from agentlab.environments.sales.source import MONEY, column_of, database_image
from agentlab.errors import EnvironmentUnavailable, TaskError
from agentlab.records import JsonObject

BASE_STATE: JsonObject = {
    "today": "2026-03-09",
    "services": {"stock": "up", "mail": "up", "pricing": "right"},
}
"""What every run starts from beside the data set; a task's `initial_state` is laid over it."""
SERVICE_STATES = {
    "stock": ("up", "fails_once", "down", "deducts_twice"),
    "mail": ("up", "down"),
    "pricing": ("right", "wrong"),
}
_CHANGEABLE = {
    "sales": ("sale_id", ("receipt", "sold_on", "product_id", "region", "quantity", "unit_price", "amount")),
    "products": ("product_id", ("name", "category", "unit_price", "stock")),
    "ledger": ("month", ("total", "is_closed")),
    "address_book": ("team", ("address",)),
}
"""Kind of row -> name of its id, and the fields that a task may set."""
_WRITTEN = ("services", "orders", "movements", "mails")
"""Tables that tools write, so a snapshot holds their rows; all others follow from the data set and the changes."""


class SalesState:
    """The in-memory database of one run; nothing in it is shared. Usable from any thread, one transaction at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._start: JsonObject = {}

    @property
    def today(self) -> datetime.date:
        """The date on the task's clock."""
        return datetime.date.fromisoformat(self._start["today"])

    def start(self, state: JsonObject) -> None:
        """Replace the database by the data set with `state` laid over it.

        Args:
            state: `today`, `services` (service -> state), and changes of rows: kind -> id -> fields. A row that is
                not in the data set is added and needs all fields.

        Raises:
            TaskError: an unknown kind, field, service or state, or a new row with fields missing; lists the valid ones.
        """
        _refuse_unknown("the state of the sales environment", state, ("today", "services", *_CHANGEABLE))
        _refuse_wrong_services(state["services"])
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        connection.deserialize(database_image())
        connection.row_factory = _as_dict
        self.close()
        self._connection, self._start = connection, state
        with self.transaction() as database:
            database.executemany("INSERT INTO services VALUES (?, ?)", state["services"].items())
            for kind in _CHANGEABLE:
                for id, fields in state.get(kind, {}).items():
                    _change(database, kind, id, fields)

    def content(self) -> JsonObject:
        """Return the state of `start` and the rows that tools have written since, for `restore`."""
        with self.transaction() as database:
            tables = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in _WRITTEN}
        return {"start": self._start, "tables": tables}

    def restore(self, content: JsonObject) -> None:
        """Bring the database into the state of a `content`."""
        self.start(content["start"])
        with self.transaction() as database:
            for name in _WRITTEN:
                database.execute(f"DELETE FROM {name}")
                for row in content["tables"][name]:
                    marks = ", ".join(f":{column}" for column in row)
                    database.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({marks})", row)

    def add_mail(self, mail: Mail, *, once: bool) -> None:
        """Add a mail that was sent.

        Args:
            mail: the mail.
            once: leave it out when it is there already.
        """
        with self.transaction() as database:
            known = "SELECT 1 FROM mails WHERE mail_key = ?"
            if once and database.execute(known, (mail.key,)).fetchone() is not None:
                return
            database.execute(
                "INSERT INTO mails (recipient, content, request_id, mail_key) VALUES (?, ?, ?, ?)",
                (mail.to, mail.content, mail.request_id, mail.key),
            )

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Give the database to one thread, whose changes count together or not at all; rows come as dicts."""
        with self._lock:
            if self._connection is None:
                raise EnvironmentUnavailable("The sales environment is used before reset or after close.")
            with self._connection:
                yield self._connection

    def close(self) -> None:
        """Drop the database; harmless when repeated."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> JsonObject:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


def _change(database: sqlite3.Connection, kind: str, id: str, fields: JsonObject) -> None:
    key, known = _CHANGEABLE[kind]
    _refuse_unknown(f"{kind} {id}", fields, known)
    columns = {column_of(name): round(value * 100) if name in MONEY else value for name, value in fields.items()}
    if database.execute(f"SELECT 1 FROM {kind} WHERE {key} = ?", (id,)).fetchone() is not None:
        for column, value in columns.items():
            database.execute(f"UPDATE {kind} SET {column} = ? WHERE {key} = ?", (value, id))
        return
    if missing := [name for name in known if name not in fields and name != "is_closed"]:
        raise TaskError(f"{kind} {id} is not in the data set, so it is added and needs {', '.join(missing)} too.")
    marks = ", ".join("?" * (len(columns) + 1))
    database.execute(f"INSERT INTO {kind} ({key}, {', '.join(columns)}) VALUES ({marks})", (id, *columns.values()))


def _refuse_unknown(where: str, given: JsonObject, known: tuple[str, ...]) -> None:
    if unknown := sorted(set(given) - set(known)):
        raise TaskError(f"There is no {unknown[0]!r} in {where}. Valid: {', '.join(known)}.")


def _refuse_wrong_services(services: JsonObject) -> None:
    _refuse_unknown("services", services, tuple(SERVICE_STATES))
    for service, state in services.items():
        if state not in SERVICE_STATES[service]:
            raise TaskError(f"Service {service}: {state!r} is not one of {', '.join(SERVICE_STATES[service])}.")
