"""Plans whose effects could happen twice, or be undone wrongly; as a script it is `agentlab` with the suite `more`.

KILL_AT as in `effects`; besides it slow:N (inside the step slow), undo-before-NAME (inside the undo of that payment).
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from typing import Any

from effects import FOLDER, TEXT, Effects, a_task, act, die, effects, kill_after_recording, load_suite

from agentlab.environments import base
from agentlab.records import ToolResult
from agentlab.tools import tool


def a_step(step_id: str, tool_name: str, *needs: str, **more: Any) -> dict[str, Any]:
    written = {"id": step_id, "description": "d", "tool": tool_name, "depends_on": list(needs)}
    return {**written, "arguments": {}, **more}


def a_map(tool_name: str, entries: list[str], **more: Any) -> dict[str, Any]:
    return a_step("all", tool_name, over=entries, arguments={"name": "item"}, **more)


NAME_A = {"arguments": {"name": "A"}}
PLANS = {
    "flaky": [a_step("flaky", "flaky"), a_step("check", "check", "flaky")],
    "partial": [a_map("pay_in_stock", ["A", "B"], on_error="escalate"), a_step("check", "check", "all")],
    "partretry": [
        a_map("pay_flaky", ["A", "B"]),
        a_step("slow1", "slow", priority="low", arguments={"n": 1}),
        a_step("slow2", "slow", "slow1", priority="high", arguments={"n": 2}),
        a_step("check", "check", "all"),
    ],
    "rolled": [
        a_step("create", "create", **NAME_A),
        a_step("total", "total", "create", arguments={"name": "steps.create.output.name"}),
        a_step("ship", "ship", "total", is_critical=True),
        a_step("slow1", "slow", priority="low", arguments={"n": 0}),
        a_step("check", "check", "slow1"),
    ],
    "paycheck": [a_step("pc", "pay_and_check", on_not_passed="escalate", **NAME_A), a_step("check", "check", "pc")],
    "mapfail": [a_map("pay", ["B", "C"]), a_step("ship", "ship", "all", is_critical=True)],
    "mapped": [a_map("pay", ["B", "C"]), a_step("check", "check", "all")],
    "twice": [a_map("pay_once", ["A", "A"]), a_step("ship", "ship", "all", on_error="rollback")],
    "twosteps": [
        a_step("p1", "pay_once", **NAME_A),
        a_step("p2", "pay_once", **NAME_A),
        a_step("ship", "ship", "p1", "p2", on_error="rollback"),
    ],
    "closed": [
        a_step("p1", "pay_once", arguments={"name": "CLOSED"}),
        a_step("ship", "ship", "p1", on_error="rollback"),
    ],
    "asking": [
        a_step("w", "wait"),
        a_step("s", "wait", "w", priority="high"),
        {
            **a_step("p", "wipe", priority="high", arguments={"table": "tmp", "where": "steps.w.output.text"}),
            "weak_depends_on": ["w"],
        },
    ],
}


class MoreEffects(Effects):
    @tool(timeout_s=None, max_retries=0)
    def flaky(self) -> ToolResult:
        """Work the second time."""
        act("flaky")
        return self._second_time("flaky")

    @tool(timeout_s=None, effect="write", compensate="refund")
    def pay(self, name: str) -> ToolResult:
        """Pay."""
        self._effect(f"pay-{name}")
        return ToolResult(True)

    @tool(timeout_s=None)
    def total(self, name: str) -> ToolResult:
        """Add up."""
        return ToolResult(True, data={"total": 1})

    @tool(timeout_s=None)
    def slow(self, n: int) -> ToolResult:
        """Take its time."""
        time.sleep(1.2 * (n == 1))
        die(f"slow:{n}")
        return ToolResult(True)

    @tool(timeout_s=None, effect="write")
    def pay_in_stock(self, name: str) -> ToolResult:
        """Pay what is in stock."""
        if name == "B" and not (FOLDER / "stock").exists():
            return ToolResult(False, error_kind="no_stock", message="none left")
        return self._effect(f"pay-{name}")

    @tool(timeout_s=None, effect="write")
    def pay_flaky(self, name: str) -> ToolResult:
        """Pay; B works the second time."""
        if name == "B":
            act("try-B")
            if not (answer := self._second_time("try-B")).success:
                return answer
        return self._effect(f"pay-{name}")

    @tool(timeout_s=None, effect="write")
    def pay_and_check(self, name: str) -> ToolResult:
        """Pay, and say that the amount was wrong."""
        act("pay")
        return ToolResult(True, False, "amount")

    @tool(timeout_s=5.0, effect="write", compensate="refund_once")
    def pay_once(self, name: str) -> ToolResult:
        """Pay, slowly."""
        if name == "CLOSED":
            return ToolResult(False, error_kind="no_account", message="account CLOSED is closed, use OPEN")
        time.sleep(0.1)
        act(f"pay-{name}")
        return ToolResult(True)

    @tool(timeout_s=None, effect="write")
    def refund_once(self, name: str) -> ToolResult:
        """Undo pay_once."""
        act(f"refund-{name}")
        return ToolResult(True)

    @tool(timeout_s=None, effect="write", repeatable=True)
    def refund(self, name: str) -> ToolResult:
        """Undo pay."""
        die(f"undo-before-{name}")
        act(f"refund-{name}")
        return ToolResult(True)

    @tool(timeout_s=1.0)
    async def wait(self) -> ToolResult:
        """Find out what to wipe, which takes a while."""
        await asyncio.sleep(0.1)
        return ToolResult(True, data={"text": "EVERYTHING"})

    @tool(timeout_s=None, effect="irreversible", permission="ask")
    def wipe(self, table: str, where: str = "") -> ToolResult:
        """Wipe a table."""
        act(f"wipe-{where}")
        return ToolResult(True)

    def _second_time(self, name: str) -> ToolResult:
        is_second = effects().count(name) > 1
        return ToolResult(True) if is_second else ToolResult(False, error_kind="service_unavailable", message="503")


def load_more() -> base.Suite:
    def make(settings: Mapping[str, Any]) -> base.Environment:
        return MoreEffects()

    tasks = [a_task(name, steps).model_copy(update={"suite": "more"}) for name, steps in PLANS.items()]
    return base.Suite("more", TEXT, (*tasks, *load_suite().tasks[:1]), make)


if __name__ == "__main__":
    sys.modules["more_effects"] = sys.modules["__main__"]
    base.SUITES["more"] = "more_effects:load_more"
    kill_after_recording()
    from agentlab.cli import main

    main()
