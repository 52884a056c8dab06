"""How far repeats of one task agree: flip rate, modal agreement, ICC(1), Fleiss' kappa, spread of tokens.

Stability is always read beside the pass rate: a strategy at 0 % or 100 % is trivially stable. Whether one strategy
is more stable than another is a paired question (`compare.paired_difference` with `measure="flip_rate"`).
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from agentlab.analysis.units import (
    Estimate,
    as_hits,
    check_frame,
    estimate_over_tasks,
    identities,
    require_columns,
    task_table,
)
from agentlab.errors import ConfigError

WEEK_RANGE_FACTOR = 2.704
"""Expected range of seven independent normal values in standard deviations (Tippett 1925)."""


def task_stability(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per task of one strategy: `cluster, n, passed, flip_rate, modal_agreement, unstable`.

    `n` counts evaluable repeats. `flip_rate` is the share of pairs of repeats that disagree, 2c(n - c) / (n(n - 1)),
    missing for fewer than two repeats; `modal_agreement` the share of repeats with the more frequent result;
    `unstable` whether both results occurred.
    """
    check_frame(runs)
    tasks = task_table(runs)
    n, passed = tasks["n"].astype(float), tasks["hits"]
    return pd.DataFrame(
        {
            "cluster": tasks["cluster"],
            "n": tasks["n"],
            "passed": passed.astype(int),
            "flip_rate": task_flips(tasks),
            "modal_agreement": np.maximum(passed, n - passed) / n.where(n > 0),
            "unstable": (passed > 0) & (passed < n),
        }
    )


def task_flips(tasks: pd.DataFrame) -> "pd.Series[float]":
    """Return the flip rate of each task of a `units.task_table`; missing for fewer than two repeats."""
    n, passed = tasks["n"].astype(float), tasks["hits"]
    return 2 * passed * (n - passed) / (n * (n - 1)).where(n > 1)


def flip_rate(runs: pd.DataFrame, *, confidence: float = 0.95) -> Estimate:
    """Return the mean flip rate of one strategy: how often two repeats of the same task disagree.

    Tasks are averaged inside the cluster, clusters weigh alike, strata are not balanced. Tasks with fewer than two
    evaluable repeats have no value and are listed.
    """
    return _mean_of(runs, "flip_rate", "flip rate", confidence)


def modal_agreement(runs: pd.DataFrame, *, confidence: float = 0.95) -> Estimate:
    """Return the mean share of repeats that agree with the more frequent result of their task, as in `flip_rate`."""
    return _mean_of(runs, "modal_agreement", "modal agreement", confidence)


def _mean_of(runs: pd.DataFrame, column: str, name: str, confidence: float) -> Estimate:
    values = task_stability(runs)[column]
    return estimate_over_tasks(task_table(runs), values, name, balance=False, confidence=confidence)


@dataclass(frozen=True, slots=True)
class VarianceComponents:
    """How much of the variance of `success` lies between tasks and how much between repeats of a task."""

    between_mean_square: float
    within_mean_square: float
    between: float
    """Variance between tasks; may be slightly negative, then it is indistinguishable from 0."""
    within: float
    """Variance between repeats of one task."""
    icc: float
    """ICC(1): share of the variance that tasks explain; NaN when it is not defined."""
    repeats: float
    """Repeats per task; their weighted mean where tasks differ."""
    n_tasks: int


def variance_components(runs: pd.DataFrame) -> VarianceComponents:
    """Return the one-way analysis of variance of `success` with the task as factor.

    All fields are NaN for fewer than two tasks or without any repeated task; `icc` is NaN as well when every run
    ended alike, since there is nothing to explain.

    Source: Shrout and Fleiss 1979, ICC(1,1); for unequal repeats k is (N - sum(n^2) / N) / (G - 1) (Donner 1986).
    """
    check_frame(runs)
    tasks = task_table(runs)
    tasks = tasks[tasks["n"] > 0]
    n, passed = tasks["n"].to_numpy(dtype=float), tasks["hits"].to_numpy(dtype=float)
    groups, total = len(n), float(n.sum())
    if groups < 2 or total <= groups:
        return VarianceComponents(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, groups)
    mean = passed.sum() / total
    between_ms = float((n * (passed / n - mean) ** 2).sum() / (groups - 1))
    within_ms = float((passed * (n - passed) / n).sum() / (total - groups))
    k = (total - float((n**2).sum()) / total) / (groups - 1)
    whole = between_ms + (k - 1) * within_ms
    icc = (between_ms - within_ms) / whole if whole > 0 else math.nan
    return VarianceComponents(between_ms, within_ms, (between_ms - within_ms) / k, within_ms, icc, k, groups)


def fleiss_kappa(runs: pd.DataFrame) -> float:
    """Return Fleiss' kappa over repeats: agreement of repeats beyond what the pass rate alone gives.

    Tasks with fewer than two evaluable repeats are left out; NaN when all runs ended alike.

    Source: Fleiss 1971. Deviates: with unequal repeats tasks weigh alike.
    """
    rows = task_stability(runs)
    rows = rows[rows["n"] > 1]
    if rows.empty:
        return math.nan
    rate = float((rows["passed"] / rows["n"]).mean())
    by_chance = rate**2 + (1 - rate) ** 2
    return (1 - float(rows["flip_rate"].mean()) - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan


@dataclass(frozen=True, slots=True)
class Variation:
    """Relative spread of a positive quantity; each field is NaN for fewer than two values."""

    coefficient: float
    """sd (n - 1) / mean."""
    robust: float
    """Median absolute deviation scaled to the normal sd, / median."""
    quartile: float
    """Interquartile range / median."""
    n: int


def variation(values: ArrayLike) -> Variation:
    """Return the relative spread of the known values (tokens, seconds)."""
    data = np.asarray(values, dtype=float)
    data = data[~np.isnan(data)]
    if len(data) < 2 or not data.mean() or not np.median(data):
        return Variation(math.nan, math.nan, math.nan, len(data))
    median = float(np.median(data))
    return Variation(
        coefficient=float(data.std(ddof=1) / data.mean()),
        robust=float(stats.median_abs_deviation(data, scale="normal")) / median,
        quartile=float(stats.iqr(data)) / median,
        n=len(data),
    )


def task_variation(runs: pd.DataFrame, column: str = "total_tokens") -> pd.DataFrame:
    """Return one row per task: `coefficient, robust, quartile, n` of a column over the task's repeats.

    The number to report for a strategy is the median over tasks of `coefficient`.
    """
    check_frame(runs)
    require_columns(runs, column)
    numbers = pd.Series(pd.to_numeric(runs[column]).to_numpy(dtype=float, na_value=np.nan), index=runs.index)
    groups = numbers.groupby(identities(runs)["task"])
    rows = {str(task): variation(values.to_numpy()) for task, values in groups}
    fields = ("coefficient", "robust", "quartile", "n")
    return pd.DataFrame(
        {name: [getattr(row, name) for row in rows.values()] for name in fields}, index=pd.Index(rows, name="task")
    )


def expected_flip_rate(rate: float, icc: float) -> float:
    """Return the flip rate that a pass rate and an ICC imply: 2p(1 - p)(1 - icc)."""
    return 2 * rate * (1 - rate) * (1 - icc)


def expected_pass_hat_k(rate: float, icc: float, k: int) -> float:
    """Return the pass^k that a pass rate and an ICC imply when task difficulty is beta distributed.

    A strategy is more stable than its pass rate says only when its pass^k exceeds this.

    Raises:
        ConfigError: k below 1, or rate or icc outside [0, 1].
    """
    if k < 1 or not 0 <= rate <= 1 or not 0 <= icc <= 1:
        raise ConfigError(f"pass^{k} at rate {rate:g} and ICC {icc:g}: k must be at least 1, rate and ICC in [0, 1].")
    if icc == 0:
        return rate**k
    if icc == 1:
        return rate
    alpha, beta = rate * (1 - icc) / icc, (1 - rate) * (1 - icc) / icc
    return math.prod((alpha + i) / (alpha + beta + i) for i in range(k))


def expected_daily_spread(rate: float, icc: float, n_tasks: int) -> tuple[float, float]:
    """Return what sampling alone does to one pass over fixed tasks: its sd, and the expected range of seven passes."""
    sd = math.sqrt((1 - icc) * rate * (1 - rate) / n_tasks)
    return sd, WEEK_RANGE_FACTOR * sd


def rolling_rate(runs: pd.DataFrame, window: int) -> "pd.Series[float]":
    """Return the mean `success` of the last `window` evaluable runs, in start order.

    The index is `started_at` where the frame has it, else the frame's own order; the first window - 1 are missing.
    """
    check_frame(runs)
    rows = runs.sort_values("started_at", kind="stable") if "started_at" in runs.columns else runs
    hits = as_hits(rows["success"])
    if "started_at" in rows.columns:
        hits.index = pd.Index(rows["started_at"])
    return hits.dropna().rolling(window).mean()
