"""The model behind any chat-completions server, through the openai package's transport.

The package gives authentication, addresses and connections; the body is encoded here and the reply is read from
its bytes, because its own typed path costs several milliseconds a call and refuses what real servers send. One retry
loop of ours replaces the package's, which repeats an exhausted quota and cannot repeat an error inside a 200.

Settings from the environment: see `agentlab.models.endpoint`, and `LLM_REPLAY_REASONING`: 1 sends the reasoning of
earlier replies back in the history (as `reasoning_content`), 0 (default) leaves it out. Servers differ: some refuse a
request with it, some one without it.
"""

import asyncio
import datetime
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import aiohttp
import httpx2
import openai
import pydantic_core

from agentlab import secrets
from agentlab.errors import ConfigError, ModelUnavailable, QuotaExhausted
from agentlab.json_values import to_json_value
from agentlab.models.endpoint import NO_KEY, Endpoint, endpoint_from_environment, model_from_environment
from agentlab.models.failures import (
    NO_TOOLS_ADVICE,
    TRANSPORT_WORDS,
    failure_kind,
    failure_message,
    refuses_tools,
    transport_kind,
)
from agentlab.models.prices import price_usd
from agentlab.models.rate_limit import RateLimiter
from agentlab.models.replies import REASONING_KEY, read_response
from agentlab.models.retry import LONGEST_WAIT_S, RetryPolicy, retry_after_s
from agentlab.records import JsonObject, Message, ModelRequest, Reply, Send, Usage

ASSUMED_OUTPUT_TOKENS = 300
REASONING_VARIABLE = "LLM_REPLAY_REASONING"
_TRANSPORT_ERRORS = (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError, OSError)
_UNAVAILABLE_STATUSES = frozenset({401, 403, 404, 405, 407})
_NOT_A_SCHEMA_NAME = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one send brought."""

    reply: Reply
    latency_s: float
    status: int | None = None
    headers: Mapping[str, str] | None = None
    transport: str = ""

    @property
    def error(self) -> str | None:
        return f"{self.transport or self.reply.problem}: {self.reply.detail}" if self.reply.problem else None


class OpenAICompatibleModel:
    """One model of one chat-completions server; safe to share between all runs of an event loop.

    It may be created outside a loop: the connections are opened by the first `complete` and belong to that loop until
    `close`, after which another loop may use it.

    Args:
        model: the model's name as the server knows it.
        endpoint: address and key.
        replay_reasoning: send the reasoning of earlier replies back in the history.
        retry: how often and how slowly failed sends are repeated.
        extra_body: returns fields that the body of a request gets besides; they win over the usual ones.
        sleep: waits between sends; tests pass their own.
    """

    kind: Literal["real", "local", "simulated", "scripted", "replay"] = "real"

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        replay_reasoning: bool = False,
        retry: RetryPolicy | None = None,
        extra_body: Callable[[ModelRequest], JsonObject] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if endpoint.api_key != NO_KEY:
            secrets.remember(endpoint.api_key)
        self.name = f"openai:{model}"
        self.endpoint = endpoint
        self._model = model
        self._address = f"{endpoint.base_url}/chat/completions"
        self._replay_reasoning = replay_reasoning
        self._retry = retry or RetryPolicy()
        self._extra_body = extra_body
        self._sleep = sleep
        self._limit_field = "max_tokens"
        self.limiter = RateLimiter()
        """Without limits until an experiment puts its own here; a `Retry-After` pauses all runs of this model."""
        self._client: openai.AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        """What the protocol offers; whether a server honours it shows in its replies."""
        return frozenset({"tools", "json_schema", "stop", "seed"})

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the reply, with every send it took.

        A request that the server refuses for what it says (too long, filtered, invalid) comes back as a reply with
        its problem.

        Raises:
            ModelUnavailable: no usable reply after all sends, or a wrong key or address; `sends` holds what was sent.
            QuotaExhausted: the account has no quota left.
            ConfigError: the model is in use in another event loop.
        """
        client = self._open()
        limit_field, payload = self._limit_field, self._payload(request)
        taken_ids = _call_ids(request.messages)
        sends: list[Send] = []
        wait_s = 0.0
        while True:
            tokens = _estimated_tokens(payload, request)
            wait_s += await self.limiter.acquire(tokens)
            outcome = await self._send(client, payload, request, taken_ids)
            now = datetime.datetime.now(datetime.UTC)
            self._tell_limiter(outcome, tokens, now)
            sends.append(Send(outcome.status, outcome.latency_s, wait_s, outcome.error, outcome.reply.usage))
            if limit_field == "max_tokens" and _wants_newer_limit_field(outcome):
                limit_field = self._limit_field = "max_completion_tokens"
                payload, wait_s = self._payload(request), 0.0
                continue
            next_wait_s = self._retry.wait_s(
                "transport" if outcome.transport else outcome.reply.problem,
                len(sends),
                outcome.headers or {},
                now,
                random.random(),
            )
            if next_wait_s is None:
                return self._settle(outcome, tuple(sends))
            wait_s = next_wait_s
            await self._sleep(wait_s)

    def price_usd(self, usage: Usage) -> float | None:
        """Return the price of so many tokens in US dollars; None when the model has no price."""
        return price_usd(self._model, usage, base_url=self.endpoint.base_url)

    async def close(self) -> None:
        """Close the connections; a later `complete` opens new ones."""
        client, self._client, self._loop = self._client, None, None
        if client is not None:
            await client.close()

    def _open(self) -> openai.AsyncOpenAI:
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                raise ConfigError(f"{self.name} is open in another event loop: close it there, or build another one.")
            self._client = None
        if self._client is None:
            self._loop = loop
            self._client = openai.AsyncOpenAI(
                api_key=self.endpoint.api_key,
                base_url=self.endpoint.base_url,
                max_retries=0,
                # The limit is on the whole send; the package's own is per read, and a slow drip never reaches it.
                timeout=None,
                http_client=openai.DefaultAioHttpClient(trust_env=not self.endpoint.is_loopback),
            )
        return self._client

    async def _send(
        self, client: openai.AsyncOpenAI, payload: bytes, request: ModelRequest, taken_ids: frozenset[str]
    ) -> _Outcome:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(request.timeout_s):
                response = await client.post(
                    # The whole address: the package would join and parse its parts anew for every request.
                    self._address,
                    cast_to=httpx2.Response,
                    content=payload,
                    options={"follow_redirects": False},
                )
        except openai.APIStatusError as error:
            response = error.response
        except _TRANSPORT_ERRORS as error:
            latency_s = time.perf_counter() - started
            kind = transport_kind(error)
            words = TRANSPORT_WORDS[kind]
            if kind == "timed_out":
                words += f" ({request.timeout_s:g} s)"
            return _Outcome(Reply(problem="server_error", detail=words), latency_s, transport=kind)
        latency_s = time.perf_counter() - started
        # Some servers echo the request with its key: it is taken out before anything is read.
        data = secrets.scrub(response.content.decode("utf-8", errors="replace")).encode()
        reply = read_response(
            response.status_code,
            response.headers,
            data,
            request.tools,
            native_tools=request.format.native_tools,
            taken_ids=taken_ids,
        )
        if 300 <= response.status_code < 400:
            target = response.headers.get("location", "nowhere")
            reply = replace(reply, detail=f"{reply.detail} (redirected to {secrets.without_password(target)})")
        if reply.detail:
            reply = replace(reply, detail=secrets.scrub(reply.detail))
        return _Outcome(reply, latency_s, response.status_code, response.headers)

    def _tell_limiter(self, outcome: _Outcome, estimated_tokens: int, now: datetime.datetime) -> None:
        usage = outcome.reply.usage
        self.limiter.settle(estimated_tokens, usage.total_tokens if usage is not None else None)
        if outcome.reply.problem is None:
            return
        asked_s = retry_after_s(outcome.headers or {}, now)
        if asked_s is not None:
            self.limiter.pause(min(asked_s, LONGEST_WAIT_S))

    def _settle(self, outcome: _Outcome, sends: tuple[Send, ...]) -> Reply:
        reply = outcome.reply
        status = outcome.status
        is_refused = reply.problem == "request_refused"
        if is_refused and status is not None and (status in _UNAVAILABLE_STATUSES or 300 <= status < 400):
            raise self._unavailable(outcome, sends)
        if reply.problem in ("server_error", "quota_exhausted"):
            raise self._unavailable(outcome, sends)
        if is_refused and refuses_tools(reply.detail):
            reply = replace(reply, detail=f"{reply.detail.rstrip('.')}. {NO_TOOLS_ADVICE}")
        elif is_refused and "reasoning" in reply.detail:
            setting, does = ("1", "sends") if self._replay_reasoning else ("0", "leaves out")
            hint = f" ({REASONING_VARIABLE}={setting} {does} the reasoning of earlier replies; try the other setting.)"
            reply = replace(reply, detail=reply.detail + hint)
        latency_s = sum(send.latency_s for send in sends)
        return replace(reply, sends=sends, latency_s=latency_s, cost_usd=self._cost_usd(reply, sends))

    def _unavailable(self, outcome: _Outcome, sends: tuple[Send, ...]) -> ModelUnavailable:
        reply = outcome.reply
        message = failure_message(
            self.name,
            self.endpoint,
            len(sends),
            outcome.status,
            outcome.transport or reply.problem or "",
            reply.detail,
        )
        error = QuotaExhausted(message) if reply.problem == "quota_exhausted" else ModelUnavailable(message)
        error.sends = sends
        error.kind = failure_kind(outcome.status, outcome.transport or reply.problem or "", reply.detail)
        return error

    def _cost_usd(self, reply: Reply, sends: tuple[Send, ...]) -> float | None:
        """Price of all sends whose usage came; None when that of the reply itself is unknown."""
        if reply.usage is None:
            return None
        costs = [self._price(send, reply.model) for send in sends if send.usage is not None]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    def _price(self, send: Send, returned_model: str | None) -> float | None:
        cost = price_usd(self._model, send.usage, base_url=self.endpoint.base_url)
        if cost is None and returned_model and returned_model != self._model:
            cost = price_usd(returned_model, send.usage, base_url=self.endpoint.base_url)
        return cost

    def _payload(self, request: ModelRequest) -> bytes:
        """The request as UTF-8 JSON; what JSON cannot carry is replaced as `agentlab.json_values` documents."""
        body = self._body(request)
        if self._extra_body is not None:
            body |= self._extra_body(request)
        try:
            # Several times as fast as the standard library; what it refuses is brought to JSON values first.
            return pydantic_core.to_json(body, inf_nan_mode="strings")
        except ValueError:
            return pydantic_core.to_json(to_json_value(body))

    def _body(self, request: ModelRequest) -> JsonObject:
        messages = request.messages
        if not self._replay_reasoning:
            messages = [_without_reasoning(message) for message in messages]
        body: JsonObject = {"model": self._model, "messages": messages, "temperature": request.temperature}
        if request.max_output_tokens is not None:
            body[self._limit_field] = request.max_output_tokens
        if request.seed is not None:
            body["seed"] = request.seed
        if request.format.stop:
            body["stop"] = list(request.format.stop)
        if request.tool_schemas:
            body["tools"] = request.tool_schemas
            body["tool_choice"] = "auto"
        schema = request.format.schema(request.tools) if request.constrained else None
        if schema is not None:
            name = _NOT_A_SCHEMA_NAME.sub("_", request.format.name)[:64]
            form = {"name": name, "schema": schema, "strict": is_strict_schema(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return body


def build(name: str = "") -> OpenAICompatibleModel:
    """Return the model for the part of a model name after `openai:`; an empty name takes that of the environment.

    Raises:
        ConfigError: no key, an address that is none, or an unreadable setting.
    """
    setting = os.environ.get(REASONING_VARIABLE, "").strip()
    if setting not in ("", "0", "1"):
        raise ConfigError(
            f"{REASONING_VARIABLE}={setting!r}: valid are 1 (send earlier reasoning) and 0 (leave it out)."
        )
    endpoint = endpoint_from_environment()
    return OpenAICompatibleModel(name.strip() or model_from_environment(), endpoint, replay_reasoning=setting == "1")


def is_strict_schema(schema: Any) -> bool:
    """Return whether every object of a JSON schema is closed and requires all its properties.

    Servers that enforce schemas strictly refuse any other (OpenAI's documentation of structured outputs).
    """
    if isinstance(schema, list):
        return all(is_strict_schema(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        names = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False or names != set(schema.get("required", ())):
            return False
    return all(is_strict_schema(item) for item in schema.values())


def _wants_newer_limit_field(outcome: _Outcome) -> bool:
    """Whether the server has refused `max_tokens` and named its successor, as those of reasoning models do."""
    return outcome.status == 400 and "max_completion_tokens" in outcome.reply.detail


def _estimated_tokens(payload: bytes, request: ModelRequest) -> int:
    """Tokens to reserve for a request; corrected when the server has counted."""
    return len(payload) // 4 + (request.max_output_tokens or ASSUMED_OUTPUT_TOKENS)


def _without_reasoning(message: Message) -> Message:
    if REASONING_KEY not in message:
        return message
    return {key: value for key, value in message.items() if key != REASONING_KEY}


def _call_ids(messages: list[Message]) -> frozenset[str]:
    return frozenset(call["id"] for message in messages for call in message.get("tool_calls") or ())
