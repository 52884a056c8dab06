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

from agentlab.analysis.units import levels
from agentlab.errors import ConfigError
from agentlab.report.fonts import Fonts, chart_fonts, warn_without_chinese
from agentlab.report.labels import check_language, text

STRATEGY_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
"""Okabe and Ito 2008, without black, which hides hatching; yellow last, it is weak on white."""
MARKERS = ("o", "s", "D", "^", "P", "X", "v", "p", "h")
PART_COLORS = ("#77AADD", "#EE8866", "#EEDD88", "#FFAABB", "#44BB99", "#99DDFF", "#BBCC33", "#AAAA00")
"""Tol's light scheme for parts of a bar (actors, causes): pale, so that no part looks like a strategy."""
NEUTRAL = "#DDDDDD"
INK, SOFT_INK, GRID = "#222222", "#666666", "#E3E3E3"
WARNING_INK = "#A34700"
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

    The registered strategies keep their colours in every frame; other labels take what is left in declared order.
    Colour and marker together tell up to 63 labels apart.
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
    # Colours of registered strategies stay reserved for them: other labels start behind.
    free = iter(slot for slot in [*range(5, 63), *range(5)] if slot not in slots.values())
    for name in names:
        if name not in slots:
            slots[name] = next(free)
    return {name: _look(slots[name]) for name in names}


def _look(slot: int) -> Look:
    return Look(STRATEGY_COLORS[slot % len(STRATEGY_COLORS)], MARKERS[slot % len(MARKERS)])
