"""Read what a chat-completions server answered, tolerantly, and write it back as history.

Nothing that a server sends raises here: what cannot be used becomes a problem code. A billed reply that cannot be
read still has its usage. `tests/cases/chat_responses.json` holds the faults that are survived.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.json_values import clean_text, dumps
from agentlab.models.server_errors import ServerError, error_object, read_error
from agentlab.models.tool_calls import CUT_DETAIL, Calls, call_in_text, read_calls
from agentlab.records import JsonObject, Message, Reply, Usage
from agentlab.tools import Tool, tools_from_schemas

REASONING_KEY = "reasoning_content"
"""Key under which an assistant message carries its reasoning; the client sends or removes it by its setting."""
LARGEST_COUNT = 10**12
"""Token counts beyond this are nonsense and unknown."""
_CUT_REASONS = frozenset({"length", "max_tokens", "model_length"})
_FILTER_REASONS = frozenset({"content_filter", "content_filtered", "sensitive", "safety"})
_FAILED_REASONS = frozenset({"error", "network_error", "insufficient_system_resource"})
_THOUGHT = re.compile(r"<(think|thinking)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_THOUGHT_END = re.compile(r"\A(.*?)</(?:think|thinking)>", re.DOTALL)
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_-]")

NO_CHOICES = "The server returned no choice; a content filter or a gateway in between is the likely cause."
FILTERED = "The provider's content filter stopped the reply."
EMPTY = "The reply holds neither text nor a tool call."
CALL_IN_TEXT = (
    "A tool call stands in the text and was not executed. Make it through the tool interface, one call alone."
)


def read_response(
    status: int,
    headers: Mapping[str, str],
    data: bytes,
    tools: Sequence[Tool] | Sequence[JsonObject],
    *,
    native_tools: bool = True,
    taken_ids: frozenset[str] = frozenset(),
) -> Reply:
    """Return what an HTTP response says; errors, pages and broken bodies become a problem, never an exception.

    Args:
        status: HTTP status.
        headers: for the media type in messages; nothing of them is stored.
        data: the body as it came.
        tools: the offered tools, as `Tool`s or in wire form.
        native_tools: False when the strategy reads calls from the text itself.
        taken_ids: call ids of the conversation so far.
    """
    text = data.decode("utf-8-sig", errors="replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if status >= 300:
        return _error_reply(read_error(status, body, clean_text(text)), status, body)
    if not isinstance(body, dict) and error_object(body) is None:
        kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "no media type")
        error = read_error(status, None, clean_text(text))
        detail = (
            f"HTTP {status} without a JSON object ({clean_text(kind)}), so something else than a model server may have "
            f"answered: {error.message or 'an empty body'}"
        )
        return Reply(problem="server_error", detail=detail)
    return read_reply(body, tools, status=status, native_tools=native_tools, taken_ids=taken_ids)


def read_reply(
    body: Any,
    tools: Sequence[Tool] | Sequence[JsonObject],
    *,
    status: int = 200,
    native_tools: bool = True,
    taken_ids: frozenset[str] = frozenset(),
) -> Reply:
    """Return what a parsed chat-completions body says; arguments as for `read_response`."""
    error = error_object(body)
    if error is not None or not isinstance(body, dict):
        return _error_reply(read_error(status, body, ""), status, body)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        return _reply(body, {}, problem="no_choices", detail=NO_CHOICES)
    if error_object(choice) is not None:
        return _error_reply(read_error(status, choice, ""), status, body)
    return _read_choice(body, choice, _as_tools(tools), native_tools, taken_ids)


def assistant_message(reply: Reply, *, with_reasoning: bool = True) -> Message:
    """Return a reply as the assistant message of the next request.

    Arguments are JSON text. A call that could not be read is replayed with what was sent, or with `{}`: some servers
    answer 500 to broken arguments in the history. Its tool message says what was wrong.

    Args:
        reply: as read; its ids are those of its tool messages.
        with_reasoning: carry the reasoning under `reasoning_content`; the client decides whether it is sent.
    """
    message: Message = {"role": "assistant", "content": reply.text or (None if reply.tool_calls else "")}
    if with_reasoning and reply.reasoning:
        message[REASONING_KEY] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": _NOT_A_NAME.sub("_", call.name)[:64] or "unnamed",
                    "arguments": dumps(call.arguments or call.sent_arguments or {}),
                },
            }
            for call in reply.tool_calls
        ]
    return message


def tool_message(call_id: str, text: str) -> Message:
    """Return the message that answers the call of that id."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _read_choice(
    body: JsonObject, choice: JsonObject, tools: Sequence[Tool], native_tools: bool, taken_ids: frozenset[str]
) -> Reply:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    reason = choice.get("finish_reason")
    reason = clean_text(reason) if isinstance(reason, str) else None
    kind = (reason or "").lower()
    notes: list[str] = []
    text, reasoning = _content(message, notes)
    is_cut = kind in _CUT_REASONS or kind in _FILTER_REASONS
    calls = read_calls(_sent_calls(message), tools, taken_ids, is_cut=is_cut)
    problem = detail = ""
    if kind in _FILTER_REASONS:
        problem, detail = "content_filtered", FILTERED
    elif kind in _CUT_REASONS:
        problem, detail = "truncated", CUT_DETAIL
    elif kind in _FAILED_REASONS and not (calls.calls or text):
        problem, detail = "server_error", f"The server broke the reply off (finish_reason {reason})."
    elif native_tools and not calls.calls and (found := call_in_text(text, tools)) is not None:
        if found.call is None:
            problem, detail = "call_in_text", CALL_IN_TEXT
        else:
            calls = read_calls([found.call], tools, taken_ids, is_cut=False)
            text = found.text
            notes.append("the tool call was read from the text")
    if not (problem or calls.calls or text):
        problem, detail = "empty_answer", EMPTY
    return _reply(
        body, message, text=text, reasoning=reasoning, calls=calls, reason=reason, problem=problem, detail=detail,
        notes=notes,
    )  # fmt: skip


def _reply(
    body: JsonObject,
    message: JsonObject,
    *,
    text: str = "",
    reasoning: str = "",
    calls: Calls | None = None,
    reason: str | None = None,
    problem: str = "",
    detail: str = "",
    notes: Sequence[str] = (),
) -> Reply:
    calls = calls or Calls()
    model = body.get("model")
    return Reply(
        text=text,
        reasoning=reasoning,
        tool_calls=tuple(calls.calls),
        finish_reason=reason,
        usage=_usage(body.get("usage")),
        problem=problem or None,
        detail=detail,
        model=clean_text(model) if isinstance(model, str) and model else None,
        notes=(*notes, *calls.notes),
    )


def _error_reply(error: ServerError, status: int, body: Any) -> Reply:
    where = f"HTTP {status}" if status == error.status else f"HTTP {status} with an error inside ({error.status})"
    code = f" [{error.code}]" if error.code else ""
    usage = _usage(body.get("usage")) if isinstance(body, dict) else None
    detail = clean_text(f"{where}{code}: {error.message or 'no message'}")
    return Reply(problem=error.problem, detail=detail, usage=usage)


def _as_tools(tools: Sequence[Tool] | Sequence[JsonObject]) -> Sequence[Tool]:
    return [tool if isinstance(tool, Tool) else tools_from_schemas([tool])[0] for tool in tools]


def _sent_calls(message: JsonObject) -> list[Any]:
    calls = message.get("tool_calls")
    if isinstance(calls, dict):
        return [calls]
    if isinstance(calls, list) and calls:
        return calls
    legacy = message.get("function_call")
    return [{"function": legacy}] if isinstance(legacy, dict) and legacy.get("name") else []


def _content(message: JsonObject, notes: list[str]) -> tuple[str, str]:
    """The answer's text and the reasoning, kept apart wherever the server put them."""
    content = message.get("content")
    reasoning = [
        value for key in (REASONING_KEY, "reasoning") if isinstance(value := message.get(key), str) and value.strip()
    ][:1]
    if isinstance(content, list):
        content = _join_parts(content, reasoning, notes)
    elif content is not None and not isinstance(content, str):
        notes.append(f"content of type {type(content).__name__} was skipped")
        content = ""
    refusal = message.get("refusal")
    if not content and isinstance(refusal, str) and refusal:
        notes.append("the model refused; its refusal is the text")
        content = refusal
    text, thoughts = _without_thoughts(content or "")
    reasoning += thoughts
    return clean_text(text.strip()), clean_text("\n".join(part.strip() for part in reasoning))


def _join_parts(parts: list[Any], reasoning: list[str], notes: list[str]) -> str:
    texts = []
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else part
        if kind in ("thinking", "reasoning"):
            thought = part.get(kind, text)
            reasoning.append(thought if isinstance(thought, str) else json.dumps(thought, ensure_ascii=False))
        elif isinstance(text, str) and kind in ("text", "output_text", None):
            texts.append(text)
        else:
            notes.append(f"a content part of type {clean_text(str(kind))[:40]} was skipped")
    return "".join(texts)


def _without_thoughts(text: str) -> tuple[str, list[str]]:
    """The text without thinking blocks, and the blocks; an unclosed block reaches to the end.

    Some templates put the opening tag into the prompt, so that a reply starts inside the block.
    """
    if "</think" not in text and "<think" not in text:
        return text, []
    thoughts = []
    end = _THOUGHT_END.match(text)
    if end is not None and not _THOUGHT.search(end[0]):
        thoughts.append(end[1])
        text = text[end.end() :]
    thoughts += [match[2] for match in _THOUGHT.finditer(text)]
    return _THOUGHT.sub("", text), thoughts


def _usage(sent: Any) -> Usage | None:
    """The tokens that a server counted; None when it counted none.

    Cached tokens are inside the input and reasoning tokens inside the output. A server whose total shows that it
    counts reasoning beside the output is brought to that form.
    """
    if not isinstance(sent, dict):
        return None
    used = _first_count(sent, "prompt_tokens", "input_tokens")
    made = _first_count(sent, "completion_tokens", "output_tokens")
    if not used and not made:  # a prompt has tokens, so zeros are an unfilled form
        return None
    cached = _first_count(_details(sent, "prompt", "input"), "cached_tokens")
    cached = cached if cached is not None else _first_count(sent, "prompt_cache_hit_tokens")
    reasoning = _first_count(_details(sent, "completion", "output"), "reasoning_tokens")
    total = _first_count(sent, "total_tokens")
    if used is not None and made is not None and reasoning and total == used + made + reasoning:
        made += reasoning
    return Usage(
        input_tokens=used,
        output_tokens=made,
        cached_input_tokens=_part_of(cached, used),
        reasoning_tokens=_part_of(reasoning, made),
    )


def _details(sent: JsonObject, *names: str) -> JsonObject:
    for name in names:
        details = sent.get(f"{name}_tokens_details")
        if isinstance(details, dict):
            return details
    return {}


def _first_count(sent: JsonObject, *names: str) -> int | None:
    for name in names:
        value = sent.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST_COUNT:
            return int(value)
    return None


def _part_of(part: int | None, whole: int | None) -> int | None:
    """A part as counted; None when it is more than its whole and so counts something else."""
    return part if part is None or whole is None or part <= whole else None
