import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentlab.environments.starter import write_suite
from agentlab.environments.suite_check import SuiteCheck, check_suite


@pytest.fixture
def suite_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_suite(tmp_path / "mine")
    return tmp_path / "mine"


def edit(file: Path, old: str, new: str, count: int = -1) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, count), encoding="utf-8")


def without_docstring(folder: Path) -> None:
    file = folder / "environment.py"
    head, _, rest = file.read_text(encoding="utf-8").partition('"""Check whether a flag has an owner.')
    file.write_text(head + rest.partition('"""')[2], encoding="utf-8")


def facts_fail_after_a_check(folder: Path) -> None:
    edit(folder / ENVIRONMENT, "return self.snapshot()", 'return {"n": 1 / (1 - ("seen" in self._tools.state))}')
    edit(folder / ENVIRONMENT, "        percent = flag", "        self.state['seen'] = True\n        percent = flag")


@pytest.mark.parametrize("name", ["orders", "toy"])
def test_the_built_in_suites_have_no_problem(name: str) -> None:
    found = check_suite(name)
    assert found.problems == ()
    assert "No problem found" in found.text()


def test_what_is_told_of_a_sound_suite(suite_folder: Path) -> None:
    assert check_suite("./mine").text().split("\n") == [
        "Suite mine in mine: 3 tasks (1 healthy, 2 with a defect) in 1 flow, 3 tools",
        "No problem found: the environment keeps its contract, and every task is proven.",
        "Note: a decision between strategies needs at least 10 flows (clusters); this suite has 1.",
    ]


Fault = Callable[[Path], object]
ENVIRONMENT, TASKS = "environment.py", "tasks.jsonl"
FAULTS: list[tuple[str, Fault, str]] = [
    (
        "a tool raises",
        lambda f: edit(f / ENVIRONMENT, 'flag["is_on"] else percent == 0', 'flag["is_onn"] else percent == 0'),
        "mine/tasks.jsonl, line 1 (dark-mode): step 'rollout' (check_rollout) failed: tool_failed: check_rollout "
        "failed: KeyError: 'is_onn'. Mend the tool or the reference, or name this call in required_evidence. It was "
        "raised in mine/environment.py, line # (`passed = 0 <= percent <= 100 if flag[\"is_onn\"] else",
    ),
    (
        "a result that is neither yes nor no",
        lambda f: edit(f / ENVIRONMENT, "bool(flag[\"owner\"])", '"no"'),
        "mine/tasks.jsonl, line 1 (dark-mode): step 'owner' (check_owner) failed: bad_result: check_owner ran, but its "
        "result has passed='no' (str), expected True, False or None.",
    ),
    (
        "a tool named submit",
        lambda f: (edit(f / ENVIRONMENT, "def check_owner", "def submit"), edit(f / TASKS, "check_owner", "submit")),
        "mine/environment.py, line #: The tool name 'submit' is taken: it is the tool with which every model hands in "
        "its answer. Give the suite's tool another name.",
    ),
    (
        "reset raises",
        lambda f: edit(f / ENVIRONMENT, "starting_state(task, BASE)", "starting_state(task, BASES)"),
        "mine/environment.py, line # (`self._tools.state = starting_state(task, BASES)`): reset() for "
        "mine/tasks.jsonl, line 1 (dark-mode) raises NameError: name 'BASES' is not defined.",
    ),
    (
        "the constructor raises",
        lambda f: edit(f / ENVIRONMENT, "        if settings:", '        settings["url"]\n        if settings:'),
        "mine/environment.py, line # (`settings[\"url\"]`): make_environment({}) raises KeyError: 'url'.",
    ),
    (
        "no docstring",
        without_docstring,
        "mine/environment.py, line # (`return tools_of(self._tools)`): tools() raises Tool check_owner needs a "
        "docstring: it is what the model reads.",
    ),
    (
        "a missing method",
        lambda f: edit(f / ENVIRONMENT, "def facts", "def fact"),
        "mine/environment.py, line #: FlagEnvironment has no method facts(): see agentlab.environments.base.",
    ),
    (
        "a list of tools",
        lambda f: edit(f / ENVIRONMENT, "return tools_of(self._tools)", "return list(tools_of(self._tools))"),
        "mine/environment.py, line #: tools() must return a non-empty tuple of Tool: build it with tools_of(object "
        "with @tool methods). (Seen with task dark-mode.)",
    ),
    (
        "a wrong truth",
        lambda f: edit(f / TASKS, '"owner_valid@dark-mode": "passed"', '"owner_valid@dark-mode": "failed"', 1),
        "mine/tasks.jsonl, line 1 (dark-mode): it has no defect, yet owner_valid@dark-mode is not passed: seed a "
        "defect, or mend the truth.",
    ),
    (
        "another truth than the tools show",
        lambda f: edit(f / TASKS, '"rollout_percent": 250', '"rollout_percent": 99'),
        "mine/tasks.jsonl, line 2 (dark-mode--rollout-too-large): check rollout_valid@dark-mode is declared failed, "
        "but the steps show passed. Correct checks, the defect's changes, or the reference.",
    ),
    (
        "an empty Chinese text",
        lambda f: edit(f / TASKS, '"zh": "开关有负责人。"', '"zh": " "', 1),
        "mine/tasks.jsonl, line 1 (dark-mode): criterion owner_valid@dark-mode: description.zh is empty: write the "
        "Chinese text, it is what the model reads.",
    ),
    (
        "no Chinese text",
        lambda f: edit(f / TASKS, '"zh": "开关有负责人。", ', "", 1),
        "mine/tasks.jsonl, line 1: criteria.1.description.zh is missing (the Chinese text).",
    ),
    (
        "no title",
        lambda f: edit(f / "suite.py", 'en="Feature flag checks"', 'en=""'),
        "mine/suite.py: title.en is empty: write the English text, it is what the model reads.",
    ),
    (
        "an unknown tool in a reference",
        lambda f: edit(f / TASKS, '"tool": "check_owner"', '"tool": "check_ower"', 1),
        "mine/tasks.jsonl, line 1 (dark-mode): step 'owner': There is no tool 'check_ower'. Available tools: get_flag, "
        "check_rollout, check_owner.",
    ),
    (
        "a twin that asks for something else",
        lambda f: edit(f / TASKS, "look it up", "find it", 1),
        "mine: dark-mode--rollout-too-large and dark-mode are of one cluster, but differ in instruction: make it the "
        "same, byte for byte.",
    ),
    (
        "a healthy task alone",
        lambda f: (f / TASKS).write_text((f / TASKS).read_text(encoding="utf-8").split("\n")[0], encoding="utf-8"),
        "mine: cluster 'dark-mode' needs one healthy task and at least one defect twin; it has 1 healthy and 0 "
        "defective.",
    ),
    (
        "facts that are no JSON",
        lambda f: edit(f / ENVIRONMENT, "return self.snapshot()", 'return {"when": {1, 2}}'),
        "mine/environment.py, line #: facts() changes on its way through JSON: a tuple, a set, a Decimal, a date or "
        "a number as a key. Return the JSON form itself. (Seen with task dark-mode.)",
    ),
    (
        "facts that fail after a tool",
        facts_fail_after_a_check,
        "raises ZeroDivisionError: division by zero",
    ),
    ("no such suite", lambda f: [path.unlink() for path in f.iterdir()], "mine has no suite.py."),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "words"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_problem_says_what_where_and_how_to_mend_it(suite_folder: Path, fault: Fault, words: str) -> None:
    fault(suite_folder)
    found = check_suite("mine")
    texts = [re.sub(r"environment\.py, line \d+", "environment.py, line #", str(problem)) for problem in found.problems]
    assert any(words in text for text in texts), found.text()
    assert f"1. {found.problems[0]}" in found.text()


def test_the_same_error_for_every_task_is_told_once(suite_folder: Path) -> None:
    edit(suite_folder / ENVIRONMENT, "starting_state(task, BASE)", "starting_state(task, BASES)")
    assert len(check_suite("mine").problems) == 1


def test_every_bad_task_is_told_at_once(suite_folder: Path) -> None:
    edit(suite_folder / TASKS, '"cluster"', '"clusster"')
    texts = [str(problem) for problem in check_suite("mine").problems]
    assert texts[:2] == [
        "mine/tasks.jsonl, line 1: cluster is missing.",
        "mine/tasks.jsonl, line 1: clusster is no known field. Did you mean 'cluster'?",
    ]
    assert len(texts) == 6


def test_an_async_tool_that_raises_is_placed_too(suite_folder: Path) -> None:
    edit(suite_folder / ENVIRONMENT, "    def check_owner(", "    async def check_owner(")
    assert check_suite("mine").problems == ()
    edit(suite_folder / ENVIRONMENT, 'bool(flag["owner"])', 'bool(flag["boss"])')
    lines = (suite_folder / ENVIRONMENT).read_text(encoding="utf-8").split("\n")
    number = next(n for n, line in enumerate(lines, 1) if 'flag["boss"]' in line)
    assert f"It was raised in mine/environment.py, line {number} (" in check_suite("mine").text()


def test_notes_are_no_problems(suite_folder: Path) -> None:
    edit(suite_folder / ENVIRONMENT, '@tool(zh="检查功能开关是否有负责人。")', "@tool()")
    for text in ("检查功能开关 dark-mode：先查询它，再检查灰度比例和负责人，最后给出测试报告。",):
        english = (
            "Check the feature flag dark-mode: look it up, check its rollout and its owner, and report the result."
        )
        edit(suite_folder / TASKS, text, english)
    found = check_suite("mine")
    assert found.problems == ()
    assert found.remarks[0].startswith("instruction.zh and instruction.en are the same text in dark-mode, dark-mode--")
    assert found.remarks[1].startswith("no Chinese description (zh=) for check_owner: ")


def test_a_check_works_inside_a_running_loop(suite_folder: Path) -> None:
    async def inside() -> SuiteCheck:
        return check_suite("mine")

    assert asyncio.run(inside()).problems == ()


def test_a_single_thing_is_counted_as_one(suite_folder: Path) -> None:
    (suite_folder / TASKS).write_text(
        (suite_folder / TASKS).read_text(encoding="utf-8").split("\n")[0], encoding="utf-8"
    )
    assert ": 1 task (1 healthy, 0 with a defect) in 1 flow, 3 tools" in check_suite("mine").text()


def test_an_asynchronous_environment_is_checked_alike(suite_folder: Path) -> None:
    file = suite_folder / ENVIRONMENT
    head, line, rest = file.read_text(encoding="utf-8").partition("    version = ")
    rest = rest.replace("    def ", "    async def ").replace("async def __init__", "def __init__")
    rest = rest.replace("return self.snapshot()", "return await self.snapshot()")
    file.write_text(head + line + rest, encoding="utf-8")
    edit(
        suite_folder / "suite.py",
        "default_criteria=",
        'approved_tools={"dark-mode": ("get_flag",)},\n        default_criteria=',
    )
    assert [str(problem) for problem in check_suite("mine").problems] == [
        "mine: approved_tools of dark-mode: 'get_flag' is no tool with permission ask."
    ]
