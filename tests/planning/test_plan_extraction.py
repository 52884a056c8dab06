import json
from typing import Any

import pytest

from agentlab.errors import PlanError
from agentlab.planning.extraction import Draft, extract_plan, normal_name, read_value

STEP = {"id": 1, "tool": "t"}
PLAN = json.dumps({"steps": [STEP]})


def refused(text: str) -> PlanError:
    with pytest.raises(PlanError) as caught:
        extract_plan(text)
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        PLAN,
        f"\ufeff \n{PLAN}\n",
        f"Here is the plan:\n```json\n{PLAN}\n```\nTell me if it fits.",
        f"```\n{PLAN}\n```",
        f"```json\n{PLAN}",
        f"```{PLAN}```",
        f"The plan {PLAN} is complete.",
        f"[重要] I call {{tool}} with {{'x'}}: {PLAN}",
        f'First {{"note": "not a plan"}}, then {PLAN}',
        f'{{"plan": {PLAN}}}',
        "{'steps': [{'id': 1, 'tool': 't',},],}",
        "{\n 'steps': [  # the only one\n {'id': 1, 'tool': 't'}\n ]\n}",
        "My plan:\n{'steps': [{'id': 1, 'tool': 't'}]}\nDone.",
        '{"steps": [{"id": 1, "tool": "t",},],}',
        json.dumps([STEP]),
        f"Steps: {json.dumps([STEP])}",
        f"```json\n{PLAN}\n```\nand once more\n```json\n{PLAN}\n```",
    ],
)
def test_the_plan_is_found(text: str) -> None:
    assert extract_plan(text).steps == [STEP]


@pytest.mark.parametrize(
    ("value", "draft"),
    [
        ({"tasks": [STEP], "goal": "g"}, Draft("tasks", [STEP], {"goal": "g"})),
        ({"plan": [STEP]}, Draft("plan", [STEP], {})),
        ({"plan": {"Steps": [STEP], "goal": "g"}, "explanation": "e"},
         Draft("Steps", [STEP], {"explanation": "e", "goal": "g"})),
        ({"tasks": []}, Draft("tasks", [], {})),
        ({"tasks": "none"}, Draft("tasks", "none", {})),
        ({"steps": [], "tasks": [STEP]}, Draft("steps", [], {"tasks": [STEP]})),
    ],
)  # fmt: skip
def test_the_ways_to_hold_steps(value: Any, draft: Draft) -> None:
    assert extract_plan(json.dumps(value)) == draft


@pytest.mark.parametrize(
    "text",
    ["", "订单异常。", "[1] says so", '{"findings": [{"criterion": "a"}]}', "[]", '["a"]', "null", '{"plan": "later"',
     '{"plan": {"when": 1}}'],
)  # fmt: skip
def test_what_is_no_plan(text: str) -> None:
    codes = refused(text).codes
    assert codes == (("not_json",) if text.startswith('{"plan": "later"') else ("not_a_plan",))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"steps": [{"id": 1}, {"id": 2', "ends before the plan is closed"),
        ('{"steps": [{"id": 1, "arguments": {"rows": [{"id": 5}]}}, {"id": 2', "ends before"),
        ('{"steps": [{"id": "1, "tool": "t"}]}', "(line 1, column "),
        ('{"steps": [{"id": 1} {"id": 2, "more": [{"a": 1}]}]}', "line 1, column 22"),
        ('{"steps": [{"id": 1}], "steps": [{"id": 2}]}', "the key 'steps' is given twice"),
        ('{"steps": [{"id": 1, "id": 2}]}', "the key 'id' is given twice"),
        ("{'steps': [{'id': 1, 'id': 2}]}", "near: {'steps': [{'id': 1"),
        ("{'steps': [{'id': (1, 2)}]}", "near: {'steps'"),
        ("{'steps': [{'id': f(1)}]}", "near: {'steps'"),
        ("{'steps': [{'id': '\\d'}]}", "near: {'steps'"),
        ('{"steps": [{"id": NaN}]}', "NaN is not a JSON value"),
        ('{"steps": ' + "[" * 5000, "nested too deeply"),
    ],
)
def test_a_broken_plan_is_never_completed_or_guessed(text: str, words: str) -> None:
    error = refused(text)
    assert error.codes == ("not_json",)
    assert words in str(error)


def test_a_list_inside_a_broken_object_is_no_plan() -> None:
    assert refused('{"a": "x "y"", "rows": [{"id": 1, "tool": "t"}]}').codes == ("not_a_plan",)
    assert extract_plan('{"a": "x "y""} ' + PLAN).steps == [STEP]


def test_two_different_plans_are_refused() -> None:
    error = refused(f'```json\n{PLAN}\n```\nor better\n```json\n{{"steps": []}}\n```')
    assert error.codes == ("several_plans",)
    assert "2 different plans" in str(error)
    assert refused(f'{PLAN} or {{"tasks": []}}').codes == ("several_plans",)


def test_garbage_is_given_up_soon() -> None:
    assert refused("{[" * 100_000).codes == ("not_a_plan",)
    assert refused("{'steps': " * 3000).codes == ("not_json",)


def test_names_and_values() -> None:
    names = ["dependsOn", "depends-on", "Depends On", "taskID", "tool_name", "依赖"]
    assert [normal_name(name) for name in names] == [
        "depends_on", "depends_on", "depends_on", "task_id", "tool_name", "依赖",
    ]  # fmt: skip
    assert read_value('{"a": 1}') == {"a": 1}
    assert read_value("{'a': None}") == {"a": None}
    assert read_value('{"a": 1} rest') is ...
