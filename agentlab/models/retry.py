"""Decide whether a request is sent again, and how long to wait first. Pure: no clock, no sleep, no network."""

import datetime
import email.utils
import math
from collections.abc import Mapping
from dataclasses import dataclass

LONGEST_WAIT_S = 120.0
_SENDS_FOR_NO_CHOICES = 2


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how slowly a failed request is repeated."""

    max_sends: int = 5
    """Sends of one request at most, the first included."""
    base_s: float = 1.0
    """First back-off; it doubles with every send."""
    cap_s: float = 30.0
    """Longest back-off of our own."""

    def wait_s(
        self, problem: str | None, sends: int, headers: Mapping[str, str], now: datetime.datetime, draw: float
    ) -> float | None:
        """Return the seconds to wait before the next send; None when the request is not sent again.

        Args:
            problem: what the last send brought; see `is_repeatable`.
            sends: sends so far, the last one included.
            headers: those of the last response, with lower-case names; a server's `Retry-After` wins.
            now: the time, with a zone.
            draw: a number from 0 to 1 that spreads the waits of parallel runs.
        """
        if sends >= self.max_sends or not is_repeatable(problem, sends):
            return None
        asked = retry_after_s(headers, now)
        return self.backoff_s(sends, draw) if asked is None else asked

    def backoff_s(self, sends: int, draw: float) -> float:
        """Return our own wait: doubled after every send up to the cap, of which half is drawn.

        Source: "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015), the variant "equal jitter".
        """
        full = min(self.cap_s, self.base_s * 2.0 ** (sends - 1))
        return full / 2 * (1 + draw)


def is_repeatable(problem: str | None, sends: int) -> bool:
    """Return whether the same request could succeed when it is sent again.

    `transport` and `server_error` (429, 5xx, 408, an error inside a 200) could. `no_choices` gets one repeat: it is
    a gateway's hiccup or a filter. Quota, refusals, filters, too long a context and the model's own faults do not.
    """
    if problem == "no_choices":
        return sends < _SENDS_FOR_NO_CHOICES
    return problem in ("transport", "server_error")


def retry_after_s(headers: Mapping[str, str], now: datetime.datetime) -> float | None:
    """Return the wait that a response asks for, at most `LONGEST_WAIT_S`; None when it asks for none that can be read.

    Read are `retry-after-ms` and both forms of `retry-after`: seconds and an HTTP date (RFC 9110, section 10.2.3).
    """
    wait = _number(headers.get("retry-after-ms"))
    if wait is not None:
        wait /= 1000
    else:
        text = headers.get("retry-after")
        wait = _number(text)
        if wait is None and text is not None:
            wait = _seconds_until(text, now)
    if wait is None or wait <= 0:
        return None
    return min(wait, LONGEST_WAIT_S)


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds_until(text: str, now: datetime.datetime) -> float | None:
    try:
        then = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    return (then - now).total_seconds()
