"""From a run's result to the rows that the store keeps (columns of `agentlab.columns`)."""

import json
from typing import Any

from agentlab.json_values import canonical
from agentlab.records import Event, JsonObject
from agentlab.runner.run_one import RunResult


def run_row(result: RunResult) -> JsonObject:
    """Return the columns of the run's row that are known at its end."""
    meter, score = result.meter, result.score
    calls = [event.data for event in result.events if event.kind == "model_call"]
    tools = [event.data for event in result.events if event.kind == "tool_call"]
    tokens_known = meter.unknown_usage_calls == 0
    return {
        "end_reason": result.end_reason,
        "verdict": score.verdict,
        "claimed_verdict": score.claimed_verdict
        if score.claimed_verdict in ("passed", "failed", "incomplete")
        else None,
        "success": score.success,
        "outcome": score.outcome,
        "exposed": score.exposed,
        "checks_right": score.checks_right,
        "checks_found": score.checks_found,
        "members_defective": score.members_defective,
        "members_named": score.members_named,
        "failure_class": score.failure_class,
        "failure_classes": json.dumps(score.failure_classes),
        "budget_bound": result.end_reason.removeprefix("budget_") if result.end_reason.startswith("budget_") else None,
        "n_model_calls": meter.model_calls,
        "n_sends": sum(max(1, len(call.get("sends", ()))) for call in calls),
        "n_tool_calls": sum(call["tries"] > 0 for call in tools),
        "n_refused_calls": sum(not call["executed"] for call in tools),
        "n_repeated_calls": sum(call["repeated"] for call in tools),
        "n_malformed": sum(event.kind == "error" and event.data.get("where") == "reply" for event in result.events),
        "input_tokens": meter.input_tokens if tokens_known else None,
        "cached_input_tokens": meter.cached_input_tokens if tokens_known else None,
        "output_tokens": meter.output_tokens if tokens_known else None,
        "reasoning_tokens": meter.reasoning_tokens if tokens_known else None,
        "total_tokens": meter.total_tokens if tokens_known else None,
        "known_tokens": meter.total_tokens,
        "unknown_usage_calls": meter.unknown_usage_calls,
        "usage_source": _usage_source(calls),
        "cost_usd": meter.cost_usd if meter.unpriced_calls == 0 else None,
        "unpriced_calls": meter.unpriced_calls,
        "wall_s": result.wall_s,
        "work_s": meter.work_s,
        "model_s": meter.model_s,
        "tool_s": meter.tool_s,
        "started_at": result.started_at.replace(tzinfo=None),
        "ended_at": result.ended_at.replace(tzinfo=None),
        "error": result.error,
        "answer": _answer(result),
    }


def step_rows(events: list[Event]) -> list[JsonObject]:
    """Return one row per tool call."""
    found = [event for event in events if event.kind == "tool_call"]
    return [
        {
            "step": index,
            "actor": event.actor,
            "plan_step_id": event.data.get("plan_step_id"),
            "tool": event.data["tool"],
            "arguments": canonical(event.data["arguments"]),
            "executed": event.data["executed"],
            "success": event.data["success"],
            "passed": event.data.get("passed"),
            "check": event.data.get("check"),
            "subject": event.data.get("subject"),
            "error_kind": event.data.get("error_kind"),
            "tries": event.data["tries"],
            "repeated": event.data["repeated"],
            "t_s": event.t_s,
            "duration_s": event.data["duration_s"],
        }
        for index, event in enumerate(found)
    ]


def call_rows(events: list[Event]) -> list[JsonObject]:
    """Return one row per model call."""
    found = [event for event in events if event.kind == "model_call"]
    return [
        {
            "call": index,
            "actor": event.actor,
            "model_returned": event.data.get("model"),
            **_usage_columns(event.data.get("usage") or {}),
            "cost_usd": event.data.get("cost_usd"),
            "latency_s": event.data.get("latency_s", 0.0),
            "wait_s": sum(send.get("wait_s", 0.0) for send in event.data.get("sends", ())),
            "n_sends": max(1, len(event.data.get("sends", ()))),
            "finish_reason": event.data.get("finish_reason"),
            "problem": event.data.get("problem"),
            "t_s": event.t_s,
        }
        for index, event in enumerate(found)
    ]


def _usage_columns(usage: JsonObject) -> JsonObject:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
    return {**{name: usage.get(name) for name in names}, "usage_source": usage.get("source")}


def _usage_source(calls: list[JsonObject]) -> str | None:
    sources = sorted({str(call["usage"]["source"]) for call in calls if call.get("usage")})
    return "+".join(sources) or None


def _answer(result: RunResult) -> Any:
    return json.dumps(result.events[-1].data.get("answer"), ensure_ascii=False) if result.answer else None
