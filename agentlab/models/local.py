"""A real small model on this machine: `local:NAME` from the cache, `local:/path/to/file.gguf` of the user's.

The file is served by llama.cpp's own OpenAI-compatible server in a process of its own (`local_server`), and asked by
the same client as any other endpoint. Computing on one's own machine has no price, so the cost is unknown (None).
"""

import asyncio
import dataclasses
from typing import Literal

from agentlab.errors import ConfigError, ModelUnavailable
from agentlab.models.constraints import constraint_of
from agentlab.models.endpoint import Endpoint
from agentlab.models.local_files import LocalFile, find_file
from agentlab.models.local_server import ENGINE_COMMAND, SLOTS, LocalServer, is_engine_installed, server_for
from agentlab.models.openai_compatible import OpenAICompatibleModel
from agentlab.models.retry import RetryPolicy
from agentlab.records import GrammarFormat, JsonObject, ModelRequest, Reply
from agentlab.workers import Worker

SEND_TIMEOUT_S = 900.0
"""For one send: a processor reads a long prompt at some tens of tokens a second."""
LONGEST_REPLY_TOKENS = 1024
"""Where the experiment sets no limit: a small model may never end by itself."""
_MAX_SENDS = 2


class LocalModel:
    """One file of weights. The server starts with the first request and is shared by all models of the same file.

    Args:
        file: what to serve.
        command: the server's process; tests pass their own.
    """

    kind: Literal["real", "local", "simulated", "scripted", "replay"] = "local"

    def __init__(self, file: LocalFile, command: tuple[str, ...] = ENGINE_COMMAND) -> None:
        self.name = f"local:{file.name}"
        self._file = file
        self._command = command
        self._server: LocalServer | None = None
        self._client: OpenAICompatibleModel | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(SLOTS)

    @property
    def capabilities(self) -> frozenset[str]:
        """What the model can do on this server."""
        return self._file.capabilities

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the reply; waiting for a free slot of the server is not part of its latency.

        Raises:
            ModelUnavailable: the server broke down; the next request starts another one.
            ConfigError: the server cannot be started, or the model is in use in another event loop.
        """
        client = await self._open()
        limit = request.max_output_tokens or LONGEST_REPLY_TOKENS
        request = dataclasses.replace(request, max_output_tokens=limit, timeout_s=SEND_TIMEOUT_S)
        async with self._slots:
            try:
                reply = await client.complete(request)
            except ModelUnavailable as error:
                raise self._unavailable(error) from error
        return dataclasses.replace(reply, cost_usd=None)

    async def close(self) -> None:
        """Close the connections. The server stays for the next model of this file, until the process ends."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _open(self) -> OpenAICompatibleModel:
        """The client of a running server."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._slots = loop, asyncio.Semaphore(SLOTS)
        server = self._server
        if server is None or not server.is_running:
            starter = Worker()
            try:
                server = await starter.run(lambda: server_for(self._file, self._command))
            finally:
                starter.stop()
        if self._client is None or server is not self._server:
            before, self._client, self._server = self._client, self._client_of(server), server
            if before is not None:
                await before.close()
        return self._client

    def _client_of(self, server: LocalServer) -> OpenAICompatibleModel:
        endpoint = Endpoint(server.base_url, server.api_key, url_setting="the server of this process")
        client = OpenAICompatibleModel(
            self._file.alias, endpoint, retry=RetryPolicy(max_sends=_MAX_SENDS), extra_body=self._extra_body
        )
        client.name = self.name
        return client

    def _extra_body(self, request: ModelRequest) -> JsonObject:
        """What binds the reply beyond what every endpoint understands."""
        if not request.constrained:
            return {}
        constraint = constraint_of(request.format, request.tools, self.capabilities)
        if constraint == "tool_choice":
            return {"tool_choice": "required", "parallel_tool_calls": False}
        if constraint == "grammar" and isinstance(request.format, GrammarFormat):
            return {"grammar": request.format.grammar(request.tools)}
        return {}

    def _unavailable(self, error: ModelUnavailable) -> ModelUnavailable:
        """The error with what is known of the server's end."""
        if self._server is None or self._server.is_running:
            return error
        told = ModelUnavailable(f"No answer from {self.name}: {self._server.why_ended()}.")
        told.sends = error.sends
        return told


def build(name: str) -> LocalModel:
    """Return the model for the part of a model name after `local:`: a known name, or the path of a GGUF file.

    Raises:
        ConfigError: an unknown name, a file that is not there (says how to get it), or no engine installed.
    """
    file = find_file(name.strip())
    if not is_engine_installed():
        raise ConfigError(
            f"local:{name} needs the engine that serves it: pip install 'agentlab-compare[local]' (xllamacpp)."
        )
    return LocalModel(file)
