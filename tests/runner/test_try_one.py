"""The worked examples of DESIGN 4, through both strategies and both languages."""

import asyncio
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from agentlab.environments.base import Suite, load_suite
from agentlab.environments.toy.environment import ToyEnvironment
from agentlab.errors import ConfigError
from agentlab.models.scripted import ScriptedModel
from agentlab.report.run_report import loop_result, run_report
from agentlab.runner.run_one import RunResult
from agentlab.runner.try_one import resolve_task, try_task
from agentlab.tasks import Task

BOTH = pytest.mark.parametrize("strategy", ["tool_loop", "react"])
SUITE = load_suite("orders")


def attempt(text: str, **settings: object) -> RunResult:
    result, has_truth = asyncio.run(try_task(text, **settings))  # type: ignore[arg-type]
    assert has_truth
    return result


@BOTH
@pytest.mark.parametrize("language", ["en", "zh"])
def test_order1002_has_two_defects(strategy: str, language: str) -> None:
    result = attempt("ORDER1002", strategy=strategy, language=language)
    totals = run_report(result.events).totals
    assert (totals["executed"], totals["queries"], totals["checks"], totals["failed"]) == (3, 1, 2, 0)
    assert (totals["passed"], totals["not_passed"], totals["not_evaluated"]) == (0, 2, 0)
    assert (result.score.verdict, result.score.success, result.score.outcome) == ("failed", 1, "found")


@BOTH
@pytest.mark.parametrize("language", ["en", "zh"])
def test_order9999_does_not_exist(strategy: str, language: str) -> None:
    result = attempt("ORDER9999", strategy=strategy, language=language)
    report = run_report(result.events)
    assert report.calls[0].error_kind == "not_found"
    assert (report.totals["executed"], report.totals["failed"], report.totals["not_evaluated"]) == (0, 1, 2)
    assert (result.score.verdict, result.score.success, result.score.outcome) == ("incomplete", 1, "incomplete_right")
    assert ("Execution incomplete: 2" in report.text("en"), "执行不完整：2" in report.text("zh")) == (True, True)


@BOTH
def test_incomplete_at_once_is_not_supported(strategy: str) -> None:
    task = resolve_task(SUITE, "ORDER9999").task
    findings = [{"criterion": c.key, "status": "not_evaluated", "evidence": "no such order"} for c in task.criteria]
    answer = json.dumps({"findings": findings, "verdict": "incomplete", "summary": ""})
    reply = answer if strategy == "tool_loop" else f"Final Answer: {answer}"
    result = attempt("ORDER9999", strategy=strategy, model=ScriptedModel([reply]))
    assert (result.score.success, result.score.outcome) == (0, "incomplete_wrong")


def test_a_query_is_not_a_check_and_a_failed_check_was_executed() -> None:
    text = run_report(attempt("ORDER1002").events).text("en")
    assert "3 executed, 0 failed, 0 refused; 1 queries, 2 checks" in text
    assert "0 passed, 2 not passed, 0 not evaluated" in text
    assert "Not passed: amount_valid@ORDER1002, status_valid@ORDER1002." in text
    assert text.count("executed, check not passed") == 2


@pytest.mark.parametrize("calls_first", [True, False])
def test_e16_the_models_words_do_not_decide(calls_first: bool) -> None:
    words = "订单 ORDER1002 检查通过，一切正常。"
    query = {"tool_calls": [{"name": "query_order_detail", "arguments": {"order_id": "ORDER9999"}}]}
    result = attempt("ORDER9999", model=ScriptedModel([query, words] if calls_first else [words]))
    assert (result.end_reason, result.score.success, result.score.verdict) == ("answered", 0, None)
    report = run_report(result.events)
    assert report.verdict == "incomplete"
    assert words in report.text("zh")


def test_the_report_shows_a_contradiction() -> None:
    claims = {
        "findings": [{"criterion": c, "status": "passed", "evidence": ""} for c in ("amount_valid", "status_valid")],
        "verdict": "passed",
    }
    check = {"tool_calls": [{"name": "check_order_amount", "arguments": {"order_id": "ORDER1002"}}]}
    text = run_report(attempt("ORDER1002", model=ScriptedModel([check, json.dumps(claims)])).events).text("en")
    assert text.count("<- the trace does not show this") == 2


def test_the_loops_own_form() -> None:
    done = loop_result(attempt("ORDER1002").events)
    assert (done["success"], [entry["round"] for entry in done["history"]]) == (True, [1, 2, 3])
    assert done["history"][0]["tool"] == "query_order_detail"
    assert done["history"][0]["arguments"] == {"order_id": "ORDER1002"}
    assert "-20.0" in done["history"][0]["result"]


@BOTH
def test_e05_e17_rounds_are_bounded(strategy: str) -> None:
    orders = iter(range(100))

    def another(request: object) -> dict[str, object]:
        order = f"ORDER{next(orders)}"
        if strategy == "react":
            return {"text": f'Action: query_order_detail\nAction Input: {{"order_id": "{order}"}}'}
        return {"tool_calls": [{"name": "query_order_detail", "arguments": {"order_id": order}}]}

    result = attempt("ORDER1002", strategy=strategy, model=ScriptedModel(another), parameters={"max_rounds": 3})
    assert (result.end_reason, result.meter.model_calls, len(result.events) > 6) == ("budget_rounds", 3, True)
    failed = loop_result(result.events)
    assert failed["success"] is False
    assert "maximum rounds reached (3)" in failed["reason"]
    assert len(failed["history"]) == 3


@BOTH
def test_e05_the_same_call_ends_at_the_repetition_limit(strategy: str) -> None:
    call = {"tool_calls": [{"name": "check_order_amount", "arguments": {"order_id": "ORDER1002"}}]}
    text = 'Action: check_order_amount\nAction Input: {"order_id": "ORDER1002"}'
    result = attempt("ORDER1002", strategy=strategy, model=ScriptedModel([text if strategy == "react" else call] * 8))
    assert (result.end_reason, result.meter.model_calls, result.score.success) == ("loop_detected", 3, 0)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("ORDER1002", "ORDER1002"),
        ("please check ORDER9999 now", "ORDER9999"),
        ("检查ORDER1001的金额", "ORDER1001"),
        ("USER001", "USER001"),
    ],
)
def test_a_text_resolves_to_the_canonical_task_of_its_subject(text: str, subject: str) -> None:
    resolved = resolve_task(SUITE, text)
    assert (resolved.task.subject, resolved.task.canonical, resolved.has_truth) == (subject, True, True)


def test_an_instruction_or_an_id_resolves() -> None:
    task = SUITE.tasks[5]
    assert resolve_task(SUITE, task.id).task == task
    assert resolve_task(SUITE, f" {task.instruction.zh} ").task.cluster == task.cluster


@pytest.mark.parametrize("text", ["check my order", "ORDER1001 and ORDER1002", "ORDER10011"])
def test_other_texts_have_no_truth(text: str) -> None:
    resolved = resolve_task(SUITE, text)
    assert (resolved.has_truth, [c.name for c in resolved.task.criteria]) == (False, ["amount_valid", "status_valid"])


def test_free_text_needs_default_criteria() -> None:
    with pytest.raises(ConfigError, match=r"'check it' is no task of the suite orders, .* Its tasks: order-1001, "):
        resolve_task(dataclasses.replace(SUITE, default_criteria=()), "check it")


def test_a_simulated_model_refuses_a_task_without_truth_and_says_why() -> None:
    with pytest.raises(ConfigError, match="truth"):
        asyncio.run(try_task("check my order", model="simulated:perfect"))


def test_a_plan_for_free_text_need_not_check_what_was_not_asked_for() -> None:
    order = {"request_id": "REQ-900", "customer_id": "C003", "product_id": "P012", "quantity": 1}
    check = {"request_id": "REQ-900"}
    steps = [
        {"id": "order", "description": "Create", "tool": "create_order", "arguments": order, "depends_on": []},
        {
            "id": "total", "description": "Check", "tool": "check_order_total", "arguments": check,
            "depends_on": ["order"],
        },
    ]  # fmt: skip
    model = ScriptedModel([json.dumps({"steps": steps})])
    goal = "Create an order of one P012 for C003 and check its total."
    result, has_truth = asyncio.run(try_task(goal, suite="sales", strategy="plan_execute", model=model))
    assert (has_truth, result.end_reason, result.meter.model_calls) == (False, "answered", 1)
    assert result.answer is not None
    assert "2 completed" in result.answer.text


def test_the_plan_for_a_user_collects_the_orders_that_did_not_pass() -> None:
    result = attempt("user-001--unknown-status", strategy="plan_execute")
    assert result.answer is not None
    collected = result.answer.text.split("- abnormal ")[1].split("- report ")[0]
    assert "ORDER1004" in collected
    assert "ORDER1001" not in collected
    assert "7 completed" in result.answer.text


def test_a_subject_that_is_written_wrong_brings_near_ones() -> None:
    with pytest.raises(ConfigError, match=r"'ORDER100' names no task of the suite orders\. Did you mean ORDER1\d+ or "):
        asyncio.run(try_task("ORDER100"))


class NeverReset(ToyEnvironment):
    def reset(self, task: Task, seed: int) -> None:
        raise OSError("the bench is not plugged in")


class NeverMade(ToyEnvironment):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        raise OSError("the bench is locked with hunter2-secret")


class AllAsync:
    """A toy environment whose methods are all asynchronous."""

    version = "1"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._toy = ToyEnvironment(settings)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._toy, name)

        async def call(*arguments: Any) -> Any:
            return method(*arguments)

        return call


def toy_with(environment: Any) -> Suite:
    return dataclasses.replace(load_suite("toy"), make_environment=environment)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_run_that_could_not_begin_is_reported_in_words(language: str) -> None:
    result, _ = asyncio.run(try_task("toy-note", suite=toy_with(NeverReset)))
    lines = run_report(result.events).text(language).split("\n")
    assert len(lines) == 2
    assert "error (OSError: the bench is not plugged in" in lines[1]


def test_an_environment_that_cannot_be_made_is_named_with_its_suite_and_without_secrets() -> None:
    suite = toy_with(NeverMade)
    with pytest.raises(ConfigError, match="The environment of the suite toy cannot be made: OSError: the bench is"):
        asyncio.run(try_task("toy-note", suite=suite))
    with pytest.raises(ConfigError) as caught:
        suite.new_environment({"database_url": "mysql://me:hunter2-secret@db/x"})
    assert "locked with ***." in str(caught.value)


@BOTH
def test_an_asynchronous_environment_is_run_alike(strategy: str) -> None:
    result, _ = asyncio.run(try_task("toy-note", suite=toy_with(AllAsync), strategy=strategy))
    assert result.score.success == 1
