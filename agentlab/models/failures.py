"""Say why no answer came from a model server, and what to do about it, in words for the person who runs it."""

import re
import socket
import ssl
from collections.abc import Iterator

import aiohttp

from agentlab import secrets
from agentlab.models.endpoint import Endpoint

TRANSPORT_WORDS = {
    "refused": "nothing is listening at that address",
    "unknown_host": "the host name is unknown",
    "proxy": "the proxy could not be reached",
    "certificate": "the server's certificate or TLS was not accepted",
    "timed_out": "the reply was not complete in time",
    "connection_lost": "the connection was lost before the reply was complete",
    "not_http": "what came back is not an HTTP response",
    "connection_failed": "the connection failed",
}

_TOOLS = r"(\btools?\b|tool[_ ]choice|function[_ ]call\w*)"
_NO_TOOLS = re.compile(
    rf"{_TOOLS}.{{0,80}}(not (be )?support|unsupported|n't support|tool-call-parser)"
    rf"|(not support|n't support|unsupported|no endpoints found that support).{{0,80}}{_TOOLS}",
    re.IGNORECASE,
)
NO_TOOLS_ADVICE = "Use the strategy react, which needs no tools of the server, or a model that takes tools."


def refuses_tools(words: str) -> bool:
    """Return whether a server's words say that it, or the model, takes no tools in requests."""
    return _NO_TOOLS.search(words) is not None


def failure_kind(status: int | None, kind: str, words: str) -> str:
    """Return the `ModelUnavailable.kind` of a failure; the arguments are those of `failure_message`."""
    if status is None or kind == "quota_exhausted":
        return kind
    if refuses_tools(words):
        return ""
    if status in (401, 403, 407):
        return "wrong_key"
    return "not_found" if status in (404, 405) or 300 <= status < 400 else ""


def transport_kind(error: BaseException) -> str:
    """Return why a send brought no response: a key of `TRANSPORT_WORDS`.

    The openai package reports a refused port and an unknown host as time-outs over the aiohttp transport; the chain
    of causes tells them apart.
    """
    kinds = [kind for cause in _causes(error) if (kind := _kind(cause))]
    # A proxy that refuses is a proxy's failure, and a wrapping time-out says less than what it wraps.
    specific = [kind for kind in kinds if kind not in ("timed_out", "connection_failed")]
    return "proxy" if "proxy" in kinds else next(iter(specific or kinds), "connection_failed")


def failure_message(model: str, endpoint: Endpoint, sends: int, status: int | None, kind: str, words: str) -> str:
    """Return the message for the person: what happened, the address tried, its setting, and what to do.

    Args:
        model: name of the model.
        endpoint: where the request went.
        sends: how often it was sent.
        status: HTTP status; None when no response came.
        kind: a key of `TRANSPORT_WORDS` when no response came, else the reply's problem.
        words: what the server or the transport said.
    """
    times = "1 send" if sends == 1 else f"{sends} sends"
    what = TRANSPORT_WORDS.get(kind, "") if status is None else ""
    said = words if what in words else "; ".join(filter(None, [what, words]))
    proxy = endpoint.proxy()
    through = (
        f" The request went through the proxy {proxy} from the environment; "
        f"NO_PROXY={endpoint.host} leaves this host out."
        if proxy and (kind in ("proxy", "connection_lost", "timed_out") or status in (403, 407, 502, 503, 504))
        else ""
    )
    message = (
        f"No answer from {model} after {times} to {endpoint.request_url} (from {endpoint.url_setting}): "
        f"{said.rstrip('.')}.{through} {_advice(model, endpoint, status, kind, words)}"
    )
    return secrets.scrub(message.strip())


def _advice(model: str, endpoint: Endpoint, status: int | None, kind: str, words: str) -> str:
    address = "LLM_BASE_URL" if endpoint.url_setting.startswith("the default") else endpoint.url_setting
    if kind == "quota_exhausted":
        return "Add credit to the account or use another key."
    if status is not None and refuses_tools(words):
        return NO_TOOLS_ADVICE
    if status in (401, 407):
        return f"Check the key in {endpoint.key_setting}."
    if status == 403:
        return f"The key in {endpoint.key_setting} may not use this model or address."
    if status in (404, 405) or (status is not None and 300 <= status < 400):
        return f"Check the address in {address} and the model name {model.partition(':')[2]!r}."
    if kind == "refused":
        return f"Start the server, or correct {address}."
    if kind in ("unknown_host", "not_http", "certificate"):
        return f"Correct {address}, or check the network."
    return "Try again when the server answers."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _kind(error: BaseException) -> str | None:
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return "proxy"
    if isinstance(error, socket.gaierror | aiohttp.ClientConnectorDNSError):
        return "unknown_host"
    if isinstance(error, ssl.SSLError | aiohttp.ClientSSLError):
        return "certificate"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "connection_lost"
    if isinstance(error, aiohttp.ClientResponseError):
        return "not_http"
    if isinstance(error, TimeoutError):
        return "timed_out"
    return "connection_failed" if isinstance(error, OSError | aiohttp.ClientError) else None
