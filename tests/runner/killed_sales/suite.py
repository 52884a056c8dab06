"""The sales suite whose process dies in a tool, once, when a file beside the outbox says so.

`kill-before` and `kill-after` hold the name of the tool: before it has done anything, or once it has done everything
and nothing of that is recorded.
"""

import dataclasses
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentlab.environments.base import Environment, Suite
from agentlab.environments.base import load_suite as load_built_in
from agentlab.environments.sales.environment import SalesEnvironment
from agentlab.records import ToolResult
from agentlab.tools import Tool


def _die(orders: Path, tool: str) -> None:
    if orders.exists() and orders.read_text() == tool:
        orders.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


class Killed(SalesEnvironment):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self._folder = Path(settings["outbox"]).parent

    def tools(self) -> tuple[Tool, ...]:
        return tuple(dataclasses.replace(tool, function=self._deadly(tool)) for tool in super().tools())

    def _deadly(self, tool: Tool) -> Callable[..., ToolResult]:
        def call(**arguments: Any) -> ToolResult:
            assert tool.function is not None
            _die(self._folder / "kill-before", tool.name)
            result: ToolResult = tool.function(**arguments)
            _die(self._folder / "kill-after", tool.name)
            return result

        return call


def load_suite() -> Suite:
    def make(settings: Mapping[str, Any]) -> Environment:
        return Killed(settings)

    return dataclasses.replace(load_built_in("sales"), name="killed_sales", make_environment=make)
