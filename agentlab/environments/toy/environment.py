"""The toy environment: boxes, notes and a handful of faults, all in plain Python objects."""

import threading
from collections.abc import Mapping
from typing import Any

from agentlab.environments.changes import starting_state
from agentlab.errors import unknown_name
from agentlab.json_values import copy_json
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tool, tools_of

LOG_TEXT = "a" * 99_999 + "🦊" + "b" * 100_000
HANG_TIMEOUT_S = 0.2

_EMPTY: JsonObject = {
    "numbers": {},
    "notes": {},
    "published": [],
    "faults": {},
    "seal": "",
    "writes": 0,
    "publications": 0,
    "sensor_reads": 0,
}


class ToyTools:
    """The tools of one run. They run inline, all but the one that can hang."""

    def __init__(self) -> None:
        self.state: JsonObject = copy_json(_EMPTY)

    @tool(timeout_s=None, zh="读取箱子里的数。")
    def read_box(self, name: str) -> ToolResult:
        """Read the number in a box.

        Args:
            name: Name of the box.
        """
        if name not in self.state["numbers"]:
            return _not_found("Box", name)
        return ToolResult(True, subject=name, data={"name": name, "value": self.state["numbers"][name]})

    @tool(timeout_s=None, zh="检查箱子里的数是否有效：不能为负。")
    def check_box(self, name: str) -> ToolResult:
        """Check whether the number in a box is valid, that is, not negative.

        Args:
            name: Name of the box.
        """
        return self._number_check("box_valid", name)

    @tool(timeout_s=None, zh="检查仪表读数是否有效：不能为负。")
    def check_gauge(self, name: str) -> ToolResult:
        """Check whether a gauge shows a valid number, that is, not a negative one.

        Args:
            name: Name of the gauge.
        """
        if self.state["faults"].get(name) == "raises":
            raise RuntimeError(f"the needle of {name} is stuck")
        return self._number_check("gauge_valid", name)

    @tool(timeout_s=None, zh="检查传感器读数是否有效：不能为负。连接可能偶尔中断。")
    def check_sensor(self, name: str) -> ToolResult:
        """Check whether a sensor gives a valid number, that is, not a negative one; its line may drop out.

        Args:
            name: Name of the sensor.
        """
        self.state["sensor_reads"] += 1
        if self.state["sensor_reads"] == 1:
            raise ConnectionResetError(f"the line to {name} dropped out")
        return self._number_check("sensor_valid", name)

    @tool(timeout_s=HANG_TIMEOUT_S, max_retries=0, zh="等待信号并检查它的值是否有效：不能为负。")
    def check_signal(self, name: str) -> ToolResult:
        """Wait for a signal and check whether its number is valid, that is, not negative.

        Args:
            name: Name of the signal.
        """
        if self.state["faults"].get(name) == "hangs":
            threading.Event().wait()
        return self._number_check("signal_valid", name)

    @tool(timeout_s=None, zh="读取箱子的完整日志，可能很长。")
    def read_log(self, name: str) -> ToolResult:
        """Read the whole log of a box, which may be long.

        Args:
            name: Name of the box.
        """
        if name not in self.state["numbers"]:
            return _not_found("Box", name)
        return ToolResult(True, subject=name, data=LOG_TEXT)

    @tool(timeout_s=None, effect="write", compensate="remove_note", zh="写一张便条；同名的便条会被替换。")
    def write_note(self, name: str, text: str) -> ToolResult:
        """Write a note; a note of the same name is replaced.

        Args:
            name: Name of the note.
            text: Text of the note.
        """
        self.state["writes"] += 1
        if self.state["faults"].get(name) != "loses":
            self.state["notes"][name] = text
        return ToolResult(True, subject=name, message=f"{name} is written.")

    @tool(timeout_s=None, effect="write", zh="删除一张便条。")
    def remove_note(self, name: str) -> ToolResult:
        """Remove a note.

        Args:
            name: Name of the note.
        """
        if name not in self.state["notes"]:
            return _not_found("Note", name)
        self.state["writes"] += 1
        del self.state["notes"][name]
        return ToolResult(True, subject=name, message=f"{name} is removed.")

    @tool(timeout_s=None, zh="检查便条是否存在。")
    def check_note(self, name: str) -> ToolResult:
        """Check whether a note is there.

        Args:
            name: Name of the note.
        """
        return self._presence_check("note_valid", name, self.state["notes"])

    @tool(timeout_s=None, effect="irreversible", permission="ask", zh="发布一张便条；发布后无法撤回，需要批准。")
    def publish(self, name: str) -> ToolResult:
        """Publish a note. This cannot be taken back and needs an approval.

        Args:
            name: Name of the note.
        """
        if name not in self.state["notes"]:
            return _not_found("Note", name)
        self.state["publications"] += 1
        if self.state["faults"].get(name) != "loses":
            self.state["published"].append(name)
        return ToolResult(True, subject=name, message=f"{name} is published.")

    @tool(timeout_s=None, zh="检查便条是否已发布。")
    def check_published(self, name: str) -> ToolResult:
        """Check whether a note is published.

        Args:
            name: Name of the note.
        """
        return self._presence_check("published_valid", name, self.state["published"])

    def _number_check(self, check: str, name: str) -> ToolResult:
        if name not in self.state["numbers"]:
            return _not_found(check.partition("_")[0].capitalize(), name)
        value = self.state["numbers"][name]
        return ToolResult(True, value >= 0, check=check, subject=name, data={"name": name, "value": value})

    def _presence_check(self, check: str, name: str, things: Any) -> ToolResult:
        return ToolResult(True, name in things, check=check, subject=name, data={"name": name})


class ToyEnvironment:
    """Boxes with numbers, notes, and faults on demand; see the README beside this file.

    Raises:
        ConfigError: a setting; there are none.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        for name in settings or {}:
            raise unknown_name("setting of the toy environment", name, [])
        self._tools = ToyTools()
        self._offered = tools_of(self._tools)

    def reset(self, task: Task, seed: int) -> None:
        """Bring the state into the task's initial one, defects included. Nothing here is random."""
        self._tools.state = starting_state(task, _EMPTY)

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return self._offered

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return `notes`, `published`, `writes` and `publications` (effects, counted) and `seal`."""
        names = ("notes", "published", "writes", "publications", "seal")
        shown: JsonObject = {name: self._tools.state[name] for name in names}
        return copy_json(shown)

    def snapshot(self) -> JsonObject:
        """Return a copy of the whole state."""
        return copy_json(self._tools.state)

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the run into the state of a snapshot."""
        self._tools.state = copy_json(snapshot)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _not_found(what: str, name: str) -> ToolResult:
    return ToolResult(False, subject=name, message=f"{what} {name} does not exist.", error_kind="not_found")
