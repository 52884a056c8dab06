import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.answers import (
    SUBMIT,
    answer_fault,
    answer_from_arguments,
    answer_to_arguments,
    read_answer,
    submit_tool,
)
from agentlab.errors import BadArguments
from agentlab.records import STATUSES, VERDICTS, Answer, Finding

ANSWER = Answer((Finding("amount_valid", "failed", "ORDER1002", "amount is -20.00"),), "failed", "One check failed.")
OBJECT = json.dumps(answer_to_arguments(ANSWER))

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t\"'{}\\`@中文"))
names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
findings = st.builds(Finding, names, st.sampled_from(STATUSES), st.sampled_from(["", "ORDER1002", "用户1"]), texts)
answers = st.builds(Answer, st.lists(findings, min_size=1, max_size=4).map(tuple), st.sampled_from(VERDICTS), texts)


@settings(deadline=None)
@given(answers)
def test_an_answer_survives_arguments_and_text(answer: Answer) -> None:
    arguments = answer_to_arguments(answer)
    assert answer_from_arguments(arguments) == answer
    assert read_answer(f"Report:\n```json\n{json.dumps(arguments, indent=1)}\n```\nEnd.") == answer
    submit_tool((), "en").check_arguments(arguments)


@pytest.mark.parametrize(
    "text",
    [
        OBJECT,
        f"```json\n{OBJECT}\n```",
        f"```\n{OBJECT}\n```",
        f"Here is my answer: {OBJECT} That is all {{really}}.",
        json.dumps({"name": "submit", "arguments": json.loads(OBJECT)}),
        'The format is {"findings": [], "verdict": "<passed>"}. My answer:\n' + OBJECT,
    ],
)
def test_an_answer_is_found_in_a_message(text: str) -> None:
    assert read_answer(text) == ANSWER
    assert answer_fault(text) == ""


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("passed", "passed"), ("PASS", "passed"), (" Failed ", "failed"), ("fail", "failed"), ("通过", "passed"),
        ("未通过", "failed"), ("不通过", "failed"), ("未评估", "not_evaluated"), ("not evaluated", "not_evaluated"),
        ("Not-Evaluated", "not_evaluated"),
    ],
)  # fmt: skip
def test_plain_synonyms_of_a_status_are_read(word: str, status: str) -> None:
    assert answer_from_arguments({"findings": [{"criterion": "c", "status": word}]}).findings[0].status == status


@pytest.mark.parametrize("word", ["ok", "unknown", "passed?", "正常", "失败", "", None, True, 1, ["passed"]])
def test_any_other_status_makes_the_answer_unreadable(word: object) -> None:
    arguments = {"findings": [{"criterion": "c", "status": word}], "verdict": "passed"}
    with pytest.raises(BadArguments, match=r"findings\[0\]\.status"):
        answer_from_arguments(arguments)
    assert read_answer(json.dumps(arguments)) is None
    assert "passed, failed, not_evaluated" in answer_fault(json.dumps(arguments))


def test_verdict_is_normalised_optional_and_checked() -> None:
    finding = {"criterion": "c", "status": "passed"}
    assert answer_from_arguments({"findings": [finding], "verdict": " PASSED "}).verdict == "passed"
    assert answer_from_arguments({"findings": [finding]}).verdict is None
    assert answer_from_arguments({"findings": [], "verdict": "未完成"}).verdict == "incomplete"
    with pytest.raises(BadArguments, match="verdict"):
        answer_from_arguments({"findings": [finding], "verdict": "mostly fine"})


def test_criterion_and_subject() -> None:
    def read(**item: str) -> Finding:
        return answer_from_arguments({"findings": [{"status": "passed", **item}]}).findings[0]

    assert read(criterion="amount_valid@ORDER1002") == Finding("amount_valid", "passed", "ORDER1002")
    assert read(criterion="amount_valid", subject="ORDER1002") == Finding("amount_valid", "passed", "ORDER1002")
    assert read(criterion="amount_valid@ORDER1002", subject="ORDER1002").key == "amount_valid@ORDER1002"
    with pytest.raises(BadArguments, match="two subjects"):
        read(criterion="amount_valid@ORDER1002", subject="ORDER1001")
    with pytest.raises(BadArguments, match="criterion is missing"):
        read(subject="ORDER1002")


@pytest.mark.parametrize(
    "text",
    ["", "Everything is fine.", "订单正常。", '{"success": true, "passed": false}', "{", "{{{", '[{"status": 1}]'],
)
def test_plain_text_holds_no_answer_and_no_fault(text: str) -> None:
    assert read_answer(text) is None
    assert answer_fault(text) == ""


def test_a_broken_object_is_a_fault_even_after_a_readable_draft() -> None:
    cut = OBJECT[:-20]
    assert read_answer(cut) is None
    assert "not valid JSON" in answer_fault(cut)
    assert read_answer(f"Draft: {OBJECT}\nFinal: {cut}") is None


def test_garbage_costs_no_time_and_does_not_raise() -> None:
    deep = '{"a":' * 50_000
    assert read_answer(deep) is None
    assert read_answer('{"findings":' + "[" * 100_000) is None
    assert "nested" in answer_fault('{"findings":' + "[" * 100_000)
    assert read_answer("{" * 200_000 + OBJECT) is None


def test_findings_of_another_shape_are_refused_with_words() -> None:
    for findings, words in [("none", "array"), ([5], r"findings\[0\] must be an object"), ([], "no findings")]:
        with pytest.raises(BadArguments, match=words):
            answer_from_arguments({"findings": findings})


def test_evidence_of_another_type_and_broken_text_are_kept_as_valid_text() -> None:
    item = {"criterion": "c", "status": "failed", "evidence": {"amount": -20.0}}
    answer = answer_from_arguments({"findings": [item], "summary": "bad \ud800 text"})
    assert answer.findings[0].evidence == '{"amount": -20.0}'
    answer.text.encode("utf-8")


def test_submit_tool_lists_the_criteria_in_both_languages() -> None:
    criteria = [SimpleNamespace(name="amount_valid", subject="ORDER1002"), SimpleNamespace(name="clean", subject="")]
    for language, word in (("en", "Criteria"), ("zh", "检查项")):
        tool = submit_tool(criteria, language)
        shown = json.dumps(tool.native_schema(language), ensure_ascii=False)
        assert tool.is_control
        assert tool.name == SUBMIT
        assert "amount_valid@ORDER1002, clean" in shown
        assert word in shown


def test_submit_tool_refuses_a_status_that_does_not_exist() -> None:
    with pytest.raises(BadArguments, match="perhaps"):
        submit_tool((), "en").check_arguments({"findings": [{"criterion": "c", "status": "perhaps"}]})
