"""Why runs fail and what they do about a defect: tables by strategy, with nothing left out.

Whatever has no class is 'unknown' and is always a column; a strategy without a run keeps its row.
"""

import json
from typing import Any

import pandas as pd

from agentlab.analysis.units import as_hits, check_frame, levels, require_columns, rows_of
from agentlab.columns import FAILURE_CLASSES, OUTCOMES

RIGHT_OUTCOMES = ("found", "clean", "incomplete_right")
"""Outcomes of a run that reported the truth about the defect; the others did not, or cannot be judged."""


def failure_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return failed runs (`success` 0) by strategy and first cause.

    Index `strategy`; columns: the classes that occur, most frequent first, then `unknown` (always), then `failed`
    (their sum) and `evaluable`. Counts of runs, so that shares stay with the reader.
    """
    return _counts(runs, failure_class_of(runs), "failed", last="unknown")


def failure_class_of(runs: pd.DataFrame) -> "pd.Series[Any]":
    """Return the failure class of each failed run, 'unknown' where none is stored; missing for all other runs."""
    require_columns(runs, "success")
    failed = as_hits(runs["success"]) == 0
    stored = runs["failure_class"].astype("string") if "failure_class" in runs.columns else None
    if stored is None:
        stored = pd.Series(pd.NA, index=runs.index, dtype="string")
    stored = stored.where(stored.isin(FAILURE_CLASSES), "unknown").fillna("unknown")
    return stored.where(failed)


def all_causes_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how many failed runs show each cause at all (`failure_classes`), by strategy.

    A run may show several, so the columns do not add up to `failed`. Failed runs without a stored list count as
    their first cause.
    """
    require_columns(runs, "success", "strategy")
    first = failure_class_of(runs)
    lists = runs["failure_classes"] if "failure_classes" in runs.columns else pd.Series(pd.NA, index=runs.index)
    causes = [_read_causes(stored, one) if not pd.isna(one) else [] for stored, one in zip(lists, first, strict=True)]
    exploded = runs.assign(_cause=pd.Series(causes, index=runs.index, dtype=object)).explode("_cause")
    table = pd.crosstab(exploded["strategy"].astype("string"), exploded["_cause"].astype("string"))
    return table.reindex(index=pd.Index(levels(runs), name="strategy"), fill_value=0).rename_axis(columns=None)


def _read_causes(stored: Any, first: str) -> list[str]:
    if pd.isna(stored):
        return [first]
    causes = [str(cause) for cause in json.loads(stored)]
    return list(dict.fromkeys(causes)) or [first]


def outcome_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs by strategy and outcome, in the order of `columns.OUTCOMES`; all columns are always there.

    Runs that were started and have no outcome count as `unknown`, a last column; planned ones are not counted.
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy", "outcome")
    started = ~_state(runs).isin(["planned", "running"])
    outcome = runs["outcome"].astype("string").fillna("unknown").where(started)
    rows = {}
    for name in levels(runs):
        part = rows_of(runs.assign(_outcome=outcome), "strategy", name)
        counts = part["_outcome"].value_counts()
        rows[name] = {level: int(counts.get(level, 0)) for level in (*OUTCOMES, "unknown")}
    columns = [*OUTCOMES, "unknown"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis(index="strategy")


def _state(runs: pd.DataFrame) -> "pd.Series[Any]":
    if "state" not in runs.columns:
        return pd.Series("finished", index=runs.index, dtype="string")
    return runs["state"].astype("string").fillna("finished")


def _counts(runs: pd.DataFrame, classes: "pd.Series[Any]", total: str, last: str) -> pd.DataFrame:
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy")
    frequent = [str(name) for name in classes.dropna().value_counts().index if name != last]
    rows = {}
    for name in levels(runs):
        part = rows_of(runs.assign(_class=classes), "strategy", name)
        counts = part["_class"].value_counts()
        row = {level: int(counts.get(level, 0)) for level in (*frequent, last)}
        rows[name] = {**row, total: sum(row.values()), "evaluable": int(as_hits(part["success"]).notna().sum())}
    columns = [*frequent, last, total, "evaluable"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis(index="strategy")
