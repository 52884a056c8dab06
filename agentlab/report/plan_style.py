"""How the statuses of plan steps look in the charts: a colour, a hatch and a shape each; legend and footer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Patch, PathPatch, Polygon
from matplotlib.path import Path

import agentlab
from agentlab.errors import ConfigError
from agentlab.planning.statuses import STATUS_WORDS
from agentlab.report.labels import word
from agentlab.report.plan_records import PlanRecord, Source, record_of
from agentlab.report.style import EDGE, INK, SMALL, SOFT_INK, Chart, Pen, text_width

MOST_STEPS = 200
"""Larger plans are no picture any more; `steps_table` shows them."""
LEGEND_ROW, SWATCH_WIDTH, SWATCH_HEIGHT = 0.27, 0.34, 0.17
HATCH_INK = "#8A8A8A"
SINGLE_RUN = "run"
"""The id of every run outside an experiment (`run_one`), which tells nothing."""
NOT_PASSED = "#B3400A"
PASSED = "#00547F"


@dataclass(frozen=True, slots=True)
class StatusLook:
    """How one status is drawn. No two statuses differ by colour alone."""

    color: str
    shape: str
    hatch: str = ""
    line: str = "solid"
    width: float = 1.0


STATUS_LOOKS: dict[str, StatusLook] = {
    "completed": StatusLook("#BFE3F5", "rounded"),
    "failed": StatusLook("#EE8866", "octagon", width=1.6),
    "blocked": StatusLook("#FFFFFF", "box", line="dashed"),
    "skipped": StatusLook("#DDDDDD", "slanted"),
    "cancelled": StatusLook("#DDDDDD", "slanted", "xx"),
    "rolled_back": StatusLook("#FFD0DA", "back", "\\\\\\"),
    "rollback_failed": StatusLook("#FFAABB", "back", "xxx", width=1.8),
    "pending": StatusLook("#FFFFFF", "box"),
    "awaiting_approval": StatusLook("#E6EFA0", "box"),
    "running": StatusLook("#EEDD88", "forward"),
    "retry_wait": StatusLook("#FFFFFF", "forward", "...."),
    "interrupted": StatusLook("#EEDD88", "forward", "xx", line="dashed"),
}
BAR_LOOKS: dict[str, StatusLook] = {
    "retry_wait": StatusLook("#F6C9B8", "box", "///"),
    "wait": StatusLook("#FFFFFF", "box", "....", line="dotted"),
    "undo_done": StatusLook("#FFD0DA", "box", "\\\\\\"),
    "undo_failed": StatusLook("#FFAABB", "box", "xxx", width=1.8),
    "undo_started": StatusLook("#FFD0DA", "box", "\\\\\\", line="dashed"),
}
"""Of bars that are no status of a step: a try that is repeated, the wait between tries, undos."""


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend."""

    words: str
    draw: Callable[[Axes, float, float], None]
    """Draws a swatch into the box whose upper left corner is given."""


def drawable_record(source: Source) -> PlanRecord:
    """Return the record of a plan that is not too large for a picture.

    Raises:
        ConfigError: there is no plan, or it has more than `MOST_STEPS` steps.
    """
    record = record_of(source)
    if len(record.graph) > MOST_STEPS:
        raise ConfigError(
            f"A plan of {len(record.graph)} steps is no picture any more (at most {MOST_STEPS}); see it as a table "
            "with agentlab.report.plan_records.steps_table."
        )
    return record


def shape(look: StatusLook, left: float, top: float, width: float, height: float) -> Patch:
    """Return the patch of a status in a box, in inches with y pointing down."""
    path = _rounded(left, top, width, height) if look.shape == "rounded" else None
    style = {"facecolor": look.color, "edgecolor": SOFT_INK, "linewidth": look.width, "linestyle": look.line}
    style |= {"hatch": look.hatch or None, "hatchcolor": HATCH_INK}
    if path is not None:
        return PathPatch(path, **style)
    corners = [(left + x * width, top + y * height) for x, y in _corners(look.shape, height / width)]
    return Polygon(corners, closed=True, **style)


def _corners(name: str, ratio: float) -> list[tuple[float, float]]:
    cut, tip = 0.28 * ratio, 0.3 * ratio
    corners: dict[str, list[tuple[float, float]]] = {
        "box": [(0.0, 0.0), (1, 0), (1, 1), (0, 1)],
        "octagon": [(cut, 0), (1 - cut, 0), (1, 0.28), (1, 0.72), (1 - cut, 1), (cut, 1), (0, 0.72), (0, 0.28)],
        "slanted": [(cut, 0), (1, 0), (1 - cut, 1), (0, 1)],
        "back": [(0, 0.5), (tip, 0), (1, 0), (1, 1), (tip, 1)],
        "forward": [(0, 0), (1 - tip, 0), (1, 0.5), (1 - tip, 1), (0, 1)],
    }
    return corners[name]


def _rounded(left: float, top: float, width: float, height: float) -> Path:
    radius = 0.25 * height
    right, bottom = left + width, top + height
    points = [
        (left + radius, top), (right - radius, top), (right, top), (right, top + radius), (right, bottom - radius),
        (right, bottom), (right - radius, bottom), (left + radius, bottom), (left, bottom), (left, bottom - radius),
        (left, top + radius), (left, top), (left + radius, top), (left + radius, top),
    ]  # fmt: skip
    line, curve = Path.LINETO, [Path.CURVE3, Path.CURVE3]
    return Path(points, [Path.MOVETO, line, *curve, line, *curve, line, *curve, line, *curve, Path.CLOSEPOLY])


def status_key(status: str, pen: Pen) -> Key:
    """Return the legend entry of a status."""
    return look_key(STATUS_LOOKS[status], word(STATUS_WORDS, status, pen.language))


def look_key(look: StatusLook, words: str) -> Key:
    """Return the legend entry of a look."""

    def draw(axes: Axes, left: float, top: float) -> None:
        axes.add_patch(shape(look, left, top, SWATCH_WIDTH, SWATCH_HEIGHT))

    return Key(words, draw)


def legend_lines(figure: Chart, keys: Sequence[Key], width: float) -> list[list[tuple[Key, float]]]:
    """Return the entries line by line, each with its place in inches from the left."""
    lines: list[list[tuple[Key, float]]] = []
    at = 0.0
    for key in keys:
        needed = SWATCH_WIDTH + 0.1 + text_width(figure, key.words, SMALL) + 0.3
        if not lines or at + needed > width:
            lines.append([])
            at = 0.0
        lines[-1].append((key, EDGE + at))
        at += needed
    return lines


def draw_legend(axes: Axes, lines: Sequence[Sequence[tuple[Key, float]]], top: float) -> None:
    """Draw a legend into axes that are measured in inches."""
    for number, line in enumerate(lines):
        middle = top + LEGEND_ROW * (number + 0.5)
        for key, left in line:
            key.draw(axes, left, middle - SWATCH_HEIGHT / 2)
            axes.text(left + SWATCH_WIDTH + 0.1, middle, key.words, fontsize=SMALL, va="center", color=INK)


def plan_footer(record: PlanRecord, pen: Pen) -> str:
    """Return one line: strategy, model and kind, run, package version, as far as the records say."""
    run = record.run
    parts = [str(run.get("strategy", ""))]
    if run:
        kind = pen.text(f"kind_{run['model_kind']}")
        parts.append(pen.text("model_of_kind", model=run["model"], kind=kind))
        if run["run_id"] != SINGLE_RUN:
            parts.append(pen.text("plan_run", run=str(run["run_id"])[:12]))
    parts.append(f"agentlab {agentlab.__version__}")
    return " · ".join(part for part in parts if part)
