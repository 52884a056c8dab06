"""Estimate tokens where no provider counts them. An estimate is always marked as one."""

from collections.abc import Sequence
from typing import NamedTuple

from agentlab.records import Message, Model, Reply, Usage

CJK_TOKENS_PER_CHAR = 0.8
OTHER_TOKENS_PER_CHAR = 0.25
_NEVER_REACHED = ("refused", "unknown_host", "proxy", "certificate")
"""How the error of a send begins that brought nothing to the server."""


class Estimate(NamedTuple):
    """What a call may have cost whose usage no server gave; it enforces limits and is never reported as usage."""

    tokens: int
    cost_usd: float


def estimate_call(model: Model, messages: Sequence[Message], reply: Reply) -> Estimate | None:
    """Return the estimate of a call without usage, at the model's price (0 dollars where it has none).

    None when the server counted the tokens, or when no send can have been billed: it was refused, or never arrived.
    """
    if reply.usage is not None and reply.usage.total_tokens is not None:
        return None
    if reply.sends and not any(_may_be_billed(send.status, send.error) for send in reply.sends):
        return None
    read = sum(estimate_tokens(str(message.get("content") or "")) for message in messages)
    written = estimate_tokens(reply.text)
    price = getattr(model, "price_usd", None)
    cost_usd = price(Usage(input_tokens=read, output_tokens=written)) if price is not None else None
    return Estimate(read + written, cost_usd or 0.0)


def estimate_tokens(text: str) -> int:
    """Return a rough token count: about 0.8 a CJK character, one for four characters of other text."""
    if text.isascii():
        return round(len(text) * OTHER_TOKENS_PER_CHAR)
    # A CJK character takes three bytes of UTF-8: counting bytes is much faster than looking at each character.
    wide = (len(text.encode("utf-8", "replace")) - len(text)) // 2
    return round(wide * CJK_TOKENS_PER_CHAR + (len(text) - wide) * OTHER_TOKENS_PER_CHAR)


def _may_be_billed(status: int | None, error: str | None) -> bool:
    if status is None:
        return not (error or "").startswith(_NEVER_REACHED)
    return status < 300
