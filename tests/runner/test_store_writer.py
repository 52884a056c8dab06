import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.errors import StoreError
from agentlab.runner.store_writer import StoreWriter
from agentlab.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path, create=True)
    made.plan({"run_id": f"r{n}", "experiment": "e", "planned_order": n} for n in range(20))
    yield made
    made.close()


@pytest.fixture
def writer(store: Store) -> Iterator[StoreWriter]:
    made = StoreWriter(store)
    yield made
    made.stop()
    made.join(10)


def count_commits(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of writes in each transaction, as they happen."""
    writes: list[int] = []
    together = store.together

    def counted() -> Any:
        writes.append(0)
        return together()

    monkeypatch.setattr(store, "together", counted)
    return writes


def test_writes_that_wait_for_the_thread_share_a_transaction(
    store: Store, writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = count_commits(store, monkeypatch)
    is_busy = threading.Event()

    async def main() -> list[int | None]:
        first = asyncio.ensure_future(writer.run(is_busy.wait))
        await asyncio.sleep(0.05)  # the thread is in the first commit now
        rest = [asyncio.ensure_future(writer.run(lambda n=n: store.claim(f"r{n}"))) for n in range(20)]
        await asyncio.sleep(0)
        is_busy.set()
        await first
        return await asyncio.gather(*rest)

    assert asyncio.run(main()) == [0] * 20
    assert len(commits) == 2
    assert store.counts()["running"] == 20


def test_only_the_write_fails_whose_fault_it_was(store: Store, writer: StoreWriter) -> None:
    is_busy = threading.Event()

    def wrong() -> None:
        store.claim("r1")
        raise ValueError("not this one")

    async def main() -> list[Any]:
        first = asyncio.ensure_future(writer.run(is_busy.wait))
        changes = [lambda: store.claim("r0"), wrong, lambda: store.claim("r2")]
        rest = [asyncio.ensure_future(writer.run(change)) for change in changes]
        await asyncio.sleep(0)
        is_busy.set()
        await first
        return await asyncio.gather(*rest, return_exceptions=True)

    first, second, third = asyncio.run(main())
    assert (first, third) == (0, 0)
    assert isinstance(second, ValueError)
    states = {row["run_id"]: row["state"] for row in store.read("runs")}
    assert [states[name] for name in ("r0", "r1", "r2")] == ["running", "planned", "running"]


def test_what_prepares_a_write_may_fail_alone(store: Store, writer: StoreWriter) -> None:
    def prepare() -> tuple[Any, ...]:
        raise ValueError("no row")

    async def main() -> None:
        with pytest.raises(ValueError, match="no row"):
            await writer.run(store.claim, prepare)
        assert await writer.run(lambda: store.claim("r0")) == 0

    asyncio.run(main())


def test_a_write_is_made_although_its_caller_was_cancelled(store: Store, writer: StoreWriter) -> None:
    is_busy = threading.Event()

    async def main() -> None:
        first = asyncio.ensure_future(writer.run(is_busy.wait))
        await asyncio.sleep(0.05)
        waiting = asyncio.ensure_future(writer.run(lambda: store.claim("r0")))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        is_busy.set()
        await first

    asyncio.run(main())
    writer.stop()
    writer.join(10)
    assert store.counts()["running"] == 1


def test_a_database_that_refuses_is_everybodys_error(
    store: Store, writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Any:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store, "together", refuse)

    async def main() -> None:
        with pytest.raises(StoreError, match="the disk is full"):
            await writer.run(lambda: store.claim("r0"))

    asyncio.run(main())
