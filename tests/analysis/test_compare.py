import math

import numpy as np
import pandas as pd
import pytest
from ds1 import A, B, both, frame
from scipy import stats

from agentlab.analysis.compare import (
    adjust,
    cochran_q,
    compare_with_baseline,
    equivalence,
    equivalence_unpaired,
    mcnemar_exact,
    paired_difference,
    sign_flip_p,
    unpaired_difference,
    unpaired_p,
)
from agentlab.analysis.intervals import wilson
from agentlab.errors import ConfigError

D = [0, 0.2, 0, 0.2, 0.4, 0.2, 0.2, 0.2]


def test_paired_difference_of_ds1():
    found = paired_difference(both(), "B", "A")
    assert found.values == pytest.approx(D)
    assert found.estimate == pytest.approx(0.175)
    assert found.standard_error == pytest.approx(0.04531634836, abs=1e-10)
    assert (found.low, found.high) == pytest.approx((0.06784386368, 0.2821561363), abs=1e-9)
    assert found.p_value == 0.03125
    assert (found.n_clusters, found.n_tasks, found.missing_tasks) == (8, 8, ())
    assert found.clusters == tuple(f"t{i}" for i in range(1, 9))


def test_paired_difference_agrees_with_the_library():
    a, b = ([sum(map(int, text)) / 5 for text in digits.values()] for digits in (A, B))
    interval = stats.ttest_rel(b, a).confidence_interval()
    found = paired_difference(both(), "B", "A")
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_pairing_beats_two_separate_samples():
    a, b = ([sum(map(int, text)) / 5 for text in digits.values()] for digits in (A, B))
    unpaired = math.hypot(stats.sem(a), stats.sem(b))
    assert unpaired == pytest.approx(0.1622938253, abs=1e-9)
    assert paired_difference(both(), "B", "A").standard_error < unpaired / 3.5


def test_missing_pairs_are_listed():
    runs = pd.concat([frame({"t1": "11", "t2": "10", "t3": "xx"}, strategy="A")])
    runs = pd.concat([runs, frame({"t1": "10", "t3": "11", "t4": "11"}, strategy="B")], ignore_index=True)
    found = paired_difference(runs, "B", "A")
    assert found.missing_tasks == ("t2", "t3", "t4")
    assert (found.n_tasks, found.estimate) == (1, -0.5)
    assert math.isnan(found.low)
    assert found.p_value == 1.0
    assert "3 missing" in repr(found)


def test_no_common_task():
    runs = pd.concat([frame({"t1": "1"}, strategy="A"), frame({"t2": "1"}, strategy="B")], ignore_index=True)
    found = paired_difference(runs, "B", "A")
    assert math.isnan(found.estimate)
    assert math.isnan(found.p_value)
    assert repr(found) == "B - A: no common task"


def test_unit_is_the_cluster_with_both_strata():
    digits = {"a": "11", "a-1": "00", "a-2": "11", "b": "11", "b-1": "01", "c": "00", "c-1": "11"}
    other = {"a": "11", "a-1": "11", "a-2": "11", "b": "01", "b-1": "11", "c": "11", "c-1": "11"}
    runs = pd.concat([frame(digits, strategy="A"), frame(other, strategy="B")], ignore_index=True)
    runs["cluster"], runs["defective"] = runs["task_id"].str[0], runs["task_id"].str.contains("-")
    found = paired_difference(runs, "B", "A")
    # a: healthy 0, twins (1 + 0) / 2; b: healthy -0.5, twin 0.5; c: healthy 1, twin 0
    assert found.values == pytest.approx((0.25, 0.0, 0.5))
    assert found.estimate == pytest.approx(0.25)
    assert (found.basis, found.n_clusters, found.n_tasks) == ("balanced", 3, 7)


def test_a_flow_without_twin_keeps_the_balance():
    digits = {"a": "11", "a-1": "00", "b": "11", "b-1": "00", "c": "00"}
    other = {"a": "11", "a-1": "11", "b": "11", "b-1": "01", "c": "11"}
    runs = pd.concat([frame(digits, strategy="A"), frame(other, strategy="B")], ignore_index=True)
    runs["cluster"], runs["defective"] = runs["task_id"].str[0], runs["task_id"].str.contains("-")
    found = paired_difference(runs, "B", "A")
    assert found.estimate == pytest.approx((1 / 3 + 0.75) / 2)
    assert np.mean(found.values) == pytest.approx(found.estimate)


def test_clusters_that_all_agree_do_not_prove_equality():
    same = {f"t{i}": "11" for i in range(12)}
    runs = pd.concat([frame(same, strategy="A"), frame(same, strategy="B")], ignore_index=True)
    found = paired_difference(runs, "B", "A")
    assert found.estimate == 0
    assert (found.low, found.high) == pytest.approx((-(1 - 0.05 ** (1 / 12)), 1 - 0.05 ** (1 / 12)))
    assert found.method == "95% bound, all clusters alike"


def test_unknown_names_are_refused_with_the_valid_ones():
    with pytest.raises(ConfigError, match=r"Unknown strategy 'C'\. Valid: A, B"):
        paired_difference(both(), "C", "A")
    with pytest.raises(ConfigError, match="Did you mean 'success'"):
        paired_difference(both(), "B", "A", measure="succes")


def test_kinds_are_not_compared_with_each_other():
    runs = pd.concat([frame(A, strategy="A", model_kind="real"), frame(B, strategy="B", model_kind="simulated")])
    with pytest.raises(ConfigError, match="never pooled"):
        paired_difference(runs, "B", "A")


def test_sign_flip_is_exact_for_small_samples():
    assert sign_flip_p(D) == 0.03125
    assert stats.wilcoxon([value for value in D if value]).pvalue == 0.03125
    assert sign_flip_p([0.0] * 5) == 1.0
    assert math.isnan(sign_flip_p([]))


def test_sign_flip_survives_rounding_of_equal_means():
    thirds = [0.1 + 0.2, 0.3, 0.30000000000000004, -0.3]
    assert sign_flip_p(thirds) == sign_flip_p([0.3, 0.3, 0.3, -0.3]) == 0.625


def test_sign_flip_is_drawn_with_a_seed_for_large_samples():
    data = np.random.default_rng(1).normal(0.1, 0.3, 40)
    assert sign_flip_p(data) == sign_flip_p(data)
    assert sign_flip_p(data) == pytest.approx(stats.ttest_1samp(data, 0).pvalue, abs=0.01)


def test_table_against_a_baseline():
    runs = pd.concat([both(), frame(A, strategy="C")], ignore_index=True)
    table = compare_with_baseline(runs, "A")
    assert list(table.index) == ["B", "C"]
    assert table.loc["B", "p_holm"] == pytest.approx(0.0625)
    assert table.loc["C", ["difference", "p_holm"]].tolist() == [0, 1]
    assert table["n_missing"].tolist() == [0, 0]


def test_table_without_another_strategy_is_empty():
    assert compare_with_baseline(frame(A, strategy="A"), "A").empty


@pytest.mark.parametrize(
    ("method", "expected"),
    [("holm", [0.005, 0.048, 0.063, 0.08, 0.3]), ("fdr_bh", [0.005, 0.03, 0.035, 0.05, 0.3])],
)
def test_many_comparisons(method, expected):
    assert adjust([0.001, 0.012, 0.021, 0.04, 0.3], method) == pytest.approx(expected)


def test_missing_p_values_stay_missing():
    assert adjust([0.02, math.nan, 0.04]) == pytest.approx([0.04, math.nan, 0.04], nan_ok=True)
    assert adjust([]) == []
    with pytest.raises(ConfigError, match="Unknown correction 'bonferroni'"):
        adjust([0.1], "bonferroni")


def test_mcnemar():
    found = mcnemar_exact(2, 9, 40)
    assert found.p_value == pytest.approx(0.0654296875)
    assert found.mid_p == pytest.approx(0.03857421875)
    assert found.difference == 0.175
    assert (found.low, found.high) == pytest.approx((0.02180433265, 0.3281956673), abs=1e-9)
    assert mcnemar_exact(0, 0, 10).p_value == 1.0
    with pytest.raises(ConfigError, match="do not fit in 3 tasks"):
        mcnemar_exact(2, 2, 3)


def test_cochran_q():
    rows = ["111", "111", "011", "001", "111", "011", "000", "101", "001", "111"]
    statistic, p_value = cochran_q([[int(digit) for digit in row] for row in rows])
    assert statistic == pytest.approx(5.2)
    assert p_value == pytest.approx(0.07427357821, abs=1e-10)


def test_unpaired_difference():
    newcombe = unpaired_difference(37, 40, 34, 40)
    assert newcombe.estimate == pytest.approx(0.075)
    first, second = wilson(37, 40), wilson(34, 40)
    by_hand = (
        0.075 - math.hypot(0.925 - first.low, second.high - 0.85),
        0.075 + math.hypot(first.high - 0.925, 0.85 - second.low),
    )
    assert by_hand == pytest.approx((-0.07193502343, 0.2240641730), abs=1e-9)
    assert (newcombe.low, newcombe.high) == pytest.approx(by_hand, abs=1e-9)
    score = unpaired_difference(37, 40, 34, 40, method="score")
    assert (score.low, score.high) == pytest.approx((-0.07409244284, 0.2362529076), abs=1e-6)


@pytest.mark.parametrize(
    ("method", "p_value"), [("fisher", 0.4813689172), ("barnard", 0.3176994434), ("boschloo", 0.3678011127)]
)
def test_exact_tests_on_disjoint_tasks(method, p_value):
    assert unpaired_p(37, 40, 34, 40, method) == pytest.approx(p_value, abs=1e-6)


def test_an_unknown_exact_test_is_refused():
    with pytest.raises(ConfigError, match="Unknown test 'chi2'"):
        unpaired_p(37, 40, 34, 40, "chi2")


def test_regression_with_clustered_errors_agrees_up_to_the_degrees_of_freedom():
    found = paired_difference(both(), "B", "A")
    assert found.standard_error * math.sqrt(7 / 8) == pytest.approx(0.04238956239, abs=1e-10)


def test_equivalence_of_paired_strategies():
    wide, narrow = equivalence(D, 0.3), equivalence(D, 0.1)
    assert wide.p_value == pytest.approx(0.01408069845, abs=1e-9)
    assert narrow.p_value == pytest.approx(0.9290541986, abs=1e-9)
    assert (wide.low, wide.high) == pytest.approx((0.08914461594, 0.2608553841), abs=1e-9)
    assert wide.is_equivalent
    assert not narrow.is_equivalent


def test_equivalence_needs_spread_and_a_margin():
    assert not equivalence([0.0] * 12, 0.05).is_equivalent
    with pytest.raises(ConfigError, match="must be positive"):
        equivalence(D, 0)


def test_equivalence_on_disjoint_tasks():
    assert equivalence_unpaired(37, 40, 36, 40, 0.15) == pytest.approx(0.04432110118, abs=1e-9)
