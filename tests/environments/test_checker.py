import random
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, ClassVar

import pytest

from agentlab.environments.base import Suite, load_suite
from agentlab.environments.checker import check_environment
from agentlab.environments.toy.environment import ToyEnvironment
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tools_from_schemas

TOY = load_suite("toy")
ORDERS = load_suite("orders")
TASK = TOY.task("toy-note")


@pytest.mark.parametrize(
    ("suite", "task_id"),
    [
        (TOY, "toy-note"),
        (TOY, "toy-publish--lost"),
        (TOY, "toy-gauge--raises"),
        (ORDERS, "token-chain"),
        (ORDERS, "user-orders--no-orders"),
    ],
)
def test_our_environments_keep_the_contract(suite: Suite, task_id: str) -> None:
    assert check_environment(suite.make_environment, suite.task(task_id)) == []


class AsyncEnvironment:
    """A toy environment whose methods are all asynchronous."""

    version = "1"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._toy = ToyEnvironment(settings)

    async def reset(self, task: Task, seed: int) -> None:
        self._toy.reset(task, seed)

    def tools(self) -> tuple[Tool, ...]:
        return self._toy.tools()

    async def observe(self) -> str:
        return "A desk with notes."

    async def facts(self) -> JsonObject:
        return self._toy.facts()

    async def snapshot(self) -> JsonObject:
        return self._toy.snapshot()

    async def restore(self, snapshot: JsonObject) -> None:
        self._toy.restore(snapshot)

    async def close(self) -> None:
        self._toy.close()


def test_asynchronous_environments_are_checked_alike() -> None:
    assert check_environment(AsyncEnvironment, TASK) == []


# Environments with one fault each.


class NeedsSettings(ToyEnvironment):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.url = settings["url"]
        super().__init__()


class NoVersion(ToyEnvironment):
    version = ""


class NoRestore(ToyEnvironment):
    restore = None  # type: ignore[assignment]


class ResetRaises(ToyEnvironment):
    def reset(self, task: Task, seed: int) -> None:
        raise ValueError("no such room")


class ListOfTools(ToyEnvironment):
    def tools(self) -> Any:
        return list(super().tools())


def _with_tool(**schema: Any) -> type[ToyEnvironment]:
    (extra,) = tools_from_schemas([schema])

    class Environment(ToyEnvironment):
        def tools(self) -> tuple[Tool, ...]:
            return (*super().tools(), extra)

    return Environment


class MissingTool(ToyEnvironment):
    def tools(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in super().tools() if tool.name != "check_note")


class ChangingTools(ToyEnvironment):
    def tools(self) -> tuple[Tool, ...]:
        return super().tools()[: 3 if self.facts()["writes"] else None]


class ObservesData(ToyEnvironment):
    def observe(self) -> Any:
        return {"notes": 3}


class FactsAreTuples(ToyEnvironment):
    def facts(self) -> JsonObject:
        return {**super().facts(), "published": ()}


class FactsHoldDecimal(ToyEnvironment):
    def facts(self) -> JsonObject:
        return {**super().facts(), "amount": Decimal("1.10")}


class FactsAreAList(ToyEnvironment):
    def facts(self) -> Any:
        return list(super().facts())


class SnapshotHoldsObjects(ToyEnvironment):
    def snapshot(self) -> JsonObject:
        return {**super().snapshot(), "tools": self._tools}


class OwnRandomness(ToyEnvironment):
    def reset(self, task: Task, seed: int) -> None:
        super().reset(task, seed)
        self._tools.state["seal"] = str(random.random())


class Counts(ToyEnvironment):
    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.resets = 0

    def reset(self, task: Task, seed: int) -> None:
        super().reset(task, seed)
        self.resets += 1
        self._tools.state["seal"] = f"reset {self.resets}"


class SharedState(ToyEnvironment):
    _shared: ClassVar[JsonObject] = {}

    def reset(self, task: Task, seed: int) -> None:
        super().reset(task, seed)
        self.restore(self.snapshot())

    def restore(self, snapshot: JsonObject) -> None:
        self._shared.clear()
        self._shared.update(snapshot)
        self._tools.state = self._shared


class JudgesByChance(ToyEnvironment):
    _asked: ClassVar[list[str]] = []

    def tools(self) -> tuple[Tool, ...]:
        def check(name: str) -> ToolResult:
            self._asked.append(name)
            return ToolResult(True, passed=len(self._asked) % 2 == 1, check="note_written", subject=name)

        return tuple(replace(tool, function=check) if tool.name == "check_note" else tool for tool in super().tools())


class LiveSnapshot(ToyEnvironment):
    def snapshot(self) -> JsonObject:
        return self._tools.state


class ForgetfulRestore(ToyEnvironment):
    def restore(self, snapshot: JsonObject) -> None:
        super().restore({**snapshot, "writes": 0})


class RestoreDoesNothing(ToyEnvironment):
    def reset(self, task: Task, seed: int) -> None:
        super().restore({**self._tools.state, "notes": {}, "writes": 0})

    def restore(self, snapshot: JsonObject) -> None:
        pass


class CloseOnce(ToyEnvironment):
    is_closed = False

    def close(self) -> None:
        if self.is_closed:
            raise RuntimeError("already closed")
        self.is_closed = True


class CloseForAll(ToyEnvironment):
    _open: ClassVar[list[str]] = []

    def reset(self, task: Task, seed: int) -> None:
        super().reset(task, seed)
        self._open.append("connection")

    def snapshot(self) -> JsonObject:
        assert self._open, "connection is closed"
        return super().snapshot()

    def close(self) -> None:
        self._open.clear()


OBJECT = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (NeedsSettings, "every setting needs a default"),
        (NoVersion, "version must be a non-empty text"),
        (NoRestore, "NoRestore has no method restore()"),
        (ResetRaises, "reset raises ValueError: no such room"),
        (ListOfTools, "non-empty tuple of Tool"),
        (_with_tool(name="read_box", description="x", parameters=OBJECT), "'read_box' is used twice"),
        (_with_tool(name="read box", description="x", parameters=OBJECT), "'read box' is refused by model servers"),
        (_with_tool(name="look", description="x", parameters=OBJECT), "look has no function"),
        (_with_tool(name="look", parameters=OBJECT), "look has no description"),
        (_with_tool(name="look", parameters={"type": "objekt"}), "the argument schema of look is no JSON schema"),
        (_with_tool(name="look", parameters={"type": "string"}), "look must have the type object"),
        (MissingTool, "calls 'check_note', which is no tool"),
        (ChangingTools, "tools() gives other names after tools acted"),
        (ObservesData, "observe() returns dict"),
        (FactsAreTuples, "facts() changes on its way through JSON"),
        (FactsHoldDecimal, "facts() changes on its way through JSON"),
        (FactsAreAList, "facts() must return a dict"),
        (SnapshotHoldsObjects, "snapshot() is not JSON: $.tools is a ToyTools"),
        (OwnRandomness, "two instances reset with one seed differ"),
        (Counts, "a second reset with the same seed gives another state"),
        (SharedState, "two instances share state"),
        (JudgesByChance, "check_note says success=True, passed=True, error_kind=None in one fresh instance and"),
        (LiveSnapshot, "an earlier snapshot changes when tools act"),
        (ForgetfulRestore, "restore() of the state after the reference does not bring it back"),
        (RestoreDoesNothing, "restore(snapshot) does not bring back"),
        (CloseOnce, "close() raises RuntimeError: already closed"),
        (CloseForAll, "closing one instance breaks another"),
    ],
)
def test_a_fault_is_named(environment: Any, words: str) -> None:
    problems = check_environment(environment, TASK)
    assert any(words in problem for problem in problems), problems
