"""Why runs fail, and what they did about the defect: stacked 100 % bars per strategy with the counts."""

from typing import Any

import pandas as pd

from agentlab.analysis.failures import RIGHT_OUTCOMES, failure_table, outcome_table
from agentlab.analysis.units import check_frame, levels, model_kind, require_columns
from agentlab.columns import OUTCOMES
from agentlab.report.bars import Panel, Part, Row, draw_bars, plain_colors, unknown_part
from agentlab.report.labels import FAILURE_WORDS, OUTCOME_WORDS, plural, word
from agentlab.report.provenance import footer
from agentlab.report.style import (
    NEUTRAL,
    Chart,
    Look,
    Pen,
    drawing,
    finish,
    head_height,
    head_width,
    strategy_labels,
    strategy_looks,
    title,
)

MOST_CLASSES = 7
OTHER = "other"
RIGHT = "#77AADD"
OUTCOME_COLORS = {
    "found": RIGHT, "clean": RIGHT, "incomplete_right": RIGHT, "missed": "#EE8866", "masked": "#FFAABB",
    "wrong_defect": "#EEDD88", "false_alarm": "#EE8866", "incomplete_wrong": "#EE8866", "no_verdict": NEUTRAL,
    "excluded": "#FFFFFF",
}  # fmt: skip
TRUTHS = ("failed", "passed", "incomplete")


def failure_classes(runs: pd.DataFrame, language: str = "en") -> Chart:
    """Why do runs fail? First cause of each failed run, 100 % bars per strategy with counts.

    The seven most frequent causes have a colour of their own, the rest is 'other'; 'unknown' is always kept apart.

    Raises:
        ConfigError: unknown language; a column is missing; kinds of models mixed; a run twice.
    """
    table = failure_table(runs)
    causes = [name for name in table.columns if name not in ("unknown", "failed", "evaluable")]
    shown, rest = causes[:MOST_CLASSES], causes[MOST_CLASSES:]
    if len(rest) == 1:
        shown, rest = causes, []
    counts = table[shown].assign(**{OTHER: table[rest].sum(axis=1), "unknown": table["unknown"]})
    with drawing(language) as pen:
        colors = plain_colors(shown)
        parts = [Part(name, word(FAILURE_WORDS, name, pen.language), colors[name]) for name in shown]
        if rest:
            parts.append(Part(OTHER, pen.text("other_classes", n=len(rest)), "#BBBBBB"))
        parts.append(unknown_part("unknown", word(FAILURE_WORDS, "unknown", pen.language), always=True))
        rows, captions = [], []
        labels, looks = strategy_labels(runs, pen), strategy_looks(runs)
        for name in levels(runs):
            failed, evaluable = int(table["failed"][name]), int(table["evaluable"][name])
            empty = "" if failed else pen.text("no_failures" if evaluable else "no_data")
            cells = (pen.text("failed_of", failed=failed, runs=evaluable) if evaluable else "–",)
            rows.append(_row(labels[name], looks[name], counts.loc[[name]].iloc[0], cells, empty))
            caption = pen.text("failures_caption", strategy=labels[name], failed=failed, runs=evaluable)
            captions.append(caption if evaluable else f"{labels[name]}: {pen.text('no_data')}")
        panel = _panel(rows, pen.text("axis_share"), "", pen)
        return _chart(runs, [panel], parts, "failures", captions, pen)


def outcomes(runs: pd.DataFrame, language: str = "en") -> Chart:
    """What did runs do about the defect? Outcomes as 100 % bars per strategy, one panel per truth of the task.

    Tasks with a defect: found, or missed, masked, a wrong defect, no verdict. Healthy tasks: clean or a false alarm.
    Blue is right, grey no verdict, hatched white not counted. Without `truth_verdict` all runs share one panel.

    Raises:
        ConfigError: unknown language; a column is missing; kinds of models mixed; a run twice.
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy", "outcome")
    with drawing(language) as pen:
        parts = [_outcome_part(name, pen) for name in OUTCOMES]
        parts.append(unknown_part("unknown", word(OUTCOME_WORDS, "unknown", pen.language)))
        labels, looks = strategy_labels(runs, pen), strategy_looks(runs)
        panels = []
        for head, part in _by_truth(runs):
            table = outcome_table(part)
            rows = []
            for name in levels(runs):
                counts = table.reindex([name], fill_value=0).iloc[0]
                total = int(counts.sum())
                cells = (pen.text("runs_count", n=total, s=plural(total)) if total else "–",)
                rows.append(_row(labels[name], looks[name], counts, cells, "" if total else pen.text("no_data")))
            panels.append(_panel(rows, "", pen.text(head), pen))
        return _chart(runs, panels, parts, "outcomes", _outcome_captions(runs, labels, pen), pen)


def _by_truth(runs: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    if "truth_verdict" not in runs.columns or runs["truth_verdict"].isna().all():
        return [("truth_any", runs)]
    truth = runs["truth_verdict"].astype("string")
    found = [name for name in TRUTHS if bool((truth == name).any())]
    return [(f"truth_{name}", runs[(truth == name).fillna(False)]) for name in found]


def _outcome_part(name: str, pen: Pen) -> Part:
    hatch = "///" if name == "excluded" else ""
    return Part(name, word(OUTCOME_WORDS, name, pen.language), OUTCOME_COLORS[name], hatch)


def _outcome_captions(runs: pd.DataFrame, labels: dict[str, str], pen: Pen) -> list[str]:
    captions = []
    for name, counts in outcome_table(runs).iterrows():
        total, label = int(counts.sum()), labels[str(name)]
        right = int(counts[list(RIGHT_OUTCOMES)].sum())
        caption = pen.text("outcomes_caption", strategy=label, right=right, runs=total)
        captions.append(caption if total else f"{label}: {pen.text('no_data')}")
    return captions


def _row(label: str, look: Look, counts: "pd.Series[Any]", cells: tuple[str, ...], empty: str) -> Row:
    total = int(counts.sum()) or 1
    sizes = {str(name): int(count) / total for name, count in counts.items() if count}
    words = {str(name): str(int(count)) for name, count in counts.items() if count}
    return Row(label, look, sizes, words, cells, empty)


def _panel(rows: list[Row], axis: str, head: str, pen: Pen) -> Panel:
    return Panel(rows, axis, 1.0, {tick: pen.percent(tick) for tick in (0, 0.25, 0.5, 0.75, 1)}, head)


def _chart(
    runs: pd.DataFrame, panels: list[Panel], parts: list[Part], name: str, captions: list[str], pen: Pen
) -> Chart:
    figure, hints = Chart(), [pen.text(f"{name}_hint")]
    draw_bars(figure, panels, parts, [""], head_height(hints), head_width(figure, hints), pen)
    head = pen.text(f"{name}_title")
    title(figure, pen, head, hints)
    caption = "; ".join(captions) or pen.text("nothing_to_show")
    return finish(figure, pen, footer(runs, pen), f"{head}. {caption}.", model_kind(runs))
