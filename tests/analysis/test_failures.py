import pandas as pd
import pytest
from ds1 import frame

from agentlab.analysis.failures import all_causes_table, failure_table, outcome_table


def runs() -> pd.DataFrame:
    a = frame({"t1": "0000x1"}, strategy="A").assign(
        failure_class=["wrong_verdict", "budget", "wrong_verdict", None, None, None],
        failure_classes=['["wrong_verdict", "repeated_call"]', '["budget"]', None, None, None, None],
        outcome=["missed", "no_verdict", "false_alarm", None, "excluded", "clean"],
    )
    b = frame({"t1": "11"}, strategy="B").assign(failure_class=None, failure_classes=None, outcome="clean")
    c = frame({"t1": "x"}, strategy="C", state="planned").assign(failure_class=None, failure_classes=None, outcome=None)
    return pd.concat([a.assign(state="finished"), b.assign(state="finished"), c], ignore_index=True)


def test_failures_by_first_cause():
    table = failure_table(runs())
    assert list(table.columns) == ["wrong_verdict", "budget", "unknown", "failed", "evaluable"]
    assert table.loc["A"].tolist() == [2, 1, 1, 4, 5]
    assert table.loc["B"].tolist() == [0, 0, 0, 0, 2]
    assert table.loc["C"].tolist() == [0, 0, 0, 0, 0]


def test_unknown_is_shown_even_when_there_is_none():
    assert "unknown" in failure_table(frame({"t1": "1"}, strategy="A"))


def test_a_class_that_is_not_in_the_list_is_unknown():
    table = failure_table(frame({"t1": "0"}, strategy="A").assign(failure_class="made_up"))
    assert table.loc["A", "unknown"] == 1


def test_all_causes_of_a_run_are_counted():
    table = all_causes_table(runs())
    assert table.loc["A"].to_dict() == {"budget": 1, "repeated_call": 1, "unknown": 1, "wrong_verdict": 2}
    assert table.loc["B"].sum() == 0


def test_outcomes_have_all_columns_and_no_planned_run():
    table = outcome_table(runs())
    row = table.loc["A"]
    assert row[["missed", "no_verdict", "false_alarm", "unknown", "excluded", "clean"]].tolist() == [1] * 6
    assert table.loc["C"].sum() == 0
    assert {"found", "masked", "wrong_defect"} <= set(table.columns)
    assert table.loc["B", "clean"] == 2


def test_empty_frame():
    empty = runs().iloc[:0]
    assert failure_table(empty).empty
    assert outcome_table(empty).empty


def test_missing_column_is_named():
    with pytest.raises(Exception, match="no column outcome"):
        outcome_table(frame({"t1": "1"}, strategy="A"))
