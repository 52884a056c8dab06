import datetime
from typing import Any

import pandas as pd
import pytest

from agentlab.report.timeline import resource_use, step_timeline


def at(hour: int, minute: int) -> datetime.datetime:
    return datetime.datetime(2026, 11, 2, hour, minute)


MOMENTS = [at(10, 0), at(10, 15), at(10, 45)]
"""The moments of the source's example (REQUIREMENTS 002.10)."""


def optimisation(cache_start: datetime.datetime, **cache: Any) -> list[dict[str, Any]]:
    """The optimisation part of the workflow: 3.1, 3.2 and 3.3, then the verification 4."""
    return [
        _step("3.1", at(10, 0), at(10, 15), 40, 500),
        {**_step("3.2", cache_start, at(10, 40), 20, 250), **cache},
        _step("3.3", at(10, 0), at(10, 45), 55, 400),
        {**_step("4", at(10, 45), at(10, 50), 80, 700), "depends_on": ["3.1", "3.2", "3.3"]},
    ]


def _step(id: str, start: Any, end: Any, cpu_percent: int, memory_mb: int, status: str = "completed") -> dict[str, Any]:
    return {
        "id": id,
        "start": start,
        "end": end,
        "status": status,
        "cpu_percent": cpu_percent,
        "memory_mb": memory_mb,
    }


def rows(timeline: pd.DataFrame, column: str) -> list[list[Any]]:
    return [list(group[column]) for _, group in timeline.groupby("moment", sort=False)]


def test_the_sources_timeline_in_which_the_cache_waits_needs_a_strong_edge() -> None:
    timeline = step_timeline(optimisation(at(10, 15), depends_on=["3.1"]), MOMENTS)
    assert rows(timeline, "status") == [
        ["running", "pending", "running", "pending"],
        ["completed", "running", "running", "pending"],
        ["completed", "completed", "completed", "running"],
    ]
    assert rows(timeline, "waits_for") == [
        [(), ("3.1",), (), ("3.1", "3.2", "3.3")],
        [(), (), (), ("3.2", "3.3")],
        [(), (), (), ()],
    ]
    assert not any(timeline["started_without"])


def test_a_weak_edge_never_delays_and_leaves_a_gap() -> None:
    timeline = step_timeline(optimisation(at(10, 0), weak_depends_on=["3.1"]), MOMENTS)
    assert rows(timeline, "status")[0] == ["running", "running", "running", "pending"]
    assert rows(timeline, "started_without") == [[(), ("3.1",), (), ()]] * 3
    assert rows(timeline, "waits_for")[0][1] == ()


def test_a_step_that_was_started_late_over_a_weak_edge_was_ready_all_the_time() -> None:
    timeline = step_timeline(optimisation(at(10, 15), weak_depends_on=["3.1"]), MOMENTS)
    assert rows(timeline, "status")[0][1] == "ready"
    assert rows(timeline, "started_without")[1][1] == ()


def test_resource_use_adds_up_what_runs() -> None:
    table = resource_use(step_timeline(optimisation(at(10, 15), depends_on=["3.1"]), [*MOMENTS, at(11, 0)]))
    assert table.to_dict("list") == {
        "waiting": [2, 1, 0, 0],
        "running": [2, 2, 1, 0],
        "ended": [0, 1, 3, 4],
        "cpu_percent": [95.0, 75.0, 80.0, 0.0],
        "memory_mb": [900.0, 650.0, 700.0, 0.0],
    }
    assert list(table.index) == [*MOMENTS, at(11, 0)]


def test_unknown_use_is_missing_and_makes_the_sum_missing() -> None:
    steps = [{"id": "1", "start": 0.0, "status": "running"}, _step("2", 0.0, 5.0, 30, 100)]
    timeline = step_timeline(steps, [1.0, 6.0])
    assert timeline["cpu_percent"].isna().tolist() == [True, False, True, True]
    table = resource_use(timeline)
    assert table["cpu_percent"].isna().tolist() == [True, True]
    assert table["running"].tolist() == [2, 1]


def test_elapsed_seconds_of_clock_times_and_of_seconds() -> None:
    timeline = step_timeline(optimisation(at(10, 15), depends_on=["3.1"]), MOMENTS)
    elapsed = timeline[timeline["step"] == "3.2"]["elapsed_s"]
    assert elapsed.isna().tolist() == [True, False, False]
    assert elapsed.tolist()[1:] == [0.0, 1500.0]
    seconds = step_timeline([_step("1", 2.5, 4.0, 1, 1)], [3.0, 9.0])
    assert seconds["elapsed_s"].tolist() == [0.5, 1.5]


def test_a_failure_blocks_what_needs_it_from_that_moment_on() -> None:
    steps = [
        _step("1", 0, 10, 5, 5, status="failed"),
        {"id": "2", "status": "blocked", "depends_on": ["1"]},
        {"id": "3", "status": "blocked", "depends_on": ["2"]},
        {"id": "4", "status": "skipped"},
        {"id": "5", "status": "completed", "start": 10, "end": 12, "weak_depends_on": ["1"]},
    ]
    timeline = step_timeline(steps, [5, 10])
    assert rows(timeline, "status") == [
        ["running", "pending", "pending", "skipped", "ready"],
        ["failed", "blocked", "blocked", "skipped", "running"],
    ]
    assert rows(timeline, "started_without")[1][4] == ("1",)


def test_records_of_a_frame_with_missing_times_are_read() -> None:
    frame = pd.DataFrame(
        {
            "id": ["1", "2"],
            "status": ["running", "pending"],
            "start": pd.to_datetime(["2026-11-02T10:00", None]),
            "end": pd.to_datetime([None, None]),
            "depends_on": [[], ["1"]],
        }
    )
    timeline = step_timeline(frame.to_dict("records"), [pd.Timestamp("2026-11-02T10:15")])
    assert timeline["status"].tolist() == ["running", "pending"]
    assert timeline["elapsed_s"].tolist()[0] == 900.0


def test_nothing_gives_an_empty_table() -> None:
    timeline = step_timeline([], MOMENTS)
    assert timeline.empty
    assert list(timeline.columns)[:3] == ["moment", "step", "status"]
    assert resource_use(timeline).empty


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"id": 1, "status": "pending"}, {"id": "1", "status": "pending"}], "'1' has more than one record"),
        ([{"id": "2", "status": "pending", "depends_on": ["9"]}], "'2' depends on '9'"),
        ([{"id": "2", "status": "pending", "weak_depends_on": ["9"]}], "'2' depends on '9'"),
        ([{"id": "3", "status": "completed", "start": 5, "end": 4}], "'3' ends at 4 but starts at 5"),
        ([{"id": "3", "status": "completed", "end": 4}], "'3' ends at 4 but starts at None"),
    ],
)
def test_records_that_cannot_be_are_refused(steps: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step_timeline(steps, [1])


def test_a_chain_of_ten_thousand_steps_is_blocked_without_recursion() -> None:
    chain = [_step("0", 0, 1, 1, 1, status="failed")]
    chain += [{"id": str(i), "status": "blocked", "depends_on": [str(i - 1)]} for i in range(1, 10_000)]
    assert step_timeline(chain, [1])["status"].value_counts().to_dict() == {"blocked": 9_999, "failed": 1}
