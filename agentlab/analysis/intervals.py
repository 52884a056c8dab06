"""Intervals for one number: a proportion of independent runs, a mean over units, a seeded bootstrap over tasks.

Intervals of a rate are kept inside [0, 1]; fewer than two units give no interval (NaN), never a width of zero.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from agentlab.errors import ConfigError

Array = NDArray[np.float64]

FEW_TASKS = 15
"""Below this many tasks a bootstrap interval is too narrow and says so."""
SAME = 1e-12
"""Numbers closer than this are equal: means of the same runs differ by rounding alone."""


@dataclass(frozen=True, slots=True)
class Interval:
    """One number with its interval; `low` and `high` are NaN where the data cannot give one."""

    estimate: float
    low: float
    high: float
    n: int
    """Units behind the number (runs, tasks or clusters; the method says which)."""
    method: str
    note: str = ""
    """A caution that belongs beside the interval."""

    def __repr__(self) -> str:
        text = f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}] (n = {self.n}; {self.method})"
        return f"{text} - {self.note}" if self.note else text


def wilson(passed: float, n: int, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval of `passed` of `n` independent runs: the one to display.

    A fractional `passed` is allowed: a mean of values in [0, 1] varies at most as much as passes do, so the
    interval is then on the wide side.
    """
    return _proportion(passed, n, confidence, "wilson", "Wilson")


def clopper_pearson(passed: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the exact (Clopper-Pearson) interval of `passed` of `n` independent runs: the one for guarantees."""
    return _proportion(passed, n, confidence, "beta", "Clopper-Pearson")


def jeffreys(passed: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the Jeffreys interval of `passed` of `n` independent runs.

    Deviates: its limits are 0 when nothing passed and 1 when everything did, as Brown, Cai and DasGupta (2001)
    recommend; the plain beta quantiles would exclude the estimate.
    """
    interval = _proportion(passed, n, confidence, "jeffreys", "Jeffreys")
    low = 0.0 if passed == 0 else interval.low
    high = 1.0 if passed == n else interval.high
    return Interval(interval.estimate, low, high, interval.n, interval.method)


def _proportion(passed: float, n: int, confidence: float, library_name: str, method: str) -> Interval:
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0, method)
    if not 0 <= passed <= n:
        raise ConfigError(f"{passed} of {n} is no proportion: passes must lie between 0 and the number of runs.")
    low, high = proportion_confint(passed, n, alpha=1 - confidence, method=library_name)
    return Interval(passed / n, max(0.0, float(low)), min(1.0, float(high)), n, method)


def zero_failures_bound(n: int, confidence: float = 0.95) -> float:
    """Return the largest failure rate that `n` independent runs without a failure leave open (one-sided)."""
    return float(1 - (1 - confidence) ** (1 / n)) if n else 1.0


def mean_over_units(
    values: ArrayLike, confidence: float = 0.95, *, limits: tuple[float, float] | None = None, n_effective: int = 0
) -> Interval:
    """Return the mean of independent units with its t interval.

    Args:
        values: one number per unit (task or cluster); NaN is left out.
        confidence: coverage of the interval.
        limits: range the number cannot leave; the interval is cut there.
        n_effective: units that decide the degrees of freedom where fewer than all do; 0 means all.

    Returns:
        NaN limits for fewer than two units or when all are equal: equal units say nothing of their spread, and
        a width of zero would look like certainty.

    Source: Miller 2024, arXiv 2411.00640, section 2 (repeats averaged in the task, spread taken over tasks).
    """
    data = _clean(values)
    n = len(data)
    estimate = float(data.mean()) if n else math.nan
    degrees = (n_effective or n) - 1
    if n < 2 or degrees < 1 or float(np.ptp(data)) < SAME:
        return Interval(estimate, math.nan, math.nan, n, "no interval")
    half = float(stats.t.ppf((1 + confidence) / 2, degrees)) * standard_error(data)
    low, high = estimate - half, estimate + half
    if limits is not None:
        low, high = max(limits[0], low), min(limits[1], high)
    return Interval(estimate, low, high, n, "t")


def standard_error(values: ArrayLike) -> float:
    """Return sd / sqrt(n) of the units (sd with n - 1); NaN for fewer than two."""
    data = _clean(values)
    return float(data.std(ddof=1) / math.sqrt(len(data))) if len(data) > 1 else math.nan


def cluster_standard_error(values: Sequence[float], clusters: Sequence[Any], *, corrected: bool = True) -> float:
    """Return the standard error of a run-weighted mean whose residuals are summed inside clusters.

    `rates.pass_rate` weighs clusters alike instead; this is the textbook form, for cross-checks and for numbers
    that are published run-weighted.

    Args:
        values: one number per run or task.
        clusters: the cluster of each.
        corrected: multiply by sqrt(G / (G - 1)); False gives the raw double sum.

    Source: Miller 2024, arXiv 2411.00640, equation for clustered standard errors.
    """
    data = np.asarray(values, dtype=float)
    _, codes = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    sums = np.bincount(codes, weights=data - data.mean())
    groups = len(sums)
    if groups < 2:
        return math.nan
    raw = math.sqrt(float((sums**2).sum())) / len(data)
    return raw * math.sqrt(groups / (groups - 1)) if corrected else raw


def bootstrap_over_tasks(
    *samples: ArrayLike,
    statistic: Callable[..., Any] | None = None,
    confidence: float = 0.95,
    method: Literal["BCa", "percentile"] = "BCa",
    seed: int = 0,
    n_resamples: int = 9_999,
) -> Interval:
    """Return a bootstrap interval; the unit that is drawn is the task with all its repeats.

    Args:
        samples: one array of task values, or several that are drawn together (the same tasks for all).
        statistic: of the samples, with `axis=-1`; the mean, or the difference first minus second, by default.
        confidence: coverage of the interval.
        method: BCa or percentile, as in `scipy.stats.bootstrap`.
        seed: seed of the generator; the same seed gives the same interval.
        n_resamples: how often the tasks are drawn.
    """
    data = [np.asarray(sample, dtype=float) for sample in samples]
    function: Callable[..., Any] = statistic or (_mean if len(data) == 1 else _difference)
    n = len(data[0])
    estimate = float(function(*data, axis=-1)) if n else math.nan
    note = "" if n >= FEW_TASKS else f"fewer than {FEW_TASKS} tasks: the interval is too narrow"
    name = f"bootstrap over tasks ({method}, {n_resamples} draws, seed {seed})"
    if n < 2 or all(float(np.ptp(sample)) < SAME for sample in data):
        return Interval(estimate, math.nan, math.nan, n, "no interval", note)
    result = stats.bootstrap(
        data,
        function,
        paired=len(data) > 1,
        confidence_level=confidence,
        method=method,
        n_resamples=n_resamples,
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    return Interval(estimate, float(low), float(high), n, name, note)


def _mean(sample: Array, *, axis: int = -1) -> Any:
    return sample.mean(axis=axis)


def _difference(first: Array, second: Array, *, axis: int = -1) -> Any:
    return first.mean(axis=axis) - second.mean(axis=axis)


def _clean(values: ArrayLike) -> Array:
    data: Array = np.asarray(values, dtype=float)
    known: Array = data[~np.isnan(data)]
    return known
