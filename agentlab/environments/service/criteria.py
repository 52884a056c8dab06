"""The criteria that compare the metrics of a service after a change with those before it."""

from agentlab.records import JsonObject

HALF = 0.5


def is_halved(before: JsonObject, after: JsonObject) -> bool:
    """Return whether the response time is at most half of what it was."""
    return bool(after["response_ms"] <= before["response_ms"] * HALF)


def has_no_more_errors(before: JsonObject, after: JsonObject) -> bool:
    """Return whether the error rate is not above what it was."""
    return bool(after["errors_percent"] <= before["errors_percent"])


def uses_no_more(before: JsonObject, after: JsonObject) -> bool:
    """Return whether neither CPU nor memory is above what it was."""
    return all(after[key] <= before[key] for key in ("cpu_percent", "memory_mb"))


RULES = {
    "response_time_halved": is_halved,
    "errors_not_up": has_no_more_errors,
    "resources_not_up": uses_no_more,
}
"""Criterion -> its rule."""
_MEASURED = {
    "response_time_halved": "response time {0[response_ms]} -> {1[response_ms]} ms",
    "errors_not_up": "error rate {0[errors_percent]} -> {1[errors_percent]} %",
    "resources_not_up": "CPU {0[cpu_percent]} -> {1[cpu_percent]} %, memory {0[memory_mb]} -> {1[memory_mb]} MB",
}


def measured(criterion: str, before: JsonObject, after: JsonObject) -> str:
    """Return the status of a criterion and what it rests on, in words."""
    status = "passed" if RULES[criterion](before, after) else "failed"
    return f"{status} ({_MEASURED[criterion].format(before, after)})"
