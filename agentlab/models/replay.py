"""Record a model's replies once, replay them for nothing.

The file is JSON lines: a header with the recorded model, then one line a reply. A line is appended by one write,
so two processes may record into one file. What a killed process left behind stays where it is: a torn line is
reported and passed over, never rewritten.
"""

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from agentlab.errors import ConfigError, InfrastructureError
from agentlab.json_values import canonical, dumps
from agentlab.models.base import PROVIDERS, build_model
from agentlab.models.rate_limit import RateLimiter
from agentlab.records import JsonObject, Model, ModelRequest, Reply, Send, ToolCall, Usage
from agentlab.secrets import scrub

FORMAT_VERSION = 1
_HOW_TO_RECORD = "Record with the model record:FILE+provider:name (record:recorded.jsonl+openai:gpt-4o-mini)."
_HEADER_KEYS = {"agentlab_replay", "model", "kind"}
_PLACE_KEYS = ("task", "actor", "repeat", "occurrence", "format")
_PART_KEYS = ("messages", "tools", "settings")
_REPLY_KEYS = {"reply", "key", "run_id", *_PLACE_KEYS, *_PART_KEYS}
_log = logging.getLogger(__name__)

ModelKind = Literal["real", "local", "simulated", "scripted", "replay"]


class TornLine(NamedTuple):
    """A line that cannot be read, as a killed process or a full disk leaves it."""

    line: int
    """Line number in the file, from 1."""
    reason: str


class Recording(NamedTuple):
    """What a replay file holds."""

    header: JsonObject | None
    """`model`, `kind` and `capabilities` of the recorded model; None in a file without a complete header."""
    records: list[JsonObject]
    torn_lines: tuple[TornLine, ...]


class RecordingModel:
    """Asks another model and appends each reply to a file; runs made with it are that model's runs.

    Failures (exceptions) are not recorded: a replay repeats what was answered.

    Args:
        inner: the model that is asked.
        path: JSON lines file; made when the first reply comes, continued when it exists.

    Raises:
        ConfigError: the file holds another model's replies.
    """

    def __init__(self, inner: Model, path: str | os.PathLike[str]) -> None:
        self._inner = inner
        self._path = Path(path)
        self.name = inner.name
        self.kind: ModelKind = inner.kind
        recording = read_recording(self._path) if self._path.exists() else Recording(None, [], ())
        self.torn_lines = recording.torn_lines
        self._has_header = recording.header is not None
        if recording.header is not None and recording.header["model"] != inner.name:
            raise ConfigError(
                f"{self._path} holds replies of {recording.header['model']}; record {inner.name} into another file."
            )

    @property
    def capabilities(self) -> frozenset[str]:
        """What the asked model can do."""
        return self._inner.capabilities

    @property
    def limiter(self) -> RateLimiter | None:
        """The rate limit of the asked model; None when it has none."""
        limiter: RateLimiter | None = getattr(self._inner, "limiter", None)
        return limiter

    @limiter.setter
    def limiter(self, limiter: RateLimiter | None) -> None:
        if hasattr(self._inner, "limiter"):
            self._inner.limiter = limiter

    def price_usd(self, usage: Usage) -> float | None:
        """Return the price of so many tokens on the asked model; None when it has none."""
        price = getattr(self._inner, "price_usd", None)
        return None if price is None else price(usage)

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the model's reply after it was written to the file.

        Raises:
            InfrastructureError: the file cannot be written; else what the asked model raises.
        """
        reply = await self._inner.complete(request)
        if not self._has_header:
            header = {"agentlab_replay": FORMAT_VERSION, "model": self.name, "kind": self.kind}
            self._append({**header, "capabilities": sorted(self.capabilities)})
            self._has_header = True
        self._append({**_identity(request), "run_id": request.context.run_id, "reply": dataclasses.asdict(reply)})
        return reply

    async def close(self) -> None:
        """Close the asked model."""
        await self._inner.close()

    def _append(self, record: JsonObject) -> None:
        line = (scrub(dumps(record)) + "\n").encode("utf-8")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                if _ends_in_a_line(file):
                    line = b"\n" + line
                written = os.write(file, line)
            finally:
                os.close(file)
        except OSError as error:
            raise InfrastructureError(f"The reply could not be recorded in {self._path}: {error.strerror}.") from error
        if written != len(line):
            raise InfrastructureError(f"The reply was recorded in part only; is the disk of {self._path} full?")


class ReplayModel:
    """Answers from a recording. Usage is what was recorded; nothing is paid, so cost is unknown and latency 0.

    A reply is found by the request (messages, tools, format, settings), task, repeat, actor and occurrence. Where
    several runs recorded the same request, the run of the same id wins, else the latest.

    Args:
        path: a file that `RecordingModel` wrote.

    Raises:
        ConfigError: the file cannot be read or holds no reply.
    """

    kind: ModelKind = "replay"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.name = f"replay:{os.fspath(path)}"
        recording = read_recording(self._path)
        self.torn_lines = recording.torn_lines
        if recording.header is None or not recording.records:
            raise ConfigError(f"{self._path} holds no recorded reply. {_HOW_TO_RECORD}")
        self.recorded_model = str(recording.header["model"])
        """Name of the model whose replies these are."""
        self.recorded_kind = str(recording.header["kind"])
        """Kind of that model: replies of a simulated model stay simulated."""
        self._capabilities = frozenset(recording.header.get("capabilities", ()))
        self._places = [{key: record[key] for key in _PLACE_KEYS + _PART_KEYS} for record in recording.records]
        self._replies: dict[str, dict[str, Reply]] = {}
        for record in recording.records:
            by_run = self._replies.setdefault(record["key"], {})
            by_run.pop(record["run_id"], None)
            by_run[record["run_id"]] = _reply(record["reply"])

    @property
    def capabilities(self) -> frozenset[str]:
        """What the recorded model could do."""
        return self._capabilities

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the recorded reply.

        Raises:
            ConfigError: none was recorded for this request; says what differs and how to record.
        """
        identity = _identity(request)
        by_run = self._replies.get(identity["key"])
        if by_run is None:
            raise ConfigError(self._missing(identity, request))
        return by_run.get(request.context.run_id) or next(reversed(by_run.values()))

    async def close(self) -> None:
        """Nothing is held."""

    def _missing(self, identity: JsonObject, request: ModelRequest) -> str:
        place = {name: identity[name] for name in _PLACE_KEYS}
        same_place = [record for record in self._places if all(record[k] == v for k, v in place.items())]
        differs = [
            part for part in _PART_KEYS if same_place and all(record[part] != identity[part] for record in same_place)
        ]
        if not same_place:
            why = "Nothing was recorded at this place of a run."
        elif differs:
            why = f"A reply was recorded at this place, but with other {' and '.join(differs)}."
        else:
            why = "Replies were recorded at this place, but none with these messages, tools and settings together."
        last = str(request.messages[-1].get("content") or "")[:200] if request.messages else ""
        return (
            f"{self._path} ({len(self._places)} replies of {self.recorded_model}) has no reply for "
            f"{', '.join(f'{name} {value}' for name, value in place.items())}. {why} "
            f"The request ends with: {scrub(last)!r}. {_HOW_TO_RECORD}"
        )


def build_replay(path: str) -> ReplayModel:
    """Return the model of `replay:FILE`; raises `ConfigError` as `ReplayModel` does."""
    return ReplayModel(path)


def build_recording(text: str) -> RecordingModel:
    """Return the model of `record:FILE+provider:name`.

    Raises:
        ConfigError: no `+provider:name` follows the file; the provider or the file cannot be used.
    """
    starts = [at for provider in PROVIDERS if (at := text.find(f"+{provider}:")) > 0]
    if not starts:
        raise ConfigError(
            f"record:{text} must name a file and the model to ask, for example "
            "record:recorded.jsonl+openai:gpt-4o-mini."
        )
    path, spec = text[: min(starts)], text[min(starts) + 1 :]
    return RecordingModel(build_model(spec), path)


def read_recording(path: Path) -> Recording:
    """Return what a replay file holds; torn lines are counted, logged and passed over.

    Raises:
        ConfigError: the file cannot be read, or was written by a newer version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. {_HOW_TO_RECORD}") from error
    header: JsonObject | None = None
    records: list[JsonObject] = []
    torn: list[TornLine] = []
    for number, record in _lines(data):
        if isinstance(record, str):
            torn.append(TornLine(number, record))
        elif "reply" in record:
            records.append(record)
        elif record["agentlab_replay"] != FORMAT_VERSION:
            raise ConfigError(f"{path} was written in replay format {record['agentlab_replay']}, not {FORMAT_VERSION}.")
        else:
            header = header or record
    if torn:
        where = "; ".join(f"line {line.line}: {line.reason}" for line in torn[:5])
        _log.warning("%s: %d torn line(s) passed over (%s)", path, len(torn), where)
    return Recording(header, records, tuple(torn))


def _lines(data: bytes) -> Iterator[tuple[int, JsonObject | str]]:
    """The number of each line that is not blank, with its record or with why it cannot be read."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8"))
            is_reply = "reply" in record
            is_complete = record.keys() >= (_REPLY_KEYS if is_reply else _HEADER_KEYS)
            if is_reply:
                _reply(record["reply"])
        except UnicodeDecodeError:
            yield number, "cut inside a character"
        except (ValueError, TypeError, AttributeError, RecursionError):
            yield number, "no complete record"
        else:
            yield number, record if is_complete else "no complete record"


def _identity(request: ModelRequest) -> JsonObject:
    """What a reply is found by: place in the run, one hash for each part of the request, and the key of all."""
    context = request.context
    settings = [request.temperature, request.max_output_tokens, request.seed, request.constrained]
    identity: JsonObject = {
        "task": getattr(context.task, "id", ""),
        "actor": context.actor,
        "repeat": context.repeat,
        "occurrence": context.occurrence,
        "format": request.format.name,
        "messages": _digest(request.messages),
        "tools": _digest(request.tool_schemas),
        "settings": _digest(settings),
    }
    return {"key": _digest(identity), **identity}


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode("utf-8")).hexdigest()[:24]


def _reply(data: JsonObject) -> Reply:
    """A recorded reply as it is replayed: nothing is paid and nothing takes time."""
    fields = dict(data)
    usage = fields.get("usage")
    sends = [Send(**{**send, "usage": _usage(send.get("usage"))}) for send in fields.get("sends", ())]
    fields["sends"] = tuple(dataclasses.replace(send, latency_s=0.0, wait_s=0.0) for send in sends)
    fields["tool_calls"] = tuple(ToolCall(**call) for call in fields.get("tool_calls", ()))
    fields["notes"] = tuple(fields.get("notes", ()))
    return Reply(**{**fields, "usage": _usage(usage), "cost_usd": None, "latency_s": 0.0})


def _usage(data: JsonObject | None) -> Usage | None:
    return None if data is None else Usage(**data)


def _ends_in_a_line(file: int) -> bool:
    """Does the file end in a line without line end?"""
    size = os.fstat(file).st_size
    if size == 0:
        return False
    os.lseek(file, -1, os.SEEK_END)
    return os.read(file, 1) != b"\n"
