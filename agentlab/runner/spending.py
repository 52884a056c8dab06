"""Limits on what an experiment may spend: once reached, no further run is started; running ones end by themselves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentlab.errors import ConfigError
from agentlab.models.prices import PRICES_VARIABLE
from agentlab.records import Model, Usage
from agentlab.runner.run_one import RunResult

SPENT_COLUMNS = ("state", "known_tokens", "cost_usd", "total_tokens")
"""Columns of the runs that `Spending.add_stored` needs."""


@dataclass(slots=True)
class Spending:
    """What all attempts of an experiment have spent, against its limits. Unknown spend is counted, never taken as 0."""

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    cost_usd: float = 0.0
    tokens: int = 0
    unknown_attempts: int = 0
    """Attempts whose spend is not fully known (killed, no usage, no price): the sums are lower bounds."""

    def add_stored(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add what attempts in the store have spent, those that do not count included: they were billed."""
        for row in rows:
            if row["state"] in ("finished", "interrupted"):
                self._add(row["known_tokens"], row["cost_usd"], row["total_tokens"])

    def add(self, result: RunResult) -> None:
        """Add a finished run; an estimate stands in for usage that no server gave, so that the limit still holds."""
        meter = result.meter
        total = meter.total_tokens if meter.unknown_usage_calls == 0 else None
        self._add(meter.total_tokens + meter.estimated_tokens, meter.cost_usd, total)

    def reached(self) -> str | None:
        """Return which limit is reached, in words; None while more runs may be started."""
        about = f"; {self.unknown_attempts} attempts with unknown spend come on top" if self.unknown_attempts else ""
        if self.max_cost_usd is not None and self.cost_usd >= self.max_cost_usd:
            return f"max_cost_usd {self.max_cost_usd:g} is reached (at least ${self.cost_usd:.4f}{about})"
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            return f"max_tokens {self.max_tokens:,} is reached (at least {self.tokens:,}{about})"
        return None

    def _add(self, tokens: int | None, cost_usd: float | None, total_tokens: int | None) -> None:
        self.tokens += tokens or 0
        self.cost_usd += cost_usd or 0.0
        self.unknown_attempts += total_tokens is None


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
