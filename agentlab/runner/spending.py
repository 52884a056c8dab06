"""Limits on what an experiment may spend: once reached, no further run is started; running ones end by themselves."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentlab.errors import ConfigError
from agentlab.models.prices import PRICES_VARIABLE
from agentlab.records import Event, Model, Usage
from agentlab.runner.run_one import RunResult

SPENT_COLUMNS = ("run_id", "attempt", "state", "known_tokens", "cost_usd", "total_tokens")
"""Columns of the runs that `Spending.add_stored` needs."""


@dataclass(slots=True)
class Spending:
    """What all attempts of an experiment have spent, against its limits.

    Unknown is never taken as 0: an estimate stands in for usage that no server gave, so that the limits still hold.
    """

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    estimated_calls: int = 0
    """Calls without usage whose estimate is part of the sums."""
    unknown_attempts: int = 0
    """Attempts whose spend is unknown and not estimated (killed ones): the sums are lower bounds."""

    @property
    def is_limited(self) -> bool:
        """True when there is a limit to keep."""
        return self.max_cost_usd is not None or self.max_tokens is not None

    def add_stored(self, rows: Iterable[Mapping[str, Any]], trace: Callable[[str, int], list[Event]]) -> None:
        """Add what attempts in the store have spent, those that do not count included: they were billed.

        Args:
            rows: runs with `SPENT_COLUMNS`.
            trace: gives the events of an attempt; asked only where a limit needs an estimate from them.
        """
        for row in rows:
            if row["state"] == "interrupted":
                self.unknown_attempts += 1
            elif row["state"] == "finished":
                is_known = row["total_tokens"] is not None or not self.is_limited
                events = [] if is_known else trace(row["run_id"], row["attempt"])
                calls = [event.data for event in events if event.kind == "model_call"]
                estimates = [call for call in calls if "estimated_tokens" in call]
                cost_usd = row["cost_usd"]
                if cost_usd is None:
                    cost_usd = sum(call.get("cost_usd") or call.get("estimated_cost_usd", 0.0) for call in calls)
                tokens = (row["known_tokens"] or 0) + sum(call["estimated_tokens"] for call in estimates)
                self._add(tokens, cost_usd, len(estimates), is_known=row["total_tokens"] is not None)

    def add(self, result: RunResult) -> None:
        """Add a finished run."""
        meter = result.meter
        self._add(
            meter.total_tokens + meter.estimated_tokens,
            meter.cost_usd + meter.estimated_cost_usd,
            meter.estimated_calls,
            is_known=meter.unknown_usage_calls == 0,
        )

    def reached(self) -> str | None:
        """Return which limit is reached, in words; None while more runs may be started."""
        least = "about" if self.estimated_calls else "at least"
        if self.max_cost_usd is not None and self.cost_usd >= self.max_cost_usd:
            return f"max_cost_usd {self.max_cost_usd:g} is reached ({least} ${self.cost_usd:.4f})"
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"max_tokens {self.max_tokens:,} is reached ({least} {self.tokens:,})"
        return None

    def doubts(self) -> list[str]:
        """Return what makes the sums uncertain, one sentence each; nothing where no limit is set."""
        found = []
        if self.is_limited and self.estimated_calls:
            found.append(
                f"The spend held against the limit is an estimate for {self.estimated_calls} calls without usage"
            )
        if self.is_limited and self.unknown_attempts:
            found.append(f"The unknown spend of {self.unknown_attempts} attempts comes on top of what the limit counts")
        return found

    def _add(self, tokens: int, cost_usd: float, estimated_calls: int, *, is_known: bool) -> None:
        self.tokens += tokens
        self.cost_usd += cost_usd
        self.estimated_calls += estimated_calls
        self.unknown_attempts += not is_known and not estimated_calls


def refuse_unpriced(models: Iterable[Model], max_cost_usd: float | None, budget_cost_usd: float | None) -> None:
    """Accept a dollar limit only on models whose price is known.

    Raises:
        ConfigError: a model has no price, so the limit could not be kept.
    """
    if max_cost_usd is None and budget_cost_usd is None:
        return
    for model in models:
        if price_of(model, Usage(1, 1)) is None:
            raise ConfigError(
                f"A dollar limit needs prices, and {model.name} has none. Give it one in a YAML file named by "
                f"{PRICES_VARIABLE} (model, input_per_mtok, output_per_mtok, from), or limit tokens with max_tokens."
            )


def price_of(model: Model, usage: Usage) -> float | None:
    """Return the price of tokens on a model in US dollars; None where it is unknown."""
    price = getattr(model, "price_usd", None)
    return None if price is None else price(usage)
