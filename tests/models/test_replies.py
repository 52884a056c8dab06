import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
from chat_case_checks import answer_of, assert_meets
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.models.replies import assistant_message, read_reply, read_response, tool_message
from agentlab.records import Reply, ToolCall
from agentlab.tools import Tool, tools_from_schemas

CASES = json.loads((Path(__file__).parents[1] / "cases" / "chat_responses.json").read_text(encoding="utf-8"))
HTTP_CASES = {case["id"]: case for case in CASES["cases"] if "http" in case["input"]}
TOOLS = tools_from_schemas(CASES["tools"])


def read_case(case_id: str) -> Reply:
    http = HTTP_CASES[case_id]["input"]["http"]
    text = http["body_text"] if "body_text" in http else json.dumps(http["body"])
    return read_response(http["status"], http["headers"], text.encode(), TOOLS)


def reply_with(message: dict[str, Any], finish_reason: str = "stop", **body: Any) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    return read_reply({"choices": [choice], **body}, TOOLS)


def call_with(name: str, arguments: Any, **entry: Any) -> ToolCall:
    entry = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **entry}
    reply = reply_with({"content": None, "tool_calls": [entry]}, "tool_calls")
    assert len(reply.tool_calls) == 1
    return reply.tool_calls[0]


def test_all_cases_with_a_response_are_here() -> None:
    assert sorted(HTTP_CASES) == [f"A{number:02}" for number in range(1, 25)]


@pytest.mark.parametrize("case_id", sorted(HTTP_CASES))
def test_a_case_is_read_as_expected(case_id: str) -> None:
    reply = read_case(case_id)
    expected = HTTP_CASES[case_id]["expect"]
    if "answer_matches" not in expected:
        assert_meets(reply, expected)
    json.dumps(assistant_message(reply), ensure_ascii=False).encode()


@pytest.mark.parametrize("case_id", sorted(set(HTTP_CASES) - {"A24"}))
def test_raw_tool_schemas_are_accepted_as_tools(case_id: str) -> None:
    http = HTTP_CASES[case_id]["input"]["http"]
    text = http["body_text"] if "body_text" in http else json.dumps(http["body"])
    reply = read_response(http["status"], http["headers"], text.encode(), CASES["tools"])
    assert_meets(reply, HTTP_CASES[case_id]["expect"])


def test_a03_replay_has_our_id_and_arguments_as_text() -> None:
    reply = read_case("A03")
    message = assistant_message(reply)
    sent = message["tool_calls"][0]
    assert json.loads(sent["function"]["arguments"]) == {"order_id": "ORDER1001"}
    assert len(sent["id"]) == 9
    assert sent["id"].isalnum()
    assert message["content"] is None
    assert tool_message(reply.tool_calls[0].id, "ok") == {"role": "tool", "tool_call_id": sent["id"], "content": "ok"}


def test_a04_says_that_the_reply_was_cut_and_nothing_ran() -> None:
    reply = read_case("A04")
    for detail in (reply.detail, reply.tool_calls[0].detail):
        assert "cut at the output limit" in detail
        assert "nothing was executed" in detail
    assert reply.tool_calls[0].arguments is None
    assert reply.tool_calls[0].sent_arguments is None
    assert json.loads(assistant_message(reply)["tool_calls"][0]["function"]["arguments"]) == {}


def test_a05_is_read_exactly_and_the_repair_is_noted() -> None:
    reply = read_case("A05")
    assert reply.tool_calls[0].arguments == {"order_id": "ORDER1001", "amount": 12.5, "notify": False}
    assert any("Python literal" in note and "'notify': False" in note for note in reply.notes)


def test_a06_names_the_tool_and_the_shape() -> None:
    detail = read_case("A06").tool_calls[0].detail
    assert "check_order_amount" in detail
    assert "object" in detail
    assert "order_id" in detail


def test_a07_ids_differ_and_the_first_is_kept() -> None:
    reply = read_case("A07")
    ids = [call.id for call in reply.tool_calls]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 2
    assert [call["id"] for call in assistant_message(reply)["tool_calls"]] == ids
    assert any("used before" in note for note in reply.notes)


def test_a08_keeps_the_ids_and_lists_the_available_names() -> None:
    reply = read_case("A08")
    assert [call.id for call in reply.tool_calls] == ["c1", "c2", "c3"]
    detail = reply.tool_calls[2].detail
    assert "delete_order" in detail
    assert all(tool.name in detail for tool in TOOLS)


def test_a09_is_read_as_a_call_with_a_note() -> None:
    reply = read_case("A09")
    assert reply.tool_calls[0].arguments == {"order_id": "ORDER1002"}
    assert reply.text == "我需要先查询订单。"
    assert "the tool call was read from the text" in reply.notes


def test_a10_is_read_as_a_call_with_a_note() -> None:
    reply = read_case("A10")
    assert reply.tool_calls[0].arguments == {"order_id": "ORDER1002"}
    assert reply.text == ""
    assert "the tool call was read from the text" in reply.notes


def test_a11_keeps_the_reasoning_apart() -> None:
    reply = read_case("A11")
    assert reply.reasoning == "先查询订单，再检查金额……"
    assert reply.text == ""


def test_a12_thinking_is_reasoning() -> None:
    reply = read_case("A12")
    assert "create_refund" in reply.reasoning
    assert "think" not in reply.text


def test_a15_names_the_likely_cause() -> None:
    reply = read_case("A15")
    assert "no choice" in reply.detail
    assert "filter" in reply.detail
    assert "gateway" in reply.detail


def test_a16_a17_a22_carry_the_servers_words() -> None:
    assert "upstream provider failed" in read_case("A16").detail
    page = read_case("A17")
    assert "502" in page.detail
    assert "Bad Gateway" in page.detail
    assert len(page.detail) < 400
    assert "9120 tokens" in read_case("A22").detail


def test_a20_keeps_the_name_as_sent() -> None:
    reply = read_case("A20")
    assert reply.tool_calls[0].name == "query_order_detail"
    assert reply.tool_calls[0].sent_name == "functions.query_order_detail"


def test_a23_names_the_fields_and_the_types_they_need() -> None:
    call = read_case("A23").tool_calls[0]
    assert call.problem == "bad_arguments"
    assert "amount must be of type number" in call.detail
    assert "notify must be of type boolean" in call.detail
    assert call.sent_arguments == {"order_id": "ORDER1002", "amount": "20", "notify": "false"}


def test_a24_the_surrogate_is_replaced() -> None:
    reply = read_case("A24")
    assert answer_of(reply) == "报告完成 \ufffd 共 2 项"
    assert reply.text.encode().decode() == reply.text
    assert reply.usage is not None
    assert reply.usage.total_tokens == 16


def test_refused_arguments_are_replayed_as_sent() -> None:
    reply = read_case("A23")
    replayed = json.loads(assistant_message(reply)["tool_calls"][0]["function"]["arguments"])
    assert replayed["amount"] == "20"


def test_a_handle_in_place_of_a_value_is_left_to_the_session() -> None:
    call = call_with("create_refund", '{"order_id": "ORDER1001", "amount": "result_2"}')
    assert (call.problem, call.arguments) == (None, {"order_id": "ORDER1001", "amount": "result_2"})


@pytest.mark.parametrize("broken", ['{"order_id": "ORDER1', '{"order_id": "ORDER1002"', "{'order_id': 'OR"])
def test_an_object_that_is_not_closed_is_never_completed(broken: str) -> None:
    call = call_with("query_order_detail", broken)
    assert call.problem == "bad_arguments"
    assert "ORDER1" in call.detail or "OR" in call.detail


def test_broken_json_is_repaired_for_a_reading_tool_only() -> None:
    assert call_with("query_order_detail", '{order_id: "ORDER1001"}').arguments == {"order_id": "ORDER1001"}
    assert call_with("create_refund", '{order_id: "ORDER1001", amount: 1}').problem == "bad_arguments"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"order_id": "ORDER1001", "amount": 1, "amount": 2}',
        '{"order_id": "ORDER1001", "amount": NaN}',
        '{"order_id": "ORDER1001", "amount": Infinity}',
        "{'order_id': 'ORDER1001', 'amount': (1, 2)}",
        "{'order_id': 'ORDER1001', 'amount': 1, 'amount': 2}",
        "hello",
        "[" * 5000,
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"order_id": ' + "[" * 60 + "]" * 60 + ', "amount": 1}',
    ],
)
def test_ambiguous_or_absurd_arguments_are_refused(arguments: str) -> None:
    call = call_with("create_refund", arguments)
    assert call.problem == "bad_arguments"
    assert call.arguments is None
    assert "order_id" in call.detail


def test_null_and_fenced_arguments_are_read() -> None:
    assert call_with("server_time", None).arguments == {}
    assert call_with("server_time", "null").arguments == {}
    assert call_with("query_order_detail", '```json\n{"order_id": "X"}\n```').arguments == {"order_id": "X"}


def test_missing_arguments_of_a_tool_that_needs_some_are_named() -> None:
    call = call_with("query_order_detail", "")
    assert call.problem == "bad_arguments"
    assert "order_id is missing" in call.detail


def test_surrogates_in_arguments_are_replaced() -> None:
    assert call_with("save_note", '{"text": "a\\ud83d"}').arguments == {"text": "a\ufffd"}
    refused = call_with("save_note", "not JSON \ud83d")
    assert "not JSON \ufffd" in refused.detail


@pytest.mark.parametrize("sent", ["a b", "x" * 65, 7, ["c"], "调用"])
def test_an_id_that_strict_servers_refuse_is_replaced(sent: Any) -> None:
    assert len(call_with("server_time", "", id=sent).id) == 9


def test_an_id_of_an_earlier_reply_is_replaced() -> None:
    body = HTTP_CASES["A01"]["input"]["http"]["body"]
    assert read_reply(body, TOOLS).tool_calls[0].id == "call_1"
    assert read_reply(body, TOOLS, taken_ids=frozenset({"call_1"})).tool_calls[0].id != "call_1"


def test_a_name_that_strict_servers_refuse_is_replayed_in_their_letters() -> None:
    reply = reply_with({"tool_calls": [{"id": "c1", "function": {"name": "删 除", "arguments": "{}"}}]})
    assert reply.tool_calls[0].name == "删 除"
    assert assistant_message(reply)["tool_calls"][0]["function"]["name"] == "___"


def test_the_old_function_call_and_a_flat_call_are_read() -> None:
    old = reply_with({"content": None, "function_call": {"name": "server_time", "arguments": "{}"}}, "function_call")
    flat = reply_with({"tool_calls": [{"id": "c1", "name": "server_time", "arguments": {}}]}, "tool_calls")
    assert [reply.tool_calls[0].arguments for reply in (old, flat)] == [{}, {}]


def test_the_answer_format_is_no_call() -> None:
    text = json.dumps({"findings": [{"criterion": "amount_valid", "status": "failed"}], "verdict": "failed"})
    for content in (text, f"```json\n{text}\n```"):
        assert answer_of(reply_with({"content": content})) == content


def test_a_submit_call_in_the_text_is_a_call() -> None:
    submit = Tool("submit", "Hand in.", {"type": "object", "properties": {"findings": {"type": "array"}}})
    content = json.dumps({"name": "submit", "arguments": {"findings": []}})
    reply = read_reply({"choices": [{"message": {"content": content}}]}, [submit])
    assert reply.tool_calls[0].arguments == {"findings": []}


@pytest.mark.parametrize(
    "content",
    [
        '<tool_call>{"name": "server_time", "arguments": {}}</tool_call>\n'
        '<tool_call>{"name": "server_time", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "server_time", "argum</tool_call>',
        '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>',
        'I will call:\n```json\n{"name": "server_time", "arguments": {}}\n```',
        '{"name": "no_such_tool", "arguments": {"a": 1}}',
        '[TOOL_CALLS][{"name": "server_time", "arguments": {}}]',
        '<function=server_time>{}</function>',
    ],
)  # fmt: skip
def test_a_call_in_the_text_that_is_not_beyond_doubt_is_reported(content: str) -> None:
    reply = reply_with({"content": content})
    assert reply.problem == "call_in_text"
    assert reply.tool_calls == ()
    assert "tool interface" in reply.detail


@pytest.mark.parametrize(
    "content",
    [
        "订单正常。",
        '{"name": "张三", "status": "paid"}',
        '结果：\n```json\n{"name": "张三", "arguments": 3, "age": 4}\n```',
        "The tool `server_time` takes no arguments.",
        '{"tasks": [{"id": "1", "tool_name": "server_time", "arguments": {}}]}',
    ],
)
def test_text_that_only_resembles_a_call_is_an_answer(content: str) -> None:
    assert answer_of(reply_with({"content": content})) == content


def test_a_text_format_reads_its_calls_itself() -> None:
    content = '{"name": "server_time", "arguments": {}}'
    reply = read_reply({"choices": [{"message": {"content": content}}]}, TOOLS, native_tools=False)
    assert answer_of(reply) == content


def test_a_cut_or_filtered_reply_runs_nothing_even_when_its_call_looks_whole() -> None:
    message = {"tool_calls": [{"id": "c", "function": {"name": "server_time", "arguments": ""}}]}
    for reason, problem in (("length", "truncated"), ("content_filter", "content_filtered")):
        reply = reply_with(message, reason)
        assert reply.problem == problem
        assert reply.tool_calls[0].problem == "truncated"
        assert reply.tool_calls[0].arguments is None


def test_a_cut_text_is_kept_but_is_no_answer() -> None:
    reply = reply_with({"content": "订单 ORDER1002 的"}, "length")
    assert reply.text == "订单 ORDER1002 的"
    assert answer_of(reply) is None


@pytest.mark.parametrize(
    ("content", "text", "reasoning"),
    [
        ("<think>a</think>b", "b", "a"),
        ("a</think>b", "b", "a"),
        ("<think>never closed", "", "never closed"),
        ("x <thinking>a</thinking> y <think>b</think>", "x  y", "a\nb"),
        ("a < b and no thinking", "a < b and no thinking", ""),
    ],
)
def test_thinking_blocks_are_moved(content: str, text: str, reasoning: str) -> None:
    reply = reply_with({"content": content})
    assert (reply.text, reply.reasoning) == (text, reasoning)


def test_reasoning_of_other_spellings_and_parts() -> None:
    assert reply_with({"content": "x", "reasoning": "why"}).reasoning == "why"
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}, {"type": "image_url"}]
    reply = reply_with({"content": parts})
    assert (reply.text, reply.reasoning) == ("x", "hm")
    assert reply.notes == ("a content part of type image_url was skipped",)


def test_reasoning_is_carried_for_the_client_unless_it_is_not_wanted() -> None:
    reply = Reply(text="x", reasoning="why")
    assert assistant_message(reply)["reasoning_content"] == "why"
    assert assistant_message(reply, with_reasoning=False) == {"role": "assistant", "content": "x"}


def test_a_refusal_is_text_with_a_note() -> None:
    reply = reply_with({"content": None, "refusal": "I cannot help with that."})
    assert answer_of(reply) == "I cannot help with that."
    assert "refused" in reply.notes[0]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 0, "completion_tokens": 0}, None),
        ({"prompt_tokens": "many", "completion_tokens": True}, None),
        ({"prompt_tokens": -1, "completion_tokens": 10**400}, None),
        ({"input_tokens": 5, "output_tokens": 2.0}, (5, 2, None, None)),
        ({"prompt_tokens": 5, "completion_tokens": None}, (5, None, None, None)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}, (9, 1, 4, None)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 10}, (9, 1, None, None)),
        (
            {
                "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 45,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            (10, 35, None, 30),
        ),
    ],
)  # fmt: skip
def test_usage_is_what_was_counted(usage: Any, expected: tuple[int | None, ...] | None) -> None:
    found = reply_with({"content": "x"}, usage=usage).usage
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.input_tokens, found.output_tokens) == expected[:2]
        assert (found.cached_input_tokens, found.reasoning_tokens) == expected[2:]


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (402, {"error": {"message": "Insufficient Balance"}}, "quota_exhausted"),
        (429, {"error": {"message": "Rate limit: 90000 tokens per minute of context", "code": "rate"}}, "server_error"),
        (403, {"error": {"code": "insufficient_user_quota", "message": "x"}}, "quota_exhausted"),
        (500, {"error": {"message": "Context size has been exceeded.", "type": "server_error"}}, "context_too_long"),
        (400, {"error": {"type": "exceed_context_size_error", "message": "x", "code": 400}}, "context_too_long"),
        (200, {"error": {"type": "exceed_context_size_error", "message": "x", "code": 500}}, "context_too_long"),
        (400, {"error": {"code": "content_filter", "message": "x"}}, "content_filtered"),
        (400, {"error": {"message": "Unsupported value"}}, "request_refused"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "request_refused"),
        (401, {"message": "no key"}, "request_refused"),
        (400, {"object": "error", "message": "maximum context length is 8192", "code": 40303}, "context_too_long"),
        (200, {"error": {"code": "401", "message": "bad key"}}, "request_refused"),
        (200, {"error": "upstream is down"}, "server_error"),
        (200, [{"error": {"message": "x", "status": "UNAVAILABLE", "code": 503}}], "server_error"),
        (200, {"choices": [{"error": {"code": 502, "message": "x"}, "finish_reason": "error"}]}, "server_error"),
        (200, {"choices": [{"message": {"content": ""}, "finish_reason": "network_error"}]}, "server_error"),
        (200, [], "server_error"),
        (200, "text", "server_error"),
        (302, {}, "request_refused"),
        (529, {}, "server_error"),
    ],
)
def test_errors_in_every_form(status: int, body: Any, problem: str) -> None:
    reply = read_response(status, {}, json.dumps(body).encode(), TOOLS)
    assert reply.problem == problem
    assert reply.detail


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b'{"choices": [', b"data: {}\n\n", b"1" * 6000])
def test_bytes_that_are_no_json_object(data: bytes) -> None:
    reply = read_response(200, {"Content-Type": "text/plain"}, data, TOOLS)
    assert reply.problem == "server_error"
    assert "text/plain" in reply.detail
    assert len(reply.detail) < 600


def test_a_byte_order_mark_does_not_hide_the_body() -> None:
    data = b"\xef\xbb\xbf" + json.dumps({"choices": [{"message": {"content": "x"}}]}).encode()
    assert read_response(200, {}, data, TOOLS).text == "x"


def test_usage_of_a_filtered_or_failed_reply_is_kept() -> None:
    assert read_case("A19").usage is not None
    failed = read_reply({"error": {"message": "x"}, "usage": {"prompt_tokens": 7, "completion_tokens": 1}}, TOOLS)
    assert failed.usage is not None
    assert failed.usage.input_tokens == 7


TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FUNCTION = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from([tool.name for tool in TOOLS]) | ANY_JSON, "arguments": ANY_JSON | st.text()}
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "content": ANY_JSON | st.text(alphabet="<think>/{}`\n json", max_size=40),
        "reasoning_content": ANY_JSON,
        "refusal": ANY_JSON,
        "function_call": ANY_JSON | FUNCTION,
        "tool_calls": ANY_JSON | st.lists(st.fixed_dictionaries({"function": FUNCTION, "id": ANY_JSON}), max_size=2),
    },
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={"message": ANY_JSON | MESSAGE, "finish_reason": ANY_JSON | st.sampled_from(["stop", "length", "error"])},
)
BODY = ANY_JSON | st.fixed_dictionaries(
    {}, optional={"choices": ANY_JSON | st.lists(CHOICE, max_size=2), "usage": ANY_JSON, "error": ANY_JSON}
)


@settings(max_examples=300, deadline=None)
@given(body=BODY)
def test_no_body_raises_and_every_reply_can_be_sent_back(body: Any) -> None:
    reply = read_reply(body, TOOLS)
    message = assistant_message(reply)
    for value in (message, dataclasses.asdict(reply)):
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    assert len({call.id for call in reply.tool_calls}) == len(reply.tool_calls)
    for call in reply.tool_calls:
        assert (call.arguments is None) == (call.problem is not None)
    if not (reply.text or reply.tool_calls):
        assert reply.problem is not None


@settings(max_examples=200, deadline=None)
@given(status=st.integers(min_value=200, max_value=599), data=st.binary(max_size=60) | BODY.map(json.dumps))
def test_no_response_raises(status: int, data: bytes | str) -> None:
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
    reply = read_response(status, {}, raw, TOOLS)
    json.dumps(dataclasses.asdict(reply), ensure_ascii=False, allow_nan=False).encode()
    if status >= 300:
        assert reply.problem is not None
        assert reply.tool_calls == ()


@pytest.mark.parametrize("content", ["```json\n" + "\n" * 200_000, "<think>" * 20_000, "<tool_call>" * 20_000])
def test_long_odd_texts_are_read_in_linear_time(content: str) -> None:
    started = time.process_time()
    reply_with({"content": content})
    assert time.process_time() - started < 5  # quadratic reading takes minutes
