import sqlite3
from pathlib import Path

import pytest

from agentlab.report import follow as follow_module
from agentlab.report.follow import Following, follow
from agentlab.report.status import status_text
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import Experiment
from agentlab.store import Store


def test_runs_of_a_process_that_is_gone_are_shown_as_interrupted(tmp_path: Path) -> None:
    experiment = Experiment(
        name="small", suites="toy", strategies=["tool_loop"], models="simulated:perfect", repeats=1, temperature=0.5
    )
    total = run_experiment(experiment, out=tmp_path, is_quiet=True).planned
    assert "interrupted" not in status_text(tmp_path)
    with sqlite3.connect(tmp_path / "agentlab.sqlite") as connection:
        connection.execute(
            "UPDATE runs SET state = 'running', end_reason = NULL, success = NULL, owner = 'elsewhere:1:1:x', "
            "heartbeat_at = '2026-01-01 00:00:00' WHERE rowid IN (SELECT rowid FROM runs LIMIT 2)"
        )
    connection.close()
    shown = status_text(tmp_path)
    assert f"{total - 2} of {total} runs finished" in shown
    assert "2 runs were interrupted; the same `agentlab run` runs them again" in shown
    assert "running" not in shown


def test_a_store_without_runs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "START_S", 0.05)
    Store(tmp_path, create=True).close()
    assert status_text(tmp_path) == f"no experiment yet in {tmp_path}: no run is planned yet"
    assert str(follow(tmp_path, interval_s=0.01)) == "no experiment yet: 0 of 0 runs finished (none is planned yet)"


@pytest.mark.parametrize(
    ("looks", "n_seen"),
    [
        ([{"planned": 2}, {"planned": 1, "running": 1}, {"planned": 1, "finished": 1}, {"finished": 2}], 4),
        ([{"planned": 1, "finished": 1}, {"planned": 1, "finished": 1}, {"finished": 2}], 2),
        ([{"finished": 1, "interrupted": 1}, {"finished": 2}], 1),
    ],
    ids=["a moment between two runs is no rest", "nobody goes on", "all have ended"],
)
def test_following_ends_when_nobody_works_any_more(
    looks: list[dict[str, int]], n_seen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [Following("e", counts) for counts in looks]
    monkeypatch.setattr(follow_module, "look_at", lambda folder: left.pop(0))
    assert follow("anywhere", interval_s=0.001).counts == looks[n_seen - 1]
    assert len(left) == len(looks) - n_seen


def test_following_waits_while_nothing_is_planned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[dict[str, int]] = [*[{}] * 5, {"planned": 1}, {"running": 1}, {"finished": 1}]
    monkeypatch.setattr(follow_module, "look_at", lambda folder: Following("e", looks.pop(0)))
    assert follow("anywhere", interval_s=0.001).counts == {"finished": 1}
    assert not looks


def test_following_what_never_starts_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_module, "look_at", lambda folder: Following("e", {}))
    monkeypatch.setattr(follow_module, "START_S", 0.05)
    assert follow("anywhere", interval_s=0.001).total == 0
    monkeypatch.setattr(follow_module, "START_S", 1000.0)
    assert follow("anywhere", interval_s=0.001, timeout_s=0.05).total == 0
