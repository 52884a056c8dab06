"""Walk the reference path of a task on its environment, without any model or strategy."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agentlab.environments.base import Environment, settle
from agentlab.errors import AgentLabError
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task, resolve_references
from agentlab.tool_execution import TRANSIENT_ERROR_KINDS, execute
from agentlab.tools import Tool, find_tool
from agentlab.workers import Workers

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WalkedStep:
    """One executed step of a reference path."""

    id: str
    tool: Tool
    arguments: JsonObject
    """The arguments as sent, references resolved."""
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Walk:
    """The executed steps, and why the path ended early if it did."""

    steps: tuple[WalkedStep, ...]
    problem: str | None = None

    @property
    def results(self) -> list[ToolResult]:
        """The results in order."""
        return [step.result for step in self.steps]


async def walk(environment: Environment, task: Task) -> Walk:
    """Execute the reference steps in order on an environment that has been reset.

    A step that fails does not end the walk; one that cannot be called does. Approvals count as given.
    """
    workers = Workers()
    tools = await settle(environment.tools())
    outputs: dict[str, Any] = {}
    steps: list[WalkedStep] = []
    try:
        for step in task.reference:
            try:
                tool = find_tool(tools, step.tool)
                arguments = resolve_references(step.arguments, outputs)
                tool.check_arguments(arguments)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                problem = f"a reference in {step.arguments} leads nowhere ({type(error).__name__}: {error})"
                return Walk(tuple(steps), f"step {step.id!r}: {problem}")
            except AgentLabError as error:
                return Walk(tuple(steps), f"step {step.id!r}: {error}")
            result = await _execute(tool, arguments, workers)
            outputs[step.id] = result.data
            steps.append(WalkedStep(step.id, tool, arguments, result))
    finally:
        workers.close()
    return Walk(tuple(steps))


async def _execute(tool: Tool, arguments: JsonObject, workers: Workers) -> ToolResult:
    for _ in range(tool.max_retries):
        result = await execute(tool, arguments, workers, tool.timeout_s)
        if result.success or result.error_kind not in TRANSIENT_ERROR_KINDS:
            return result
    return await execute(tool, arguments, workers, tool.timeout_s)


def evidence_of(results: Sequence[ToolResult]) -> dict[str, str]:
    """Return what the results show: `criterion@subject` -> passed or failed; the latest result counts."""
    evidence: dict[str, str] = {}
    for result in results:
        if result.check is not None and result.passed is not None:
            key = f"{result.check}@{result.subject}" if result.subject else result.check
            evidence[key] = "passed" if result.passed else "failed"
        evidence |= result.visible
    return evidence


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns, or raise what it raises; works inside a running event loop too."""
    outcome: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(coroutine))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="agentlab-reference")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
