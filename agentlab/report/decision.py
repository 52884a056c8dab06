"""One sentence that a team can act on, and what has to be known beside it.

The unit is the flow (cluster): per flow the mean of its healthy tasks and of its defect twins, both strategies on
the same tasks. At least ten flows and a margin declared beforehand are needed. Simulated data are described, never
advised on; local, scripted and replayed models only check the protocol.
"""

import html
import math
from dataclasses import dataclass, replace

import pandas as pd

from agentlab.analysis.compare import Difference, adjust, paired_difference
from agentlab.analysis.cost import token_ratio
from agentlab.analysis.power import clusters_needed
from agentlab.analysis.rates import by_strategy
from agentlab.analysis.units import as_hits, check_frame, joined, levels, model_kind, require_columns, rows_of
from agentlab.errors import ConfigError, unknown_name
from agentlab.html_text import lines
from agentlab.report.cautions import cautions, rate_notes
from agentlab.report.decision_texts import (
    DESCRIPTIONS,
    KIND_WORDS,
    NOTES,
    PARTS,
    SENTENCES,
    SIMULATED_PREFIX,
    sentence,
)
from agentlab.report.labels import check_language, plural, signed, text

LEAST_FLOWS = 10
PROTOCOL_KINDS = ("local", "scripted", "replay")
KINDS = (
    "better", "better_size_uncertain", "equivalent", "not_distinguishable", "worse", "too_few_flows", "refused",
    "protocol_check", "nothing_to_compare",
)  # fmt: skip
"""What a decision can say; of several comparisons the first in this order is the headline."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One strategy against the baseline, judged."""

    kind: str
    difference: Difference
    low90: float
    """Limits of the 90 % interval: inside the margin means equivalent (two one-sided tests at 5 %)."""
    high90: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision sentence with the figures behind it."""

    kind: str
    """One of `KINDS`."""
    sentence: str
    strategy: str | None
    """The strategy the sentence is about; None where nothing is compared."""
    baseline: str | None
    difference: float
    """Paired difference of pass rates, strategy minus baseline (0.05 is 5 points); NaN where nothing is compared."""
    low: float
    high: float
    n_clusters: int
    detail: tuple[str, ...] = ()
    """Rates, the other comparisons and every caution that belongs beside the sentence, in its language."""
    comparisons: tuple[Comparison, ...] = ()

    def _repr_html_(self) -> str:
        """The decision in a notebook: the sentence, and what belongs beside it."""
        return f"<p><strong>{html.escape(self.sentence)}</strong></p>{lines(*self.detail)}"


def decide(runs: pd.DataFrame, margin: float, baseline: str | None = None, language: str = "en") -> Decision:
    """Return what the runs say about which strategy to use.

    Every strategy is compared with the baseline on common tasks. `better`: the 95 % interval over flows lies above
    0 and reaches the margin with its lower end; `better_size_uncertain`: above 0, a smaller gain not ruled out;
    `worse`: below 0; `equivalent`: the 90 % interval lies within +/- margin; `not_distinguishable`: none of these.
    Claims of a difference also need a Holm-corrected sign-flip p of at most 0.05. With several strategies the
    headline is the strongest claim, in the order of `KINDS`, then the largest difference.

    Args:
        runs: one counting attempt per run, of one model.
        margin: smallest difference that matters, declared before the data were seen (0.05 is 5 points).
        baseline: what is used today; by default tool_loop, else the first declared strategy.
        language: en or zh.

    Raises:
        ConfigError: no margin in (0, 1), unknown baseline or language, kinds of models or models mixed, a run twice.
    """
    check_language(language)
    if not isinstance(margin, int | float) or not 0 < margin < 1:
        raise ConfigError(
            f"A decision needs a margin between 0 and 1, declared beforehand (0.05 is 5 points): {margin!r}."
        )
    check_frame(runs, one_strategy=False)
    require_columns(runs, "strategy")
    kind = model_kind(runs)
    _one_model(runs)
    names = levels(runs)
    if baseline is not None and baseline not in names:
        raise unknown_name("strategy", baseline, names)
    early = _early(runs, names, kind, language)
    if early is not None:
        found = early
    else:
        chosen = baseline or _default_baseline(runs, names)
        found = _compared(runs, margin, chosen, kind == "simulated", language)
    if kind == "simulated":
        return replace(found, sentence=f"{SIMULATED_PREFIX} {found.sentence}")
    return found


def _one_model(runs: pd.DataFrame) -> None:
    models = [str(name) for name in runs["model"].dropna().unique()] if "model" in runs.columns else []
    if len(models) > 1:
        raise ConfigError(
            f"The runs use {len(models)} models ({', '.join(models)}); decide for one at a time: "
            f"runs[runs['model'] == {models[0]!r}]."
        )


def _default_baseline(runs: pd.DataFrame, names: list[str]) -> str:
    if "tool_loop" in names:
        return "tool_loop"
    if "strategy_name" in runs.columns:
        single = runs.loc[runs["strategy_name"].astype("string") == "tool_loop", "strategy"].dropna()
        if len(single):
            return str(single.iloc[0])
    return names[0]


def _early(runs: pd.DataFrame, names: list[str], kind: str | None, language: str) -> Decision | None:
    """The decisions that are made without comparing."""
    errors = _errors(runs)
    if errors:
        n = sum(errors.values())
        where = ", ".join(f"{name}: {count}" for name, count in errors.items())
        words = sentence(PARTS, "runs_one" if n == 1 else "runs_many", language)
        return _without_comparison(
            "refused", sentence(SENTENCES, "refused", language, n=n, runs_word=words, where=where)
        )
    if kind in PROTOCOL_KINDS:
        said = sentence(
            SENTENCES, "protocol_check", language, kind=text(f"kind_{kind}", language), planned=len(runs),
            model=joined(runs["model"]) if "model" in runs.columns else text("kind_unknown", language),
            evaluable=int(as_hits(runs["success"]).notna().sum()),
        )  # fmt: skip
        return replace(_without_comparison("protocol_check", said), detail=rate_notes(by_strategy(runs), language))
    if len(names) < 2:
        said = sentence(
            SENTENCES, "nothing_to_compare", language, n=len(names),
            strategies_word=sentence(PARTS, "strategies_one" if len(names) == 1 else "strategies_many", language),
            name=sentence(PARTS, "name", language, name=names[0]) if names else "",
        )  # fmt: skip
        return replace(_without_comparison("nothing_to_compare", said), detail=rate_notes(by_strategy(runs), language))
    return None


def _errors(runs: pd.DataFrame) -> dict[str, int]:
    if "end_reason" not in runs.columns:
        return {}
    bad = runs[(runs["end_reason"].astype("string") == "error").fillna(False)]
    return {name: len(rows) for name in levels(runs) if len(rows := rows_of(bad, "strategy", name))}


def _without_comparison(kind: str, said: str) -> Decision:
    return Decision(kind, said, None, None, math.nan, math.nan, math.nan, 0)


def _compared(runs: pd.DataFrame, margin: float, baseline: str, simulated: bool, language: str) -> Decision:
    names = [name for name in levels(runs) if name != baseline]
    differences = [paired_difference(runs, name, baseline) for name in names]
    adjusted = adjust([difference.p_value for difference in differences])
    comparisons = []
    for difference, p_holm in zip(differences, adjusted, strict=True):
        ninety = paired_difference(runs, difference.strategy, baseline, confidence=0.90)
        judged = _judged(difference, ninety.low, ninety.high, p_holm, margin)
        comparisons.append(Comparison(judged, difference, ninety.low, ninety.high, p_holm))
    headline = min(comparisons, key=lambda c: (KINDS.index(c.kind), -_or_least(c.difference.estimate)))
    d = headline.difference
    table = by_strategy(runs)
    detail = [*rate_notes(table, language), *(_comparison_note(c, language) for c in comparisons)]
    if len(comparisons) > 1:
        detail.append(sentence(NOTES, "untested", language, baseline=baseline))
    detail += cautions(runs, table, differences, language)
    said = _said(runs, headline, margin, simulated, language)
    return Decision(
        headline.kind, said, d.strategy, baseline, d.estimate, d.low, d.high, d.n_clusters, tuple(detail),
        tuple(comparisons),
    )  # fmt: skip


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _judged(d: Difference, low90: float, high90: float, p_holm: float, margin: float) -> str:
    if d.n_clusters < LEAST_FLOWS or math.isnan(d.low):
        return "too_few_flows"
    if -margin < low90 and high90 < margin:
        return "equivalent"
    if p_holm <= 0.05 and d.low > 0:
        return "better" if d.low >= margin else "better_size_uncertain"
    if p_holm <= 0.05 and d.high < 0:
        return "worse"
    return "not_distinguishable"


def _said(runs: pd.DataFrame, headline: Comparison, margin: float, simulated: bool, language: str) -> str:
    d = headline.difference
    repeats = int(runs["repeat"].nunique()) if "repeat" in runs.columns else 1
    design = sentence(
        PARTS, "design", language, flows=d.n_clusters, tasks=d.n_tasks, repeats=repeats,
        s_flows=plural(d.n_clusters), s_tasks=plural(d.n_tasks), s_repeats=plural(repeats),
    )  # fmt: skip
    values: dict[str, object] = {
        "strategy": d.strategy, "baseline": d.baseline, "difference": signed(d.estimate),
        "size": f"{100 * abs(d.estimate):.1f}", "low": signed(d.low), "high": signed(d.high),
        "low90": signed(headline.low90), "high90": signed(headline.high90), "margin": f"{100 * margin:g}",
        "design": design, "n": d.n_clusters, "least": LEAST_FLOWS,
        "passed": _passed(runs, d.strategy, language), "baseline_passed": _passed(runs, d.baseline, language),
        "plan": _plan(d, margin, repeats, language) if headline.kind == "not_distinguishable" else "",
        **_token_words(runs, d, language),
    }  # fmt: skip
    table = DESCRIPTIONS if simulated and headline.kind in DESCRIPTIONS else SENTENCES
    return sentence(table, headline.kind, language, **values)


def _passed(runs: pd.DataFrame, strategy: str, language: str) -> str:
    hits = as_hits(rows_of(runs, "strategy", strategy)["success"])
    return sentence(PARTS, "passed_of", language, passed=int(hits.sum()), runs=int(hits.notna().sum()))


def _plan(d: Difference, margin: float, repeats: int, language: str) -> str:
    """The design that would detect the margin, from the spread of the flows that were observed."""
    needed = clusters_needed(d.values, margin)
    if needed is None:
        alike = math.ceil(math.log(0.10) / math.log(1 - margin))
        return sentence(PARTS, "plan_alike", language, n=alike)
    if needed <= d.n_clusters:
        width = 100 * (d.high - d.low) / 2 / math.sqrt(2)
        return sentence(PARTS, "plan_width", language, width=f"{width:.1f}")
    return sentence(PARTS, "plan_flows", language, n=needed, repeats=repeats, s_repeats=plural(repeats))


def _token_words(runs: pd.DataFrame, d: Difference, language: str) -> dict[str, str]:
    if "total_tokens" not in runs.columns:
        return {"tokens": "", "cheaper": ""}
    ratio = token_ratio(runs, d.strategy, d.baseline).estimate
    if math.isnan(ratio):
        return {"tokens": "", "cheaper": ""}
    cheap, other = (d.strategy, d.baseline) if ratio < 1 else (d.baseline, d.strategy)
    factor = f"{max(ratio, 1 / ratio):.1f}"
    return {
        "tokens": sentence(PARTS, "tokens", language, baseline=d.baseline, ratio=f"{ratio:.1f}"),
        "cheaper": sentence(PARTS, "cheaper", language, cheap=cheap, other=other, ratio=factor),
    }


def _comparison_note(c: Comparison, language: str) -> str:
    d = c.difference
    if math.isnan(d.estimate):
        return sentence(NOTES, "no_comparison", language, strategy=d.strategy, baseline=d.baseline)
    return sentence(
        NOTES, "comparison", language, strategy=d.strategy, baseline=d.baseline,
        kind=sentence(KIND_WORDS, c.kind, language), difference=signed(d.estimate),
        interval="" if math.isnan(d.low) else f" [{signed(d.low)}, {signed(d.high)}]",
        p=f"{d.p_value:.3g}", holm=f"{c.p_holm:.3g}",
    )  # fmt: skip
