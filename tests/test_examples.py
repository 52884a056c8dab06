"""The example suites: proven, run, and their systems under test failing in every way that they promise to survive."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentlab.analysis.frames import load_runs
from agentlab.environments.base import load_suite
from agentlab.environments.suite_check import check_suite
from agentlab.errors import ConfigError
from agentlab.records import JsonObject, ToolResult
from agentlab.runner.experiment import run_experiment
from agentlab.runner.run_one import RunResult
from agentlab.runner.spec import Experiment, load_experiment
from agentlab.runner.try_one import try_task
from agentlab.tasks import Defect
from agentlab.tool_execution import execute
from agentlab.tools import find_tool
from agentlab.workers import Workers

EXAMPLES = Path(__file__).parents[1] / "examples"
HTTP = str(EXAMPLES / "http_api_suite")
PYTEST = str(EXAMPLES / "pytest_suite")
OUTCOMES = {"passed": "clean", "failed": "found", "incomplete": "incomplete_right"}


@pytest.mark.parametrize("folder", [HTTP, PYTEST])
def test_an_example_has_no_problem(folder: str) -> None:
    found = check_suite(folder)
    assert found.problems == (), found.text()
    assert [remark for remark in found.remarks if "flows" not in remark] == []


@pytest.mark.parametrize("folder", [HTTP, PYTEST])
def test_the_experiment_of_an_example_can_be_planned(folder: str) -> None:
    experiment = load_experiment(Path(folder) / "experiment.yaml")
    assert load_suite(experiment.suites[0]).name == experiment.name


def attempt(folder: str, task: str) -> RunResult:
    result, _ = asyncio.run(try_task(task, suite=folder))
    return result


@pytest.mark.parametrize("task", load_suite(HTTP).tasks, ids=lambda task: task.id)
def test_every_http_task_can_be_solved(task: Any) -> None:
    result = attempt(HTTP, task.id)
    assert (result.score.success, result.score.outcome) == (1, OUTCOMES[task.true_verdict])


def observations(result: RunResult) -> list[JsonObject]:
    return [json.loads(event.data["observation"]) for event in result.events if event.kind == "tool_call"]


def test_a_503_and_a_time_out_of_the_api_are_observations() -> None:
    refused = attempt(HTTP, "book-room--http-503")
    assert observations(refused)[1]["message"] == "GET /rooms/LION/bookings answered 503."
    hanging = attempt(HTTP, "book-room--no-answer")
    assert observations(hanging)[1]["error_kind"] == "timed_out"
    assert [result.end_reason for result in (refused, hanging)] == ["answered", "answered"]
    tries = [event.data["tries"] for event in hanging.events if event.kind == "tool_call"]
    assert tries == [1, 2]


def test_two_runs_of_one_task_see_the_same(tmp_path: Path) -> None:
    for folder, task in ((HTTP, "book-room"), (HTTP, "book-room--http-503"), (PYTEST, "total--broken-module")):
        assert observations(attempt(folder, task)) == observations(attempt(folder, task))


def experiment(suite: str, **changes: Any) -> Experiment:
    fields: JsonObject = {
        "name": "e", "suites": [suite], "strategies": ["tool_loop"], "models": ["simulated:perfect"], "repeats": 1,
    }  # fmt: skip
    return Experiment.model_validate(fields | changes)


@contextlib.contextmanager
def api() -> Iterator[str]:
    """The demo server as somebody's API: in a process of its own."""
    process = subprocess.Popen([sys.executable, f"{HTTP}/demo_server.py"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_runs_in_parallel_share_an_api_that_runs_already(tmp_path: Path) -> None:
    tasks = ["book-room", "book-room--lost", "room-capacity", "room-capacity--too-small"]
    with api() as base_url:
        environment = {"base_url": base_url, "timeout_s": 20}
        summary = run_experiment(
            experiment(HTTP, tasks=tasks, repeats=3, environment=environment), out=tmp_path, is_quiet=True
        )
    runs = load_runs(tmp_path)
    assert (summary.executed, summary.infrastructure) == (12, 0)
    assert runs["success"].tolist() == [1] * 12


def test_an_api_that_is_not_there_is_infrastructure(tmp_path: Path) -> None:
    with api() as base_url:
        gone = base_url
    run_experiment(
        experiment(HTTP, tasks=["room-capacity"], environment={"base_url": gone}), out=tmp_path, is_quiet=True
    )
    run = load_runs(tmp_path).iloc[0]
    assert run["end_reason"] == "infrastructure"
    assert "Is it running at the base_url of the experiment's environment" in run["error"]


@pytest.mark.parametrize(
    ("folder", "settings", "words"),
    [
        (HTTP, {"base_uri": "http://localhost"}, "Did you mean 'base_url'?"),
        (HTTP, {"base_url": "localhost:8000"}, "base_url must be an address such as http://127.0.0.1:8000"),
        (PYTEST, {"timeout": 3}, "Did you mean 'timeout_s'?"),
    ],
)
def test_a_wrong_setting_is_refused_in_words(folder: str, settings: JsonObject, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_suite(folder).make_environment(settings)
    assert words in str(caught.value)


@pytest.mark.parametrize("task", load_suite(PYTEST).tasks, ids=lambda task: task.id)
def test_every_pytest_task_can_be_solved(task: Any) -> None:
    result = attempt(PYTEST, task.id)
    assert (result.score.success, result.score.outcome) == (1, OUTCOMES[task.true_verdict])


def run_tests(files: dict[str, str], path: str = "tests/test_total.py", **settings: float) -> ToolResult:
    """What the tool says of the example's project with some files changed."""
    suite = load_suite(PYTEST)
    environment: Any = suite.make_environment(settings)
    changed = suite.task("total").model_copy(update={"defects": (Defect(name="x", changes={"files": files}),)})
    environment.reset(changed, 0)
    tool = find_tool(environment.tools(), "run_tests")
    try:
        return asyncio.run(execute(tool, {"path": path}, Workers(), tool.timeout_s))
    finally:
        environment.close()


def test_tests_that_pass_fail_and_are_skipped_are_told_apart() -> None:
    text = """
import pytest
class TestCart:
    def test_right(self): pass
    def test_wrong(self): assert 1 == 2
@pytest.mark.skip(reason="later")
def test_later(): pass
"""
    result = run_tests({"tests/test_total.py": text})
    assert (result.success, result.passed, result.message) == (True, False, "1 passed, 1 failed, 1 skipped.")
    assert result.visible == {
        "test_passes@tests/test_total.py::TestCart::test_right": "passed",
        "test_passes@tests/test_total.py::TestCart::test_wrong": "failed",
    }
    assert result.data["failed"] == {"tests/test_total.py::TestCart::test_wrong": "assert 1 == 2"}
    assert result.data["skipped"] == ["tests/test_total.py::test_later"]


def test_a_file_without_tests_or_with_an_error_is_not_collected() -> None:
    empty = run_tests({"tests/test_total.py": "X = 1\n"})
    assert (empty.success, empty.error_kind, empty.message) == (False, "not_collected", "There are no tests in it.")
    broken = run_tests({"tests/test_total.py": "from cart import nothing\n"})
    assert (broken.passed, broken.error_kind) == (None, "not_collected")
    assert broken.message == "ImportError: cannot import name 'nothing' from 'cart' (cart.py)"
    assert run_tests({}, path="tests/test_gone.py").error_kind == "not_found"


def test_tests_that_do_not_end_are_stopped_with_all_that_they_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    code = f"""
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
pathlib.Path({str(started)!r}).write_text(str(child.pid))
while True: pass
"""
    result = run_tests({"cart.py": code}, timeout_s=3)
    assert (result.success, result.error_kind) == (False, "timed_out")
    assert result.message == "The tests did not end within 3 s; they were stopped."
    with contextlib.suppress(psutil.NoSuchProcess):
        assert psutil.Process(int(started.read_text())).status() == psutil.STATUS_ZOMBIE


def test_the_code_under_test_gets_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-planted-in-a-test")
    text = "import os\ndef test_keys(): assert not [v for v in os.environ.values() if 'sk-planted' in v]\n"
    assert run_tests({"tests/test_total.py": text}).passed is True


def test_folders_of_a_run_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    attempt(PYTEST, "total")
    assert list(tmp_path.iterdir()) == []
