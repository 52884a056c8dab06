"""Compare a reply with what a case of `chat_responses.json` expects; used directly and through the client."""

from typing import Any

from agentlab.records import Reply, ToolCall


def assert_meets(reply: Reply, expected: dict[str, Any]) -> None:
    """One of the outcomes that the case accepts is the reply's, and its tokens are those expected."""
    outcomes = expected.get("any_of", [expected])
    assert any(_differences(reply, outcome) == [] for outcome in outcomes), [
        _differences(reply, outcome) for outcome in outcomes
    ]
    if "tokens" in expected:
        assert _tokens(reply) == expected["tokens"]


def answer_of(reply: Reply) -> str | None:
    """The text that a strategy may take as the final answer; None when the reply is none."""
    return reply.text if reply.text and not reply.tool_calls and reply.problem is None else None


def _differences(reply: Reply, outcome: dict[str, Any]) -> list[str]:
    differences = []
    calls = outcome["calls"]
    if len(calls) != len(reply.tool_calls):
        differences.append(f"{len(reply.tool_calls)} calls")
    for call, wanted in zip(reply.tool_calls, calls, strict=False):
        differences += _call_differences(call, wanted)
    for name, value in (("answer", answer_of(reply)), ("problem", reply.problem)):
        if name in outcome and outcome[name] != value:
            differences.append(f"{name} {value!r}")
    return differences


def _call_differences(call: ToolCall, wanted: dict[str, Any]) -> list[str]:
    found = {"tool": call.name, "run": call.problem is None and call.arguments is not None, "problem": call.problem}
    if "arguments" in wanted:
        found["arguments"] = call.arguments
    return [f"{name} {found[name]!r}" for name in wanted if found[name] != wanted[name]]


def _tokens(reply: Reply) -> dict[str, int | None] | None:
    usage = reply.usage
    if usage is None:
        return None
    tokens = {"prompt": usage.input_tokens, "completion": usage.output_tokens, "total": usage.total_tokens}
    if usage.cached_input_tokens is not None:
        tokens["cached_part_of_prompt"] = usage.cached_input_tokens
    if usage.reasoning_tokens is not None:
        tokens["reasoning_part_of_completion"] = usage.reasoning_tokens
    return tokens
