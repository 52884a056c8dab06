"""The trace of a run: every event, in order, as plain data."""

import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from agentlab.errors import CorruptRecord
from agentlab.records import Event
from agentlab.secrets import scrub

EVENT_KINDS = (
    "run_start", "model_call", "tool_call", "plan", "step", "decision", "approval", "note", "budget_hit", "error",
    "run_end",
)  # fmt: skip


class Trace:
    """Collects the events of one run. Appending is the only change.

    Args:
        run_id: identity of the run.
        on_event: called with every event as it is added.
    """

    def __init__(self, run_id: str, on_event: Callable[[Event], Any] | None = None) -> None:
        self.run_id = run_id
        self._on_event = on_event
        self.events: list[Event] = []
        self.started = time.perf_counter()

    def add(self, kind: str, actor: str, **data: Any) -> Event:
        """Append an event and return it."""
        event = Event(self.run_id, len(self.events), time.perf_counter() - self.started, kind, actor, data)
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)
        return event

    def of_kind(self, kind: str) -> Iterator[Event]:
        """Yield the events of one kind in order."""
        return (event for event in self.events if event.kind == kind)


def pack(events: list[Event]) -> bytes:
    """Return the events as compressed JSON lines (UTF-8) without secrets, for the store."""
    lines = [
        json.dumps(
            [event.seq, round(event.t_s, 6), event.kind, event.actor, event.data], ensure_ascii=False, default=str
        )
        for event in events
    ]
    return zlib.compress(scrub("\n".join(lines)).encode("utf-8", "replace"), 1)


def unpack(run_id: str, data: bytes) -> list[Event]:
    """Return the events that `pack` stored.

    Raises:
        CorruptRecord: the bytes cannot be read back.
    """
    try:
        lines = zlib.decompress(data).decode("utf-8").split("\n")
        return [Event(run_id, *json.loads(line)) for line in lines if line]
    except (zlib.error, ValueError, TypeError) as error:
        raise CorruptRecord(f"the trace of run {run_id} cannot be read: {error}") from error
