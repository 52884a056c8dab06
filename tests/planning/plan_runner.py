"""A scheduler of a few lines, one step at a time: enough to see where a plan leads without models and waiting."""

from collections.abc import Callable, Mapping
from typing import Any

from agentlab.errors import UnresolvedReference
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import Action, FailurePolicy, load_policy
from agentlab.planning.recovery import rollback_plan
from agentlab.planning.state import Changes, PlanState
from agentlab.planning.step_state import StepError
from agentlab.records import ToolResult
from agentlab.tools import Tool

Call = Callable[[str, dict[str, Any]], ToolResult]


class Runner:
    """Runs a plan; keeps the calls, the actions of the policy and every change.

    Args:
        graph: the plan.
        call: called with the step's id (`undo:<id>` for an undo) and the arguments.
        policy: what happens when a step fails.
        tools: for effects and undo tools.
    """

    def __init__(
        self,
        graph: PlanGraph,
        call: Call,
        policy: str | FailurePolicy = "block",
        tools: Mapping[str, Tool] | None = None,
    ) -> None:
        self.state = PlanState(graph)
        self._call = call
        self.policy = load_policy(policy)
        self.tools = tools or {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.actions: list[Action] = []
        self.changes: list[Changes] = []

    @property
    def executed(self) -> list[str]:
        return list(dict.fromkeys(step for step, _ in self.calls))

    @property
    def statuses(self) -> dict[str, str]:
        return {step.id: self.state[step.id].status for step in self.state.graph.steps}

    def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        self.calls.append((name, arguments))
        return self._call(name, arguments)

    def run(self) -> PlanState:
        while step := self.state.next_ready():
            self._run(step)
        return self.state

    def _run(self, step: PlanStep) -> None:
        state = self.state
        try:
            inputs = state.inputs(step.id)
        except UnresolvedReference as error:
            self.changes.append(state.fail(step.id, StepError("unresolved_reference", str(error))))
            return
        self.changes.append(state.start(step.id))
        results = [self.call(step.id, arguments) for arguments in inputs.calls]
        bad = next((result for result in results if not result.success), None)
        if bad is None:
            self.changes.append(state.complete(step.id, results))
            return
        error = StepError.of(bad, self.tools.get(step.tool or ""))
        action = self.policy.decide(step, error, state[step.id].tries, state.graph, state)
        self.actions.append(action)
        if action.is_counted:
            self.changes.append(state.count_rule(action.rule))
        self._follow(step, action, error, results)

    def _follow(self, step: PlanStep, action: Action, error: StepError, results: list[ToolResult]) -> None:
        state = self.state
        if action.kind == "retry":
            self.changes.append(state.retry_later(step.id, error, action.delay_s))
            self.changes.append(state.wake(step.id))
            return
        if action.kind == "skip":
            self.changes.append(state.skip(step.id, action.reason, error))
            return
        self.changes.append(state.fail(step.id, error, results=results))
        if action.kind == "rollback":
            self._roll_back(step, action)
        if action.kind in ("terminate", "escalate"):
            self.changes.append(state.stop(action.reason))

    def _roll_back(self, step: PlanStep, action: Action) -> None:
        state = self.state
        plan = rollback_plan(state.graph, state, step.id, self.tools, action.back_to)
        self.changes.append(state.start_rollback(step.id, back_to=action.back_to, restart=action.restart))
        for undo in plan.undo:
            self.changes.append(state.start_undo(undo.step, undo.tool or "none"))
            answers = [self.call(f"undo:{undo.step}", arguments) for arguments in undo.calls]
            bad = next((answer.message for answer in answers if not answer.success), undo.problem)
            self.changes.append(state.finish_undo(undo.step, success=not bad, message=bad))
        if action.restart:
            self.changes.append(state.restart(plan.affected))
        self.changes.append(state.finish_rollback())


def scripted(results: Mapping[str, ToolResult | list[ToolResult]]) -> Call:
    """Answers by step id; a list is used up call by call, its last entry stays; anything else succeeds."""
    left = {name: list(value) if isinstance(value, list) else [value] for name, value in results.items()}

    def call(name: str, arguments: dict[str, Any]) -> ToolResult:
        answers = left.get(name, [ToolResult(True)])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return call


def failing(kind: str = "tool_failed", message: str = "no") -> ToolResult:
    """A result without success."""
    return ToolResult(False, error_kind=kind, message=message)


def steps(*rows: tuple[str, str] | tuple[str, str, dict[str, Any]]) -> PlanGraph:
    """A graph from rows of id, dependencies (separated by spaces, `~` marks a weak one) and further fields."""
    made = []
    for row in rows:
        names = row[1].split()
        strong = tuple(name for name in names if not name.startswith("~"))
        weak = tuple(name[1:] for name in names if name.startswith("~"))
        fields = {"tool": "work", **(row[2] if len(row) == 3 else {})}
        made.append(PlanStep(row[0], depends_on=strong, weak_depends_on=weak, **fields))
    return PlanGraph(tuple(made))
