import math

import pandas as pd
import pytest
from ds1 import both, frame

from agentlab.analysis.rates import by_strategy
from agentlab.errors import ConfigError


def test_one_row_per_strategy():
    table = by_strategy(both())
    assert list(table.index) == ["A", "B"]
    assert table.index.name == "strategy"
    assert table["pass_rate"].tolist() == pytest.approx([0.625, 0.8])
    assert table.loc["A", ["low", "high"]].tolist() == pytest.approx([0.3227413955, 0.9272586045])
    assert table["flip_rate"].tolist() == pytest.approx([0.3, 0.225])
    assert table["planned"].tolist() == [40, 40]
    assert not table["reference"].any()


def test_groups_without_and_with_one_run():
    planned = frame({"t1": "xxx"}, strategy="A", state="planned")
    runs = pd.concat([planned, frame({"t1": "1"}, strategy="B"), frame({"t1": "0"}, strategy="C")], ignore_index=True)
    table = by_strategy(runs)
    none, passed, failed = (table.loc[name] for name in "ABC")
    assert (none["planned"], none["evaluable"], none["excluded"], none["unfinished"]) == (3, 0, 0, 3)
    assert none[["pass_rate", "low", "high", "strict_rate", "flip_rate", "tokens_per_run"]].isna().all()
    assert (passed["pass_rate"], passed["low"], passed["high"]) == pytest.approx((1, 0.2065, 1), abs=1e-4)
    assert (failed["pass_rate"], failed["low"], failed["high"]) == pytest.approx((0, 0, 0.7935), abs=1e-4)
    assert passed["interval"] == "Wilson"


def test_a_declared_strategy_without_any_row_stays():
    runs = both()
    runs["strategy"] = pd.Categorical(runs["strategy"], categories=["C", "B", "A"])
    table = by_strategy(runs)
    assert list(table.index) == ["C", "B", "A"]
    assert table.loc["C", "planned"] == 0
    assert math.isnan(table.loc["C", "pass_rate"])


def test_infrastructure_shows_both_rates():
    digits = {f"t{i}": "1" if i < 15 else "x" for i in range(50)}
    row = by_strategy(frame(digits, strategy="A", end_reason="infrastructure")).loc["A"]
    assert (row["planned"], row["evaluable"], row["excluded"]) == (50, 15, 35)
    assert (row["pass_rate"], row["strict_rate"]) == pytest.approx((1.0, 0.3))


def test_only_infrastructure_shows_no_rate():
    row = by_strategy(frame({f"t{i}": "x" for i in range(50)}, strategy="A")).loc["A"]
    assert math.isnan(row["pass_rate"])
    assert math.isnan(row["strict_rate"])


def test_a_limit_is_the_strategys_own_failure():
    digits = {f"t{i}": "1" if i < 30 else "0" for i in range(50)}
    runs = frame(digits, strategy="A").assign(end_reason=["answered"] * 38 + ["budget_model_calls"] * 12)
    row = by_strategy(runs).loc["A"]
    assert row["pass_rate"] == pytest.approx(0.6)
    assert row["budget_bound_share"] == pytest.approx(12 / 50)


def test_unknown_strategy_is_a_group_of_its_own():
    runs = pd.concat([both(), frame({"t1": "1"}).assign(strategy=None)], ignore_index=True)
    table = by_strategy(runs)
    assert list(table.index) == ["A", "B", "(unknown)"]
    assert table["planned"].sum() == 81


def _twins(strategy: str, healthy: str, defective: str) -> pd.DataFrame:
    """Two flows with one twin each; digits are right/wrong verdicts, one per flow."""
    rows = []
    for flow, (on_healthy, on_twin) in zip("ab", zip(healthy, defective, strict=True), strict=True):
        for twin, digit in ((False, on_healthy), (True, on_twin)):
            right = digit == "1"
            outcome = ("found" if right else "missed") if twin else ("clean" if right else "false_alarm")
            rows.append(
                {
                    "task_id": flow + ("-d" if twin else ""),
                    "repeat": 0,
                    "cluster": flow,
                    "defective": twin,
                    "truth_verdict": "failed" if twin else "passed",
                    "verdict": "failed" if outcome in ("found", "false_alarm") else "passed",
                    "outcome": outcome,
                    "success": int(right),
                    "strategy": strategy,
                    "answer_by": "model",
                }
            )
    return pd.DataFrame(rows)


def test_strata_recall_and_false_alarms():
    runs = pd.concat([_twins("A", "11", "10"), _twins("B", "01", "11")], ignore_index=True)
    table = by_strategy(runs, references=False)
    assert table["basis"].tolist() == ["balanced", "balanced"]
    columns = ["healthy_rate", "defective_rate", "pass_rate", "defect_recall", "false_alarm_rate"]
    assert table.loc["A", columns].tolist() == [1.0, 0.5, 0.75, 0.5, 0.0]
    assert table.loc["B", columns].tolist() == [0.5, 1.0, 0.75, 1.0, 0.5]
    assert table["verdict_passed_share"].tolist() == [0.75, 0.25]
    assert table["answer_by"].tolist() == ["model", "model"]


def test_constant_answers_are_reference_rows():
    runs = pd.concat([_twins("A", "11", "10"), _twins("B", "01", "11")], ignore_index=True)
    table = by_strategy(runs)
    assert list(table.index[table["reference"]]) == ["always_passed", "always_failed", "always_incomplete"]
    assert table.loc["always_passed", ["healthy_rate", "defective_rate", "pass_rate"]].tolist() == [1, 0, 0.5]
    assert table.loc["always_failed", ["healthy_rate", "defective_rate", "pass_rate"]].tolist() == [0, 1, 0.5]
    assert table.loc["always_incomplete", "pass_rate"] == 0
    assert table.loc["always_failed", ["defect_recall", "false_alarm_rate"]].tolist() == [1, 1]


def test_tokens_and_cost_with_unknown_ones():
    a = frame({"t1": "1111"}, strategy="A").assign(total_tokens=[1000, 1200, None, None], cost_usd=None)
    b = frame({"t1": "1100"}, strategy="B").assign(total_tokens=1100, cost_usd=0.5)
    table = by_strategy(pd.concat([a, b], ignore_index=True))
    assert table.loc["A", ["tokens_per_run", "tokens_unknown_runs", "tokens_per_correct"]].tolist() == [1100, 2, 550]
    assert table.loc["B", ["tokens_per_run", "tokens_unknown_runs", "tokens_per_correct"]].tolist() == [1100, 0, 2200]
    assert math.isnan(table.loc["A", "cost_per_run_usd"])
    assert math.isnan(table.loc["A", "cost_per_correct_usd"])
    assert table.loc["A", "cost_unknown_runs"] == 4
    assert table.loc["B", "cost_per_correct_usd"] == 1.0


def test_kinds_of_models_are_separate_rows_on_request():
    runs = pd.concat([both().assign(model_kind="real"), both().assign(model_kind="simulated")], ignore_index=True)
    with pytest.raises(ConfigError, match="by='model_kind'"):
        by_strategy(runs)
    table = by_strategy(runs, by="model_kind")
    assert list(table.index) == [("real", "A"), ("real", "B"), ("simulated", "A"), ("simulated", "B")]


def test_an_unknown_level_of_a_factor_is_a_group():
    runs = both().assign(strategy_version=["1"] * 79 + [None])
    table = by_strategy(runs, by="strategy_version")
    assert table["planned"].sum() == 80
    assert ("(unknown)", "B") in table.index


def test_ignored_attempts_are_shown():
    runs = both().assign(n_attempts=[2] * 3 + [1] * 77)
    assert by_strategy(runs)["extra_attempts"].tolist() == [3, 0]


def test_without_a_strategy_column_all_runs_are_one_group():
    assert list(by_strategy(frame({"t1": "10"})).index) == ["(unknown)"]
