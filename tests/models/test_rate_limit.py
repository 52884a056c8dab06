import asyncio
from collections.abc import Callable

import pytest

from agentlab.models.rate_limit import RateLimiter


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def a_limiter(**limits: float) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    return RateLimiter(**limits, clock=clock, sleep=clock.sleep), clock


def waits(limiter: RateLimiter, tokens: list[int]) -> list[float]:
    async def work() -> list[float]:
        return [round(await limiter.acquire(count), 6) for count in tokens]

    return asyncio.run(work())


def test_without_limits_nobody_waits() -> None:
    limiter, _ = a_limiter()
    assert waits(limiter, [10**6] * 5) == [0.0] * 5


def test_requests_are_spaced_after_the_burst() -> None:
    limiter, clock = a_limiter(requests_per_minute=30)
    assert waits(limiter, [1] * 6) == [0.0, 0.0, 0.0, 0.0, 2.0, 2.0]
    clock.now += 3600
    assert waits(limiter, [1] * 5) == [0.0, 0.0, 0.0, 0.0, 2.0]


def test_tokens_are_limited_and_corrected_by_what_was_used() -> None:
    limiter, _ = a_limiter(tokens_per_minute=6000)
    assert waits(limiter, [600, 600]) == [0.0, 0.0]
    assert waits(limiter, [600]) == [6.0]
    limiter.settle(600, 0)
    limiter.settle(600, None)
    assert waits(limiter, [600]) == [0.0]


def test_a_pause_holds_for_everybody() -> None:
    limiter, clock = a_limiter(requests_per_minute=600)
    limiter.pause(5)
    limiter.pause(2)
    assert waits(limiter, [1, 1]) == [5.0, 0.0]

    async def paused_while_waiting() -> float:
        waiting = RateLimiter(requests_per_minute=60, clock=clock, sleep=clock.sleep)
        for _ in range(7):
            await waiting.acquire(1)
        waiting.pause(9)
        return round(await waiting.acquire(1), 6)

    assert asyncio.run(paused_while_waiting()) == 9.0


@pytest.mark.parametrize("limit", [lambda: RateLimiter(requests_per_minute=600)])
def test_many_callers_in_real_time_keep_the_rate_and_their_order(limit: Callable[[], RateLimiter]) -> None:
    limiter = limit()
    order: list[int] = []

    async def call(number: int) -> None:
        await limiter.acquire(1)
        order.append(number)

    async def work() -> float:
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(call(number) for number in range(66)))
        return loop.time() - started

    assert 0.4 <= asyncio.run(work()) < 2.0
    assert order == sorted(order)
