import json
from pathlib import Path

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.starter import FILES, TEMPLATE, TEMPLATE_NAME, write_suite
from agentlab.environments.suite_check import check_suite
from agentlab.errors import ConfigError
from agentlab.runner.spec import load_experiment


def test_the_written_suite_is_sound_and_bears_the_folders_name(tmp_path: Path) -> None:
    folder = tmp_path / "Price-Checks 2"
    written = write_suite(folder)
    assert [path.name for path in written] == list(FILES)
    assert all(TEMPLATE_NAME not in path.read_text(encoding="utf-8") for path in written)
    checked = check_suite(str(folder))
    assert checked.suite is not None
    assert (checked.suite.name, checked.problems, checked.n_tools) == ("price_checks_2", (), 3)
    assert [task.true_verdict for task in checked.suite.tasks] == ["passed", "failed", "incomplete"]


def test_its_experiment_compares_two_strategies_on_it(tmp_path: Path) -> None:
    write_suite(tmp_path / "mine")
    experiment = load_experiment(tmp_path / "mine" / "experiment.yaml")
    assert experiment.name == "mine"
    assert [entry.name for entry in experiment.strategies] == ["tool_loop", "react"]
    assert experiment.models == ("simulated:careless",)
    assert load_suite(experiment.suites[0]).name == "mine"


def test_every_file_of_the_template_is_written() -> None:
    kept = {path.name for path in TEMPLATE.iterdir() if path.name != "__pycache__"}
    assert kept == set(FILES)


def test_the_tasks_can_be_read_by_a_person() -> None:
    lines = (TEMPLATE / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert all(next(iter(json.loads(line))) == "id" for line in lines)
    assert "灰度比例" in lines[0]


@pytest.mark.parametrize("content", ["kept.txt", ".hidden"])
def test_a_folder_with_anything_in_it_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / content).write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        write_suite(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [content]


def test_an_empty_folder_is_used_and_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert write_suite(tmp_path / "empty")
    with pytest.raises(ConfigError, match="cannot be written"):
        write_suite(tmp_path / "empty" / "suite.py")


@pytest.mark.parametrize(("folder", "name"), [("我的检查", "my_suite"), ("v2", "v2"), ("--x--", "x")])
def test_folder_names_that_are_no_suite_names(tmp_path: Path, folder: str, name: str) -> None:
    write_suite(tmp_path / folder)
    assert load_suite(str(tmp_path / folder)).name == name


def test_the_name_of_a_built_in_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'orders' is the name of a built-in suite"):
        write_suite(tmp_path / "orders")
    assert not (tmp_path / "orders").exists()
