"""The store of an experiment: one transaction a run, so a kill at any moment loses no finished run and doubles none.

SQLAlchemy Core over SQLite (default), MySQL/MariaDB or PostgreSQL. Tables `runs`, `steps`, `calls` have the
columns of `agentlab.columns`; `traces` holds the compressed events; `meta` says whose store this is.
"""

import contextlib
import datetime
import itertools
import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from agentlab.columns import EXCLUDED_END_REASONS, STATES
from agentlab.errors import ConfigError, CorruptRecord, StoreError, WrongExperiment, unknown_name
from agentlab.records import JsonObject
from agentlab.secrets import scrub, without_password
from agentlab.store_connection import POLL_S, engine_of, url_of
from agentlab.store_tables import (
    INSERT_TRACE,
    LAST_ATTEMPT,
    PLANNED_COLUMNS,
    START_PLANNED,
    calls,
    insert_plain,
    journal,
    meta,
    metadata,
    run_plain,
    runs,
    steps,
    traces,
    update_of,
)
from agentlab.trace import StoredEvents, unpack

SCHEMA_VERSION = 1
HEARTBEAT_S = 5.0
STALE_AFTER_S = 60.0
"""A running row of another machine without a heartbeat for this long belongs to a dead process."""
_ROWS_AT_ONCE = 200
_IDS_SHOWN = 8
_CREATION_S = 5.0
"""As long may another process take to create the tables of an empty file."""
TRIED_AGAIN = ("infrastructure", "cancelled", "interrupted")
"""End reasons of runs that the same command runs again."""


class Store:
    """The runs of one experiment in one database.

    Args:
        address: a folder (its `agentlab.sqlite` is used) or a database URL.
        create: make the folder and the tables where they are missing.

    Raises:
        ConfigError: there is no store at this place and `create` is false.
        WrongExperiment: the store was written by a newer version of agentlab.
    """

    def __init__(self, address: str | Path, *, create: bool = False) -> None:
        self.url = url_of(address, create=create)
        self._engine = engine_of(self.url, create=create)
        self._quick_engine = self._engine.execution_options(agentlab_lasting=False)
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{_process_start(os.getpid())}:{uuid.uuid4().hex[:8]}"
        self._own = threading.local()
        _LIVE_OWNERS.add(self._owner)
        if not create:
            self._wait_for_tables()
        # Who only opens a store must not wait for its writers.
        with self._writing() if create else self._reading() as connection:
            if create:
                # Inside the transaction: processes that create the same file together would die otherwise.
                metadata.create_all(connection)
                self._set_meta(connection, "schema_version", str(SCHEMA_VERSION), keep=True)
            version = int(self._meta(connection).get("schema_version", 0))
        if version != SCHEMA_VERSION:
            self.close()
            what = "the newer agentlab" if version > SCHEMA_VERSION else "the agentlab that wrote it"
            raise WrongExperiment(
                f"{without_password(self.url)} was written with schema {version}, this agentlab reads schema "
                f"{SCHEMA_VERSION}. Use {what} (`agentlab export` makes parquet files that any version reads), or "
                "another folder."
            )

    def claim_folder(self, experiment: str, seed: int, definition: JsonObject) -> None:
        """Bind the store to an experiment, or accept it when it is bound to the same one.

        Raises:
            WrongExperiment: the store holds an experiment of another name or seed.
        """
        with self._writing() as connection:
            found = self._meta(connection)
            held = (found.get("experiment", experiment), int(found.get("seed", seed)))
            if held != (experiment, seed):
                raise WrongExperiment(
                    f"{without_password(self.url)} holds experiment {held[0]!r} with seed {held[1]}, not "
                    f"{experiment!r} with seed {seed}. Choose another folder with --out, or change name or seed back."
                )
            self._set_meta(connection, "experiment", experiment)
            self._set_meta(connection, "seed", str(seed))
            self._set_meta(connection, "definition", json.dumps(definition, ensure_ascii=False))

    def experiment(self) -> JsonObject:
        """Return name, seed and definition of the experiment that this store belongs to."""
        with self._reading() as connection:
            found = self._meta(connection)
        return {
            "experiment": found.get("experiment"),
            "seed": int(found["seed"]) if "seed" in found else None,
            "definition": json.loads(found.get("definition", "{}")),
        }

    def plan(self, rows: Iterable[Mapping[str, Any]]) -> int:
        """Add planned runs that are not in the store yet; return how many were added."""
        with self._writing() as connection:
            known = set(connection.scalars(sa.select(runs.c.run_id)))
            fresh = ({**row, "attempt": 0, "state": "planned"} for row in rows if row["run_id"] not in known)
            added = 0
            # In portions: the rows of a large grid need not be in memory together.
            while portion := list(itertools.islice(fresh, _ROWS_AT_ONCE)):
                insert_plain(connection, runs, {}, portion)
                added += len(portion)
        return added

    def is_unused(self) -> bool:
        """Return whether no run was ever planned; within `together` it stays so until the block has ended."""
        with self._writing() as connection:
            # SQLite lets one write at a time. Elsewhere a row that every store has is the lock: who waits for it sees
            # afterwards what the other has planned.
            connection.execute(sa.select(meta).where(meta.c.name == "schema_version").with_for_update())
            return connection.scalar(sa.select(runs.c.run_id).limit(1)) is None

    def claim(self, run_id: str, *, retry_errors: bool = False) -> int | None:
        """Take a planned run for this process; return the attempt to make, None when there is nothing to do.

        A run whose last attempt was interrupted, cancelled or ended in infrastructure trouble gets a new
        attempt; a running one whose process is gone is marked interrupted first.
        """
        rerun = (*TRIED_AGAIN, "error") if retry_errors else TRIED_AGAIN
        mine = {"state": "running", "owner": self._owner, "heartbeat_at": _now(), "started_at": _now()}
        with self._writing(is_lasting=False) as connection:
            # Most runs are claimed for the first time, which one statement does.
            if run_plain(connection, START_PLANNED, {"the_run": run_id, **mine}):
                return 0
            # Twice, on PostgreSQL: who waits for the lock gets the row as it was asked for, although whoever held the
            # lock may have added a newer attempt. With the lock, the second look shows what is the last one now.
            connection.execute(LAST_ATTEMPT, {"the_run": run_id}).one()
            last = connection.execute(LAST_ATTEMPT, {"the_run": run_id}).one()
            if last.state == "running":
                if self._is_alive(last):
                    return None
                _interrupt(connection, run_id, last.attempt)
            elif last.state == "finished" and last.end_reason not in rerun:
                return None
            attempt = int(last.attempt) + 1
            columns = [runs.c[name] for name in PLANNED_COLUMNS]
            planned = connection.execute(sa.select(*columns).where(_is(run_id, last.attempt))).one()
            connection.execute(sa.insert(runs).values(**planned._mapping, run_id=run_id, attempt=attempt, **mine))
            return attempt

    def finish(
        self,
        run_id: str,
        attempt: int,
        row: Mapping[str, Any],
        step_rows: Sequence[Mapping[str, Any]],
        call_rows: Sequence[Mapping[str, Any]],
        events: bytes,
    ) -> None:
        """Write a finished run: its row, steps, calls and trace, in one transaction."""
        key = {"run_id": run_id, "attempt": attempt}
        with self._writing() as connection:
            values = {**row, "state": "finished"}
            run_plain(connection, update_of(tuple(values)), {"the_run": run_id, "the_attempt": attempt, **values})
            insert_plain(connection, steps, key, step_rows)
            insert_plain(connection, calls, key, call_rows)
            run_plain(connection, INSERT_TRACE, {**key, "events": events})

    def interrupt(self, run_id: str, attempt: int) -> None:
        """Mark a running run as interrupted: its trace and spend are unknown, not zero."""
        with self._writing() as connection:
            _interrupt(connection, run_id, attempt)

    def interrupt_own(self) -> int:
        """Mark what this store's owner has running as interrupted; return how many."""
        with self._writing() as connection:
            return connection.execute(sa.update(runs).where(self._is_mine()).values(_interrupted())).rowcount

    def heartbeat(self) -> None:
        """Say that this process still works on its running runs."""
        with self._writing() as connection:
            connection.execute(sa.update(runs).where(self._is_mine()).values(heartbeat_at=_now()))

    def interrupt_dead(self) -> int:
        """Mark running runs whose process is gone as interrupted; return how many."""
        with self._writing() as connection:
            dead = [
                row
                for row in connection.execute(sa.select(runs).where(runs.c.state == "running"))
                if not self._is_alive(row)
            ]
            for row in dead:
                _interrupt(connection, row.run_id, row.attempt)
        return len(dead)

    def counts(self) -> dict[str, int]:
        """Return how many runs are planned, running, finished, interrupted, by the last attempt of each.

        A running row whose process is gone is counted as interrupted; nothing is written.
        """
        last = sa.select(runs.c.run_id, sa.func.max(runs.c.attempt).label("attempt")).group_by(runs.c.run_id).subquery()
        query = sa.select(runs.c.state, runs.c.owner, runs.c.heartbeat_at).join(
            last, (runs.c.run_id == last.c.run_id) & (runs.c.attempt == last.c.attempt)
        )
        found = dict.fromkeys(STATES, 0)
        with self._reading() as connection:
            for row in connection.execute(query):
                found["interrupted" if row.state == "running" and not self._is_alive(row) else row.state] += 1
        return found

    def read(self, table: str, columns: Sequence[str] = ()) -> list[JsonObject]:
        """Return all rows of `runs`, `steps` or `calls` in a stable order, with these columns (none named: all)."""
        found = {"runs": runs, "steps": steps, "calls": calls}.get(table)
        if found is None:
            raise unknown_name("table", table, ["runs", "steps", "calls"])
        order = [runs.c.planned_order, runs.c.attempt] if found is runs else list(found.primary_key.columns)
        with self._reading() as connection:
            query = sa.select(*(found.c[name] for name in columns)) if columns else sa.select(found)
            return [dict(row._mapping) for row in connection.execute(query.order_by(*order))]

    def trace(self, run_id: str, attempt: int | None = None) -> StoredEvents:
        """Return the events of a run: of the given attempt, else of the last that has any.

        `run_id` may be a unique beginning of one.

        Raises:
            ConfigError: no such run, or several begin like this.
            CorruptRecord: the stored trace cannot be read.
        """
        query = sa.select(traces).where(traces.c.run_id.startswith(run_id, autoescape=True)).order_by(traces.c.attempt)
        with self._reading() as connection:
            found = [row for row in connection.execute(query) if attempt is None or row.attempt == attempt]
            ids = connection.scalars(sa.select(runs.c.run_id).distinct()).all() if not found else []
        if not found:
            if any(known.startswith(run_id) for known in ids):
                raise ConfigError(f"Run {run_id} has no trace: it is not finished, or it was interrupted.")
            shown = ", ".join(sorted(ids)[:_IDS_SHOWN]) or "none"
            raise ConfigError(
                f"Unknown run {run_id!r}. Some of {len(ids)}: {shown}. The report lists runs worth a look."
            )
        if len(names := sorted({row.run_id for row in found})) > 1:
            shown = ", ".join(names[:_IDS_SHOWN])
            raise ConfigError(
                f"Several runs begin with {run_id!r}: {shown} ({len(names)} in all). Give more characters."
            )
        return unpack(found[-1].run_id, found[-1].events)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Make all changes of this thread within the block one transaction: all are kept, or none on an error.

        Each commit waits for the disk, so many small ones cost more than one for all.
        """
        with self._writing() as connection:
            self._own.connection = connection
            try:
                yield
            finally:
                self._own.connection = None

    def add_to_journal(self, run_id: str, attempt: int, entries: Sequence[tuple[str, JsonObject]]) -> None:
        """Append entries (kind, data) to the journal of a run, all in one transaction."""
        if not entries:
            return
        with self._writing() as connection:
            last = connection.scalar(sa.select(sa.func.max(journal.c.seq)).where(journal.c.run_id == run_id))
            first = 0 if last is None else int(last) + 1
            rows = [
                {
                    "run_id": run_id, "seq": first + index, "attempt": attempt, "at": _now(), "kind": kind,
                    "data": scrub(json.dumps(data, ensure_ascii=False)),
                }
                for index, (kind, data) in enumerate(entries)
            ]  # fmt: skip
            connection.execute(sa.insert(journal), rows)

    def read_journal(self, run_id: str) -> list[tuple[str, JsonObject]]:
        """Return the entries (kind, data) of a run's journal in order."""
        query = sa.select(journal.c.kind, journal.c.data).where(journal.c.run_id == run_id).order_by(journal.c.seq)
        with self._reading() as connection:
            return [(row.kind, json.loads(row.data)) for row in connection.execute(query)]

    def close(self) -> None:
        """Close the connections; running rows of this store count as dead afterwards."""
        _LIVE_OWNERS.discard(self._owner)
        self._engine.dispose()

    @contextlib.contextmanager
    def _writing(self, *, is_lasting: bool = True) -> Iterator[sa.Connection]:
        """One transaction that either happens whole or not at all.

        Args:
            is_lasting: False spares the wait for the disk where a loss of power may undo the change without harm;
                the death of the process never does.
        """
        outer = getattr(self._own, "connection", None)
        if outer is not None:
            yield outer
            return
        engine = self._engine if is_lasting else self._quick_engine
        with self._in_words(), engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._in_words(), self._engine.connect().execution_options(agentlab_reading=True) as connection:
            yield connection

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turn what a database refuses into an error that says where and why."""
        try:
            yield
        except (sa.exc.DatabaseError, sqlite3.Error) as error:
            place = without_password(self.url)
            words = scrub(str(error.orig if isinstance(error, sa.exc.DatabaseError) else error))
            if "disk is full" in words:
                raise StoreError(
                    f"There is no space left for the store {place}. The runs that are finished are kept. Free some "
                    "space, then give the same command again: it continues with what is missing."
                ) from error
            if isinstance(error, sa.exc.OperationalError | sqlite3.OperationalError):
                raise StoreError(f"The store {place} could not be used: {words}. Nothing was written.") from error
            raise CorruptRecord(f"{place} is no agentlab store: {words}") from error

    def _wait_for_tables(self) -> None:
        """Wait while another process creates this store: an empty file is there before its tables are."""
        give_up = time.monotonic() + _CREATION_S
        while time.monotonic() < give_up:
            with self._reading() as connection:
                if sa.inspect(connection).get_table_names():
                    return
            time.sleep(POLL_S)

    def _meta(self, connection: sa.Connection) -> dict[str, str]:
        if not sa.inspect(connection).has_table(meta.name):
            raise CorruptRecord(f"{without_password(self.url)} is no agentlab store: it has no table {meta.name!r}")
        return {row.name: row.value for row in connection.execute(sa.select(meta))}

    def _set_meta(self, connection: sa.Connection, name: str, value: str, *, keep: bool = False) -> None:
        found = self._meta(connection)
        if name not in found:
            connection.execute(sa.insert(meta).values(name=name, value=scrub(value)))
        elif not keep and found[name] != value:
            connection.execute(sa.update(meta).where(meta.c.name == name).values(value=scrub(value)))

    def _is_mine(self) -> sa.ColumnElement[bool]:
        return (runs.c.owner == self._owner) & (runs.c.state == "running")

    def _is_alive(self, row: Any) -> bool:
        """Is the process that runs this row still there? On this machine by its id, elsewhere by its heartbeat."""
        if not row.owner or row.heartbeat_at is None:
            return False
        host, pid, start, _ = row.owner.rsplit(":", 3)
        if host == socket.gethostname():
            if int(pid) == os.getpid():
                return row.owner in _LIVE_OWNERS
            return bool(start) and _process_start(int(pid)) == start
        silent_s: float = (_now() - row.heartbeat_at).total_seconds()
        return silent_s < STALE_AFTER_S


_LIVE_OWNERS: set[str] = set()


def is_counting_candidate(end_reason: str | None) -> bool:
    """Return whether an attempt with this end reason can be the one that counts."""
    return end_reason is not None and end_reason not in EXCLUDED_END_REASONS


def _is(run_id: str, attempt: int) -> Any:
    return (runs.c.run_id == run_id) & (runs.c.attempt == attempt)


def _interrupt(connection: sa.Connection, run_id: str, attempt: int) -> None:
    is_running = _is(run_id, attempt) & (runs.c.state == "running")
    connection.execute(sa.update(runs).where(is_running).values(_interrupted()))


def _interrupted() -> JsonObject:
    return {"state": "interrupted", "end_reason": "interrupted", "outcome": "excluded", "ended_at": _now()}


def _now() -> datetime.datetime:
    """UTC without a zone, as all three databases store it."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def _process_start(pid: int) -> str:
    """A mark that tells a process from a later one with the same id; empty when there is no such process."""
    import psutil

    try:
        return str(int(psutil.Process(pid).create_time()))
    except psutil.Error:
        return ""
