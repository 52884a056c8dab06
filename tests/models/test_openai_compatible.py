import asyncio
import datetime
import email.utils
import json
import socket
from collections.abc import Callable, Coroutine
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from chat_case_checks import answer_of, assert_meets
from fake_chat_server import ChatServer

from agentlab.errors import ConfigError, ModelUnavailable, QuotaExhausted
from agentlab.models.endpoint import Endpoint
from agentlab.models.openai_compatible import OpenAICompatibleModel, build, is_strict_schema
from agentlab.models.rate_limit import RateLimiter
from agentlab.models.replies import assistant_message, tool_message
from agentlab.models.retry import RetryPolicy
from agentlab.records import ModelRequest, Reply

CASES = json.loads((Path(__file__).parents[1] / "cases" / "chat_responses.json").read_text(encoding="utf-8"))["cases"]
HTTP_CASES = {case["id"]: case for case in CASES if "http" in case["input"]}
RAISING = {"A16": ModelUnavailable, "A17": ModelUnavailable, "A21": QuotaExhausted}
SENDS = {"A15": 2, "A16": 4, "A17": 4}
MAX_SENDS = 4
KEY = "sk-test-4711-secret"

MakeRequest = Callable[..., ModelRequest]


def text_response(text: str = "订单正常。", **fields: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {"body": {"model": "gpt-4o-mini-2024-07-18", "choices": [choice], "usage": usage}, **fields}


def error_response(status: int, message: str, **error: Any) -> dict[str, Any]:
    return {"status": status, "body": {"error": {"message": message, **error}}}


class Waits:
    """Stands in for sleeping and the clock: keeps what would have been waited."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def clock(self) -> float:
        return sum(self.seconds)


def model_at(base_url: str, waits: Waits | None = None, **options: Any) -> OpenAICompatibleModel:
    waits = waits or Waits()
    model = OpenAICompatibleModel(
        options.pop("model", "gpt-4o-mini"),
        Endpoint(base_url, KEY, "LLM_BASE_URL", "LLM_API_KEY"),
        retry=RetryPolicy(max_sends=MAX_SENDS),
        sleep=waits,
        **options,
    )
    model.limiter = RateLimiter(clock=waits.clock, sleep=waits)
    return model


def run(model: OpenAICompatibleModel, *requests: ModelRequest) -> list[Reply]:
    """Complete the requests one after another in a loop of their own, and close the model."""

    async def main() -> list[Reply]:
        try:
            return [await model.complete(request) for request in requests]
        finally:
            await model.close()

    return asyncio.run(main())


@pytest.mark.parametrize("case_id", sorted(HTTP_CASES))
def test_a_case_through_the_client(case_id: str, chat_server: ChatServer, make_request: MakeRequest) -> None:
    case = HTTP_CASES[case_id]
    chat_server.script([case["input"]["http"]])
    if case_id in RAISING:
        with pytest.raises(RAISING[case_id]) as raised:
            run(model_at(chat_server.base_url), make_request())
        sends = raised.value.sends
        assert case["expect"]["problem"] in (sends[-1].error or "")
    else:
        (reply,) = run(model_at(chat_server.base_url), make_request())
        sends = reply.sends
        if "answer_matches" not in case["expect"]:
            assert_meets(reply, case["expect"])
        assert sends[-1].usage is reply.usage
    assert len(sends) == len(chat_server.requests()) == SENDS.get(case_id, 1)
    assert [send.status for send in sends] == [case["input"]["http"]["status"]] * len(sends)


@pytest.mark.parametrize("case_id", ["A03", "A07", "A08"])
def test_the_next_request_is_valid_for_strict_servers(
    case_id: str, chat_server: ChatServer, make_request: MakeRequest
) -> None:
    chat_server.script([HTTP_CASES[case_id]["input"]["http"], text_response()])
    model = model_at(chat_server.base_url)

    async def two_rounds() -> Reply:
        first = await model.complete(make_request())
        answers = [tool_message(call.id, call.detail or "ok") for call in first.tool_calls]
        second = await model.complete(make_request(messages=[assistant_message(first), *answers]))
        await model.close()
        assert second.problem is None
        return first

    reply = asyncio.run(two_rounds())
    assistant, *answers = chat_server.bodies()[1]["messages"]
    ids = [call["id"] for call in assistant["tool_calls"]]
    assert ids == [answer["tool_call_id"] for answer in answers] == [call.id for call in reply.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(call["function"]["arguments"], str) for call in assistant["tool_calls"])


def test_an_id_that_comes_again_in_a_later_round_is_replaced(
    chat_server: ChatServer, make_request: MakeRequest
) -> None:
    chat_server.script([HTTP_CASES["A01"]["input"]["http"]])
    (first,) = run(model_at(chat_server.base_url), make_request())
    (second,) = run(model_at(chat_server.base_url), make_request(messages=[assistant_message(first)]))
    assert first.tool_calls[0].id == "call_1"
    assert second.tool_calls[0].id != "call_1"


def test_what_is_sent(chat_server: ChatServer, make_request: MakeRequest, probe_format: Any) -> None:
    chat_server.script([text_response()])
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    request = make_request(
        format=probe_format(name="plan v1", stop=("\nObservation:",), json_schema=schema),
        max_output_tokens=64,
        seed=7,
        temperature=0.5,
        constrained=True,
    )
    run(model_at(chat_server.base_url), request)
    (received,) = chat_server.requests()
    body = json.loads(received["body"])
    assert received["target"] == "/v1/chat/completions"
    assert received["headers"]["authorization"] == f"Bearer {KEY}"
    assert received["headers"]["content-type"] == "application/json"
    assert body.pop("tools") == request.tool_schemas
    assert body == {
        "model": "gpt-4o-mini",
        "messages": request.messages,
        "temperature": 0.5,
        "max_tokens": 64,
        "seed": 7,
        "stop": ["\nObservation:"],
        "tool_choice": "auto",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "plan_v1", "schema": schema, "strict": True},
        },
    }


def test_what_is_not_set_is_not_sent(chat_server: ChatServer, make_request: MakeRequest, probe_format: Any) -> None:
    chat_server.script([text_response()])
    request = make_request(tool_schemas=[], format=probe_format(native_tools=False, json_schema={"type": "object"}))
    run(model_at(chat_server.base_url), request)
    assert chat_server.bodies() == [{"model": "gpt-4o-mini", "messages": request.messages, "temperature": 0.0}]


def test_a_schema_with_open_objects_is_not_called_strict() -> None:
    closed = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    assert is_strict_schema(closed)
    assert is_strict_schema({"anyOf": [closed, {"type": "string"}]})
    assert not is_strict_schema({"type": "object"})
    assert not is_strict_schema({**closed, "required": []})
    assert not is_strict_schema({**closed, "properties": {"a": {"type": "array", "items": {"type": "object"}}}})


def test_what_json_cannot_carry_is_replaced_before_sending(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response()])
    content = "ok\x00tail\x1b[31m\ud800"
    message = {"role": "user", "content": content, "price": Decimal("19.90"), "bad": float("nan")}
    run(model_at(chat_server.base_url), make_request(messages=[message]))
    (sent,) = chat_server.bodies()[0]["messages"]
    assert sent["content"] == "ok\u2400tail\u241b[31m\ufffd"
    assert (sent["price"], sent["bad"]) == ("19.90", "NaN")
    assert message["content"] == content


def test_usage_cost_latency_and_names(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response(delay_s=0.05)])
    (reply,) = run(model_at(chat_server.base_url), make_request())
    assert reply.model == "gpt-4o-mini-2024-07-18"
    assert reply.cost_usd == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)
    assert 0.05 <= reply.latency_s < 5
    assert reply.sends[0].wait_s == 0.0
    model = model_at(chat_server.base_url)
    assert (model.name, model.kind) == ("openai:gpt-4o-mini", "real")
    assert "tools" in model.capabilities


def test_an_unknown_model_costs_unknown_not_zero(chat_server: ChatServer, make_request: MakeRequest) -> None:
    response = text_response()
    response["body"]["model"] = "house-model-7"
    chat_server.script([response])
    (reply,) = run(model_at(chat_server.base_url, model="house-model"), make_request())
    assert reply.cost_usd is None
    assert reply.usage is not None


def test_a_billed_send_that_failed_is_part_of_the_cost(chat_server: ChatServer, make_request: MakeRequest) -> None:
    failed = {
        "body": {"error": {"message": "x", "code": 502}, "usage": {"prompt_tokens": 1000, "completion_tokens": 0}}
    }
    chat_server.script([failed, text_response()])
    (reply,) = run(model_at(chat_server.base_url), make_request())
    assert reply.cost_usd == pytest.approx(2000 * 0.15e-6 + 100 * 0.6e-6)
    assert [send.usage is None for send in reply.sends] == [False, False]


def test_waits_are_kept_apart_from_the_models_time(chat_server: ChatServer, make_request: MakeRequest) -> None:
    then = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=40)
    chat_server.script(
        [
            {**error_response(429, "slow down"), "headers": {"Retry-After": "5"}},
            {**error_response(503, "loading"), "headers": {"retry-after": email.utils.format_datetime(then, True)}},
            {**error_response(429, "slow down"), "headers": {"retry-after": "soon"}},
            text_response(),
        ]
    )
    waits = Waits()
    (reply,) = run(model_at(chat_server.base_url, waits), make_request())
    assert answer_of(reply) == "订单正常。"
    assert [send.status for send in reply.sends] == [429, 503, 429, 200]
    assert waits.seconds[0] == 5.0
    assert 35 < waits.seconds[1] <= 40
    assert 2.0 <= waits.seconds[2] <= 4.0
    assert [send.wait_s for send in reply.sends] == [0.0, *waits.seconds]
    assert reply.latency_s == sum(send.latency_s for send in reply.sends) < 5


def test_quota_is_never_repeated_and_says_what_to_do(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([HTTP_CASES["A21"]["input"]["http"]])
    with pytest.raises(QuotaExhausted, match=r"Quota of this account is used up.*Add credit"):
        run(model_at(chat_server.base_url), make_request())


def test_a25_a_404_shows_the_full_url_and_its_setting(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([error_response(404, "no such model", code="model_not_found")])
    with pytest.raises(ModelUnavailable) as raised:
        run(model_at(chat_server.base_url), make_request())
    message = str(raised.value)
    assert f"{chat_server.address}/v1/chat/completions (from LLM_BASE_URL)" in message
    assert "model name 'gpt-4o-mini'" in message
    assert len(raised.value.sends) == 1


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/v1/chat/completions/"])
def test_a25_every_spelling_reaches_the_server(
    path: str, chat_server: ChatServer, make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_server.script([text_response()])
    monkeypatch.setenv("LLM_BASE_URL", chat_server.address + path)
    run(build("gpt-4o-mini"), make_request())
    assert [request["target"] for request in chat_server.requests()] == ["/v1/chat/completions"]


@pytest.mark.parametrize(("status", "words"), [(401, "Check the key in LLM_API_KEY"), (403, "may not use this model")])
def test_a_refused_key_is_not_repeated_and_never_shown(
    status: int, words: str, chat_server: ChatServer, make_request: MakeRequest
) -> None:
    chat_server.script([error_response(status, f"Incorrect API key provided: {KEY}")])
    with pytest.raises(ModelUnavailable, match=words) as raised:
        run(model_at(chat_server.base_url), make_request())
    assert "Incorrect API key provided: ***" in str(raised.value)
    assert KEY not in str(raised.value) + repr(raised.value.sends)
    assert len(raised.value.sends) == 1


def test_an_echoed_key_reaches_no_reply(
    chat_server: ChatServer, make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-echoed-key-123")
    monkeypatch.setenv("LLM_BASE_URL", chat_server.address)
    chat_server.script([text_response("your header was Bearer sk-echoed-key-123")])
    (reply,) = run(build(), make_request())
    assert reply.text == "your header was Bearer ***"


def test_a_redirect_is_not_followed_but_shown(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([{"status": 308, "headers": {"Location": "https://llm.example.com/v1/chat/completions"}}])
    with pytest.raises(ModelUnavailable, match=r"redirected to https://llm\.example\.com"):
        run(model_at(chat_server.base_url), make_request())


def test_a_refused_request_is_a_reply_and_is_not_repeated(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([error_response(400, "temperature is not supported", param="temperature")])
    (reply,) = run(model_at(chat_server.base_url), make_request())
    assert reply.problem == "request_refused"
    assert "temperature is not supported" in reply.detail
    assert len(reply.sends) == 1


def test_a_server_that_takes_no_tools_brings_advice(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([error_response(400, "tools is not supported by this model", param="tools")])
    (reply,) = run(model_at(chat_server.base_url), make_request())
    assert reply.problem == "request_refused"
    assert "tools is not supported by this model. Use the strategy react" in reply.detail


def test_the_newer_name_of_the_output_limit_is_learnt_once(chat_server: ChatServer, make_request: MakeRequest) -> None:
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    chat_server.script([error_response(400, message, param="max_tokens"), text_response()])
    first, second = run(
        model_at(chat_server.base_url), make_request(max_output_tokens=5), make_request(max_output_tokens=6)
    )
    assert [send.status for send in first.sends] == [400, 200]
    assert [send.status for send in second.sends] == [200]
    limits = [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in chat_server.bodies()]
    assert limits == [(5, None), (None, 5), (None, 6)]


def test_parallel_requests_all_learn_the_newer_name(chat_server: ChatServer, make_request: MakeRequest) -> None:
    refusal = error_response(400, "Use 'max_completion_tokens' instead.", param="max_tokens")
    chat_server.script([text_response(needs="max_completion_tokens", otherwise=refusal)])
    model = model_at(chat_server.base_url)

    async def main() -> list[Reply]:
        replies = await asyncio.gather(*(model.complete(make_request(max_output_tokens=5)) for _ in range(5)))
        await model.close()
        return replies

    assert [answer_of(reply) for reply in asyncio.run(main())] == ["订单正常。"] * 5


def test_a27_a_body_cut_in_the_middle_is_repeated(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response(truncate_bytes=120), text_response()])
    (reply,) = run(model_at(chat_server.base_url), make_request())
    assert answer_of(reply) == "订单正常。"
    first, second = reply.sends
    assert (first.status, first.usage) == (None, None)
    assert "connection_lost" in (first.error or "")
    assert (second.status, second.error) == (200, None)
    assert second.usage is reply.usage


@pytest.mark.parametrize("fault", [{"truncate_bytes": 120}, {"close": True}])
def test_a27_when_all_sends_fail_it_is_a_transport_failure(
    fault: dict[str, Any], chat_server: ChatServer, make_request: MakeRequest
) -> None:
    chat_server.script([text_response(**fault)])
    with pytest.raises(ModelUnavailable, match=r"4 sends.*the connection was lost") as raised:
        run(model_at(chat_server.base_url), make_request())
    assert [send.status for send in raised.value.sends] == [None] * MAX_SENDS


def test_a_slow_drip_ends_at_the_total_limit(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response(drip_s=0.02), text_response()])
    (reply,) = run(model_at(chat_server.base_url), make_request(timeout_s=0.3))
    first, second = reply.sends
    assert "timed_out" in (first.error or "")
    assert 0.3 <= first.latency_s < 2
    assert second.status == 200


def test_a_refused_port_is_named(make_request: MakeRequest) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ModelUnavailable, match=r"nothing is listening.*Start the server, or correct LLM_BASE_URL"):
            run(model_at(f"http://127.0.0.1:{port}/v1"), make_request())


def test_an_unknown_host_is_named(make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # no test asks a name server
    with pytest.raises(ModelUnavailable, match="the host name is unknown"):
        run(model_at("http://llm.invalid/v1"), make_request())


def test_a28_a_server_on_this_machine_is_reached_past_a_proxy(
    chat_server: ChatServer, make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for no_proxy in (None, "localhost"):
        if no_proxy:
            monkeypatch.setenv("NO_PROXY", no_proxy)
        chat_server.script([text_response()])
        (reply,) = run(model_at(chat_server.base_url), make_request())
        assert len(reply.sends) == 1


def test_a28_other_hosts_go_through_the_proxy(
    chat_server: ChatServer, make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", chat_server.address)
    chat_server.script([text_response()])
    (reply,) = run(model_at("http://llm.example.com/v1"), make_request())
    assert reply.problem is None
    assert chat_server.requests()[0]["target"] == "http://llm.example.com/v1/chat/completions"


def test_a28_a_failing_proxy_is_named_with_the_way_around_it(
    chat_server: ChatServer, make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ModelUnavailable, match=r"proxy http://127\.0\.0\.1:9 .*NO_PROXY=llm\.example\.com"):
        run(model_at("http://llm.example.com/v1"), make_request())
    monkeypatch.setenv("HTTP_PROXY", chat_server.address)
    chat_server.script([HTTP_CASES["A17"]["input"]["http"]])
    with pytest.raises(ModelUnavailable, match=r"502 Bad Gateway.*NO_PROXY=llm\.example\.com"):
        run(model_at("http://llm.example.com/v1"), make_request())


@pytest.mark.parametrize(
    ("rule", "replay", "works"),
    [("needs", True, True), ("needs", False, False), ("forbids", False, True), ("forbids", True, False)],
)
def test_a29_one_setting_decides_whether_reasoning_is_sent_back(
    rule: str, replay: bool, works: bool, chat_server: ChatServer, make_request: MakeRequest
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "server_time", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "reasoning_content": "先看时间", "tool_calls": [call]}
    refusal = error_response(400, f"The server {rule} reasoning_content in the history.")
    chat_server.script(
        [
            {"body": {"choices": [{"message": message, "finish_reason": "tool_calls"}]}},
            text_response(**{rule: '"reasoning_content":"先看时间"', "otherwise": refusal}),
        ]
    )
    model = model_at(chat_server.base_url, replay_reasoning=replay)

    async def two_rounds() -> tuple[Reply, Reply]:
        first = await model.complete(make_request())
        history = [*make_request().messages, assistant_message(first), tool_message("c1", "07:28")]
        second = await model.complete(make_request(messages=history))
        await model.close()
        return first, second

    first, second = asyncio.run(two_rounds())
    assert (first.reasoning, first.text) == ("先看时间", "")
    assert len(chat_server.requests()) == 2
    if works:
        assert answer_of(second) == "订单正常。"
    else:
        assert second.problem == "request_refused"
        assert f"The server {rule} reasoning_content in the history." in second.detail
        assert f"LLM_REPLAY_REASONING={int(replay)}" in second.detail


def test_a29_the_setting_comes_from_the_environment(
    chat_server: ChatServer, make_request: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_BASE_URL", chat_server.base_url)
    request = make_request(messages=[{"role": "assistant", "content": "x", "reasoning_content": "why"}])
    sent = []
    for setting in ("", "0", "1"):
        monkeypatch.setenv("LLM_REPLAY_REASONING", setting)
        chat_server.script([text_response()])
        run(build(), request)
        sent.append("reasoning_content" in chat_server.bodies()[0]["messages"][0])
    assert sent == [False, False, True]
    monkeypatch.setenv("LLM_REPLAY_REASONING", "maybe")
    with pytest.raises(ConfigError, match="valid are 1"):
        build()


def test_build_takes_the_model_from_its_name_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:8000")
    assert build("qwen-max").name == "openai:qwen-max"
    assert build("").name == "openai:gpt-4o-mini"
    monkeypatch.setenv("LLM_MODEL", "deepseek-chat")
    assert build().name == "openai:deepseek-chat"


def test_without_a_key_building_fails_at_once() -> None:
    with pytest.raises(ConfigError, match="LLM_API_KEY is not set"):
        build("gpt-4o-mini")


def test_many_runs_share_one_model(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response(delay_s=0.1)])
    model = model_at(chat_server.base_url)

    async def main() -> list[Reply]:
        replies = await asyncio.gather(*(model.complete(make_request()) for _ in range(30)))
        await model.close()
        return replies

    started = asyncio.run(timed(main()))
    assert len(chat_server.requests()) == 30
    assert started < 2.5  # one after another they take three seconds


async def timed(work: Coroutine[Any, Any, Any]) -> float:
    started = asyncio.get_running_loop().time()
    await work
    return asyncio.get_running_loop().time() - started


def test_a_closed_model_serves_another_loop(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response()])
    model = model_at(chat_server.base_url)
    run(model, make_request())
    run(model, make_request())
    asyncio.run(model.close())
    assert len(chat_server.requests()) == 2


def test_a_model_in_use_by_another_loop_says_so(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response()])
    model = model_at(chat_server.base_url)
    with asyncio.Runner() as first:
        first.run(model.complete(make_request()))
        with asyncio.Runner() as second, pytest.raises(ConfigError, match="another event loop"):
            second.run(model.complete(make_request()))
        first.run(model.close())


def test_cancelling_a_call_leaves_nothing_open(chat_server: ChatServer, make_request: MakeRequest) -> None:
    chat_server.script([text_response(delay_s=5), text_response()])
    model = model_at(chat_server.base_url)

    async def main() -> Reply:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await model.complete(make_request())
        reply = await model.complete(make_request())
        await model.close()
        return reply

    assert answer_of(asyncio.run(main())) == "订单正常。"
