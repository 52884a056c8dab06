import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.errors import ConfigError, ModelUnavailable
from agentlab.models import local
from agentlab.models.base import build_model
from agentlab.models.local import LocalModel
from agentlab.models.local_files import SERVED, LocalFile
from agentlab.models.local_server import SLOTS, server_for, stop_servers
from agentlab.records import ModelRequest, Reply
from agentlab.strategies.native import NativeFormat
from agentlab.strategies.react_format import ReactFormat

STUB = (sys.executable, str(Path(__file__).with_name("local_stub.py")))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LocalFile]:
    path = tmp_path / "stub.gguf"
    path.write_text("GGUF")
    yield LocalFile("stub", path, "{{ messages }}", SERVED)
    stop_servers()


def ask(model: LocalModel, *requests: ModelRequest) -> list[Reply]:
    async def work() -> list[Reply]:
        try:
            return await asyncio.gather(*(model.complete(request) for request in requests))
        finally:
            await model.close()

    return asyncio.run(work())


def sent(reply: Reply) -> dict[str, Any]:
    """The body that the stub got."""
    return json.loads(reply.text)["body"]


def test_a_reply_comes_from_the_started_server_and_has_no_price(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    model = LocalModel(file, STUB)
    assert (model.name, model.kind, model.capabilities) == ("local:stub", "local", SERVED)
    reply = ask(model, make_request(seed=7, max_output_tokens=20))[0]
    assert reply.cost_usd is None
    assert reply.usage is not None
    assert reply.usage.total_tokens == 15
    assert reply.model == file.alias
    body = sent(reply)
    assert (body["seed"], body["max_tokens"], body["model"]) == (7, 20, file.alias)
    settings = json.loads(reply.text)["settings"]
    assert settings["template"] == "{{ messages }}"
    assert settings["model"] == str(file.path)
    assert (settings["slots"], settings["context_tokens"]) == (SLOTS, 8192)


def test_a_reply_is_limited_where_the_experiment_does_not_limit_it(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    assert sent(ask(LocalModel(file, STUB), make_request())[0])["max_tokens"] == local.LONGEST_REPLY_TOKENS


def test_building_starts_nothing_and_all_models_of_a_file_share_one_server(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    first, second = LocalModel(file, STUB), LocalModel(file, STUB)
    ask(first, *[make_request() for _ in range(5)])
    server = server_for(file, STUB)
    ask(second, make_request())
    ask(first, make_request())  # in another event loop, after close
    assert server_for(file, STUB) is server


def test_waiting_for_a_slot_is_not_latency(file: LocalFile, make_request: Callable[..., ModelRequest]) -> None:
    slow = make_request(messages=[{"role": "user", "content": "slow"}])
    model = LocalModel(file, STUB)
    ask(model, make_request())
    started = time.perf_counter()
    latencies = sorted(reply.latency_s for reply in ask(model, *[slow] * (4 * SLOTS)))
    assert latencies[0] >= 0.3
    assert latencies[-1] < (time.perf_counter() - started) / 2, "the last ones waited for three others"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_constrained_react_request_carries_its_grammar(
    file: LocalFile, make_request: Callable[..., ModelRequest], language: str
) -> None:
    format = ReactFormat(language)
    request = make_request(format=format, tool_schemas=[], constrained=True)
    bound, free = ask(LocalModel(file, STUB), request, make_request(format=format, tool_schemas=[]))
    assert sent(bound)["grammar"] == format.grammar(request.tools)
    assert "tools" not in sent(bound)
    assert "grammar" not in sent(free)


def test_constrained_native_calls_are_required_as_the_server_refuses_a_grammar_beside_tools(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    format = NativeFormat()
    bound, free = ask(
        LocalModel(file, STUB), make_request(format=format, constrained=True), make_request(format=format)
    )
    assert (sent(bound)["tool_choice"], sent(bound)["parallel_tool_calls"]) == ("required", False)
    assert "grammar" not in sent(bound)
    assert sent(free)["tool_choice"] == "auto"


def test_a_schema_is_sent_as_for_every_endpoint(
    file: LocalFile, make_request: Callable[..., ModelRequest], probe_format: Any
) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    format = probe_format(native_tools=False, json_schema=schema)
    body = sent(ask(LocalModel(file, STUB), make_request(format=format, tool_schemas=[], constrained=True))[0])
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert "grammar" not in body


def test_a_server_that_dies_is_named_and_the_next_request_gets_another(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    model = LocalModel(file, STUB)
    with pytest.raises(
        ModelUnavailable, match=r"local:stub: the server process ended with code 7.*killed by a request"
    ):
        ask(model, make_request(messages=[{"role": "user", "content": "die"}]))
    assert ask(model, make_request())[0].problem is None
    server = server_for(file, STUB)
    os.kill(server.pid, signal.SIGKILL)
    while server.is_running:
        time.sleep(0.01)
    assert ask(model, make_request())[0].problem is None


def test_a_server_that_cannot_be_started_stops_the_experiment(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    file.path.write_text("GGUF broken")
    with pytest.raises(ConfigError, match="cannot load this"):
        ask(LocalModel(file, STUB), make_request())


def test_a_missing_engine_says_what_to_install(file: LocalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ConfigError, match=r"pip install 'agentlab-compare\[local\]'"):
        build_model(f"local:{file.path}")
    with pytest.raises(ConfigError, match="there is no file"):
        local.build("/nowhere/x.gguf")


@pytest.mark.skipif(not local.is_engine_installed(), reason="needs the engine (pip install 'agentlab-compare[local]')")
def test_a_path_builds_a_model_of_that_name(file: LocalFile) -> None:
    model = build_model(f"local:{file.path}")
    assert (model.name, model.kind) == (f"local:{file.path}", "local")
