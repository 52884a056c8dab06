"""What must hold for any plan, and for a very long one."""

import json
import random
import time
from dataclasses import fields
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from plan_runner import Runner, failing, scripted, steps

from agentlab.errors import PlanError
from agentlab.plan_rules import RequiredEdge, RulePack
from agentlab.planning.fields import ALIASES
from agentlab.planning.plan import PRIORITIES, PlanGraph, PlanStep
from agentlab.planning.reading import read_plan
from agentlab.planning.recovery import rollback_plan
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import StepError
from agentlab.planning.validation import check_plan
from agentlab.records import ToolResult
from agentlab.tools import Tool


@st.composite
def plans(draw: st.DrawFn) -> PlanGraph:
    """Any graph without cycles, listed in any order, with strong and weak edges and priorities."""
    n = draw(st.integers(1, 12))
    names = draw(st.permutations([f"s{i}" for i in range(n)]))
    made = []
    for place, name in enumerate(names):
        earlier = names[:place]
        edges = draw(st.lists(st.tuples(st.sampled_from(earlier), st.booleans()), max_size=4)) if earlier else []
        strong = tuple(dict.fromkeys(before for before, is_strong in edges if is_strong))
        weak = tuple(dict.fromkeys(before for before, is_strong in edges if not is_strong and before not in strong))
        priority = draw(st.sampled_from(PRIORITIES))
        made.append(PlanStep(name, tool="t", depends_on=strong, weak_depends_on=weak, priority=priority))
    return PlanGraph(tuple(draw(st.permutations(made))))


@given(graph=plans(), data=st.data())
def test_any_plan_runs_every_step_once_in_a_legal_order(graph: PlanGraph, data: st.DataObject) -> None:
    """Up to three steps at once, which end in any order."""
    state = PlanState(graph)
    started: list[str] = []
    while not state.is_finished:
        assert state.stuck() == ()
        step = state.next_ready()
        if step is not None and len(state.current_steps) < 3:
            assert all(state[name].status == "completed" for name in step.depends_on)
            state.start(step.id)
            started.append(step.id)
        else:
            state.complete(data.draw(st.sampled_from(state.current_steps)))
    assert sorted(started) == sorted(step.id for step in graph.steps)
    assert (state.status, state.progress) == ("completed", 1.0)


def closure_by_hand(graph: PlanGraph, doomed: set[str]) -> dict[str, str]:
    """What becomes of each step, by repeating the definition until nothing changes."""
    ends: dict[str, str] = {}
    while len(ends) < len(graph):
        for step in graph.steps:
            if step.id in ends or not all(name in ends for name in step.depends_on):
                continue
            if any(ends[name] != "completed" for name in step.depends_on):
                ends[step.id] = "blocked"
            else:
                ends[step.id] = "failed" if step.id in doomed else "completed"
    return ends


@given(graph=plans(), data=st.data())
def test_any_failures_block_what_a_closure_by_hand_blocks(graph: PlanGraph, data: st.DataObject) -> None:
    doomed = data.draw(st.sets(st.sampled_from([step.id for step in graph.steps])))
    runner = Runner(graph, scripted(dict.fromkeys(doomed, failing())))
    state = runner.run()
    assert runner.statuses == closure_by_hand(graph, doomed)
    for name in state.with_status("blocked"):
        chain = state.cause_chain(name)
        assert chain[0] in graph.step(name).depends_on
        assert state[chain[-1]].status == "failed"
        assert set(chain) <= set(graph.ancestors(name))


def events(state: PlanState) -> list[Any]:
    """What may happen next."""
    error = StepError("x", "x")
    possible: list[Any] = []
    if step := state.next_ready():
        possible += [partial(state.start, step.id), partial(state.skip, step.id, "no")]
    if running := state.current_steps:
        possible += [partial(state.complete, running[0]), partial(state.fail, running[-1], error), state.interrupt]
        possible.append(partial(state.retry_later, running[0], error, 0.0))
    possible += [partial(state.wake, name) for name in state.with_status("retry_wait")]
    possible += [partial(state.rerun, name) for name in state.with_status("interrupted")]
    final = state.with_status("completed", "failed", "blocked", "skipped")
    if final and not (running or state.with_status("interrupted", "retry_wait")):
        possible.append(partial(state.restart, [final[0], *state.graph.descendants(final[0])]))
    return possible


@given(graph=plans(), data=st.data())
def test_the_counters_are_those_of_a_fresh_count_after_anything(graph: PlanGraph, data: st.DataObject) -> None:
    state = PlanState(graph)
    changes: list[Any] = []
    for _ in range(data.draw(st.integers(0, 25))):
        possible = events(state)
        if not possible:
            break
        changes += data.draw(st.sampled_from(possible))()
    fresh = PlanState.from_json(json.loads(json.dumps(state.to_json())))
    again = PlanState(graph)
    for change in changes:
        again.apply(change)
    for other in (fresh, again):
        assert (other.counts(), other.status, other.stuck()) == (state.counts(), state.status, state.stuck())
        order = []
        for each in (other, state):
            ready = each.next_ready()
            order.append(ready.id if ready else None)
        assert order[0] == order[1]


@given(graph=plans(), data=st.data())
def test_an_undo_never_comes_before_the_undo_of_what_rests_on_it(graph: PlanGraph, data: st.DataObject) -> None:
    schema = {"type": "object"}
    tools = {"t": Tool("t", "", schema, effect="write", compensate="u"), "u": Tool("u", "", schema)}
    doomed = data.draw(st.sampled_from([step.id for step in graph.steps]))
    state = PlanState(graph)
    while (step := state.next_ready()) and step.id != doomed:
        state.start(step.id)
        state.complete(step.id, [ToolResult(True)])
    if state[doomed].status != "pending" or step is None:
        return
    plan = rollback_plan(graph, state, doomed, tools)
    undone: list[str] = []
    for undo in plan.undo:
        dependents = [name for name in graph.descendants(undo.step) if state[name].status == "completed"]
        assert set(dependents) <= set(undone)
        undone.append(undo.step)
    assert set(graph.ancestors(doomed)) <= set(undone)
    rests_on = set(graph.descendants(*graph.ancestors(doomed))) | set(graph.ancestors(doomed))
    assert set(undone) <= rests_on


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(
        ["a", "b", "t", "map", "goal", "high", "retry", "steps.a.output", "$b.x[0]", "item", "{{steps.a.output}} x", ""]
    ) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "type", "value", "$ref"]), inner),
    max_leaves=5,
)  # fmt: skip
KEYS = st.sampled_from(
    [*(field.name for field in fields(PlanStep)), *ALIASES, "name", "step", "status", "dependsOn", "?"]
)
TOOL = Tool("t", "", {"type": "object", "properties": {"x": {"type": "string"}}}, returns={"properties": {"x": {}}})


def outcome(text: str) -> PlanGraph | PlanError:
    try:
        return read_plan(text, [TOOL], workers={"a": ["t"]})
    except PlanError as error:
        return error


@given(entries=st.lists(st.dictionaries(KEYS, VALUES, max_size=6) | VALUES, max_size=4), rest=VALUES)
def test_whatever_a_planner_writes_is_a_sound_plan_or_has_problems_with_fixes(entries: list[Any], rest: Any) -> None:
    rules = RulePack(name="r", requires_description=True, required_edges=(RequiredEdge(later=("t",), earlier=("t",)),))
    for text in (
        json.dumps({"steps": entries, "x": rest}),
        json.dumps(entries),
        json.dumps({"plan": rest}),
        str(entries),
    ):
        read = outcome(text)
        if isinstance(read, PlanError):
            assert read.problems
            assert all(problem.message and problem.message_zh and problem.fix for problem in read.problems)
            assert read.feedback("en")
            assert read.feedback("zh")
            continue
        assert check_plan(read, [TOOL], workers={"a": ["t"]}) == ()
        assert PlanGraph.from_json(json.loads(json.dumps(read.to_json()))) == read
        check_plan(read, [TOOL], rules=rules)


@given(text=st.text(alphabet="{}[]\"',:steptaknlu1 \n`#"))
def test_no_text_breaks_the_reader(text: str) -> None:
    for reply in (text, '{"steps": ' + text):
        result: PlanGraph | PlanError
        try:
            result = read_plan(reply, [TOOL])
        except PlanError as error:
            result = error
        is_sound = isinstance(result, PlanGraph) and check_plan(result, [TOOL]) == ()
        assert is_sound or (isinstance(result, PlanError) and result.problems)


LONG = 10_000


def test_ten_thousand_steps_are_read_and_scheduled_in_a_few_seconds() -> None:
    rng = random.Random(7)
    written = []
    for index in range(LONG):
        before = sorted({rng.randrange(max(0, index - 200), index) for _ in range(3)}) if index else []
        arguments = {"x": f"steps.{before[0]}.output.v"} if before else {"x": 1}
        written.append({"id": index, "tool": "work", "arguments": arguments, "depends_on": before[1:]})
    schema = {
        "type": "object",
        "properties": {"x": {"type": "integer"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    text = json.dumps({"steps": written})
    started = time.process_time()
    graph = read_plan(text, [Tool("work", "", schema)], LONG)
    runner = Runner(graph, lambda name, arguments: ToolResult(True, data={"v": 1}))
    assert runner.run().status == "completed"
    assert len(runner.calls) == LONG
    assert time.process_time() - started < 10


def test_the_cost_of_a_step_does_not_grow_with_the_plan() -> None:
    def seconds(n: int) -> float:
        graph = steps(*((str(i), " ".join(str(j) for j in range(max(0, i - 2), i))) for i in range(n)))
        state = PlanState(graph)
        started = time.process_time()
        while step := state.next_ready():
            state.start(step.id)
            state.complete(step.id)
        return time.process_time() - started

    seconds(500)
    small, large = min(seconds(1000) for _ in range(3)), min(seconds(8000) for _ in range(2))
    assert large < small * 8 * 4


def test_ten_thousand_failures_and_blocks_are_no_recursion() -> None:
    graph = steps(*((str(i), str(i - 1) if i else "") for i in range(LONG)))
    state = Runner(graph, scripted({"0": failing()})).run()
    assert state.counts()["blocked"] == LONG - 1
    assert len(state.cause_chain(str(LONG - 1))) == LONG - 1
    assert graph.critical_path().duration_s == LONG
