import math

import numpy as np
import pytest
from statsmodels.stats.proportion import samplesize_proportions_2indep_onetail

from agentlab.analysis.power import (
    Design,
    clusters_needed,
    detectable_difference,
    mcnemar_tasks,
    non_inferiority_tasks,
    normal_tasks,
    power_of,
    tasks_needed,
)
from agentlab.errors import ConfigError

REPEATS = (1, 3, 5, 10, 20)


def design(repeats=1, icc=0.3, correlation=0.8, rates=(0.85, 0.92), power=0.8):
    return Design(*rates, repeats=repeats, icc=icc, correlation=correlation, power=power)


def test_unpaired_formula():
    assert normal_tasks(design(correlation=None)) == pytest.approx(322.1244315, abs=1e-6)
    assert normal_tasks(design(correlation=None, power=0.9)) == pytest.approx(431.2332199, abs=1e-6)
    pooled = samplesize_proportions_2indep_onetail(0.07, 0.85, 0.8, alpha=0.05)
    assert pooled == pytest.approx(324.8674377, abs=1e-6)
    assert normal_tasks(design(correlation=None)) == pytest.approx(pooled, rel=0.01)


def test_forty_cases_per_arm_show_little():
    assert power_of(design(correlation=None), 40) == pytest.approx(0.16, abs=0.01)


@pytest.mark.parametrize(
    ("correlation", "icc", "expected"),
    [
        (None, 0.1, [323, 129, 91, 62, 47]),
        (None, 0.3, [323, 172, 142, 120, 108]),
        (None, 0.5, [323, 215, 194, 178, 170]),
        (None, 0.7, [323, 258, 245, 236, 231]),
        (0.5, 0.3, [276, 126, 96, 73, 62]),
        (0.5, 0.5, [245, 138, 116, 100, 92]),
        (0.5, 0.7, [214, 150, 137, 127, 122]),
        (0.8, 0.1, [298, 105, 66, 37, 22]),
        (0.8, 0.3, [248, 98, 68, 45, 34]),
        (0.8, 0.5, [198, 91, 70, 54, 45]),
        (0.8, 0.7, [149, 84, 72, 62, 57]),
        (0.95, 0.5, [175, 68, 46, 30, 22]),
    ],
)
def test_table_of_tasks(correlation, icc, expected):
    found = [tasks_needed(design(m, icc, correlation), t_version=False) for m in REPEATS]
    assert found == expected


@pytest.mark.parametrize(
    ("repeats", "rates", "expected"),
    [
        (1, (0.6, 0.8), (38, 62)),
        (3, (0.6, 0.8), (22, 26)),
        (5, (0.6, 0.8), (19, 19)),
        (10, (0.6, 0.8), (17, 13)),
        (1, (0.7, 0.9), (31, 48)),
        (5, (0.7, 0.9), (17, 15)),
    ],
)
def test_hard_bucket_with_the_t_test(repeats, rates, expected):
    assert tuple(tasks_needed(design(repeats, icc, 0.8, rates)) for icc in (0.7, 0.3)) == expected


def test_needed_tasks_have_the_power_and_one_less_has_not():
    plan = design(5, 0.5)
    n = tasks_needed(plan)
    assert power_of(plan, n) >= 0.8 > power_of(plan, n - 1)


def test_power_agrees_with_the_simulated_values():
    assert power_of(design(5, 0.3, 0.78), 100) == pytest.approx(0.931, abs=0.03)
    assert power_of(design(3, 0.5, 0.80), 150) == pytest.approx(0.963, abs=0.03)
    assert power_of(design(5, 0.7), 40) == pytest.approx(0.54, abs=0.01)
    assert power_of(design(10, 0.3), 40) == pytest.approx(0.73, abs=0.01)


def test_power_agrees_with_simulated_runs():
    rng = np.random.default_rng(5)
    plan, n_tasks, draws = Design(0.6, 0.8, repeats=5, icc=0.3, correlation=0.0), 40, 600
    found = 0
    for _ in range(draws):
        arms = []
        for rate in (plan.baseline_rate, plan.strategy_rate):
            scale = (1 - plan.icc) / plan.icc
            true = rng.beta(rate * scale, (1 - rate) * scale, n_tasks)
            arms.append(rng.binomial(plan.repeats, true) / plan.repeats)
        d = arms[1] - arms[0]
        found += abs(d.mean()) / (d.std(ddof=1) / math.sqrt(n_tasks)) > 2.0227
    assert found / draws == pytest.approx(power_of(plan, n_tasks), abs=0.05)


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [(1, (0.135, 0.174)), (3, (0.101, 0.109)), (5, (0.093, 0.091)), (10, (0.087, 0.074)), (20, (0.083, 0.064))],
)
def test_smallest_detectable_difference(repeats, expected):
    found = tuple(detectable_difference(design(repeats, icc), 40) for icc in (0.7, 0.3))
    assert found == pytest.approx(expected, abs=6e-4)


def test_mcnemar_planning():
    assert mcnemar_tasks(0.05, 0.12) == 270


def test_non_inferiority():
    assert non_inferiority_tasks(0.9, 0.05) == 446


def test_clusters_needed_from_observed_differences():
    differences = [0.0, 0.2, -0.2, 0.4, 0.0, 0.2]
    sd = np.std(differences, ddof=1)
    assert clusters_needed(differences, 0.1) == math.ceil(7.848879734349 * (sd / 0.1) ** 2) + 2
    assert clusters_needed([0.1, 0.1], 0.05) is None
    assert clusters_needed([], 0.05) is None


@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.5, 1.2)])
def test_a_design_needs_two_rates(rates):
    with pytest.raises(ConfigError, match="two different rates"):
        Design(*rates)


def test_a_design_needs_sound_settings():
    with pytest.raises(ConfigError, match="repeats >= 1"):
        Design(0.5, 0.6, repeats=0)
