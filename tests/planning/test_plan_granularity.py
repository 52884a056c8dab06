from typing import Any

from plan_runner import steps

from agentlab.planning.granularity import Hint, hints
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.references import Reference
from agentlab.tools import Tool

# 002.23: the login feature in ten fragments, and as it should be.
LOGIN = [
    ("form", "frontend"), ("user field", "frontend"), ("password field", "frontend"), ("button", "frontend"),
    ("route", "backend"), ("look up the user", "backend"), ("compare the hash", "backend"), ("session", "backend"),
    ("test the right password", "test"), ("test a wrong password", "test"),
]  # fmt: skip
TOOLS = (Tool("read", "", {}), Tool("write", "", {}, effect="write"), Tool("mail", "", {}, effect="irreversible"))


def goals(*rows: tuple[str, str], **fields: Any) -> PlanGraph:
    made: list[PlanStep] = []
    for index, (text, worker) in enumerate(rows):
        before = (str(index - 1),) if index else ()
        made.append(PlanStep(str(index), text, "goal", worker_type=worker or None, depends_on=before, **fields))
    return PlanGraph(tuple(made))


def codes(graph: PlanGraph, **options: Any) -> list[str]:
    return [hint.code for hint in hints(graph, **options)]


def only(graph: PlanGraph, **options: Any) -> Hint:
    found = hints(graph, **options)
    assert len(found) == 1
    return found[0]


def test_002_23_ten_fragments_of_a_login_are_three_tasks() -> None:
    hint = only(goals(*LOGIN))
    assert (hint.code, hint.suggested_steps, len(hint.steps)) == ("too_fine", 3, 10)
    assert "10 fragments belong to 3 modules (0, 1, 2, 3; 4, 5, 6, 7; 8, 9)" in hint.message
    assert "3 个功能模块" in hint.message_zh
    assert hints(goals(("login page", "frontend"), ("login service", "backend"), ("login tests", "test"))) == ()


def test_002_23_fragments_are_steps_of_less_than_five_minutes() -> None:
    short, right = dict.fromkeys(map(str, range(10)), 2.0), dict.fromkeys(map(str, range(10)), 8.0)
    assert codes(goals(*LOGIN), minutes=short) == ["too_fine"]
    assert codes(goals(*LOGIN), minutes=right) == []
    assert codes(goals(*LOGIN), minutes=right | {"0": 40.0}) == ["too_coarse"]


def test_002_23_dozens_of_steps_are_too_many() -> None:
    graph = steps(*((str(i), str(i - 1) if i else "") for i in range(24)))
    assert only(graph).code == "too_many"
    assert "24 steps are too many" in only(graph).message
    assert codes(graph, max_steps=24) == []


def test_without_workers_a_module_is_an_unbranched_chain() -> None:
    assert only(goals(("a", ""), ("b", ""), ("c", ""))).suggested_steps == 1
    branched = PlanGraph((
        PlanStep("a", "a", "goal"), PlanStep("b", "b", "goal", depends_on=("a",)),
        PlanStep("c", "c", "goal", depends_on=("a",)), PlanStep("d", "d", "goal", depends_on=("b", "c")),
    ))  # fmt: skip
    assert hints(branched) == ()


def test_tool_steps_are_calls_and_never_fragments() -> None:
    assert hints(steps(*((str(i), str(i - 1) if i else "") for i in range(12)))) == ()


def test_one_goal_for_everything_is_too_coarse() -> None:
    text = "Analyse the code, then change the database and the cache, test it, and deploy"
    assert only(goals((text, ""))).code == "too_coarse"
    assert only(goals(("分析代码，然后修改数据库、缓存，测试，再部署", ""))).code == "too_coarse"
    assert hints(goals(("Analyse the code and name the slow parts", ""))) == ()


def test_one_step_per_entry_of_an_unknown_list_should_be_a_map_step() -> None:
    def check(index: int) -> PlanStep:
        arguments = {"id": Reference("l", ("rows", index, "id"))}
        return PlanStep(f"c{index}", tool="check", arguments=arguments, depends_on=("l",))

    hint = only(PlanGraph((PlanStep("l", tool="list"), check(0), check(1), check(2))))
    assert (hint.code, hint.steps, hint.suggested_steps) == ("same_call", ("c0", "c1", "c2"), 1)
    assert hints(PlanGraph((PlanStep("l", tool="list"), check(0)))) == ()


def test_changes_without_any_order_raise_a_question() -> None:
    unordered = steps(("a", "", {"tool": "write"}), ("b", "", {"tool": "write"}), ("c", "", {"tool": "read"}))
    assert only(unordered, tools=TOOLS).steps == ("a", "b")
    assert codes(steps(("a", "", {"tool": "read"}), ("b", "", {"tool": "read"})), tools=TOOLS) == []
    assert codes(steps(("a", "", {"tool": "write"}), ("b", "a", {"tool": "write"})), tools=TOOLS) == []
    pure = {"tool": None, "kind": "collect"}
    assert codes(steps(("a", "", {"tool": "write"}), ("b", "", pure), ("c", "", pure)), tools=TOOLS) == []


def test_002_07_what_cannot_be_undone_stands_alone() -> None:
    beside = steps(("a", "", {"tool": "read"}), ("m", "", {"tool": "mail"}), ("z", "a m", {"tool": "read"}))
    hint = only(beside, tools=TOOLS)
    assert (hint.code, hint.steps) == ("risk_not_isolated", ("m",))
    assert hints(steps(("a", "", {"tool": "read"}), ("m", "a", {"tool": "mail"})), tools=TOOLS) == ()
    assert hints(beside) == (), "without the tools nothing is known about risk"
