import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentlab.approvals import Ask
from agentlab.budget import Budget, Meter
from agentlab.errors import BudgetExceeded, ConfigError, Interrupted, StopRun
from agentlab.models.scripted import ScriptedModel
from agentlab.records import Observation, ToolCall, ToolResult, Unreadable
from agentlab.session import Session, SessionSettings, SuiteKnowledge
from agentlab.strategies.native import NativeFormat
from agentlab.tasks import Criterion, Declared, Task, Text
from agentlab.tools import Tool, tool_from_function
from agentlab.trace import Trace

TEXT = Text(zh="检查", en="check")
TASK = Task(
    id="t",
    suite="s",
    instruction=TEXT,
    environment="e",
    criteria=(Criterion(name="ok", description=TEXT),),
    checks={"ok": "passed"},
    reference=(),
    cluster="c",
    declared=Declared(steps=1),
)


def a_session(
    *tools: Tool, replies: Any = (), budget: Budget | None = None, ask_person: Ask | None = None, **settings: Any
) -> Session:
    return Session(
        TASK.view("en"),
        tools,
        SessionSettings(**settings),
        SuiteKnowledge(),
        TASK,
        ScriptedModel(list(replies)),
        Meter(budget or Budget()),
        Trace("r"),
        _ask_person=ask_person,
    )


def calling(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c1", name, arguments)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def events(session: Session, kind: str) -> list[dict[str, Any]]:
    return [event.data for event in session._trace.of_kind(kind)]


def look_tool(function: Callable[[], Any], **marks: Any) -> Tool:
    def look() -> Any:
        """Look."""
        return function()

    return tool_from_function(look, **marks)


def test_e01_a_tool_that_never_returns_ends_after_its_limit_and_the_run_goes_on() -> None:
    never = look_tool(lambda: threading.Event().wait(), timeout_s=0.1, max_retries=0)

    async def never_either() -> None:
        """Wait for nothing."""
        await asyncio.get_running_loop().create_future()

    waits = tool_from_function(never_either, timeout_s=0.1, max_retries=0)

    def add(a: int) -> int:
        """Add one."""
        return a + 1

    session = a_session(never, waits, tool_from_function(add))
    started = time.perf_counter()

    async def work() -> list[Observation]:
        return [
            await session.act("agent", calling(name, **a))
            for name, a in (("look", {}), ("never_either", {}), ("add", {"a": 1}))
        ]

    hung, hung_too, added = run(work())
    assert time.perf_counter() - started < 1.0
    assert [hung.result.error_kind, hung_too.result.error_kind] == ["timed_out", "timed_out"]
    assert "timed out after 0.1 s" in hung.text
    assert added.result.data == 2


def test_e01_a_hung_tool_does_not_keep_the_process() -> None:
    import subprocess

    code = """
import asyncio, threading
from agentlab.tools import tool_from_function
from agentlab.tool_execution import execute
from agentlab.workers import Workers
def hang() -> None:
    "Hang."
    threading.Event().wait()
print(asyncio.run(execute(tool_from_function(hang), {}, Workers(), 0.1)).error_kind)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout.strip(), done.returncode) == ("timed_out", 0)


@pytest.mark.parametrize("timeout_s", [1.0, None])
def test_e02_ctrl_c_in_a_tool_is_a_persons_stop(timeout_s: float | None) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    session = a_session(look_tool(interrupt, timeout_s=timeout_s))
    with pytest.raises(Interrupted):
        run(session.act("agent", calling("look")))


class OddError(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [SystemExit(2), OddError("odd"), RuntimeError("broken"), ConnectionError("down"), asyncio.CancelledError()]
)
@pytest.mark.parametrize("timeout_s", [1.0, None])
def test_e02_whatever_else_a_tool_raises_is_a_result(error: BaseException, timeout_s: float | None) -> None:
    def fail() -> None:
        raise error

    session = a_session(look_tool(fail, timeout_s=timeout_s, max_retries=0))
    observation = run(session.act("agent", calling("look")))
    assert observation.result.success is False
    assert observation.result.error_kind in ("tool_failed", "connection_failed")


def test_e03_results_that_json_cannot_carry_are_a_tool_error_that_names_the_field() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    results = iter([loop, None, {"success": False, "passed": False, "message": "订单不存在"}])
    session = a_session(look_tool(lambda: next(results), repeatable=True))

    async def work() -> list[Observation]:
        return [await session.act("agent", calling("look")) for _ in range(3)]

    circular, nothing, missing = run(work())
    assert circular.result.error_kind == "bad_result"
    assert "$.again contains itself" in circular.text
    assert (nothing.result.success, nothing.result.data) == (True, None)
    assert (missing.result.success, missing.result.passed, missing.result.message) == (False, None, "订单不存在")


def test_e04_an_effect_that_timed_out_is_never_repeated_but_a_read_is() -> None:
    refunds: list[str] = []
    reads: list[str] = []

    def create_refund(order_id: str) -> str:
        """Refund."""
        refunds.append(order_id)
        time.sleep(0.3)
        return "done"

    def read_order(order_id: str) -> str:
        """Read."""
        reads.append(order_id)
        if len(reads) == 1:
            time.sleep(0.3)
        return "read"

    session = a_session(
        tool_from_function(create_refund, effect="write", timeout_s=0.05),
        tool_from_function(read_order, timeout_s=0.05),
    )

    async def work() -> list[Observation]:
        first = await session.act("agent", calling("create_refund", order_id="O1"))
        again = await session.act("agent", calling("create_refund", order_id="O1"))
        return [first, again, await session.act("agent", calling("read_order", order_id="O1"))]

    first, again, read = run(work())
    assert refunds == ["O1"]
    assert "Whether it took effect is unknown" in first.text
    assert "not executed again" in again.text
    assert [call["executed"] for call in events(session, "tool_call")] == [True, False, True]
    assert (read.result.data, len(reads), events(session, "tool_call")[2]["tries"]) == ("read", 2, 2)


def test_an_effect_that_was_refused_may_be_requested_again_until_it_happened() -> None:
    stock = [3]
    answers = iter([ToolResult(False, error_kind="service_unavailable"), None, None])

    def take(n: int) -> ToolResult:
        """Take."""
        refusal = next(answers)
        if refusal is None:
            stock[0] -= n
        return refusal or ToolResult(True)

    session = a_session(tool_from_function(take, effect="write"))

    async def work() -> list[Observation]:
        return [await session.act("agent", calling("take", n=1)) for _ in range(3)]

    seen = run(work())
    assert stock == [2]
    assert [call["executed"] for call in events(session, "tool_call")] == [True, True, False]
    assert [observation.result.success for observation in seen] == [False, True, True]
    assert "not executed again" in seen[2].text


def test_e05_the_same_call_is_noticed_once_and_then_ends_the_run() -> None:
    def check(order_id: str, note: str = "") -> str:
        """Check."""
        return "negative"

    session = a_session(tool_from_function(check))

    async def work() -> list[Observation]:
        seen = [
            await session.act("agent", ToolCall(f"c{i}", "check", {"order_id": "O1", "note": "n"})) for i in range(2)
        ]
        await session.act("agent", ToolCall("c3", "check", {"note": "n", "order_id": "O1"}))
        return seen

    with pytest.raises(StopRun, match="3 times") as stop:
        run(work())
    assert stop.value.end_reason == "loop_detected"
    texts = [call["observation"] for call in events(session, "tool_call")]
    assert ["notice" in text for text in texts] == [False, True, True]


def test_e05_alternating_calls_are_a_loop_too() -> None:
    def check(order_id: str) -> str:
        """Check."""
        return "same"

    session = a_session(tool_from_function(check))

    async def work() -> None:
        for order in "ABABABAB":
            await session.act("agent", calling("check", order_id=order))

    with pytest.raises(StopRun):
        run(work())
    assert len(events(session, "tool_call")) == 5


def test_a_changing_result_is_no_loop() -> None:
    values = iter(range(10))
    session = a_session(look_tool(lambda: next(values)))

    async def work() -> list[Any]:
        return [(await session.act("agent", calling("look"))).result.data for _ in range(6)]

    assert run(work()) == [0, 1, 2, 3, 4, 5]


def test_a30_a_huge_result_is_cut_in_the_middle_and_its_handle_works_in_other_tools() -> None:
    huge = "a" * 999_999 + "🦊" + "b" * 1_000_000

    def size(text: str) -> int:
        """Measure."""
        return len(text)

    session = a_session(look_tool(lambda: huge), tool_from_function(size))

    async def work() -> tuple[Observation, Observation]:
        seen = await session.act("agent", calling("look"))
        return seen, await session.act("agent", calling("size", text="result_1"))

    seen, measured = run(work())
    assert len(seen.text) <= 20_000
    assert seen.text.encode("utf-8")
    assert "aaaa" in seen.text
    assert seen.text.rstrip('"}').endswith("b")
    assert "left out" in seen.text
    assert "result_1" in seen.text
    assert measured.result.data == 2_000_000
    assert events(session, "tool_call")[0]["data"] == huge


def test_a_model_is_told_of_handles_by_the_requests_context() -> None:
    session = a_session(look_tool(lambda: "x" * 30_000))
    session._model = ScriptedModel(lambda request: str(sorted(request.context.handles)))

    async def work() -> list[str]:
        texts = []
        for _ in range(2):
            texts.append((await session.ask("agent", [{"role": "user", "content": "hi"}], NativeFormat())).text)
            await session.act("agent", calling("look"))
        return texts

    assert run(work()) == ["[]", "['result_1']"]


def test_a_large_table_is_shown_as_rows_columns_and_preview() -> None:
    rows = [{"id": i, "name": "x" * 50} for i in range(1000)]
    seen = run(a_session(look_tool(lambda: rows)).act("agent", calling("look")))
    assert '"rows": 1000' in seen.text
    assert '"columns": ["id", "name"]' in seen.text
    assert seen.text.count('"id":') == 5


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            calling("delete_order", order_id="O1"),
            "unknown_tool",
            "There is no tool 'delete_order'. Available tools: read",
        ),
        (calling("read", order="O1"), "bad_arguments", "order_id is missing"),
        (
            ToolCall("c", "read", None, problem="truncated", detail="cut off; nothing was executed"),
            "truncated",
            "nothing was executed",
        ),
    ],
)
def test_a_call_that_may_not_run_is_answered_and_costs_no_tool_call(call: ToolCall, kind: str, words: str) -> None:
    ran: list[str] = []

    def read(order_id: str) -> None:
        """Read."""
        ran.append(order_id)

    session = a_session(tool_from_function(read))
    observation = run(session.act("agent", call))
    assert observation.result.error_kind == kind
    assert words in observation.text
    assert (ran, session._meter.tool_calls) == ([], 0)


def test_uses_and_approvals_are_enforced() -> None:
    paid: list[float] = []

    def pay(amount: float) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    ask = tool_from_function(pay, effect="irreversible", permission="ask", max_uses=1)

    async def work(session: Session) -> list[str | None]:
        return [(await session.act("agent", calling("pay", amount=a))).result.error_kind for a in (1.0, 2.0)]

    assert run(work(a_session(ask))) == ["not_approved", "not_approved"]
    assert paid == []
    assert run(work(a_session(ask, approvals="allow"))) == [None, "used_up"]
    assert run(work(a_session(ask, approved_tools=frozenset({"pay"})))) == [None, "used_up"]
    assert paid == [1.0, 1.0]
    deny = tool_from_function(pay, permission="deny")
    assert run(work(a_session(deny, approvals="allow"))) == ["not_approved", "not_approved"]


def test_uses_are_counted_although_a_person_was_asked_in_between() -> None:
    paid: list[float] = []

    def pay(amount: float) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def approve(tool: Tool, arguments: Any, step: str | None) -> bool:
        await asyncio.sleep(0.01)
        return True

    tool = tool_from_function(pay, effect="irreversible", permission="ask", max_uses=1)
    session = a_session(tool, ask_person=approve, approvals="ask")

    async def work() -> list[str | None]:
        both = await asyncio.gather(*(session.act("agent", calling("pay", amount=a)) for a in (1.0, 2.0)))
        return [each.result.error_kind for each in both]

    assert run(work()) == [None, "used_up"]
    assert paid == [1.0]


def test_an_equal_call_waits_for_the_first_and_finds_its_effect() -> None:
    paid: list[float] = []

    async def pay(amount: float) -> str:
        """Pay, slowly."""
        await asyncio.sleep(0.02)
        paid.append(amount)
        return "paid"

    session = a_session(tool_from_function(pay, effect="write"))

    async def work() -> list[int]:
        calls = [session.act("agent", calling("pay", amount=1.0), by_program=True) for _ in range(3)]
        return [each.tries for each in await asyncio.gather(*calls)]

    assert run(work()) == [1, 0, 0]
    assert paid == [1.0]


def test_a_person_approves_one_call_with_its_arguments_once() -> None:
    paid: list[float] = []

    def pay(amount: float) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    tool = tool_from_function(pay, effect="irreversible", permission="ask", repeatable=True)
    asked: list[Any] = []
    decisions: list[bool | None] = [True, False, None, True]

    async def person(tool: Tool, arguments: Any, step_id: str | None) -> bool | None:
        asked.append((tool.name, arguments, step_id))
        return decisions[len(asked) - 1]

    async def work(session: Session) -> list[str | None]:
        amounts = (1.0, 1.0, 2.0, 2.0)
        calls = [await session.act("agent", calling("pay", amount=a), "step") for a in amounts]
        return [observation.result.error_kind for observation in calls]

    session = a_session(tool, ask_person=person, approvals="ask")
    assert run(work(session)) == [None, "not_approved", "not_approved", None]
    assert paid == [1.0, 2.0]
    assert asked == [("pay", {"amount": amount}, "step") for amount in (1.0, 1.0, 2.0, 2.0)]
    assert [(event["allowed"], event["by"]) for event in events(session, "approval")] == [
        (True, "person"), (False, "person"), (None, "person"), (True, "person"),
    ]  # fmt: skip
    nobody = a_session(tool, approvals="ask")
    assert run(work(nobody)) == ["not_approved"] * 4
    beforehand = a_session(tool, approvals="ask", approved_tools=frozenset({"pay"}))
    assert run(work(beforehand)) == [None] * 4
    assert {event["by"] for event in events(beforehand, "approval")} == {"suite"}
    never = tool_from_function(pay, effect="irreversible", permission="deny")
    assert run(work(a_session(never, ask_person=person, approvals="ask"))) == ["not_approved"] * 4


def test_an_approval_before_the_call_is_for_that_call_alone() -> None:
    def pay(amount: float) -> str:
        """Pay."""
        return "paid"

    async def yes(tool: Tool, arguments: Any, step_id: str | None) -> bool | None:
        return True

    session = a_session(tool_from_function(pay, permission="ask"), ask_person=yes, approvals="ask")
    assert session.must_ask(calling("pay", amount=1.0))
    assert run(session.approval("agent", calling("pay", amount=1.0)))
    assert not session.must_ask(calling("pay", amount=1.0))
    assert session.must_ask(calling("pay", amount=2.0))
    run(session.act("agent", calling("pay", amount=1.0)))
    assert session.must_ask(calling("pay", amount=1.0))


def test_no_call_after_exhaustion_and_unreadable_replies_are_billed() -> None:
    usage = {"input_tokens": 60, "output_tokens": 5}
    session = a_session(
        replies=[{"text": "", "problem": "empty_answer", "usage": usage}] * 3, budget=Budget(total_tokens=100)
    )

    async def work() -> None:
        while True:
            await session.ask("agent", [{"role": "user", "content": "hi"}], NativeFormat())

    with pytest.raises(BudgetExceeded) as stop:
        run(work())
    assert stop.value.end_reason == "budget_total_tokens"
    assert len(events(session, "model_call")) == session._meter.model_calls == 2


def test_unknown_usage_is_none_and_still_limited_by_an_estimate() -> None:
    session = a_session(replies=["x" * 4000] * 3, budget=Budget(total_tokens=1500))

    async def work() -> None:
        while True:
            await session.ask("agent", [{"role": "user", "content": "hi"}], NativeFormat())

    with pytest.raises(BudgetExceeded):
        run(work())
    meter = session._meter
    assert (meter.total_tokens, meter.unknown_usage_calls) == (0, 2)
    assert "usage" not in events(session, "model_call")[0]


def test_parallel_calls_cannot_slip_past_a_limit() -> None:
    session = a_session(look_tool(lambda: time.sleep(0.01), repeatable=True), budget=Budget(tool_calls=3))

    async def work() -> list[Any]:
        return await asyncio.gather(*(session.act("agent", calling("look")) for _ in range(10)), return_exceptions=True)

    outcomes = run(work())
    assert sum(isinstance(outcome, Observation) for outcome in outcomes) == 3
    assert sum(isinstance(outcome, BudgetExceeded) for outcome in outcomes) == 7


def test_work_seconds_bound_a_tool() -> None:
    session = a_session(look_tool(lambda: time.sleep(5), max_retries=0), budget=Budget(work_s=0.1))
    started = time.perf_counter()
    assert run(session.act("agent", calling("look"))).result.error_kind == "timed_out"
    with pytest.raises(BudgetExceeded, match="work_s"):
        run(session.act("agent", calling("look")))
    assert time.perf_counter() - started < 1


def test_unreadable_replies_in_a_row_end_the_run() -> None:
    session = a_session(look_tool(lambda: "seen", repeatable=True))
    problem = Unreadable("format_error", "write it so")
    assert session.unreadable("agent", problem) == session.unreadable("agent", problem) == "write it so"
    run(session.act("agent", calling("look")))
    session.unreadable("agent", problem)
    session.unreadable("agent", problem)
    with pytest.raises(StopRun) as stop:
        session.unreadable("agent", problem)
    assert stop.value.end_reason == "format_limit"


@pytest.mark.parametrize(
    ("problem", "end_reason"), [("context_too_long", "context_overflow"), ("content_filtered", "content_filtered")]
)
def test_problems_that_cannot_be_repeated_end_the_run(problem: str, end_reason: str) -> None:
    session = a_session(replies=[{"problem": problem}])
    with pytest.raises(StopRun) as stop:
        run(session.ask("agent", [{"role": "user", "content": "hi"}], NativeFormat()))
    assert stop.value.end_reason == end_reason


def test_a_trace_holds_each_message_once() -> None:
    session = a_session(replies=["a", "b", "c"])
    messages: list[dict[str, Any]] = [{"role": "user", "content": "one"}]

    async def work() -> None:
        await session.ask("agent", messages, NativeFormat())
        messages.append({"role": "user", "content": "two"})
        await session.ask("agent", messages, NativeFormat())
        await session.ask("agent", [{"role": "user", "content": "other"}], NativeFormat())

    run(work())
    shown = [
        (call["messages_from"], [m["content"] for m in call["messages"]]) for call in events(session, "model_call")
    ]
    assert shown == [(0, ["one"]), (1, ["two"]), (0, ["other"])]


def test_a_checking_tool_keeps_both_facts() -> None:
    session = a_session(look_tool(lambda: ToolResult(True, False, "amount_valid", "O1", {"amount": -20.0})))
    run(session.act("agent", calling("look")))
    call = events(session, "tool_call")[0]
    assert (call["success"], call["passed"], call["check"], call["subject"]) == (True, False, "amount_valid", "O1")


# What a tool returns


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (ToolResult(True, passed="no", check="ok"), "passed='no' (str), expected True, False or None"),  # type: ignore[arg-type]
        (ToolResult(True, passed=1, check="ok"), "passed=1 (int), expected True, False or None"),  # type: ignore[arg-type]
        (ToolResult("yes"), "success='yes' (str), expected True or False"),  # type: ignore[arg-type]
        ({"success": True, "passed": "no"}, "passed='no' (str), expected True, False or None"),
        ({"success": "no"}, "success='no' (str), expected True or False"),
        ({"success": None, "data": 1}, "success=None (NoneType), expected True or False"),
    ],
)
def test_a_result_that_is_neither_yes_nor_no_is_refused(returned: Any, words: str) -> None:
    session = a_session(look_tool(lambda: returned))
    observation = run(session.act("agent", calling("look")))
    assert (observation.result.success, observation.result.passed) == (False, None)
    assert observation.result.error_kind == "bad_result"
    assert observation.result.message == f"look ran, but its result has {words}."


def test_a_tool_named_like_the_one_that_hands_in_the_answer_is_refused_before_anything_runs() -> None:
    def submit() -> bool:
        """Hand in a form."""
        return True

    with pytest.raises(ConfigError, match="tool name 'submit' is taken"):
        a_session(tool_from_function(submit))
