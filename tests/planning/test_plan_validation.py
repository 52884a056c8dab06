from typing import Any

import pytest

from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.validation import check_plan
from agentlab.records import JsonObject, PlanProblem
from agentlab.references import Reference
from agentlab.tools import Tool

ORDERS: JsonObject = {
    "type": "object",
    "properties": {
        "orders": {
            "type": "array",
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "extra": {}}},
        },
        "user": {"properties": {"name": {"type": "string"}}},
    },
}
SEND: JsonObject = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "pattern": "@"},
        "copies": {"type": "integer", "minimum": 1},
        "parts": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "options": {"type": "object", "properties": {"urgent": {"type": "boolean"}}, "additionalProperties": False},
        "mode": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
    },
    "required": ["to"],
    "additionalProperties": False,
}
TOOLS = (
    Tool("list", "lists", {"type": "object", "properties": {"user": {}}}, returns=ORDERS),
    Tool("check", "checks", {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}),
    Tool("send", "sends", SEND, effect="irreversible"),
)


def check(*steps: PlanStep) -> list[PlanProblem]:
    return list(check_plan(PlanGraph(steps), TOOLS))


def codes(*steps: PlanStep) -> list[str]:
    return [problem.code for problem in check(*steps)]


def send(**arguments: Any) -> PlanStep:
    return PlanStep("m", tool="send", arguments={"to": "a@b", **arguments}, depends_on=("l",))


LIST = PlanStep("l", tool="list")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"copies": 2, "parts": ["a"], "options": {"urgent": True}, "mode": [1]},
        {"to": Reference("l", ("user", "name"))},
        {"copies": Reference("l"), "parts": Reference("l"), "options": Reference("l"), "mode": Reference("l")},
        {"parts": ["a", Reference("l")], "options": {"urgent": Reference("l")}, "mode": [Reference("l"), 1]},
    ],
)
def test_arguments_that_fit_or_are_not_known_yet(arguments: dict[str, Any]) -> None:
    assert check(LIST, send(**arguments)) == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"copies": "two"}, "bad_argument", "copies: 'two' is not of type 'integer'"),
        ({"copies": 0}, "bad_argument", "copies: 0 is less than the minimum of 1"),
        ({"parts": []}, "bad_argument", "parts: [] should be non-empty"),
        ({"parts": [1, Reference("l")]}, "bad_argument", "parts.0: 1 is not of type 'string'"),
        ({"to": "nobody"}, "bad_argument", "to: 'nobody' does not match '@'"),
        ({"options": {"urgent": Reference("l"), "x": 1}}, "extra_argument", "send has no argument options.x"),
        ({"mode": 1.5}, "bad_argument", "mode"),
        ({"nobody": Reference("l")}, "extra_argument", "send has no argument nobody"),
        ({"parts": None}, "bad_argument", "parts: None is not of type 'array'"),
    ],
)
def test_arguments_that_can_never_fit(arguments: dict[str, Any], code: str, words: str) -> None:
    problems = check(LIST, send(**arguments))
    assert [problem.code for problem in problems] == [code]
    assert words in problems[0].message
    assert problems[0].step == "m"
    assert '{"to": string' in problems[0].fix


def test_every_missing_argument_is_named() -> None:
    problems = check(PlanStep("m", tool="send"), PlanStep("c", tool="check", arguments={"x": 1}))
    assert [problem.message for problem in problems] == [
        "Step m: send needs the argument to.", "Step c: check needs the argument id.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (PlanStep("a", tool="fly"), "unknown_tool"),
        (PlanStep("a"), "unknown_tool"),
        (PlanStep("a", kind="map", tool="check", arguments={"id": Reference(None)}), "no_list_to_map"),
        (PlanStep("a", kind="map", tool="check", arguments={"id": Reference(None)}, over="all"), "no_list_to_map"),
        (PlanStep("a", tool="check", arguments={"id": "1"}, over=[1]), "over_without_map"),
        (PlanStep("a", kind="goal", description="reach it", tool="check"), "tool_without_use"),
        (PlanStep("a", kind="goal"), "no_goal"),
    ],
)
def test_kinds_have_what_they_need(step: PlanStep, code: str) -> None:
    assert codes(step) == [code]


def test_the_kinds_without_a_tool() -> None:
    item = {"id": Reference(None, ("id",))}
    assert check(
        LIST,
        PlanStep("m", kind="map", tool="check", arguments=item, over=Reference("l", ("orders",)), depends_on=("l",)),
        PlanStep("n", kind="map", tool="check", arguments={"id": Reference(None)}, over=["a", "b"]),
        PlanStep("g", "reach it", "goal"),
        PlanStep("c", kind="collect", arguments={"all": Reference("m")}, depends_on=("m",)),
        PlanStep("r", kind="report", depends_on=("c",)),
    ) == []  # fmt: skip


def test_a_similar_tool_is_suggested() -> None:
    assert "Did you mean check? Tools: list, check, send." in check(PlanStep("a", tool="chek"))[0].line("en")
    assert "是否指 check？" in check(PlanStep("a", tool="chek"))[0].line("zh")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ((), ""),
        (("orders", 0, "id"), ""),
        (("orders", "0", "extra", "anything"), ""),
        (("user", "name", "x"), ""),
        (("items",), "there is no 'items', only orders, user"),
        (("orders", "id"), "a list has no 'id'"),
        (("orders", 0, "amount"), "there is no 'amount', only id, extra"),
    ],
)
def test_a_reference_must_exist_in_a_declared_output(path: tuple[str | int, ...], words: str) -> None:
    step = PlanStep("c", tool="check", arguments={"id": Reference("l", path)}, depends_on=("l",))
    problems = check(LIST, step)
    assert [problem.code for problem in problems] == (["unknown_output_path"] if words else [])
    assert all(words in problem.message and Reference("l", path).text() in problem.message for problem in problems)


def test_the_output_of_a_map_step_is_a_list() -> None:
    mapped = PlanStep("l", kind="map", tool="list", over=[1, 2])
    assert (
        codes(
            mapped,
            PlanStep("c", tool="check", arguments={"id": Reference("l", (0, "user", "name"))}, depends_on=("l",)),
        )
        == []
    )
    problems = check(
        mapped, PlanStep("c", tool="check", arguments={"id": Reference("l", ("user",))}, depends_on=("l",))
    )
    assert "a map step returns a list" in problems[0].message


def test_references_need_a_dependency_and_a_step() -> None:
    step = PlanStep("c", tool="check", arguments={"id": Reference("l")})
    problems = check(LIST, step)
    assert [problem.code for problem in problems] == ["undeclared_reference"]
    assert problems[0].fix == "Add l to depends_on."
    assert codes(PlanStep("c", tool="check", arguments={"id": Reference("ghost")})) == ["unknown_reference"]
    far = PlanStep("d", tool="check", arguments={"id": Reference("l")}, depends_on=("x",))
    assert check(LIST, PlanStep("x", tool="list", depends_on=("l",)), far) == []


def test_what_is_needed_cannot_come_over_a_weak_dependency() -> None:
    weak = {"weak_depends_on": ("l",)}
    assert codes(LIST, PlanStep("c", tool="check", arguments={"id": Reference("l")}, **weak)) == ["weak_reference"]
    mapped = PlanStep("c", kind="map", tool="check", arguments={"id": Reference(None)}, over=Reference("l"), **weak)
    assert codes(LIST, mapped) == ["weak_reference"]
    assert codes(LIST, PlanStep("m", tool="send", arguments={"to": "a@b", "parts": Reference("l")}, **weak)) == []
    assert codes(LIST, PlanStep("r", kind="report", arguments={"x": Reference("l")}, **weak)) == []
    also = PlanStep("c", tool="check", arguments={"id": Reference("l")}, depends_on=("x",), **weak)
    assert codes(LIST, PlanStep("x", tool="list", depends_on=("l",)), also) == []


def test_a_rollback_goes_back_to_a_step_before_or_its_layer() -> None:
    first = PlanStep("l", tool="list", layer="look")
    for place in ("l", "layer:look"):
        assert codes(first, PlanStep("c", tool="list", depends_on=("l",), on_error="rollback", back_to=place)) == []
    for place in ("c", "layer:c", "ghost"):
        after = PlanStep("c", tool="list", depends_on=("l",), on_error="rollback", back_to=place)
        assert check(first, after)[0].message == f"Step c: it is to roll back to {place}, which is not before it."


def test_what_belongs_to_a_rollback_needs_one() -> None:
    first = PlanStep("l", tool="list")
    for fields in ({"back_to": "l"}, {"restart": True}, {"back_to": "l", "on_error": "skip"}):
        assert codes(first, PlanStep("c", tool="list", depends_on=("l",), **fields)) == ["no_rollback"]
    assert codes(first, PlanStep("c", tool="list", depends_on=("l",), back_to="l", on_not_passed="rollback")) == []
