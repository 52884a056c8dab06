"""A plan as data: steps, what they depend on, and what follows from that. Nothing here runs anything.

A `PlanGraph` that exists is sound: ids are unique, every dependency is a step of the plan, and there is no cycle.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from agentlab.errors import CorruptRecord, PlanError
from agentlab.planning.problems import in_order, problem, shown_names
from agentlab.planning.structure import (
    ancestor_bits,
    closure,
    dependents_of,
    execution_order,
    find_cycles,
)
from agentlab.records import JsonObject, PlanProblem
from agentlab.references import Reference, parse_values, references_in, values_to_json

if TYPE_CHECKING:
    import networkx

Kind = Literal["tool", "goal", "map", "collect", "report"]
Priority = Literal["high", "medium", "low"]
OnError = Literal["retry", "skip", "block", "rollback", "replan", "terminate", "escalate"]
OnNotPassed = Literal["continue", "rollback", "replan", "terminate", "escalate"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
ON_ERROR: tuple[OnError, ...] = get_args(OnError)
ON_NOT_PASSED: tuple[OnNotPassed, ...] = get_args(OnNotPassed)
LAYER_PREFIX = "layer:"


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One node of a plan."""

    id: str
    description: str = ""
    """What the step is for; of a goal step, all that its worker is told."""
    kind: Kind = "tool"
    """tool: one tool call. map: that call for every entry of a list. goal: a bounded loop of a worker.
    collect, report: pure Python over outputs."""
    tool: str | None = None
    """The tool of a tool or map step."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """JSON values; a `Reference` stands wherever a value comes from another step."""
    depends_on: tuple[str, ...] = ()
    """Strong dependencies: steps that must have completed before this one may start."""
    weak_depends_on: tuple[str, ...] = ()
    """Steps whose output is used where it is already there; they never delay this one."""
    only_if_passed: tuple[str, ...] = ()
    """Steps whose checks must all have passed; otherwise this one is not needed. They are strong dependencies too."""
    only_if_not_passed: tuple[str, ...] = ()
    """Steps of which a check must not have passed; otherwise this one is not needed. Strong dependencies too."""
    over: Any = None
    """Of a map step: a `Reference` to a list, or the list itself."""
    output: str | None = None
    """A second name for the step's output; references know the step by id."""
    priority: Priority = "medium"
    worker_type: str | None = None
    """The kind of worker that has to do it; None leaves it to anybody."""
    layer: str | None = None
    """The part of a layered plan it belongs to, for recovery layer by layer."""
    on_error: OnError | None = None
    """What the plan asks for when the step fails; None leaves it to the policy."""
    max_retries: int | None = None
    """Tries after the first one that the plan asks for; None leaves it to the policy."""
    on_not_passed: OnNotPassed | None = None
    """What the plan asks for when a check of the step does not pass, which is a result and no failure; None leaves
    it to the policy, and where that says nothing the plan goes on."""
    back_to: str | None = None
    """Of a rollback: the step before this one, or `layer:<name>`, from which on everything is undone; None undoes
    the effects that this step rests on."""
    restart: bool | None = None
    """Of a rollback: True runs the undone part again, once."""
    is_critical: bool | None = None
    """True when the goal cannot be reached without it; None when the plan does not say."""

    def __post_init__(self) -> None:
        awaited = (*self.depends_on, *self.only_if_passed, *self.only_if_not_passed)
        object.__setattr__(self, "depends_on", tuple(dict.fromkeys(awaited)))

    def references(self) -> tuple[Reference, ...]:
        """Return the references to other steps, in the order of the arguments; items of a map step left out."""
        found = [*references_in(self.over), *references_in(self.arguments)]
        return tuple(reference for reference in found if reference.step is not None)

    def to_json(self) -> JsonObject:
        """Return the step as a JSON object; what has its default is left out."""
        data: JsonObject = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value != each.default and value != {}:
                data[each.name] = list(value) if isinstance(value, tuple) else value
        if "arguments" in data:
            data["arguments"] = {name: values_to_json(value) for name, value in self.arguments.items()}
        if "over" in data:
            data["over"] = values_to_json(self.over)
        return data


LISTS = tuple(each.name for each in fields(PlanStep) if each.default == ())
"""The fields that hold ids of steps."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the planner made of the request before it planned."""

    goal: str = ""
    constraints: tuple[str, ...] = ()
    success_criteria: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The chain of strong dependencies that takes longest: no parallelism makes the plan shorter."""

    steps: tuple[str, ...]
    duration_s: float


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """A sound plan.

    Raises:
        PlanError: on creation, when an id is used twice, a dependency does not exist, or there is a cycle.
    """

    steps: tuple[PlanStep, ...]
    """In the order of the plan, which decides nothing but ties."""
    goal: str = ""
    analysis: Analysis | None = None
    explanation: str = ""
    """The planner's remarks on the plan."""
    notes: tuple[str, ...] = ()
    """What reading the plan changed or left out, for the trace."""
    _positions: dict[str, int] = field(init=False, repr=False, compare=False)
    _before: list[list[int]] = field(init=False, repr=False, compare=False)
    _after: list[list[int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if problems := structure_problems(self.steps):
            raise PlanError(problems)
        positions = {step.id: position for position, step in enumerate(self.steps)}
        before = strong_positions(self.steps, positions)
        object.__setattr__(self, "_positions", positions)
        object.__setattr__(self, "_before", before)
        object.__setattr__(self, "_after", dependents_of(before))

    def __contains__(self, step_id: object) -> bool:
        return step_id in self._positions

    def __len__(self) -> int:
        return len(self.steps)

    def step(self, step_id: str) -> PlanStep:
        """Return the step of that id; an unknown id is a `KeyError`."""
        return self.steps[self._positions[step_id]]

    def position(self, step_id: str) -> int:
        """Return the place of a step in the plan, from 0."""
        return self._positions[step_id]

    def dependents(self, step_id: str) -> tuple[str, ...]:
        """Return the steps that strongly and directly depend on a step, in plan order."""
        return self._ids(self._after[self._positions[step_id]])

    def ancestors(self, step_id: str) -> tuple[str, ...]:
        """Return the steps that must have completed before a step, directly or not, in plan order."""
        return self._ids(sorted(closure([self._positions[step_id]], self._before)))

    def descendants(self, *step_ids: str) -> tuple[str, ...]:
        """Return the steps that strongly depend on any of the given ones, directly or not, in plan order."""
        return self._ids(sorted(closure([self._positions[step_id] for step_id in step_ids], self._after)))

    def steps_back(self, step_id: str, back_to: str) -> tuple[str, ...]:
        """Return the steps before a step that `back_to` names (an id, or `layer:<name>`), in plan order."""
        layer = back_to.removeprefix(LAYER_PREFIX) if back_to.startswith(LAYER_PREFIX) else None
        before = self.ancestors(step_id)
        return tuple(
            name for name in before if name == back_to or (layer is not None and self.step(name).layer == layer)
        )

    def execution_order(self) -> tuple[str, ...]:
        """Return all ids so that each step stands after its strong dependencies, otherwise in plan order."""
        return self._ids(execution_order(self._before))

    def waves(self) -> tuple[tuple[str, ...], ...]:
        """Return the steps that may start together, wave by wave; within a wave in plan order.

        Waves are for looking at. The scheduler starts a step as soon as it is ready and waits for no wave.
        """
        depth = [0] * len(self.steps)
        for position in execution_order(self._before):
            depth[position] = 1 + max((depth[earlier] for earlier in self._before[position]), default=-1)
        waves: list[list[str]] = [[] for _ in range(max(depth, default=-1) + 1)]
        for step, level in zip(self.steps, depth, strict=True):
            waves[level].append(step.id)
        return tuple(tuple(wave) for wave in waves)

    def critical_path(self, durations_s: Mapping[str, float] | None = None) -> CriticalPath:
        """Return the longest chain of strong dependencies; of equally long ones the first in plan order.

        Args:
            durations_s: seconds per step; a missing step counts 0. None counts every step as 1.
        """
        seconds = [1.0 if durations_s is None else durations_s.get(step.id, 0.0) for step in self.steps]
        ends = [0.0] * len(self.steps)
        previous: list[int | None] = [None] * len(self.steps)
        for position in execution_order(self._before):
            before = self._before[position]
            previous[position] = max(before, key=lambda earlier: (ends[earlier], -earlier), default=None)
            ends[position] = seconds[position] + max((ends[earlier] for earlier in before), default=0.0)
        last = max(range(len(ends)), key=lambda position: (ends[position], -position), default=None)
        duration_s = ends[last] if last is not None else 0.0
        path: list[int] = []
        while last is not None:
            path.append(last)
            last = previous[last]
        return CriticalPath(self._ids(reversed(path)), duration_s)

    def ancestor_bits(self) -> list[int]:
        """Return, per step in plan order, the positions of its ancestors as bits of an integer."""
        return ancestor_bits(self._before)

    def to_networkx(self) -> "networkx.DiGraph[str]":
        """Return the plan as a directed graph: edges run from a step to what depends on it, `strength` strong or weak.

        Nodes carry `description, kind, tool, priority, layer, worker_type` and `generation` (the wave, from 0).
        """
        import networkx

        graph: networkx.DiGraph[str] = networkx.DiGraph(goal=self.goal)
        generation = {step_id: level for level, wave in enumerate(self.waves()) for step_id in wave}
        for step in self.steps:
            names = ("description", "kind", "tool", "priority", "layer", "worker_type")
            shown = {name: getattr(step, name) for name in names}
            graph.add_node(step.id, **shown, generation=generation[step.id])
        for step in self.steps:
            graph.add_edges_from(((earlier, step.id) for earlier in step.weak_depends_on), strength="weak")
            graph.add_edges_from(((earlier, step.id) for earlier in step.depends_on), strength="strong")
        return graph

    def to_json(self) -> JsonObject:
        """Return the plan as a JSON object, which `from_json` reads back to an equal plan."""
        data: JsonObject = {"goal": self.goal, "steps": [step.to_json() for step in self.steps]}
        if self.analysis is not None:
            data["analysis"] = {
                "goal": self.analysis.goal,
                "constraints": list(self.analysis.constraints),
                "success_criteria": list(self.analysis.success_criteria),
            }
        if self.explanation:
            data["explanation"] = self.explanation
        if self.notes:
            data["notes"] = list(self.notes)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PlanGraph":
        """Return the plan that `to_json` wrote.

        Raises:
            CorruptRecord: this is no stored plan.
            PlanError: its steps make no sound plan.
        """
        try:
            steps = [_stored_step(dict(step)) for step in data["steps"]]
            analysis = data.get("analysis")
            return cls(
                steps=tuple(steps),
                goal=data.get("goal", ""),
                analysis=None if analysis is None else Analysis(**{k: _tupled(v) for k, v in analysis.items()}),
                explanation=data.get("explanation", ""),
                notes=tuple(data.get("notes", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptRecord(f"a stored plan cannot be read: {type(error).__name__}: {error}") from error

    def _ids(self, positions: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.steps[position].id for position in positions)


def structure_problems(steps: Sequence[PlanStep]) -> list[PlanProblem]:
    """Return what keeps steps from being a sound graph: double ids, unknown dependencies, cycles with their members.

    Weak dependencies and references count for cycles too: a step cannot use what comes only after it.
    """
    counts: dict[str, int] = {}
    for step in steps:
        counts[step.id] = counts.get(step.id, 0) + 1
    found = [problem("duplicate_id", step_id, count=count) for step_id, count in counts.items() if count > 1]
    names = shown_names(list(counts))
    for step in steps:
        unknown = [name for name in (*step.depends_on, *step.weak_depends_on) if name not in counts]
        found += [problem("unknown_dependency", step.id, name=name, names=names) for name in dict.fromkeys(unknown)]
    positions = {step.id: position for position, step in reversed(list(enumerate(steps)))}
    edges = []
    for step in steps:
        names_before = [*step.depends_on, *step.weak_depends_on]
        names_before += [reference.step for reference in step.references() if reference.step is not None]
        edges.append([positions[name] for name in dict.fromkeys(names_before) if name in positions])
    for cycle in find_cycles(edges):
        members = [steps[position].id for position in cycle]
        words = "cycle" if len(members) > 1 else "self_dependency"
        found.append(problem("cycle", members[0], words=words, members=" -> ".join([*members, members[0]])))
    return in_order(found)


def strong_positions(steps: Sequence[PlanStep], positions: Mapping[str, int]) -> list[list[int]]:
    """Return for each step the positions of its strong dependencies, each once; unknown ones are left out."""
    return [[positions[name] for name in dict.fromkeys(step.depends_on) if name in positions] for step in steps]


def _stored_step(data: JsonObject) -> PlanStep:
    in_map = data.get("kind") == "map"
    arguments = {name: parse_values(value, in_map=in_map) for name, value in data.get("arguments", {}).items()}
    lists = {name: tuple(data.get(name, ())) for name in LISTS}
    return PlanStep(**{**data, **lists, "arguments": arguments, "over": parse_values(data.get("over"))})


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
