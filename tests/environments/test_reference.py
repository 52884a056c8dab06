import asyncio

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.reference import evidence_of, run_in_thread, walk
from agentlab.environments.toy.environment import ToyEnvironment
from agentlab.records import ToolResult
from agentlab.tasks import ReferenceStep, Task

TASK = load_suite("toy").task("toy-box")


def _problem(*steps: ReferenceStep) -> str | None:
    task: Task = TASK.model_copy(update={"reference": steps})
    environment = ToyEnvironment()
    environment.reset(task, 0)
    return run_in_thread(walk(environment, task)).problem


def test_a_reference_that_leads_nowhere_ends_the_walk() -> None:
    first = ReferenceStep(id="a", tool="read_box", arguments={"name": "BOX-1"})
    second = ReferenceStep(id="b", tool="check_box", arguments={"name": "steps.a.output.nam"})
    assert "step 'b': a reference in" in str(_problem(first, second))
    assert _problem(first, second.model_copy(update={"arguments": {"name": "steps.a.output.name"}})) is None


def test_unknown_tools_and_wrong_arguments_end_the_walk() -> None:
    assert "There is no tool 'red_box'" in str(_problem(ReferenceStep(id="a", tool="red_box")))
    assert "name is missing" in str(_problem(ReferenceStep(id="a", tool="read_box")))


def test_evidence_is_the_latest_of_checks_and_of_what_is_visible() -> None:
    results = [
        ToolResult(True, None, subject="A", data=1),
        ToolResult(True, False, check="x", subject="A"),
        ToolResult(True, True, check="x", subject="A"),
        ToolResult(True, False, check="y"),
        ToolResult(False, error_kind="login_refused", visible={"login@U": "failed"}),
    ]
    assert evidence_of(results) == {"x@A": "passed", "y": "failed", "login@U": "failed"}


def test_run_in_thread_works_inside_a_running_loop_and_raises_what_was_raised() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    async def fail() -> int:
        raise LookupError("lost")

    async def inside() -> int:
        return run_in_thread(answer())

    assert run_in_thread(answer()) == 42
    assert asyncio.run(inside()) == 42
    with pytest.raises(LookupError, match="lost"):
        run_in_thread(fail())
