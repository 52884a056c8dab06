import asyncio
import subprocess
import sys
import time

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.reference import Walk, run_in_thread, walk
from agentlab.environments.toy import canaries
from agentlab.environments.toy.environment import LOG_TEXT, ToyEnvironment
from agentlab.errors import ConfigError
from agentlab.json_values import dumps
from agentlab.observations import DEFAULT_LIMIT_CHARS
from agentlab.records import JsonObject
from agentlab.tool_execution import TRANSIENT_ERROR_KINDS, execute
from agentlab.tools import find_tool
from agentlab.workers import Workers

SUITE = load_suite("toy")


def _walked(task_id: str) -> tuple[Walk, JsonObject]:
    environment = ToyEnvironment()
    environment.reset(SUITE.task(task_id), 0)
    return run_in_thread(walk(environment, SUITE.task(task_id))), environment.facts()


def test_the_tool_that_raises_gives_a_failed_result() -> None:
    walked, _ = _walked("toy-gauge--raises")
    (result,) = walked.results
    assert (result.success, result.passed, result.error_kind) == (False, None, "tool_failed")
    assert "stuck" in result.message


def test_the_tool_that_hangs_is_given_up_after_its_time_limit() -> None:
    started = time.perf_counter()
    walked, _ = _walked("toy-signal--hangs")
    assert walked.results[0].error_kind == "timed_out"
    assert time.perf_counter() - started < 5


def test_the_process_ends_although_a_tool_hangs() -> None:
    code = (
        "from agentlab.environments.base import load_suite; from agentlab.environments.proofs import prove; "
        "s = load_suite('toy'); print(prove(s.task('toy-signal--hangs'), s))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert shown.strip() == "[]"


def test_the_huge_text_is_above_the_limit_of_an_observation() -> None:
    walked, _ = _walked("toy-log")
    assert walked.results[0].data == LOG_TEXT
    assert len(LOG_TEXT) == 200_000 > DEFAULT_LIMIT_CHARS


def test_the_sensor_fails_once_in_a_way_that_may_be_tried_again() -> None:
    environment = ToyEnvironment()
    environment.reset(SUITE.task("toy-sensor"), 0)
    tool = find_tool(environment.tools(), "check_sensor")

    async def twice() -> list[str | None]:
        workers = Workers()
        results = [await execute(tool, {"name": "SENSOR-5"}, workers, tool.timeout_s) for _ in range(2)]
        return [result.error_kind for result in results]

    first, second = asyncio.run(twice())
    assert first in TRANSIENT_ERROR_KINDS
    assert second is None
    assert tool.max_retries > 0


def test_effects_are_counted_in_the_facts_also_when_they_are_lost() -> None:
    walked, facts = _walked("toy-note--lost")
    assert facts["writes"] == 1
    assert facts["notes"] == {}
    assert walked.results[1].passed is False
    _, facts = _walked("toy-publish")
    assert (facts["publications"], facts["published"]) == (1, ["NOTE-7"])


def test_a_written_note_can_be_removed_by_its_compensation() -> None:
    environment = ToyEnvironment()
    environment.reset(SUITE.task("toy-note"), 0)
    write = find_tool(environment.tools(), "write_note")
    assert write.function is not None
    write.function(name="NOTE-6", text="Door closed.")
    assert write.compensate == "remove_note"
    undo = find_tool(environment.tools(), "remove_note").function
    assert undo is not None
    assert undo(name="NOTE-6").success
    assert environment.facts()["notes"] == {}
    assert undo(name="NOTE-6").error_kind == "not_found"


def test_publishing_is_irreversible_and_asks() -> None:
    publish = find_tool(ToyEnvironment().tools(), "publish")
    assert (publish.effect, publish.permission, publish.max_retries) == ("irreversible", "ask", 0)
    assert SUITE.approved_tools == {"toy-publish": ("publish",), "toy-publish--lost": ("publish",)}


def test_tools_run_inline_except_the_one_that_can_hang() -> None:
    limited = [tool.name for tool in ToyEnvironment().tools() if tool.timeout_s is not None]
    assert limited == ["check_signal"]


def test_canaries_are_planted_and_shown_to_nobody() -> None:
    for task in SUITE.tasks:
        planted = canaries(task)
        assert sum(text.startswith("CANARY-STEP-") for text in planted) == len(task.reference)
        assert sum(text.startswith("CANARY-DEFECT-") for text in planted) == len(task.defects)
        assert sum(text.startswith("CANARY-SEAL-") for text in planted) == 1
        assert len(set(planted) - {task.id}) >= len(task.reference) + 1
        environment = ToyEnvironment()
        environment.reset(task, 0)
        walked = run_in_thread(walk(environment, task))
        shown = [task.view(language).model_dump_json() for language in ("zh", "en")]
        shown += [dumps([step.arguments, step.result.data, step.result.message]) for step in walked.steps]
        shown += [tool.text_line(language) for tool in environment.tools() for language in ("zh", "en")]
        shown.append(environment.observe())
        for text in planted:
            assert not [where for where in shown if text in where], (task.id, text)


def test_there_are_no_settings() -> None:
    with pytest.raises(ConfigError, match="speed"):
        ToyEnvironment({"speed": 1})
