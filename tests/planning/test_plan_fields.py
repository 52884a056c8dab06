from typing import Any

import pytest

from agentlab.planning.fields import ALIASES, StepReader
from agentlab.planning.plan import PlanStep
from agentlab.references import Reference


def read(*entries: Any) -> tuple[list[PlanStep], StepReader]:
    reader = StepReader(("look", "check"))
    return reader.read_all(list(entries)), reader


def codes(*entries: Any) -> list[str]:
    return [problem.code for problem in read(*entries)[1].problems]


def test_every_field_is_read() -> None:
    entry = {
        "id": "b", "description": "d", "kind": "map", "tool": "check", "arguments": {"x": "item.id"},
        "depends_on": ["a"], "weak_depends_on": ["c", "a"], "over": "steps.a.output.rows", "output": "out",
        "priority": "High", "worker_type": "db", "layer": 2, "on_error": "Skip", "max_retries": 1, "is_critical": True,
        "only_if_passed": ["p"], "only_if_not_passed": ["n"], "on_not_passed": "rollback", "back_to": "a",
        "restart": True,
    }  # fmt: skip
    steps, reader = read(entry)
    assert steps == [
        PlanStep(
            "b", "d", "map", "check", {"x": Reference(None, ("id",))}, ("a", "p", "n"), ("c",), ("p",), ("n",),
            Reference("a", ("rows",)), "out", "high", "db", "2", "skip", 1, "rollback", "a", True, is_critical=True,
        )
    ]  # fmt: skip
    assert reader.problems == []
    assert reader.notes == []


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_every_other_spelling_is_read(alias: str) -> None:
    values: dict[str, Any] = {
        "id": "a", "tool": "look", "arguments": {"x": 1}, "depends_on": ["b"], "weak_depends_on": ["b"], "output": "o",
        "over": [1], "kind": "goal", "on_error": "block", "max_retries": 2, "is_critical": True, "worker_type": "db",
        "only_if_passed": ["b"], "only_if_not_passed": ["b"], "on_not_passed": "terminate", "back_to": "b",
    }  # fmt: skip
    name = ALIASES[alias]
    for spelling in (alias, alias.upper(), alias.replace("_", "-"), "".join(p.title() for p in alias.split("_"))):
        step = read({"id": "a", **{spelling: values[name]}} if name != "id" else {spelling: "a"})[0][0]
        wanted = values[name]
        assert getattr(step, name) == (tuple(wanted) if isinstance(wanted, list) and name != "over" else wanted)


def test_null_is_absent_and_words_of_other_systems_are_understood() -> None:
    step = read({"id": 1, "tool": None, "output": None, "priority": "高", "type": "function", "depends_on": None})[0][0]
    assert (step.id, step.tool, step.output, step.priority, step.kind, step.depends_on) == (
        "1", None, None, "high", "tool", (),
    )  # fmt: skip


def test_over_makes_a_map_step() -> None:
    step = read({"id": "a", "tool": "check", "over": "steps.b.output", "arguments": {"x": "item"}})[0][0]
    assert (step.kind, step.arguments) == ("map", {"x": Reference(None)})


def test_titles_and_numbers_stand_in_for_what_is_missing() -> None:
    steps, reader = read(
        {"step": 1, "name": "look", "arguments": {}},
        {"step": "2", "name": "Look at it", "tool": "look"},
        {"number": 3, "title": "Check", "description": "own words"},
    )
    assert [(step.id, step.tool, step.description) for step in steps] == [
        ("1", "look", ""), ("2", "look", "Look at it"), ("3", None, "own words"),
    ]  # fmt: skip
    assert reader.problems == []


def test_references_by_id_and_by_output_name_in_any_order() -> None:
    steps, _ = read(
        {"id": "b", "arguments": {"x": "$sales.rows", "y": "steps.sales.output", "z": "$5"}},
        {"id": 3.0 and "a", "output": "sales"},
    )
    assert steps[0].arguments == {"x": Reference("a", ("rows",)), "y": Reference("a"), "z": "$5"}


def test_an_id_wins_over_an_output_of_that_name() -> None:
    steps, _ = read({"id": "a", "output": "b"}, {"id": "b"}, {"id": "c", "arguments": {"x": "$b"}})
    assert steps[2].arguments == {"x": Reference("b")}


def test_arguments_named_type_and_value_are_arguments() -> None:
    arguments = {"type": "literal", "value": {"type": "literal", "value": "steps.a.output"}}
    assert read({"id": "a", "arguments": arguments})[0][0].arguments == {"type": "literal", "value": "steps.a.output"}


def test_arguments_as_text_are_read_when_they_are_one_object() -> None:
    steps, reader = read({"id": "a", "arguments": '{"x": 1}'})
    assert steps[0].arguments == {"x": 1}
    assert reader.notes == ["a: arguments read from text"]
    assert codes({"id": "a", "arguments": "x=1"}) == ["arguments_not_object"]


def test_claims_about_progress_are_left_out_with_a_note() -> None:
    steps, reader = read({"id": "a", "status": "completed", "Result": {"x": 1}, "reason": "because"})
    assert steps == [PlanStep("a")]
    assert reader.notes == ["a: left out status, Result, reason"]


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ("look", "not_an_object", "Step #1: is \"look\", not an object"),
        ({"tool": "look"}, "bad_id", "Step #1: the id is null"),
        ({"id": ""}, "bad_id", 'the id is ""'),
        ({"id": True}, "bad_id", "the id is true"),
        ({"id": 3.1}, "bad_id", "the id is 3.1"),
        ({"id": ["a"]}, "bad_id", '["a"]'),
        ({"id": "a b"}, "bad_id", "a b"),
        ({"id": "a.output"}, "bad_id", "a.output"),
        ({"id": "a", "requires": ["b"], "colour": 1}, "unknown_fields", "not understood: requires, colour."),
        ({"id": "a", "deps": ["b"], "dependsOn": ["c"]}, "field_given_twice", "given as deps and as dependsOn"),
        ({"id": "a", "kind": "loop"}, "bad_field", "kind is \"loop\". Write tool, goal, map, collect, report"),
        ({"id": "a", "priority": "urgent"}, "bad_field", "Write high, medium, low"),
        ({"id": "a", "priority": ["high"]}, "bad_field", "priority"),
        ({"id": "a", "on_error": "ignore"}, "bad_field", "retry, skip, block"),
        ({"id": "a", "tool": {"name": "look"}}, "bad_field", "tool is {\"name\": \"look\"}. Write a text"),
        ({"id": "a", "max_retries": -1}, "bad_field", "a number from 0 to 10"),
        ({"id": "a", "max_retries": True}, "bad_field", "max_retries is true"),
        ({"id": "a", "is_critical": "yes"}, "bad_field", "is_critical"),
        ({"id": "a", "description": ["x"]}, "bad_field", "description"),
        ({"id": "a", "arguments": [1]}, "arguments_not_object", "[1]"),
        ({"id": "a", "depends_on": "b"}, "dependencies_not_list", "depends_on is \"b\", not a list"),
        ({"id": "a", "weak_depends_on": {"b": 1}}, "dependencies_not_list", "weak_depends_on"),
        ({"id": "a", "depends_on": ["b", None]}, "bad_dependency", "depends_on contains null"),
        ({"id": "a", "depends_on": [{"id": "b"}]}, "bad_dependency", "b"),
        ({"id": "a", "arguments": {"x": "say ${steps.b.output}"}}, "bad_reference", "say ${steps.b.output}"),
        ({"id": "a", "arguments": {"x": {"$ref": "item"}}}, "bad_reference", "item"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_its_fix(entry: Any, code: str, words: str) -> None:
    _, reader = read(entry)
    assert [problem.code for problem in reader.problems] == [code]
    assert words in reader.problems[0].line("en")
    assert reader.problems[0].line("zh") != reader.problems[0].line("en")
    assert reader.problems[0].fix


def test_deep_nesting_is_refused_before_anything_walks_it() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    assert codes({"id": "a", "arguments": {"x": deep}}) == ["too_deep"]


def test_equal_values_under_two_spellings_are_fine_and_dependencies_count_once() -> None:
    steps, reader = read({"id": "a", "args": {"x": 1}, "arguments": {"x": 1}, "depends_on": ["b", 2, "2", "b"]})
    assert reader.problems == []
    assert steps[0].depends_on == ("b", "2")
