import math

import numpy as np
import pandas as pd
import pytest
from ds1 import A, B, both, frame
from statsmodels.stats.inter_rater import fleiss_kappa as library_kappa

from agentlab.analysis.compare import paired_difference
from agentlab.analysis.stability import (
    expected_daily_spread,
    expected_flip_rate,
    expected_pass_hat_k,
    fleiss_kappa,
    flip_rate,
    modal_agreement,
    rolling_rate,
    task_stability,
    task_variation,
    variance_components,
    variation,
)
from agentlab.errors import ConfigError

TOKENS = [1200, 1350, 1280, 2100, 1190]


def test_flip_rate_per_task_and_mean():
    rows = task_stability(frame(A))
    assert rows["flip_rate"].tolist() == pytest.approx([0, 0.4, 0, 0.6, 0.4, 0.4, 0, 0.6])
    assert rows["unstable"].sum() == 5
    assert task_stability(frame(B))["unstable"].sum() == 4
    assert flip_rate(frame(A)).estimate == pytest.approx(0.3)
    assert flip_rate(frame(B)).estimate == pytest.approx(0.225)
    assert modal_agreement(frame(A)).estimate == pytest.approx(0.825)
    assert modal_agreement(frame(B)).estimate == pytest.approx(0.875)


def test_one_repeat_has_no_flip_rate():
    estimate = flip_rate(frame({"t1": "1", "t2": "10"}))
    assert estimate.estimate == 1.0
    assert estimate.coverage == "1 of 2 tasks"
    assert math.isnan(flip_rate(frame({"t1": "1"})).estimate)


@pytest.mark.parametrize(
    ("digits", "msb", "msw", "between", "icc"),
    [
        (A, 0.6535714286, 0.15, 0.1007142857, 0.4017094017),
        (B, 0.4, 0.1125, 0.0575, 0.3382352941),
    ],
)
def test_variance_components(digits, msb, msw, between, icc):
    found = variance_components(frame(digits))
    assert (found.between_mean_square, found.within_mean_square) == pytest.approx((msb, msw), abs=1e-9)
    assert (found.between, found.within, found.icc) == pytest.approx((between, msw, icc), abs=1e-9)
    assert (found.repeats, found.n_tasks) == (5, 8)


def test_variance_components_without_repeats_or_variance():
    assert math.isnan(variance_components(frame({"t1": "1", "t2": "0"})).icc)
    assert math.isnan(variance_components(frame({"t1": "11", "t2": "11"})).icc)


@pytest.mark.parametrize(("digits", "kappa"), [(A, 0.36), (B, 0.296875)])
def test_fleiss_kappa(digits, kappa):
    counts = np.array([[text.count("0"), text.count("1")] for text in digits.values()])
    assert fleiss_kappa(frame(digits)) == pytest.approx(kappa)
    assert fleiss_kappa(frame(digits)) == pytest.approx(library_kappa(counts))


def test_fleiss_kappa_without_anything_to_agree_on():
    assert math.isnan(fleiss_kappa(frame({"t1": "1"})))
    assert math.isnan(fleiss_kappa(frame({"t1": "11"})))


def test_spread_of_tokens():
    found = variation(TOKENS)
    assert found.coefficient == pytest.approx(0.2692731119, abs=1e-9)
    assert found.robust == pytest.approx(0.09266263866, abs=1e-9)
    assert found.quartile == pytest.approx(0.1171875)


def test_spread_of_one_value_is_empty():
    assert math.isnan(variation([1200]).coefficient)
    assert variation([1200, math.nan]).n == 1


def test_spread_of_tokens_per_task():
    runs = frame({"t1": "11111", "t2": "1"}).assign(total_tokens=pd.array([*TOKENS, None], dtype="Int64"))
    rows = task_variation(runs)
    assert rows.loc["t1", "coefficient"] == pytest.approx(0.2692731119, abs=1e-9)
    assert rows.loc["t2", "n"] == 0
    assert rows["coefficient"].median() == pytest.approx(0.2692731119, abs=1e-9)


def test_what_pass_rate_and_icc_imply():
    assert expected_flip_rate(0.85, 0.3) == pytest.approx(0.1785)
    assert expected_flip_rate(0.85, 0.5) == pytest.approx(0.1275)
    assert expected_flip_rate(0.92, 0.3) == pytest.approx(0.1030, abs=1e-4)
    assert expected_flip_rate(0.92, 0.5) == pytest.approx(0.0736)
    assert expected_pass_hat_k(0.85, 0, 3) == pytest.approx(0.6141, abs=1e-4)
    assert expected_pass_hat_k(0.85, 0, 5) == pytest.approx(0.4437, abs=1e-4)
    assert expected_pass_hat_k(0.85, 0.3, 3) == pytest.approx(0.6993048077, abs=1e-9)
    assert expected_pass_hat_k(0.85, 0.3, 5) == pytest.approx(0.6173, abs=1e-4)
    assert expected_pass_hat_k(0.92, 0.3, 3) == pytest.approx(0.8311, abs=1e-4)
    assert expected_pass_hat_k(0.85, 1, 5) == 0.85
    with pytest.raises(ConfigError, match="k must be at least 1"):
        expected_pass_hat_k(0.85, 0.3, 0)


@pytest.mark.parametrize(("icc", "sd", "spread"), [(0.3, 0.0472, 0.128), (0.5, 0.0399, 0.108)])
def test_daily_spread(icc, sd, spread):
    found = expected_daily_spread(0.85, icc, 40)
    assert found[0] == pytest.approx(sd, abs=1e-4)
    assert found[1] == pytest.approx(spread, abs=5e-4)


def test_rolling_rate_is_in_start_order():
    digits = [1, 1, 0, 1, 0, 0, 1, 1, 1, 0]
    runs = pd.DataFrame({"task_id": "t", "repeat": range(10), "success": digits})
    assert rolling_rate(runs, 5).dropna().tolist() == pytest.approx([0.6, 0.4, 0.4, 0.6, 0.6, 0.6])
    runs["started_at"] = pd.date_range("2026-10-01", periods=10, freq="h", tz="UTC")
    shuffled = runs.sample(frac=1, random_state=3)
    rolled = rolling_rate(shuffled, 5).dropna()
    assert rolled.tolist() == pytest.approx([0.6, 0.4, 0.4, 0.6, 0.6, 0.6])
    assert rolled.index[-1] == pd.Timestamp("2026-10-01T09:00Z")


def test_a_better_strategy_is_not_shown_to_be_more_stable():
    difference = paired_difference(both(), "B", "A", measure="flip_rate")
    assert difference.estimate == pytest.approx(-0.075)
    assert difference.standard_error == pytest.approx(0.09955257046, abs=1e-9)
    assert difference.low < 0 < difference.high
    assert difference.p_value > 0.3
