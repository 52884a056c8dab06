"""From runs to the units of analysis: repeats inside the task, tasks inside the cluster, clusters weighted alike.

Everything that estimates or compares starts here, so that no table and no chart can weigh runs differently.
Where defect twins exist, a rate is balanced: the mean of the healthy and of the defective stratum.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from agentlab.analysis.intervals import SAME, Array, Interval, mean_over_units, wilson
from agentlab.errors import ConfigError

UNKNOWN = "(unknown)"
"""Level of rows whose strategy or factor is missing: a group of its own, never dropped."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number over runs with its interval and everything that has to be printed beside it."""

    name: str
    """What was estimated: pass rate, pass^3, flip rate, ..."""
    estimate: float
    """NaN when no task has a value."""
    low: float
    """NaN when the data give no interval (fewer than two clusters)."""
    high: float
    n_runs: int
    """Evaluable runs behind the number."""
    n_tasks: int
    """Tasks that have a value."""
    n_clusters: int
    """Clusters (flows) that have a value: the units of the interval."""
    n_excluded: int
    """Runs without `success`: infrastructure, cancelled, interrupted, errors of ours."""
    coverage: str
    """Tasks with a value of all tasks in the frame: '3 of 4 tasks'."""
    method: str
    """How the number and its interval were made."""
    missing_tasks: tuple[str, ...] = ()
    """Tasks without a value (no evaluable run, or too few repeats)."""

    def __repr__(self) -> str:
        if math.isnan(self.estimate):
            return f"{self.name}: no data ({self.coverage}, {self.n_excluded} runs excluded)"
        interval = "no interval" if math.isnan(self.low) else f"[{self.low:.3f}, {self.high:.3f}]"
        return (
            f"{self.name} {self.estimate:.3f} {interval} ({self.n_runs} runs, {self.coverage}, "
            f"{self.n_clusters} clusters, {self.n_excluded} runs excluded; {self.method})"
        )

    @property
    def shown_interval(self) -> Interval:
        """The interval that tables and charts draw.

        It is `low` to `high`; where there is none (one cluster), the Wilson interval of one unit, because a bare
        point would look like certainty.
        """
        if math.isnan(self.low) and not math.isnan(self.estimate):
            return wilson(self.estimate, 1)
        return Interval(self.estimate, self.low, self.high, self.n_clusters, self.method)


@dataclass(frozen=True, slots=True)
class Units:
    """One number per cluster."""

    clusters: tuple[str, ...]
    values: Array
    """Their sd / sqrt(G) is the standard error of `estimate`; their mean is `estimate`."""
    contributions: Array
    """Their mean is `estimate` exactly; with both strata in every cluster they equal `values`."""
    estimate: float
    n_effective: int
    """Clusters of the smaller stratum: they decide the degrees of freedom."""
    basis: str
    """balanced, all tasks (there are no twins), defective tasks only."""


def require_columns(runs: pd.DataFrame, *names: str) -> None:
    """Raise a ConfigError that names the columns which the frame lacks."""
    missing = [name for name in names if name not in runs.columns]
    if missing:
        raise ConfigError(
            f"The frame has no column {', '.join(missing)}; it has: {', '.join(map(str, runs.columns)) or 'none'}."
        )


def levels(runs: pd.DataFrame, column: str = "strategy") -> list[str]:
    """Return the levels of a factor: declared order for a category, else order of first appearance.

    Levels without a row are kept (a strategy that never finished is no missing strategy); missing values are the
    level '(unknown)', last.
    """
    series = runs[column]
    if isinstance(series.dtype, pd.CategoricalDtype) and column == "strategy":
        found = [str(level) for level in series.cat.categories]
    else:
        found = [str(level) for level in series.dropna().unique()]
    return [*found, UNKNOWN] if bool(series.isna().any()) else found


def rows_of(runs: pd.DataFrame, column: str, level: str) -> pd.DataFrame:
    """Return the rows of one level, those of '(unknown)' included."""
    series = runs[column]
    return runs[series.isna()] if level == UNKNOWN else runs[(series.astype("string") == level).fillna(False)]


def model_kind(runs: pd.DataFrame) -> str | None:
    """Return the one kind of model behind the runs; None when the frame does not say.

    Raises:
        ConfigError: the runs come from several kinds.
    """
    if "model_kind" not in runs.columns:
        return None
    counts = runs["model_kind"].astype("string").value_counts()
    kinds = [str(kind) for kind in counts.index if counts[kind]]
    if len(kinds) > 1:
        listed = ", ".join(f"{counts[kind]} {kind}" for kind in kinds)
        raise ConfigError(
            f"These runs come from several kinds of models ({listed}), which are never pooled. Look at one kind, "
            f"runs[runs['model_kind'] == {kinds[0]!r}], or ask for separate rows: by_strategy(runs, by='model_kind')."
        )
    return kinds[0] if kinds else None


def check_frame(runs: pd.DataFrame, *, one_strategy: bool = True) -> None:
    """Refuse what must not be pooled.

    Raises:
        ConfigError: missing columns, several kinds of models, several attempts of one run, and, unless
            `one_strategy` is False, several strategies.
    """
    require_columns(runs, "task_id", "success")
    model_kind(runs)
    if "run_id" in runs.columns and runs["run_id"].dropna().duplicated().any():
        twice = runs["run_id"][runs["run_id"].duplicated()].iloc[0]
        raise ConfigError(
            f"The frame holds several attempts of one run ({twice}); statistics take the counting attempt alone: "
            "load the runs without attempts='all'."
        )
    if one_strategy and "strategy" in runs.columns:
        present = [str(name) for name in runs["strategy"].dropna().unique()]
        if len(present) > 1:
            raise ConfigError(
                f"These runs belong to {len(present)} strategies ({', '.join(present)}); use by_strategy(runs), or "
                f"look at one: runs[runs['strategy'] == {present[0]!r}]."
            )


def as_hits(values: "pd.Series[Any]") -> "pd.Series[float]":
    """Return 1.0, 0.0 or NaN for each row of a column that may be Int64, float, bool or object.

    Raises:
        ConfigError: other values than 0, 1 and missing.
    """
    numbers = pd.to_numeric(values).to_numpy(dtype=float, na_value=np.nan)
    hits = pd.Series(numbers, index=values.index, dtype=float)
    wrong = hits[~(hits.isna() | hits.isin([0.0, 1.0]))]
    if len(wrong):
        raise ConfigError(
            f"Column {values.name!r} holds {wrong.iloc[0]:g} (row {wrong.index[0]}); valid: 0, 1, missing."
        )
    return hits


def identities(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the `task` and the `cluster` of each row as text, with the suite in front where the frame has one.

    Two suites may use one name for different flows. A missing cluster is the task itself.
    """
    tasks = runs["task_id"].astype("string")
    clusters = runs["cluster"].astype("string").fillna(tasks) if "cluster" in runs.columns else tasks
    if "suite" in runs.columns:
        suites = (runs["suite"].astype("string") + "/").fillna("")
        tasks, clusters = suites + tasks, suites + clusters
    return pd.DataFrame({"task": tasks.astype(object), "cluster": clusters.astype(object)}, index=runs.index)


def task_table(runs: pd.DataFrame, hits: "pd.Series[float] | None" = None) -> pd.DataFrame:
    """Return one row per task: `cluster, defective, n, hits, excluded`, indexed by `task`.

    Args:
        runs: rows to count; a missing `cluster` is the task itself, a missing `defective` is healthy.
        hits: 1, 0 or NaN per row; `success` by default. NaN rows are not counted in `n`; of them, those that were
            started are `excluded`.
    """
    counted = as_hits(runs["success"]) if hits is None else hits
    rows = identities(runs).assign(
        defective=_flags(runs, "defective"), hit=counted.to_numpy(dtype=float), started=_started(runs)
    )
    rows["excluded"] = rows["hit"].isna() & rows["started"]
    return rows.groupby("task").agg(
        cluster=("cluster", "first"),
        defective=("defective", "first"),
        n=("hit", "count"),
        hits=("hit", "sum"),
        excluded=("excluded", "sum"),
    )


def _flags(runs: pd.DataFrame, column: str) -> Any:
    if column not in runs.columns:
        return np.zeros(len(runs), dtype=bool)
    return runs[column].astype("boolean").fillna(False).to_numpy(dtype=bool)


def _started(runs: pd.DataFrame) -> Any:
    if "state" not in runs.columns:
        return np.ones(len(runs), dtype=bool)
    return ~runs["state"].astype("string").isin(["planned", "running"]).to_numpy(dtype=bool)


def units_of(tasks: pd.DataFrame, values: "pd.Series[float]", *, balance: bool = True) -> Units:
    """Return one number per cluster from one number per task.

    Balanced (the default): the estimate is the mean of the healthy and the defective stratum, each the mean of its
    clusters. A cluster with both strata enters as the mean of its healthy mean and its twins' mean. Where a cluster
    has one stratum only, its deviation from that stratum's mean is scaled so that the standard error is that of the
    mean of two stratum means (linearisation); the degrees of freedom follow the smaller stratum.

    Args:
        tasks: as `task_table` gives it.
        values: one number per task of `tasks`; NaN is left out.
        balance: False gives plain cluster means, whatever the stratum.
    """
    known = tasks.assign(value=values).dropna(subset=["value"])
    if not balance:
        known = known.assign(defective=False)
    cells = known.groupby(["cluster", "defective"])["value"].mean().unstack("defective")
    clusters = tuple(str(name) for name in cells.index)
    strata = [cells[flag].astype(float) for flag in (False, True) if flag in cells.columns]
    if len(strata) < 2:
        data: Array = np.asarray(strata[0] if strata else [], dtype=np.float64)
        basis = "defective tasks only" if True in cells.columns else "all tasks"
        return Units(clusters, data, data, float(data.mean()) if len(data) else math.nan, len(data), basis)
    n, sizes = len(cells), [int(stratum.notna().sum()) for stratum in strata]
    estimate = float(sum(stratum.mean() for stratum in strata)) / 2
    spread: Array = np.zeros(n)
    shares: Array = np.zeros(n)
    for stratum, size in zip(strata, sizes, strict=True):
        scale = math.sqrt(n * (n - 1) / (size * (size - 1))) if size > 1 else n / size
        spread = spread + 0.5 * scale * (stratum - stratum.mean()).fillna(0.0).to_numpy(dtype=float)
        shares = shares + 0.5 * n / size * stratum.fillna(0.0).to_numpy(dtype=float)
    return Units(clusters, estimate + spread, shares, estimate, min(sizes), "balanced")


def estimate_over_tasks(
    tasks: pd.DataFrame, values: "pd.Series[float]", name: str, *, balance: bool = True, confidence: float = 0.95
) -> Estimate:
    """Return the estimate of a number in [0, 1] that every task has, or lacks (NaN).

    Two clusters or more: t interval over clusters, cut to [0, 1]. All clusters alike (all passed, all failed): the
    Wilson interval with the clusters as units, because no spread is not certainty. One cluster: no interval.
    """
    units = units_of(tasks, values, balance=balance)
    interval = mean_over_units(units.values, confidence, limits=(0.0, 1.0), n_effective=units.n_effective)
    low, high, method = interval.low, interval.high, f"{confidence:.0%} t interval over clusters"
    n = len(units.clusters)
    if n > 1 and math.isnan(low) and units.n_effective > 1 and float(np.ptp(units.values)) < SAME:
        flat = wilson(min(float(n), units.estimate * n), n, confidence)
        low, high, method = flat.low, flat.high, f"{confidence:.0%} Wilson interval, clusters as units (all alike)"
    elif math.isnan(low):
        method = "no interval: one cluster" if n else "no interval: no data"
    return Estimate(
        name=name,
        estimate=units.estimate,
        low=low,
        high=high,
        n_runs=int(tasks["n"][values.notna()].sum()),
        n_tasks=int(values.notna().sum()),
        n_clusters=n,
        n_excluded=int(tasks["excluded"].sum()),
        coverage=f"{int(values.notna().sum())} of {len(tasks)} tasks",
        method=f"{method}; {units.basis}" if units.basis == "balanced" else method,
        missing_tasks=tuple(str(task) for task in values.index[values.isna()]),
    )


def share(part: float, whole: float) -> float:
    """Return part / whole; NaN for an empty whole, which is unknown and not 0."""
    return part / whole if whole else math.nan


def joined(values: Iterable[Any]) -> str:
    """Return the different values in order of appearance as one text; empty when all are missing."""
    return ", ".join(dict.fromkeys(str(value) for value in values if not pd.isna(value)))
