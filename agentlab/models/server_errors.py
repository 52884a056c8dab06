"""What a server means by an error: its status, the code in its body and its words become one problem code.

Servers disagree on where the truth stands: a 200 may carry an error, a 429 may be an empty account, a 500 may be
a prompt that is too long. The codes below come from the documentation of the providers named beside them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentlab.records import JsonObject

EXCERPT_CHARS = 300
REPEATABLE_STATUSES = frozenset({408, 409, 425, 429})
QUOTA_CODES = frozenset({
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active",  # OpenAI
    "exceeded_current_quota_error",  # Moonshot
    "arrearage",  # Alibaba Cloud Model Studio
    "insufficient_user_quota",  # one-api and its relatives
    "payment_required", "insufficient_balance",
})  # fmt: skip
CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "data_inspection_failed"})
_CONTEXT_WORDS = re.compile(
    r"maximum context length|context (length|size|window)|context_length|prompt is too long|range of input length",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error as a server stated it."""

    problem: str
    """server_error, quota_exhausted, context_too_long, content_filtered, request_refused."""
    status: int
    """The status that counts: that of HTTP, or the one in the body when HTTP says 200."""
    message: str
    """The server's own words, or the beginning of its page, on one line."""
    code: str = ""
    """The error code or type, as sent."""
    parameter: str = ""
    """The request's parameter that the server names as the cause."""


def error_object(body: Any) -> JsonObject | None:
    """Return the error that a parsed body holds, as an object; None when the body is no error."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {**body, "message": error}
    if body.get("object") == "error":
        return body
    return None


def read_error(status: int, body: Any, text: str) -> ServerError:
    """Return what an error response means.

    Args:
        status: HTTP status, 200 included.
        body: the parsed body; None when it is not JSON.
        text: the body as text, for the words when it holds no message.
    """
    error = error_object(body) or (body if isinstance(body, dict) else {})
    codes = [str(error[key]) for key in ("code", "type", "status") if isinstance(error.get(key), str | int)]
    names = {code.lower() for code in codes}
    counting = status if status >= 300 else _status_in(error)
    message = _message(error) or text
    message = " ".join(message.split())
    named = next((code for code in codes if not code.isdigit()), "")
    return ServerError(
        problem=_problem(counting, names, message),
        status=counting,
        message=message if len(message) <= EXCERPT_CHARS else message[:EXCERPT_CHARS] + "…",
        code=named,
        parameter=error["param"] if isinstance(error.get("param"), str) else "",
    )


def _problem(status: int, names: set[str], message: str) -> str:
    if status == 402 or names & QUOTA_CODES:
        return "quota_exhausted"
    # A rate limit may speak of tokens and context too, and waiting helps there.
    if status == 413 or names & CONTEXT_CODES or (status != 429 and _CONTEXT_WORDS.search(message)):
        return "context_too_long"
    if names & FILTER_CODES:
        return "content_filtered"
    if status >= 500 or status in REPEATABLE_STATUSES:
        return "server_error"
    return "request_refused"


def _status_in(error: Mapping[str, Any]) -> int:
    """The status that an error inside a 200 states; 500 when it states none."""
    code = error.get("code")
    if isinstance(code, str) and code.isdecimal():
        code = int(code[:6])
    if isinstance(code, int) and 400 <= code <= 599:
        return code
    return 400 if error.get("type") == "invalid_request_error" else 500


def _message(error: Mapping[str, Any]) -> str:
    for key in ("message", "detail", "msg"):
        value = error.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list | dict) and value:
            return str(value)
    return ""
