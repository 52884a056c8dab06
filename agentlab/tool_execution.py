"""Execute one tool call: under its time limit, with any failure turned into a result that the model sees."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agentlab.errors import InfrastructureError, Interrupted, ToolError
from agentlab.json_values import NotJsonable, clean_text, to_json_value
from agentlab.records import JsonObject, ToolResult
from agentlab.tools import Tool
from agentlab.workers import Workers

TRANSIENT_ERROR_KINDS = frozenset({"timed_out", "connection_failed", "service_unavailable"})
"""Failures that may be gone when the same call is tried again."""
UNCERTAIN_ERROR_KINDS = frozenset({"timed_out", "connection_failed", "tool_failed", "bad_result"})
"""Failures after which nobody knows whether the call took effect; after any other kind it did not."""
_RESULT_FIELDS = frozenset({"success", "passed", "check", "subject", "data", "message", "error_kind"})


async def execute(tool: Tool, arguments: JsonObject, workers: Workers, timeout_s: float | None) -> ToolResult:
    """Return what the tool returned, as a `ToolResult` with JSON values; failures are results too.

    Args:
        tool: with its function.
        arguments: valid for the tool's schema.
        workers: threads for plain functions with a time limit.
        timeout_s: limit of this call in seconds; None runs a plain function inline.

    Raises:
        InfrastructureError: the harness around the system under test failed, not the system.
        Interrupted: a person pressed Ctrl-C while the tool ran; everything else a tool raises,
            SystemExit included, is a failed result.
    """
    try:
        value = await _call(tool, arguments, workers, timeout_s)
        problem = _type_problem(value)
        return _failure("bad_result", f"{tool.name} ran, but {problem}.") if problem else _result_of(value)
    except ToolError as error:
        return _failure(error.kind, str(error))
    except TimeoutError:
        effect = " Whether it took effect is unknown." if tool.effect != "read" else ""
        return _failure(
            "timed_out", f"{tool.name} timed out after {timeout_s:g} s.{effect}" if timeout_s else "Timed out."
        )
    except ConnectionError as error:
        return _failure("connection_failed", f"{tool.name}: {type(error).__name__}: {error}")
    except NotJsonable as error:
        return _failure("bad_result", f"{tool.name} ran, but its result cannot be shown: {error}.")
    except InfrastructureError:
        raise
    except KeyboardInterrupt:
        raise Interrupted(f"stopped by a person while {tool.name} was running") from None
    except asyncio.CancelledError:
        if _is_being_cancelled():
            raise
        return _failure("tool_failed", f"{tool.name} cancelled itself.")
    except BaseException as error:
        return _failure("tool_failed", f"{tool.name} failed: {type(error).__name__}: {error}")


async def _call(tool: Tool, arguments: JsonObject, workers: Workers, timeout_s: float | None) -> Any:
    function = tool.function
    if function is None:
        raise ToolError(f"{tool.name} is only described here; it has no function to call.")
    if tool.is_async:
        async with asyncio.timeout(timeout_s):
            return await function(**arguments)
    if timeout_s is None:
        return function(**arguments)
    return await workers.call(lambda: function(**arguments), timeout_s)


def _type_problem(value: Any) -> str:
    """What a result says that is neither yes nor no: a text such as "no" would count as true."""
    if isinstance(value, ToolResult):
        success, passed = value.success, value.passed
    elif isinstance(value, Mapping) and _is_result(value):
        success, passed = value["success"], value.get("passed")
    else:
        return ""
    if type(success) is not bool:
        return f"its result has success={success!r} ({type(success).__name__}), expected True or False"
    if passed is not None and type(passed) is not bool:
        return f"its result has passed={passed!r} ({type(passed).__name__}), expected True, False or None"
    return ""


def _result_of(value: Any) -> ToolResult:
    """Any return value as a result: a `ToolResult`, a dict in its form, or plain data."""
    if not isinstance(value, ToolResult) and isinstance(value, Mapping) and _is_result(value):
        fields = dict(value)
        if not fields["success"]:
            fields["passed"] = None
        value = ToolResult(**fields)
    if not isinstance(value, ToolResult):
        return ToolResult(success=True, data=to_json_value(value))
    return ToolResult(
        success=value.success,
        passed=value.passed,
        check=value.check,
        subject=clean_text(value.subject) if value.subject is not None else None,
        data=to_json_value(value.data),
        message=clean_text(value.message),
        error_kind=value.error_kind if value.success else value.error_kind or "tool_failed",
        visible=value.visible,
    )


def _is_result(value: Mapping[str, Any]) -> bool:
    return "success" in value and set(value) <= _RESULT_FIELDS


def _failure(kind: str, message: str) -> ToolResult:
    return ToolResult(success=False, error_kind=kind, message=clean_text(message))


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
