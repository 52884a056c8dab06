import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agentlab.analysis.frames import load_calls, load_runs, load_steps
from agentlab.errors import ConfigError, StoreError, WrongExperiment
from agentlab.runner import experiment as experiment_module
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import Experiment
from agentlab.store import Store

HERE = Path(__file__).parent


def an_experiment(**fields: Any) -> Experiment:
    defaults = {
        "name": "e",
        "suites": ["orders"],
        "strategies": ["tool_loop", "react"],
        "models": ["simulated:perfect"],
    }
    return Experiment.model_validate({**defaults, "tasks": ORDERS, "repeats": 2, "temperature": 0.7, **fields})


ORDERS = ["order-1001", "order-1002"]


@pytest.fixture(scope="module", autouse=True)
def _task_ids() -> None:
    """Two tasks of the orders suite, whatever they are called."""
    from agentlab.environments.base import load_suite

    canonical = {task.subject: task.id for task in load_suite("orders").tasks if task.canonical}
    ORDERS[:] = [canonical["ORDER1001"], canonical["ORDER1002"]]


def test_the_grid_is_run_once_and_repeats_can_be_added(tmp_path: Path) -> None:
    first = run_experiment(an_experiment(), out=tmp_path, is_quiet=True)
    assert (first.planned, first.executed, first.already_done) == (8, 8, 0)
    again = run_experiment(an_experiment(), out=tmp_path, is_quiet=True)
    assert (again.executed, again.already_done) == (0, 8)
    more = run_experiment(an_experiment(), out=tmp_path, repeats=3, is_quiet=True)
    assert (more.planned, more.executed) == (12, 4)
    runs = load_runs(tmp_path)
    assert list(runs.groupby(["strategy", "task_id"])["repeat"].size()) == [3, 3, 3, 3]
    assert runs["success"].tolist() == [1] * 12
    assert set(runs["outcome"]) == {"clean", "found"}


def test_runs_are_paired_and_interleaved(tmp_path: Path) -> None:
    run_experiment(an_experiment(), out=tmp_path, is_quiet=True)
    runs = load_runs(tmp_path)
    assert (runs.groupby(["task_id", "repeat"])["seed"].nunique() == 1).all()
    assert runs["strategy"].tolist() == ["tool_loop", "react"] * 4
    assert runs["repeat"].tolist() == [0] * 4 + [1] * 4


def test_frames_are_typed_and_agree(tmp_path: Path) -> None:
    run_experiment(an_experiment(), out=tmp_path, is_quiet=True)
    runs, steps, calls = load_runs(tmp_path), load_steps(tmp_path), load_calls(tmp_path)
    assert runs["cost_usd"].isna().all()
    assert str(runs["started_at"].dtype) == "datetime64[us, UTC]"
    assert (runs["ended_at"] >= runs["started_at"]).all()
    by_run = steps.groupby("run_id").size()
    assert runs.set_index("run_id")["n_tool_calls"].sort_index().tolist() == by_run.sort_index().tolist()
    assert calls["output_tokens"].sum() == runs["output_tokens"].sum()
    assert set(runs["usage_source"]) == {"simulated"}


def test_another_experiment_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    run_experiment(an_experiment(), out=tmp_path, is_quiet=True)
    with pytest.raises(WrongExperiment):
        run_experiment(an_experiment(seed=1), out=tmp_path, is_quiet=True)
    with pytest.raises(WrongExperiment):
        run_experiment(an_experiment(name="f"), out=tmp_path, is_quiet=True)
    assert len(load_runs(tmp_path)) == 8


@pytest.mark.parametrize(
    ("field", "value", "valid"),
    [
        ("suites", ["ordres"], "orders"),
        ("strategies", ["raect"], "react"),
        ("strategies", [{"name": "react", "parameters": {"rounds": 3}}], "max_rounds"),
        ("models", ["opnai:x"], "openai"),
        ("models", ["simulated:perfct"], "perfect"),
        ("tasks", ["nothing"], "order"),
    ],
)
def test_unknown_names_list_the_valid_ones(tmp_path: Path, field: str, value: Any, valid: str) -> None:
    with pytest.raises(ConfigError, match=valid):
        run_experiment(an_experiment(**{field: value}), out=tmp_path, is_quiet=True)


def test_e11_it_works_inside_a_running_loop(tmp_path: Path) -> None:
    async def main() -> int:
        return run_experiment(an_experiment(), out=tmp_path, is_quiet=True).executed

    assert asyncio.run(main()) == 8

    async def failing() -> None:
        run_experiment(an_experiment(models=["nobody:x"]), out=tmp_path, is_quiet=True)

    with pytest.raises(ConfigError):
        asyncio.run(failing())


SPEC = """
name: stall
suites: [stalling]
strategies: [tool_loop, react]
models: ["simulated:perfect"]
repeats: 3
temperature: 0.7
concurrency: 1
"""


def stalling(tmp_path: Path, **environment: str) -> "subprocess.Popen[str]":
    (tmp_path / "spec.yaml").write_text(SPEC)
    command = [
        sys.executable,
        str(HERE / "stalling.py"),
        "run",
        str(tmp_path / "spec.yaml"),
        "--out",
        str(tmp_path / "out"),
    ]
    variables = {**os.environ, "STALL_FOLDER": str(tmp_path), **environment}
    return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


def test_e08_killed_in_the_middle_then_resumed(tmp_path: Path) -> None:
    process = stalling(tmp_path, STALL_AT="5")
    wait_for(tmp_path / "stalled")
    process.kill()
    process.communicate()
    before = load_runs(tmp_path / "out").query("state == 'finished'").set_index("run_id")
    assert len(before) == 4

    output, errors = stalling(tmp_path).communicate(timeout=60)
    assert "8 runs executed, 4 were there before, of 12 planned" in output, errors
    runs = load_runs(tmp_path / "out")
    assert (runs["state"] == "finished").all()
    assert len(runs.drop_duplicates(["strategy", "task_id", "repeat"])) == len(runs) == 12
    after = runs.set_index("run_id").loc[before.index]
    assert (after["started_at"] == before["started_at"]).all()
    assert (after["attempt"] == 0).all()
    everything = load_runs(tmp_path / "out", attempts="all")
    interrupted = everything[everything["state"] == "interrupted"]
    assert len(interrupted) == 1
    assert interrupted["known_tokens"].isna().all()
    assert (tmp_path / "starts").read_text() == "x" * 13

    output, _ = stalling(tmp_path).communicate(timeout=60)
    assert "0 runs executed, 12 were there before" in output
    assert load_runs(tmp_path / "out", attempts="all").equals(everything)


def test_e02_ctrl_c_out_of_a_tool_stops_the_experiment(tmp_path: Path) -> None:
    process = stalling(tmp_path, INTERRUPT_AT="3")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command continues" in errors
    states = load_runs(tmp_path / "out")["state"].tolist()
    assert states == ["finished"] * 2 + ["interrupted"] + ["planned"] * 9
    resumed = stalling(tmp_path)
    resumed.communicate(timeout=60)
    assert resumed.returncode == 0
    assert (load_runs(tmp_path / "out")["state"] == "finished").all()


def test_ctrl_c_of_the_terminal_stops_cleanly(tmp_path: Path) -> None:
    process = stalling(tmp_path, STALL_AT="5")
    wait_for(tmp_path / "stalled")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    states = load_runs(tmp_path / "out")["state"].tolist()
    assert states == ["finished"] * 4 + ["interrupted"] + ["planned"] * 7


def test_kill_at_random_moments_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """SIGKILL three times at random moments of the real command line, then once to the end."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("stalling", "orders").replace("concurrency: 1", "concurrency: 4"))
    command = [sys.executable, "-m", "agentlab", "run", str(spec), "--out", str(tmp_path / "out"), "--quiet"]
    finished: set[str] = set()
    draw = random.Random(20261130)
    for round_number in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        target = len(finished) + draw.randint(1, 60)
        while process.poll() is None and len(_finished(tmp_path / "out")) < target:
            time.sleep(0.01)
        process.kill()
        process.wait()
        now = _finished(tmp_path / "out")
        assert finished <= now, f"kill {round_number} lost finished runs"
        finished = now
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0
    runs = load_runs(tmp_path / "out")
    assert (runs["state"] == "finished").all()
    assert not runs.duplicated(["strategy", "task_id", "repeat"]).any()
    steps = load_steps(tmp_path / "out", attempts="all")
    assert not steps.duplicated(["run_id", "attempt", "step"]).any()


def _finished(folder: Path) -> set[str]:
    try:
        runs = load_runs(folder, attempts="all")
    except (ConfigError, WrongExperiment):
        return set()
    return set(runs.loc[runs["state"] == "finished", "run_id"])


def test_a_heartbeat_that_fails_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[bool] = []
    is_waiting = threading.Event()
    execute, heartbeat = experiment_module.execute, Store.heartbeat

    def failing(self: Store) -> None:
        if is_waiting.is_set() and len(failed) < 3:
            failed.append(True)
            raise StoreError("away for a moment")
        heartbeat(self)

    async def slow(*arguments: Any) -> Any:
        is_waiting.set()  # nothing else is written from here on, so only heartbeats fail
        deadline = time.monotonic() + 10
        while len(failed) < 3 and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return await execute(*arguments)

    monkeypatch.setattr(experiment_module, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(experiment_module, "execute", slow)
    monkeypatch.setattr(Store, "heartbeat", failing)
    assert run_experiment(an_experiment(repeats=1, concurrency=1), out=tmp_path, is_quiet=True).executed == 4
    assert len(failed) == 3


def test_a_claim_that_waits_while_the_experiment_is_stopped_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_claiming, may_claim = threading.Event(), threading.Event()
    claim = Store.claim

    def late(self: Store, run_id: str, **options: bool) -> int | None:
        is_claiming.set()
        assert may_claim.wait(30)
        return claim(self, run_id, **options)

    async def stop() -> None:
        experiment = an_experiment(concurrency=1)
        work = asyncio.create_task(experiment_module._run_experiment(experiment, str(tmp_path), False, True))
        while not is_claiming.is_set():
            await asyncio.sleep(0.01)
        work.cancel()
        may_claim.set()
        with pytest.raises(asyncio.CancelledError):
            await work

    monkeypatch.setattr(Store, "claim", late)
    asyncio.run(stop())
    store = Store(tmp_path)
    assert [row["state"] for row in store.read("runs")] == ["interrupted"] + ["planned"] * 7
    store.close()
