"""A model that answers from a list or a function: for tests, demonstrations and reproducing a fault."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from agentlab.errors import ConfigError, unknown_name
from agentlab.records import ModelRequest, Reply, ToolCall, Usage

Item = str | Mapping[str, Any] | Reply | Exception
"""One scripted reply: text, `{"text", "tool_calls": [{"name", "arguments"}], "problem", "usage"}`, a `Reply`, or
an exception that is raised."""

_REPLY_KEYS = ("text", "tool_calls", "problem", "detail", "finish_reason", "reasoning", "usage")
_CALL_KEYS = ("name", "arguments", "id", "problem", "detail")
_USAGE_KEYS = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")


class ScriptedModel:
    """Gives the replies of a list in order, or what a function of the request returns.

    Every run starts at the first reply of the list, and so does every further attempt of a run; the actors of
    one run share the list. Usage is unknown unless a reply gives it.

    Args:
        replies: the list, or a function from a `ModelRequest` to one item.
        name: how the model is called in traces and results.

    Raises:
        ConfigError: an item of the list has an unknown form.
    """

    kind: Literal["real", "local", "simulated", "scripted", "replay"] = "scripted"

    def __init__(self, replies: Sequence[Item] | Callable[[ModelRequest], Item], name: str = "scripted") -> None:
        self.name = name
        self._function = replies if callable(replies) else None
        self._replies = () if callable(replies) else tuple(_checked(item, i) for i, item in enumerate(replies))
        self._used: dict[str, int] = {}
        self._last_asked: dict[str, dict[str, int]] = {}
        self._with_ids: dict[tuple[int, str], Reply] = {}

    @property
    def capabilities(self) -> frozenset[str]:
        """What a script can stand for: tools and stop sequences."""
        return frozenset({"tools", "stop"})

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the next reply of the run.

        Raises:
            ConfigError: the list has no reply left, or the function returned something of an unknown form.
            Exception: the item is an exception.
        """
        index = self._next_index(request)
        prefix = f"{request.context.actor}_{request.context.occurrence}"
        if self._function is not None:
            return _with_ids(_raised(_checked(self._function(request), index)), prefix)
        if (index, prefix) not in self._with_ids:
            self._with_ids[index, prefix] = _with_ids(_raised(self._replies[index]), prefix)
        return self._with_ids[index, prefix]

    async def close(self) -> None:
        """Nothing is held."""

    def _next_index(self, request: ModelRequest) -> int:
        context = request.context
        last = self._last_asked.setdefault(context.run_id, {})
        if context.occurrence <= last.get(context.actor, -1):
            # The same request position twice: the run is attempted again.
            last.clear()
            self._used[context.run_id] = 0
        last[context.actor] = context.occurrence
        index = self._used.get(context.run_id, 0)
        self._used[context.run_id] = index + 1
        if self._function is None and index >= len(self._replies):
            raise ConfigError(
                f"{self.name} has {len(self._replies)} replies, and the run asked for reply {index + 1} "
                f"(actor {context.actor}). Add a reply, or end the run earlier."
            )
        return index


def build(path: str) -> ScriptedModel:
    """Return the model of `scripted:FILE`; the file holds a JSON array of texts and reply objects.

    Raises:
        ConfigError: the file cannot be read, or an item has an unknown form.
    """
    try:
        items = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ConfigError(f"The script {path} is not valid JSON: {error}.") from error
    if not isinstance(items, list):
        raise ConfigError(f"The script {path} must be a JSON array of replies, each a text or an object.")
    try:
        return ScriptedModel(items, name=f"scripted:{path}")
    except ConfigError as error:
        raise ConfigError(f"The script {path}: {error}") from error


def _checked(item: Any, index: int) -> Reply | Exception:
    where = f"reply {index + 1}"
    if isinstance(item, Reply | Exception):
        return item
    if isinstance(item, str):
        return Reply(text=item, finish_reason="stop")
    if not isinstance(item, Mapping):
        raise ConfigError(f"{where} must be a text, an object, a Reply or an exception, not {type(item).__name__}.")
    _refuse_unknown(item, _REPLY_KEYS, f"key of {where}")
    calls = tuple(_call(call, where) for call in item.get("tool_calls", ()))
    usage = item.get("usage")
    if isinstance(usage, Mapping):
        _refuse_unknown(usage, _USAGE_KEYS, f"usage key of {where}")
        usage = Usage(**{"input_tokens": None, "output_tokens": None, **usage})
    texts = {key: value for key, value in item.items() if key not in ("tool_calls", "usage")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ConfigError(f"{where}: {key} must be a text, not {type(value).__name__}.")
    texts.setdefault("finish_reason", "tool_calls" if calls else "stop")
    return Reply(**texts, tool_calls=calls, usage=usage)


def _call(call: Any, where: str) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise ConfigError(f'{where}: each of tool_calls must be an object {{"name", "arguments"}}.')
    _refuse_unknown(call, _CALL_KEYS, f"key of a tool call of {where}")
    return ToolCall(**{"id": "", "arguments": {}, **call})


def _raised(item: Reply | Exception) -> Reply:
    if isinstance(item, Exception):
        raise item
    return item


def _with_ids(reply: Reply, prefix: str) -> Reply:
    """The reply with an id, unique within the run, for every call that has none."""
    if all(call.id for call in reply.tool_calls):
        return reply
    calls = tuple(
        call if call.id else dataclasses.replace(call, id=f"{prefix}_{index}")
        for index, call in enumerate(reply.tool_calls)
    )
    return dataclasses.replace(reply, tool_calls=calls)


def _refuse_unknown(given: Mapping[str, Any], valid: Sequence[str], what: str) -> None:
    for key in given:
        if key not in valid:
            raise unknown_name(what, key, valid)
