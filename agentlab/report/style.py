"""How every chart looks: colours and markers of strategies, layout in inches, footer, watermark, saving.

A chart is a `Chart`: a matplotlib Figure that shows itself in a notebook without pyplot, knows its caption (alt
text) and whether its data are simulated. It is laid out in inches, never solved, so saving it gives the same bytes.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agentlab.analysis.units import UNKNOWN, levels
from agentlab.errors import ConfigError
from agentlab.report.fonts import LATIN, Fonts, chart_fonts, warn_without_chinese
from agentlab.report.labels import check_language, percent, text

STRATEGY_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
"""Okabe and Ito 2008, without black, which hides hatching; yellow last, it is weak on white. Triangles mark strata."""
MARKERS = ("o", "s", "D", "P", "X", "h", "p", "d", "8")
PART_COLORS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#99DDFF", "#BBCC33", "#AAAA00")
"""Tol's light scheme for parts of a bar (actors, causes): pale, so that no part looks like a strategy."""
NEUTRAL = "#DDDDDD"
INK, SOFT_INK, GRID = "#222222", "#666666", "#E3E3E3"
NO_DATA_INK = "#888888"
EDGE, GAP = 0.25, 0.22
"""Inches: margin of the figure, space between columns."""
KNOWN_STRATEGIES = ("tool_loop", "react", "plan_execute", "trio", "router")
"""They have the first colours whatever else is in the frame."""
FONT_SIZE, SMALL, TITLE_SIZE = 9.5, 8.5, 13.0
SHOWN_DPI, SAVED_DPI = 110, 170


class Chart(Figure):
    """A figure with its caption; a notebook shows it as a picture."""

    caption: str = ""
    """What the chart shows, in a sentence made from the data: the alt text."""
    is_simulated: bool = False

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=SHOWN_DPI, metadata={"Software": None})
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Look:
    """Colour and marker of a strategy, the same in every chart."""

    color: str
    marker: str


def strategy_looks(runs: pd.DataFrame) -> dict[str, Look]:
    """Return the look of each strategy of the frame, in declared order.

    The registered strategies keep their colours in every frame; other labels take, in declared order, what those
    leave free. Colour and marker together tell up to 63 labels apart.
    """
    names = levels(runs)
    registered = {}
    if "strategy_name" in runs.columns:
        pairs = runs[["strategy", "strategy_name"]].dropna().astype(str).drop_duplicates("strategy")
        registered = dict(zip(pairs["strategy"], pairs["strategy_name"], strict=True))
    slots: dict[str, int] = {}
    for name in names:
        known = name if name in KNOWN_STRATEGIES else registered.get(name)
        if known in KNOWN_STRATEGIES and KNOWN_STRATEGIES.index(known) not in slots.values():
            slots[name] = KNOWN_STRATEGIES.index(known)
    free = iter([slot for slot in range(len(STRATEGY_COLORS) * len(MARKERS)) if slot not in slots.values()])
    for name in names:
        if name not in slots:
            slots[name] = next(free)
    return {name: _look(slots[name]) for name in names}


def _look(slot: int) -> Look:
    return Look(STRATEGY_COLORS[slot % len(STRATEGY_COLORS)], MARKERS[slot % len(MARKERS)])


@dataclass(frozen=True, slots=True)
class Pen:
    """What a chart function draws with: the language that can be drawn, and the fonts."""

    language: str
    fonts: Fonts

    def text(self, key: str, **values: object) -> str:
        """Return a label of the charts in the language of the chart."""
        return text(key, self.language, **values)

    def drawable(self, words: str) -> str:
        """Return words from the data with '?' for characters that cannot be drawn."""
        return self.fonts.drawable(words)

    def percent(self, share: float) -> str:
        """Return a share as a whole percentage, spaced as the language does."""
        return percent(share, self.language)

    def name(self, name: str, fallback: str) -> str:
        """Return a name from the data as it can be drawn; `fallback` where the fonts lack its characters."""
        if name == UNKNOWN:
            return self.text("unknown")
        return name if self.fonts.can_draw(name) else self.fonts.drawable(fallback)


@contextmanager
def drawing(language: str) -> Iterator[Pen]:
    """Set up matplotlib for one chart and put the user's settings back afterwards.

    Raises:
        ConfigError: a language other than zh and en, or an unusable `AGENTLAB_FONT`.
    """
    fonts = chart_fonts()
    if check_language(language) == "zh" and not fonts.has_chinese:
        warn_without_chinese()
        language = "en"
    settings = {
        "font.family": list(fonts.families),
        "font.size": FONT_SIZE,
        "text.color": INK,
        "text.parse_math": False,
        "axes.edgecolor": SOFT_INK,
        "axes.labelcolor": SOFT_INK,
        "axes.linewidth": 0.8,
        "xtick.color": SOFT_INK,
        "ytick.color": INK,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": FONT_SIZE,
        "hatch.linewidth": 0.6,
        "figure.dpi": SHOWN_DPI,
        "svg.hashsalt": "agentlab",
    }
    with matplotlib.style.context(["default", settings], after_reset=True):
        yield Pen(language, fonts)


def strategy_labels(runs: pd.DataFrame, pen: Pen) -> dict[str, str]:
    """Return how each strategy is written: its label, or its registered name where the fonts lack the characters."""
    registered: dict[str, str] = {}
    if "strategy_name" in runs.columns:
        pairs = runs[["strategy", "strategy_name"]].dropna().astype(str).drop_duplicates("strategy")
        registered = dict(zip(pairs["strategy"], pairs["strategy_name"], strict=True))
    shown: dict[str, str] = {}
    for number, name in enumerate(levels(runs), 1):
        label = pen.name(name, registered.get(name, f"strategy {number}"))
        shown[name] = label if label not in shown.values() else f"{label} #{number}"
    if any(not pen.fonts.can_draw(name) for name in shown):
        warn_without_chinese()
    return shown


def text_width(figure: Figure, words: str, size: float, **font: Any) -> float:
    """Return the width of a text in inches (the widest line)."""
    probe = figure.text(0, 0, words, fontsize=size, **font)
    width = float(probe.get_window_extent().width) / figure.dpi
    probe.remove()
    return width


def fitted(figure: Figure, words: str, size: float, width: float, lines: int = 2, marks: str = " ,;/|_-=:+") -> str:
    """Return the text broken into lines of at most `width` inches; what does not fit ends in an ellipsis.

    A line ends behind one of `marks` where one stands late enough in it.
    """
    rest = words
    done: list[str] = []
    while rest and len(done) < lines:
        if text_width(figure, rest, size) <= width:
            return "\n".join([*done, rest])
        cut = _longest_fit(figure, rest, size, width)
        if len(done) == lines - 1:
            return "\n".join([*done, rest[: max(1, cut - 1)].rstrip() + "…"])
        natural = max(rest.rfind(mark, 1, cut) for mark in marks)
        cut = natural + 1 if natural > cut // 3 else cut
        done.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return "\n".join(done)


def _longest_fit(figure: Figure, words: str, size: float, width: float) -> int:
    low, high = 1, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text_width(figure, words[:middle], size) <= width else (low, middle - 1)
    return low


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Return axes at a place in inches, measured from the figure's upper left corner."""
    whole_width, whole_height = figure.get_size_inches()
    box = (left / whole_width, 1 - (top + height) / whole_height, width / whole_width, height / whole_height)
    axes = figure.add_axes(box, facecolor="none")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, length=3)
    axes.set_axisbelow(True)
    return axes


def write(figure: Figure, left: float, top: float, words: str, **font: Any) -> None:
    """Write a text at a place in inches from the upper left corner; its top is at `top` unless `va` says otherwise."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, words, **{"va": "top", "fontsize": FONT_SIZE, **font})


def head_height(hints: Sequence[str]) -> float:
    """Return the inches that the title and the lines below it take."""
    return 0.52 + 0.19 * len(hints)


def head_width(figure: Figure, hints: Sequence[str]) -> float:
    """Return the inches that the lines below the title need, margins included."""
    return 2 * EDGE + max(text_width(figure, hint, SMALL) for hint in hints)


def title(figure: Chart, pen: Pen, words: str, hints: Sequence[str]) -> None:
    """Write the title and, below it, the lines that say how to read the chart."""
    # The Chinese font has no bold face, and asking for one makes matplotlib complain: bold is for Latin titles.
    bold = {"fontweight": "bold", "fontfamily": LATIN} if pen.language == "en" else {}
    write(figure, EDGE, 0.2, words, fontsize=TITLE_SIZE, **bold)
    for number, hint in enumerate(hints):
        write(figure, EDGE, 0.52 + 0.19 * number, hint, fontsize=SMALL, color=SOFT_INK)


def finish(figure: Chart, pen: Pen, footer: str, caption: str, model_kind: str | None) -> Chart:
    """Write the footer, mark simulated data, and settle everything that matplotlib would otherwise settle later."""
    height = float(figure.get_size_inches()[1])
    width = float(figure.get_size_inches()[0])
    shown = fitted(figure, pen.fonts.drawable(footer), SMALL, width - 2 * EDGE, lines=3, marks="·")
    write(figure, EDGE, height - 0.12, shown, va="bottom", fontsize=SMALL, color=SOFT_INK, linespacing=1.3)
    figure.caption = caption
    if model_kind == "simulated":
        _watermark(figure, pen)
    # Ticks are made when they are first drawn: do it while our settings are in force.
    figure.draw_without_rendering()
    return figure


def _watermark(figure: Chart, pen: Pen) -> None:
    figure.is_simulated = True
    words = text("simulated", "zh" if pen.fonts.has_chinese else "en")
    figure.patch.set(hatch="//", edgecolor="#F0F0F0", linewidth=0)
    # A tall chart is looked at in parts: each part has the mark.
    count = max(1, round(float(figure.get_size_inches()[1]) / 5))
    for number in range(count):
        figure.text(
            0.5, (number + 0.5) / count, words, fontsize=40, color="#888888", alpha=0.25, rotation=18, ha="center",
            va="center", zorder=50,
        )  # fmt: skip


def save(figure: Figure, path: str | Path) -> Path:
    """Write the figure and return the path that was written.

    The same figure gives the same bytes (no date, fixed SVG ids). A chart of simulated data gets `.simulated` in
    front of the suffix.

    Args:
        figure: a chart, or any matplotlib figure with a fixed layout.
        path: its suffix decides the format: .png, .svg or .pdf.

    Raises:
        ConfigError: another suffix.
    """
    target = Path(path)
    stamps: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    if target.suffix not in stamps:
        raise ConfigError(f"Cannot save a chart as {target.name!r}; valid suffixes: {', '.join(stamps)}.")
    if getattr(figure, "is_simulated", False) and ".simulated" not in target.suffixes:
        target = target.with_suffix(f".simulated{target.suffix}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "agentlab", "hatch.linewidth": 0.6, "savefig.bbox": None}):
        figure.savefig(target, dpi=SAVED_DPI, metadata=stamps[target.suffix])
    return target
