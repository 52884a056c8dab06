"""Where the tokens go: stacked bars by actor, the mean run of each strategy."""

import math

import pandas as pd

from agentlab.analysis.units import (
    UNKNOWN,
    as_hits,
    check_frame,
    joined,
    levels,
    model_kind,
    require_columns,
    rows_of,
    share,
)
from agentlab.errors import ConfigError
from agentlab.report.bars import Panel, Part, Row, draw_bars, plain_colors
from agentlab.report.labels import ACTOR_WORDS, word
from agentlab.report.provenance import footer
from agentlab.report.style import (
    Chart,
    Pen,
    drawing,
    finish,
    head_height,
    head_width,
    strategy_labels,
    strategy_looks,
    title,
)

KEY = ["run_id", "attempt"]


def tokens_by_actor(calls: pd.DataFrame, runs: pd.DataFrame, language: str = "en") -> Chart:
    """Which actor uses the tokens? Mean tokens per run, stacked by actor, one bar per strategy.

    The mean is over evaluable runs whose usage is known completely, failed ones included; runs with unknown usage are
    counted beside the bar. `cached input` is the share of input tokens that came from the provider's cache.

    Args:
        calls: one row per model call: `run_id, attempt, actor, input_tokens, output_tokens`, `cached_input_tokens`.
        runs: one counting attempt per run, with `run_id, attempt, strategy, success, total_tokens`.
        language: en or zh.

    Raises:
        ConfigError: a column is missing, kinds of models are mixed, or calls of runs that stand several times.
    """
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy", "run_id", "attempt", "total_tokens")
    require_columns(calls, "run_id", "attempt", "actor", "input_tokens", "output_tokens")
    spent = _spent(calls, runs)
    actors = _actors(spent)
    with drawing(language) as pen:
        colors = plain_colors([*ACTOR_WORDS, *(name for name in actors if name not in ACTOR_WORDS)])
        parts = [Part(name, pen.drawable(word(ACTOR_WORDS, name, pen.language)), colors[name]) for name in actors]
        rows = _rows(runs, spent, pen)
        longest = max([1.0, *(sum(row.sizes.values()) for row in rows)])
        panel = Panel(rows, pen.text("axis_tokens"), longest * 1.04, _ticks(longest * 1.04))
        heads = [pen.text(f"column_{name}") for name in ("tokens", "calls", "cached", "runs")]
        figure, hints = Chart(), [pen.text("tokens_hint")]
        draw_bars(figure, [panel], parts, heads, head_height(hints), head_width(figure, hints), pen)
        head = pen.text("tokens_title")
        title(figure, pen, head, hints)
        caption = "; ".join(_caption(row, pen) for row in rows) or pen.text("nothing_to_show")
        return finish(figure, pen, footer(runs, pen), f"{head}. {caption}.", model_kind(runs))


def _caption(row: Row, pen: Pen) -> str:
    if row.empty:
        return f"{row.label}: {row.empty}"
    return pen.text("tokens_caption", strategy=row.label, tokens=row.cells[0])


def _spent(calls: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The calls of evaluable runs with known usage, with the run's strategy and the call's tokens."""
    known = runs[as_hits(runs["success"]).notna() & runs["total_tokens"].notna()]
    keys = known[[*KEY, "strategy"]].assign(strategy=known["strategy"].astype("string").fillna(UNKNOWN))
    rows = calls.drop(columns=["strategy"], errors="ignore").merge(keys, on=KEY, how="inner")
    if not calls.empty and rows.empty and not known.empty:
        raise ConfigError(
            f"No call belongs to these runs ({joined(runs['run_id'].head(1))}, ...): load calls and runs of one source."
        )
    tokens = rows["input_tokens"].astype("Float64") + rows["output_tokens"].astype("Float64")
    return rows.assign(tokens=tokens, actor=rows["actor"].astype("string").fillna("unknown"))


def _actors(spent: pd.DataFrame) -> list[str]:
    found = [str(name) for name in spent["actor"].unique()]
    return [name for name in ACTOR_WORDS if name in found] + sorted(name for name in found if name not in ACTOR_WORDS)


def _rows(runs: pd.DataFrame, spent: pd.DataFrame, pen: Pen) -> list[Row]:
    labels, looks = strategy_labels(runs, pen), strategy_looks(runs)
    rows = []
    for name in levels(runs):
        part = rows_of(runs, "strategy", name)
        evaluable = part[as_hits(part["success"]).notna()]
        known = int(evaluable["total_tokens"].notna().sum())
        used = spent[spent["strategy"] == name]
        sums = used.groupby("actor")["tokens"].sum()
        sizes = {str(actor): float(tokens) / known for actor, tokens in sums.items()} if known else {}
        words = {actor: short_count(size) for actor, size in sizes.items()}
        unknown = len(evaluable) - known
        counts = f"{known}" if not unknown else pen.text("usage_unknown", unknown=unknown, runs=len(evaluable))
        cells = (
            short_count(float(evaluable["total_tokens"].mean())) if known else "–",
            f"{len(used) / known:.1f}" if known else "–",
            _cached(used, pen),
            counts,
        )
        rows.append(Row(labels[name], looks[name], sizes, words, cells, "" if known else pen.text("no_data")))
    return rows


def _cached(used: pd.DataFrame, pen: Pen) -> str:
    if "cached_input_tokens" not in used.columns or used["cached_input_tokens"].isna().all():
        return "–"
    known = used[used["cached_input_tokens"].notna()]
    cached = share(float(known["cached_input_tokens"].sum()), float(known["input_tokens"].sum()))
    return "–" if math.isnan(cached) else pen.percent(cached)


def short_count(number: float) -> str:
    """Return a count in at most four characters and a unit: 950, 1.2k, 12k, 3.4M."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if number >= 0.9995 * size:
            return f"{number / size:.1f}{unit}" if number < 99.95 * size else f"{number / size:.0f}{unit}"
    return f"{number:.0f}"


def _ticks(limit: float) -> dict[float, str]:
    power = 10 ** math.floor(math.log10(limit))
    step = next(power * factor for factor in (0.1, 0.2, 0.25, 0.5, 1, 2) if limit / (power * factor) <= 6)
    return {step * k: short_count(step * k) for k in range(int(limit / step) + 1)}
