"""A suite of the user's own on the command line, in real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentlab.analysis.frames import load_runs
from agentlab.environments.starter import write_suite

ROOT = Path(__file__).parents[2]


def agentlab(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-m", "agentlab", *arguments],
        capture_output=True, encoding="utf-8", cwd=folder, env=clean, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suites")
    done = agentlab(folder, "init", "suite", "my_checks")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "Next: agentlab check suite my_checks"
    return folder


def test_what_init_writes_passes_the_check(written: Path) -> None:
    done = agentlab(written, "check", "suite", "my_checks")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(
        "Suite my_checks in my_checks: 3 tasks (1 healthy, 2 with a defect) in 1 flow, 3 tools\n"
    )


def test_init_refuses_a_folder_with_content(written: Path) -> None:
    (written / "full").mkdir()
    (written / "full" / "kept").touch()
    done = agentlab(written, "init", "suite", "full")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "agentlab: full is not empty, and nothing in it may be overwritten. Name a new folder."
    )


def test_a_broken_suite_is_exit_code_1_with_words_and_no_traceback(tmp_path: Path) -> None:
    write_suite(tmp_path / "broken")
    suite = tmp_path / "broken" / "suite.py"
    suite.write_text(suite.read_text(encoding="utf-8") + "\nimport not_there\n", encoding="utf-8")
    done = agentlab(tmp_path, "check", "suite", "broken")
    assert (done.returncode, done.stderr) == (1, "")
    assert "1. broken/suite.py, line" in done.stdout
    assert "(`import not_there`): ModuleNotFoundError: No module named 'not_there'." in done.stdout
    run = agentlab(tmp_path, "run", "broken/experiment.yaml")
    assert run.returncode == 2
    assert run.stderr.startswith("agentlab: broken/suite.py, line")
    assert "Traceback" not in run.stderr


def test_check_of_a_name_that_does_not_exist(tmp_path: Path) -> None:
    done = agentlab(tmp_path, "check", "suite", "ordrs")
    assert done.returncode == 1
    assert "Did you mean 'orders'?" in done.stdout


def test_list_takes_a_folder(written: Path) -> None:
    tasks = agentlab(written, "list", "tasks", "--suite", "./my_checks", "--lang", "zh").stdout.splitlines()
    assert [line.split()[0] for line in tasks] == [
        "dark-mode",
        "dark-mode--rollout-too-large",
        "dark-mode--missing-flag",
    ]
    assert "检查功能开关 dark-mode" in tasks[0]
    assert (
        "Feature flag checks (3 tasks in 1 flow" in agentlab(written, "list", "suites", "--suite", "my_checks").stdout
    )


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        ("dark-mode", "clean"),
        ("dark-mode--rollout-too-large", "found"),
        ("dark-mode--missing-flag", "incomplete_right"),
    ],
)
def test_try_takes_a_folder(written: Path, task: str, outcome: str) -> None:
    done = agentlab(written, "try", task, "--suite", "./my_checks", "--strategy", "react", "--lang", "zh")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"task {task} ")
    assert done.stdout.splitlines()[-1].endswith(f"success 1   outcome {outcome}")


def test_the_written_experiment_runs_from_anywhere_and_continues(written: Path) -> None:
    elsewhere = written / "elsewhere"
    elsewhere.mkdir()
    done = agentlab(elsewhere, "run", "../my_checks/experiment.yaml", "--quiet", "--repeats", "2")
    assert done.returncode == 0, done.stderr
    assert "12 runs executed, 0 were there before" in done.stdout
    out = str(elsewhere / "results" / "my_checks")
    from_the_folder = agentlab(
        written / "my_checks", "run", "experiment.yaml", "--quiet", "--repeats", "2", "--out", out
    )
    assert "0 runs executed, 12 were there before" in from_the_folder.stdout
    runs = load_runs(elsewhere / "results" / "my_checks")
    assert set(runs["suite"]) == {"my_checks"}
    assert set(runs["strategy"]) == {"tool_loop", "react"}
    assert runs["suite_digest"].nunique() == 1
    assert runs["suite_digest"].str.fullmatch("[0-9a-f]{12}").all()
    assert set(runs["end_reason"]) == {"answered"}


def test_an_edit_is_picked_up_by_the_next_process(tmp_path: Path) -> None:
    write_suite(tmp_path / "mine")
    file = tmp_path / "mine" / "environment.py"
    shown = []
    for percent in ("25", "35"):
        file.write_text(
            file.read_text(encoding="utf-8").replace('"rollout_percent": 25', f'"rollout_percent": {percent}')
        )
        shown.append(agentlab(tmp_path, "try", "dark-mode", "--suite", "./mine").stdout)
    assert ["its rollout is 25 percent" in shown[0], "its rollout is 35 percent" in shown[1]] == [True, True]


def test_a_module_of_the_working_directory_needs_no_installation(tmp_path: Path) -> None:
    write_suite(tmp_path / "my_package" / "flags")
    script = Path(sys.executable).with_name("agentlab")
    done = subprocess.run(
        [script, "check", "suite", "my_package.flags.suite"], capture_output=True, text=True, cwd=tmp_path, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Suite flags in my_package/flags: 3 tasks")


def test_help_says_what_the_commands_are_for(tmp_path: Path) -> None:
    assert "Write a small working suite" in agentlab(tmp_path, "init", "suite", "--help").stdout
    assert "exit code 1" in agentlab(tmp_path, "check", "suite", "--help").stdout


def test_the_next_command_can_be_copied_as_it_stands(tmp_path: Path) -> None:
    shown = agentlab(tmp_path, "init", "suite", "my checks").stdout.split("\n")
    assert shown[-2] == "Next: agentlab check suite 'my checks'"


def test_try_says_why_a_run_could_not_begin(tmp_path: Path) -> None:
    agentlab(tmp_path, "init", "suite", "mine")
    file = tmp_path / "mine" / "environment.py"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("starting_state(task, BASE)", "starting_state(task, BASES)"), encoding="utf-8")
    done = agentlab(tmp_path, "try", "dark-mode", "--suite", "./mine")
    assert "NameError: name 'BASES' is not defined" in done.stdout
    assert "StopIteration" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
