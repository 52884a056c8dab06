"""A plan as a picture: its graph from left to right, and its steps over time (`gantt`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

from agentlab.planning.plan import PlanStep
from agentlab.report.plan_gantt import gantt
from agentlab.report.plan_layout import Edge, Layout, layout
from agentlab.report.plan_records import PlanRecord, Source, StepRecord, plan_summary, statuses_of
from agentlab.report.plan_style import (
    LEGEND_ROW,
    NOT_PASSED,
    PASSED,
    STATUS_LOOKS,
    SWATCH_HEIGHT,
    SWATCH_WIDTH,
    Key,
    draw_legend,
    drawable_record,
    legend_lines,
    plan_footer,
    shape,
    status_key,
)
from agentlab.report.style import (
    EDGE,
    INK,
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
    title,
)

__all__ = ["gantt", "plan_graph"]

MOST_COLUMNS = 7
"""Generations side by side; longer plans go on in a row below."""
BOX_WIDTH, BOX_HEIGHT, GUTTER, ROW, SMALLEST = 1.5, 0.68, 0.42, 0.88, 8
LEAST_WIDTH = 6.4
"""Inches that the mark of simulated data needs."""
LANE, BAND_GAP, FOOTER = 0.11, 0.34, 0.5


def plan_graph(view_or_events: Source, language: str = "en") -> Chart:
    """What needs what, and what became of each step? Generations from left to right, one shape per status.

    A step that others block is dashed; marks say whether a check passed; weak dependencies are dotted. Plans of up
    to about 20 steps read well, 40 are possible.

    Args:
        view_or_events: a `PlanState`, the events of a run (its last plan), or one record of `plans_of_events`.
        language: en or zh.

    Raises:
        ConfigError: no plan, or one of more than 200 steps.
    """
    record = drawable_record(view_or_events)
    with drawing(language) as pen:
        figure, hints = Chart(), [pen.text("plan_hint")]
        places = _placed(layout(record.graph, MOST_COLUMNS), head_height(hints) + 0.12)
        keys = _keys(record, pen)
        width = max(places.width, head_width(figure, hints), LEAST_WIDTH)
        lines = legend_lines(figure, keys, width - 2 * EDGE)
        height = places.bottom + LEGEND_ROW * len(lines) + FOOTER
        figure.set_size_inches(width, height)
        axes = axes_at(figure, 0, 0, width, height)
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        for edge in places.layout.edges:
            _draw_edge(axes, edge, places)
        for step in record.graph.steps:
            _draw_step(figure, axes, step, record.steps[step.id], places.boxes[step.id], pen)
        draw_legend(axes, lines, places.bottom)
        number = record.number
        head = pen.text("plan_title") if number == 1 else pen.text("plan_title_number", number=number)
        title(figure, pen, head, hints)
        return finish(
            figure,
            pen,
            plan_footer(record, pen),
            f"{head}. {plan_summary(record, pen.language)}.",
            record.run.get("model_kind"),
        )


@dataclass(frozen=True, slots=True)
class _Places:
    """The layout in inches, y pointing down."""

    layout: Layout
    boxes: dict[str, tuple[float, float]]
    """Upper left corner of each step."""
    tops: list[float]
    """Of each band: where its channel for edges from the band above begins."""
    middles: list[float]
    width: float
    bottom: float

    def band(self, column: int) -> int:
        return column // self.layout.per_band

    def left(self, column: int) -> float:
        return EDGE + GUTTER / 2 + (column % self.layout.per_band) * (BOX_WIDTH + GUTTER)

    def y(self, column: int, height: float) -> float:
        return self.middles[self.band(column)] + height * ROW


def _placed(plan: Layout, top: float) -> _Places:
    per_band = plan.per_band
    n_bands = max(1, -(-plan.n_columns // per_band))
    used: list[list[float]] = [[] for _ in range(n_bands)]
    for edge in plan.edges:
        for column, height in edge.places:
            used[column // per_band].append(height)
    for column, height in plan.places.values():
        used[column // per_band].append(height)
    tops, middles = [], []
    for number, heights in enumerate(used):
        lanes = sum(_crosses(edge, number * per_band) for edge in plan.edges) if number else 0
        tops.append(top)
        top += LANE * lanes + (BAND_GAP if number else 0)
        middles.append(top - min(heights, default=0) * ROW + BOX_HEIGHT / 2)
        top += (max(heights, default=0) - min(heights, default=0)) * ROW + BOX_HEIGHT + BAND_GAP / 2
    width = 2 * EDGE + per_band * (BOX_WIDTH + GUTTER)
    places = _Places(plan, {}, tops, middles, width, top)
    for id, (column, height) in plan.places.items():
        places.boxes[id] = (places.left(column), places.y(column, height) - BOX_HEIGHT / 2)
    return places


def _crosses(edge: Edge, column: int) -> bool:
    """True when the edge comes into a column from the band above, which ends just before it."""
    columns = [at for at, _ in edge.places]
    return min(columns) < column <= max(columns)


def _draw_edge(axes: Axes, edge: Edge, places: _Places) -> None:
    points: list[tuple[float, float]] = []
    codes: list[Any] = []
    source, target = edge.places[0], edge.places[-1]
    is_back = target[0] < source[0]
    stops = list(reversed(edge.places)) if is_back else list(edge.places)
    if source[0] == target[0]:
        _beside(places, source, target, points, codes)
    else:
        for (column, height), (next_column, next_height) in pairwise(stops):
            start = (places.left(column) + BOX_WIDTH, places.y(column, height))
            end = (places.left(next_column), places.y(next_column, next_height))
            if not points:
                _add(points, codes, Path.MOVETO, start)
            if places.band(column) == places.band(next_column):
                bend = GUTTER * 0.55
                _add(points, codes, Path.CURVE4, (start[0] + bend, start[1]), (end[0] - bend, end[1]), end)
            else:
                _wrap(places, edge, next_column, start, end, points, codes)
            if (next_column, next_height) != stops[-1]:
                _add(points, codes, Path.LINETO, (end[0] + BOX_WIDTH, end[1]))
    if is_back:
        # Drawn from left to right all the same, but the arrow belongs to the end that uses the other.
        points.reverse()
        codes[1:] = reversed(codes[1:])
    axes.add_patch(
        FancyArrowPatch(
            path=Path(points, codes), arrowstyle="-|>", mutation_scale=9, linewidth=1.0, color=SOFT_INK,
            linestyle=(0, (1, 2)) if edge.is_weak else "solid", shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip


def _beside(
    places: _Places, source: tuple[int, float], target: tuple[int, float], points: list[tuple[float, float]],
    codes: list[Any],
) -> None:  # fmt: skip
    """A weak edge inside one column: straight to a neighbour, else around the right side."""
    start, end = places.y(*source), places.y(*target)
    down = 1 if end > start else -1
    middle, right = places.left(source[0]) + BOX_WIDTH / 2, places.left(source[0]) + BOX_WIDTH
    if abs(end - start) < 1.9 * ROW:
        half = down * BOX_HEIGHT / 2
        _add(points, codes, Path.MOVETO, (middle, start + half))
        _add(points, codes, Path.LINETO, (middle, end - half))
        return
    bend = GUTTER * 0.6
    _add(points, codes, Path.MOVETO, (right, start))
    _add(points, codes, Path.CURVE4, (right + bend, start), (right + bend, end), (right, end))


def _wrap(
    places: _Places, edge: Edge, column: int, start: tuple[float, float], end: tuple[float, float],
    points: list[tuple[float, float]], codes: list[Any],
) -> None:  # fmt: skip
    """From the end of a band through its own lane above the next band to the beginning of that."""
    crossing = [other for other in places.layout.edges if _crosses(other, column)]
    lane = crossing.index(edge)
    y = places.tops[places.band(column)] + LANE * (lane + 0.5)
    share = (lane + 1) / (len(crossing) + 1)
    right, left = start[0] + GUTTER * 0.7 * share + 0.04, end[0] - GUTTER * 0.5 * share - 0.1
    corners = [start, (right, start[1]), (right, y), (left, y), (left, end[1]), end]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        _add(points, codes, Path.LINETO, _towards(corner, before))
        _add(points, codes, Path.CURVE3, corner, _towards(corner, after))
    _add(points, codes, Path.LINETO, end)


def _towards(corner: tuple[float, float], other: tuple[float, float], radius: float = 0.05) -> tuple[float, float]:
    length = max(abs(other[0] - corner[0]), abs(other[1] - corner[1]))
    share = min(0.5, radius / length) if length else 0.0
    return corner[0] + (other[0] - corner[0]) * share, corner[1] + (other[1] - corner[1]) * share


def _add(points: list[tuple[float, float]], codes: list[Any], code: Any, *more: tuple[float, float]) -> None:
    points += more
    codes += [code] * len(more)


def _draw_step(
    figure: Chart, axes: Axes, step: PlanStep, record: StepRecord, corner: tuple[float, float], pen: Pen
) -> None:
    left, top = corner
    look = STATUS_LOOKS[record.status]
    axes.add_patch(shape(look, left, top, BOX_WIDTH, BOX_HEIGHT)).set_zorder(3)
    room, middle = BOX_WIDTH - 0.34, left + BOX_WIDTH / 2
    behind = {"facecolor": look.color, "edgecolor": "none", "pad": 0.8} if look.hatch else None
    font: dict[str, Any] = {"ha": "center", "zorder": 4, "bbox": behind}
    name = fitted(figure, pen.drawable(step.id), SMALL + 0.5, room, lines=1)
    axes.text(middle, top + 0.14, name, fontsize=SMALL + 0.5, va="center", color=INK, **font)
    words = _description(figure, step, pen, room + 0.16)
    axes.text(middle, top + 0.43, words, fontsize=SMALLEST, va="center", color=INK, linespacing=1.05, **font)
    if record.tries > 1:
        _badge(axes, left + 0.02, top + BOX_HEIGHT, f"×{record.tries}", INK)
    if record.n_not_passed:
        _badge(axes, left + BOX_WIDTH, top, "✗", NOT_PASSED)
    elif record.n_passed:
        _badge(axes, left + BOX_WIDTH, top, "✓", PASSED)


def _description(figure: Chart, step: PlanStep, pen: Pen, width: float) -> str:
    """The description where two lines hold it, else the tool's name, else what fits of the description."""
    whole = fitted(figure, pen.drawable(step.description), SMALLEST, width)
    tool = pen.drawable(step.tool or "")
    return fitted(figure, tool, SMALLEST, width) if tool and (not whole or whole.endswith("…")) else whole or step.kind


def _badge(axes: Axes, x: float, y: float, words: str, color: str) -> None:
    axes.text(
        x, y, words, fontsize=SMALLEST, ha="center", va="center", color=color, zorder=6,
        bbox={"boxstyle": "circle,pad=0.22", "facecolor": "white", "edgecolor": color, "linewidth": 1.1},
    )  # fmt: skip


def _keys(record: PlanRecord, pen: Pen) -> list[Key]:
    """The entries of the legend: only what occurs in the picture."""
    keys = [status_key(status, pen) for status in statuses_of(record)]
    steps: Sequence[StepRecord] = list(record.steps.values())
    if any(step.n_passed and not step.n_not_passed for step in steps):
        keys.append(_badge_key("✓", PASSED, pen.text("plan_passed")))
    if any(step.n_not_passed for step in steps):
        keys.append(_badge_key("✗", NOT_PASSED, pen.text("plan_not_passed")))
    if any(step.tries > 1 for step in steps):
        keys.append(_badge_key("×2", INK, pen.text("plan_tries")))
    if any(step.depends_on for step in record.graph.steps):
        keys.append(_line_key("solid", pen.text("plan_strong")))
    if any(step.weak_depends_on for step in record.graph.steps):
        keys.append(_line_key("dotted", pen.text("plan_weak")))
    return keys


def _badge_key(mark: str, color: str, words: str) -> Key:
    def draw(axes: Axes, left: float, top: float) -> None:
        _badge(axes, left + SWATCH_WIDTH / 2, top + SWATCH_HEIGHT / 2, mark, color)

    return Key(words, draw)


def _line_key(line: str, words: str) -> Key:
    style = (0, (1, 2)) if line == "dotted" else "solid"

    def draw(axes: Axes, left: float, top: float) -> None:
        ends = ((left, top + SWATCH_HEIGHT / 2), (left + SWATCH_WIDTH, top + SWATCH_HEIGHT / 2))
        axes.add_patch(
            FancyArrowPatch(
                *ends, arrowstyle="-|>", mutation_scale=9, linewidth=1.0, color=SOFT_INK, linestyle=style, shrinkA=0,
                shrinkB=0,
            )
        )  # fmt: skip

    return Key(words, draw)
