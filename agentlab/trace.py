"""The trace of a run: every event, in order, as plain data."""

import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pydantic_core

from agentlab.errors import CorruptRecord
from agentlab.html_text import lines, table
from agentlab.json_values import copy_json, dumps
from agentlab.records import Event, JsonObject, Reply, Send, ToolCall, ToolResult
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
    text = b"\n".join(map(_line, events)).decode("utf-8")
    return zlib.compress(scrub(text).encode("utf-8"), 1)


def _line(event: Event) -> bytes:
    values = [event.seq, round(event.t_s, 6), event.kind, event.actor, event.data]
    try:
        # Several times as fast as the standard library, but it refuses lone surrogates and very deep nesting.
        return pydantic_core.to_json(values, fallback=str)
    except ValueError:
        return json.dumps(values, ensure_ascii=False, default=str).encode("utf-8", "replace")


class StoredEvents(list[Event]):
    """The events of a stored run: a list, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        head = lines(f"run {self[0].run_id}: {len(self)} events, {self[-1].t_s:.3f} s" if self else "no events")
        rows = ((event.seq, f"{event.t_s:.3f}", event.actor, event.kind, _in_short(event)) for event in self)
        return head + table(("#", "s", "actor", "kind", "what"), rows)


def _in_short(event: Event) -> str:
    """An event in a few words, or all of its data."""
    data = event.data
    if event.kind == "tool_call":
        return f"{data['tool']}({dumps(data['arguments'])}) -> {data['observation']}"
    if event.kind == "model_call":
        calls = [f"{call['name']}({dumps(call.get('arguments'))})" for call in data.get("tool_calls") or ()]
        return " ".join([data.get("text") or "", *calls]).strip()
    return dumps(data)


def unpack(run_id: str, data: bytes) -> StoredEvents:
    """Return the events that `pack` stored.

    Raises:
        CorruptRecord: the bytes cannot be read back.
    """
    try:
        stored = zlib.decompress(data).decode("utf-8").split("\n")
        return StoredEvents(Event(run_id, *json.loads(line)) for line in stored if line)
    except (zlib.error, ValueError, TypeError) as error:
        raise CorruptRecord(f"the trace of run {run_id} cannot be read: {error}") from error


def reply_data(reply: Reply) -> JsonObject:
    """Return a reply as the data of an event: what is empty or zero is left out, except the text."""
    data: JsonObject = {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "tool_calls": [_call_data(call) for call in reply.tool_calls],
        "finish_reason": reply.finish_reason,
        "usage": _present(reply.usage) if reply.usage else None,
        "cost_usd": reply.cost_usd,
        "latency_s": round(reply.latency_s, 6),
        "sends": [_send_data(send) for send in reply.sends],
        "problem": reply.problem,
        "detail": reply.detail,
        "model": reply.model,
        "notes": list(reply.notes),
    }
    return {name: value for name, value in data.items() if value or name == "text"}


def result_data(result: ToolResult, *, is_cut: bool) -> JsonObject:
    """Return what scoring and analysis need of a result.

    Args:
        result: of the tool.
        is_cut: the observation does not show the data, so they are kept here.
    """
    data = {
        "success": result.success,
        "passed": result.passed,
        "check": result.check,
        "subject": result.subject,
        "error_kind": result.error_kind,
        "visible": dict(result.visible) or None,
        "data": result.data if is_cut and result.data != {} else None,
    }
    return {name: value for name, value in data.items() if value is not None}


def _call_data(call: ToolCall) -> JsonObject:
    data = _present(call)
    for name in ("arguments", "sent_arguments"):
        if name in data:
            # Copied: a tool may change the arguments that it is given, but not what the trace says the model sent.
            data[name] = copy_json(data[name])
    return data


def _send_data(send: Send) -> JsonObject:
    data = _present(send)
    usage: Any = send.usage
    if usage is not None:
        data["usage"] = {name: getattr(usage, name) for name in usage.__slots__}
    return data


def _present(record: Any) -> JsonObject:
    """The fields of a slotted record that are not None; `dataclasses.asdict` takes much longer with deep copies."""
    return {name: value for name in record.__slots__ if (value := getattr(record, name)) is not None}
