"""Suites whose environment is asynchronous, cannot be made, or has a tool with a taken name: run from the outside."""

import asyncio
from pathlib import Path

import pytest

from agentlab.environments.starter import write_suite
from agentlab.errors import ConfigError
from agentlab.runner.do_goal import do_goal
from agentlab.runner.dry_run import describe
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import load_experiment
from agentlab.store import Store

ASYNC = """
class AsyncEnvironment:
    version = "1"

    def __init__(self, settings):
        self._inner = FlagEnvironment(settings)

    async def reset(self, task, seed):
        self._inner.reset(task, seed)

    async def tools(self):
        return self._inner.tools()

    async def observe(self):
        return self._inner.observe()

    async def facts(self):
        return self._inner.facts()

    async def snapshot(self):
        return self._inner.snapshot()

    async def restore(self, snapshot):
        self._inner.restore(snapshot)

    async def close(self):
        self._inner.close()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path / "mine")
    return tmp_path / "mine"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def make_async(folder: Path) -> None:
    with (folder / "environment.py").open("a", encoding="utf-8") as file:
        file.write("\n" + ASYNC)
    edit(folder / "suite.py", "FlagEnvironment", "AsyncEnvironment")


def test_an_asynchronous_environment_is_planned_and_run_alike(folder: Path, tmp_path: Path) -> None:
    make_async(folder)
    experiment = load_experiment(folder / "experiment.yaml").replaced(repeats=1, models=("simulated:perfect",))
    assert "runs, seed" in describe(experiment)
    run_experiment(experiment, out=str(tmp_path / "out"), is_quiet=True)
    store = Store(tmp_path / "out")
    rows = store.read("runs")
    store.close()
    assert {row["end_reason"] for row in rows} == {"answered"}
    assert {row["success"] for row in rows} == {1}


def test_do_refuses_an_asynchronous_snapshot_before_a_journal_is_begun(folder: Path, tmp_path: Path) -> None:
    make_async(folder)
    with pytest.raises(ConfigError, match=r"snapshot\(\) of the environment of the suite mine is asynchronous"):
        asyncio.run(do_goal("dark-mode", tmp_path / "j.sqlite", suite="./mine"))
    assert not (tmp_path / "j.sqlite").exists()


def test_do_takes_an_environment_whose_other_methods_are_asynchronous(folder: Path, tmp_path: Path) -> None:
    make_async(folder)
    edit(folder / "environment.py", "    async def snapshot(self):\n", "    def snapshot(self):\n")
    done = asyncio.run(do_goal("dark-mode", tmp_path / "j.sqlite", suite="./mine"))
    assert done.result is not None
    assert (done.result.end_reason, done.plan_status) == ("answered", "completed")


def test_an_environment_that_cannot_be_made_is_told_with_suite_cause_and_line(folder: Path) -> None:
    edit(folder / "environment.py", "        if settings:\n", '        settings["url"]\n        if settings:\n')
    with pytest.raises(ConfigError) as caught:
        describe(load_experiment(folder / "experiment.yaml"))
    assert "The environment of the suite mine cannot be made: KeyError: 'url' (mine/environment.py, line" in str(
        caught.value
    )


def test_a_tool_named_submit_is_refused_before_the_first_run(folder: Path) -> None:
    edit(folder / "environment.py", "def check_owner", "def submit")
    with pytest.raises(ConfigError, match="The tool name 'submit' is taken"):
        describe(load_experiment(folder / "experiment.yaml"))
