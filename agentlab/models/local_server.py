"""The servers of local models: one process for each file of weights, shared by everything in this process."""

import atexit
import contextlib
import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from typing import IO

from agentlab.errors import ConfigError
from agentlab.models.local_files import LocalFile

THREADS_VARIABLE = "AGENTLAB_LOCAL_THREADS"
CONTEXT_VARIABLE = "AGENTLAB_LOCAL_CONTEXT"
SLOTS = 2
"""Requests that are generated at once; more wait in the client."""
CONTEXT_TOKENS = 8192
"""For each request, prompt and reply together."""
READY_S = 300.0
"""Longest time for loading; some seconds are usual, a cold disk takes longer."""
STOP_S = 5.0
DYING_S = 0.5
ENGINE_COMMAND = (sys.executable, "-m", "agentlab.models.local_process")

# The engine's threads spin while they wait for each other. On cores shared with anything else that costs most of the
# time: measured 0.5 in place of 2.8 tokens a second with six busy processes on two cores.
_PATIENT = {"OMP_WAIT_POLICY": "passive"}
_LAST_LOG_BYTES = 2000
_servers: dict[tuple[int, str], "LocalServer"] = {}
_lock = threading.Lock()


class LocalServer:
    """A running server process on a free port of this machine; others on the machine cannot use it without its key.

    Args:
        file: what it serves.
        command: the process; tests pass their own.
        ready_s: seconds until it must be ready.

    Raises:
        ConfigError: it did not get ready; says why, with the end of its log.
    """

    def __init__(self, file: LocalFile, command: tuple[str, ...] = ENGINE_COMMAND, *, ready_s: float = READY_S) -> None:
        self.file = file
        self.api_key = secrets.token_urlsafe(24)
        self._log: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
            env={**_PATIENT, **os.environ},
        )
        try:
            self.base_url = f"{self._wait(ready_s)}/v1"
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Id of the server's process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def why_ended(self) -> str:
        """Return how the process ended and the end of its log, in words."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A process that dies just now may not be there to ask yet.
            self._process.wait(DYING_S)
        code = self._process.returncode
        how = "is still running" if code is None else f"ended with code {code}"
        if code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
            if -code == signal.SIGKILL:
                how += " (out of memory?)"
            if -code == signal.SIGILL:
                how += " (this processor lacks instructions that the engine was built for)"
        log = self._last_log()
        return f"the server process {how}" + (f"; its log ends with: {log}" if log else "")

    def stop(self) -> None:
        """End the process and wait until it is gone."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _wait(self, ready_s: float) -> str:
        """Hand over the settings and return the address that the process reports once it is ready."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        guard = threading.Timer(ready_s, self._process.kill)
        guard.daemon = True
        guard.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(self._settings()) + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            is_late = not guard.is_alive()
            guard.cancel()
        if line:
            return str(json.loads(line)["address"])
        self._process.wait(STOP_S)
        why = f"it was not ready within {ready_s:g} s" if is_late else self.why_ended()
        raise ConfigError(f"local:{self.file.name} could not be started from {self.file.path}: {why}.")

    def _settings(self) -> dict[str, object]:
        return {
            "model": str(self.file.path),
            "alias": self.file.alias,
            "template": self.file.template,
            "api_key": self.api_key,
            "context_tokens": _positive(CONTEXT_VARIABLE, CONTEXT_TOKENS),
            "slots": SLOTS,
            "threads": _positive(THREADS_VARIABLE, usable_cores()),
        }

    def _last_log(self) -> str:
        if self._log.closed:
            return ""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - _LAST_LOG_BYTES))
        lines = self._log.read().decode("utf-8", errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-3:] if line.strip())


def server_for(file: LocalFile, command: tuple[str, ...] = ENGINE_COMMAND) -> LocalServer:
    """Return the server of a file, started if none is running; all callers in this process share it.

    It stays until the process ends, or `stop_servers`. Blocks while the model is loaded.

    Raises:
        ConfigError: it cannot be started.
    """
    # A process that was forked starts its own: the server of its parent ends with the parent.
    key = (os.getpid(), str(file.path))
    with _lock:
        server = _servers.get(key)
        if server is not None and server.is_running:
            return server
        if server is not None:
            server.stop()
        elif not _servers:
            atexit.register(stop_servers)
        server = _servers[key] = LocalServer(file, command)
        return server


def stop_servers() -> None:
    """End the servers that this process has started."""
    # Without the lock: a thread that is still loading a model holds it, and the process may want to end.
    for key, server in list(_servers.items()):
        if key[0] == os.getpid() and _servers.pop(key, None) is not None:
            server.stop()


def is_engine_installed() -> bool:
    """Return whether the package that serves models is there; nothing of it is loaded."""
    return importlib.util.find_spec("xllamacpp") is not None


def usable_cores() -> int:
    """Return how many processor cores this process may use; threads beyond them only slow the engine down."""
    import psutil

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, psutil.cpu_count(logical=False) or allowed)


def _positive(variable: str, default: int) -> int:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError(f"{variable}={text!r}: valid is a whole number above 0.")
    return int(text)
