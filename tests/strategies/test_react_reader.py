import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.strategies.react import Turn, read_turn
from agentlab.tools import Tool, tools_from_schemas

CASES = json.loads((Path(__file__).parents[1] / "cases" / "react_texts.json").read_text(encoding="utf-8"))
TOOLS = CASES["tools"]
CASE = {case["id"]: case for case in CASES["cases"]}


def read(text: str, language: str = "en") -> Turn:
    return read_turn(text, TOOLS, language)


def expected(case: dict[str, Any], kind: str) -> dict[str, Any]:
    """The outcome of that kind that the case allows."""
    options = case["expect"].get("any_of", [case["expect"]])
    return next((option for option in options if option["step"] == kind), {})


@pytest.mark.parametrize("case_id", CASE)
def test_every_case_is_read_as_the_case_says(case_id: str) -> None:
    case = CASE[case_id]
    turn = read(case["input"]["text"])
    expect = expected(case, turn.kind)
    assert expect, f"{turn.kind} is none of the right outcomes"
    if turn.kind == "action":
        assert turn.tool == expect["tool"]
        assert turn.arguments == expect["arguments"]
    if turn.kind == "final":
        assert turn.answer == expect["answer"]
    assert bool(turn.dropped) == ("dropped" in expect)


@pytest.mark.parametrize(
    ("case_id", "dropped_start"), [("B01", "Observation:"), ("B02", "Thought: 接着"), ("B13", "Final Answer:")]
)
def test_what_follows_an_action_is_dropped(case_id: str, dropped_start: str) -> None:
    text = CASE[case_id]["input"]["text"]
    turn = read(text)
    assert turn.dropped.startswith(dropped_start)
    assert turn.kept + "\n" + turn.dropped == text
    assert "Observation" not in turn.kept


@pytest.mark.parametrize("case_id", ["B05", "B08", "B12"])
def test_feedback_says_what_to_write(case_id: str) -> None:
    text = CASE[case_id]["input"]["text"]
    english, chinese = read(text).feedback, read(text, "zh").feedback
    words = {
        "B05": (["Action Input", 'query_order_detail\nAction Input: {"order_id"'], ["行动输入", '{"order_id"']),
        "B08": (["Without an action", "Final Answer:"], ["最终答案："]),
        "B12": (["Action:", "Action Input:", "Final Answer:"], ["行动：", "行动输入：", "最终答案："]),
    }[case_id]
    for feedback, wanted in zip((english, chinese), words, strict=True):
        assert all(word in feedback for word in wanted), feedback


def test_tools_may_be_given_as_tools() -> None:
    turn = read_turn(CASE["B01"]["input"]["text"], tools_from_schemas(TOOLS))
    assert turn == read(CASE["B01"]["input"]["text"])


ORDER = {"order_id": "ORDER1002"}


@pytest.mark.parametrize(
    "text",
    [
        'Action: query_order_detail\nAction Input: {"order_id": "ORDER1002"}',
        'action: query_order_detail\naction input: {"order_id": "ORDER1002"}',
        'Thought 1: look\nAction 1: query_order_detail\nAction Input 1: {"order_id": "ORDER1002"}',
        '1. Thought: look\n2. Action: query_order_detail\n3. Action Input: {"order_id": "ORDER1002"}',
        '### Action:\nquery_order_detail\n### Action Input:\n{"order_id": "ORDER1002"}',
        '* **Action:** query_order_detail\n* **Action Input:** {"order_id": "ORDER1002"}',
        '> Action: query_order_detail\n> Action Input: {"order_id": "ORDER1002"}',
        '**Action: query_order_detail**\n**Action Input: {"order_id": "ORDER1002"}**',
        'Action: query_order_detail.\nAction Input: {"order_id": "ORDER1002"}.',
        'Action: "query_order_detail"\r\nAction Input: {"order_id": "ORDER1002"}\r\n',
        'Action: query_order_detail {"order_id": "ORDER1002"}',
        'Action: query_order_detail\n{"order_id": "ORDER1002"}',
        'Action: query_order_detail\n```json\n{"order_id": "ORDER1002"}\n```',
        "Action: query_order_detail\nAction Input: {'order_id': 'ORDER1002'}",
        "Action: query_order_detail\nAction Input: {'order_id': 'ORDER1002',}\nObservation: {}",
        'Action: query_order_detail\nAction Input: "{\\"order_id\\": \\"ORDER1002\\"}"',
        'Action: query_order_detail(order_id="ORDER1002")',
        'Action: query_order_detail({"order_id": "ORDER1002"})',
        'Action: query_order_detail("ORDER1002")',
        '**Action:** `query_order_detail(order_id="ORDER1002")`\nObservation: x',
        'Action: query_order_detail()\nAction Input: {"order_id": "ORDER1002"}',
        'Action: query_order_detail(order_id="ORDER1002")\nAction Input: {}',
        '```\nThought: look\nAction: query_order_detail\nAction Input: {"order_id": "ORDER1002"}\n```',
        '思考: 查询\n行动: query_order_detail\n行动输入: {"order_id": "ORDER1002"}\n观察：{}',
    ],
)
def test_layout_does_not_matter(text: str) -> None:
    turn = read(text)
    assert (turn.kind, turn.tool, turn.arguments) == ("action", "query_order_detail", ORDER)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("Action: server_time", {}),
        ("Action: server_time\nAction Input:", {}),
        ("Action: server_time\nAction Input: None", {}),
        ("Action: server_time\nAction Input: null\nObservation: 12:00", {}),
        ("Action: server_time()", {}),
        ("行动：server_time\n行动输入：无", {}),
    ],
)
def test_a_tool_without_required_arguments_needs_no_input(text: str, arguments: dict[str, Any]) -> None:
    turn = read(text)
    assert (turn.kind, turn.tool, turn.arguments) == ("action", "server_time", arguments)


@pytest.mark.parametrize(
    "text",
    [
        "Action: create_refund(order_id='A', amount=1.5, notify=true)",
        "Action: create_refund(order_id='A', amount=1.5, notify=True)",
        'Action: create_refund\nAction Input: {"order_id": "A", "amount": 1.5, "notify": true}',
    ],
)
def test_words_of_json_and_python_mean_the_same(text: str) -> None:
    assert read(text).arguments == {"order_id": "A", "amount": 1.5, "notify": True}


@pytest.mark.parametrize(
    "text",
    [
        "Action: delete_everything\nAction Input: {}",
        "Action: delete_everything",
        'Action: query_order_detail\nAction Input: {"id": 5}',
        "Action: query_order_detail\nAction Input: {}",
    ],
)
def test_unknown_tools_and_wrong_arguments_are_passed_on_for_the_session_to_answer(text: str) -> None:
    assert read(text).kind == "action"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "neither"),
        ("Action:", "named no tool"),
        ("Action: final answer", "named no tool"),
        ("行动：无", "named no tool"),
        ("Action: 查询订单", "name of one tool"),
        ("Action: I will call query_order_detail", "name of one tool"),
        ('Action: {"name": "query_order_detail", "arguments": {}}', "name of one tool"),
        ('Action:\n```json\n{"action": "query_order_detail"}\n```', "name of one tool"),
        ("Action: query_order_detail\nAction Input: ORDER1002", "not one JSON object"),
        ("Action: query_order_detail\nAction Input: [1, 2]", "not one JSON object"),
        ('Action: query_order_detail\nAction Input: {"order_id": "ORD', "not one JSON object"),
        ('Action: create_refund\nAction Input: {"order_id": "A", "amount": NaN}', "not one JSON object"),
        ("Action: query_order_detail\nAction Input: None", "missing"),
        ("Action: query_order_detail\nAction Input:\nObservation: {}", "missing"),
        ('Action: query_order_detail\nThought: hm\nAction Input: {"order_id": "A"}', "missing"),
        ("Action: create_refund('A', 5)", "not one JSON object"),
        ("Action: list_orders(user_id=user)", "not one JSON object"),
        ("Action: list_orders(**{'user_id': 'U'})", "not one JSON object"),
        ('Action: query_order_detail(order_id="A")\nAction Input: {"order_id": "B"}', "given twice"),
        ("Observation: fine\nFinal Answer: all right", "come from the program"),
        ("Thought: done\nFinal Answer:", "Nothing follows"),
    ],
)
def test_a_form_that_cannot_be_read_brings_feedback(text: str, words: str) -> None:
    turn = read(text)
    assert turn.kind == "format_error"
    assert words in turn.feedback
    assert read(text, "zh").feedback not in ("", turn.feedback)


def test_model_text_is_never_evaluated(tmp_path: Path) -> None:
    target = tmp_path / "made"
    text = f"Action: save_note(text=__import__('pathlib').Path({str(target)!r}).write_text('x'))"
    assert read(text).kind == "format_error"
    assert read(f"Action: save_note\nAction Input: {{'text': open({str(target)!r}, 'w')}}").kind == "format_error"
    assert not target.exists()


def test_an_invented_observation_is_never_kept() -> None:
    for text in (
        "Thought: a\nObservation: invented\nAction: server_time",
        "Thought: a\nAction: query_order_detail\nObservation: invented",
        "Final Answer: fine\nObservation: invented\nFinal Answer: wrong",
        "行动：query_order_detail\n观察：invented",
    ):
        turn = read(text)
        assert "invented" not in turn.kept + turn.answer
        assert "invented" in turn.dropped


def test_the_final_answer_keeps_lines_that_look_like_markers() -> None:
    turn = read("Final Answer: report\nAction: none needed\nThought: a heading")
    assert turn.answer == "report\nAction: none needed\nThought: a heading"


def test_the_fence_around_a_reply_is_no_part_of_the_answer() -> None:
    assert read("```\nFinal Answer: fine\n```").answer == "fine"
    assert read("Final Answer: ```json\n{}\n```").answer == "```json\n{}\n```"


def test_thought_is_what_stands_before() -> None:
    assert read("Thought: first\nsecond\nFinal Answer: x").thought == "first\nsecond"
    assert read("I think so.\nAction: server_time").thought == "I think so."


def test_a_tool_named_like_a_reserved_word_can_be_called() -> None:
    finish = Tool("finish", "Finish the order.", {"type": "object", "properties": {}})
    assert read_turn("Action: finish", [finish]).tool == "finish"


PIECES = [*"{}[]()\"'`:：,.*-# \n\\0aN", "\nAction: ", "\nAction Input: ", "\nFinal Answer: ", "\nObservation: "]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_text_raises(text: str) -> None:
    turn = read(f"Action: save_note{text}")
    assert turn.kind in ("action", "final", "format_error")
    assert len(turn.kept) + len(turn.dropped) <= len(text) + 40
    read(text)


@pytest.mark.parametrize("piece", ['{"a":', "[", "(", "-", "{'a':", "not ", "f(", "lambda:"])
def test_deep_nesting_does_not_raise(piece: str) -> None:
    for count in (900, 3_000, 100_000):
        assert read(f"Action: save_note\nAction Input: {piece * count}").kind == "format_error"
        assert read(f"Action: save_note({piece * count})").kind == "format_error"
