"""Run a synchronous function under a time limit that really returns.

Python cannot stop a thread, so a function that hangs keeps its thread: the worker is abandoned and
replaced. Workers are daemon threads, because a pool's threads would keep the interpreter from exiting.
"""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any


class Workers:
    """Reused daemon threads of one run; one call at a time each, as many as run in parallel."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []

    async def call(self, function: Callable[[], Any], timeout_s: float) -> Any:
        """Return what `function` returns, or raise what it raised.

        Raises:
            TimeoutError: it did not return within `timeout_s`; it may still be running.
        """
        worker = self._idle.pop() if self._idle else Worker()
        future = worker.submit(function)
        async with asyncio.timeout(timeout_s):
            ok, value = await future
        # Reached only when the worker is free again: a hung or cancelled one is never reused.
        self._idle.append(worker)
        if ok:
            return value
        raise value

    def close(self) -> None:
        """End the idle threads; hung ones end with the process."""
        for worker in self._idle:
            worker.stop()
        self._idle.clear()


class Worker:
    """One daemon thread that runs its jobs in the order of their submission."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="agentlab-worker", daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], Any]) -> Any:
        """Return what `function` returns after the jobs before it, or raise what it raised."""
        ok, value = await self.submit(function)
        if ok:
            return value
        raise value

    def submit(self, function: Callable[[], Any]) -> "asyncio.Future[tuple[bool, Any]]":
        """Queue a job; the future gives (True, result) or (False, exception)."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[bool, Any]] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(outcome: tuple[bool, Any]) -> None:
            if not future.done():
                future.set_result(outcome)

        def job() -> None:
            try:
                outcome = (True, context.run(function))
            except BaseException as error:
                # KeyboardInterrupt and SystemExit too: the caller decides, this thread must live on.
                outcome = (False, error)
            with contextlib.suppress(RuntimeError):  # the loop of an abandoned call may be closed by now
                loop.call_soon_threadsafe(deliver, outcome)

        self._jobs.put(job)
        return future

    def stop(self) -> None:
        """End the thread after the jobs that are queued."""
        self._jobs.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait until the queued jobs are done after `stop`."""
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
