import asyncio
import itertools
from collections.abc import Callable

import pytest

from agentlab.errors import ModelUnavailable
from agentlab.models.endpoint import Endpoint
from agentlab.models.failures import TRANSPORT_WORDS, failure_message, transport_kind
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
