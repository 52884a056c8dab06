"""The forest plot: pass rates with intervals, and beside them the paired differences that are the evidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from agentlab.analysis.compare import Difference, paired_difference
from agentlab.analysis.rates import by_strategy
from agentlab.analysis.units import check_frame, levels, model_kind, require_columns
from agentlab.errors import unknown_name
from agentlab.report.labels import signed
from agentlab.report.provenance import footer
from agentlab.report.style import (
    EDGE,
    FONT_SIZE,
    GAP,
    GRID,
    INK,
    NO_DATA_INK,
    SMALL,
    SOFT_INK,
    Chart,
    Look,
    Pen,
    axes_at,
    drawing,
    finish,
    fitted,
    head_height,
    head_width,
    strategy_labels,
    strategy_looks,
    text_width,
    title,
    write,
)

ROW, COLUMN_HEAD, BOTTOM = 0.52, 0.4, 1.0
NAME_WIDTH, RATE_WIDTH, DIFFERENCE_WIDTH = 2.3, 2.7, 2.3


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the plot."""

    name: str
    label: str
    look: Look
    rate: "pd.Series[Any]"
    difference: Difference | None

    @property
    def has_data(self) -> bool:
        return not math.isnan(self.rate["pass_rate"])


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of text: its head, one cell per row, and where its aligned edge stands (inches)."""

    head: str
    cells: list[str]
    edge: float
    align: str


def forest(
    runs: pd.DataFrame, baseline: str | None = None, language: str = "en", *, margin: float | None = None
) -> Chart:
    """Which strategy passes more runs, and how sure is that? One row per strategy, best first.

    Left: pass rate (balanced where there are twins) with its 95 % interval; the small triangles are the healthy and
    the defective stratum, the dotted line the best constant answer. A hollow marker says that planned runs have no
    result. Right: the paired difference to the baseline over common tasks, with its 95 % interval.

    Args:
        runs: one counting attempt per run; `task_id, repeat, success, strategy`, and more where there is more.
        baseline: strategy of the difference panel; the panel is left out for None and when there is no other strategy.
        language: en or zh.
        margin: half width of the band of differences that do not matter (0.05 is 5 points).

    Raises:
        ConfigError: unknown baseline or language; kinds of models mixed; a run twice.
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy")
    if baseline is not None and baseline not in levels(runs):
        raise unknown_name("strategy", baseline, levels(runs))
    if levels(runs) == [baseline]:
        baseline = None
    table = by_strategy(runs)
    with drawing(language) as pen:
        figure = Chart()
        rows = _rows(runs, table, baseline, pen)
        head = pen.text("forest_title" if baseline is not None else "forest_title_single")
        hints = [pen.text("forest_hint" if baseline is not None else "forest_hint_single")]
        if any(row.rate["basis"] == "balanced" for row in rows):
            hints.append(pen.text("balanced_hint"))
        top = head_height(hints) + COLUMN_HEAD
        figure.set_size_inches(head_width(figure, hints), top + ROW * max(1, len(rows)) + BOTTOM)
        _draw(figure, rows, _best_constant(table), baseline, margin, top, pen)
        title(figure, pen, head, hints)
        caption = "; ".join(_caption(row, pen) for row in rows) or pen.text("nothing_to_show")
        return finish(figure, pen, footer(runs, pen), f"{head}. {caption}.", model_kind(runs))


def _rows(runs: pd.DataFrame, table: pd.DataFrame, baseline: str | None, pen: Pen) -> list[_Row]:
    labels, looks = strategy_labels(runs, pen), strategy_looks(runs)
    rows = []
    for name in labels:
        difference = None if baseline in (None, name) else paired_difference(runs, name, str(baseline))
        rows.append(_Row(name, labels[name], looks[name], table.loc[[name]].iloc[0], difference))
    return sorted(rows, key=lambda row: (not row.has_data, -row.rate["pass_rate"]))


def _best_constant(table: pd.DataFrame) -> float:
    return float(table.loc[table["reference"], "pass_rate"].max()) if table["reference"].any() else math.nan


def _draw(
    figure: Chart, rows: list[_Row], constant: float, baseline: str | None, margin: float | None, top: float, pen: Pen
) -> None:
    """Measure the texts, place panels and columns from left to right, and set the figure's width."""
    names = [fitted(figure, row.label, FONT_SIZE, NAME_WIDTH) for row in rows]
    left = EDGE + max([0.7, *(text_width(figure, name, FONT_SIZE) for name in names)]) + GAP
    columns, end = _columns(figure, left + RATE_WIDTH, _rate_cells(rows, pen), "right", pen)
    rate_left, difference_left = left, end + 2 * GAP
    if baseline is not None:
        cells = {"difference": [_difference_cell(row, baseline, pen) for row in rows]}
        more, end = _columns(figure, difference_left + DIFFERENCE_WIDTH, cells, "left", pen)
        columns += more
    figure.set_size_inches(max(end + EDGE, figure.get_size_inches()[0]), figure.get_size_inches()[1])
    if not rows:
        write(figure, EDGE, top, pen.text("nothing_to_show"), color=SOFT_INK)
        return
    _rate_panel(axes_at(figure, rate_left, top, RATE_WIDTH, ROW * len(rows)), rows, names, constant, pen)
    if baseline is not None:
        panel = axes_at(figure, difference_left, top, DIFFERENCE_WIDTH, ROW * len(rows))
        _difference_panel(panel, rows, baseline, margin, pen)
        label = next(row.label for row in rows if row.name == baseline)
        words = pen.text("axis_difference", baseline=label)
        panel.set_xlabel(fitted(figure, words, SMALL, DIFFERENCE_WIDTH + 0.8), fontsize=SMALL)
    for column in columns:
        font = {"fontsize": SMALL, "ha": column.align}
        write(figure, column.edge, top - 0.06, column.head, color=SOFT_INK, va="bottom", **font)
        for number, (cell, row) in enumerate(zip(column.cells, rows, strict=True)):
            ink = INK if (row.has_data and row.name != baseline) or column.align == "right" else NO_DATA_INK
            write(figure, column.edge, top + ROW * (number + 0.5), cell, color=ink, va="center", **font)


def _columns(
    figure: Chart, left: float, cells: dict[str, list[str]], align: str, pen: Pen
) -> tuple[list[_Column], float]:
    columns = []
    for key, texts in cells.items():
        head = pen.text(f"column_{key}")
        width = max(text_width(figure, words, SMALL) for words in [head, *texts])
        left += GAP
        columns.append(_Column(head, texts, left + width if align == "right" else left, align))
        left += width
    return columns, left


def _rate_cells(rows: Sequence[_Row], pen: Pen) -> dict[str, list[str]]:
    cells: dict[str, list[str]] = {"rate": [], "passed": [], "units": []}
    for row in rows:
        rate, planned, evaluable = row.rate, int(row.rate["planned"]), int(row.rate["evaluable"])
        interval = "" if math.isnan(rate["low"]) else f" [{100 * rate['low']:.0f}, {100 * rate['high']:.0f}]"
        unjudged = pen.text("of_planned", planned=planned) if planned > evaluable else ""
        counts = f"{int(rate['passed'])} / {evaluable}" if evaluable or not planned else "0"
        cells["rate"].append(pen.percent(rate["pass_rate"]) + interval if row.has_data else "–")
        cells["passed"].append("\n".join(words for words in (counts, unjudged) if words))
        cells["units"].append(f"{int(rate['n_tasks'])} / {int(rate['n_clusters'])}" if row.has_data else "")
    return cells


def _difference_cell(row: _Row, baseline: str, pen: Pen) -> str:
    if row.name == baseline:
        return pen.text("baseline")
    if row.difference is None or math.isnan(row.difference.estimate):
        return pen.text("no_common_task")
    d = row.difference
    return signed(d.estimate) + ("" if math.isnan(d.low) else f" [{signed(d.low)}, {signed(d.high)}]")


def _rate_panel(axes: Axes, rows: Sequence[_Row], names: Sequence[str], constant: float, pen: Pen) -> None:
    for y, row in enumerate(rows):
        rate, color = row.rate, row.look.color
        if not row.has_data:
            axes.text(
                0.5,
                y,
                pen.text("no_data"),
                ha="center",
                va="center",
                color=NO_DATA_INK,
                fontsize=SMALL,
                backgroundcolor="white",
            )
            continue
        if not math.isnan(rate["low"]):
            axes.plot([rate["low"], rate["high"]], [y, y], color=color, linewidth=2, solid_capstyle="butt")
        if rate["basis"] == "balanced":
            for column, marker, shift in (("healthy_rate", "^", -0.27), ("defective_rate", "v", 0.27)):
                axes.plot(
                    rate[column], y + shift, marker=marker, markersize=4.5, color=color, markerfacecolor="white",
                    markeredgewidth=0.9, clip_on=False, linestyle="none",
                )  # fmt: skip
        _point(axes, rate["pass_rate"], y, row.look, hollow=bool(rate["evaluable"] < rate["planned"]))
    axes.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)))
    axes.set_yticklabels(names, linespacing=1.1)
    shares = (0, 0.25, 0.5, 0.75, 1)
    axes.set_xticks(shares, [pen.percent(share) for share in shares])
    axes.set_xlabel(pen.text("axis_pass_rate"), fontsize=SMALL)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    if not math.isnan(constant):
        axes.axvline(constant, color=SOFT_INK, linestyle=(0, (1, 2)), linewidth=1.2)
        words = pen.text("constant_answer", rate=pen.percent(constant))
        _above(axes, constant, words, "right" if constant >= 0.5 else "left")


def _above(axes: Axes, x: float, words: str, align: str) -> None:
    axes.annotate(
        words, (x, 1), (0, 4), xycoords=("data", "axes fraction"), textcoords="offset points", fontsize=SMALL,
        color=SOFT_INK, ha=align, annotation_clip=False,
    )  # fmt: skip


def _point(axes: Axes, x: float, y: float, look: Look, *, hollow: bool) -> None:
    size = 10.5 if look.marker in "PX" else 8.5  # the white edge eats into narrow markers
    axes.plot(
        x, y, marker=look.marker, markersize=size, markeredgewidth=1.2, linestyle="none", clip_on=False, zorder=5,
        markerfacecolor="white" if hollow else look.color, markeredgecolor=look.color if hollow else "white",
    )  # fmt: skip


def _difference_panel(axes: Axes, rows: Sequence[_Row], baseline: str, margin: float | None, pen: Pen) -> None:
    ends = [0.05, margin or 0.0]
    if margin:
        axes.axvspan(-margin, margin, color="#F1EEE6", zorder=0)
        _above(axes, 0, pen.text("margin_band", margin=f"{100 * margin:g}"), "center")
    axes.axvline(0, color=SOFT_INK, linewidth=1)
    for y, row in enumerate(rows):
        d = row.difference
        if row.name == baseline:
            _point(axes, 0, y, row.look, hollow=False)
        elif d is not None and not math.isnan(d.estimate):
            if not math.isnan(d.low):
                axes.plot([d.low, d.high], [y, y], color=row.look.color, linewidth=2, solid_capstyle="butt")
            ends += [abs(end) for end in (d.low, d.high, d.estimate) if not math.isnan(end)]
            _point(axes, d.estimate, y, row.look, hollow=False)
    reach = min(1.0, max(ends) * 1.12)
    step = next(step for step in (0.02, 0.05, 0.1, 0.2, 0.25, 0.5) if reach / step <= 3.2)
    count = int(reach / step + 1e-9)
    ticks = [step * k for k in range(-count, count + 1)]
    axes.set_xticks(ticks, [signed(tick, 0) for tick in ticks])
    axes.set(xlim=(-reach, reach), ylim=(len(rows) - 0.5, -0.5), yticks=[])
    axes.grid(axis="x", color=GRID, linewidth=0.8)


def _caption(row: _Row, pen: Pen) -> str:
    if not row.has_data:
        return f"{row.label}: {pen.text('no_data')}"
    passed, runs = int(row.rate["passed"]), int(row.rate["evaluable"])
    rate = pen.percent(row.rate["pass_rate"])
    return pen.text("forest_caption", strategy=row.label, rate=rate, passed=passed, runs=runs)
