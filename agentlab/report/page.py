"""The team report: one offline HTML file with the decision, the tables, the charts and where it all comes from."""

import base64
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from agentlab.analysis.frames import load_calls, load_runs
from agentlab.analysis.rates import by_strategy
from agentlab.analysis.units import model_kind
from agentlab.errors import ConfigError
from agentlab.output_places import writing
from agentlab.report.charts import Chart, failure_classes, forest, outcomes, stability_heatmap, tokens_by_actor
from agentlab.report.decision import Decision, decide
from agentlab.report.page_texts import TEXTS, PageTexts
from agentlab.report.show import provenance
from agentlab.runner.spec import Experiment
from agentlab.store import Store

DEFAULT_MARGIN = 0.05
POINTS_PER_INCH = 96
MOST_EXAMPLES = 30
_SHARES = (
    "pass_rate", "healthy_rate", "defective_rate", "defect_recall", "false_alarm_rate", "flip_rate", "strict_rate",
    "budget_bound_share",
)  # fmt: skip
_UNKNOWN_COUNTS = {
    "tokens_per_run": "tokens_unknown_runs",
    "tokens_per_correct": "tokens_unknown_runs",
    "cost_per_correct_usd": "cost_unknown_runs",
}


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """Where the report is, and its decision sentence (of the first model, when there are several)."""

    path: Path
    sentence: str


def write_report(folder: str | Path, *, language: str = "en", out: str | Path | None = None) -> WrittenReport:
    """Write the report of an experiment as one HTML file that needs no network; return its path and sentence.

    Args:
        folder: results folder or database URL.
        language: zh or en.
        out: file to write; None is `report.html` in the folder.

    Raises:
        ConfigError: there is no experiment, it has no runs yet, a database needs `out`, or the file cannot be written.
    """
    if out is None and "://" in str(folder):
        raise ConfigError("Say where to write with --out: the results are in a database, not in a folder.")
    path = Path(out) if out is not None else Path(folder) / "report.html"
    runs, calls = load_runs(folder), load_calls(folder)
    if runs.empty:
        raise ConfigError(f"{folder} has no runs yet; `agentlab run SPEC --out {folder}` makes them.")
    words = TEXTS[language]
    about = _about(folder)
    definition = about["definition"]
    sections = [_section(part, calls, folder, words, language) for part in _by_model(runs)]
    page = _template().render(
        language=language,
        title=words.title.format(name=about["experiment"]),
        question=definition.get("question", ""),
        words=words,
        sections=sections,
        provenance=provenance(folder),
        definition=yaml.safe_dump(_as_declared(definition), allow_unicode=True, sort_keys=False),
    )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    return WrittenReport(path, sections[0]["sentence"])


def declared_comparison(folder: str | Path) -> tuple[float, str | None]:
    """Return the margin and the baseline that the experiment declared before its first run."""
    definition = _about(folder)["definition"]
    strategies = definition.get("strategies") or [{}]
    first = strategies[0].get("label") or strategies[0].get("name")
    return float(definition.get("margin", DEFAULT_MARGIN)), definition.get("baseline") or first


def _about(folder: str | Path) -> dict[str, Any]:
    store = Store(folder)
    try:
        about = store.experiment()
    finally:
        store.close()
    if about["experiment"] == "do" and "goal" in about["definition"]:
        raise ConfigError(
            f"{folder} is the journal of a goal, not an experiment: there is nothing to compare. `agentlab resume "
            f"{folder}` says how it stands."
        )
    return about


def _as_declared(definition: dict[str, Any]) -> dict[str, Any]:
    """The declaration without what was left at its default."""
    return Experiment.model_validate(definition).model_dump(mode="json", exclude_defaults=True)


def _by_model(runs: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The runs of each model: models, and with them real and simulated runs, are never pooled."""
    for model in runs["model"].unique():
        yield runs[runs["model"] == model]


def _section(
    runs: pd.DataFrame, calls: pd.DataFrame, folder: str | Path, words: PageTexts, language: str
) -> dict[str, Any]:
    margin, baseline = declared_comparison(folder)
    decision = decide(runs, margin, baseline=baseline, language=language)
    mine = calls[calls["run_id"].isin(runs["run_id"])]
    makers: dict[str, Callable[[], Chart]] = {
        "forest": lambda: forest(runs, baseline=decision.baseline or baseline, margin=margin, language=language),
        "tokens_by_actor": lambda: tokens_by_actor(mine, runs, language=language),
        "stability_heatmap": lambda: stability_heatmap(runs, language=language),
        "failure_classes": lambda: failure_classes(runs, language=language),
        "outcomes": lambda: outcomes(runs, language=language),
    }
    return {
        "model": str(runs["model"].iloc[0]),
        "banner": words.banner.get(model_kind(runs) or "", ""),
        "sentence": decision.sentence,
        "notes": _notes(decision),
        "rates": _rates(by_strategy(runs), words),
        "charts": [{"heading": words.charts[name], **_picture(make())} for name, make in makers.items()],
        "examples": _examples(runs),
    }


def _notes(decision: Decision) -> list[str]:
    return [note for note in decision.detail if note]


def _rates(table: pd.DataFrame, words: PageTexts) -> dict[str, Any]:
    rows = [
        {
            "is_reference": bool(row["reference"]),
            "cells": [_cell(str(name), column, row, words) for column in words.columns],
        }
        for name, row in table.iterrows()
    ]
    return {"head": list(words.columns.values()), "rows": rows}


def _cell(name: str, column: str, row: "pd.Series[Any]", words: PageTexts) -> str:
    """One cell as text; what is unknown or does not apply is shown as missing."""
    if column == "strategy":
        return words.references.get(name, name)
    if column == "answer_by":
        return (
            ", ".join(words.answer_by.get(part, part) for part in str(row[column]).split(", ")) if row[column] else ""
        )
    if column == "runs":
        return words.missing if row["reference"] else f"{row['evaluable']} / {row['planned']}"
    if column == "excluded":
        return words.missing if row["reference"] else str(row["excluded"])
    if column == "interval":
        return words.missing if math.isnan(row["low"]) else f"{row['low']:.0%} – {row['high']:.0%}"
    value = float(row[column])
    if math.isnan(value):
        return words.missing
    if column in _SHARES:
        return f"{value:.2f}" if column == "flip_rate" else f"{value:.0%}"
    text = f"{value:,.4f}" if column.endswith("usd") else f"{value:,.0f}"
    return f"{words.at_least} {text}" if row[_UNKNOWN_COUNTS[column]] > 0 else text


def _picture(chart: Chart) -> dict[str, Any]:
    data = base64.b64encode(chart._repr_png_()).decode("ascii")
    return {"png": data, "width": round(chart.get_figwidth() * POINTS_PER_INCH), "caption": chart.caption}


def _examples(runs: pd.DataFrame) -> list[list[str]]:
    """One wrong run for each strategy and cause, and one excluded run for each trouble."""
    wrong = runs[runs["failure_class"].notna() | runs["end_reason"].isin(["infrastructure", "error"])]
    chosen = wrong.drop_duplicates(["strategy", "failure_class", "outcome"]).head(MOST_EXAMPLES)
    columns = ["strategy", "failure_class", "task_id", "outcome", "end_reason", "run_id"]
    return [["" if pd.isna(value) else str(value) for value in row] for row in chosen[columns].itertuples(index=False)]


def _template() -> Any:
    import jinja2

    folder = Path(__file__).parent / "templates"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.jinja")
