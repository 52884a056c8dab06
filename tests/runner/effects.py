"""A tiny suite with real effects on disk, for killing a plan at every boundary; as a script it is `agentlab`.

Effects are lines appended to `effects.log` in EFFECTS_FOLDER. KILL_AT names the boundary at which the process kills
itself: before:STEP (inside the tool, before the effect), after:STEP (after the effect, before it is recorded),
recorded:STEP (after the change to `completed` was stored), rerun:STEP (an interrupted step was made ready again),
wait:STEP (a retry was stored), undo-before / undo-after (inside the undo tool).
"""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlab.environments import base
from agentlab.planning.journal import Journal
from agentlab.records import ToolResult
from agentlab.tasks import Criterion, Declared, ReferenceStep, Task, Text
from agentlab.tools import Tool, tool, tools_of

FOLDER = Path(os.environ.get("EFFECTS_FOLDER", "."))
KNOWS = os.environ.get("ENVIRONMENT_KNOWS") == "1"
TEXT = Text(zh="下单", en="order")
STEPS = [
    {"id": "look", "description": "d", "tool": "look", "arguments": {}, "depends_on": []},
    {"id": "create", "description": "d", "tool": "create", "arguments": {"name": "A"}, "depends_on": ["look"]},
    {"id": "pay", "description": "d", "tool": "pay", "arguments": {"name": "A"}, "depends_on": ["create"]},
    {"id": "check", "description": "d", "tool": "check", "arguments": {}, "depends_on": ["pay"]},
]
MAPPED = [
    STEPS[0],
    {
        "id": "all", "description": "d", "tool": "pay", "over": ["A", "B", "C"], "arguments": {"name": "item"},
        "depends_on": ["look"],
    },
    {"id": "check", "description": "d", "tool": "check", "arguments": {}, "depends_on": ["all"]},
]  # fmt: skip
ESCALATING = [
    STEPS[0],
    {"id": "test", "description": "d", "tool": "test", "arguments": {}, "depends_on": ["look"]},
    {"id": "pay", "description": "d", "tool": "pay", "arguments": {"name": "A"}, "depends_on": ["test"]},
    {"id": "check", "description": "d", "tool": "check", "arguments": {}, "depends_on": ["pay"]},
]
ESCALATING[1]["on_not_passed"] = "escalate"
ASKING = [
    *STEPS[:2],
    {"id": "send", "description": "d", "tool": "send", "arguments": {"name": "A"}, "depends_on": ["create"]},
    {"id": "check", "description": "d", "tool": "check", "arguments": {}, "depends_on": []},
]
FAILING = [
    *STEPS[:3],
    {"id": "ship", "description": "d", "tool": "ship", "arguments": {}, "depends_on": ["pay"], "is_critical": True},
]


def die(boundary: str) -> None:
    if os.environ.get("KILL_AT") == boundary and not (FOLDER / "killed").exists():
        (FOLDER / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)


def effects() -> list[str]:
    path = FOLDER / "effects.log"
    return path.read_text().split() if path.exists() else []


def act(name: str) -> None:
    with (FOLDER / "effects.log").open("a") as file:
        file.write(f"{name}\n")


class Effects:
    version = "1"

    def reset(self, task: Task, seed: int) -> None:
        return None

    def tools(self) -> tuple[Tool, ...]:
        return tools_of(self)

    @tool(timeout_s=None)
    def look(self) -> ToolResult:
        """Look."""
        act("look")
        return ToolResult(True, data={"seen": True})

    @tool(timeout_s=None, effect="write", compensate="uncreate")
    def create(self, name: str) -> ToolResult:
        """Create."""
        return self._effect("create")

    @tool(timeout_s=None, effect="write", compensate="refund")
    def pay(self, name: str) -> ToolResult:
        """Pay."""
        return self._effect("pay" if name == "A" else f"pay-{name}")

    @tool(timeout_s=None)
    def check(self) -> ToolResult:
        """Check."""
        return ToolResult(True, True, "paid")

    @tool(timeout_s=None)
    def test(self) -> ToolResult:
        """Test: does not pass the first time."""
        act("test")
        return ToolResult(True, effects().count("test") > 1, "tested")

    @tool(timeout_s=None, effect="irreversible", permission="ask")
    def send(self, name: str) -> ToolResult:
        """Send."""
        return self._effect("send")

    @tool(timeout_s=None, effect="write")
    def ship(self) -> ToolResult:
        """Ship."""
        return ToolResult(False, error_kind="no_stock", message="nothing left")

    @tool(timeout_s=None, effect="idempotent")
    def uncreate(self, name: str) -> ToolResult:
        """Undo create."""
        die("uncreate-before")
        if "uncreate" not in effects():
            act("uncreate")
        die("uncreate-after")
        return ToolResult(True)

    @tool(timeout_s=None, effect="write", repeatable=True)
    def refund(self, name: str) -> ToolResult:
        """Undo pay."""
        die("undo-before")
        act("refund")
        die("undo-after")
        return ToolResult(True)

    def _effect(self, name: str) -> ToolResult:
        die(f"before:{name}")
        act(name)
        die(f"after:{name}")
        return ToolResult(True, data={"name": "A"})

    def happened(self, name: str, arguments: Mapping[str, Any]) -> ToolResult | None:
        done = name if arguments.get("name", "A") == "A" else f"{name}-{arguments['name']}"
        return ToolResult(done in effects(), data={"name": "A"}) if KNOWS else None

    def observe(self) -> str:
        return ""

    def facts(self) -> dict[str, Any]:
        return {}

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: Any) -> None:
        return None

    def close(self) -> None:
        return None


def a_task(name: str, steps: list[dict[str, Any]]) -> Task:
    return Task(
        id=name,
        suite="effects",
        instruction=TEXT,
        environment="effects",
        criteria=(Criterion(name="paid", description=TEXT),),
        checks={"paid": "passed"},
        reference=(ReferenceStep(id="look", tool="look"),),
        plan={"steps": steps},
        cluster=name,
        declared=Declared(steps=4),
    )


def load_suite() -> base.Suite:
    def make(settings: Mapping[str, Any]) -> base.Environment:
        return Effects()

    plans = {"order": STEPS, "failing": FAILING, "asking": ASKING, "mapped": MAPPED, "escalating": ESCALATING}
    return base.Suite("effects", TEXT, tuple(a_task(name, steps) for name, steps in plans.items()), make)


def kill_after_recording() -> None:
    """Let the process die right after a change of a step was stored."""
    write = Journal.changes

    def changes(self: Journal, made: Any) -> None:
        write(self, made)
        for change in made:
            if change.after in ("completed", "rolled_back"):
                die(f"recorded:{change.step}")
            if change.before == "awaiting_approval" and change.after == "pending":
                die(f"approved:{change.step}")
            if change.before == "interrupted" and change.after == "pending":
                die(f"rerun:{change.step}")
            if change.after in ("running", "retry_wait"):
                die(f"{'started' if change.after == 'running' else 'wait'}:{change.step}")

    Journal.changes = changes  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.modules["effects"] = sys.modules["__main__"]
    base.SUITES["effects"] = "effects:load_suite"
    kill_after_recording()
    from agentlab.cli import main

    main()
