"""The footer of every chart: which experiment, how much data, which model, from when, by which version."""

import pandas as pd

import agentlab
from agentlab.analysis.units import identities, joined, model_kind
from agentlab.report.labels import plural
from agentlab.report.style import Pen


def footer(runs: pd.DataFrame, pen: Pen) -> str:
    """Return one line: experiment, tasks x repeats, flows, model and kind, date of the data, package version.

    All of it comes from the frame; what the frame does not say is said to be unknown, the clock is never asked.
    """
    parts = [joined(runs["experiment"]) if "experiment" in runs.columns else ""]
    ids = identities(runs)
    repeats = int(runs["repeat"].nunique()) if "repeat" in runs.columns else 1
    tasks, flows = ids["task"].nunique(), ids["cluster"].nunique()
    parts.append(pen.text("tasks_by_repeats", tasks=tasks, repeats=repeats, s=plural(tasks), s2=plural(repeats)))
    parts.append(pen.text("flows", n=flows, s=plural(flows)))
    parts.append(_model(runs, pen))
    parts.append(_date(runs, pen))
    versions = joined(runs["package_version"]) if "package_version" in runs.columns else ""
    parts.append(f"agentlab {versions or agentlab.__version__}")
    return " · ".join(part for part in parts if part)


def _model(runs: pd.DataFrame, pen: Pen) -> str:
    kind = model_kind(runs)
    shown = pen.text(f"kind_{kind}") if kind else pen.text("kind_unknown")
    models = joined(runs["model"]) if "model" in runs.columns else ""
    if not models:
        return shown
    count = runs["model"].nunique()
    return pen.text("model_of_kind", model=pen.text("several_models", n=count) if count > 2 else models, kind=shown)


def _date(runs: pd.DataFrame, pen: Pen) -> str:
    if "started_at" not in runs.columns or runs["started_at"].isna().all():
        return pen.text("date_unknown")
    dates = runs["started_at"].dropna()
    first, last = (f"{moment:%Y-%m-%d}" for moment in (dates.min(), dates.max()))
    return pen.text("data_of", date=first if first == last else f"{first} – {last}")
