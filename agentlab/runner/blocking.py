"""The synchronous edge: run a coroutine to its end, also where an event loop is already running."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns; works in scripts, in notebook cells and inside `asyncio.run`.

    Ctrl-C cancels the work, waits until it has tidied up, and arrives here as KeyboardInterrupt.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _in_own_thread(work)


def _in_own_thread(work: Coroutine[Any, Any, T]) -> T:
    outcome: dict[str, Any] = {}
    started = threading.Event()

    async def main() -> None:
        outcome["loop"], outcome["task"] = asyncio.get_running_loop(), asyncio.current_task()
        started.set()
        outcome["value"] = await work

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=run, name="agentlab-loop", daemon=True)
    thread.start()
    started.wait()
    try:
        thread.join()
    except KeyboardInterrupt:
        outcome["loop"].call_soon_threadsafe(outcome["task"].cancel)
        thread.join()
        raise
    if "error" in outcome:
        raise outcome["error"]
    value: T = outcome["value"]
    return value
