"""What runs cost: tokens and money per run and per correct verdict, with what is unknown said beside it.

Unknown is not zero: a sum over partly unknown runs is a lower bound and is marked as one. Price 0 means free.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from agentlab.analysis.intervals import Interval, mean_over_units
from agentlab.analysis.units import (
    as_hits,
    check_frame,
    identities,
    joined,
    levels,
    require_columns,
    rows_of,
    task_table,
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A sum over runs of which some may be unknown."""

    known: float
    """Sum of what is known; NaN when nothing is."""
    mean: float
    """Mean of the runs whose value is known; NaN when none is."""
    n_runs: int
    n_known: int
    """Runs whose value is known completely."""
    unit: str

    @property
    def n_unknown(self) -> int:
        """Runs whose value is unknown or known in part."""
        return self.n_runs - self.n_known

    @property
    def is_lower_bound(self) -> bool:
        """True when any run's value is unknown: `known` is then only a part of the sum."""
        return self.n_unknown > 0

    def __str__(self) -> str:
        if math.isnan(self.known):
            return f"unknown ({self.n_unknown} of {self.n_runs} runs without {self.unit})"
        number = f"{self.known:,.0f}" if self.unit == "tokens" else f"{self.known:,.4f}"
        if not self.is_lower_bound:
            return f"{number} {self.unit}"
        return f"at least {number} {self.unit} ({self.n_known} of {self.n_runs} runs known)"


def amount(values: "pd.Series[Any]", unit: str, at_least: "pd.Series[Any] | None" = None) -> Amount:
    """Return the sum of a column in which missing means unknown.

    Args:
        values: one value per run.
        unit: what is counted (tokens, USD).
        at_least: what is known of runs whose value is missing (`known_tokens`).
    """
    numbers = _numbers(values)
    known = ~np.isnan(numbers)
    parts = numbers.copy()
    if at_least is not None:
        parts = np.where(known, numbers, _numbers(at_least))
    something = not np.isnan(parts).all() and (known.any() or float(np.nansum(parts)) > 0)
    return Amount(
        known=float(np.nansum(parts)) if something else math.nan,
        mean=float(numbers[known].mean()) if known.any() else math.nan,
        n_runs=len(numbers),
        n_known=int(known.sum()),
        unit=unit,
    )


def tokens(runs: pd.DataFrame) -> Amount:
    """Return the total tokens of the runs; runs without usage make it a lower bound."""
    require_columns(runs, "total_tokens")
    return amount(runs["total_tokens"], "tokens", runs["known_tokens"] if "known_tokens" in runs.columns else None)


def money(runs: pd.DataFrame) -> Amount:
    """Return the cost of the runs in US dollars; runs without a price make it a lower bound."""
    require_columns(runs, "cost_usd")
    return amount(runs["cost_usd"], "USD")


def spend(runs: pd.DataFrame, by: str = "strategy") -> pd.DataFrame:
    """Return what was spent, one row per level of `by`, every attempt in the frame included.

    Columns: `runs, tokens_at_least, tokens_unknown_runs, cost_at_least_usd, unpriced_runs, unpriced_models`. With no
    unknown run the sums are exact. `unpriced_models` names the models behind the runs without a price.
    """
    require_columns(runs, by, "total_tokens", "cost_usd")
    rows = []
    for level in levels(runs, by):
        part = rows_of(runs, by, level)
        used, paid = tokens(part), money(part)
        unpriced = part[part["cost_usd"].isna()]
        rows.append(
            {
                by: level,
                "runs": len(part),
                "tokens_at_least": used.known,
                "tokens_unknown_runs": used.n_unknown,
                "cost_at_least_usd": paid.known,
                "unpriced_runs": paid.n_unknown,
                "unpriced_models": joined(unpriced["model"]) if "model" in unpriced.columns else "",
            }
        )
    table = pd.DataFrame(rows, columns=[by, *_SPEND_COLUMNS]).set_index(by)
    return table.astype({"tokens_at_least": "Float64"}).astype({"tokens_at_least": "Int64"})


_SPEND_COLUMNS = (
    "runs", "tokens_at_least", "tokens_unknown_runs", "cost_at_least_usd", "unpriced_runs", "unpriced_models",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two sums (cost per correct verdict); NaN with a note where it is undefined."""

    estimate: float
    standard_error: float
    low: float
    high: float
    n_units: int
    is_lower_bound: bool = False
    """True when a part of the numerator is unknown."""
    note: str = ""

    def __repr__(self) -> str:
        if math.isnan(self.estimate):
            return f"undefined ({self.note})"
        bound = "at least " if self.is_lower_bound else ""
        return f"{bound}{self.estimate:.6g} [{self.low:.6g}, {self.high:.6g}] ({self.n_units} units)"


def ratio_of_sums(costs: ArrayLike, successes: ArrayLike, confidence: float = 0.95) -> Ratio:
    """Return sum(costs) / sum(successes) over units (tasks or clusters), failures' cost included.

    The standard error is that of the delta method, sqrt(sum((c - R s)^2) G / (G - 1)) / sum(s). The mean of
    per-task ratios is another, wrong number: it drops the tasks without a success.

    Returns:
        NaN with a note when nothing succeeded; NaN limits for fewer than two units.
    """
    c, s = np.asarray(costs, dtype=float), np.asarray(successes, dtype=float)
    n, total = len(c), float(s.sum())
    if total <= 0:
        return Ratio(math.nan, math.nan, math.nan, math.nan, n, note="no correct verdict")
    estimate = float(c.sum()) / total
    if n < 2:
        return Ratio(estimate, math.nan, math.nan, math.nan, n, note="one unit: no interval")
    error = math.sqrt(float(((c - estimate * s) ** 2).sum()) * n / (n - 1)) / total
    half = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * error
    return Ratio(estimate, error, max(0.0, estimate - half), estimate + half, n)


def per_correct_verdict(runs: pd.DataFrame, column: str = "total_tokens") -> Ratio:
    """Return what one correct verdict (`success` 1) of a strategy takes: tokens or US dollars.

    Evaluable runs only, failed ones included; the unit is the cluster. Unknown values make it a lower bound.

    Args:
        runs: runs of one strategy.
        column: total_tokens or cost_usd.
    """
    check_frame(runs)
    require_columns(runs, column)
    hits = as_hits(runs["success"])
    rows = runs[hits.notna()]
    values = _numbers(rows[column])
    unknown = np.isnan(values)
    if column == "total_tokens" and "known_tokens" in rows.columns:
        values = np.where(unknown, _numbers(rows["known_tokens"]), values)
    if len(rows) and np.isnan(values).all():
        return Ratio(math.nan, math.nan, math.nan, math.nan, 0, True, f"{column} of no run is known")
    sums = pd.DataFrame({"cost": np.nan_to_num(values), "hit": hits[hits.notna()].to_numpy()}, index=rows.index)
    totals = sums.groupby(identities(rows)["cluster"]).sum()
    ratio = ratio_of_sums(totals["cost"], totals["hit"])
    if not unknown.any():
        return ratio
    note = ratio.note or f"{int(unknown.sum())} of {len(rows)} runs unknown"
    return Ratio(ratio.estimate, ratio.standard_error, ratio.low, ratio.high, ratio.n_units, True, note)


def geometric_mean_ratio(numerators: ArrayLike, denominators: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the geometric mean of paired ratios with the t interval of their logarithms."""
    logs = np.log(np.asarray(numerators, dtype=float) / np.asarray(denominators, dtype=float))
    interval = mean_over_units(logs, confidence)
    low, high = math.exp(interval.low), math.exp(interval.high)
    return Interval(math.exp(interval.estimate), low, high, interval.n, "geometric mean, t on logarithms")


def token_ratio(runs: pd.DataFrame, strategy: str, baseline: str, column: str = "total_tokens") -> Interval:
    """Return how many times the tokens of the baseline a strategy takes on the same tasks.

    Per task the ratio of mean tokens over repeats (known ones), averaged on the log scale inside the cluster, then
    over clusters. Tasks without known tokens on either side are left out; `n` is the number of clusters.
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy", column)
    means = {}
    for name in (strategy, baseline):
        rows = rows_of(runs, "strategy", name)
        means[name] = pd.Series(_numbers(rows[column]), index=rows.index).groupby(identities(rows)["task"]).mean()
    pairs = pd.DataFrame({"of": means[strategy], "to": means[baseline]}).dropna()
    pairs = pairs[(pairs["of"] > 0) & (pairs["to"] > 0)]
    if pairs.empty:
        return Interval(math.nan, math.nan, math.nan, 0, "geometric mean, t on logarithms")
    cluster_of = identities(runs).groupby("task")["cluster"].first()
    logs = pd.Series(np.log(pairs["of"] / pairs["to"]), index=pairs.index)
    logs = logs.groupby(cluster_of.reindex(pairs.index)).mean()
    return geometric_mean_ratio(np.exp(logs), np.ones(len(logs)))


def incremental_cost(
    costs: ArrayLike, successes: ArrayLike, baseline_costs: ArrayLike, baseline_successes: ArrayLike
) -> Ratio:
    """Return the extra cost per extra success of a strategy over the baseline, paired by task.

    It is NaN with a note when the interval of the extra successes covers 0: the ratio then changes sign within what
    the data allow, and a cost-quality plane says more.
    """
    more_cost = np.asarray(costs, dtype=float) - np.asarray(baseline_costs, dtype=float)
    more_success = np.asarray(successes, dtype=float) - np.asarray(baseline_successes, dtype=float)
    interval = mean_over_units(more_success)
    n = len(more_cost)
    if math.isnan(interval.low) or interval.low <= 0 <= interval.high:
        return Ratio(math.nan, math.nan, math.nan, math.nan, n, note="the number of extra successes may be 0")
    estimate = float(more_cost.sum() / more_success.sum())
    error = math.sqrt(float(((more_cost - estimate * more_success) ** 2).sum()) * n / (n - 1))
    error /= abs(float(more_success.sum()))
    half = float(stats.t.ppf(0.975, n - 1)) * error
    return Ratio(estimate, error, estimate - half, estimate + half, n)


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names on the frontier, cheapest first.

    A point stays unless another is at least as good and at most as expensive, and better in one of the two.

    Args:
        points: (quality, cost) by name; points with an unknown coordinate are left out.
    """
    known = {name: point for name, point in points.items() if not any(math.isnan(value) for value in point)}
    kept = [
        name
        for name, (quality, cost) in known.items()
        if not any(q >= quality and c <= cost and (q > quality or c < cost) for q, c in known.values())
    ]
    return sorted(kept, key=lambda name: known[name][1])


def frontier_shares(
    runs: pd.DataFrame, column: str = "total_tokens", *, n_resamples: int = 2_000, seed: int = 0
) -> "pd.Series[float]":
    """Return how often each strategy is on the cost-quality frontier when clusters are drawn again.

    Quality is the mean over the drawn clusters (each the mean of its strata), cost the mean of `column` over them.
    Strategies that lack a known value in any cluster have no share (missing).
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy", column)
    names, quality, cost = levels(runs), {}, {}
    for name in names:
        rows = rows_of(runs, "strategy", name)
        tasks = task_table(rows)
        values = tasks["hits"] / tasks["n"].where(tasks["n"] > 0)
        quality[name] = values.groupby([tasks["cluster"], tasks["defective"]]).mean().groupby(level=0).mean()
        cost[name] = pd.Series(_numbers(rows[column]), index=rows.index).groupby(identities(rows)["cluster"]).mean()
    q, c = pd.DataFrame(quality).T, pd.DataFrame(cost).T
    complete = [name for name in names if q.loc[name].notna().all() and c.loc[name].notna().all()]
    if not complete or not len(q.columns):
        return pd.Series(math.nan, index=pd.Index(names, name="strategy"), dtype=float)
    c = c[q.columns]
    draws = np.random.default_rng(seed).integers(0, len(q.columns), size=(n_resamples, len(q.columns)))
    q_means, c_means = (
        q.loc[complete].to_numpy()[:, draws].mean(axis=2),
        c.loc[complete].to_numpy()[:, draws].mean(axis=2),
    )
    counts = dict.fromkeys(complete, 0)
    for draw in range(n_resamples):
        for name in pareto({n: (q_means[i, draw], c_means[i, draw]) for i, n in enumerate(complete)}):
            counts[name] += 1
    shares = {name: counts[name] / n_resamples for name in complete}
    return pd.Series([shares.get(name, math.nan) for name in names], index=pd.Index(names, name="strategy"))


def _numbers(values: "pd.Series[Any]") -> Any:
    return pd.to_numeric(values).to_numpy(dtype=float, na_value=np.nan)
