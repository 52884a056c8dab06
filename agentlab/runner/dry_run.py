"""What an experiment would do: runs, calls, tokens and cost, as ranges or as unknown. Nothing is run."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from agentlab.budget import Budget
from agentlab.records import Model, Usage
from agentlab.runner.build import TOKENS_PER_CALL, TOKENS_PER_HISTORY_CALL, ModelPool, plan_runs
from agentlab.runner.spec import Experiment
from agentlab.runner.spending import price_of, refuse_unpriced

LEAST_TOKENS = 300
"""Assumed for the least that a run takes: instruction, tools and a short reply."""
OUTPUT_SHARE = 0.1
"""Assumed share of generated tokens, for the cost range alone."""
Number = TypeVar("Number", int, float)


def describe(experiment: Experiment) -> str:
    """Return the plan as text: runs per strategy and model, ranges of calls and tokens, cost where priced.

    The lower end is one call with a short prompt per run (a plan, or an answer at once), the upper end is the budget.

    Raises:
        ConfigError: an unknown name, or a dollar limit on a model without a price, as `run_experiment` says it.
    """
    models = ModelPool()
    planned = plan_runs(experiment, models)
    budget_usd = experiment.budget.cost_usd if experiment.budget != "auto" else None
    refuse_unpriced([models.get(name) for name in experiment.models], experiment.max_cost_usd, budget_usd)
    counts = Counter((run.cell.model, run.cell.strategy.title) for run in planned)
    lines = [
        f"{experiment.name}: {_counted(len(planned), 'run')}, seed {experiment.seed}, "
        f"{_counted(experiment.repeats, 'repeat')}"
    ]
    lines += _limits(experiment)
    for (model, strategy), count in sorted(counts.items()):
        mine = [run for run in planned if (run.cell.model, run.cell.strategy.title) == (model, strategy)]
        low = sum(min(LEAST_TOKENS, _or_endless(run.budget.total_tokens)) for run in mine)
        high = _total([_most_tokens(run.budget) for run in mine])
        calls = (
            f"{int(sum(min(1, _or_endless(_most_calls(run.budget))) for run in mine)):,} to "
            f"{_text(_total([_most_calls(run.budget) for run in mine]))}"
        )
        lines.append(
            f"  {strategy} with {model}: {count} runs, model calls {calls}, tokens {int(low):,} to {_text(high)}, "
            f"cost {_cost_range(models.get(model), int(low), high, _total([run.budget.cost_usd for run in mine]))}"
        )
    if experiment.repeats > 1 and experiment.temperature == 0:
        lines.append("Warning: repeats at temperature 0 may be identical; a flip rate of 0 then shows no stability.")
    return "\n".join(lines)


def _most_calls(budget: Budget) -> int | None:
    by_tokens = max(1, budget.total_tokens // TOKENS_PER_CALL) if budget.total_tokens is not None else None
    return min((limit for limit in (budget.model_calls, by_tokens) if limit is not None), default=None)


def _most_tokens(budget: Budget) -> int | None:
    """The budget's tokens, else what so many calls with a growing history take."""
    if budget.total_tokens is not None or budget.model_calls is None:
        return budget.total_tokens
    n_calls = budget.model_calls
    return n_calls * TOKENS_PER_CALL + TOKENS_PER_HISTORY_CALL * n_calls * (n_calls + 1) // 2


def _limits(experiment: Experiment) -> list[str]:
    """The limits that hold, for people; runs end at their budget, no run is started past the others."""
    lines = []
    if experiment.max_cost_usd is not None:
        lines.append(f"  max_cost_usd ${experiment.max_cost_usd:,g}: no further run is started once it is reached")
    if experiment.max_tokens is not None:
        lines.append(f"  max_tokens {experiment.max_tokens:,}: no further run is started once it is reached")
    if experiment.budget == "auto":
        return [*lines, "  budget of a run: auto (tokens and seconds by the length of its task)"]
    held = experiment.budget.model_dump(exclude_none=True)
    text = ", ".join(
        f"{name} {value:,g}" if isinstance(value, float) else f"{name} {value:,}" for name, value in held.items()
    )
    return [*lines, f"  budget of a run: {text or 'unlimited'}"]


def _or_endless(limit: int | None) -> float:
    return math.inf if limit is None else limit


def _total(values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _cost_range(model: Model, low_tokens: int, high_tokens: int | None, budget_usd: float | None) -> str:
    """The cost of so many tokens, in which a budget in dollars is the upper end where it is lower."""
    low, high = _cost(model, low_tokens), _cost(model, high_tokens)
    if low is None:
        return "unknown"
    ends = [end for end in (high, budget_usd) if end is not None]
    first = f"${min([low, *ends]):,.2f}"
    last = f"${min(ends):,.2f}" if ends else "unknown"
    return first if first == last else f"{first} to {last}"


def _cost(model: Model, tokens: int | None) -> float | None:
    if tokens is None:
        return None
    output_tokens = round(tokens * OUTPUT_SHARE)
    return price_of(model, Usage(input_tokens=tokens - output_tokens, output_tokens=output_tokens))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _text(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
