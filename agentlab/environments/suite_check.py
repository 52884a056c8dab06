"""Check a suite before it is used, and say in plain words what is wrong, where, and how to mend it."""

import contextlib
import dataclasses
import functools
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab.environments.base import Environment, Suite, load_suite, settle
from agentlab.environments.checker import check_environment, shape_problems
from agentlab.environments.folder_package import place_of, shown_path
from agentlab.environments.loading import words_of
from agentlab.environments.proofs import prove, suite_problems
from agentlab.environments.reference import run_in_thread
from agentlab.errors import AgentLabError
from agentlab.tasks import Task, Text
from agentlab.tools import Tool

DECISION_FLOWS = 10
"""Fewer flows (clusters) than this cannot carry a decision between strategies."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    where: str
    """File and line, as far as they are known."""
    text: str
    """What is wrong and how to mend it."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


@dataclass(frozen=True, slots=True)
class SuiteCheck:
    """What the check of a suite brought."""

    suite: Suite | None
    """None when it could not even be loaded."""
    n_tools: int
    """0 when the environment does not even give its tools."""
    problems: tuple[Problem, ...]
    """What makes the suite unusable."""
    remarks: tuple[str, ...] = ()
    """What is allowed, but worth knowing."""

    def text(self) -> str:
        """Return the result as lines for a person."""
        lines = [_summary(self.suite, self.n_tools)] if self.suite else []
        if self.problems:
            lines.append(f"{_counted(len(self.problems), 'problem')}:")
            lines += [f"{number}. {problem}" for number, problem in enumerate(self.problems, 1)]
        else:
            lines.append("No problem found: the environment keeps its contract, and every task is proven.")
        return "\n".join([*lines, *(f"Note: {remark}" for remark in self.remarks)])


def check_suite(name: str) -> SuiteCheck:
    """Return what is wrong with a suite: its texts, its environment, the proof of every task, its twins.

    Every task is reset and its reference executed, several times; nothing else is run.

    Args:
        name: registered name, folder or importable module, as for `load_suite`.
    """
    try:
        suite = load_suite(name)
    except AgentLabError as error:
        return SuiteCheck(None, 0, tuple(Problem("", line) for line in str(error).split("\n")))
    places = _task_places(suite)
    problems = _text_problems(suite, places)
    tools, broken = run_in_thread(_trial(suite, places))
    # An environment that cannot even be reset would fail every further step for the same reason.
    problems += broken or _run_problems(suite, places)
    return SuiteCheck(suite, len(tools), tuple(dict.fromkeys(problems)), tuple(_remarks(suite, tools)))


def _run_problems(suite: Suite, places: dict[str, str]) -> list[Problem]:
    """What shows when references are walked: the contract of the environment, then the proofs."""
    contract: dict[str, Problem] = {}
    for task in {task.cluster: task for task in reversed(suite.tasks)}.values():
        for text in check_environment(suite.make_environment, task):
            contract.setdefault(text, Problem(_environment_place(suite), f"{text} (Seen with task {task.id}.)"))
    proofs = [problem for task in suite.tasks for problem in _proof_problems(task, suite, places)]
    whole = [Problem(_folder_text(suite), _sentence(text)) for text in suite_problems(suite)]
    return [*contract.values(), *proofs, *whole]


def _proof_problems(task: Task, suite: Suite, places: dict[str, str]) -> list[Problem]:
    raised: dict[str, BaseException] = {}

    def make(settings: Any) -> Any:
        return _Recording(suite.make_environment(settings), raised)

    try:
        texts = prove(task, dataclasses.replace(suite, make_environment=make))
    except Exception as error:
        where = _place_of(error, suite) or places[task.id]
        return [Problem(where, _sentence(f"proving the task {task.id} raises {words_of(error)}"))]
    # Where a tool has raised or returned what is no result, the rest of the proof only repeats that in other words.
    texts = [text for text in texts if "failed: tool_failed" in text or "failed: bad_result" in text] or texts
    return [Problem(places[task.id], _sentence(text) + _raised_at(text, suite, raised)) for text in texts]


def _raised_at(text: str, suite: Suite, raised: dict[str, BaseException]) -> str:
    """Where the tool that a text says has failed raised its error."""
    found = (_place_of(error, suite) for tool, error in raised.items() if f"({tool}) failed: tool_failed" in text)
    return "".join(f" It was raised in {place}." for place in found if place)


class _Recording:
    """An environment whose tools remember the last error that each of them raised."""

    def __init__(self, environment: Environment, raised: dict[str, BaseException]) -> None:
        self._environment = environment
        self._raised = raised

    async def tools(self) -> tuple[Tool, ...]:
        tools = await settle(self._environment.tools())
        return tuple(
            dataclasses.replace(tool, function=_recording(tool.name, tool.function, self._raised))
            if tool.function
            else tool
            for tool in tools
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._environment, name)


def _recording(name: str, function: Callable[..., Any], raised: dict[str, BaseException]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except BaseException as error:
            raised[name] = error
            raise

    @functools.wraps(function)
    async def call_async(**arguments: Any) -> Any:
        try:
            return await function(**arguments)
        except BaseException as error:
            raised[name] = error
            raise

    return call_async if inspect.iscoroutinefunction(function) else call


async def _trial(suite: Suite, places: dict[str, str]) -> tuple[tuple[Tool, ...], list[Problem]]:
    """The tools, and what goes wrong when an environment is made and brought into the state of each task."""
    tools: tuple[Tool, ...] = ()
    problems: dict[tuple[str, str], Problem] = {}
    for task in suite.tasks:
        stage, environment = "make_environment({})", None
        try:
            environment = suite.make_environment({})
            if shape := shape_problems(environment):
                return tools, [Problem(_environment_place(suite), text) for text in shape]
            stage = "tools()"
            tools = tuple(tool for tool in await settle(environment.tools()) if isinstance(tool, Tool))
            stage = f"reset() for {places[task.id]}"
            await settle(environment.reset(task, 0))
            stage = f"facts() after reset() for {places[task.id]}"
            await settle(environment.facts())
        except Exception as error:
            place = _place_of(error, suite) or _environment_place(suite)
            problem = Problem(place, _sentence(f"{stage} raises {words_of(error)}"))
            problems.setdefault((place, words_of(error)), problem)
            if not stage.startswith("reset"):
                break
        finally:
            if environment is not None:
                with contextlib.suppress(Exception):  # the contract check reports it
                    await settle(environment.close())
    return tools, list(problems.values())


def _text_problems(suite: Suite, places: dict[str, str]) -> list[Problem]:
    """Texts that are empty in one language."""
    problems = []
    for where, field, text in _texts(suite, places):
        for language, name in (("zh", "Chinese"), ("en", "English")):
            if not text.in_language(language).strip():
                problems.append(
                    Problem(where, f"{field}.{language} is empty: write the {name} text, it is what the model reads.")
                )
    return problems


def _texts(suite: Suite, places: dict[str, str]) -> Iterable[tuple[str, str, Text]]:
    file = f"{_folder_text(suite)}/suite.py".removeprefix("./")
    yield file, "title", suite.title
    for criterion in suite.default_criteria:
        yield file, f"default_criteria {criterion.key}: description", criterion.description
    for task in suite.tasks:
        yield places[task.id], "instruction", task.instruction
        for criterion in task.criteria:
            yield places[task.id], f"criterion {criterion.key}: description", criterion.description


def _remarks(suite: Suite, tools: Iterable[Tool]) -> Iterable[str]:
    same = [task.id for task in suite.tasks if task.instruction.zh == task.instruction.en]
    if same:
        yield f"instruction.zh and instruction.en are the same text in {', '.join(same)}."
    if plain := [tool.name for tool in tools if not tool.description_zh]:
        yield f"no Chinese description (zh=) for {', '.join(plain)}: runs in Chinese show the English one."
    n_flows = len({task.cluster for task in suite.tasks})
    if n_flows < DECISION_FLOWS:
        needed = f"a decision between strategies needs at least {DECISION_FLOWS} flows (clusters)"
        yield f"{needed}; this suite has {n_flows}."


def _summary(suite: Suite, n_tools: int) -> str:
    n_flows = len({task.cluster for task in suite.tasks})
    n_healthy = sum(not task.is_defective for task in suite.tasks)
    tools = f", {_counted(n_tools, 'tool')}" if n_tools else ""
    return (
        f"Suite {suite.name} in {_folder_text(suite)}: {_counted(len(suite.tasks), 'task')} ({n_healthy} healthy, "
        f"{len(suite.tasks) - n_healthy} with a defect) in {_counted(n_flows, 'flow')}{tools}"
    )


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _task_places(suite: Suite) -> dict[str, str]:
    """Task id -> file, line and id; the id alone for a task that stands in no JSONL file of the folder."""
    places = {task.id: f"task {task.id}" for task in suite.tasks}
    for file in sorted(suite.folder.glob("*.jsonl")) if suite.folder else ():
        for number, line in enumerate(file.read_text(encoding="utf-8-sig").split("\n"), 1):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("id") in places:
                places[found["id"]] = f"{shown_path(file)}, line {number} ({found['id']})"
    return places


def _environment_place(suite: Suite) -> str:
    """File and line of the environment's class, or of the function that makes it."""
    made: Any = suite.make_environment
    if not inspect.isclass(made):
        try:
            made = type(suite.make_environment({}))
        except Exception:
            made = suite.make_environment
    try:
        return f"{shown_path(Path(inspect.getsourcefile(made) or ''))}, line {inspect.getsourcelines(made)[1]}"
    except (OSError, TypeError):
        return str(getattr(made, "__name__", "make_environment"))


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _place_of(error: BaseException, suite: Suite) -> str | None:
    return place_of(error, suite.folder) if suite.folder else None


def _folder_text(suite: Suite) -> str:
    return shown_path(suite.folder) if suite.folder else suite.name
