import json
from typing import Any

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.orders.rules import RULES
from agentlab.errors import PlanError
from agentlab.plan_rules import Exclusive, RequiredEdge, RequiredStep, RulePack
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.reading import read_plan
from agentlab.planning.validation import check_plan
from agentlab.records import PlanProblem
from agentlab.references import Reference, parse_values
from agentlab.tasks import CriterionView, Task, Text
from agentlab.tools import Tool

SUITE = load_suite("orders")
ENVIRONMENT = SUITE.make_environment({})
TOOLS: tuple[Tool, ...] = tuple(ENVIRONMENT.tools())
ANYTHING = {"type": "object"}
WORK = (
    Tool("look", "reads", ANYTHING),
    Tool("change", "writes", ANYTHING, effect="write", compensate="undo"),
    Tool("undo", "undoes", ANYTHING, effect="write"),
    Tool("send", "sends", ANYTHING, effect="irreversible"),
)


def check(rules: RulePack, *steps: PlanStep, criteria: tuple[CriterionView, ...] = ()) -> list[PlanProblem]:
    return list(check_plan(PlanGraph(steps), WORK, rules=rules, criteria=criteria))


def codes(rules: RulePack, *steps: PlanStep, criteria: tuple[CriterionView, ...] = ()) -> list[str]:
    return [problem.code for problem in check(rules, *steps, criteria=criteria)]


def criterion(name: str, subject: str = "") -> CriterionView:
    return CriterionView(name=name, subject=subject, description="")


def test_a_required_step_by_tool_or_worker_type() -> None:
    rules = RulePack(
        name="r", required_steps=(RequiredStep(names=("look", "reader"), reason=Text(zh="先看", en="Look.")),)
    )
    assert codes(rules, PlanStep("a", tool="look")) == []
    assert codes(rules, PlanStep("a", "aim", "goal", worker_type="reader")) == []
    problems = check(rules, PlanStep("a", tool="send"))
    assert problems[0].message == "no step uses look / reader. Look."
    assert problems[0].message_zh == "没有使用 look / reader 的步骤。先看"


def test_every_step_that_could_stop_an_effect_comes_before_it() -> None:
    rules = RulePack(
        name="r", required_edges=(RequiredEdge(later=("send",), earlier=("look",), same="id", every=True),)
    )
    looks = [PlanStep(name, tool="look", arguments={"id": of}) for name, of in (("a", "1"), ("b", "2"), ("c", "1"))]

    def plan(*depends_on: str, **arguments: Any) -> list[str]:
        problems = check(rules, *looks, PlanStep("s", tool="send", depends_on=depends_on, arguments=arguments))
        assert {problem.code for problem in problems} <= {"missing_edge"}
        return [problem.message for problem in problems]

    assert plan("a", "b", "c") == plan("a", "c", id="1") == plan("b", id=2) == plan(id="3") == []
    assert plan("a", "b") == ["Step s: send must come after step c, and may run before it."]
    assert plan("c", id="1") == ["Step s: send must come after step a, and may run before it."]
    assert codes(rules, PlanStep("s", tool="send")) == []


def test_a_required_order_with_an_argument_in_common() -> None:
    rules = RulePack(name="r", required_edges=(RequiredEdge(later=("change",), earlier=("look",), same="id"),))

    def plan(first: Any, second: Any, depends_on: tuple[str, ...]) -> list[str]:
        return codes(
            rules,
            PlanStep("a", tool="look", arguments={"id": first}),
            PlanStep("x", tool="send", depends_on=("a",)),
            PlanStep("b", tool="change", arguments={"id": second}, depends_on=depends_on),
        )

    assert plan("O1", "O1", ("a",)) == []
    assert plan("O1", "O1", ("x",)) == []
    assert plan("O1", Reference("a", ("id",)), ("a",)) == []
    assert plan(None, "O1", ("a",)) == []
    assert plan("O1", "O1", ()) == ["missing_edge"]
    assert plan("O1", "O2", ("a",)) == ["missing_edge"]


def test_steps_that_change_the_same_thing_must_be_ordered() -> None:
    rules = RulePack(name="r", exclusive=(Exclusive(names=("change", "undo")),))
    first, second = PlanStep("a", tool="change"), PlanStep("b", tool="undo")
    assert codes(rules, first, second) == ["unordered"]
    assert codes(rules, first, PlanStep("b", tool="undo", depends_on=("a",))) == []
    assert codes(rules, PlanStep("a", tool="change", depends_on=("b",)), second) == []
    assert codes(rules, first, PlanStep("b", tool="look")) == []


def test_recovery_and_descriptions() -> None:
    rules = RulePack(name="r", requires_recovery=True, requires_description=True)
    assert codes(rules, PlanStep("a", "d", tool="look"), PlanStep("b", "d", tool="change")) == []
    assert codes(rules, PlanStep("a", "d", tool="send")) == ["missing_recovery"]
    assert codes(rules, PlanStep("a", "d", tool="send", on_error="escalate")) == []
    assert codes(rules, PlanStep("a", tool="look")) == ["missing_description"]


def test_every_criterion_needs_a_step_about_its_subject() -> None:
    rules = RulePack(name="r", checks={"valid": ("look",)})
    wanted = (criterion("valid", "O1"), criterion("unknown to the rules"))

    def plan(**fields: Any) -> list[str]:
        return codes(rules, PlanStep("s", tool="change"), PlanStep("a", **{"tool": "look", **fields}), criteria=wanted)

    assert plan(arguments={"id": "O1"}) == []
    assert plan(arguments={"deep": {"ids": ["O1"]}}) == []
    assert plan(arguments={"id": Reference("s")}, depends_on=("s",)) == []
    assert plan(kind="map", over=["O1"]) == []
    assert plan(arguments={"id": "O2"}) == ["missing_check"]
    assert plan(tool="send", arguments={"id": "O1"}) == ["missing_check"]
    assert codes(rules, PlanStep("a", tool="look"), criteria=(criterion("valid"),)) == []


# The pack of the orders suite


def reference_plan(task: Task) -> PlanGraph:
    """The reference path as a plan: every step waits for the ones before it."""
    steps: list[PlanStep] = []
    for step in task.reference:
        before = tuple(earlier.id for earlier in steps)
        arguments = parse_values(step.arguments)
        steps.append(PlanStep(step.id, "why", tool=step.tool, arguments=arguments, depends_on=before))
    return PlanGraph(tuple(steps))


HEALTHY = [task for task in SUITE.tasks if not task.is_defective]


@pytest.mark.parametrize("task", HEALTHY, ids=[task.id for task in HEALTHY])
def test_the_reference_of_every_flow_keeps_the_rules(task: Task) -> None:
    assert SUITE.rules is RULES
    assert check_plan(reference_plan(task), TOOLS, rules=RULES, criteria=task.view("en").criteria) == ()


@pytest.mark.parametrize("task", HEALTHY, ids=[task.id for task in HEALTHY])
def test_leaving_out_any_check_is_noticed(task: Task) -> None:
    graph = reference_plan(task)
    for name, subject in {(c.name, c.subject) for c in task.criteria}:
        checking = {step.id for step in graph.steps if step.tool in RULES.checks[name]}
        kept = [step for step in graph.steps if step.id not in checking]
        kept = [step for step in kept if not {str(r.step) for r in step.references()} & checking]
        left = tuple(
            PlanStep(
                s.id,
                "why",
                tool=s.tool,
                arguments=s.arguments,
                depends_on=tuple(set(s.depends_on) & {k.id for k in kept}),
            )
            for s in kept
        )
        problems = check_plan(PlanGraph(left), TOOLS, rules=RULES, criteria=task.view("en").criteria)
        assert f"checks {name}@{subject}" in " ".join(problem.message for problem in problems)


def test_a_check_without_the_query_before_it_is_refused_with_the_reason() -> None:
    def text(depends_on: list[str], order_id: str = "ORDER1002") -> str:
        query = {"id": "q", "description": "look", "tool": "query_order_detail", "arguments": {"order_id": order_id}}
        check = {
            "id": "a", "description": "amount", "tool": "check_order_amount", "depends_on": depends_on,
            "arguments": {"order_id": "ORDER1002"},
        }  # fmt: skip
        return json.dumps([query, check])

    assert len(read_plan(text(["q"]), TOOLS, rules=RULES)) == 2
    for bad in (text([]), text(["q"], "ORDER1001")):
        with pytest.raises(PlanError) as caught:
            read_plan(bad, TOOLS, rules=RULES)
        assert caught.value.codes == ("missing_edge",)
        assert "must not run when there is no such order" in str(caught.value)
        assert "必须依赖查询" in caught.value.feedback("zh")
