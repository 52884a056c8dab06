"""Is one strategy better than another? Paired on tasks, spread taken over clusters, small samples exact.

The paired interval is the evidence; two overlapping intervals of single rates are not a test. Tasks that lack
either strategy are left out and listed, never dropped in silence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from statsmodels.stats.contingency_tables import cochrans_q, mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import confint_proportions_2indep, tost_proportions_2indep
from statsmodels.stats.weightstats import ttost_paired

from agentlab.analysis.intervals import SAME, Array, Interval, mean_over_units, standard_error, zero_failures_bound
from agentlab.analysis.stability import task_stability
from agentlab.analysis.units import Units, check_frame, levels, require_columns, rows_of, task_table, units_of
from agentlab.errors import ConfigError, unknown_name

EXACT_UP_TO_CLUSTERS = 16
"""All 2^G sign patterns are enumerated up to this many clusters; above, they are drawn with a fixed seed."""
DRAWN_PATTERNS = 19_999
MEASURES = ("success", "flip_rate", "modal_agreement")


@dataclass(frozen=True, slots=True)
class Difference:
    """What a strategy gains over the baseline on the same tasks."""

    strategy: str
    baseline: str
    estimate: float
    """Strategy minus baseline; NaN without a common task."""
    low: float
    """NaN for fewer than two clusters."""
    high: float
    standard_error: float
    p_value: float
    """Two-sided sign-flip permutation over clusters; NaN without a cluster."""
    n_clusters: int
    n_tasks: int
    """Tasks with evaluable runs of both strategies."""
    clusters: tuple[str, ...]
    values: tuple[float, ...]
    """One difference per cluster, in the order of `clusters`; with both strata everywhere their mean is `estimate`."""
    basis: str
    """balanced, all tasks (there are no twins), defective tasks only."""
    method: str
    missing_tasks: tuple[str, ...] = ()
    """Tasks of either strategy that the other has no evaluable run of."""

    def __repr__(self) -> str:
        if math.isnan(self.estimate):
            return f"{self.strategy} - {self.baseline}: no common task"
        interval = "no interval" if math.isnan(self.low) else f"[{self.low:+.3f}, {self.high:+.3f}]"
        return (
            f"{self.strategy} - {self.baseline}: {self.estimate:+.3f} {interval}, p = {self.p_value:.3g} "
            f"({self.n_clusters} clusters, {self.n_tasks} tasks, {len(self.missing_tasks)} missing; {self.method})"
        )


def paired_difference(
    runs: pd.DataFrame,
    strategy: str,
    baseline: str,
    *,
    measure: str = "success",
    confidence: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Return the difference of two strategies on the tasks that both have evaluable runs of.

    Per task the difference of means over repeats; per cluster the mean of the healthy tasks' mean and the twins'
    mean (of the strata it has); the interval is a t interval over clusters. When all clusters differ by the same
    amount the interval is that amount +/- what an unseen cluster could still do: (1 - 0.05^(1/G)) times the largest
    possible deviation, the bound that G observations without an exception give.

    Args:
        runs: frame with both strategies.
        strategy: the one in question.
        baseline: the one it is compared with.
        measure: success, flip_rate or modal_agreement; the latter two are not balanced between strata.
        confidence: coverage of the interval.
        seed: of the drawn sign patterns (more than 16 clusters).

    Raises:
        ConfigError: unknown strategy or measure, kinds of models mixed, a run twice.

    Source: Miller 2024, arXiv 2411.00640, section 4 (paired differences).
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy")
    known = levels(runs)
    for name in (strategy, baseline):
        if name not in known:
            raise unknown_name("strategy", name, known)
    if measure not in MEASURES:
        raise unknown_name("measure", measure, MEASURES)
    pairs = _paired_tasks(runs, strategy, baseline, measure)
    both = pairs.dropna(subset=["of", "to"])
    units = units_of(both, both["of"] - both["to"], balance=measure == "success")
    low, high, method = _interval_of(units, confidence)
    return Difference(
        strategy=strategy,
        baseline=baseline,
        estimate=units.estimate,
        low=low,
        high=high,
        standard_error=standard_error(units.values),
        p_value=sign_flip_p(units.contributions, seed=seed),
        n_clusters=len(units.clusters),
        n_tasks=len(both),
        clusters=units.clusters,
        values=tuple(float(value) for value in units.values),
        basis=units.basis,
        method=method,
        missing_tasks=tuple(str(task) for task in pairs.index[pairs["of"].isna() | pairs["to"].isna()]),
    )


def _interval_of(units: Units, confidence: float) -> tuple[float, float, str]:
    interval = mean_over_units(units.values, confidence, limits=(-1.0, 1.0), n_effective=units.n_effective)
    if not math.isnan(interval.low):
        return interval.low, interval.high, f"{confidence:.0%} t interval over clusters"
    if units.n_effective < 2 or float(np.ptp(units.values)) >= SAME:
        return math.nan, math.nan, "no interval"
    half = zero_failures_bound(len(units.clusters), confidence) * (1 + abs(units.estimate))
    low, high = max(-1.0, units.estimate - half), min(1.0, units.estimate + half)
    return low, high, f"{confidence:.0%} bound, all clusters alike"


def _paired_tasks(runs: pd.DataFrame, strategy: str, baseline: str, measure: str) -> pd.DataFrame:
    columns = {}
    tables = []
    for side, name in (("of", strategy), ("to", baseline)):
        rows = rows_of(runs, "strategy", name)
        tasks = task_table(rows)
        tables.append(tasks[["cluster", "defective"]])
        if measure == "success":
            columns[side] = tasks["hits"] / tasks["n"].where(tasks["n"] > 0)
        else:
            columns[side] = task_stability(rows)[measure]
    described = pd.concat(tables)
    described = described[~described.index.duplicated()].sort_index()
    return described.assign(**{side: values.reindex(described.index) for side, values in columns.items()})


def compare_with_baseline(
    runs: pd.DataFrame, baseline: str, *, confidence: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Return one row per other strategy, in declared order, indexed by `strategy`.

    Columns: `difference, low, high, p_value, p_holm, n_clusters, n_tasks, n_missing, missing_tasks, basis`. `p_holm`
    corrects for the number of strategies compared; the intervals are not corrected.
    """
    others = [name for name in levels(runs) if name != baseline]
    found = [paired_difference(runs, name, baseline, confidence=confidence, seed=seed) for name in others]
    adjusted = adjust([difference.p_value for difference in found])
    rows = [
        {
            "strategy": d.strategy,
            "difference": d.estimate,
            "low": d.low,
            "high": d.high,
            "p_value": d.p_value,
            "p_holm": p,
            "n_clusters": d.n_clusters,
            "n_tasks": d.n_tasks,
            "n_missing": len(d.missing_tasks),
            "missing_tasks": ", ".join(d.missing_tasks),
            "basis": d.basis,
        }
        for d, p in zip(found, adjusted, strict=True)
    ]
    columns = (
        "strategy", "difference", "low", "high", "p_value", "p_holm", "n_clusters", "n_tasks", "n_missing",
        "missing_tasks", "basis",
    )  # fmt: skip
    return pd.DataFrame(rows, columns=list(columns)).set_index("strategy")


def sign_flip_p(differences: ArrayLike, *, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean difference under all sign patterns of the units.

    Exact up to 16 units; above, 19,999 patterns are drawn with `seed`. It assumes no distribution, only that under
    the null a difference is as likely as its negative. Means closer than 1e-12 count as ties.
    """
    data = np.asarray(differences, dtype=float)
    data = data[~np.isnan(data)]
    if not len(data):
        return math.nan
    if len(data) == 1:
        return 1.0
    exact = len(data) <= EXACT_UP_TO_CLUSTERS
    result = stats.permutation_test(
        (data,),
        _rounded_mean,
        permutation_type="samples",
        # Twice the number of patterns makes scipy enumerate all of them.
        n_resamples=2 ** (len(data) + 1) if exact else DRAWN_PATTERNS,
        batch=4096,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def _rounded_mean(sample: Array, axis: int = -1) -> Any:
    return np.round(sample.mean(axis=axis), 12)


def adjust(p_values: Sequence[float], method: str = "holm") -> list[float]:
    """Return p-values corrected for their number; missing ones stay missing and do not count.

    Args:
        p_values: raw p-values.
        method: holm for claims against a baseline, fdr_bh for screening many buckets.
    """
    if method not in ("holm", "fdr_bh"):
        raise unknown_name("correction", method, ("holm", "fdr_bh"))
    values = np.asarray(p_values, dtype=float)
    known = ~np.isnan(values)
    if known.any():
        values[known] = multipletests(values[known], method=method)[1]
    return [float(value) for value in values]


@dataclass(frozen=True, slots=True)
class McNemar:
    """Two strategies with one run per task each: which tasks only one of them passes."""

    only_first: int
    only_second: int
    n_tasks: int
    p_value: float
    """Exact, two-sided."""
    mid_p: float
    """Less conservative than the exact value."""
    difference: float
    """Second minus first pass rate."""
    low: float
    high: float
    """Wald limits; they suit large samples only."""


def mcnemar_exact(only_first: int, only_second: int, n_tasks: int, confidence: float = 0.95) -> McNemar:
    """Return McNemar's exact test from the two discordant counts.

    Only for one run per task and strategy; repeats belong to `paired_difference`.

    Raises:
        ConfigError: more discordant tasks than tasks.
    """
    discordant = only_first + only_second
    if discordant > n_tasks or min(only_first, only_second) < 0 or n_tasks < 1:
        raise ConfigError(f"{only_first} and {only_second} discordant tasks do not fit in {n_tasks} tasks.")
    exact = float(mcnemar([[0, only_second], [only_first, 0]], exact=True).pvalue) if discordant else 1.0
    point = float(stats.binom.pmf(min(only_first, only_second), discordant, 0.5)) if discordant else 0.0
    difference = (only_second - only_first) / n_tasks
    error = math.sqrt(discordant - (only_second - only_first) ** 2 / n_tasks) / n_tasks
    half = float(stats.norm.ppf((1 + confidence) / 2)) * error
    return McNemar(
        only_first, only_second, n_tasks, exact, exact - point if discordant else 1.0, difference, difference - half,
        difference + half,
    )  # fmt: skip


def cochran_q(passed: ArrayLike) -> tuple[float, float]:
    """Return Cochran's Q and its p-value for more than two strategies with one run per task (rows are tasks)."""
    result = cochrans_q(np.asarray(passed, dtype=int))
    return float(result.statistic), float(result.pvalue)


def unpaired_difference(
    passed: int, n: int, baseline_passed: int, baseline_n: int, confidence: float = 0.95, method: str = "newcomb"
) -> Interval:
    """Return the difference of two rates on disjoint tasks, one run per task, with Newcombe's interval.

    Where the tasks are the same, `paired_difference` is several times sharper.
    """
    low, high = confint_proportions_2indep(
        passed, n, baseline_passed, baseline_n, method=method, compare="diff", alpha=1 - confidence
    )
    estimate = passed / n - baseline_passed / baseline_n
    return Interval(estimate, float(low), float(high), n + baseline_n, f"unpaired, {method}")


def unpaired_p(passed: int, n: int, baseline_passed: int, baseline_n: int, method: str = "boschloo") -> float:
    """Return an exact two-sided p-value for two rates on disjoint tasks, one run per task.

    Args:
        passed: passes of the strategy.
        n: its runs.
        baseline_passed: passes of the baseline.
        baseline_n: its runs.
        method: boschloo (most powerful), barnard, or fisher (conservative).
    """
    tests: dict[str, Callable[..., Any]] = {
        "boschloo": stats.boschloo_exact,
        "barnard": stats.barnard_exact,
        "fisher": stats.fisher_exact,
    }
    if method not in tests:
        raise unknown_name("test", method, tests)
    table = [[passed, baseline_passed], [n - passed, baseline_n - baseline_passed]]
    return float(tests[method](table).pvalue)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests against a margin."""

    margin: float
    p_value: float
    """Below 0.05: the difference lies within the margin; NaN when it cannot be tested."""
    low: float
    """Of the interval (90 % for a test at 5 %) that lies inside the margin exactly when the test says so."""
    high: float

    @property
    def is_equivalent(self) -> bool:
        """True when both one-sided tests reject at 5 %."""
        return self.p_value < 0.05


def equivalence(differences: ArrayLike, margin: float) -> Equivalence:
    """Return the paired equivalence test of unit differences against +/- margin.

    Raises:
        ConfigError: the margin is not positive.
    """
    if not margin > 0:
        raise ConfigError(f"The margin must be positive, not {margin!r}.")
    data = np.asarray(differences, dtype=float)
    interval = mean_over_units(data, 0.90)
    if math.isnan(interval.low):
        return Equivalence(margin, math.nan, math.nan, math.nan)
    p_value = ttost_paired(data, np.zeros(len(data)), -margin, margin)[0]
    return Equivalence(margin, float(p_value), interval.low, interval.high)


def equivalence_unpaired(passed: int, n: int, baseline_passed: int, baseline_n: int, margin: float) -> float:
    """Return the p-value of equivalence of two rates on disjoint tasks (score method)."""
    result = tost_proportions_2indep(
        passed, n, baseline_passed, baseline_n, -margin, margin, compare="diff", method="score"
    )
    return float(result.pvalue)
