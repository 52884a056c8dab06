"""Stored attempts become typed frames; which attempt counts never depends on what it found."""

import datetime
from pathlib import Path

import pandas as pd
import pytest

from agentlab.analysis.frames import export_parquet, load_calls, load_runs, load_steps, to_frame
from agentlab.columns import FRAMES
from agentlab.errors import ConfigError
from agentlab.store import Store
from agentlab.trace import pack

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)


def a_store(folder: Path, attempts: dict[str, list[tuple[str, int | None]]]) -> Path:
    """A store with these attempts (end_reason, success) per run; None as end_reason is an interrupted attempt."""
    store = Store(folder, create=True)
    store.plan({"run_id": run_id, "strategy": "s", "planned_order": i} for i, run_id in enumerate(attempts))
    for run_id, ends in attempts.items():
        for end_reason, success in ends:
            attempt = store.claim(run_id, retry_errors=True)
            assert attempt is not None
            if end_reason == "killed":
                store.interrupt(run_id, attempt)
                continue
            row = {"end_reason": end_reason, "success": success, "started_at": NOW, "ended_at": NOW}
            step = {"step": 0, "tool": f"t{attempt}", "executed": True}
            store.finish(run_id, attempt, row, [step], [{"call": 0, "input_tokens": 1}], pack([]))
    store.close()
    return folder


def test_f05_the_first_valid_attempt_counts_whatever_it_found(tmp_path: Path) -> None:
    attempts: dict[str, list[tuple[str, int | None]]] = {f"r{i}": [("answered", 1)] for i in range(6)}
    attempts |= {
        "again": [("infrastructure", None), ("answered", 0)],
        "killed": [("killed", None), ("answered", 1)],
        "error": [("error", None), ("answered", 1)],
    }
    a_store(tmp_path, attempts)
    runs = load_runs(tmp_path)
    everything = load_runs(tmp_path, attempts="all")
    assert (len(runs), len(everything)) == (9, 12)
    assert runs.set_index("run_id").loc["again", "success"] == 0
    assert runs.set_index("run_id").loc["again", "n_attempts"] == 2
    assert runs["attempt"].tolist() == [0] * 6 + [1, 1, 1]
    assert (load_steps(tmp_path).groupby("run_id").size() == 1).all()
    assert len(load_calls(tmp_path, attempts="all")) == 11


def test_a_run_without_a_valid_attempt_shows_its_last_one(tmp_path: Path) -> None:
    runs = load_runs(a_store(tmp_path, {"r": [("infrastructure", None), ("killed", None), ("infrastructure", None)]}))
    assert (runs["attempt"].tolist(), runs["end_reason"].tolist()) == ([2], ["infrastructure"])


def test_f05_overlapping_sources_count_once(tmp_path: Path) -> None:
    one = a_store(tmp_path / "one", {f"r{i}": [("answered", 1)] for i in range(6)})
    two = a_store(tmp_path / "two", {f"r{i}": [("answered", 1)] for i in range(3, 9)})
    runs = load_runs([one, two])
    assert len(runs) == runs["run_id"].nunique() == 9
    assert len(load_steps([one, two])) == 9


def test_an_empty_store_has_the_same_columns_and_dtypes(tmp_path: Path) -> None:
    full = a_store(tmp_path / "full", {"r": [("answered", 1)]})
    empty = a_store(tmp_path / "empty", {})
    for load in (load_runs, load_steps, load_calls):
        assert load(empty).dtypes.equals(load(full).dtypes)


@pytest.mark.parametrize("name", FRAMES)
def test_every_column_is_there_with_its_declared_type(name: str) -> None:
    frame = to_frame([], FRAMES[name])
    assert list(frame.columns) == [column.name for column in FRAMES[name]]
    for column in FRAMES[name]:
        if column.levels:
            assert tuple(frame[column.name].cat.categories) == column.levels


def test_times_money_and_unknowns_survive_parquet(tmp_path: Path) -> None:
    folder = a_store(tmp_path, {"r": [("answered", 1)], "k": [("killed", None)]})
    export_parquet(folder, tmp_path / "parquet")
    for attempts in ("counting", "all"):
        stored, shared = load_runs(folder, attempts=attempts), load_runs(tmp_path / "parquet", attempts=attempts)
        pd.testing.assert_frame_equal(stored, shared)
    assert load_runs(folder).loc[0, "started_at"] == pd.Timestamp(NOW, tz="UTC")
    assert load_runs(folder)["cost_usd"].isna().all()


def test_nothing_to_load_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load_runs([])
    with pytest.raises(ConfigError, match="There is no experiment"):
        load_runs(tmp_path)


def test_an_export_to_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    source = a_store(tmp_path / "s", {"r": [("answered", 1)]})
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"file/p/runs\.parquet cannot be written: .* Name another place"):
        export_parquet(source, tmp_path / "file" / "p")
