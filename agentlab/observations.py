"""What a model sees of a tool result: one text, cut by one rule with one limit for all strategies."""

import re
from typing import Any

from agentlab.json_values import clean_text, dumps, json_line
from agentlab.records import JsonObject, Observation, ToolResult

DEFAULT_LIMIT_CHARS = 20_000
PREVIEW_ROWS = 5
HANDLE = re.compile(r"result_[0-9]+")
"""The handles that a session gives to large results."""


def observe(result: ToolResult, limit_chars: int, handle: str, notice: str = "") -> Observation:
    """Return the observation of a result.

    A result above the limit is shown as a preview with its `handle`, which every tool argument accepts
    in place of the value.

    Args:
        result: its `data` must be JSON values already.
        limit_chars: longest text; the cut keeps the beginning and the end and says how much is left out.
        handle: name under which the session keeps the whole data.
        notice: remark of the session, shown first.
    """
    payload = _payload(result, notice)
    whole = json_line(payload)
    if len(whole) <= limit_chars:
        return Observation(whole, result, notice=notice)
    payload["data"] = preview(result.data, handle, limit_chars // 2)
    text = cut_middle(dumps(payload), limit_chars)
    return Observation(text, result, cut_chars=len(whole) - len(text), notice=notice)


def preview(data: Any, handle: str, limit_chars: int) -> JsonObject:
    """Return `{handle, rows, columns, preview}` of tabular data, `{handle, chars, preview}` of anything else."""
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        columns = list(dict.fromkeys(key for row in data[:100] for key in row))
        shown: Any = data[:PREVIEW_ROWS]
        if len(dumps(shown)) > limit_chars:
            shown = cut_middle(dumps(shown), limit_chars)
        return {"handle": handle, "rows": len(data), "columns": columns, "preview": shown}
    text = data if isinstance(data, str) else dumps(data)
    return {"handle": handle, "chars": len(text), "preview": cut_middle(text, limit_chars)}


def cut_middle(text: str, limit_chars: int) -> str:
    """Return `text` within the limit: its beginning and its end, and how many characters are left out between."""
    if len(text) <= limit_chars:
        return text
    marker = f" …[{len(text)} characters, the middle is left out here; the full text is in the trace]… "
    keep = max(0, limit_chars - len(marker))
    head = keep * 2 // 3
    tail = keep - head
    marker = marker.replace(
        f"{len(text)} characters, the middle is", f"{len(text) - keep} of {len(text)} characters are"
    )
    marker = marker[: max(0, limit_chars - keep)] if len(marker) > limit_chars - keep else marker
    return text[:head] + marker + (text[-tail:] if tail else "")


def _payload(result: ToolResult, notice: str) -> JsonObject:
    fields: JsonObject = {"notice": notice or None, "success": result.success}
    fields["passed"] = result.passed
    for name in ("check", "subject", "error_kind", "message"):
        text = getattr(result, name)
        fields[name] = clean_text(text) if text is not None else None
    fields["message"] = fields["message"] or None
    fields["data"] = result.data
    return {name: value for name, value in fields.items() if value is not None}
