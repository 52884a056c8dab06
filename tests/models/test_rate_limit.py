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


class SharedClock(Clock):
    """Time of many callers: when all of them sleep, it goes on to the first that wakes."""

    def __init__(self) -> None:
        super().__init__()
        self.due: list[float] = []

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        self.due.append(until)
        while self.now < until:
            await asyncio.sleep(0)
        self.due.remove(until)

    async def run_until(self, end: float) -> None:
        while True:
            for _ in range(5):
                await asyncio.sleep(0)
            if not self.due or min(self.due) > end:
                self.now = max(self.now, end)
                return
            self.now = min(self.due)


@pytest.mark.parametrize("limits", [{"requests_per_minute": 60.0}, {"tokens_per_minute": 600.0}])
def test_after_a_pause_waiting_callers_keep_the_rate_and_their_order(limits: dict[str, float]) -> None:
    clock = SharedClock()
    limiter = RateLimiter(**limits, clock=clock, sleep=clock.sleep)
    sent: list[tuple[float, int]] = []

    async def call(number: int) -> None:
        asked = clock.now
        assert await limiter.acquire(10) == clock.now - asked
        sent.append((round(clock.now - 100.0, 6), number))

    async def work() -> None:
        callers = [asyncio.create_task(call(number)) for number in range(30)]
        await clock.run_until(102.5)
        limiter.pause(30)
        await clock.run_until(107.5)
        limiter.pause(30)
        limiter.pause(1)
        callers.append(asyncio.create_task(call(30)))
        await clock.run_until(1000.0)
        await asyncio.gather(*callers)

    asyncio.run(work())
    assert [at for at, _ in sent] == [0.0] * 7 + [1.0, 2.0] + [38.0 + n for n in range(22)]
    assert [number for _, number in sent] == list(range(31))


def test_who_does_not_wait_has_waited_exactly_nothing_after_a_pause_too() -> None:
    clock = SharedClock()
    limiter = RateLimiter(requests_per_minute=60, clock=clock, sleep=clock.sleep)

    async def work() -> list[float]:
        callers = [asyncio.create_task(limiter.acquire(1)) for _ in range(9)]
        await clock.run_until(100.1)
        limiter.pause(0.3)
        await clock.run_until(110.7)
        await asyncio.gather(*callers)
        return [await limiter.acquire(1) for _ in range(3)]

    assert asyncio.run(work()) == [0.0] * 3
