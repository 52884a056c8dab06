import math

import numpy as np
import pytest
from ds1 import A, B

from agentlab.analysis.intervals import (
    bootstrap_over_tasks,
    clopper_pearson,
    cluster_standard_error,
    jeffreys,
    mean_over_units,
    standard_error,
    wilson,
    zero_failures_bound,
)
from agentlab.errors import ConfigError

MEANS_A = [sum(map(int, digits)) / 5 for digits in A.values()]
MEANS_B = [sum(map(int, digits)) / 5 for digits in B.values()]
RUNS_A = [int(digit) for digits in A.values() for digit in digits]
RUNS_B = [int(digit) for digits in B.values() for digit in digits]
TASKS = [task for task in A for _ in range(5)]


@pytest.mark.parametrize(
    ("passed", "n", "expected"),
    [
        (37, 40, [0.8013576648, 0.9741639742, 0.7961352513, 0.9842578201, 0.8131857028, 0.9784233256]),
        (34, 40, [0.7092767563, 0.9293881228, 0.7016473332, 0.9428977418, 0.7166866404, 0.9348744848]),
        (7, 10, [0.3967781475, 0.8922087326, 0.3475471499, 0.9332604888, 0.3941816819, 0.9073054061]),
        (0, 20, [0, 0.1611251581, 0, 0.1684334710, 0, 0.1166389829]),
        (20, 20, [0.8388748419, 1, 0.8315665290, 1, 0.8833610171, 1]),
    ],
)
def test_one_proportion(passed, n, expected):
    found = [wilson(passed, n), clopper_pearson(passed, n), jeffreys(passed, n)]
    limits = [limit for interval in found for limit in (interval.low, interval.high)]
    assert limits == pytest.approx(expected, abs=1e-9)
    assert all(0 <= limit <= 1 for limit in limits)
    assert [interval.method for interval in found] == ["Wilson", "Clopper-Pearson", "Jeffreys"]


def test_one_run_is_not_certainty():
    assert (wilson(1, 1).low, wilson(1, 1).high) == pytest.approx((0.2065, 1), abs=1e-4)
    assert (wilson(0, 1).low, wilson(0, 1).high) == pytest.approx((0, 0.7935), abs=1e-4)
    assert (clopper_pearson(1, 1).low, clopper_pearson(0, 1).high) == pytest.approx((0.025, 0.975), abs=1e-9)


def test_no_run_gives_nothing():
    assert math.isnan(wilson(0, 0).estimate)
    assert math.isnan(clopper_pearson(0, 0).low)


def test_more_passes_than_runs_is_refused():
    with pytest.raises(ConfigError, match="3 of 2 is no proportion"):
        wilson(3, 2)


def test_zero_failures():
    assert zero_failures_bound(20) == pytest.approx(0.1391083407, abs=1e-10)
    assert zero_failures_bound(0) == 1


@pytest.mark.parametrize(
    ("means", "estimate", "error", "low", "high"),
    [
        (MEANS_A, 0.625, 0.1278252155, 0.3227413955, 0.9272586045),
        (MEANS_B, 0.8, 0.1, 0.5635375748, 1.036462425),
    ],
)
def test_mean_over_tasks(means, estimate, error, low, high):
    interval = mean_over_units(means)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx((estimate, low, high), abs=1e-9)
    assert standard_error(means) == pytest.approx(error, abs=1e-9)
    assert mean_over_units(means, limits=(0, 1)).high == pytest.approx(min(1, high), abs=1e-9)


def test_fewer_than_two_units_give_no_interval():
    assert math.isnan(mean_over_units([0.5]).low)
    assert math.isnan(mean_over_units([]).estimate)
    assert math.isnan(standard_error([1.0]))
    assert mean_over_units([0.25, math.nan, 0.75]).n == 2


def test_equal_units_give_no_interval_of_width_zero():
    assert math.isnan(mean_over_units([0.2] * 7).low)


@pytest.mark.parametrize(("runs", "raw"), [(RUNS_A, 0.1195695404), (RUNS_B, 0.09354143467)])
def test_cluster_standard_error_over_tasks(runs, raw):
    assert cluster_standard_error(runs, TASKS, corrected=False) == pytest.approx(raw, abs=1e-9)
    assert cluster_standard_error(runs, TASKS) == pytest.approx(raw * math.sqrt(8 / 7), abs=1e-9)


def test_cluster_standard_error_over_families():
    families = ["F1"] * 2 + ["F2"] * 3 + ["F3"] + ["F4"] * 2
    runs_of = [family for family in families for _ in range(5)]
    assert cluster_standard_error(RUNS_A, runs_of, corrected=False) == pytest.approx(0.1090620523, abs=1e-9)
    assert cluster_standard_error(RUNS_A, runs_of) == pytest.approx(0.1259340105, abs=1e-9)
    assert math.isnan(cluster_standard_error([1, 0], ["x", "x"]))


def test_naive_error_is_far_smaller_than_the_clustered_one():
    rate = 0.625
    assert math.sqrt(rate * (1 - rate) / 40) < 0.6 * standard_error(MEANS_A)
    assert cluster_standard_error(RUNS_A, TASKS, corrected=False) ** 2 / (rate * (1 - rate) / 40) == pytest.approx(2.44)


def test_bootstrap_agrees_with_all_resamples_of_four_tasks():
    values = [1, 0.8, 0.6, 0.2]
    interval = bootstrap_over_tasks(values, method="percentile", n_resamples=50_000)
    assert interval.estimate == pytest.approx(0.65)
    assert (interval.low, interval.high) == pytest.approx((0.35, 0.90), abs=0.0501)
    assert "fewer than 15 tasks" in interval.note
    assert "fewer than 15 tasks" in repr(interval)


def test_paired_bootstrap_of_the_difference():
    percentile = bootstrap_over_tasks(MEANS_B, MEANS_A, method="percentile")
    bca = bootstrap_over_tasks(MEANS_B, MEANS_A)
    assert percentile.estimate == pytest.approx(0.175)
    # One lattice step of a mean of eight multiples of 0.2 is 0.025.
    assert (percentile.low, percentile.high) == pytest.approx((0.10, 0.25), abs=0.026)
    assert (bca.low, bca.high) == pytest.approx((0.10, 0.275), abs=0.026)
    assert bca == bootstrap_over_tasks(MEANS_B, MEANS_A)
    assert "seed 0" in bca.method


def test_bootstrap_without_spread_has_no_interval():
    assert math.isnan(bootstrap_over_tasks([1.0] * 20).low)
    assert bootstrap_over_tasks(np.linspace(0, 1, 20), method="percentile").note == ""
