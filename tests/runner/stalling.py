"""A tiny suite whose tool stalls in one run on request; run as a script it executes the experiment of E08."""

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlab.environments import base
from agentlab.records import ToolResult
from agentlab.tasks import Criterion, Declared, ReferenceStep, Task, Text
from agentlab.tools import Tool, tool, tools_of

FOLDER = Path(os.environ.get("STALL_FOLDER", "."))


def a_task(number: int) -> Task:
    text = Text(zh=f"检查 {number}", en=f"check {number}")
    steps = tuple(ReferenceStep(id=name, tool=f"check_{name}") for name in ("one", "two"))
    return Task(
        id=f"t{number}",
        suite="stalling",
        instruction=text,
        environment="stalling",
        criteria=tuple(Criterion(name=name, description=text) for name in ("one", "two")),
        checks={"one": "passed", "two": "passed"},
        reference=steps,
        cluster=f"t{number}",
        declared=Declared(steps=2),
    )


class Stalling:
    version = "1"

    def reset(self, task: Task, seed: int) -> None:
        with (FOLDER / "starts").open("a") as file:
            file.write("x")

    def tools(self) -> tuple[Tool, ...]:
        return tools_of(self)

    @tool(timeout_s=None)
    def check_one(self) -> ToolResult:
        """Check one."""
        if os.environ.get("INTERRUPT_AT") == str(self.count()):
            raise KeyboardInterrupt
        return ToolResult(True, True, "one")

    @tool(timeout_s=60.0)
    def check_two(self) -> ToolResult:
        """Check two."""
        if os.environ.get("STALL_AT") == str(self.count()):
            (FOLDER / "stalled").touch()
            time.sleep(60)
        return ToolResult(True, True, "two")

    def count(self) -> int:
        return len((FOLDER / "starts").read_text())

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


def load_suite() -> base.Suite:
    def make(settings: Mapping[str, Any]) -> base.Environment:
        return Stalling()

    return base.Suite("stalling", Text(zh="停顿", en="stalling"), (a_task(1), a_task(2)), make)


base.SUITES["stalling"] = f"{__name__}:load_suite"

if __name__ == "__main__":
    sys.modules["stalling"] = sys.modules["__main__"]
    base.SUITES["stalling"] = "stalling:load_suite"
    from agentlab.cli import main

    main()
