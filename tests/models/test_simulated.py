import asyncio
import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentlab.answers import submit_tool
from agentlab.environments.base import Suite, load_suite
from agentlab.errors import ConfigError
from agentlab.models.simulated import DECAYING, PROFILES, ErrorModel, SimulatedModel, build
from agentlab.records import (
    Answer,
    CallIntent,
    FinishIntent,
    Message,
    Model,
    ModelRequest,
    Reply,
    ReplyFormat,
    RequestContext,
    ToolResult,
    Unreadable,
)
from agentlab.strategies.native import NativeFormat
from agentlab.strategies.react import ReactFormat
from agentlab.tasks import NO_TRUTH_TAG, Task
from agentlab.tool_execution import execute
from agentlab.tools import Tool, find_tool, tool_from_function
from agentlab.workers import Workers

DOC = Path(__file__).parents[2] / "docs" / "simulated-models.md"
FORMATS = [NativeFormat(), ReactFormat("en"), ReactFormat("zh")]
TEXT = {"zh": "检查", "en": "Check"}

Result = Callable[[str, dict[str, Any]], ToolResult]


def query_user(user_id: str) -> None:
    """Look up a user."""


def check_amount(order_id: str) -> None:
    """Check an amount."""


def query_clock() -> None:
    """Look at the clock."""


TOOLS = tuple(tool_from_function(function) for function in (query_user, check_amount, query_clock))
ORDERS = ["ORDER1", "ORDER2", "ORDER3"]


def user_task(**changes: Any) -> Task:
    """A user whose second order is wrong: a query, then a check of each order that it returned."""
    checks = [
        {"id": f"amount{n}", "tool": "check_amount", "arguments": {"order_id": f"steps.user.output.orders[{n}].id"}}
        for n in range(3)
    ]
    fields: dict[str, Any] = {
        "id": "user--one-wrong",
        "suite": "test",
        "instruction": TEXT,
        "environment": "test",
        "criteria": [{"name": "amount_valid", "subject": "USER1", "description": TEXT}],
        "checks": {"amount_valid@USER1": "failed"},
        "members": {"amount_valid@USER1": ORDERS},
        "reference": [{"id": "user", "tool": "query_user", "arguments": {"user_id": "USER1"}}, *checks],
        "cluster": "user",
        "declared": {"steps": 4},
    }
    return Task.model_validate({**fields, **changes})


def shop(name: str, arguments: dict[str, Any]) -> ToolResult:
    if name == "query_user":
        if arguments != {"user_id": "USER1"}:
            return ToolResult(False, error_kind="not_found", message="no such user")
        return ToolResult(True, data={"orders": [{"id": order} for order in ORDERS]})
    if name == "check_amount" and arguments["order_id"] in ORDERS:
        passed = arguments["order_id"] != "ORDER2"
        return ToolResult(True, passed, check="amount_valid", subject=arguments["order_id"])
    return ToolResult(False, error_kind="not_found", message="no such order")


def request(
    task: Any,
    format: ReplyFormat,
    steps: list[tuple[str, dict[str, Any], ToolResult]],
    messages: list[Message] | None = None,
    tools: tuple[Tool, ...] = TOOLS,
    **where: Any,
) -> ModelRequest:
    context = RequestContext(
        **{"run_id": "r", "task": task, "repeat": 0, "seed": 1, "actor": "agent", "occurrence": 0, **where},
        steps=tuple(steps),
    )
    schemas = [tool.native_schema() for tool in tools] if format.native_tools else []
    return ModelRequest(
        messages or [{"role": "user", "content": "检查"}], tools, schemas, format, 0.0, None, 1, False, context
    )


@dataclasses.dataclass
class Drive:
    """A loop that only carries the model's intents out."""

    answer: Answer | None
    steps: list[tuple[str, dict[str, Any], ToolResult]]
    replies: list[Reply]
    unreadable: int
    refused: int


def drive(model: Model, task: Task, format: ReplyFormat, act: Result = shop, most: int = 60, **where: Any) -> Drive:
    async def run() -> Drive:
        done = Drive(None, [], [], 0, 0)
        messages: list[Message] = [{"role": "user", "content": "检查"}]
        for occurrence in range(most):
            asked = request(task, format, done.steps, messages, occurrence=occurrence, **where)
            done.replies.append(await model.complete(asked))
            intent = format.read(done.replies[-1], TOOLS)
            if isinstance(intent, FinishIntent):
                done.answer = intent.answer
                return done
            if isinstance(intent, Unreadable):
                done.unreadable += 1
                continue
            for name, arguments in intent.calls:
                if name in [tool.name for tool in TOOLS]:
                    done.steps.append((name, arguments, act(name, arguments)))
                    messages.append({"role": "user", "content": str(done.steps[-1][2])})
                else:
                    done.refused += 1
        return done

    return asyncio.run(run())


def statuses(done: Drive) -> dict[str, str]:
    assert done.answer is not None
    return {finding.key: finding.status for finding in done.answer.findings}


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f"{f.name}-{f.language}")
def test_perfect_walks_the_reference_and_reports_what_it_saw(format: ReplyFormat) -> None:
    task = user_task()
    done = drive(SimulatedModel("perfect"), task, format)
    assert [arguments for _, arguments, _ in done.steps] == [{"user_id": "USER1"}, *[{"order_id": o} for o in ORDERS]]
    assert statuses(done) == task.checks
    assert done.answer is not None
    assert done.answer.verdict == "failed"
    evidence = done.answer.findings[0].evidence
    assert "ORDER2" in evidence
    assert "ORDER1" not in evidence, "only the failing members are named"


def test_what_was_not_seen_is_not_evaluated() -> None:
    missing = user_task(
        checks={"amount_valid@USER1": "not_evaluated"},
        required_evidence=[{"tool": "query_user", "success": False}],
    )
    gone = ToolResult(False, error_kind="not_found", message="no such user")
    done = drive(SimulatedModel("perfect"), missing, NativeFormat(), act=lambda name, arguments: gone)
    assert [name for name, _, _ in done.steps] == ["query_user"], "steps that need its output are passed over"
    assert statuses(done) == missing.checks
    assert done.answer is not None
    assert done.answer.verdict == "incomplete"
    assert "not_found" in done.answer.findings[0].evidence


def test_a_criterion_over_no_members_passes_once_that_was_seen() -> None:
    task = user_task(
        checks={"amount_valid@USER1": "passed"},
        members={"amount_valid@USER1": []},
        required_evidence=[{"tool": "query_user", "arguments": {"user_id": "USER1"}}],
    )
    empty = ToolResult(True, data={"orders": []})
    assert statuses(drive(SimulatedModel("perfect"), task, NativeFormat(), act=lambda *_: empty)) == task.checks


def test_visible_statuses_count_and_the_latest_wins() -> None:
    criteria = [{"name": "clock_shown", "description": TEXT}]
    step = {"id": "clock", "tool": "query_clock"}
    task = user_task(
        criteria=criteria,
        checks={"clock_shown": "passed"},
        members={},
        reference=[step, {**step, "id": "again"}],
    )
    shown = iter(["failed", "passed"])
    done = drive(
        SimulatedModel("perfect"),
        task,
        NativeFormat(),
        act=lambda *_: ToolResult(True, visible={"clock_shown": next(shown)}),
    )
    assert len(done.steps) == 2, "a reference may make the same call twice"
    assert statuses(done) == task.checks


def test_a_refused_approval_is_not_asked_for_again() -> None:
    ask = dataclasses.replace(TOOLS[0], permission="ask")
    refusal = {
        "role": "user",
        "content": '{"success": false, "error_kind": "not_approved", "message": "query_user ..."}',
    }
    tools = (ask, *TOOLS[1:])
    format = NativeFormat()
    for messages, kind in (([{"role": "user", "content": "x"}], CallIntent), ([refusal], FinishIntent)):
        reply = asyncio.run(SimulatedModel("perfect").complete(request(user_task(), format, [], messages, tools)))
        assert isinstance(format.read(reply, tools), kind)


def test_a_task_without_truth_is_refused_with_the_reason() -> None:
    for task in (user_task(tags=[NO_TRUTH_TAG]), None):
        with pytest.raises(ConfigError, match="free text"):
            asyncio.run(SimulatedModel("perfect").complete(request(task, NativeFormat(), [])))


def test_a_large_result_is_passed_on_by_its_handle() -> None:
    rows = [{"id": order} for order in ORDERS]
    reference = [
        {"id": "user", "tool": "query_user", "arguments": {"user_id": "USER1"}},
        {"id": "all", "tool": "check_amount", "arguments": {"order_id": "steps.user.output"}},
        {"id": "one", "tool": "check_amount", "arguments": {"order_id": "steps.user.output[0].id"}},
    ]
    task = user_task(reference=reference)
    query = ("query_user", {"user_id": "USER1"}, ToolResult(True, data=rows))
    check = ("check_amount", {"order_id": rows}, ToolResult(True, True))
    sent = []
    for steps in ([query], [query, check]):
        asked = request(task, NativeFormat(), steps, handles={"result_1": rows})
        (call,) = asyncio.run(SimulatedModel("perfect").complete(asked)).tool_calls
        sent.append(call.arguments)
    assert sent == [{"order_id": "result_1"}, {"order_id": ORDERS[0]}]


def test_usage_is_an_estimate_cost_is_unknown() -> None:
    task, model = user_task(), SimulatedModel("perfect")
    short = asyncio.run(
        model.complete(request(task, NativeFormat(), [], [{"role": "user", "content": "检查订单" * 25}]))
    )
    assert short.usage is not None
    assert short.usage.source == "simulated"
    assert short.usage.cached_input_tokens is None
    assert short.cost_usd is None
    assert 0 < short.latency_s < 1
    react = asyncio.run(
        model.complete(request(task, ReactFormat(), [], [{"role": "user", "content": "检查订单" * 25}]))
    )
    assert react.usage is not None
    assert react.usage.input_tokens == 4 + 80
    assert short.usage.input_tokens is not None
    assert short.usage.input_tokens > 84, "native tool schemas are part of the prompt"
    assert short.usage.output_tokens is not None
    assert 5 < short.usage.output_tokens < 40


def test_tool_calls_and_parts_of_the_history_are_counted() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f" * 4, "arguments": "x" * 40}}
    history: list[Message] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": [{"type": "text", "text": "y" * 40}, {"type": "image_url", "image_url": {}}]},
    ]
    reply = asyncio.run(SimulatedModel("perfect").complete(request(user_task(), ReactFormat(), [], history)))
    assert reply.usage is not None
    assert reply.usage.input_tokens == 2 * 4 + 1 + 10 + 10


def test_the_same_request_gives_the_same_reply() -> None:
    task, model = user_task(), SimulatedModel("careless")

    def replies(**where: Any) -> list[Any]:
        done = drive(model, task, NativeFormat(), **where)
        return [(reply.text, reply.tool_calls, reply.problem) for reply in done.replies]

    runs = [replies(repeat=repeat, seed=seed) for repeat in range(8) for seed in range(8)]
    assert runs == [replies(repeat=repeat, seed=seed) for repeat in range(8) for seed in range(8)]
    assert len({repr(run) for run in runs}) > 10, "runs differ"


def test_call_ids_are_unique_within_a_run() -> None:
    done = drive(SimulatedModel("perfect"), user_task(), NativeFormat())
    ids = [call.id for reply in done.replies for call in reply.tool_calls]
    assert len(ids) == len(set(ids)) == 5


def share(
    errors: ErrorModel, happened: Callable[[Drive], bool], n: int = 400, format: ReplyFormat | None = None
) -> float:
    model, task = SimulatedModel("own", errors), user_task()
    return sum(happened(drive(model, task, format or NativeFormat(), seed=seed)) for seed in range(n)) / n


def test_each_fault_happens_as_often_as_published() -> None:
    # 400 runs: a share of 0.3 has a standard error of 0.023.
    def near(share: float, expected: float) -> bool:
        return abs(share - expected) < 0.08

    first_call = ("query_user", {"user_id": "USER1"})
    assert near(share(ErrorModel(skip_check=0.3), lambda d: len(d.steps) < 4), 1 - 0.7**3)
    assert near(share(ErrorModel(misread_verdict=0.3), lambda d: statuses(d)["amount_valid@USER1"] == "passed"), 0.3)
    assert near(share(ErrorModel(premature_finish=0.3), lambda d: len(d.steps) < 4), 1 - 0.7**3)
    assert near(share(ErrorModel(hallucinated_tool=0.3), lambda d: d.refused > 0), 1 - 0.7**4)
    assert near(share(ErrorModel(repeated_call=0.3), lambda d: d.steps[1][:2] == first_call), 0.3)
    assert near(share(ErrorModel(wrong_argument=0.3), lambda d: d.steps[0][1] != first_call[1]), 0.3)


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f"{f.name}-{f.language}")
def test_malformed_replies_come_as_often_as_published(format: ReplyFormat) -> None:
    def begins_unreadable(done: Drive) -> bool:
        return isinstance(format.read(done.replies[0], TOOLS), Unreadable)

    assert abs(share(ErrorModel(malformed=0.3), begins_unreadable, format=format) - 0.3) < 0.08


def test_unseen_criteria_may_be_claimed() -> None:
    task = user_task(reference=[], required_evidence=[])
    model = SimulatedModel("own", ErrorModel(claim_unseen=0.5))
    claims = [statuses(drive(model, task, NativeFormat(), seed=seed))["amount_valid@USER1"] for seed in range(200)]
    assert 70 < claims.count("passed") < 130
    assert set(claims) == {"passed", "not_evaluated"}


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f"{f.name}-{f.language}")
def test_after_any_fault_but_a_wrong_finding_the_run_still_comes_out_right(format: ReplyFormat) -> None:
    errors = ErrorModel(wrong_argument=0.2, hallucinated_tool=0.2, repeated_call=0.2, malformed=0.2)
    task = user_task()
    for seed in range(50):
        assert statuses(drive(SimulatedModel("own", errors), task, format, seed=seed)) == task.checks


def test_malformed_replies_are_written_as_broken_text_or_a_problem() -> None:
    always = SimulatedModel("own", ErrorModel(malformed=1.0))
    problems, texts = set(), set()
    for seed in range(30):
        native = asyncio.run(always.complete(request(user_task(), NativeFormat(), [], seed=seed)))
        assert native.tool_calls == ()
        problems.add(native.problem)
        react = asyncio.run(always.complete(request(user_task(), ReactFormat(), [], seed=seed)))
        assert isinstance(ReactFormat().read(react, TOOLS), Unreadable)
        texts.add(react.text.split("\n")[0])
    assert problems == {"truncated", "call_in_text"}
    assert len(texts) == 2


def test_draws_do_not_depend_on_the_strategy() -> None:
    errors = ErrorModel(misread_verdict=0.5)
    for seed in range(30):
        both = [statuses(drive(SimulatedModel("own", errors), user_task(), format, seed=seed)) for format in FORMATS]
        assert both[0] == both[1] == both[2]


def test_draws_depend_on_task_repeat_actor_and_seed() -> None:
    model, format = SimulatedModel("own", ErrorModel(malformed=0.5)), ReactFormat()

    def pattern(change: Callable[[int], dict[str, Any]]) -> list[bool]:
        asked = [{"task": user_task(), **change(number)} for number in range(40)]
        replies = [asyncio.run(model.complete(request(one.pop("task"), format, [], **one))) for one in asked]
        return ["Action Input" in reply.text and reply.text.endswith("}") for reply in replies]

    for change in (
        lambda n: {"seed": n},
        lambda n: {"repeat": n},
        lambda n: {"actor": f"actor{n}"},
        lambda n: {"occurrence": n},
        lambda n: {"task": user_task(id=f"task{n}")},
        lambda n: {"task": user_task(cluster=f"cluster{n}")},
    ):
        assert 5 < sum(pattern(change)) < 35


def test_context_decay_grows_with_the_request_and_is_capped() -> None:
    profile = PROFILES["context_decay"]
    assert profile.at(1500) == profile
    assert profile.at(2500).skip_check == pytest.approx(0.05)
    assert profile.at(100_000).skip_check == pytest.approx(0.3)
    assert {
        f.name for f in dataclasses.fields(ErrorModel) if getattr(profile.at(9000), f.name) != getattr(profile, f.name)
    } == set(DECAYING)


def test_context_decay_errs_more_often_after_a_long_history() -> None:
    task, format, model = user_task(), ReactFormat(), SimulatedModel("context_decay")
    steps = [(s.tool, {"user_id": "USER1"}, shop("query_user", {"user_id": "USER1"})) for s in task.reference[:1]]

    def finished(history_chars: int) -> int:
        messages: list[Message] = [{"role": "user", "content": "x" * history_chars}]
        asked = [request(task, format, steps, messages, seed=seed) for seed in range(200)]
        replies = [asyncio.run(model.complete(one)) for one in asked]
        return sum("Final Answer" in reply.text for reply in replies)

    assert finished(100) == 0
    assert finished(40_000) > 30


def test_an_unknown_profile_lists_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'careless'.*context_decay, malformed, perfect"):
        build("carelesss")


def test_the_published_table_is_the_code() -> None:
    text = DOC.read_text(encoding="utf-8")
    faults = [f.name for f in dataclasses.fields(ErrorModel) if not f.name.startswith("decay_")]
    header = f"| fault | {' | '.join(PROFILES)} |"
    assert header in text
    for fault in faults:
        cells = []
        for profile in PROFILES.values():
            decays = profile.decay_after_tokens is not None and fault in DECAYING
            cells.append(f"{getattr(profile, fault):g}" + (" + decay" if decays else ""))
        assert f"| `{fault}` | {' | '.join(cells)} |" in text
    decay = PROFILES["context_decay"]
    numbers = (decay.decay_after_tokens, decay.decay_per_1000_tokens, 1000, decay.decay_most)
    sentence = re.search(r"`context_decay`: once .*?\.\s", text)
    assert sentence is not None
    assert [float(number) for number in re.findall(r"\d+(?:\.\d+)?", sentence[0])] == list(numbers)


def test_a_reply_costs_microseconds() -> None:
    task, format, model = user_task(), NativeFormat(), SimulatedModel("perfect")
    asked = request(task, format, [("query_user", {"user_id": "USER1"}, shop("query_user", {"user_id": "USER1"}))])

    async def once() -> float:
        started = time.perf_counter()
        for _ in range(200):
            await model.complete(asked)
        return (time.perf_counter() - started) / 200

    assert min(asyncio.run(once()) for _ in range(5)) < 0.0005


@pytest.fixture(scope="module")
def orders() -> Suite:
    return load_suite("orders")


@pytest.mark.parametrize("format", [NativeFormat(), ReactFormat("zh")], ids=["native", "react"])
def test_perfect_is_right_on_every_task_of_the_orders_suite(orders: Suite, format: ReplyFormat) -> None:
    async def findings(task: Task) -> tuple[dict[str, str], str | None]:
        environment, workers = orders.make_environment({}), Workers()
        environment.reset(task, 7)
        tools = (*environment.tools(), submit_tool(task.criteria, "en"))
        steps: list[tuple[str, dict[str, Any], ToolResult]] = []
        try:
            for occurrence in range(task.complexity + 1):
                asked = request(task, format, steps, tools=tools, occurrence=occurrence)
                intent = format.read(await SimulatedModel("perfect").complete(asked), tools)
                if isinstance(intent, FinishIntent):
                    return {f.key: f.status for f in intent.answer.findings}, intent.answer.verdict
                assert isinstance(intent, CallIntent)
                ((name, arguments),) = intent.calls
                result = await execute(find_tool(tools, name), arguments, workers, 10.0)
                steps.append((name, arguments, result))
        finally:
            environment.close()
            workers.close()
        raise AssertionError(f"{task.id} did not finish")

    for task in orders.tasks:
        assert asyncio.run(findings(task)) == (task.checks, task.true_verdict), task.id
