"""Where a store is, and how a connection to it begins."""

import os
import shlex
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from agentlab.errors import ConfigError, StoreError
from agentlab.output_places import writing
from agentlab.secrets import without_password

FILE_NAME = "agentlab.sqlite"
BUSY_TIMEOUT_S = 30.0
POLL_S = 0.02


def url_of(address: str | Path, *, create: bool) -> str:
    """Return the database URL of a store.

    Args:
        address: a folder (its `agentlab.sqlite` is used), a file, or a database URL.
        create: make the folder where it is missing.

    Raises:
        ConfigError: there is no store at this place and `create` is false, or a file is in the way.
    """
    text = str(address)
    if "://" in text:
        return text
    path = Path(text)
    file = path if path.suffix in (".sqlite", ".db") else path / FILE_NAME
    if create:
        with writing(file.parent):
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
            except FileExistsError as error:
                raise ConfigError(_no_folder(file.parent)) from error
    elif path.is_file() and path != file:
        raise ConfigError(_no_folder(path))
    elif not file.exists():
        raise ConfigError(
            f"There is no experiment in {path}: {file.name} is missing. "
            f"`agentlab run SPEC --out {shlex.quote(str(path))}` makes it."
        )
    elif not (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        return read_only_url(file)
    return f"sqlite:///{file}"


def _no_folder(path: Path) -> str:
    return f"{path} is a file, but no store. Name a folder, or a file that ends in .sqlite or .db."


def read_only_url(file: Path) -> str:
    """A store that may only be read: `immutable` spares the files beside it that SQLite would make.

    It would also ignore changes that are not in the file yet, but in the log beside it.
    """
    log = file.with_name(f"{file.name}-wal")
    immutable = "" if log.exists() and log.stat().st_size else "&immutable=1"
    return f"sqlite:///file:{quote(str(file.resolve()))}?mode=ro{immutable}&uri=true"


def engine_of(url: str, *, create: bool) -> sa.Engine:
    """Return the engine of a store; its transactions write at once, unless `agentlab_reading` is set.

    Args:
        url: of the database.
        create: the file may be new, and then gets the mode of a store. It keeps it, so nobody else sets it.

    Raises:
        StoreError: the address cannot be used.
    """
    try:
        if not url.startswith("sqlite"):
            return sa.create_engine(url, pool_pre_ping=True)
        engine = sa.create_engine(url, connect_args={"isolation_level": None, "timeout": BUSY_TIMEOUT_S})
    except (sa.exc.ArgumentError, ModuleNotFoundError) as error:
        raise StoreError(f"The store address {without_password(url)} cannot be used: {error}") from error

    @sa.event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        for pragma in (f"busy_timeout={int(BUSY_TIMEOUT_S * 1000)}", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")
        if create:
            _write_ahead(connection)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        if options.get("agentlab_reading", False):
            connection.exec_driver_sql("BEGIN")
            return
        is_lasting = options.get("agentlab_lasting", True)
        own: Any = connection.connection.dbapi_connection
        own.execute(f"PRAGMA synchronous={'FULL' if is_lasting else 'NORMAL'}")
        own.execute("BEGIN IMMEDIATE")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Set the mode in which readers and a writer do not wait for each other.

    While another process writes, a new file refuses the change at once, whatever its busy timeout.
    """
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
        time.sleep(POLL_S)
