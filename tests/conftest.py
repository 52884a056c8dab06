import socket
from collections.abc import Iterator

import pytest
from fake_chat_server import ChatServer

from agentlab import secrets

_LOOPBACK = ("127.", "::1", "localhost")


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests reach nothing beyond this machine; a forgotten call fails at once instead of waiting."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and not str(address[0]).startswith(_LOOPBACK):
            raise OSError(f"the test tried to reach {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    # What one test registers as a secret must not blank out words of the next.
    monkeypatch.setattr(secrets, "_known", set())
    for name in ("LLM_API_KEY", "LLM_BASE_URL", "LLM_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def chat_server() -> Iterator[ChatServer]:
    """A scripted model server in a process of its own; each test gives it a script."""
    with ChatServer() as server:
        yield server


@pytest.fixture
def endpoint(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> ChatServer:
    """The server as the endpoint that `openai:` models use."""
    monkeypatch.setenv("LLM_BASE_URL", chat_server.base_url)
    monkeypatch.setenv("LLM_API_KEY", "sk-planted-key-0123456789")
    return chat_server
