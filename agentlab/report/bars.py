"""Stacked horizontal bars: one row per strategy, parts in fixed colours, columns of text on the right, a legend.

The drawing behind the token, failure and outcome charts; what the parts mean is theirs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from agentlab.report.style import (
    EDGE,
    FONT_SIZE,
    GAP,
    GRID,
    INK,
    NEUTRAL,
    NO_DATA_INK,
    PART_COLORS,
    SMALL,
    SOFT_INK,
    Chart,
    Look,
    Pen,
    axes_at,
    fitted,
    text_width,
    write,
)

ROW, BAR, NAME_WIDTH, BAR_WIDTH = 0.46, 0.62, 2.3, 5.2
PANEL_HEAD, AXIS, LEGEND_ROW, FOOTER = 0.36, 0.62, 0.26, 0.62
SWATCH, SWATCH_GAP = 0.17, 0.09


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of segment, the same colour in every row."""

    key: str
    word: str
    color: str
    hatch: str = ""
    always_in_legend: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy: the size of each part, and the texts beside the bar."""

    label: str
    look: Look
    sizes: dict[str, float]
    words: dict[str, str]
    """Text inside each segment, drawn where it fits."""
    cells: tuple[str, ...]
    empty: str = ""
    """What stands in place of a bar."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows over one axis."""

    rows: list[Row]
    axis: str
    limit: float
    ticks: dict[float, str]
    head: str = ""


@dataclass(slots=True)
class _Layout:
    names: dict[str, str]
    left: float
    heads: Sequence[str]
    cells: list[float] = field(default_factory=list)
    """Right edges of the text columns."""
    right: float = 0.0
    legend: list[list[tuple[Part, float]]] = field(default_factory=list)


def plain_colors(names: Sequence[str]) -> dict[str, str]:
    """Return a pale colour for each name, by position; more names than colours share them."""
    return {name: PART_COLORS[i % len(PART_COLORS)] for i, name in enumerate(names)}


def unknown_part(key: str, word: str, *, always: bool = False) -> Part:
    """Return the part for what is not known: grey and hatched; with `always`, in the legend even if there is none."""
    return Part(key, word, NEUTRAL, "///", always_in_legend=always)


def draw_bars(
    figure: Chart, panels: Sequence[Panel], parts: Sequence[Part], heads: Sequence[str], top: float, least_width: float,
    pen: Pen,
) -> None:  # fmt: skip
    """Measure everything, set the figure's size, and draw the panels below each other with one legend.

    Args:
        figure: an empty chart.
        panels: each with the same columns of cells.
        parts: in the order of the segments and of the legend.
        heads: of the text columns.
        top: inches above the first panel.
        least_width: inches that the title needs.
        pen: language and fonts.
    """
    layout = _measure(figure, panels, parts, heads)
    heights = [_head(panel, heads) + ROW * max(1, len(panel.rows)) + AXIS for panel in panels]
    legend_height = LEGEND_ROW * len(layout.legend) + 0.1
    total = top + sum(heights) + legend_height + FOOTER
    figure.set_size_inches(max(layout.right + EDGE, least_width), total)
    for panel, height in zip(panels, heights, strict=True):
        _draw_panel(figure, panel, parts, layout, top, pen)
        top += height
    _draw_legend(figure, layout, top)


def _head(panel: Panel, heads: Sequence[str]) -> float:
    return PANEL_HEAD if panel.head or any(heads) else 0.1


def _measure(figure: Chart, panels: Sequence[Panel], parts: Sequence[Part], heads: Sequence[str]) -> _Layout:
    labels = {row.label for panel in panels for row in panel.rows}
    names = {label: fitted(figure, label, FONT_SIZE, NAME_WIDTH) for label in sorted(labels)}
    left = EDGE + max([0.7, *(text_width(figure, name, FONT_SIZE) for name in names.values())]) + 0.45
    layout = _Layout(names, left, heads, right=left + BAR_WIDTH)
    for i, head in enumerate(heads):
        texts = [head, *(row.cells[i] for panel in panels for row in panel.rows)]
        layout.right += GAP + max(text_width(figure, words, SMALL) for words in texts)
        layout.cells.append(layout.right)
    rows = [row for panel in panels for row in panel.rows]
    used = [part for part in parts if part.always_in_legend or any(row.sizes.get(part.key) for row in rows)]
    room, line = layout.right - left, 0.0
    for part in used:
        width = SWATCH + SWATCH_GAP + text_width(figure, part.word, SMALL) + 0.3
        if not layout.legend or line + width > room:
            layout.legend.append([])
            line = 0.0
        layout.legend[-1].append((part, left + line))
        line += width
    return layout


def _draw_panel(figure: Chart, panel: Panel, parts: Sequence[Part], layout: _Layout, top: float, pen: Pen) -> None:
    top += _head(panel, layout.heads)
    if panel.head:
        write(figure, layout.left, top - 0.07, panel.head, va="bottom", color=INK)
    if not panel.rows:
        write(figure, EDGE, top, pen.text("nothing_to_show"), color=SOFT_INK)
        return
    axes = axes_at(figure, layout.left, top, BAR_WIDTH, ROW * len(panel.rows))
    axes.set(xlim=(0, panel.limit), ylim=(len(panel.rows) - 0.5, -0.5), yticks=[])
    axes.set_xticks(list(panel.ticks), list(panel.ticks.values()))
    axes.set_xlabel(panel.axis, fontsize=SMALL)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    for head, edge in zip(layout.heads, layout.cells, strict=True):
        write(figure, edge, top - 0.07, head, fontsize=SMALL, color=SOFT_INK, ha="right", va="bottom")
    for y, row in enumerate(panel.rows):
        _draw_row(figure, axes, row, parts, panel.limit, y)
        middle = top + ROW * (y + 0.5)
        write(figure, layout.left - 0.4, middle, layout.names[row.label], ha="right", va="center", linespacing=1.1)
        _draw_marker(figure, row.look, layout.left - 0.22, middle)
        for cell, edge in zip(row.cells, layout.cells, strict=True):
            ink = NO_DATA_INK if row.empty else INK
            write(figure, edge, middle, cell, fontsize=SMALL, ha="right", va="center", color=ink, linespacing=1.15)


def _draw_row(figure: Chart, axes: Axes, row: Row, parts: Sequence[Part], limit: float, y: int) -> None:
    if row.empty:
        axes.text(
            limit * 0.01, y, row.empty, ha="left", va="center", color=NO_DATA_INK, fontsize=SMALL,
            backgroundcolor="white",
        )  # fmt: skip
        return
    start = 0.0
    for part in parts:
        size = row.sizes.get(part.key, 0.0)
        if not size or math.isnan(size):
            continue
        axes.barh(
            y, size, left=start, height=BAR, color=part.color, hatch=part.hatch, edgecolor="white", linewidth=0.8,
            hatchcolor="#999999",
        )  # fmt: skip
        words = row.words.get(part.key, "")
        if words and text_width(figure, words, SMALL) + 0.08 < size / limit * BAR_WIDTH:
            box = {"facecolor": part.color, "edgecolor": "none", "pad": 1.0} if part.hatch else None
            axes.text(start + size / 2, y, words, ha="center", va="center", fontsize=SMALL, color=INK, bbox=box)
        start += size


def _draw_marker(figure: Chart, look: Look, left: float, top: float) -> None:
    marker = axes_at(figure, left - 0.1, top - 0.1, 0.2, 0.2)
    marker.plot(0, 0, marker=look.marker, color=look.color, markersize=7)
    marker.axis("off")


def _draw_legend(figure: Chart, layout: _Layout, top: float) -> None:
    width, height = figure.get_size_inches()
    for number, line in enumerate(layout.legend):
        middle = top + LEGEND_ROW * (number + 0.5)
        for part, left in line:
            corner = (left / width, 1 - (middle + SWATCH / 2) / height)
            swatch = Rectangle(corner, SWATCH / width, SWATCH / height, facecolor=part.color, hatch=part.hatch)
            swatch.set(edgecolor="#999999" if part.hatch else "none", linewidth=0.6 if part.hatch else 0)
            figure.add_artist(swatch)
            write(figure, left + SWATCH + SWATCH_GAP, middle, part.word, fontsize=SMALL, va="center")
