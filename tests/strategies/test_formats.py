import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.answers import answer_fault, answer_to_arguments, read_answer, submit_tool
from agentlab.records import (
    STATUSES,
    VERDICTS,
    Answer,
    CallIntent,
    Finding,
    FinishIntent,
    Intent,
    Reply,
    ReplyFormat,
    ToolCall,
    Unreadable,
)
from agentlab.strategies.native import NativeFormat, problem_feedback
from agentlab.strategies.react import ReactFormat
from agentlab.tools import Tool

NOTE = Tool(
    "save_note",
    "Save a note.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
TOOLS = (NOTE, Tool("server_time", "The time.", {"type": "object", "properties": {}}), submit_tool((), "en"))
ANSWER = Answer((Finding("amount_valid", "failed", "ORDER1002", "-20.00"),), "failed", "Wrong amount.")
OBJECT = json.dumps(answer_to_arguments(ANSWER))

FORMATS = [NativeFormat(), NativeFormat("zh"), ReactFormat(), ReactFormat("zh")]
every_format = pytest.mark.parametrize("format", FORMATS, ids=lambda f: f"{f.name}-{f.language}")

clean = st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t\"'{}[]\\`:中文，：观察思考行动")
texts = st.text(clean, max_size=60)
pieces = st.sampled_from(
    ["\nAction: x", "\nObservation: y", "\nFinal Answer: z", "\n行动：x", "```", "}}", "观察：", "{"]
)
hostile = st.lists(st.one_of(texts, pieces), max_size=5).map("".join)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), hostile),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(hostile, inner, max_size=3)),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(["text", "tags", "参数"]), values, max_size=3).map(
    lambda given: {"text": "", **given}
)
thoughts = hostile.map(lambda text: " ".join(text.split()))
names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
findings = st.builds(Finding, names, st.sampled_from(STATUSES), st.sampled_from(["", "ORDER1002"]), hostile)
answers = st.builds(
    Answer, st.lists(findings, min_size=1, max_size=3).map(tuple), st.sampled_from([*VERDICTS, None]), hostile
)
calls = st.builds(CallIntent, st.tuples(st.tuples(st.just("save_note"), arguments)), thoughts)
finishes = st.builds(FinishIntent, answers, thoughts)


@every_format
@settings(deadline=None)
@given(intent=st.one_of(calls, finishes))
def test_what_is_written_is_read_back(format: ReplyFormat, intent: Intent) -> None:
    assert format.read(format.write(intent), TOOLS) == intent


@every_format
@settings(deadline=None)
@given(text=hostile.map(str.strip).filter(lambda text: text and "\n" not in text and not text.endswith("```")))
def test_plain_text_is_a_finish_without_verdict(format: ReplyFormat, text: str) -> None:
    if read_answer(text) or answer_fault(text):
        return
    intent = format.read(format.write(FinishIntent(Answer(text=text))), TOOLS)
    assert isinstance(intent, FinishIntent)
    assert not intent.answer.is_readable
    assert intent.answer.text in text


@settings(deadline=None)
@given(st.lists(st.tuples(st.just("save_note"), arguments), min_size=1, max_size=4))
def test_native_keeps_several_calls_in_order_with_ids_of_their_own(several: list[tuple[str, dict[str, Any]]]) -> None:
    reply = NativeFormat().write(CallIntent(tuple(several), "look"))
    assert len({call.id for call in reply.tool_calls}) == len(several)
    assert NativeFormat().read(reply, TOOLS) == CallIntent(tuple(several), "look")


@every_format
def test_an_answer_may_be_a_tool_call_or_a_json_object_alike(format: ReplyFormat) -> None:
    if format.native_tools:
        replies = [Reply(text=f"Done.\n```json\n{OBJECT}\n```"), Reply(tool_calls=(_submit(),))]
    else:
        replies = [Reply(text=f"Final Answer: {OBJECT}"), Reply(text=f"Action: submit\nAction Input: {OBJECT}")]
    for reply in replies:
        intent = format.read(reply, TOOLS)
        assert isinstance(intent, FinishIntent)
        assert intent.answer == ANSWER


@every_format
@pytest.mark.parametrize(
    "faulty",
    [OBJECT.replace('"failed", "subject"', '"x"').replace('"status": "failed"', '"status": "bad"'), OBJECT[:-9]],
)
def test_a_faulty_answer_brings_feedback_instead_of_a_run_without_verdict(format: ReplyFormat, faulty: str) -> None:
    text = faulty if format.native_tools else f"Final Answer: {faulty}"
    intent = format.read(Reply(text=text), TOOLS)
    assert isinstance(intent, Unreadable)
    assert intent.problem == "bad_answer"
    assert "status" in intent.feedback or "JSON" in intent.feedback


@every_format
@pytest.mark.parametrize(
    "problem", ["truncated", "empty_answer", "no_choices", "content_filtered", "context_too_long", "server_error"]
)
def test_an_unusable_reply_is_unreadable_and_says_what_to_do(format: ReplyFormat, problem: str) -> None:
    intent = format.read(Reply(problem=problem, detail="the server's words"), TOOLS)
    assert isinstance(intent, Unreadable)
    assert intent.problem == problem
    assert len(intent.feedback) > 5


def test_feedback_differs_by_language_and_names_unknown_problems() -> None:
    reply = Reply(problem="odd_problem", detail="the server's words")
    assert "odd_problem" in problem_feedback(reply, "zh")
    assert "the server's words" in problem_feedback(reply, "zh")
    assert problem_feedback(reply, "zh") != problem_feedback(reply, "en")


@every_format
def test_an_unreadable_reply_cannot_be_written(format: ReplyFormat) -> None:
    with pytest.raises(ValueError, match="a turn is"):
        format.write(Unreadable("format_error", "Write an action."))


def test_submit_beside_other_calls_does_not_finish() -> None:
    note = ToolCall("a", "save_note", {"text": "x"})
    intent = NativeFormat().read(Reply(tool_calls=(note, _submit())), TOOLS)
    assert intent == CallIntent((("save_note", {"text": "x"}),))


def test_submit_twice_counts_when_it_says_the_same() -> None:
    other = ToolCall("b", "submit", {"findings": [{"criterion": "amount_valid", "status": "passed"}]})
    same = NativeFormat().read(Reply(tool_calls=(_submit("a"), _submit("b"))), TOOLS)
    assert isinstance(same, FinishIntent)
    different = NativeFormat().read(Reply(tool_calls=(_submit("a"), other)), TOOLS)
    assert isinstance(different, Unreadable)
    assert "once" in different.feedback


def test_submit_that_may_not_be_executed_is_unreadable_with_its_reason() -> None:
    call = ToolCall("a", "submit", None, problem="bad_arguments", detail="findings is missing")
    assert NativeFormat().read(Reply(tool_calls=(call,)), TOOLS) == Unreadable("bad_arguments", "findings is missing")


def test_a_call_that_may_not_be_executed_is_left_to_the_session() -> None:
    bad = ToolCall("a", "save_note", None, problem="bad_arguments", detail="text is missing")
    good = ToolCall("b", "server_time", {})
    assert NativeFormat().read(Reply(tool_calls=(bad, good)), TOOLS) == CallIntent((("server_time", {}),))
    assert NativeFormat().read(Reply(tool_calls=(bad,)), TOOLS) == CallIntent(())


def test_a_reply_cut_off_after_its_action_still_counts_in_react() -> None:
    text = 'Action: save_note\nAction Input: {"text": "x"}\nObservation: and on and on'
    assert ReactFormat().read(Reply(text=text, problem="truncated"), TOOLS) == CallIntent(
        (("save_note", {"text": "x"}),)
    )
    for cut in ("Action: save_note", "Action: server_time", "Final Answer: The order is", ""):
        intent = ReactFormat().read(Reply(text=cut, problem="truncated"), TOOLS)
        assert isinstance(intent, Unreadable)
        assert intent.problem == "truncated"


def test_react_holds_exactly_one_call() -> None:
    call = ("save_note", {"text": "x"})
    for number in (0, 2):
        with pytest.raises(ValueError, match="exactly one call"):
            ReactFormat().write(CallIntent((call,) * number))


def test_react_stops_where_an_observation_would_begin() -> None:
    written = ReactFormat("zh").write(CallIntent((("save_note", {"text": "x"}),), "先记录")).text
    assert written == '思考：先记录\n行动：save_note\n行动输入：{"text": "x"}'
    for stop in ReactFormat.stop:
        after = written + stop + " invented"
        assert ReactFormat("zh").read(Reply(text=after), TOOLS) == ReactFormat("zh").read(Reply(text=written), TOOLS)


def _submit(call_id: str = "s") -> ToolCall:
    return ToolCall(call_id, "submit", answer_to_arguments(ANSWER))
