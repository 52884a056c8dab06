"""The columns of the three frames, with their pandas dtypes; `docs/schema.md` is generated from here.

Rules: a missing value is missing (never 0), ids are strings, money is in US dollars, times are UTC.
"""

from typing import NamedTuple

END_REASONS = (
    "answered", "gave_up", "budget_model_calls", "budget_tool_calls", "budget_total_tokens", "budget_cost_usd",
    "budget_work_s", "budget_rounds", "invalid_plan", "format_limit", "loop_detected", "context_overflow",
    "content_filtered", "escalated", "cancelled", "interrupted", "infrastructure", "error",
)  # fmt: skip
EXCLUDED_END_REASONS = ("infrastructure", "cancelled", "interrupted", "error")
OUTCOMES = (
    "found", "clean", "incomplete_right", "missed", "masked", "wrong_defect", "false_alarm", "incomplete_wrong",
    "no_verdict", "excluded",
)  # fmt: skip
MODEL_KINDS = ("real", "local", "simulated", "scripted", "replay")
STATES = ("planned", "running", "finished", "interrupted")
FAILURE_CLASSES = (
    "budget", "loop_detected", "malformed_reply", "context_overflow", "content_filtered", "invalid_plan",
    "gave_up", "escalated", "inconsistent_answer", "harmful_effect", "acted_when_it_should_not", "did_not_act",
    "false_finish", "missed_check", "wrong_verdict", "no_answer", "hallucinated_tool", "wrong_argument",
    "repeated_call", "unknown",
)  # fmt: skip


class Column(NamedTuple):
    """One column: its pandas dtype (`category` with `levels` where they are fixed) and its meaning."""

    name: str
    dtype: str
    meaning: str
    levels: tuple[str, ...] | None = None


def _category(name: str, levels: tuple[str, ...], meaning: str) -> Column:
    return Column(name, "category", meaning, levels)


RUNS = (
    Column("run_id", "string", "Hash of every factor that defines the run."),
    Column("attempt", "Int64", "0, 1, ...: re-executions after infrastructure trouble or an interruption."),
    Column("n_attempts", "Int64", "Attempts of this run in the store, this one included."),
    Column("experiment", "string", "Name of the experiment."),
    Column("suite", "string", "Collection the task belongs to."),
    Column("task_id", "string", "The task; twins have their own id."),
    Column("task_version", "Int64", "Version of the task."),
    Column("cluster", "string", "The flow; the unit of analysis. A healthy task and its twins share it."),
    Column("defective", "boolean", "True for a defect twin."),
    Column("complexity", "Int64", "Steps of the reference path."),
    Column("language", "string", "Language of the instruction: zh or en."),
    Column("strategy", "string", "Label of the strategy with its parameter set; the factor that is compared."),
    Column("strategy_name", "string", "Registered name of the strategy."),
    Column("strategy_version", "string", "Version of the strategy."),
    Column("strategy_parameters", "string", "Parameters as JSON."),
    Column("answer_by", "string", "Who writes the answer: model, python, delegate."),
    Column("model", "string", "provider:name as requested."),
    _category("model_kind", MODEL_KINDS, "real, local, simulated, scripted or replay; kinds are never pooled."),
    Column("repeat", "Int64", "Index of the repetition, from 0."),
    Column("seed", "Int64", "Seed of the run; the same for all strategies (runs are paired)."),
    Column("temperature", "Float64", "Sampling temperature."),
    Column("examples", "string", "none or one worked example in the prompt."),
    Column("constrained", "string", "on when decoding was bound to a schema or grammar."),
    Column("memory", "string", "Memory setting."),
    Column("observe", "string", "Observation setting."),
    _category("state", STATES, "planned, running, finished, interrupted."),
    _category("end_reason", END_REASONS, "Why the run ended."),
    _category("truth_verdict", ("passed", "failed", "incomplete"), "The verdict that follows from the truth."),
    _category(
        "verdict", ("passed", "failed", "incomplete"), "Derived by Python from the claimed statuses; missing: none."
    ),
    _category("claimed_verdict", ("passed", "failed", "incomplete"), "The verdict as the agent submitted it."),
    Column("success", "Int64", "1 right and entitled to say so, 0 not; missing: not evaluable (excluded)."),
    _category("outcome", OUTCOMES, "What the run did about the defect."),
    Column("exposed", "boolean", "Did an observation ever show a true defect? Missing where there is none."),
    Column("checks_total", "Int64", "Criteria of the task."),
    Column("checks_right", "Int64", "Criteria claimed with their true status and with support."),
    Column("checks_defective", "Int64", "Criteria that are truly failed."),
    Column("checks_found", "Int64", "Of those, claimed failed with support."),
    Column("members_defective", "Int64", "Failing members of criteria over an unknown number of things."),
    Column("members_named", "Int64", "Of those, named in the answer."),
    _category("failure_class", FAILURE_CLASSES, "First cause of success 0; missing on success and when excluded."),
    Column("failure_classes", "string", "All causes that apply, as a JSON list."),
    Column("budget_bound", "string", "The limit that ended the run, if one did."),
    Column("n_model_calls", "Int64", "Requests to the model, unreadable replies included."),
    Column("n_sends", "Int64", "HTTP exchanges behind them, repeats included."),
    Column("n_tool_calls", "Int64", "Tool calls that were executed."),
    Column(
        "n_refused_calls", "Int64", "Tool calls that were not executed: bad arguments, unknown tool, refused effect."
    ),
    Column("n_repeated_calls", "Int64", "Calls that repeat an earlier one with the same result."),
    Column("n_malformed", "Int64", "Replies that could not be used."),
    Column("input_tokens", "Int64", "Prompt tokens, cached ones included; missing when any call's usage is unknown."),
    Column("cached_input_tokens", "Int64", "Part of input_tokens from the provider's cache."),
    Column("output_tokens", "Int64", "Generated tokens, reasoning included."),
    Column("reasoning_tokens", "Int64", "Part of output_tokens."),
    Column("total_tokens", "Int64", "input_tokens + output_tokens; missing when any call's usage is unknown."),
    Column("known_tokens", "Int64", "Tokens that are known: a lower bound of total_tokens."),
    Column("unknown_usage_calls", "Int64", "Model calls without usage."),
    Column("usage_source", "string", "provider or simulated (estimated)."),
    Column("cost_usd", "Float64", "Cost; missing when any call is unpriced."),
    Column("unpriced_calls", "Int64", "Model calls without a price."),
    Column("wall_s", "Float64", "Seconds from start to end."),
    Column("work_s", "Float64", "Seconds of model and tool work; waits excluded."),
    Column("model_s", "Float64", "Seconds of model work."),
    Column("tool_s", "Float64", "Seconds of tool work."),
    Column("started_at", "datetime64[us, UTC]", "Start of the attempt."),
    Column("ended_at", "datetime64[us, UTC]", "End of the attempt; missing while it runs."),
    Column("error", "string", "Message of an infrastructure failure or of a bug of ours."),
    Column("prompt_hash", "string", "Hash of the prompt texts."),
    Column("tools_hash", "string", "Hash of the tool schemas."),
    Column("environment_version", "string", "Version of the environment."),
    Column("source_digest", "string", "Digest of the strategy's source (provenance, not a factor)."),
    Column("suite_digest", "string", "Digest of the suite's Python files (provenance, not a factor)."),
    Column("package_version", "string", "Version of agentlab."),
)

STEPS = (
    Column("run_id", "string", "The run."),
    Column("attempt", "Int64", "Attempt of the run."),
    Column("step", "Int64", "Index of the tool call in the run, from 0."),
    Column("actor", "string", "Who acted."),
    Column("plan_step_id", "string", "Plan step behind the call, if any."),
    Column("tool", "string", "Name of the tool."),
    Column("arguments", "string", "Arguments as JSON."),
    Column("executed", "boolean", "False when the call was refused before it reached the environment."),
    Column("success", "boolean", "Did the tool run?"),
    Column("passed", "boolean", "Business result of a check; missing for queries."),
    Column("check", "string", "The criterion that was checked."),
    Column("subject", "string", "What was looked at."),
    Column("error_kind", "string", "Why success is false."),
    Column("tries", "Int64", "Executions of the tool for this call."),
    Column("repeated", "boolean", "True when the call repeats an earlier one with the same result."),
    Column("t_s", "Float64", "Seconds since the start of the run."),
    Column("duration_s", "Float64", "Seconds of the call."),
)

CALLS = (
    Column("run_id", "string", "The run."),
    Column("attempt", "Int64", "Attempt of the run."),
    Column("call", "Int64", "Index of the model call in the run, from 0."),
    Column("actor", "string", "Who asked."),
    Column("model_returned", "string", "Model name as the server returned it."),
    Column("input_tokens", "Int64", "Prompt tokens, cached ones included; missing: unknown."),
    Column("cached_input_tokens", "Int64", "Part of input_tokens."),
    Column("output_tokens", "Int64", "Generated tokens, reasoning included."),
    Column("reasoning_tokens", "Int64", "Part of output_tokens."),
    Column("usage_source", "string", "provider or simulated."),
    Column("cost_usd", "Float64", "Cost; missing: unpriced."),
    Column("latency_s", "Float64", "Seconds of the sends, without waits."),
    Column("wait_s", "Float64", "Seconds of back-off and rate-limit waits."),
    Column("n_sends", "Int64", "HTTP exchanges."),
    Column("finish_reason", "string", "Why the generation ended."),
    Column("problem", "string", "Why the reply could not be used."),
    Column("t_s", "Float64", "Seconds since the start of the run."),
)

FRAMES = {"runs": RUNS, "steps": STEPS, "calls": CALLS}
