import math
import re
from dataclasses import replace

import pandas as pd
import pytest
from report_frames import make_runs, planned

from agentlab.errors import ConfigError
from agentlab.report.decision import KINDS, SIMULATED_PREFIX, decide
from agentlab.report.labels import LANGUAGES

ADVICE = re.compile(r"use|recommend|prefer|keep|建议|推荐|采用|选用|使用", re.IGNORECASE)


def frame(passes: dict[str, list[int]], repeats: int = 10, **columns) -> pd.DataFrame:
    """One task per flow; `passes` holds, per strategy, how many of the repeats pass in each flow."""
    rows = [
        {
            "task_id": f"flow{flow:02d}",
            "repeat": repeat,
            "success": int(repeat < passed),
            "strategy": strategy,
            "model_kind": "real",
            "model": "openai:m",
            **columns,
        }
        for strategy, counts in passes.items()
        for flow, passed in enumerate(counts)
        for repeat in range(repeats)
    ]
    return pd.DataFrame(rows)


BASE = [5, 6, 4, 7, 5, 6, 5, 4, 6, 7, 5, 6]
FAR_BETTER = [8, 9, 8, 10, 8, 9, 9, 7, 9, 10, 8, 9]
BETTER = [7, 6, 6, 7, 7, 6, 6, 6, 6, 9, 5, 8]
SAME = [5, 6, 4, 7, 5, 6, 5, 4, 6, 7, 5, 7]
NOISY = [9, 2, 8, 5, 8, 3, 9, 1, 8, 4, 9, 3]
WORSE = [3, 4, 2, 4, 4, 3, 3, 3, 4, 4, 3, 4]


@pytest.mark.parametrize(
    ("other", "margin", "kind"),
    [
        (FAR_BETTER, 0.05, "better"),
        (BETTER, 0.05, "better_size_uncertain"),
        (SAME, 0.05, "equivalent"),
        (NOISY, 0.05, "not_distinguishable"),
        (WORSE, 0.05, "worse"),
    ],
)
def test_every_kind(other, margin, kind):
    decision = decide(frame({"base": BASE, "other": other}), margin)
    assert decision.kind == kind
    assert (decision.strategy, decision.baseline, decision.n_clusters) == ("other", "base", 12)
    assert decision.difference == pytest.approx(sum(o - b for o, b in zip(other, BASE, strict=True)) / 120)
    assert decision.low < decision.difference < decision.high
    assert "12 flows, 12 tasks × 10 repeats" in decision.sentence


def test_a_real_but_small_gain_is_equivalent():
    nudged = [count + (flow % 3 == 0) for flow, count in enumerate(BASE)]
    decision = decide(frame({"base": BASE, "other": nudged}), 0.10)
    assert decision.low > 0
    assert decision.kind == "equivalent"


def test_a_notebook_shows_the_sentence_and_what_belongs_beside_it():
    decision = replace(
        decide(frame({"tool_loop": [5] * 12, "react": [9] * 12}), 0.05), sentence="a < b", detail=("c", "d & e")
    )
    assert decision._repr_html_() == "<p><strong>a &lt; b</strong></p><p>c</p><p>d &amp; e</p>"


def test_the_sentence_names_what_to_do():
    sentence = decide(frame({"base": BASE, "other": FAR_BETTER}), 0.05).sentence
    assert sentence.startswith("Use other rather than base: its pass rate is 31.7 points higher (95 % interval +29.2 ")
    assert "more than the margin of 5 points" in sentence
    worse = decide(frame({"base": BASE, "other": WORSE}), 0.05).sentence
    assert worse.startswith("Keep base: the pass rate of other is 20.8 points lower (95 % interval −")


def test_tokens_stand_in_the_sentence_when_they_are_known():
    runs = frame({"base": BASE, "other": FAR_BETTER})
    runs["total_tokens"] = runs["strategy"].map({"base": 1000, "other": 3000})
    assert ", at 3.0 times the tokens." in decide(runs, 0.05).sentence
    same = frame({"base": BASE, "other": SAME})
    same["total_tokens"] = same["strategy"].map({"base": 1000, "other": 500})
    assert "use the cheaper one, other (base takes 2.0 times the tokens)" in decide(same, 0.05).sentence


def test_the_design_that_would_detect_the_margin():
    sentence = decide(frame({"base": BASE, "other": NOISY}), 0.05).sentence
    assert re.search(r"About \d+ flows like these with 10 repeats would detect the margin \(80 % power\)", sentence)
    needed = int(re.search(r"About (\d+)", sentence).group(1))
    assert needed > 12
    wide = decide(frame({"base": BASE, "other": NOISY}), 0.4).sentence
    assert "equivalent within the margin of 40 points" in wide


def test_flows_that_all_agree_are_not_enough_for_equivalence():
    decision = decide(frame({"base": BASE, "other": BASE}), 0.05)
    assert decision.kind == "not_distinguishable"
    assert "45 flows without any difference would show equivalence" in decision.sentence


def test_a_design_that_is_large_enough_says_what_more_would_give():
    # A difference of the margin would have been seen; the smaller one that is there is not.
    gains = [2, 2, 1, 1, 1, 1, 1, 0, 0, 0, -1, -1]
    decision = decide(frame({"base": BASE, "other": [b + g for b, g in zip(BASE, gains, strict=True)]}), 0.10)
    assert decision.kind == "not_distinguishable"
    assert "narrow the interval to about ±" in decision.sentence


def test_too_few_flows_give_counts_and_no_interval():
    decision = decide(frame({"base": BASE[:9], "other": FAR_BETTER[:9]}), 0.05)
    assert decision.kind == "too_few_flows"
    assert decision.sentence == (
        "Too few flows for a decision: 9 of at least 10 have runs of both other and base. So far other passes 77 of 90 "
        "runs, base 48 of 90."
    )


def test_ten_flows_are_enough():
    assert decide(frame({"base": BASE[:10], "other": FAR_BETTER[:10]}), 0.05).kind == "better"


def test_the_unit_is_the_flow_with_its_twins():
    decision = decide(make_runs(("tool_loop", "trio"), flows=14, twins=2), 0.05)
    assert decision.n_clusters == 14
    assert decision.comparisons[0].difference.basis == "balanced"
    assert decision.comparisons[0].difference.n_tasks == 42


def test_several_strategies_are_corrected_and_listed():
    runs = frame({"base": BASE, "same": SAME, "good": FAR_BETTER, "bad": WORSE})
    decision = decide(runs, 0.05)
    assert (decision.kind, decision.strategy) == ("better", "good")
    assert [c.difference.strategy for c in decision.comparisons] == ["same", "good", "bad"]
    assert all(c.p_holm >= c.difference.p_value for c in decision.comparisons)
    text = "\n".join(decision.detail)
    assert "same against base: equivalent within the margin, +0.8 points" in text
    assert "bad against base: worse" in text
    assert "Only differences to base are tested" in text


def test_a_claim_must_survive_the_correction():
    slight = [6, 7, 5, 7, 6, 7, 5, 5, 6, 8, 5, 7]
    alone = decide(frame({"base": BASE, "other": slight}), 0.05)
    crowd = {f"copy{i}": NOISY for i in range(6)}
    together = decide(frame({"base": BASE, "other": slight, **crowd}), 0.05)
    p = {c.difference.strategy: c for c in together.comparisons}["other"]
    assert alone.kind == "better_size_uncertain"
    assert p.difference.p_value < 0.05 < p.p_holm
    assert p.kind == "not_distinguishable"


def test_baseline_by_default_and_by_name():
    runs = frame({"react": BASE, "tool_loop": FAR_BETTER})
    assert decide(runs, 0.05).baseline == "tool_loop"
    assert decide(runs, 0.05, baseline="react").kind == "better"
    labelled = runs.assign(strategy=runs["strategy"].replace({"tool_loop": "single"}), strategy_name=runs["strategy"])
    assert decide(labelled, 0.05).baseline == "single"
    with pytest.raises(ConfigError, match="Unknown strategy 'reakt'"):
        decide(runs, 0.05, baseline="reakt")


@pytest.mark.parametrize("margin", [0, 1, -0.1, None, "5"])
def test_a_margin_must_be_declared(margin):
    with pytest.raises(ConfigError, match="declared beforehand"):
        decide(frame({"base": BASE, "other": SAME}), margin)


def test_unknown_language_is_refused():
    with pytest.raises(ConfigError, match="Unknown language 'de'"):
        decide(frame({"base": BASE, "other": SAME}), 0.05, language="de")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("other", [FAR_BETTER, BETTER, SAME, NOISY, WORSE, FAR_BETTER[:5], BASE])
def test_simulated_data_are_described_and_never_advised_on(other, language):
    runs = frame({"base": BASE[: len(other)], "other": other}, model_kind="simulated")
    runs["total_tokens"] = 1000
    decision = decide(runs, 0.05, language=language)
    assert decision.sentence.startswith(f"{SIMULATED_PREFIX} ")
    assert not ADVICE.search(decision.sentence)
    if language == "zh":
        assert re.search("[一-鿿]", decision.sentence)


@pytest.mark.parametrize("language", LANGUAGES)
def test_simulated_data_with_a_bug_or_one_strategy_are_not_advised_on_either(language):
    broken = frame({"base": BASE, "other": SAME}, model_kind="simulated", end_reason="error")
    alone = frame({"base": BASE}, model_kind="simulated")
    for runs in (broken, alone):
        sentence = decide(runs, 0.05, language=language).sentence
        assert sentence.startswith(f"{SIMULATED_PREFIX} ")
        assert not ADVICE.search(sentence)


def test_simulated_and_real_are_never_pooled():
    runs = pd.concat([frame({"base": BASE, "other": SAME}), frame({"base": BASE}, model_kind="simulated")])
    with pytest.raises(ConfigError, match="never pooled"):
        decide(runs, 0.05)


def test_models_are_decided_one_at_a_time():
    runs = pd.concat([frame({"base": BASE, "other": SAME}), frame({"base": BASE, "other": SAME}, model="openai:n")])
    with pytest.raises(ConfigError, match="one at a time"):
        decide(runs, 0.05)


@pytest.mark.parametrize("kind", ["local", "scripted", "replay"])
def test_other_kinds_only_check_the_protocol(kind):
    decision = decide(frame({"base": BASE, "other": FAR_BETTER}, model_kind=kind), 0.05)
    assert decision.kind == "protocol_check"
    assert decision.sentence.startswith(
        f"Protocol check only ({kind}, openai:m): 240 of 240 planned runs have a result."
    )
    assert math.isnan(decision.difference)
    assert decision.comparisons == ()
    assert len(decision.detail) == 2


def test_a_bug_of_ours_blocks_the_headline():
    runs = frame({"base": BASE, "other": FAR_BETTER}, end_reason="answered")
    runs.loc[[3, 150, 151], "end_reason"] = "error"
    runs["success"] = runs["success"].astype("Int64").mask(runs["end_reason"] == "error")
    decision = decide(runs, 0.05)
    assert decision.kind == "refused"
    assert decision.sentence.startswith("No headline: 3 runs ended with an error of agentlab itself")
    assert "base: 1, other: 2" in decision.sentence


def test_one_strategy_is_nothing_to_compare():
    decision = decide(frame({"base": BASE}), 0.05)
    assert decision.kind == "nothing_to_compare"
    assert decision.sentence == "Nothing to compare: the runs belong to 1 strategy (base)."
    assert decide(frame({"base": BASE}).iloc[:0], 0.05).kind == "nothing_to_compare"


def test_a_planned_strategy_has_too_few_flows():
    runs = pd.concat([make_runs(("tool_loop",)), planned("trio")], ignore_index=True)
    decision = decide(runs, 0.05)
    assert (decision.kind, decision.n_clusters) == ("too_few_flows", 0)
    assert any("trio: no data (3 planned runs without a result)" in line for line in decision.detail)
    assert any("trio against tool_loop: no common task" in line for line in decision.detail)


def detail_of(runs: pd.DataFrame, language: str = "en") -> str:
    return "\n".join(decide(runs, 0.05, language=language).detail)


def test_cautions_stand_beside_the_sentence():
    runs = frame({"base": BASE, "other": FAR_BETTER}, temperature=0.0, source_digest="a", end_reason="answered")
    runs.loc[runs.index[:10], "end_reason"] = "budget_total_tokens"
    runs.loc[runs.index[-1], "source_digest"] = "b"
    runs["success"] = runs["success"].astype("Int64")
    runs.loc[runs.index[-10:], "success"] = pd.NA
    text = detail_of(runs)
    assert "A budget ended 8 % of the runs of base (more than 5 %)" in text
    assert "Repeats at temperature 0" in text
    assert "Runs of other come from 2 versions of its source" in text
    assert "other: 10 of 120 planned runs have no result (10 excluded, 0 unfinished)" in text
    assert "1 task without runs of both other and base is left out: flow11." in text
    assert "no defect twins" in text


def test_no_caution_without_a_reason():
    runs = make_runs(("tool_loop", "trio"), rates={"tool_loop": 0.9, "trio": 0.99})
    runs["end_reason"], runs["budget_bound"] = "answered", pd.NA
    text = detail_of(runs)
    for word in ("budget", "temperature", "versions", "left out", "twins", "constant", "no result"):
        assert word not in text


def test_a_constant_answer_that_is_as_good_is_named():
    text = detail_of(make_runs(("tool_loop", "trio"), rates={"tool_loop": 0.5}))
    assert "tool_loop is not shown to beat the best constant answer (50 %)." in text


def test_rates_recall_and_writer_stand_in_the_detail():
    text = detail_of(make_runs(("tool_loop", "trio")))
    assert re.search(
        r"trio: pass rate \d+ % \[\d+, \d+\], \d+ of 210 runs; healthy tasks \d+ %, defective \d+ %; "
        r"defect recall \d+ %, false alarms \d+ %; [\d,]+ tokens per run; answer by Python\.",
        text,
    )


def test_chinese_sentence_and_detail():
    runs = make_runs(("tool_loop", "trio"))
    decision = decide(runs, 0.05, language="zh")
    assert decision.sentence.startswith("建议用 trio 取代 tool_loop：通过率高 ")
    assert "14 条流程，42 个任务 × 5 次重复" in decision.sentence
    assert any("缺陷检出率" in line for line in decision.detail)
    chinese = runs.assign(strategy=runs["strategy"].replace({"tool_loop": "工具循环", "trio": "三智能体"}))
    assert decide(chinese, 0.05, language="zh").sentence.startswith("建议用三智能体取代工具循环：通过率高 ")


def test_every_kind_is_listed():
    assert len(set(KINDS)) == len(KINDS) == 9
