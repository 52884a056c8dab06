"""A public contract check: does an environment keep what strategies and scoring rely on?"""

import contextlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from agentlab.answers import NAME_IS_TAKEN, SUBMIT
from agentlab.environments.base import Environment, settle
from agentlab.environments.reference import Walk, run_in_thread, walk
from agentlab.json_values import NotJsonable, canonical, dumps
from agentlab.records import ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool

_METHODS = ("reset", "tools", "observe", "facts", "snapshot", "restore", "close")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

MakeEnvironment = Callable[[Mapping[str, Any]], Environment]


def check_environment(make_environment: MakeEnvironment, task: Task, seed: int = 0) -> list[str]:
    """Return what is wrong with an environment, each problem with its likely cause and the fix; empty when nothing is.

    The task is reset several times and its reference is walked; nothing else is executed.

    Args:
        make_environment: gives a fresh instance from the settings (called with an empty dict), as in `Suite`.
        task: any task of the environment with a reference.
        seed: seed of the resets.
    """
    return run_in_thread(_check(make_environment, task, seed))


async def _check(make_environment: MakeEnvironment, task: Task, seed: int) -> list[str]:
    try:
        first, second = make_environment({}), make_environment({})
    except Exception as error:
        return [f"make_environment({{}}) raises {_words(error)}: every setting needs a default."]
    problems = shape_problems(first)
    if problems:
        return problems
    stage = "reset"
    try:
        await settle(first.reset(task, seed))
        await settle(second.reset(task, seed))
        stage = "tools"
        problems += _tool_problems(await settle(first.tools()), task)
        stage = "observe"
        if not isinstance(seen := await settle(first.observe()), str):
            problems.append(
                f"observe() returns {type(seen).__name__}: return text, empty when there is nothing to see."
            )
        stage = "facts or snapshot"
        problems += await _json_problems(first)
        if not problems:
            stage = "walking the reference, reset, snapshot or restore"
            problems += await _state_problems(first, second, task, seed)
    except Exception as error:
        problems.append(f"{stage} raises {_words(error)}.")
    return problems + await _close_problems(first, second, was_reset=stage != "reset")


def shape_problems(environment: Environment) -> list[str]:
    """Return which methods and attributes an environment lacks; nothing of it is executed."""
    problems = [
        f"{type(environment).__name__} has no method {name}(): see agentlab.environments.base.Environment."
        for name in _METHODS
        if not callable(getattr(environment, name, None))
    ]
    version = getattr(environment, "version", None)
    if not (isinstance(version, str) and version):
        problems.append("version must be a non-empty text: it tells runs on different behaviour apart.")
    return problems


def _tool_problems(tools: Any, task: Task) -> list[str]:
    if not (isinstance(tools, tuple) and tools and all(isinstance(tool, Tool) for tool in tools)):
        return ["tools() must return a non-empty tuple of Tool: build it with tools_of(object with @tool methods)."]
    names = [tool.name for tool in tools]
    problems = [f"tool name {name!r} is used twice." for name in sorted({n for n in names if names.count(n) > 1})]
    for tool in tools:
        problems += _one_tool_problems(tool)
    return problems + [
        f"reference step {step.id!r} calls {step.tool!r}, which is no tool: {', '.join(names)}."
        for step in task.reference
        if step.tool not in names
    ]


def _one_tool_problems(tool: Tool) -> list[str]:
    import jsonschema

    problems = []
    if not _TOOL_NAME.fullmatch(tool.name):
        problems.append(
            f"tool name {tool.name!r} is refused by model servers: use letters, digits, _ and -, at most 64."
        )
    if tool.name == SUBMIT:
        problems.append(NAME_IS_TAKEN)
    if not tool.description.strip():
        problems.append(f"tool {tool.name} has no description: write a docstring, it is what the model reads.")
    if tool.function is None:
        problems.append(f"tool {tool.name} has no function, so it cannot be executed.")
    try:
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
    except jsonschema.SchemaError as error:
        problems.append(f"the argument schema of {tool.name} is no JSON schema: {error.message}.")
    if tool.parameters.get("type") != "object":
        problems.append(f"the argument schema of {tool.name} must have the type object, also without arguments.")
    return problems


async def _json_problems(environment: Environment) -> list[str]:
    problems = []
    for name in ("facts", "snapshot"):
        value = await settle(getattr(environment, name)())
        try:
            is_same = json.loads(dumps(value)) == value
        except NotJsonable as error:
            problems.append(f"{name}() is not JSON: {error}. Return dicts, lists, text, numbers, true, false, null.")
            continue
        if not is_same:
            problems.append(
                f"{name}() changes on its way through JSON: a tuple, a set, a Decimal, a date or a number as a key. "
                "Return the JSON form itself."
            )
    if not problems and not isinstance(await settle(environment.facts()), dict):
        problems.append("facts() must return a dict: end_state names its entries.")
    return problems


async def _state_problems(first: Environment, second: Environment, task: Task, seed: int) -> list[str]:
    """Determinism, isolation, and the round trip of snapshots."""
    problems = []
    snapshot = await settle(first.snapshot())
    start, start_facts = canonical(snapshot), canonical(await settle(first.facts()))
    if await _state(second) != start:
        problems.append(
            "two instances reset with one seed differ: randomness or the clock beside the seed of reset, "
            "or state shared through a class attribute, a module variable or a database."
        )
    others, names = await _state(second), await _tool_names(first)
    walked = await walk(first, task)
    end = await settle(first.snapshot())
    if await _tool_names(first) != names:
        problems.append("tools() gives other names after tools acted: the tools may not depend on the state.")
    if canonical(snapshot) != start:
        problems.append("an earlier snapshot changes when tools act: snapshot() must return a copy, not live objects.")
        snapshot = json.loads(start)
    if await _state(second) != others:
        problems.append("two instances share state: tools of one change the other. Keep state on the instance.")
    problems += _unstable(walked, await walk(second, task))
    await settle(first.restore(json.loads(start)))
    if await _state(first) != start or canonical(await settle(first.facts())) != start_facts:
        problems.append("restore(snapshot) does not bring back what snapshot() or facts() showed: is all state in it?")
    await settle(first.restore(json.loads(canonical(end))))
    if await _state(first) != canonical(end):
        problems.append("restore() of the state after the reference does not bring it back: is all state in it?")
    await settle(first.reset(task, seed))
    if await _state(first) != start:
        problems.append(
            "a second reset with the same seed gives another state: start afresh, and draw from that seed alone."
        )
    return problems


def _unstable(one: Walk, other: Walk) -> list[str]:
    """Steps that say something else in another fresh instance; data may differ, as times and ids do."""
    return [
        f"reference step {a.id!r}: {a.tool.name} says {_judged(a.result)} in one fresh instance and "
        f"{_judged(b.result)} in another with the same seed: randomness, the clock, or something outside decides."
        for a, b in zip(one.steps, other.steps, strict=False)
        if _judged(a.result) != _judged(b.result)
    ]


def _judged(result: ToolResult) -> str:
    return f"success={result.success}, passed={result.passed}, error_kind={result.error_kind}"


async def _close_problems(first: Environment, second: Environment, was_reset: bool) -> list[str]:
    problems = []
    try:
        await settle(first.close())
        await settle(first.close())
    except Exception as error:
        problems.append(f"close() raises {_words(error)}: it must be harmless, also when it is called twice.")
    try:
        if was_reset:
            await settle(second.snapshot())
    except Exception as error:
        problems.append(f"closing one instance breaks another ({_words(error)}): what do they share?")
    finally:
        with contextlib.suppress(Exception):  # reported above
            await settle(second.close())
    return problems


async def _state(environment: Environment) -> str:
    return canonical(await settle(environment.snapshot()))


async def _tool_names(environment: Environment) -> list[str]:
    return [tool.name for tool in await settle(environment.tools())]


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
