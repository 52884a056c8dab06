"""What has to stand beside a decision: the rates of each strategy, and every reason to read them with care."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from agentlab.analysis.compare import Difference
from agentlab.analysis.units import levels, rows_of
from agentlab.report.decision_texts import NOTES, sentence
from agentlab.report.labels import percent, plural

BUDGET_LIMIT = 0.05
"""Share of budget-bound runs above which a warning stands beside the decision."""
MOST_NAMES = 8


def rate_notes(table: pd.DataFrame, language: str) -> tuple[str, ...]:
    """Return one line per strategy of a rate table: pass rate with interval and counts, strata, recall, tokens."""
    names = table.index[~table["reference"]]
    return tuple(_rate_note(str(name), table.loc[[name]].iloc[0], language) for name in names)


def _rate_note(name: str, row: "pd.Series[Any]", language: str) -> str:
    if not row["evaluable"]:
        return sentence(NOTES, "no_rate", language, strategy=name, planned=row["planned"])

    def note(key: str, **values: object) -> str:
        return sentence(NOTES, key, language, **values)

    def shown(column: str) -> str:
        return "–" if math.isnan(row[column]) else percent(row[column], language)

    has_verdicts = not (math.isnan(row["defect_recall"]) and math.isnan(row["false_alarm_rate"]))
    tokens = "" if math.isnan(row["tokens_per_run"]) else note("tokens_per_run", tokens=f"{row['tokens_per_run']:,.0f}")
    if tokens and row["tokens_unknown_runs"]:
        tokens += note("tokens_known", unknown=row["tokens_unknown_runs"])
    strata = note("strata", healthy=shown("healthy_rate"), defective=shown("defective_rate"))
    return note(
        "rate",
        strategy=name,
        rate=percent(row["pass_rate"], language),
        interval="" if math.isnan(row["low"]) else f" [{100 * row['low']:.0f}, {100 * row['high']:.0f}]",
        passed=row["passed"],
        runs=row["evaluable"],
        strata=strata if row["basis"] == "balanced" else "",
        recall=note("recall", recall=shown("defect_recall"), alarms=shown("false_alarm_rate")) if has_verdicts else "",
        tokens=tokens,
        answer_by=note("answer_by", who=_writers(row["answer_by"], language)) if row["answer_by"] else "",
    )


def _writers(names: str, language: str) -> str:
    """Who writes the answers, in words of the language."""
    words = {"python": "Python"} | ({"model": "模型", "delegate": "被委派的策略"} if language == "zh" else {})
    return ", ".join(words.get(name, name) for name in names.split(", "))


def cautions(runs: pd.DataFrame, table: pd.DataFrame, differences: Sequence[Difference], language: str) -> list[str]:
    """Return every caution that applies to a comparison, most specific first; an empty list when none does.

    Args:
        runs: the runs that were compared.
        table: `rates.by_strategy(runs)`, constant answers included.
        differences: the comparisons with the baseline.
        language: en or zh.
    """
    notes: list[str] = []
    for name in levels(runs):
        notes += _of_strategy(name, table.loc[[name]].iloc[0], rows_of(runs, "strategy", name), language)
    notes += _constant(table, language)
    for difference in differences:
        if difference.missing_tasks:
            notes.append(_missing_pairs(difference, language))
    if _is_repeated_at_zero(runs):
        notes.append(sentence(NOTES, "temperature", language))
    if differences and all(difference.basis != "balanced" for difference in differences):
        notes.append(sentence(NOTES, "unbalanced", language))
    return notes


def _of_strategy(name: str, row: "pd.Series[Any]", runs: pd.DataFrame, language: str) -> list[str]:
    notes = []
    missing = int(row["planned"] - row["evaluable"])
    if missing and row["evaluable"]:
        counts = {
            "planned": int(row["planned"]),
            "excluded": int(row["excluded"]),
            "unfinished": int(row["unfinished"]),
        }
        strict = percent(row["strict_rate"], language)
        notes.append(sentence(NOTES, "unjudged", language, strategy=name, missing=missing, strict=strict, **counts))
    if row["budget_bound_share"] > BUDGET_LIMIT:
        share = percent(row["budget_bound_share"], language)
        notes.append(sentence(NOTES, "budget", language, strategy=name, share=share))
    digests = runs["source_digest"].nunique() if "source_digest" in runs.columns else 0
    if digests > 1:
        notes.append(sentence(NOTES, "digests", language, strategy=name, n=digests))
    return notes


def _constant(table: pd.DataFrame, language: str) -> list[str]:
    constant = table.loc[table["reference"], "pass_rate"].max()
    found = table[~table["reference"] & (table["low"] <= constant)]
    rate = percent(constant, language) if len(found) else ""
    return [sentence(NOTES, "constant", language, strategy=name, rate=rate) for name in found.index]


def _missing_pairs(difference: Difference, language: str) -> str:
    tasks = difference.missing_tasks
    listed = ", ".join(tasks[:MOST_NAMES]) + (", …" if len(tasks) > MOST_NAMES else "")
    return sentence(
        NOTES, "missing_pairs", language, n=len(tasks), s=plural(len(tasks)), are="is" if len(tasks) == 1 else "are",
        strategy=difference.strategy, baseline=difference.baseline, tasks=listed,
    )  # fmt: skip


def _is_repeated_at_zero(runs: pd.DataFrame) -> bool:
    if "temperature" not in runs.columns or "repeat" not in runs.columns:
        return False
    cold = runs[(runs["temperature"] == 0).fillna(False)]
    return bool(cold["repeat"].nunique() > 1)
