"""Places that results are written to: what cannot be written is said in words, before or instead of a traceback."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentlab.errors import ConfigError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses within the block into a `ConfigError` that names the path."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}. Name another place.") from error


def refuse_unwritable(file: Path) -> None:
    """Make the folder of a file; raise a `ConfigError` when the file could not be written there.

    Nothing but the folder is left behind.
    """
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            raise ConfigError(f"{file} is a folder. Name a file.")
        if file.exists() and not os.access(file, os.W_OK):
            raise PermissionError(None, "the file is read-only")
        with tempfile.TemporaryFile(dir=file.parent):
            pass
