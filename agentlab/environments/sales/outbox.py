"""The outbox on disk: each mail of one run is one file, and a mail whose file is there has been sent."""

import email
import email.policy
import os
import tempfile
from email.message import EmailMessage
from pathlib import Path

from agentlab.errors import ConfigError, EnvironmentUnavailable

OWNER = "run"
"""Name of the file that says which run the folder belongs to."""


class Outbox:
    """A folder of mails. It belongs to the run that sends the first one: an equal mail of another run is another mail.

    A file is complete or not there at all, also when the process dies. Names with a dot in front are half-written
    files of a process that died, and count for nothing.

    Args:
        folder: absolute; created when it is not there.

    Raises:
        ConfigError: it cannot be used as a folder to write to.
    """

    def __init__(self, folder: str | Path) -> None:
        if not isinstance(folder, str | Path) or not str(folder):
            raise ConfigError(f"outbox must name a folder, not {folder!r}.")
        self._folder = Path(folder).expanduser()
        if not self._folder.is_absolute():
            raise ConfigError(
                f"outbox {str(folder)!r} must be an absolute path (here: {self._folder.absolute()}): a run may be "
                "resumed from another working directory, and has to find its mails there."
            )
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._half_written(b"").unlink()
        except OSError as error:
            raise ConfigError(
                f"outbox {self._folder} cannot be used: {error.strerror or error}. "
                "Name a folder that can be written to, or leave `outbox` out."
            ) from error

    def problem(self, run: str) -> str:
        """Return why this run may not use the folder; empty when it may."""
        try:
            owner = self._owner()
            is_free = owner is None and all(entry.name.startswith(".") for entry in self._folder.iterdir())
        except OSError as error:
            return f"The outbox {self._folder} cannot be read: {error.strerror or error}."
        if is_free or owner == run:
            return ""
        what = "holds other files" if owner is None else "belongs to another run"
        return f"The outbox {self._folder} {what}. Each run (each journal) needs an empty folder of its own."

    def take(self, run: str) -> None:
        """Make the folder this run's own, before its first mail goes out.

        Raises:
            EnvironmentUnavailable: it is another run's, or cannot be written to.
        """
        if problem := self.problem(run):
            raise EnvironmentUnavailable(problem)
        if self._owner() is not None:
            return
        try:
            marker = self._half_written(run.encode())
            try:
                # A link, unlike a rename, fails when another run was faster.
                os.link(marker, self._folder / OWNER)
            except FileExistsError:
                raise EnvironmentUnavailable(self.problem(run)) from None
            finally:
                marker.unlink()
        except OSError as error:
            raise self._unwritable(error) from error

    def keep(self, key: str, message: EmailMessage) -> None:
        """Write a mail under its key.

        Raises:
            EnvironmentUnavailable: the folder cannot be written to.
        """
        try:
            self._half_written(message.as_bytes(policy=email.policy.SMTP)).replace(self._file(key))
        except OSError as error:
            raise self._unwritable(error) from error

    def find(self, key: str) -> EmailMessage | None:
        """Return the mail of a key; None when it was not sent."""
        try:
            content = self._file(key).read_bytes()
        except FileNotFoundError:
            return None
        message = email.message_from_bytes(content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        return message

    def sent_keys(self) -> list[str]:
        """Return the keys of all mails, in the order in which they were sent."""
        files = [(file.stat().st_mtime_ns, file.stem) for file in self._folder.glob("[!.]*.eml")]
        return [key for _, key in sorted(files)]

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.eml"

    def _owner(self) -> str | None:
        try:
            return (self._folder / OWNER).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _half_written(self, content: bytes) -> Path:
        """A new file with the content safely on disk, under a name that counts for nothing."""
        number, name = tempfile.mkstemp(dir=self._folder, prefix=".")
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return Path(name)

    def _unwritable(self, error: OSError) -> EnvironmentUnavailable:
        return EnvironmentUnavailable(f"The outbox {self._folder} cannot be written to: {error.strerror or error}.")
