"""Every registered strategy, on every toy task: what makes the comparison fair by construction (DESIGN 6)."""

import asyncio
import json
from typing import Any

import pytest

from agentlab.budget import Budget
from agentlab.environments.base import load_suite
from agentlab.environments.toy import canaries
from agentlab.errors import ModelUnavailable, QuotaExhausted
from agentlab.json_values import dumps
from agentlab.models.base import build_model
from agentlab.models.scripted import ScriptedModel
from agentlab.records import Event, Model, ModelRequest, Reply
from agentlab.runner.run_one import RunResult, run_one
from agentlab.session import SessionSettings
from agentlab.strategies.base import STRATEGIES, build_strategy
from agentlab.tasks import Task
from agentlab.trace import pack, unpack

SUITE = load_suite("toy")
TASKS = {task.id: task for task in SUITE.tasks}
A_TASK = next(task for task in SUITE.tasks if task.proof == "required" and not task.is_defective)


class Spy:
    """Passes requests on and keeps what a provider would have seen."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name, self.kind = inner.name, inner.kind
        self.seen: list[ModelRequest] = []
        self.texts: list[str] = []

    @property
    def capabilities(self) -> frozenset[str]:
        return self.inner.capabilities

    async def complete(self, request: ModelRequest) -> Reply:
        self.seen.append(request)
        self.texts.append(dumps([request.messages, request.tool_schemas]))
        return await self.inner.complete(request)

    async def close(self) -> None:
        await self.inner.close()


def run(strategy: str, task: Task, model: Model, budget: Budget | None = None, **settings: Any) -> RunResult:
    approved = frozenset((SUITE.approved_tools or {}).get(task.id, ()))
    return asyncio.run(
        run_one(
            task,
            SUITE.make_environment({}),
            build_strategy(strategy),
            model,
            SessionSettings(approved_tools=approved, **settings),
            budget or Budget(),
            debug=True,
        )
    )


def perfect() -> Spy:
    return Spy(build_model("simulated:perfect"))


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("task_id", TASKS)
def test_nothing_true_leaks_and_events_equal_the_meter(strategy: str, task_id: str, language: str) -> None:
    task = TASKS[task_id]
    model = perfect()
    result = run(strategy, task, model, language=language)
    observed = [event.data["observation"] for event in result.events if event.kind == "tool_call"]
    for text in [*model.texts, *observed]:
        for canary in canaries(task):
            assert canary not in text
    kinds = [event.kind for event in result.events]
    assert kinds.count("model_call") == result.meter.model_calls == len(model.seen)
    assert sum(e.data["executed"] for e in result.events if e.kind == "tool_call") == result.meter.tool_calls
    used = [event.data["usage"] for event in result.events if event.kind == "model_call"]
    assert sum(usage["input_tokens"] + usage["output_tokens"] for usage in used) == result.meter.total_tokens
    assert (kinds[0], kinds[-1]) == ("run_start", "run_end")


@pytest.mark.parametrize("task_id", [task.id for task in SUITE.tasks if task.proof == "required"])
def test_a_perfect_model_succeeds_through_every_strategy(strategy: str, task_id: str) -> None:
    result = run(strategy, TASKS[task_id], perfect(), approvals="allow")
    assert (result.end_reason, result.score.success, result.score.failure_classes) == ("answered", 1, ())


def test_offered_tools_are_the_environments_and_submit(strategy: str) -> None:
    model = perfect()
    run(strategy, A_TASK, model)
    valid = {tool.name for tool in SUITE.make_environment({}).tools()} | {"submit"}
    for request in model.seen:
        assert {tool.name for tool in request.tools} <= valid
        assert {schema["function"]["name"] for schema in request.tool_schemas} <= valid


@pytest.mark.parametrize(
    "budget", [{"model_calls": 1}, {"model_calls": 2}, {"tool_calls": 1}, {"total_tokens": 500}, {"model_calls": 0}]
)
def test_no_call_after_exhaustion(strategy: str, budget: dict[str, int]) -> None:
    model = perfect()
    task = max(SUITE.tasks, key=lambda task: len(task.reference))
    result = run(strategy, task, model, Budget(**budget))
    (kind, limit), *_ = budget.items()
    if strategy == "plan_execute" and kind == "model_calls" and limit:
        assert (result.end_reason, result.meter.model_calls) == ("answered", 1)
        return
    assert result.end_reason == f"budget_{kind}"
    assert (result.score.success, result.score.failure_class) == (0, "budget")
    after_hit = [event.kind for event in result.events[[e.kind for e in result.events].index("budget_hit") :]]
    assert "model_call" not in after_hit
    assert "tool_call" not in after_hit
    if kind != "total_tokens":
        assert getattr(result.meter, kind) == limit


def test_two_runs_give_the_same_trace_apart_from_times(strategy: str) -> None:
    first, second = (_without_times(run(strategy, A_TASK, perfect()).events) for _ in range(2))
    assert first == second


def _without_times(events: list[Event]) -> list[Any]:
    timed = {"started_s", "ended_s", "latency_s", "duration_s", "sends"}
    return [(e.kind, e.actor, {name: value for name, value in e.data.items() if name not in timed}) for e in events]


def test_unreadable_replies_end_the_run_as_a_format_failure(strategy: str) -> None:
    result = run(strategy, A_TASK, ScriptedModel([{"problem": "empty_answer"}] * 10))
    expected = ("invalid_plan", "invalid_plan") if strategy == "plan_execute" else ("format_limit", "malformed_reply")
    assert (result.end_reason, result.score.failure_class, result.score.success) == (*expected, 0)
    assert result.meter.model_calls == 3


@pytest.mark.parametrize(("error", "is_quota"), [(ModelUnavailable("down"), False), (QuotaExhausted("empty"), True)])
def test_a_provider_failure_is_nobodys(strategy: str, error: Exception, is_quota: bool) -> None:
    result = run(strategy, A_TASK, ScriptedModel([error]))
    assert (result.end_reason, result.score.success, result.score.outcome) == ("infrastructure", None, "excluded")
    assert result.is_quota_exhausted is is_quota
    assert str(error) in (result.error or "")


def test_a_tool_error_is_an_observation_and_the_run_goes_on(strategy: str) -> None:
    raising = next(task for task in SUITE.tasks if any(step.tool == "check_gauge" for step in task.reference))
    broken = [task for task in SUITE.tasks if task.cluster == raising.cluster and task.true_verdict == "incomplete"]
    for task in broken:
        result = run(strategy, task, perfect())
        assert result.end_reason == "answered"
        assert any(e.data.get("error_kind") == "tool_failed" for e in result.events if e.kind == "tool_call")
    assert broken


def test_an_answer_at_once_earns_nothing(strategy: str) -> None:
    text = json.dumps(
        {
            "findings": [{"criterion": c.key, "status": "passed", "evidence": "-"} for c in A_TASK.criteria],
            "verdict": "passed",
        }
    )
    result = run(strategy, A_TASK, ScriptedModel([text if strategy == "tool_loop" else f"Final Answer: {text}"] * 3))
    cause = "invalid_plan" if strategy == "plan_execute" else "false_finish"
    assert (result.score.success, result.score.failure_class) == (0, cause)


def test_the_trace_survives_the_store(strategy: str) -> None:
    for task in SUITE.tasks:
        events = run(strategy, task, perfect()).events
        restored = unpack("run", pack(events))
        assert [(e.seq, e.kind, e.actor, e.data) for e in restored] == [
            (e.seq, e.kind, e.actor, json.loads(json.dumps(e.data))) for e in events
        ]
