import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ds1 import A, B, both, frame

from agentlab.analysis.rates import pass_at_k, pass_at_k_of, pass_hat_k, pass_hat_k_of, pass_rate
from agentlab.errors import ConfigError

TAU = Path(__file__).parent.parent / "data" / "tau_bench_airline_gpt4o.csv"


def test_repeats_are_averaged_inside_the_task():
    rate = pass_rate(frame(A))
    assert (rate.estimate, rate.low, rate.high) == pytest.approx((0.625, 0.3227413955, 0.9272586045), abs=1e-9)
    assert (rate.n_runs, rate.n_tasks, rate.n_clusters, rate.n_excluded) == (40, 8, 8, 0)
    assert rate.coverage == "8 of 8 tasks"
    assert rate.method == "95% t interval over clusters"


def test_the_interval_is_cut_at_one():
    rate = pass_rate(frame(B))
    assert (rate.low, rate.high) == (pytest.approx(0.5635375748, abs=1e-9), 1.0)


def test_unequal_repeats_weigh_tasks_alike():
    rate = pass_rate(frame({**A, "t5": "00", "t7": "0"}))
    assert rate.n_runs == 33
    assert rate.estimate == pytest.approx(0.6)
    half = rate.high - rate.estimate
    assert half / 2.364624252 == pytest.approx(0.1414213562, abs=1e-8)


def test_clusters_weigh_alike():
    families = {"t1": "F1", "t2": "F1", "t3": "F2", "t4": "F2", "t5": "F2", "t6": "F3", "t7": "F4", "t8": "F4"}
    runs = frame(A)
    runs["cluster"] = runs["task_id"].map(families)
    rate = pass_rate(runs)
    means = [0.9, (1 + 0.6 + 0.2) / 3, 0.8, 0.3]
    assert rate.estimate == pytest.approx(np.mean(means))
    assert rate.n_clusters == 4
    half = 3.182446305284263 * np.std(means, ddof=1) / 2
    assert rate.high == pytest.approx(min(1, np.mean(means) + half))


def test_missing_cluster_is_the_task_itself():
    runs = frame(A).assign(cluster=pd.Series([None] * 40, dtype="string"))
    assert pass_rate(runs) == pass_rate(frame(A))


@pytest.mark.parametrize("dtype", ["Int64", "float64", "boolean", "object", "bool"])
def test_success_may_have_any_dtype(dtype):
    runs = frame(A)
    runs["success"] = runs["success"].astype(dtype)
    assert pass_rate(runs).estimate == 0.625


def test_success_with_other_values_is_refused():
    with pytest.raises(ConfigError, match=r"'success' holds 0.5 \(row 2\); valid: 0, 1, missing"):
        pass_rate(pd.DataFrame({"task_id": ["a"] * 3, "repeat": range(3), "success": [0, 1, 0.5]}))


def test_infrastructure_is_excluded_and_counted():
    rate = pass_rate(frame({"t1": "11x", "t2": "0xx", "t3": "xxx"}))
    assert (rate.estimate, rate.n_runs, rate.n_excluded) == (0.5, 3, 6)
    assert rate.coverage == "2 of 3 tasks"
    assert rate.missing_tasks == ("t3",)


def test_planned_runs_are_not_excluded_runs():
    runs = frame({"t1": "1x", "t2": "0x"}).assign(state=["finished", "planned", "finished", "interrupted"])
    assert pass_rate(runs).n_excluded == 1


def test_only_infrastructure_gives_no_rate():
    rate = pass_rate(frame({f"t{i}": "x" for i in range(50)}))
    assert math.isnan(rate.estimate)
    assert math.isnan(rate.low)
    assert repr(rate) == "pass rate: no data (0 of 50 tasks, 50 runs excluded)"


def test_no_row_at_all_gives_no_rate():
    rate = pass_rate(frame(A).iloc[:0])
    assert math.isnan(rate.estimate)
    assert rate.n_runs == 0


@pytest.mark.parametrize(("digit", "low", "high"), [("1", 0.2065, 1), ("0", 0, 0.7935)])
def test_one_run_has_no_interval_but_is_shown_with_the_widest(digit, low, high):
    rate = pass_rate(frame({"t1": digit}))
    assert (rate.estimate, rate.n_runs) == (float(digit), 1)
    assert math.isnan(rate.low)
    assert math.isnan(rate.high)
    assert (rate.shown_interval.low, rate.shown_interval.high) == pytest.approx((low, high), abs=1e-4)
    assert rate.shown_interval.method == "Wilson"


@pytest.mark.parametrize(
    ("n", "digit", "low", "high"), [(10, "1", 0.7225, 1), (10, "0", 0, 0.2775), (20, "1", 0.8389, 1)]
)
def test_all_alike_is_not_certainty(n, digit, low, high):
    rate = pass_rate(frame({f"t{i}": digit for i in range(n)}))
    assert (rate.low, rate.high) == pytest.approx((low, high), abs=1e-3)
    assert 0 <= rate.low <= rate.high <= 1
    assert "Wilson" in rate.method
    assert (rate.shown_interval.low, rate.shown_interval.high) == (rate.low, rate.high)


def _twins() -> pd.DataFrame:
    digits = {"a": "1111", "a-1": "0000", "a-2": "1100", "b": "1110", "b-1": "1000", "c": "0011", "c-1": "1111"}
    runs = frame(digits)
    runs["cluster"] = runs["task_id"].str[0]
    runs["defective"] = runs["task_id"].str.contains("-")
    return runs


def test_twins_balance_the_rate():
    rate = pass_rate(_twins())
    healthy, defective = [1, 0.75, 0.5], [0.25, 0.25, 1]
    clusters = [(h + d) / 2 for h, d in zip(healthy, defective, strict=True)]
    assert rate.estimate == pytest.approx((np.mean(healthy) + np.mean(defective)) / 2)
    assert rate.low == pytest.approx(np.mean(clusters) - 4.302652729749464 * np.std(clusters, ddof=1) / math.sqrt(3))
    assert rate.method == "95% t interval over clusters; balanced"


def test_a_flow_without_twins_does_not_move_the_balance():
    runs = _twins()
    more = pd.concat([runs, frame({"d": "1111"}).assign(cluster="d", defective=False)], ignore_index=True)
    rate = pass_rate(more)
    healthy, defective = [1, 0.75, 0.5, 1], [0.25, 0.25, 1]
    assert rate.estimate == pytest.approx((np.mean(healthy) + np.mean(defective)) / 2)
    # Always saying "passed" stays at one half, however many flows have no twin.
    always = more.assign(success=(~more["defective"]).astype("Int64"))
    assert pass_rate(always).estimate == 0.5


def test_suites_keep_their_flows_apart():
    orders = frame({"t1": "1", "t2": "0"}).assign(suite="orders", cluster="login")
    shop = frame({"t1": "1", "t2": "1"}).assign(suite="shop", cluster="login")
    rate = pass_rate(pd.concat([orders, shop]))
    assert (rate.n_tasks, rate.n_clusters, rate.estimate) == (4, 2, 0.75)


def test_row_labels_do_not_matter():
    runs = pd.concat([frame(A), frame({"t9": "00000"})])
    assert runs.index.has_duplicates
    assert pass_rate(runs).estimate == pytest.approx(5 / 9)


def test_kinds_of_models_are_never_pooled():
    runs = pd.concat([frame(A, model_kind="real"), frame(A, model_kind="simulated")])
    with pytest.raises(ConfigError, match=r"40 real, 40 simulated.*never pooled.*runs\['model_kind'\] == 'real'"):
        pass_rate(runs)
    assert pass_rate(runs[runs["model_kind"] == "real"]).n_runs == 40


def test_strategies_are_never_pooled():
    with pytest.raises(ConfigError, match=r"2 strategies \(A, B\); use by_strategy"):
        pass_rate(both())


def test_attempts_of_one_run_are_never_pooled():
    runs = frame({"t1": "01"}).assign(run_id=["r1", "r1"])
    with pytest.raises(ConfigError, match=r"several attempts of one run \(r1\)"):
        pass_rate(runs)


def test_two_repeats_with_one_seed_are_two_runs():
    runs = frame({"t1": "10"}).assign(run_id=["r1", "r2"], seed=7)
    assert (pass_rate(runs).estimate, pass_rate(runs).n_runs) == (0.5, 2)


def test_missing_column_is_named():
    with pytest.raises(ConfigError, match="no column success"):
        pass_rate(pd.DataFrame({"task_id": ["t1"], "repeat": [0]}))


def test_reading_an_estimate():
    text = repr(pass_rate(frame(A)))
    assert text == (
        "pass rate 0.625 [0.323, 0.927] (40 runs, 8 of 8 tasks, 8 clusters, 0 runs excluded; "
        "95% t interval over clusters)"
    )


@pytest.mark.parametrize(
    ("n", "c", "k", "at", "hat"),
    [
        (10, 3, 1, 0.3, 0.3),
        (10, 3, 5, 0.9166666667, 0),
        (10, 8, 3, 1, 0.4666666667),
        (10, 0, 4, 0, 0),
        (10, 10, 4, 1, 1),
    ],
)
def test_k_of_one_task(n, c, k, at, hat):
    assert pass_at_k_of(n, c, k) == pytest.approx(at, abs=1e-9)
    assert pass_hat_k_of(n, c, k) == pytest.approx(hat, abs=1e-9)


@pytest.mark.parametrize("k", [0, 4])
def test_k_of_one_task_needs_k_repeats(k):
    with pytest.raises(ConfigError, match="n = 3 repeats"):
        pass_hat_k_of(3, 2, k)
    with pytest.raises(ConfigError, match="n = 3 repeats"):
        pass_at_k_of(3, 2, k)


@pytest.mark.parametrize(
    ("digits", "at", "hat"),
    [
        (A, [0.625, 0.775, 0.825, 0.875], [0.625, 0.475, 0.375, 0.25]),
        (B, [0.8, 0.9125, 0.95, 1], [0.8, 0.6875, 0.6125, 0.5]),
    ],
)
def test_k_over_tasks(digits, at, hat):
    ks = (1, 2, 3, 5)
    assert [pass_at_k(frame(digits), k).estimate for k in ks] == pytest.approx(at)
    assert [pass_hat_k(frame(digits), k).estimate for k in ks] == pytest.approx(hat)


UNEVEN = {"t1": "1111", "t2": "110", "t3": "1xx", "t4": "1101"}


def test_uneven_repeats_are_covered_never_guessed():
    estimate = pass_hat_k(frame(UNEVEN), 3)
    assert estimate.estimate == pytest.approx((1 + 0 + 1 / 4) / 3)
    assert estimate.coverage == "3 of 4 tasks"
    assert estimate.missing_tasks == ("t3",)
    assert (estimate.n_tasks, estimate.n_clusters) == (3, 3)
    assert pass_hat_k(frame(UNEVEN), 2).estimate == pytest.approx((1 + 1 / 3 + 1 / 2) / 3)
    assert pass_at_k(frame(UNEVEN), 3).coverage == "3 of 4 tasks"


def test_no_task_with_enough_repeats():
    estimate = pass_hat_k(frame(UNEVEN), 5)
    assert math.isnan(estimate.estimate)
    assert estimate.coverage == "0 of 4 tasks"


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(k):
    with pytest.raises(ConfigError, match="k must be at least 1"):
        pass_hat_k(frame(A), k)
    with pytest.raises(ConfigError, match="k must be at least 1"):
        pass_at_k(frame(A), k)


def test_published_numbers_of_tau_bench_airline():
    runs = pd.read_csv(TAU).rename(columns={"trial": "repeat", "reward": "success"})
    assert [round(pass_hat_k(runs, k).estimate, 3) for k in (1, 2, 3, 4)] == [0.420, 0.273, 0.220, 0.200]
    assert pass_rate(runs).n_runs == 200
    assert pass_rate(runs).n_tasks == 50
