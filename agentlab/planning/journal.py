"""The journal of a plan: every change is stored before anything else happens, so a kill loses no decision.

Entries, in order: `goal` (what was asked, once), `plan` (a plan that was accepted), `change` (one transition of the
state), `call` (one with an effect, or of a model within a step, and what it brought), `snapshot` (the environment when
a plan was accepted, and after a step ended). A plan that replaces another begins where that one stood.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentlab.errors import ConfigError, CorruptRecord
from agentlab.planning.plan import PlanGraph
from agentlab.planning.state import Changes, PlanState
from agentlab.planning.step_state import Transition, result_to_json
from agentlab.records import JsonObject, ToolResult
from agentlab.store import Store

_ENDS = frozenset({"completed", "failed", "skipped", "rolled_back", "rollback_failed"})


class Journal:
    """Writes the journal of one attempt of a run.

    Args:
        store: where it is kept.
        run_id: the run.
        attempt: this attempt.
        snapshot: gives the environment's state; it is stored with a plan and with every change that ends a step.
    """

    def __init__(self, store: Store, run_id: str, attempt: int, snapshot: Callable[[], Any] | None = None) -> None:
        self._store = store
        self._run_id = run_id
        self._attempt = attempt
        self._snapshot = snapshot

    def goal(self, about: JsonObject) -> None:
        """Store what was asked and with which settings."""
        self._add([("goal", about)])

    def plan(self, graph: PlanGraph) -> None:
        """Store a plan that was accepted."""
        self._add([("plan", graph.to_json()), *self._snapshots()])

    def changes(self, changes: Changes) -> None:
        """Store changes of the plan's state, in one transaction."""
        entries: list[tuple[str, JsonObject]] = [("change", change.to_json()) for change in changes]
        if any(change.after in _ENDS for change in changes):
            entries += self._snapshots()
        self._add(entries)

    def call(self, step_id: str, tool: str, arguments: JsonObject, result: ToolResult) -> None:
        """Store a call that was made within a step, as soon as its result is known."""
        about = {"step": step_id, "tool": tool, "arguments": arguments, "result": result_to_json(result)}
        self._add([("call", about), *self._snapshots()])

    def _snapshots(self) -> list[tuple[str, JsonObject]]:
        return [] if self._snapshot is None else [("snapshot", {"state": self._snapshot()})]

    def _add(self, entries: Sequence[tuple[str, JsonObject]]) -> None:
        self._store.add_to_journal(self._run_id, self._attempt, entries)


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that was made, or is known to have happened."""

    step: str
    tool: str
    arguments: JsonObject
    result: ToolResult

    def is_of(self, step_id: str, tool: str | None, arguments: JsonObject | None) -> bool:
        """Return whether this is the call of that step with these arguments."""
        return (self.step, self.tool, self.arguments) == (step_id, tool, arguments)


@dataclass(slots=True)
class JournalContent:
    """What a journal says."""

    goal: JsonObject = field(default_factory=dict)
    state: PlanState | None = None
    """The plan as it stood at the last entry; None when no plan was accepted yet."""
    calls: list[MadeCall] = field(default_factory=list)
    """The calls that were made within steps and not undone since, in order."""
    n_plans: int = 0
    """Plans that were accepted."""
    snapshot: Any = None
    """The environment at the last snapshot; None when there is none."""

    def results_of(self, step_id: str, tool: str | None, calls: Sequence[JsonObject]) -> list[ToolResult | None]:
        """Return the result of each call that a step made; None where it is not known to have been made."""
        left = [call for call in self.calls if call.step == step_id]
        found: list[ToolResult | None] = []
        for arguments in calls:
            made = next((call for call in left if call.is_of(step_id, tool, arguments)), None)
            if made is not None:
                left.remove(made)
            found.append(None if made is None else made.result)
        return found


def read_journal(store: Store, run_id: str) -> JournalContent:
    """Return what the journal of a run says.

    Raises:
        CorruptRecord: an entry does not follow on those before it.
    """
    content = JournalContent()
    for kind, data in store.read_journal(run_id):
        if kind == "goal":
            content.goal = data
        elif kind == "plan":
            graph = PlanGraph.from_json(data)
            content.n_plans += 1
            content.state = PlanState(graph) if content.state is None else content.state.continued(graph)
        elif kind == "snapshot":
            content.snapshot = data["state"]
        elif content.state is None:
            raise CorruptRecord(f"the journal of run {run_id} has a change before any plan")
        elif kind == "call":
            _take_up(content, content.state, data)
        else:
            change = Transition.from_json(data)
            content.state.apply(change)
            if change.after == "rolled_back":
                content.calls = [call for call in content.calls if call.step != change.step]
    return content


def _take_up(content: JournalContent, state: PlanState, data: JsonObject) -> None:
    """Keep a call that was made; those of an undo are counted by the state itself."""
    if data["step"] not in state.graph or not state[data["step"]].is_undo_open:
        result = ToolResult(**data["result"])
        content.calls.append(MadeCall(data["step"], data["tool"], data["arguments"], result))


def last_journal(address: str | Path) -> JournalContent:
    """Return what the last run of a store says; empty where there is none.

    Raises:
        ConfigError: there is no such store.
    """
    try:
        store = Store(address)
    except ConfigError as error:
        raise ConfigError(
            f"There is no journal {address}. `agentlab do GOAL --journal {address}` begins one."
        ) from error
    try:
        rows = store.read("runs")
        return read_journal(store, str(rows[-1]["run_id"])) if rows else JournalContent()
    finally:
        store.close()
