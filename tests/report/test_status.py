import sqlite3
from pathlib import Path

from agentlab.report.status import status_text
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import Experiment


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
