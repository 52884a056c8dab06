import math

import pandas as pd
import pytest
from ds1 import both, frame

from agentlab.analysis.cost import (
    amount,
    frontier_shares,
    geometric_mean_ratio,
    incremental_cost,
    money,
    pareto,
    per_correct_verdict,
    ratio_of_sums,
    spend,
    token_ratio,
    tokens,
)

COSTS = [0.10, 0.12, 0.09, 0.30, 0.25, 0.11, 0.40, 0.15]
SUCCESSES = [5, 4, 5, 3, 1, 4, 0, 3]
A_TOKENS = [1200, 1350, 1280, 2100, 1190, 900]
B_TOKENS = [3500, 4100, 3600, 6400, 3700, 2800]


def test_cost_per_correct_verdict_counts_failures():
    ratio = ratio_of_sums(COSTS, SUCCESSES)
    assert ratio.estimate == pytest.approx(0.0608)
    assert ratio.standard_error == pytest.approx(0.02460229546, abs=1e-10)
    assert ratio.low == pytest.approx(max(0, 0.0608 - 2.364624252 * 0.02460229546), abs=1e-8)


def test_no_correct_verdict_is_undefined():
    ratio = ratio_of_sums([0.1, 0.2], [0, 0])
    assert math.isnan(ratio.estimate)
    assert repr(ratio) == "undefined (no correct verdict)"


def test_one_unit_has_no_interval():
    assert math.isnan(ratio_of_sums([0.1], [2]).low)


def test_unknown_tokens_make_a_lower_bound():
    runs = frame({"t1": "1111"}).assign(total_tokens=pd.array([1000, 1200, None, None], dtype="Int64"))
    used = tokens(runs)
    assert (used.mean, used.n_known, used.n_unknown, used.is_lower_bound) == (1100, 2, 2, True)
    assert str(used) == "at least 2,200 tokens (2 of 4 runs known)"
    complete = tokens(runs.assign(total_tokens=1100))
    assert str(complete) == "4,400 tokens"
    known_part = tokens(runs.assign(known_tokens=[1000, 1200, 300, 0]))
    assert (known_part.known, known_part.mean) == (2500, 1100)


def test_nothing_known_is_not_zero():
    unknown = amount(pd.Series([None, None], dtype="Float64"), "USD")
    assert math.isnan(unknown.known)
    assert math.isnan(unknown.mean)
    assert str(unknown) == "unknown (2 of 2 runs without USD)"
    assert math.isnan(amount(pd.Series([], dtype="Float64"), "USD").known)


def test_price_zero_is_known():
    free = money(pd.DataFrame({"cost_usd": [0.0, 0.0]}))
    assert (free.known, free.is_lower_bound) == (0.0, False)


def test_spend_names_the_models_without_a_price():
    rows = [("test-model-1", 0.35)] * 4 + [("test-model-1-2026-05-01", None)] * 2 + [("other-model", None)] * 2
    rows += [("local-model", 0.0)]
    runs = pd.DataFrame(rows, columns=["model", "cost_usd"]).assign(strategy="A", total_tokens=275_000)
    row = spend(runs).loc["A"]
    assert row["cost_at_least_usd"] == pytest.approx(1.4)
    assert row["unpriced_runs"] == 4
    assert row["unpriced_models"] == "test-model-1-2026-05-01, other-model"
    by_model = spend(runs, by="model")
    assert by_model.loc["local-model", "cost_at_least_usd"] == 0
    assert math.isnan(by_model.loc["other-model", "cost_at_least_usd"])
    assert str(by_model.loc["test-model-1", "tokens_at_least"]) == "1100000"


def test_spend_keeps_the_unknown_group():
    runs = pd.DataFrame({"strategy": ["A", None], "total_tokens": [10, 20], "cost_usd": [None, None]})
    assert spend(runs)["runs"].to_dict() == {"A": 1, "(unknown)": 1}
    assert spend(runs.iloc[:0]).empty


def test_per_correct_verdict_of_a_frame():
    runs = frame({"t1": "11", "t2": "01", "t3": "x0"}).assign(total_tokens=[100, 200, 300, 400, 9999, 500])
    ratio = per_correct_verdict(runs)
    assert ratio.estimate == pytest.approx(1500 / 3)
    assert ratio.n_units == 3
    partly = runs.assign(total_tokens=pd.array([100, None, 300, 400, 9999, 500], dtype="Int64"))
    ratio = per_correct_verdict(partly)
    assert (ratio.is_lower_bound, ratio.note) == (True, "1 of 5 runs unknown")
    assert repr(ratio).startswith("at least 433.333")
    ratio = per_correct_verdict(runs.assign(total_tokens=pd.array([None] * 6, dtype="Int64")))
    assert math.isnan(ratio.estimate)
    assert ratio.note == "total_tokens of no run is known"


def test_token_ratio_is_a_geometric_mean():
    found = geometric_mean_ratio(B_TOKENS, A_TOKENS)
    assert found.estimate == pytest.approx(3.003724270, abs=1e-8)
    assert (found.low, found.high) == pytest.approx((2.88062, 3.13209), abs=1e-5)


def test_token_ratio_of_a_frame_pairs_tasks():
    rows = [
        {"task_id": f"t{i}", "repeat": 0, "success": 1, "strategy": name, "total_tokens": values[i]}
        for name, values in (("A", A_TOKENS), ("B", B_TOKENS))
        for i in range(6)
    ]
    rows.append({"task_id": "t9", "repeat": 0, "success": 1, "strategy": "A", "total_tokens": 5})
    found = token_ratio(pd.DataFrame(rows), "B", "A")
    assert (found.estimate, found.n) == (pytest.approx(3.003724270, abs=1e-8), 6)
    nothing = token_ratio(pd.DataFrame(rows).assign(total_tokens=None), "B", "A")
    assert math.isnan(nothing.estimate)


def test_incremental_cost_needs_extra_successes():
    extra = incremental_cost([3, 3, 4, 3, 3], [5, 4, 5, 5, 4], [1, 1, 1, 1, 1], [3, 3, 3, 3, 3])
    assert extra.estimate == pytest.approx(11 / 8)
    assert extra.low < extra.estimate < extra.high
    unclear = incremental_cost([3, 3, 4], [3, 2, 4], [1, 1, 1], [3, 3, 3])
    assert math.isnan(unclear.estimate)
    assert "may be 0" in unclear.note


def test_pareto_frontier():
    points = {
        "single": (0.85, 1000),
        "react": (0.88, 1800),
        "plan": (0.87, 1200),
        "multi": (0.92, 3000),
        "router": (0.92, 2100),
        "unknown": (0.99, math.nan),
    }
    assert pareto(points) == ["single", "plan", "react", "router"]
    assert pareto({"a": (0.5, 1.0), "b": (0.5, 1.0)}) == ["a", "b"]


def test_frontier_shares_over_drawn_clusters():
    runs = both().assign(total_tokens=lambda frame: frame["strategy"].map({"A": 1000, "B": 3000}))
    shares = frontier_shares(runs, n_resamples=200)
    assert shares["A"] == 1.0
    assert shares["B"] > 0.9
    assert shares.equals(frontier_shares(runs, n_resamples=200))
    dominated = runs.assign(total_tokens=lambda frame: frame["strategy"].map({"A": 3000, "B": 1000}))
    assert frontier_shares(dominated, n_resamples=200)["B"] == 1.0
    assert frontier_shares(dominated, n_resamples=200)["A"] < 0.1


def test_frontier_share_without_known_cost_is_missing():
    assert frontier_shares(both().assign(total_tokens=None), n_resamples=5).isna().all()
