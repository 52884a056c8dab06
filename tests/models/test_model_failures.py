import asyncio
import itertools
from collections.abc import Callable

import pytest

from agentlab.errors import ModelUnavailable
from agentlab.models.endpoint import Endpoint
from agentlab.models.failures import TRANSPORT_WORDS, failure_kind, failure_message, refuses_tools, transport_kind
from agentlab.models.openai_compatible import OpenAICompatibleModel
from agentlab.models.retry import RetryPolicy
from agentlab.records import ModelRequest

ENDPOINT = Endpoint(
    "https://user:failure-pass@llm.example.com/v1", "sk-failure-key", "OPENAI_BASE_URL", "OPENAI_API_KEY"
)


def chained(*errors: BaseException) -> BaseException:
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError(), "timed_out"),
        (chained(TimeoutError("read"), ConnectionResetError()), "connection_lost"),
        (chained(RuntimeError(), TimeoutError(), OSError(), ConnectionRefusedError()), "refused"),
        (OSError("network is unreachable"), "connection_failed"),
        (RuntimeError("something else"), "connection_failed"),
    ],
)
def test_the_chain_of_causes_tells_what_happened(error: BaseException, kind: str) -> None:
    assert transport_kind(error) == kind
    assert kind in TRANSPORT_WORDS


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = RuntimeError(), ConnectionRefusedError()
    first.__cause__, second.__cause__ = second, first
    assert transport_kind(first) == "refused"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_speaks_something_else(scheme: str, make_request: Callable[..., ModelRequest]) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"220 mail.example.com ready\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            endpoint = Endpoint(f"{scheme}://127.0.0.1:{port}/v1", "sk-failure-key", "LLM_BASE_URL")
            model = OpenAICompatibleModel("m", endpoint, retry=RetryPolicy(max_sends=1))
            try:
                await model.complete(make_request())
            finally:
                await model.close()

    words = TRANSPORT_WORDS["not_http" if scheme == "http" else "certificate"]
    with pytest.raises(ModelUnavailable, match=f"{words}.*LLM_BASE_URL"):
        asyncio.run(main())


def test_a_message_holds_no_secret_and_names_the_setting() -> None:
    OpenAICompatibleModel("m", ENDPOINT)  # a model makes its key a secret
    message = failure_message("openai:m", ENDPOINT, 1, 401, "request_refused", "HTTP 401: bad key sk-failure-key")
    assert message == (
        "No answer from openai:m after 1 send to https://user:***@llm.example.com/v1/chat/completions "
        "(from OPENAI_BASE_URL): HTTP 401: bad key ***. Check the key in OPENAI_API_KEY."
    )


def test_the_default_address_is_corrected_by_the_first_variable() -> None:
    endpoint = Endpoint("https://api.openai.com/v1", "sk-failure-key")
    message = failure_message("openai:m", endpoint, 5, None, "unknown_host", "")
    assert "5 sends to https://api.openai.com/v1/chat/completions (from the default address)" in message
    assert "Correct LLM_BASE_URL" in message


@pytest.mark.parametrize("kind", ["refused", "unknown_host", "timed_out"])
def test_what_the_transport_says_is_said_once(kind: str) -> None:
    words = TRANSPORT_WORDS[kind] + (" (60 s)" if kind == "timed_out" else "")
    message = failure_message("openai:m", ENDPOINT, 5, None, kind, words)
    assert message.count(TRANSPORT_WORDS[kind]) == 1
    assert f": {words}. " in message


def test_one_try_is_not_told_about_experiments() -> None:
    for status, kind in ((429, "quota_exhausted"), (503, "server_error"), (None, "timed_out")):
        assert "experiment" not in failure_message("openai:m", ENDPOINT, 1, status, kind, "words")


@pytest.mark.parametrize(
    "words",
    [
        "HTTP 400: tools is not supported by this model",
        "HTTP 400: registry.ollama.ai/library/gemma:2b does not support tools",
        'HTTP 400: "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "HTTP 404: No endpoints found that support tool use.",
        "HTTP 400: Unsupported parameter: 'tools'",
        "HTTP 400: This model doesn't support function calling",
    ],
)
def test_words_that_refuse_tools(words: str) -> None:
    assert refuses_tools(words)
    assert failure_kind(404, "request_refused", words) == ""
    assert "Use the strategy react" in failure_message("openai:m", ENDPOINT, 1, 404, "request_refused", words)


@pytest.mark.parametrize("words", ["temperature is not supported", "The tool result is too long", "no such model"])
def test_words_that_do_not(words: str) -> None:
    assert not refuses_tools(words)
