"""The tables of a store (columns of `agentlab.columns`), and the statements that every run needs.

The statements are built once: their construction takes longer than SQLite does to execute them.
"""

import datetime
import functools
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite

from agentlab.columns import CALLS, RUNS, STEPS, Column

_ID_CHARS = 64
_DERIVED = {"n_attempts"}
_DATETIME = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_SQL_TYPES: dict[str, Any] = {
    "string": sa.Text,
    "category": sa.String(_ID_CHARS),
    "Int64": sa.BigInteger,
    "Float64": sa.Double,
    "boolean": sa.Boolean,
    "datetime64[us, UTC]": _DATETIME,
}
_KEY = ("run_id", "attempt")

metadata = sa.MetaData()


def _table(name: str, columns: Sequence[Column], key: Sequence[str], *extra: sa.Column[Any]) -> sa.Table:
    made = [
        sa.Column(
            column.name,
            sa.String(_ID_CHARS) if column.name == "run_id" else _SQL_TYPES[column.dtype],
            primary_key=column.name in key,
            autoincrement=False,
        )
        for column in columns
        if column.name not in _DERIVED
    ]
    return sa.Table(name, metadata, *made, *extra)


runs = _table(
    "runs",
    RUNS,
    _KEY,
    sa.Column("factors", sa.Text, doc="every factor of the run as JSON"),
    sa.Column("answer", sa.Text, doc="the answer as JSON"),
    sa.Column("owner", sa.String(200), doc="host:pid:start:token of the process that runs it"),
    sa.Column("heartbeat_at", _DATETIME),
    sa.Column("planned_order", sa.BigInteger),
)
steps = _table("steps", STEPS, (*_KEY, "step"))
calls = _table("calls", CALLS, (*_KEY, "call"))
traces = sa.Table(
    "traces",
    metadata,
    sa.Column("run_id", sa.String(_ID_CHARS), primary_key=True),
    sa.Column("attempt", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("events", sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")),
)
journal = sa.Table(
    "journal",
    metadata,
    sa.Column("run_id", sa.String(_ID_CHARS), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("attempt", sa.BigInteger),
    sa.Column("at", _DATETIME),
    sa.Column("kind", sa.String(_ID_CHARS)),
    sa.Column("data", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")),
)
meta = sa.Table(
    "meta", metadata, sa.Column("name", sa.String(_ID_CHARS), primary_key=True), sa.Column("value", sa.Text)
)
PLANNED_COLUMNS = (
    "experiment", "suite", "task_id", "task_version", "cluster", "defective", "complexity", "language", "strategy",
    "strategy_name", "strategy_version", "strategy_parameters", "answer_by", "model", "model_kind", "repeat", "seed",
    "temperature", "examples", "constrained", "memory", "observe", "truth_verdict", "checks_total", "checks_defective",
    "prompt_hash", "tools_hash", "environment_version", "source_digest", "suite_digest", "package_version", "factors",
    "planned_order",
)  # fmt: skip
"""What is known of a run before it starts; a further attempt copies it."""
LAST_ATTEMPT = (
    sa.select(runs.c.attempt, runs.c.state, runs.c.end_reason, runs.c.owner, runs.c.heartbeat_at)
    .where(runs.c.run_id == sa.bindparam("the_run"))
    .order_by(runs.c.attempt.desc())
    .limit(1)
    .with_for_update()
)
INSERT_TRACE = sa.insert(traces)
START_PLANNED = (
    sa.update(runs)
    .where((runs.c.run_id == sa.bindparam("the_run")) & (runs.c.attempt == 0) & (runs.c.state == "planned"))
    .values({name: sa.bindparam(name) for name in ("state", "owner", "heartbeat_at", "started_at")})
)
"""Claims a run that nobody has started: only its attempt 0 is ever planned."""


@functools.lru_cache(maxsize=64)
def update_of(names: tuple[str, ...]) -> sa.Update:
    """Return the update of these columns of one attempt (parameters `the_run` and `the_attempt`)."""
    is_this = (runs.c.run_id == sa.bindparam("the_run")) & (runs.c.attempt == sa.bindparam("the_attempt"))
    return sa.update(runs).where(is_this).values({name: sa.bindparam(name) for name in names})


def run_plain(connection: sa.Connection, statement: sa.Insert | sa.Update, values: Mapping[str, Any]) -> int:
    """Execute one statement of this module; return how many rows it changed.

    Raises:
        sqlalchemy.exc.DatabaseError, sqlite3.Error: the database refused.
    """
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, values).rowcount
    text, names, fixed = _sqlite_text(statement)
    given = {**fixed, **values}
    return _sqlite(connection).execute(text, tuple(_stored(given[name]) for name in names)).rowcount


def _sqlite(connection: sa.Connection) -> sqlite3.Connection:
    """The driver's connection below SQLAlchemy's, in the same transaction."""
    own: Any = connection.connection.dbapi_connection
    assert isinstance(own, sqlite3.Connection)
    return own


@functools.lru_cache(maxsize=128)
def _sqlite_text(statement: sa.Insert | sa.Update) -> tuple[str, tuple[str, ...], Mapping[str, Any]]:
    """A statement as text, the names of its parameters in order, and those whose values stand in the statement."""
    compiled = statement.compile(dialect=sqlite.dialect())
    return str(compiled), tuple(compiled.positiontup or ()), dict(compiled.params)


def _stored(value: Any) -> Any:
    """A value as SQLAlchemy stores it in SQLite."""
    return f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime.datetime) else value


def insert_plain(
    connection: sa.Connection, table: sa.Table, key: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows of texts, numbers and booleans, all with the same key columns besides.

    Raises:
        KeyError: the first row has a column that the table does not have.
    """
    if not rows:
        return
    # Only the first, because every run pays for it: rows of one call are built by the same code.
    if unknown := rows[0].keys() - _names(table):
        raise KeyError(f"{table.name} has no column {', '.join(sorted(unknown))}")
    if connection.dialect.name != "sqlite":
        connection.execute(sa.insert(table), [{**key, **row} for row in rows])
        return
    # SQLAlchemy prepares the parameters of every row anew, which takes longer than SQLite does to store it; and the
    # driver takes five times as long for a None or a boolean as for a number.
    columns = {name: [value] * len(rows) for name, value in key.items()}
    for name, is_boolean in _columns_besides(table, tuple(key)):
        values = [row.get(name) for row in rows]
        if values.count(None) < len(values):
            columns[name] = [None if value is None else int(value) for value in values] if is_boolean else values
    _sqlite(connection).executemany(_sqlite_insert(table, tuple(columns)), zip(*columns.values(), strict=True))


@functools.cache
def _names(table: sa.Table) -> frozenset[str]:
    return frozenset(table.columns.keys())


@functools.cache
def _columns_besides(table: sa.Table, key: tuple[str, ...]) -> list[tuple[str, bool]]:
    """The names of the columns that are not in the key, and whether each holds booleans."""
    return [(column.name, isinstance(column.type, sa.Boolean)) for column in table.columns if column.name not in key]


@functools.lru_cache(maxsize=128)
def _sqlite_insert(table: sa.Table, names: tuple[str, ...]) -> str:
    """The insertion of one row with these columns, in their order, as text."""
    compiled = sa.insert(table).compile(dialect=sqlite.dialect(), column_keys=list(names))
    assert tuple(compiled.positiontup or ()) == names, "the columns are named in the order of the table"
    return str(compiled)
