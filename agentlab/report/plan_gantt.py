"""The steps of a plan over time: one bar per try, waits and undos between them, the critical path outlined."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from agentlab.planning.reasons import NOT_NEEDED, is_condition, reason_words
from agentlab.planning.statuses import STATUS_WORDS
from agentlab.planning.view import PlanView
from agentlab.report.labels import LANGUAGES, plural, word
from agentlab.report.plan_records import Bar, PlanRecord, Source, StepRecord, plans_of_events
from agentlab.report.plan_style import (
    BAR_LOOKS,
    HATCH_INK,
    LEGEND_ROW,
    STATUS_LOOKS,
    SWATCH_HEIGHT,
    SWATCH_WIDTH,
    Key,
    StatusLook,
    draw_legend,
    drawable_record,
    legend_lines,
    look_key,
    plan_footer,
    status_key,
)
from agentlab.report.style import (
    EDGE,
    FONT_SIZE,
    GAP,
    GRID,
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
    text_width,
    title,
    write,
)

ROW, BAR_HEIGHT, CHART_WIDTH, NAME_WIDTH = 0.34, 0.2, 6.6, 2.9
LEAST_BAR = 0.05
"""Inches: a bar that would be shorter is drawn with this width, so that it is seen."""
AXIS, FOOTER, HEAD = 0.62, 0.5, 0.3


@dataclass(frozen=True, slots=True)
class _Line:
    """One row of the chart."""

    name: str
    step: StepRecord
    is_critical: bool
    is_replaced: bool
    """Of a plan that a later one replaced."""


def gantt(view_or_events: Source, language: str = "en") -> Chart:
    """When did each step run, and what did the others wait for? One row per step, one bar per try.

    From events, steps of replaced plans have rows of their own, and waits and undos are shown; a `PlanState` only
    knows the last try of each step. Bars too short to be seen are drawn 0.05 inches wide.

    Args:
        view_or_events: a `PlanState`, the events of a run, or one record of `plans_of_events`.
        language: en or zh.

    Raises:
        ConfigError: no plan, or one of more than 200 steps.
    """
    record = drawable_record(view_or_events)
    plans = (record,) if isinstance(view_or_events, PlanRecord | PlanView) else plans_of_events(view_or_events)
    with drawing(language) as pen:
        lines = _lines(plans, pen)
        times = _Times.of(lines, plans)
        figure, hints = Chart(), [pen.text("gantt_hint")]
        keys = _keys(lines, pen)
        names = [fitted(figure, line.name, FONT_SIZE, NAME_WIDTH, lines=1) for line in lines]
        left = EDGE + max([0.7, *(text_width(figure, name, FONT_SIZE) for name in names)]) + 0.15
        heads = [pen.text("gantt_column_tries"), pen.text("gantt_column_time")]
        edges = _column_edges(figure, heads, [_cells(line.step, times) for line in lines], left + CHART_WIDTH)
        width = max(edges[-1] + EDGE, head_width(figure, hints))
        legend = legend_lines(figure, keys, width - 2 * EDGE)
        top = head_height(hints) + HEAD
        bottom = top + ROW * max(1, len(lines))
        height = bottom + AXIS + LEGEND_ROW * len(legend) + FOOTER
        figure.set_size_inches(width, height)
        axes = axes_at(figure, left, top, CHART_WIDTH, bottom - top)
        _set_up(axes, times, len(lines), pen)
        for y, (line, name) in enumerate(zip(lines, names, strict=True)):
            middle = top + ROW * (y + 0.5)
            write(figure, left - 0.12, middle, name, ha="right", va="center", color=_ink(line))
            for cell, edge in zip(_cells(line.step, times), edges, strict=True):
                write(figure, edge, middle, cell, fontsize=SMALL, ha="right", va="center")
            _draw_line(figure, axes, line, times, y, pen)
        for head, edge in zip(heads, edges, strict=True):
            write(figure, edge, top - 0.06, head, fontsize=SMALL, color=SOFT_INK, ha="right", va="bottom")
        _draw_new_plans(axes, plans, times, pen)
        page = axes_at(figure, 0, 0, width, height)
        page.set(xlim=(0, width), ylim=(height, 0))
        page.axis("off")
        draw_legend(page, legend, bottom + AXIS)
        head = pen.text("gantt_title")
        title(figure, pen, head, hints)
        caption = f"{head}. {_caption(lines, plans[-1], times, pen)}."
        return finish(figure, pen, plan_footer(record, pen), caption, record.run.get("model_kind"))


@dataclass(frozen=True, slots=True)
class _Times:
    """The axis: seconds from the first start, or milliseconds when everything is short."""

    start_s: float
    length_s: float
    """From the first start to the last end; 0 when nothing ran."""
    is_ms: bool

    @classmethod
    def of(cls, lines: Sequence[_Line], plans: Sequence[PlanRecord]) -> "_Times":
        bars = [bar for line in lines for bar in line.step.bars]
        if not bars:
            return cls(0.0, 0.0, False)
        start = min(bar.start_s for bar in bars)
        end = max(bar.start_s if bar.end_s is None else bar.end_s for bar in bars)
        if any(bar.end_s is None for bar in bars):
            end = max([end, *(plan.end_s for plan in plans if plan.end_s is not None)])
        return cls(start, end - start, end - start < 1)

    def place(self, moment_s: float) -> float:
        return (moment_s - self.start_s) * (1000 if self.is_ms else 1)

    @property
    def limit(self) -> float:
        """The end of the axis, a little behind the last bar."""
        return (self.length_s or 0.001) * (1000 if self.is_ms else 1) * 1.03

    def words(self, seconds: float) -> str:
        """Return a span in words, with two significant digits below 1 and none invented above."""
        if seconds >= 1:
            return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.1f} ms"


def _lines(plans: Sequence[PlanRecord], pen: Pen) -> list[_Line]:
    lines = []
    for plan in plans:
        is_last, critical = plan is plans[-1], set(plan.critical_path())
        for step in plan.graph.steps:
            kept = plan.steps[step.id]
            # What completed is in the next plan too; what never started there tells nothing.
            if is_last or (kept.bars and kept.status != "completed"):
                words = f"{step.id}  {step.description or step.tool or step.kind}" if is_last else step.id
                short = f"{step.id}  {step.tool}" if step.tool and is_last else words
                name = words if len(words) <= 34 else short
                if not is_last:
                    name = f"{name} ({pen.text('gantt_replaced', number=plan.number)})"
                lines.append(_Line(pen.drawable(name), kept, is_last and step.id in critical, not is_last))
    return sorted(lines, key=lambda line: line.step.bars[0].start_s if line.step.bars else math.inf)


def _column_edges(figure: Chart, heads: Sequence[str], rows: Sequence[Sequence[str]], right: float) -> list[float]:
    edges = []
    for i, head in enumerate(heads):
        right += GAP + max(text_width(figure, words, SMALL) for words in [head, *(row[i] for row in rows)])
        edges.append(right)
    return edges


def _cells(step: StepRecord, times: _Times) -> tuple[str, str]:
    seconds = step.duration_s
    return (str(step.tries) if step.tries else "–", "–" if seconds is None else times.words(seconds))


def _ink(line: _Line) -> str:
    return SOFT_INK if line.is_replaced else INK


def _set_up(axes: Axes, times: _Times, n_lines: int, pen: Pen) -> None:
    axes.set(xlim=(0, times.limit), ylim=(max(1, n_lines) - 0.5, -0.5), yticks=[])
    # Ticks outside the axis are not drawn, but they would count as text of the figure.
    axes.set_xticks([at for at in axes.get_xticks() if 0 <= at <= times.limit] if times.length_s else [])
    axes.set_xlabel(pen.text("gantt_axis_ms" if times.is_ms else "gantt_axis_s"), fontsize=SMALL)
    axes.grid(axis="x", color=GRID, linewidth=0.8)


def _draw_line(figure: Chart, axes: Axes, line: _Line, times: _Times, y: int, pen: Pen) -> None:
    per_inch = times.limit / CHART_WIDTH
    end = 0.0
    for bar in line.step.bars:
        start = times.place(bar.start_s)
        stop = times.limit if bar.end_s is None else times.place(bar.end_s)
        width = max(stop - start, LEAST_BAR * per_inch)
        start = min(start, times.limit - width)
        _draw_bar(axes, _look(bar), start, y, width, is_outlined=line.is_critical and bar.kind != "undo")
        end = start + width
    words = _remark(line.step, pen)
    if words:
        room = (times.limit - end) / per_inch - 0.2
        if room < 1.2 and line.step.bars:
            return
        shown = fitted(figure, pen.drawable(words), SMALL, room, lines=1)
        axes.text(end + 0.1 * per_inch, y, shown, fontsize=SMALL, va="center", color=SOFT_INK, backgroundcolor="white")


def _draw_bar(axes: Axes, look: StatusLook, start: float, y: int, width: float, *, is_outlined: bool) -> None:
    share = BAR_HEIGHT / ROW
    patch = Rectangle((start, y - share / 2), width, share, facecolor=look.color, hatch=look.hatch or None)
    patch.set(edgecolor=INK if is_outlined else SOFT_INK, linewidth=1.7 if is_outlined else 0.8, zorder=3)
    patch.set(linestyle=look.line, hatchcolor=HATCH_INK)
    axes.add_patch(patch)


def _look(bar: Bar) -> StatusLook:
    if bar.kind == "undo":
        return BAR_LOOKS[f"undo_{bar.status}" if f"undo_{bar.status}" in BAR_LOOKS else "undo_started"]
    if bar.kind == "wait":
        return BAR_LOOKS["wait"]
    return BAR_LOOKS["retry_wait"] if bar.status == "retry_wait" else STATUS_LOOKS[bar.status]


def _remark(step: StepRecord, pen: Pen) -> str:
    """Beside the bars: what became of a step that did not complete, and why."""
    if step.status == "completed":
        return ""
    status = word(STATUS_WORDS, step.status, pen.language)
    if step.cause:
        return pen.text("gantt_because_of", status=status, step=step.cause)
    if is_condition(step.reason):
        status = NOT_NEEDED[LANGUAGES.index(pen.language)]
    reason = reason_words(step.reason, pen.language)
    return pen.text("gantt_because", status=status, reason=reason) if reason else status


def _draw_new_plans(axes: Axes, plans: Sequence[PlanRecord], times: _Times, pen: Pen) -> None:
    for plan in plans[1:]:
        at = times.place(plan.start_s)
        if 0 <= at <= times.limit:
            axes.axvline(at, color=INK, linewidth=1.0, linestyle=(0, (4, 2)), zorder=2)
            axes.annotate(
                pen.text("gantt_new_plan"), (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
                textcoords="offset points", fontsize=SMALL, color=SOFT_INK, ha="center", va="bottom",
            )  # fmt: skip


def _keys(lines: Sequence[_Line], pen: Pen) -> list[Key]:
    bars = [bar for line in lines for bar in line.step.bars]
    keys = [status_key(status, pen) for status in STATUS_LOOKS if _has(bars, "try", status) and status != "retry_wait"]
    if _has(bars, "try", "retry_wait"):
        keys.append(look_key(BAR_LOOKS["retry_wait"], pen.text("gantt_retried")))
    if any(bar.kind == "wait" for bar in bars):
        keys.append(look_key(BAR_LOOKS["wait"], pen.text("gantt_wait")))
    for state in ("done", "failed", "started"):
        if _has(bars, "undo", state):
            keys.append(look_key(BAR_LOOKS[f"undo_{state}"], pen.text(f"gantt_undo_{state}")))
    if any(line.is_critical for line in lines):
        keys.append(Key(pen.text("gantt_critical"), _draw_outline))
    return keys


def _has(bars: Sequence[Bar], kind: str, status: str) -> bool:
    return any(bar.kind == kind and bar.status == status for bar in bars)


def _draw_outline(axes: Axes, left: float, top: float) -> None:
    axes.add_patch(Rectangle((left, top), SWATCH_WIDTH, SWATCH_HEIGHT, facecolor="none", edgecolor=INK, linewidth=2.0))


def _caption(lines: Sequence[_Line], plan: PlanRecord, times: _Times, pen: Pen) -> str:
    ran = sum(bool(line.step.bars) for line in lines)
    if not ran:
        return pen.text("gantt_never")
    path = " → ".join(plan.critical_path()) or "–"
    return pen.text("gantt_caption", n=ran, s=plural(ran), time=times.words(times.length_s), path=path)
