"""The real small model, end to end. Runs where its weights are in the cache and the engine is installed.

What it decides is not asserted beyond what it reliably does: the form, and that the pieces fit together.
"""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentlab.errors import ConfigError
from agentlab.models.local import LocalModel
from agentlab.models.local_files import KNOWN_MODELS, LocalFile, find_file
from agentlab.models.local_server import is_engine_installed, server_for, stop_servers
from agentlab.records import Model, ModelRequest, Reply, Unreadable
from agentlab.runner.run_one import RunResult
from agentlab.runner.try_one import try_task
from agentlab.strategies.react_format import ReactFormat


def weights() -> LocalFile | str:
    """The largest known model that is there, or why there is none."""
    if not is_engine_installed():
        return "the engine is not installed: pip install 'agentlab-compare[local]'"
    for name in KNOWN_MODELS:
        try:
            return find_file(name)
        except ConfigError:
            continue
    return f"no local model is in the cache: agentlab local fetch {next(iter(KNOWN_MODELS))}"


SMALLEST = "qwen2.5-coder-0.5b"
# Looked up before the tests' clean environment takes AGENTLAB_CACHE away.
WEIGHTS = weights()
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(isinstance(WEIGHTS, str), reason=str(WEIGHTS)),
]


@pytest.fixture(scope="module")
def file() -> Iterator[LocalFile]:
    assert isinstance(WEIGHTS, LocalFile)
    yield WEIGHTS
    stop_servers()


def ask(file: LocalFile, request: ModelRequest) -> Reply:
    async def work() -> Reply:
        model = LocalModel(file)
        try:
            return await model.complete(request)
        finally:
            await model.close()

    return asyncio.run(work())


def attempt(file: LocalFile, strategy: str, language: str) -> RunResult:
    async def work() -> RunResult:
        model: Model = LocalModel(file)
        try:
            result, _ = await try_task("ORDER1002", strategy=strategy, model=model, language=language, seed=1)
            return result
        finally:
            await model.close()

    return asyncio.run(work())


@pytest.mark.parametrize(("strategy", "language"), [("tool_loop", "en"), ("react", "en"), ("react", "zh")])
def test_a_strategy_runs_to_its_end(file: LocalFile, strategy: str, language: str) -> None:
    result = attempt(file, strategy, language)
    assert (result.model, result.model_kind) == (f"local:{file.name}", "local")
    assert result.end_reason in ("answered", "loop_detected", "format_limit", "budget_rounds")
    calls = [event.data for event in result.events if event.kind == "model_call"]
    assert len(calls) == result.meter.model_calls >= 1
    for call in calls:
        assert call["model"] == file.alias
        assert call["usage"]["input_tokens"] > call["usage"]["output_tokens"] > 0
        assert call.get("cost_usd") is None
    # Every turn of a conversation begins like the one before, and the server need not read that again.
    assert all(call["usage"]["cached_input_tokens"] > 500 for call in calls[1:])
    executed = [event.data for event in result.events if event.kind == "tool_call" and event.data["executed"]]
    # The smallest model is held to the form alone: what it decides is as good as drawn.
    assert file.name == SMALLEST or any(call["arguments"].get("order_id") == "ORDER1002" for call in executed)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_engine_takes_the_grammar_and_keeps_to_it(
    file: LocalFile, make_request: Callable[..., ModelRequest], language: str
) -> None:
    format = ReactFormat(language)
    words = {"en": "Write a poem about the sea.", "zh": "写一首关于大海的诗。"}[language]
    messages = [{"role": "user", "content": words}]
    request = make_request(
        messages=messages, format=format, tool_schemas=[], constrained=True, max_output_tokens=200, seed=1
    )
    reply = ask(file, request)
    assert reply.text.startswith({"en": "Thought: ", "zh": "思考："}[language])
    if reply.finish_reason == "stop":
        assert not isinstance(format.read(reply, request.tools), Unreadable), reply.text


def test_the_engine_takes_a_schema_and_keeps_to_it(
    file: LocalFile, make_request: Callable[..., ModelRequest], probe_format: Any
) -> None:
    schema = {
        "type": "object",
        "properties": {"verdict": {"enum": ["passed", "failed"]}, "count": {"type": "integer", "maximum": 9}},
        "required": ["verdict", "count"],
        "additionalProperties": False,
    }
    format = probe_format(native_tools=False, json_schema=schema)
    messages = [{"role": "user", "content": "Tell me a joke."}]
    value = json.loads(
        ask(file, make_request(messages=messages, format=format, tool_schemas=[], constrained=True)).text
    )
    assert (value["verdict"] in ("passed", "failed"), type(value["count"])) == (True, int)


def test_the_same_seed_gives_the_same_reply(file: LocalFile, make_request: Callable[..., ModelRequest]) -> None:
    messages = [{"role": "user", "content": "Name an animal."}]
    request = make_request(messages=messages, tool_schemas=[], temperature=0.7, seed=3, max_output_tokens=12)
    assert ask(file, request).text == ask(file, request).text


def test_a_prompt_beyond_the_context_is_the_strategy_s_own_problem(
    file: LocalFile, make_request: Callable[..., ModelRequest]
) -> None:
    messages = [{"role": "user", "content": "order " * 12_000}]
    assert ask(file, make_request(messages=messages, tool_schemas=[])).problem == "context_too_long"


def test_the_server_is_started_once_for_all_of_them(file: LocalFile) -> None:
    assert server_for(file).is_running
    assert server_for(file) is server_for(file)
