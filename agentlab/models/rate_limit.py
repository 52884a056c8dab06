"""One bucket for all requests of a process: so many a minute, paused for everybody when the server says so."""

import asyncio
import time
from collections.abc import Awaitable, Callable

BURST_S = 6.0
"""How many seconds' worth of allowance may be used at once after a quiet time."""


class RateLimiter:
    """Spaces requests and tokens out (generic cell rate algorithm: one time stamp per limit, no queue of its own).

    Reservations are made without an await between look and booking, so callers are served in their order.

    Args:
        requests_per_minute: None is unlimited.
        tokens_per_minute: input and output tokens together; None is unlimited.
        clock: monotonic seconds.
        sleep: waits; tests pass their own.
    """

    def __init__(
        self,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._request_s = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._token_s = 60.0 / tokens_per_minute if tokens_per_minute else 0.0
        self._clock = clock
        self._sleep = sleep
        self._requests_until = self._tokens_until = self._paused_until = self._last_start = float("-inf")
        self._shift_s = 0.0
        """By how much pauses have moved the bookings that were waiting, all of them together."""

    async def acquire(self, tokens: int) -> float:
        """Wait until a request of about so many tokens may be sent; return the seconds waited."""
        asked = self._clock()
        start = max(asked, self._paused_until, self._requests_until - BURST_S, self._tokens_until - BURST_S)
        self._requests_until = max(self._requests_until, start) + self._request_s
        self._tokens_until = max(self._tokens_until, start) + tokens * self._token_s
        self._last_start = max(self._last_start, start)
        booked_s = self._shift_s
        waited_s = 0.0
        while (wait_s := max(start + (self._shift_s - booked_s), self._paused_until) - self._clock()) > 0:
            await self._sleep(wait_s)
            waited_s = self._clock() - asked
        return waited_s

    def settle(self, estimated_tokens: int, used_tokens: int | None) -> None:
        """Correct a reservation once the server has said what the request used."""
        if used_tokens is not None:
            self._tokens_until += (used_tokens - estimated_tokens) * self._token_s

    def pause(self, seconds: float) -> None:
        """Let nobody send for so many seconds; waiting callers wait longer, each as far behind the other as before."""
        now = self._clock()
        longer_s = now + seconds - max(now, self._paused_until)
        if longer_s <= 0:
            return
        self._paused_until = now + seconds
        if self._last_start <= now:
            # Nobody waits, so there is nothing to move; the pause is a quiet time like any other.
            return
        self._shift_s += longer_s
        self._last_start += longer_s
        self._requests_until += longer_s
        self._tokens_until += longer_s
