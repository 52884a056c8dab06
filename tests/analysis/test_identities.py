import math

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.analysis.compare import adjust, paired_difference
from agentlab.analysis.intervals import clopper_pearson, jeffreys, mean_over_units, wilson
from agentlab.analysis.rates import pass_at_k, pass_hat_k, pass_rate
from agentlab.analysis.stability import flip_rate, task_stability

DIGITS = st.dictionaries(
    st.sampled_from([f"{flow}{twin}" for flow in "abcdef" for twin in ("", "-1", "-2")]),
    st.text("01x", min_size=1, max_size=6),
    min_size=1,
    max_size=12,
)
quick = settings(max_examples=60, deadline=None)


def frame(digits, **columns):
    rows = [
        {"task_id": task, "repeat": i, "success": math.nan if digit == "x" else float(digit), **columns}
        for task, text in digits.items()
        for i, digit in enumerate(text)
    ]
    runs = pd.DataFrame(rows)
    return runs.assign(cluster=runs["task_id"].str[0], defective=runs["task_id"].str.contains("-"))


@quick
@given(DIGITS)
def test_one_of_one_is_the_pass_rate(digits):
    runs = frame(digits)
    rate, at, hat = pass_rate(runs), pass_at_k(runs, 1), pass_hat_k(runs, 1)
    for found in (at, hat):
        assert math.isclose(found.estimate, rate.estimate) or math.isnan(rate.estimate)
        assert (found.n_runs, found.coverage) == (rate.n_runs, rate.coverage)


@quick
@given(DIGITS, st.integers(1, 4))
def test_all_of_k_is_at_most_the_pass_rate_at_most_any_of_k(digits, k):
    # Tasks without k repeats are undefined, so all three must look at the same tasks.
    runs = frame({task: text for task, text in digits.items() if len(text.replace("x", "")) >= k} or {"a": "1" * k})
    assert pass_hat_k(runs, k).estimate <= pass_rate(runs).estimate + 1e-12
    assert pass_rate(runs).estimate <= pass_at_k(runs, k).estimate + 1e-12


@quick
@given(DIGITS)
def test_intervals_stay_in_range_and_hold_the_estimate(digits):
    rate = pass_rate(frame(digits))
    if not math.isnan(rate.low):
        assert 0 <= rate.low <= rate.estimate + 1e-12
        assert rate.estimate - 1e-12 <= rate.high <= 1
        assert rate.low < rate.high


@quick
@given(DIGITS, st.randoms())
def test_order_of_rows_does_not_matter(digits, random):
    runs = frame(digits)
    order = list(range(len(runs)))
    random.shuffle(order)
    assert repr(pass_rate(runs)) == repr(pass_rate(runs.iloc[order]))


@quick
@given(DIGITS)
def test_flip_rate_has_an_upper_bound(digits):
    rows = task_stability(frame(digits)).query("n > 1")
    n = rows["n"]
    assert (rows["flip_rate"] <= n / (2 * (n - 1)) + 1e-12).all()
    assert ((rows["flip_rate"] > 0) == rows["unstable"]).all()
    estimate = flip_rate(frame(digits)).estimate
    assert math.isnan(estimate) or 0 <= estimate <= 1


@quick
@given(DIGITS, DIGITS)
def test_difference_is_antisymmetric(first, second):
    runs = pd.concat([frame(first, strategy="A"), frame(second, strategy="B")], ignore_index=True)
    there, back = paired_difference(runs, "B", "A"), paired_difference(runs, "A", "B")
    assert there.missing_tasks == back.missing_tasks
    if not math.isnan(there.estimate):
        assert math.isclose(there.estimate, -back.estimate, abs_tol=1e-12)
        assert math.isclose(there.p_value, back.p_value)
        assert -1 <= there.estimate <= 1
    if not math.isnan(there.low):
        assert math.isclose(there.low, -back.high, abs_tol=1e-9)
        assert -1 <= there.low < there.high <= 1


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_corrected_p_values_are_never_smaller(p_values):
    for method in ("holm", "fdr_bh"):
        corrected = adjust(p_values, method)
        assert all(c >= p - 1e-15 for c, p in zip(corrected, p_values, strict=True))
        assert all(0 <= c <= 1 for c in corrected)


@quick
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_proportion_intervals_hold_the_rate(counts):
    passed, n = counts
    for method in (wilson, clopper_pearson, jeffreys):
        interval = method(passed, n)
        assert 0 <= interval.low <= passed / n + 1e-12
        assert passed / n - 1e-12 <= interval.high <= 1


@quick
@given(st.lists(st.floats(-5, 5), max_size=12))
def test_limits_cut_the_interval(values):
    interval = mean_over_units(values, limits=(0.0, 1.0))
    if not math.isnan(interval.low):
        assert interval.low >= 0
        assert interval.high <= 1
