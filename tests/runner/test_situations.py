"""Real-life trouble around experiments, one named test each."""

import asyncio
import dataclasses
import datetime
import os
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_chat_server import ChatServer

from agentlab.analysis.frames import load_runs, load_steps
from agentlab.environments.base import load_suite
from agentlab.errors import StoreError
from agentlab.notebooks import execute_notebook
from agentlab.report.follow import follow, look_at
from agentlab.report.page import write_report
from agentlab.runner import build, run_one
from agentlab.runner.experiment import run_experiment
from agentlab.runner.progress import PercentLines
from agentlab.runner.spec import Experiment, load_experiment
from agentlab.tools import tool_from_function

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SPEC = """name: changed
suites: [toy]
strategies: [tool_loop]
models: ["simulated:perfect"]
repeats: 1
temperature: 0.5
"""
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}]}


def executed(path: Path, out: Path) -> int:
    return run_experiment(load_experiment(path), out=out, is_quiet=True).executed


def test_e15_a_changed_factor_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    n_tasks = executed(path, tmp_path / "out")
    path.write_text("\n".join(reversed(SPEC.splitlines())))
    assert executed(path, tmp_path / "out") == 0
    path.write_text(SPEC.replace("0.5", "0.6"))
    assert executed(path, tmp_path / "out") == n_tasks
    monkeypatch.setattr(build, "prompt_hash", lambda names, language: "one character more")
    assert executed(path, tmp_path / "out") == n_tasks
    runs = load_runs(tmp_path / "out")
    assert len(runs) == 3 * n_tasks
    assert runs.groupby(["temperature", "prompt_hash"]).size().tolist() == [n_tasks] * 3


def test_a_full_disk_loses_no_finished_run_and_says_so(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("repeats: 1", "repeats: 10"))
    code = (
        "import resource, sys; from agentlab.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); main()"
    )
    command = [sys.executable, "-c", code, "run", str(spec), "--out", str(tmp_path / "out"), "--quiet"]
    full = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert full.returncode == 2
    assert "could not be used" in full.stderr
    assert "Traceback" not in full.stderr
    before = set(load_runs(tmp_path / "out").query("state == 'finished'")["run_id"])
    run_experiment(load_experiment(spec), out=tmp_path / "out", is_quiet=True)
    runs = load_runs(tmp_path / "out")
    assert (runs["state"] == "finished").all()
    assert before <= set(runs["run_id"])
    assert (runs.loc[runs["run_id"].isin(before), "attempt"] == 0).all()


def test_a_database_that_is_locked_by_somebody_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from agentlab import store_connection

    run_experiment(Experiment.model_validate(AN_EXPERIMENT), out=tmp_path, is_quiet=True)
    monkeypatch.setattr(store_connection, "BUSY_TIMEOUT_S", 0.1)
    holder = sqlite3.connect(tmp_path / "agentlab.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="locked"):
        run_experiment(Experiment.model_validate(AN_EXPERIMENT), out=tmp_path, is_quiet=True)
    holder.close()


AN_EXPERIMENT: dict[str, Any] = {
    "name": "e", "suites": ["toy"], "strategies": ["tool_loop"], "models": ["simulated:perfect"], "repeats": 1,
}  # fmt: skip


def test_a_clock_that_jumps_back_makes_no_negative_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Jumping(datetime.datetime):
        times = iter(range(10**6, 0, -1))

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Jumping":
            return cls.fromtimestamp(1_700_000_000 + next(cls.times), tz)

    jumping = SimpleNamespace(datetime=Jumping, timedelta=datetime.timedelta, UTC=datetime.UTC)
    monkeypatch.setattr(run_one, "datetime", jumping)
    run_experiment(Experiment.model_validate(AN_EXPERIMENT), out=tmp_path, is_quiet=True)
    runs = load_runs(tmp_path)
    assert (runs["ended_at"] >= runs["started_at"]).all()
    assert (runs[["wall_s", "work_s", "model_s", "tool_s"]] >= 0).all().all()


def test_progress_without_a_terminal_is_one_line_a_percent() -> None:
    stream = StringIO()
    with PercentLines(5000, "night", stream) as progress:
        for _ in range(5000):
            progress.advance()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 100
    assert lines[0] == "night: 1 % (50/5000 runs)"
    assert lines[-1] == "night: 100 % (5000/5000 runs)"


def test_a_planted_key_is_found_nowhere(endpoint: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = os.environ["LLM_API_KEY"]
    echo = {"error": {"message": f"the key {key} may not do this", "type": "server_error", "code": 500}}
    said = {"choices": [{"message": {"role": "assistant", "content": f"my key is {key}"}, "finish_reason": "stop"}]}
    endpoint.script([{"status": 500, "body": echo}, {"body": said}, {"status": 401, "body": echo}, {"body": ANSWER}])
    out = tmp_path / "out"
    spec = tmp_path / "spec.yaml"
    # One run at a time, so that the first run gets the replies that hold the key.
    spec.write_text(SPEC.replace("simulated:perfect", "openai:m") + "concurrency: 1\n")
    shown = subprocess.run(
        [sys.executable, "-m", "agentlab", "run", str(spec), "--out", str(out)],
        capture_output=True, text=True, env=dict(os.environ), timeout=100, check=False,
    )  # fmt: skip
    assert shown.returncode == 0
    write_report(out)
    executed_copy = out / "10.ipynb"
    execute_notebook(
        ROOT / "notebooks/10_run_experiment.ipynb", executed_copy, {"experiment": str(spec), "output": str(out)}
    )
    traced = subprocess.run(
        [sys.executable, "-m", "agentlab", "trace", str(out), load_runs(out)["run_id"].iloc[0], "--events"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "***" in traced.stdout
    for text in (shown.stdout, shown.stderr, traced.stdout, traced.stderr):
        assert key not in text
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        assert key.encode() not in path.read_bytes(), path.name


def test_a_running_experiment_is_followed_from_elsewhere_and_not_stopped(tmp_path: Path) -> None:
    stall = (
        SPEC.replace("changed", "stall")
        .replace("[toy]", "[stalling]")
        .replace("repeats: 1", "repeats: 3\nconcurrency: 1")
    )
    (tmp_path / "spec.yaml").write_text(stall)
    command = [
        sys.executable,
        str(HERE / "stalling.py"),
        "run",
        str(tmp_path / "spec.yaml"),
        "--out",
        str(tmp_path / "out"),
    ]
    variables = {**os.environ, "STALL_FOLDER": str(tmp_path), "STALL_AT": "4"}
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "stalled").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        seen = follow(tmp_path / "out", interval_s=0.05, timeout_s=0.3)
        assert seen.counts == {"planned": 2, "running": 1, "finished": 3, "interrupted": 0}
        watcher = subprocess.Popen(
            [sys.executable, "-m", "agentlab", "status", str(tmp_path / "out"), "--watch"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(1.0)
        watcher.kill()
        watcher.wait()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    rest = follow(tmp_path / "out", interval_s=0.05)
    assert rest.is_at_rest
    assert rest.counts["interrupted"] == 1
    assert "3 of 6 runs finished" in look_at(tmp_path / "out")._repr_html_()


DIRTY = "ok\x00tail\x1b[31m\ud800"


def test_a31_control_characters_survive_request_store_and_notebook(endpoint: ChatServer, tmp_path: Path) -> None:
    from agentlab.report.run_report import run_report
    from agentlab.runner.try_one import try_task
    from agentlab.trace import pack, unpack

    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "write_note", "arguments": '{"name": "n", "text": "t"}'},
    }
    choice = {"message": {"role": "assistant", "content": "look", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    endpoint.script([{"body": {"choices": [choice]}}, {"body": ANSWER}])

    def dirty(name: str, text: str) -> dict[str, str]:
        """Write a note."""
        return {"note": DIRTY}

    suite = load_suite("toy")
    environment = suite.make_environment({})
    environment.tools = lambda: (tool_from_function(dirty, name="write_note"),)  # type: ignore[method-assign]
    held = dataclasses.replace(suite, make_environment=lambda settings: environment)
    result, _ = asyncio.run(try_task(suite.tasks[0].id, suite=held, model="openai:m"))
    sent = endpoint.bodies()[1]["messages"][-1]["content"]
    assert "ok\u2400tail\u241b[31m\ufffd" in sent
    restored = unpack("r", pack(result.events))
    assert "tail\u241b[31m\ufffd" in run_report(restored).text("zh")
    run_report(restored).text("en").encode("utf-8")


@pytest.mark.parametrize("error", ["sys.exit(2)", "raise Odd", "threading.Event().wait()"])
def test_e01_e02_one_bad_run_does_not_touch_the_next(tmp_path: Path, error: str) -> None:
    """Six runs in one process; the tool of the third exits, raises something odd, or hangs."""
    code = f"""
import sys, threading, time
sys.path.insert(0, {str(HERE)!r})
import stalling
from agentlab.tools import tool
class Odd(BaseException): ...
def check_one(self):
    "Check one."
    if self.count() == 3:
        {error}
    return stalling.ToolResult(True, True, "one")
stalling.Stalling.check_one = tool(timeout_s=0.2, max_retries=0)(check_one)
from agentlab import run_experiment
from agentlab.runner.spec import load_experiment
print(run_experiment(load_experiment(sys.argv[1]), out=sys.argv[2], is_quiet=True))
"""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("[toy]", "[stalling]").replace("repeats: 1", "repeats: 3\nconcurrency: 1"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(spec), str(tmp_path / "out")],
        capture_output=True, text=True, env={**os.environ, "STALL_FOLDER": str(tmp_path)}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "6 runs executed" in done.stdout
    runs = load_runs(tmp_path / "out")
    assert runs["end_reason"].tolist() == ["answered"] * 6
    steps = load_steps(tmp_path / "out")
    failed = steps[~steps["success"]]
    assert failed["run_id"].nunique() == 1
    assert set(failed["error_kind"]) <= {"tool_failed", "timed_out"}


def test_e11_a_plain_call_works_in_a_notebook_cell(tmp_path: Path) -> None:
    import nbformat

    made = nbformat.v4.new_notebook()
    source = (
        "from agentlab import run_experiment\nfrom agentlab.runner.spec import Experiment\n"
        f"run_experiment(Experiment.model_validate({AN_EXPERIMENT!r}), out={str(tmp_path / 'out')!r})"
    )
    made.cells = [
        nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(source),
    ]
    (tmp_path / "n.ipynb").write_text(nbformat.writes(made))
    shown = execute_notebook(tmp_path / "n.ipynb", tmp_path / "o.ipynb").read_text()
    assert "never awaited" not in shown
    assert "<th>planned</th>" in shown
    assert len(load_runs(tmp_path / "out")) > 0
