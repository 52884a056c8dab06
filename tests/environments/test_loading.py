import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.loading import load_suites, locate
from agentlab.environments.proofs import prove_suite
from agentlab.environments.starter import write_suite
from agentlab.errors import AgentLabError, ConfigError, TaskError
from agentlab.records import JsonObject
from agentlab.runner.build import ModelPool, PlannedRun, plan_runs
from agentlab.runner.spec import Experiment, load_experiment


@pytest.fixture
def suite_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path / "mine")
    return tmp_path / "mine"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("name", ["orders", "toy"])
def test_registered_names_load_with_their_source(name: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert suite.folder is not None
    assert (suite.folder.name, len(suite.source_digest)) == (name, 12)


@pytest.mark.parametrize("name", ["mine", "./mine", "mine/", "mine/suite.py", "{absolute}"])
def test_a_folder_loads_under_every_way_to_write_it(suite_folder: Path, name: str) -> None:
    before = list(sys.path)
    suite = load_suite(name.format(absolute=suite_folder))
    assert (suite.name, len(suite.tasks), suite.folder) == ("mine", 3, suite_folder.resolve())
    assert prove_suite(suite) == []
    assert sys.path == before
    assert sorted(path.name for path in suite_folder.iterdir() if path.is_dir()) == []


def test_a_folder_loads_twice_in_one_process(suite_folder: Path) -> None:
    first, second = load_suite("./mine"), load_suite("./mine")
    assert first == second
    assert first.make_environment is second.make_environment


def test_two_folders_with_the_same_file_names_do_not_collide(suite_folder: Path) -> None:
    write_suite(Path("other"))
    edit(Path("other/environment.py"), 'version = "1"', 'version = "other"')
    mine, other = load_suites(["./mine", "./other"])
    assert [mine.make_environment({}).version, other.make_environment({}).version] == ["1", "other"]


def test_an_edit_is_seen_by_the_next_load(suite_folder: Path) -> None:
    old = load_suite("./mine")
    edit(suite_folder / "environment.py", 'version = "1"', 'version = "2"')
    new = load_suite("./mine")
    assert [suite.make_environment({}).version for suite in (old, new)] == ["1", "2"]
    assert old.source_digest != new.source_digest


def test_a_module_loads_and_sys_path_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    write_suite(tmp_path / "a_package_of_mine" / "checks")
    before = list(sys.path)
    suite = load_suite("a_package_of_mine.checks.suite")
    assert (suite.name, suite.folder) == ("checks", (tmp_path / "a_package_of_mine" / "checks").resolve())
    assert sys.path == before
    assert load_suite("agentlab.environments.template.suite").name == "feature_flags"


def test_a_folder_beside_the_experiment_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "checks", tmp_path / "deep" / "checks", tmp_path / "only_here"):
        write_suite(place)
    spec = tmp_path / "deep" / "e.yaml"
    spec.write_text(
        "name: e\nsuites: [./checks, ./only_here, orders]\nstrategies: [react]\nmodels: ['simulated:perfect']\n"
    )
    experiment = load_experiment("deep/e.yaml")
    assert experiment.suites == ("deep/checks", "./only_here", "orders")
    assert [suite.name for suite in load_suites(experiment.suites)] == ["checks", "only_here", "orders"]
    assert locate("checks", tmp_path / "elsewhere") == "./checks"


def test_a_registered_name_wins_over_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    assert locate("orders", tmp_path) == "orders"
    assert load_suite("orders").name == "orders"


Fault = Callable[[Path], object]
FAULTS: list[tuple[str, Fault, str]] = [
    (
        "no suite.py",
        lambda f: (f / "suite.py").unlink(),
        "mine has no suite.py. Expected: `def load_suite()",
    ),
    (
        "no load_suite",
        lambda f: edit(f / "suite.py", "def load_suite", "def load_them"),
        "mine/suite.py has no function load_suite(). It defines load_them. Expected:",
    ),
    (
        "import of nothing",
        lambda f: edit(f / "environment.py", "import copy", "import copy\nimport not_there"),
        "mine/environment.py, line 9 (`import not_there`): ModuleNotFoundError: No module named 'not_there'. Is its",
    ),
    (
        "import without a dot",
        lambda f: edit(f / "suite.py", "from .environment", "from environment"),
        "mine/suite.py, line 8 (`from environment import FlagEnvironment`): ModuleNotFoundError: No module named "
        "'environment'. Write `from .environment import ...`",
    ),
    (
        "syntax",
        lambda f: edit(f / "suite.py", "return Suite(", "return Suite(("),
        "mine/suite.py, line 13 (`return Suite((`): SyntaxError: '(' was never closed",
    ),
    (
        "raises",
        lambda f: edit(f / "suite.py", "    return Suite(", "    {}['a']\n    return Suite("),
        "mine/suite.py, line 13 (`{}['a']`): KeyError: 'a'",
    ),
    (
        "exits",
        lambda f: edit(f / "suite.py", "from pathlib", "raise SystemExit(3)\nfrom pathlib"),
        "mine/suite.py, line 3 (`raise SystemExit(3)`): SystemExit: 3",
    ),
    (
        "something else returned",
        lambda f: edit(f / "suite.py", "return Suite(", "return dict("),
        "mine/suite.py: load_suite() returns dict, expected an agentlab.environments.base.Suite",
    ),
    (
        "a built-in name",
        lambda f: edit(f / "suite.py", 'name="mine"', 'name="orders"'),
        "mine/suite.py: 'orders' is the name of a built-in suite; choose another name",
    ),
    (
        "a name with a space",
        lambda f: edit(f / "suite.py", 'name="mine"', 'name="my suite"'),
        "'my suite' cannot",
    ),
    ("no tasks", lambda f: (f / "tasks.jsonl").write_text(""), "mine/suite.py: the suite has no tasks"),
    (
        "tasks of another kind",
        lambda f: edit(f / "suite.py", "tuple(load_tasks(", "tuple(str(t) for t in load_tasks("),
        "mine/suite.py: tasks must be a tuple of agentlab.tasks.Task",
    ),
    ("no environment", lambda f: edit(f / "suite.py", "FlagEnvironment,\n", "None,\n"), "make_environment must be"),
]


@pytest.mark.parametrize(("fault", "words"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_what_is_wrong_with_a_folder_is_said_with_its_place(suite_folder: Path, fault: Fault, words: str) -> None:
    fault(suite_folder)
    with pytest.raises(ConfigError) as caught:
        load_suite("./mine")
    assert words in str(caught.value)


def test_a_bad_task_names_file_line_and_field(suite_folder: Path) -> None:
    edit(suite_folder / "tasks.jsonl", '"zh": "开关有负责人。", ', "")
    with pytest.raises(TaskError) as caught:
        load_suite("./mine")
    lines = str(caught.value).split("\n")
    assert lines[1] == "mine/tasks.jsonl, line 2: criteria.1.description.zh is missing (the Chinese text)."
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ordrs", "Did you mean 'orders'? Valid: orders, "),
        ("./nowhere", "There is no suite folder nowhere. Expected: `def load_suite() -> Suite`"),
        ("not_a_package.suite", "not_a_package is not found in the working directory or among the installed packages"),
        ("agentlab.not_here", "agentlab.not_here is not found"),
        ("agentlab.errors", "errors.py has no function load_suite()"),
    ],
)
def test_a_name_that_stands_for_nothing_says_what_is_valid(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_suite(name)
    assert words in str(caught.value)


def test_a_module_that_fails_names_its_own_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failing_package").mkdir()
    (tmp_path / "failing_package" / "__init__.py").write_text("1 / 0\n")
    (tmp_path / "failing_package" / "suite.py").touch()
    with pytest.raises(ConfigError, match=r"__init__\.py, line 1 \(`1 / 0`\): ZeroDivisionError"):
        load_suite("failing_package.suite")


def test_the_experiment_file_and_line_of_a_missing_folder_are_named(tmp_path: Path) -> None:
    spec = tmp_path / "e.yaml"
    spec.write_text("name: e\nsuites:\n  - orders\n  - ./gone\nstrategies: [react]\nmodels: ['simulated:perfect']\n")
    with pytest.raises(ConfigError, match=r"e\.yaml, line 4: There is no suite folder \./gone \(looked for"):
        load_experiment(spec)


def test_two_suites_of_one_name_are_refused(suite_folder: Path) -> None:
    shutil.copytree(suite_folder, "copy")
    with pytest.raises(ConfigError, match=r"\./mine and \./copy are both the suite 'mine'"):
        load_suites(["./mine", "./copy"])
    with pytest.raises(ConfigError, match="orders and orders are both"):
        load_suites(["orders", "orders"])


def planned(**changes: object) -> list[PlannedRun]:
    fields: JsonObject = {
        "name": "e", "suites": ["./mine"], "strategies": ["react"], "models": ["simulated:perfect"], "repeats": 1,
    }  # fmt: skip
    return plan_runs(Experiment.model_validate(fields | changes), ModelPool())


def test_what_identifies_a_run_of_a_suite(suite_folder: Path) -> None:
    first = planned()
    assert {run.row["suite"] for run in first} == {"mine"}
    assert {run.row["suite_digest"] for run in first} == {load_suite("./mine").source_digest}
    assert load_suite("./mine").source_digest not in str(first[0].factors)

    environment = suite_folder / "environment.py"
    edit(environment, "import copy", "import copy  # a remark")
    remarked = planned()
    assert [run.run_id for run in remarked] == [run.run_id for run in first]
    assert remarked[0].row["suite_digest"] != first[0].row["suite_digest"]

    edit(environment, 'version = "1"', 'version = "2"')
    versioned = planned()
    edit(environment, "Check whether a flag has an owner.", "Check whether a flag has got an owner.")
    described = planned()
    edit(suite_folder / "tasks.jsonl", '"rollout_percent": 250', '"rollout_percent": 300')
    retasked = planned()
    ids = [{run.run_id for run in runs} for runs in (first, versioned, described)]
    assert len(set.union(*ids)) == 9
    assert len({run.run_id for run in retasked} & ids[2]) == 2


def test_errors_of_a_suite_are_errors_of_agentlab(suite_folder: Path) -> None:
    edit(suite_folder / "suite.py", "from pathlib", "raise ValueError('no')\nfrom pathlib")
    with pytest.raises(AgentLabError):
        planned()
