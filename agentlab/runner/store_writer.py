"""All writes of an experiment: in order, in one thread, and in one transaction where several wait together."""

import asyncio
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentlab.errors import StoreError
from agentlab.store import Store
from agentlab.workers import Worker

T = TypeVar("T")
_Outcome = tuple[bool, Any]
"""(True, result) or (False, exception)."""


@dataclass(slots=True)
class _Batch:
    """Writes that wait for the same transaction: what each prepares, and what it changes with that."""

    writes: list[tuple[Callable[[], tuple[Any, ...]], Callable[..., Any]]] = field(default_factory=list)
    outcomes: "asyncio.Future[_Outcome] | None" = None
    """The outcome of the commit: (True, one outcome for each write), or what made it impossible."""


class StoreWriter:
    """Writes to a store from one thread of its own.

    A commit waits for the disk. While it does, further writes gather, and the next commit is for all of them. Each
    write still happens whole or not at all.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._worker = Worker()
        self._lock = threading.Lock()
        self._gathering: _Batch | None = None

    async def run(self, change: Callable[..., T], prepare: Callable[[], tuple[Any, ...]] = tuple) -> T:
        """Return what a change of the store returns, once it is committed; raise what it raised.

        The change is made even when the caller is cancelled: a Ctrl-C must not lose a run that is finished.

        Args:
            change: called in the transaction, with what `prepare` returned.
            prepare: work that needs no transaction, done in the same thread before it.
        """
        with self._lock:
            batch = self._gathering
            if batch is None:
                batch = self._gathering = _Batch()
                batch.outcomes = self._worker.submit(functools.partial(self._commit, batch))
            index = len(batch.writes)
            batch.writes.append((prepare, change))
        assert batch.outcomes is not None
        is_done, outcomes = await asyncio.shield(batch.outcomes)
        ok, value = outcomes[index] if is_done else (False, outcomes)
        if not ok:
            raise value
        result: T = value
        return result

    def stop(self) -> None:
        """End the thread after the writes that wait."""
        self._worker.stop()

    def join(self, timeout_s: float) -> None:
        """Wait until the waiting writes are done after `stop`."""
        self._worker.join(timeout_s)

    def _commit(self, batch: _Batch) -> list[_Outcome]:
        with self._lock:
            if self._gathering is batch:
                self._gathering = None
        prepared = [(_outcome(prepare), change) for prepare, change in batch.writes]
        try:
            with self._store.together():
                return [(True, change(*value)) if ok else (False, value) for (ok, value), change in prepared]
        except StoreError as error:
            return [(False, error)] * len(prepared)
        except Exception:
            # Nothing of the transaction is kept, so each is made alone: only those fail whose fault it was.
            return [
                _outcome(functools.partial(self._alone, change, value)) if ok else (False, value)
                for (ok, value), change in prepared
            ]

    def _alone(self, change: Callable[..., Any], value: tuple[Any, ...]) -> Any:
        with self._store.together():
            return change(*value)


def _outcome(work: Callable[[], Any]) -> _Outcome:
    try:
        return True, work()
    except Exception as error:
        return False, error
