"""Pass rates of a `runs` frame, with the interval, the counts and the coverage that belong beside them.

A frame needs `task_id, repeat, success`; `cluster, defective, strategy, model_kind, state` are used when present.
Success is missing where a run cannot be judged (infrastructure); such runs are left out of the rate and counted.
"""

import math
from collections.abc import Callable
from typing import Any

import pandas as pd

from agentlab.analysis.cost import money, per_correct_verdict, tokens
from agentlab.analysis.stability import task_flips
from agentlab.analysis.units import (
    UNKNOWN,
    Estimate,
    as_hits,
    check_frame,
    estimate_over_tasks,
    identities,
    joined,
    levels,
    rows_of,
    share,
    task_table,
    units_of,
)
from agentlab.errors import ConfigError

REFERENCES = {"always_passed": "passed", "always_failed": "failed", "always_incomplete": "incomplete"}
"""Constant answers: what a strategy would score that looks at nothing and always says the same."""


def pass_rate(runs: pd.DataFrame, *, confidence: float = 0.95) -> Estimate:
    """Return the pass rate of one strategy: mean `success`, repeats inside the task, tasks inside the cluster.

    Clusters weigh alike; with defect twins the rate is balanced (mean of the healthy and the defective stratum).
    The interval is a t interval over clusters, cut to [0, 1]; NaN for fewer than two clusters; the Wilson interval
    with clusters as units when all clusters are alike.

    Raises:
        ConfigError: a column is missing, kinds of models or strategies are mixed, a run appears twice.

    Source: Miller 2024, arXiv 2411.00640. Deviates: clusters are weighted alike, not by their number of tasks.
    """
    check_frame(runs)
    tasks = task_table(runs)
    return estimate_over_tasks(tasks, _task_means(tasks), "pass rate", confidence=confidence)


def pass_hat_k(runs: pd.DataFrame, k: int, *, confidence: float = 0.95) -> Estimate:
    """Return pass^k: the chance that k runs of a task all pass, averaged as in `pass_rate`.

    A task with fewer than k evaluable repeats has no value: it is listed in `missing_tasks` and counted in
    `coverage`, never taken as 0 or 1.

    Raises:
        ConfigError: k is below 1, or as in `pass_rate`.

    Source: Yao et al. 2024, tau-bench, arXiv 2406.12045, section 4 (unbiased form C(c, k) / C(n, k)).
    """
    return _over_k(runs, k, f"pass^{k}", pass_hat_k_of, confidence)


def pass_at_k(runs: pd.DataFrame, k: int, *, confidence: float = 0.95) -> Estimate:
    """Return pass@k: the chance that at least one of k runs of a task passes, averaged as in `pass_rate`.

    Tasks with fewer than k evaluable repeats are treated as in `pass_hat_k`.

    Raises:
        ConfigError: k is below 1, or as in `pass_rate`.

    Source: Chen et al. 2021, arXiv 2107.03374, equation 1.
    """
    return _over_k(runs, k, f"pass@{k}", pass_at_k_of, confidence)


def pass_hat_k_of(n: int, passed: int, k: int) -> float:
    """Return C(passed, k) / C(n, k) of one task.

    Raises:
        ConfigError: k is below 1 or above n.
    """
    _check_k(n, k)
    return math.comb(passed, k) / math.comb(n, k)


def pass_at_k_of(n: int, passed: int, k: int) -> float:
    """Return 1 - C(n - passed, k) / C(n, k) of one task.

    Raises:
        ConfigError: k is below 1 or above n.
    """
    _check_k(n, k)
    return 1 - math.comb(n - passed, k) / math.comb(n, k)


def _check_k(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ConfigError(f"k = {k} needs at least one and at most n = {n} repeats.")


def _over_k(
    runs: pd.DataFrame, k: int, name: str, formula: Callable[[int, int, int], float], confidence: float
) -> Estimate:
    if k < 1:
        raise ConfigError(f"{name}: k must be at least 1.")
    check_frame(runs)
    tasks = task_table(runs)
    values = [
        formula(int(n), int(c), k) if n >= k else math.nan for n, c in zip(tasks["n"], tasks["hits"], strict=True)
    ]
    series = pd.Series(values, index=tasks.index, dtype=float)
    return estimate_over_tasks(tasks, series, name, confidence=confidence)


def by_strategy(runs: pd.DataFrame, by: str | None = None, *, references: bool = True) -> pd.DataFrame:
    """Return the rate table: one row per strategy in declared order, planned strategies without a finished run too.

    Columns (missing where the frame cannot tell, never 0):
        planned: runs in the frame. evaluable: runs with `success`. passed: those with `success` 1.
        excluded: started runs without it.
        unfinished: runs not started or still running. extra_attempts: repetitions after infrastructure trouble.
        n_tasks, n_clusters: with an evaluable run. pass_rate, low, high, interval: headline with its 95 % interval
        and the method's name; `basis` says whether it is balanced. healthy_rate, defective_rate: its two strata.
        strict_rate: the same with every planned run that has no `success` counted as 0.
        defect_recall: defects found, of evaluable runs on truly failed tasks. false_alarm_rate: of those on truly
        passed tasks. flip_rate: pairs of repeats that disagree. verdict_passed_share: runs that call the product
        right; it is no pass rate. budget_bound_share: evaluable runs that a budget ended.
        tokens_per_run: mean of the runs with known usage. tokens_per_correct, cost_per_correct_usd: spent per
        correct verdict; lower bounds when tokens_unknown_runs or cost_unknown_runs is above 0.
        answer_by: who writes the answer. reference: True for constant answers that look at nothing.

    Args:
        runs: one counting attempt per run.
        by: a factor for separate rows (`model_kind`, `language`, `model`): rows are then (level, strategy).
        references: append the constant answers always_passed, always_failed, always_incomplete, judged by their
            verdict alone; they need `truth_verdict` or `defective`.

    Raises:
        ConfigError: several kinds of models in one group; a missing column; a run twice.
    """
    if by is not None:
        parts = {level: by_strategy(rows_of(runs, by, level), references=references) for level in levels(runs, by)}
        return pd.concat(parts, names=[by, "strategy"])
    check_frame(runs, one_strategy=False)
    if "strategy" not in runs.columns:
        runs = runs.assign(strategy=UNKNOWN)
    rows = [{"strategy": name, **_strategy_row(rows_of(runs, "strategy", name))} for name in levels(runs)]
    table = pd.DataFrame(rows, columns=["strategy", *_COLUMNS]).set_index("strategy").astype(_COLUMNS)
    if not references:
        return table
    constant = _reference_rows(runs)
    return pd.concat([table, constant.astype(_COLUMNS)]) if len(constant) else table


_COLUMNS = {
    "planned": "int64", "evaluable": "int64", "passed": "int64", "excluded": "int64", "unfinished": "int64",
    "extra_attempts": "int64", "n_tasks": "int64", "n_clusters": "int64", "pass_rate": "float64", "low": "float64",
    "high": "float64", "interval": "string", "basis": "string", "healthy_rate": "float64",
    "defective_rate": "float64", "strict_rate": "float64", "defect_recall": "float64", "false_alarm_rate": "float64",
    "flip_rate": "float64", "verdict_passed_share": "float64", "budget_bound_share": "float64",
    "tokens_per_run": "float64", "tokens_unknown_runs": "int64", "tokens_per_correct": "float64",
    "cost_per_run_usd": "float64", "cost_unknown_runs": "int64", "cost_per_correct_usd": "float64",
    "answer_by": "string", "reference": "bool",
}  # fmt: skip


def _strategy_row(runs: pd.DataFrame) -> dict[str, Any]:
    hits = as_hits(runs["success"])
    evaluable = hits.notna()
    tasks = task_table(runs)
    rate = estimate_over_tasks(tasks, _task_means(tasks), "pass rate")
    shown = rate.shown_interval
    return {
        "planned": len(runs),
        "evaluable": int(evaluable.sum()),
        "passed": int(hits.sum()),
        "excluded": rate.n_excluded,
        "unfinished": len(runs) - int(evaluable.sum()) - rate.n_excluded,
        "extra_attempts": int((runs["n_attempts"].fillna(1) - 1).sum()) if "n_attempts" in runs.columns else 0,
        "n_tasks": rate.n_tasks,
        "n_clusters": rate.n_clusters,
        "pass_rate": rate.estimate,
        "low": shown.low,
        "high": shown.high,
        "interval": shown.method,
        **_strata(runs, tasks),
        "strict_rate": _mean_of_tasks(task_table(runs, hits.fillna(0.0))) if evaluable.any() else math.nan,
        **_verdict_columns(runs[evaluable]),
        "flip_rate": units_of(tasks, task_flips(tasks), balance=False).estimate,
        "budget_bound_share": _budget_bound_share(runs[evaluable]),
        **_cost_columns(runs[evaluable]),
        "answer_by": joined(runs["answer_by"]) if "answer_by" in runs.columns else "",
        "reference": False,
    }


def _task_means(tasks: pd.DataFrame) -> "pd.Series[float]":
    return tasks["hits"] / tasks["n"].where(tasks["n"] > 0)


def _mean_of_tasks(tasks: pd.DataFrame) -> float:
    return units_of(tasks, _task_means(tasks)).estimate


def _strata(runs: pd.DataFrame, tasks: pd.DataFrame) -> dict[str, Any]:
    known = tasks[tasks["n"] > 0]
    row: dict[str, Any] = {"basis": "", "healthy_rate": math.nan, "defective_rate": math.nan}
    if len(known):
        row["basis"] = units_of(known, _task_means(known)).basis
    if "defective" in runs.columns:
        row["healthy_rate"] = _mean_of_tasks(known[~known["defective"]])
        row["defective_rate"] = _mean_of_tasks(known[known["defective"]])
    return row


def _truth(runs: pd.DataFrame) -> "pd.Series[Any] | None":
    if "truth_verdict" in runs.columns:
        return runs["truth_verdict"].astype("string")
    if "defective" not in runs.columns:
        return None
    return runs["defective"].astype("boolean").map({True: "failed", False: "passed"}).astype("string")


def _share_where(runs: pd.DataFrame, chosen: "pd.Series[bool]", hit: "pd.Series[bool]") -> float:
    """Return how often `hit` is true among the chosen runs, weighted as a pass rate within one stratum."""
    tasks = task_table(runs[chosen], hit[chosen].astype(float))
    return units_of(tasks, _task_means(tasks), balance=False).estimate


def _verdict_columns(evaluable: pd.DataFrame) -> dict[str, float]:
    row = dict.fromkeys(("defect_recall", "false_alarm_rate", "verdict_passed_share"), math.nan)
    truth = _truth(evaluable)
    if truth is not None and "outcome" in evaluable.columns:
        outcome = evaluable["outcome"].astype("string").fillna("")
        row["defect_recall"] = _share_where(evaluable, (truth == "failed").fillna(False), outcome == "found")
        row["false_alarm_rate"] = _share_where(evaluable, (truth == "passed").fillna(False), outcome == "false_alarm")
    if "verdict" in evaluable.columns:
        passed = evaluable["verdict"].astype("string").fillna("") == "passed"
        row["verdict_passed_share"] = _share_where(evaluable, pd.Series(True, index=evaluable.index), passed)
    return row


def budget_bound(runs: pd.DataFrame) -> "pd.Series[bool]":
    """Return for each run whether a budget ended it."""
    bound = pd.Series(False, index=runs.index)
    if "budget_bound" in runs.columns:
        bound |= runs["budget_bound"].notna()
    if "end_reason" in runs.columns:
        bound |= runs["end_reason"].astype("string").fillna("").str.startswith("budget_")
    return bound.astype(bool)


def _budget_bound_share(evaluable: pd.DataFrame) -> float:
    if not {"budget_bound", "end_reason"} & set(evaluable.columns):
        return math.nan
    return share(float(budget_bound(evaluable).sum()), len(evaluable))


def _cost_columns(evaluable: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {
        "tokens_per_run": math.nan, "tokens_unknown_runs": 0, "tokens_per_correct": math.nan,
        "cost_per_run_usd": math.nan, "cost_unknown_runs": 0, "cost_per_correct_usd": math.nan,
    }  # fmt: skip
    if "total_tokens" in evaluable.columns:
        used = tokens(evaluable)
        row |= {"tokens_per_run": used.mean, "tokens_unknown_runs": used.n_unknown}
        row["tokens_per_correct"] = per_correct_verdict(evaluable, "total_tokens").estimate
    if "cost_usd" in evaluable.columns:
        paid = money(evaluable)
        row |= {"cost_per_run_usd": paid.mean, "cost_unknown_runs": paid.n_unknown}
        row["cost_per_correct_usd"] = per_correct_verdict(evaluable, "cost_usd").estimate
    return row


def _reference_rows(runs: pd.DataFrame) -> pd.DataFrame:
    truth = _truth(runs)
    if truth is None or truth.isna().all():
        return pd.DataFrame()
    ids = identities(runs)["task"]
    tasks = runs.assign(_truth=truth)[~ids.duplicated().to_numpy()]
    rows = []
    for name, verdict in REFERENCES.items():
        right = (tasks["_truth"] == verdict).astype("Float64").fillna(0.0).astype(float)
        answered = tasks.assign(success=right)
        row: dict[str, Any] = dict.fromkeys(_COLUMNS, math.nan)
        row |= dict.fromkeys([column for column, dtype in _COLUMNS.items() if dtype == "int64"], 0)
        table = task_table(answered, right)
        row |= {
            "n_tasks": len(table),
            "n_clusters": int(table["cluster"].nunique()),
            "pass_rate": _mean_of_tasks(table),
            "interval": "",
            **_strata(answered, table),
            "defect_recall": float(verdict == "failed") if (tasks["_truth"] == "failed").any() else math.nan,
            "false_alarm_rate": float(verdict == "failed") if (tasks["_truth"] == "passed").any() else math.nan,
            "flip_rate": 0.0,
            "verdict_passed_share": float(verdict == "passed"),
            "answer_by": "",
            "reference": True,
        }
        rows.append({"strategy": name, **row})
    return pd.DataFrame(rows, columns=["strategy", *_COLUMNS]).set_index("strategy")
