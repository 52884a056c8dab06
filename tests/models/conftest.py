"""A chat server in its own process, shared by the tests of a worker; each test gives it a script."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from agentlab.records import Intent, JsonObject, ModelRequest, Reply, RequestContext, Unreadable
from agentlab.tools import Tool, tools_from_schemas

CASES_FILE = Path(__file__).parents[1] / "cases" / "chat_responses.json"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, address, proxy or price file of the machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(("LLM_", "OPENAI_", "AGENTLAB_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def chat_cases() -> dict[str, Any]:
    return json.loads(CASES_FILE.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class ProbeFormat:
    """A format that only says what the request needs; the client never reads or writes intents."""

    name: str = "probe"
    native_tools: bool = True
    stop: tuple[str, ...] = ()
    expects: Literal["turn", "plan"] = "turn"
    json_schema: JsonObject | None = None

    def schema(self, tools: tuple[Any, ...]) -> JsonObject | None:
        return self.json_schema

    def read(self, reply: Reply, tools: tuple[Any, ...]) -> Intent:
        return Unreadable("probe", "not read")

    def write(self, intent: Intent) -> Reply:
        return Reply()


@pytest.fixture(scope="session")
def order_tools(chat_cases: dict[str, Any]) -> tuple[Tool, ...]:
    return tools_from_schemas(chat_cases["tools"])


@pytest.fixture(scope="session")
def make_request(order_tools: tuple[Tool, ...]) -> Callable[..., ModelRequest]:
    """Return a function that builds a request with the order tools; keywords replace its fields."""

    def make(**fields: Any) -> ModelRequest:
        context = RequestContext(run_id="r", task=None, repeat=0, seed=0, actor="agent", occurrence=0)
        request = ModelRequest(
            messages=[{"role": "user", "content": "检查订单 ORDER1002"}],
            tools=order_tools,
            tool_schemas=[tool.native_schema("zh") for tool in order_tools],
            format=ProbeFormat(),
            temperature=0.0,
            max_output_tokens=None,
            seed=None,
            constrained=False,
            context=context,
        )
        return replace(request, **fields)

    return make


@pytest.fixture(scope="session")
def probe_format() -> type[ProbeFormat]:
    return ProbeFormat
