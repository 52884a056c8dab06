"""The stability heat map: which repeats of which task pass under which strategy, and how often they flip."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from agentlab.analysis.stability import flip_rate, task_stability
from agentlab.analysis.units import check_frame, identities, levels, model_kind, require_columns, rows_of
from agentlab.report.labels import check_language
from agentlab.report.provenance import footer
from agentlab.report.style import (
    EDGE,
    FONT_SIZE,
    GAP,
    NO_DATA_INK,
    SMALL,
    SOFT_INK,
    Chart,
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

MOST_TASKS = 80
ROW, COLUMN, BOTTOM = 0.24, 1.05, 0.7
NAME_WIDTH = 2.4


@dataclass(frozen=True, slots=True)
class _Grid:
    """Tasks (rows, hardest first) by strategies (columns)."""

    tasks: list[str]
    n_tasks: int
    """Tasks of the frame; more than `tasks` when the map is cut."""
    strategies: list[str]
    passed: "pd.DataFrame"
    n: "pd.DataFrame"
    flips: "pd.DataFrame"
    overall: dict[str, float]


def stability_heatmap(runs: pd.DataFrame, language: str = "en") -> Chart:
    """Is a strategy stable, and on which tasks not? One row per task, one column per strategy, '4/5' in each cell.

    Tasks are sorted by difficulty (mean pass rate over the strategies), hardest first. The margin on the right is the
    flip rate of the task, the row at the bottom that of the strategy: the share of pairs of repeats that disagree.
    More than 80 tasks: the least stable ones are shown, and the chart says so.

    Raises:
        ConfigError: unknown language; kinds of models mixed; a run twice.
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy")
    check_language(language)
    grid = _grid(runs)
    with drawing(language) as pen:
        figure = Chart()
        hints = [pen.text("stability_hint")]
        if len(grid.tasks) < grid.n_tasks:
            hints.append(pen.text("stability_cut", shown=len(grid.tasks), tasks=grid.n_tasks))
        labels = strategy_labels(runs, pen)
        heads = [fitted(figure, labels[name], SMALL, COLUMN - 0.1, lines=3) for name in grid.strategies]
        top = head_height(hints) + 0.35 + 0.16 * max([1, *(head.count("\n") + 1 for head in heads)])
        _draw(figure, grid, heads, runs, top, head_width(figure, hints), pen)
        head = pen.text("stability_title")
        title(figure, pen, head, hints)
        caption = "; ".join(_caption(labels[name], grid.overall[name], pen) for name in grid.strategies)
        return finish(
            figure, pen, footer(runs, pen), f"{head}. {caption or pen.text('nothing_to_show')}.", model_kind(runs)
        )


def _grid(runs: pd.DataFrame) -> _Grid:
    names = levels(runs)
    parts = {name: task_stability(rows_of(runs, "strategy", name)) for name in names}
    tasks = sorted(identities(runs)["task"].unique())
    tables = {
        column: pd.DataFrame({name: part[column].reindex(tasks) for name, part in parts.items()}, index=tasks)
        for column in ("passed", "n", "flip_rate")
    }
    n = tables["n"].fillna(0).astype(float)
    rates = (tables["passed"] / n.where(n > 0)).mean(axis=1)
    order = list(rates.sort_values(kind="stable", na_position="first").index)
    if len(order) > MOST_TASKS:
        unstable = tables["flip_rate"].mean(axis=1).sort_values(ascending=False, kind="stable").index[:MOST_TASKS]
        order = [task for task in order if task in set(unstable)]
    overall = {name: flip_rate(rows_of(runs, "strategy", name)).estimate for name in names}
    shown = {column: table.reindex(order) for column, table in tables.items()}
    return _Grid(order, len(tasks), names, shown["passed"].fillna(0), shown["n"].fillna(0), shown["flip_rate"], overall)


def _draw(
    figure: Chart, grid: _Grid, heads: list[str], runs: pd.DataFrame, top: float, least_width: float, pen: Pen
) -> None:
    names = [fitted(figure, pen.name(task, task), SMALL, NAME_WIDTH, lines=1) for task in _short(grid.tasks)]
    last = pen.text("flip_rate_all")
    left = EDGE + max(text_width(figure, name, SMALL) for name in [*names, last]) + 0.12
    width, height = COLUMN * max(1, len(grid.strategies)), ROW * len(grid.tasks)
    bar_left = left + width + GAP
    right = bar_left + 1.2 + EDGE
    figure.set_size_inches(max(right, least_width), top + height + 0.12 + 1.2 * ROW + BOTTOM)
    if not grid.tasks or not grid.strategies:
        write(figure, EDGE, top, pen.text("nothing_to_show"), color=SOFT_INK)
        return
    axes = axes_at(figure, left, top, width, height)
    _cells(axes, grid, pen)
    axes.set_yticks(range(len(names)), names, fontsize=SMALL)
    looks = strategy_looks(runs)
    for i, (name, head) in enumerate(zip(grid.strategies, heads, strict=True)):
        middle = left + COLUMN * (i + 0.5)
        write(figure, middle, top - 0.25, head, fontsize=SMALL, ha="center", va="bottom", linespacing=1.1)
        marker = axes_at(figure, middle - 0.1, top - 0.21, 0.2, 0.2)
        marker.plot(0, 0, marker=looks[name].marker, color=looks[name].color, markersize=7)
        marker.axis("off")
    _bottom_row(figure, grid, last, left, top + height + 0.12, pen)
    _margin(axes_at(figure, bar_left, top, 1.1, height), grid, pen)
    write(figure, bar_left, top - 0.08, pen.text("flip_rate"), fontsize=SMALL, color=SOFT_INK, va="bottom")


def _short(tasks: list[str]) -> list[str]:
    """Task names without the suite when all tasks are of one suite."""
    suites = {task.partition("/")[0] for task in tasks}
    return [task.partition("/")[2] or task for task in tasks] if len(suites) == 1 else tasks


def _colors() -> ListedColormap:
    """Cividis without its darkest end, so that the cells stay calm and the text readable."""
    from matplotlib import colormaps

    return ListedColormap(colormaps["cividis"](np.linspace(0.12, 1, 256)))


def _cells(axes: Axes, grid: _Grid, pen: Pen) -> None:
    passed, n = grid.passed.to_numpy(dtype=float), grid.n.to_numpy(dtype=float)
    shares = passed / np.where(n > 0, n, np.nan)
    image = axes.imshow(shares, cmap=_colors(), vmin=0, vmax=1, aspect="auto")
    for y in range(len(grid.tasks)):
        for x in range(len(grid.strategies)):
            share = shares[y, x]
            if math.isnan(share):
                axes.add_patch(
                    Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor="white", hatch="////", edgecolor="#DDDDDD")
                )
                axes.text(x, y, "–", ha="center", va="center", fontsize=SMALL, color=NO_DATA_INK)
                continue
            red, green, blue, _ = image.to_rgba(share)
            dark = 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.5
            words = f"{passed[y, x]:.0f}/{n[y, x]:.0f}"
            axes.text(x, y, words, ha="center", va="center", fontsize=SMALL, color="white" if dark else "black")
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    for x in range(1, len(grid.strategies)):
        axes.axvline(x - 0.5, color="white", linewidth=2)
    for y in range(1, len(grid.tasks)):
        axes.axhline(y - 0.5, color="white", linewidth=0.6)


def _margin(axes: Axes, grid: _Grid, pen: Pen) -> None:
    flips = grid.flips.mean(axis=1).to_numpy(dtype=float)
    axes.barh(range(len(flips)), np.nan_to_num(flips), height=0.6, color="#9AA5B1")
    for position, flip in enumerate(flips):
        words = "–" if math.isnan(flip) else f"{flip:.2f}"
        axes.text(np.nan_to_num(flip) + 0.03, position, words, va="center", fontsize=SMALL - 0.5, color=SOFT_INK)
    axes.set(xlim=(0, 1), ylim=(len(flips) - 0.5, -0.5), xticks=[], yticks=[])
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_visible(True)


def _bottom_row(figure: Chart, grid: _Grid, words: str, left: float, top: float, pen: Pen) -> None:
    middle = top + 0.6 * ROW
    write(figure, left - 0.1, middle, words, fontsize=SMALL, ha="right", va="center", color=SOFT_INK)
    for i, name in enumerate(grid.strategies):
        value = grid.overall[name]
        shown = pen.text("no_data") if math.isnan(value) else f"{value:.2f}"
        ink = {"color": NO_DATA_INK} if math.isnan(value) else {}
        write(figure, left + COLUMN * (i + 0.5), middle, shown, fontsize=FONT_SIZE, ha="center", va="center", **ink)


def _caption(label: str, flip: float, pen: Pen) -> str:
    if math.isnan(flip):
        return f"{label}: {pen.text('no_data')}"
    return pen.text("stability_caption", strategy=label, rate=f"{flip:.2f}")
