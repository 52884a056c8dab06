"""The data behind the tools: a few SQLAlchemy Core tables, of which every run has rows of its own.

Each row carries the `run_key` of its run, every statement filters by it, and `close` deletes it. So any
number of runs may share one database, and without a `database_url` a run has an in-memory SQLite of its own.
"""

import contextlib
import functools
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    MetaData,
    Select,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    insert,
    select,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, InterfaceError, OperationalError, ProgrammingError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateTable

from agentlab.errors import ConfigError, EnvironmentUnavailable, TaskError
from agentlab.json_values import clean_text
from agentlab.records import JsonObject
from agentlab.secrets import scrub, without_password

IN_MEMORY = "sqlite://"
BUSY_TIMEOUT_S = 30
"""How long SQLite waits for another run's transaction."""
CLOSE_TIMEOUT_S = 5
"""How long `close` waits for a tool that is still in the database."""

SOURCE_DATA: JsonObject = {
    "users": {"USER001": {"name": "Lin"}, "USER002": {"name": "Chen"}},
    "orders": {
        "ORDER1001": {"amount": 199.0, "status": "paid", "user_id": "USER001"},
        "ORDER1002": {"amount": -20.0, "status": "unknown", "user_id": "USER002"},
    },
}
"""What every run starts from; a task's `initial_state` is laid over it."""

_DEFAULTS: dict[str, JsonObject] = {
    "users": {"name": "", "state": "active", "password": "", "login_rule": "strict", "token_rule": "strict"},
    "orders": {"amount": 0.0, "status": "paid", "user_id": "", "is_protected": False, "access_rule": "strict"},
    "refunds": {"order_id": "", "amount": 0.0},
    "sessions": {"user_id": "", "token": "", "is_expired": False},
}
_CHOICES = {
    "state": ("active", "frozen"),
    "login_rule": ("strict", "refuses_all", "accepts_any_password", "accepts_frozen"),
    "token_rule": ("strict", "expires_at_once", "never_expires"),
    "access_rule": ("strict", "open_to_all"),
}
"""The rules other than `strict` are the faults that a task can seed."""

# MySQL compares text without regard to case by default: order1002 would be ORDER1002 there and nowhere else.
_ID = String(64).with_variant(mysql.VARCHAR(64, collation="utf8mb4_bin"), "mysql", "mariadb")
_metadata = MetaData()


def _table(kind: str, key: str, *columns: Column[Any]) -> Table:
    # The prefix keeps clear of the tables that the user's own database already has.
    return Table(
        f"agentlab_{kind}",
        _metadata,
        Column("run_key", String(32), primary_key=True),
        Column(key, _ID, primary_key=True),
        *columns,
    )


_TABLES: dict[str, Table] = {
    "users": _table(
        "users",
        "user_id",
        Column("name", String(100)),
        Column("state", String(20)),
        Column("password", String(100)),
        Column("login_rule", String(40)),
        Column("token_rule", String(40)),
    ),
    "orders": _table(
        "orders",
        "order_id",
        # Whole cents: the same value on every database, without binary fractions.
        Column("amount_cents", BigInteger),
        Column("status", String(40)),
        Column("user_id", _ID),
        Column("is_protected", Boolean),
        Column("access_rule", String(40)),
    ),
    "refunds": _table("refunds", "refund_id", Column("order_id", _ID), Column("amount_cents", BigInteger)),
    "sessions": _table(
        "sessions", "session_id", Column("user_id", _ID), Column("token", _ID), Column("is_expired", Boolean)
    ),
}
KEYS = {kind: table.primary_key.columns.keys()[1] for kind, table in _TABLES.items()}
"""Kind of row -> name of its id."""
_INSERT = {kind: insert(table) for kind, table in _TABLES.items()}
_DELETE = {kind: delete(table).where(table.c.run_key == bindparam("key")) for kind, table in _TABLES.items()}


class OrdersState:
    """The rows of one run. Methods may be called from any thread; one transaction at a time."""

    def __init__(self, database_url: str = IN_MEMORY) -> None:
        self._engine = _engine(database_url)
        self._url = database_url
        self._run_key = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def load(self, content: JsonObject) -> None:
        """Replace the rows of this run by `content`: kind -> id -> fields; left-out fields have defaults.

        Raises:
            TaskError: an unknown kind, field or choice; lists the valid ones.
            EnvironmentUnavailable: the database cannot be reached.
        """
        rows = {kind: _rows(kind, items, self._run_key) for kind, items in content.items()}
        self._open()
        with self._transaction() as connection:
            for kind in _TABLES:
                connection.execute(_DELETE[kind], {"key": self._run_key})
                if rows.get(kind):
                    connection.execute(_INSERT[kind], rows[kind])

    def content(self) -> JsonObject:
        """Return all rows of this run in the form that `load` takes."""
        return {kind: {row.pop(KEYS[kind]): row for row in self.find_all(kind)} for kind in _TABLES}

    def find(self, kind: str, id: str) -> JsonObject | None:
        """Return the row of that id; None when there is none."""
        rows = self.find_all(kind, KEYS[kind], id)
        return rows[0] if rows else None

    def find_all(self, kind: str, column: str | None = None, value: str = "") -> list[JsonObject]:
        """Return the rows with `value` in `column` (all rows without a column), in the order of their ids."""
        # Not every driver accepts NUL or lone surrogates in text, and a model may send either.
        arguments = {"key": self._run_key} if column is None else {"key": self._run_key, "value": clean_text(value)}
        with self._transaction() as connection:
            rows = [_fields(row) for row in connection.execute(_select(kind, column), arguments).mappings()]
        # Sorted here because databases differ in how they order text.
        return sorted(rows, key=lambda row: str(row[KEYS[kind]]))

    def add(self, kind: str, id: str, fields: JsonObject) -> None:
        """Add one row; when parallel calls add the same id, the first one stays."""
        rows = _rows(kind, {id: fields}, self._run_key)
        with contextlib.suppress(IntegrityError), self._transaction() as connection:
            connection.execute(_INSERT[kind], rows)

    def close(self) -> None:
        """Delete the rows of this run and give the connection back; harmless when repeated."""
        # A tool that hangs in the database holds the lock for ever: then its connection is left to it.
        if self._connection is None or not self._lock.acquire(timeout=CLOSE_TIMEOUT_S):
            return
        connection, self._connection = self._connection, None
        try:
            # When the database is gone, so is what could be done about it.
            with contextlib.suppress(OperationalError, InterfaceError), contextlib.closing(connection):
                if self._url != IN_MEMORY:
                    with connection.begin():
                        for statement in _DELETE.values():
                            connection.execute(statement, {"key": self._run_key})
        finally:
            self._lock.release()

    def _open(self) -> None:
        if self._connection is not None:
            return
        with self._readable_errors():
            self._connection = self._engine.connect()
        try:
            self._create_tables()
        except (IntegrityError, ProgrammingError):
            # PostgreSQL: another run was creating the same tables at this moment; now they are there.
            self._create_tables()

    def _create_tables(self) -> None:
        with self._transaction() as connection:
            for statement in _create_statements(self._engine):
                connection.exec_driver_sql(statement)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._lock, self._readable_errors():
            if self._connection is None:
                raise EnvironmentUnavailable("The orders environment is used before reset or after close.")
            with self._connection.begin():
                yield self._connection

    @contextlib.contextmanager
    def _readable_errors(self) -> Iterator[None]:
        try:
            yield
        except (OperationalError, InterfaceError) as error:
            words = " ".join(scrub(str(error.orig)).split()).rstrip(".")
            raise EnvironmentUnavailable(
                f"The orders database {without_password(self._url)} does not answer: {words}. "
                "Check `database_url` in the experiment's environment settings, and whether the server runs."
            ) from error


@functools.lru_cache(maxsize=16)
def _engine(url: str) -> Engine:
    """One engine per address, so that all runs share its compiled statements; a connection belongs to one run."""
    try:
        arguments = {}
        if make_url(url).get_backend_name() == "sqlite":
            arguments = {"check_same_thread": False, "timeout": BUSY_TIMEOUT_S}
        return create_engine(url, poolclass=NullPool, connect_args=arguments)
    except (ArgumentError, ModuleNotFoundError) as error:
        raise ConfigError(
            f"database_url {without_password(url)!r} cannot be used: {scrub(str(error))}. Valid forms: "
            "sqlite:///orders.sqlite, mysql+pymysql://user:password@host/name (install agentlab-compare[mysql]), "
            "postgresql+psycopg://user:password@host/name (install agentlab-compare[postgres])."
        ) from error


@functools.lru_cache(maxsize=16)
def _create_statements(engine: Engine) -> tuple[str, ...]:
    return tuple(
        str(CreateTable(table, if_not_exists=True).compile(dialect=engine.dialect)) for table in _TABLES.values()
    )


@functools.cache
def _select(kind: str, column: str | None) -> Select[Any]:
    table = _TABLES[kind]
    rows = select(*(item for item in table.c if item.name != "run_key")).where(table.c.run_key == bindparam("key"))
    return rows if column is None else rows.where(table.c[column] == bindparam("value"))


def _rows(kind: str, items: JsonObject, run_key: str) -> list[JsonObject]:
    if kind not in _DEFAULTS:
        raise TaskError(f"The orders environment has no {kind!r}. Valid: {', '.join(_DEFAULTS)}.")
    return [_row(kind, id, fields, run_key) for id, fields in items.items()]


def _row(kind: str, id: str, fields: JsonObject, run_key: str) -> JsonObject:
    if unknown := sorted(set(fields) - set(_DEFAULTS[kind])):
        raise TaskError(f"{id}: {kind} have no field {unknown[0]!r}. Valid: {', '.join(_DEFAULTS[kind])}.")
    row = {**_DEFAULTS[kind], **fields}
    for name, choices in _CHOICES.items():
        if row.get(name, choices[0]) not in choices:
            raise TaskError(f"{id}: {name} {row[name]!r} is not one of {', '.join(choices)}.")
    if "amount" in row:
        row["amount_cents"] = round(row.pop("amount") * 100)
    return {"run_key": run_key, KEYS[kind]: id, **row}


def _fields(row: Any) -> JsonObject:
    """A row in the words of the tools: the amount in currency units."""
    return {
        "amount" if name == "amount_cents" else name: value / 100 if name == "amount_cents" else value
        for name, value in row.items()
    }
