"""A chat server in its own process, shared by the tests of a worker; each test gives it a script."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_chat_server import ChatServer

CASES_FILE = Path(__file__).parents[1] / "cases" / "chat_responses.json"


@pytest.fixture(scope="session")
def chat_server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, address, proxy or price file of the machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(("LLM_", "OPENAI_", "AGENTLAB_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def chat_cases() -> dict[str, Any]:
    return json.loads(CASES_FILE.read_text(encoding="utf-8"))
