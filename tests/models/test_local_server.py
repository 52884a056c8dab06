"""Life and death of the server's process, with real processes and a stub in place of the engine."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agentlab.errors import ConfigError
from agentlab.models.local_files import SERVED, LocalFile
from agentlab.models.local_server import (
    CONTEXT_VARIABLE,
    THREADS_VARIABLE,
    LocalServer,
    server_for,
    stop_servers,
    usable_cores,
)

STUB = (sys.executable, str(Path(__file__).with_name("local_stub.py")))


def weights(tmp_path: Path, text: str = "GGUF") -> LocalFile:
    path = tmp_path / "stub.gguf"
    path.write_text(text)
    return LocalFile("stub", path, None, SERVED)


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    stop_servers()


def is_gone(pid: int, within_s: float = 10.0) -> bool:
    """A process whose parent died may stay as a zombie where nobody collects it; that counts as gone."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def parent_script(tmp_path: Path, then: str) -> str:
    return f"""
import os, time
from pathlib import Path
from agentlab.models.local_files import SERVED, LocalFile
from agentlab.models.local_server import server_for
file = LocalFile("stub", Path({str(weights(tmp_path).path)!r}), None, SERVED)
print(server_for(file, {STUB!r}).pid, flush=True)
{then}
"""


def test_a_server_is_started_once_for_a_file_and_again_after_it_died(tmp_path: Path) -> None:
    file = weights(tmp_path)
    first = server_for(file, STUB)
    assert server_for(file, STUB) is first
    assert first.is_running
    os.kill(first.pid, signal.SIGKILL)
    assert is_gone(first.pid)
    assert "SIGKILL (out of memory?)" in first.why_ended()
    second = server_for(file, STUB)
    assert second.pid != first.pid
    stop_servers()
    assert is_gone(second.pid, 0.1)
    assert not second.is_running


def test_another_file_gets_a_server_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = server_for(weights(tmp_path), STUB), server_for(weights(tmp_path / "other"), STUB)
    assert first.base_url != second.base_url


def test_the_address_is_on_this_machine_alone_and_needs_the_key(tmp_path: Path) -> None:
    server = server_for(weights(tmp_path), STUB)
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server.base_url.endswith("/v1")
    request = urllib.request.Request(f"{server.base_url}/chat/completions", b'{"messages": []}')
    with pytest.raises(urllib.error.HTTPError, match="401") as caught:
        urllib.request.urlopen(request)
    caught.value.close()


@pytest.mark.parametrize("how", ["killed", "forked"])
def test_a_killed_parent_takes_the_server_along(tmp_path: Path, how: str) -> None:
    # A fork of the parent holds the other end of the server's standard input; it must not keep the server alive.
    fork = "if os.fork() == 0:\n    print(os.getpid(), flush=True); time.sleep(60); os._exit(0)\n" * (how == "forked")
    script = parent_script(tmp_path, f"{fork}time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        helper = int(parent.stdout.readline()) if how == "forked" else None
        assert psutil.pid_exists(server)
        parent.kill()
        assert is_gone(server)
        if helper is not None:
            assert psutil.pid_exists(helper)
            os.kill(helper, signal.SIGKILL)


@pytest.mark.parametrize("then", ["", "raise SystemExit(1)", "raise KeyboardInterrupt"])
def test_a_parent_that_ends_takes_the_server_along(tmp_path: Path, then: str) -> None:
    done = subprocess.run([sys.executable, "-c", parent_script(tmp_path, then)], capture_output=True, text=True)
    assert is_gone(int(done.stdout))
    assert "ResourceWarning" not in done.stderr


def test_ctrl_c_is_left_to_the_parent(tmp_path: Path) -> None:
    server = server_for(weights(tmp_path), STUB)
    os.kill(server.pid, signal.SIGINT)
    time.sleep(0.3)
    assert server.is_running


def test_a_server_that_fails_says_why_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"local:stub could not be started.*code 3.*cannot load this"):
        server_for(weights(tmp_path, "GGUF broken"), STUB)


def test_a_server_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"not ready within 0\.8 s"):
        LocalServer(weights(tmp_path, "GGUF late"), STUB, ready_s=0.8)
    assert time.monotonic() - started < 20
    assert not any("local_stub.py" in " ".join(child.cmdline()) for child in psutil.Process().children())


def test_the_real_command_refuses_what_is_no_model_and_does_not_hang(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"local:stub could not be started"):
        server_for(weights(tmp_path, "GGUF, but nothing follows"))


@pytest.mark.parametrize("variable", [THREADS_VARIABLE, CONTEXT_VARIABLE])
def test_settings_from_the_environment_must_be_numbers(
    tmp_path: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "many")
    with pytest.raises(ConfigError, match=f"{variable}='many'"):
        server_for(weights(tmp_path), STUB)


def test_no_more_threads_than_cores() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
