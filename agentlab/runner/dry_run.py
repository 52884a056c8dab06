"""What an experiment would do: runs, calls, tokens and cost, as ranges or as unknown. Nothing is run."""

from collections import Counter
from collections.abc import Sequence

from agentlab.budget import Budget
from agentlab.records import Model, Usage
from agentlab.runner.build import TOKENS_PER_CALL, TOKENS_PER_HISTORY_CALL, ModelPool, PlannedRun, plan_runs
from agentlab.runner.spec import Experiment
from agentlab.runner.spending import price_of

OUTPUT_SHARE = 0.1
"""Assumed share of generated tokens, for the cost range alone."""


def describe(experiment: Experiment) -> str:
    """Return the plan as text: runs per strategy and model, ranges of calls and tokens, cost where priced.

    The lower end assumes one call per reference step and one for the answer, the upper end is the budget.
    """
    models = ModelPool()
    planned = plan_runs(experiment, models)
    counts = Counter((run.cell.model, run.cell.strategy.title) for run in planned)
    lines = [f"{experiment.name}: {len(planned)} runs, seed {experiment.seed}, {experiment.repeats} repeats"]
    for (model, strategy), count in sorted(counts.items()):
        mine = [run for run in planned if (run.cell.model, run.cell.strategy.title) == (model, strategy)]
        low = sum(_least_tokens(run) for run in mine)
        high = _total([run.budget.total_tokens for run in mine])
        calls = (
            f"{sum(_least_calls(run) for run in mine):,} to {_text(_total([_most_calls(run.budget) for run in mine]))}"
        )
        lines.append(
            f"  {strategy} with {model}: {count} runs, model calls {calls}, tokens {low:,} to {_text(high)}, "
            f"cost {_range(_cost(models.get(model), low), _cost(models.get(model), high))}"
        )
    if experiment.repeats > 1 and experiment.temperature == 0:
        lines.append("Warning: repeats at temperature 0 may be identical; a flip rate of 0 then shows no stability.")
    return "\n".join(lines)


def _least_calls(run: PlannedRun) -> int:
    return run.task.declared.steps + 1


def _least_tokens(run: PlannedRun) -> int:
    n_calls = _least_calls(run)
    return n_calls * TOKENS_PER_CALL + TOKENS_PER_HISTORY_CALL * n_calls * (n_calls + 1) // 2


def _most_calls(budget: Budget) -> int | None:
    by_tokens = budget.total_tokens // TOKENS_PER_CALL if budget.total_tokens is not None else None
    return min((limit for limit in (budget.model_calls, by_tokens) if limit is not None), default=None)


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _cost(model: Model, tokens: int | None) -> str:
    if tokens is None:
        return "unknown"
    output_tokens = round(tokens * OUTPUT_SHARE)
    price = price_of(model, Usage(input_tokens=tokens - output_tokens, output_tokens=output_tokens))
    return "unknown" if price is None else f"${price:,.2f}"


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _text(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
