"""The HTTP service as its users meet it: a server process on loopback, requests, and JSON answers."""

import asyncio
import contextlib
import dataclasses
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from fake_chat_server import ChatServer
from starlette.testclient import TestClient

from agentlab.environments.base import Environment, Suite, load_suite
from agentlab.errors import ConfigError
from agentlab.models.scripted import ScriptedModel
from agentlab.observations import DEFAULT_LIMIT_CHARS
from agentlab.records import JsonObject, ToolResult
from agentlab.runner.try_one import try_task
from agentlab.secrets import remember
from agentlab.serve import LARGEST_BODY_BYTES, answer_of, is_loopback, make_app
from agentlab.tools import Tool

TOKEN = "token-for-the-tests-0123456789"
KEY = "sk-planted-key-0123456789"
EXECUTE = "/api/task/execute"


def command(*options: str, **variables: str) -> "subprocess.Popen[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "OPENAI_", "AGENTLAB_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "agentlab", "serve", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean | variables,
    )  # fmt: skip


@contextlib.contextmanager
def serving(*options: str, **variables: str) -> Iterator[str]:
    """The address of a server that runs until the end of the block."""
    with command("--port", "0", *options, **variables) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "http://" in line, process.communicate(timeout=30)[1]
            yield line.split(" on ")[1].split()[0]
        finally:
            process.terminate()


def send(
    address: str, body: Any = b"", method: str = "POST", path: str = EXECUTE, **headers: str
) -> tuple[int, JsonObject]:
    """Status and JSON of the answer; whatever is no bytes is sent as JSON."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.headers["content-type"] == "application/json", text
        return response.status, json.loads(text)
    finally:
        connection.close()


def chat(text: str, **more: Any) -> JsonObject:
    message = {"role": "assistant", "content": text}
    return {"body": {"choices": [{"message": message, "finish_reason": "stop"}]}, **more}


def order_plan(order: str) -> str:
    step = {"id": "look", "description": "look", "tool": "query_order_detail", "arguments": {"order_id": order}}
    checks = [
        {"id": tool, "description": tool, "tool": tool, "arguments": {"order_id": order}, "depends_on": ["look"]}
        for tool in ("check_order_amount", "check_order_status")
    ]
    return json.dumps({"steps": [step, *checks]})


@pytest.fixture(scope="module")
def simulated() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def with_token() -> Iterator[str]:
    with serving(AGENTLAB_TOKEN=TOKEN) as address:
        yield address


@pytest.fixture(scope="module")
def real(chat_server: ChatServer) -> Iterator[str]:
    with serving("--model", "openai:some-model", LLM_BASE_URL=chat_server.base_url, LLM_API_KEY=KEY) as address:
        yield address


def test_a_plan_that_completes_comes_back_with_its_outputs(simulated: str) -> None:
    status, answer = send(simulated, {"goal": "ORDER1002"})
    assert status == 200
    assert answer["status"] == "completed"
    assert answer["failed_step"] is None
    assert answer["steps"] == {"query": "completed", "amount": "completed", "status": "completed"}
    assert answer["outputs"] == {
        "query": {"order_id": "ORDER1002", "amount": -20.0, "status": "unknown", "user_id": "USER002"},
        "amount": {"order_id": "ORDER1002", "amount": -20.0},
        "status": {"order_id": "ORDER1002", "status": "unknown"},
    }
    assert (answer["verdict"], answer["end_reason"], answer["message"]) == ("failed", "answered", None)
    assert "Not passed: amount, status." in answer["report"]
    assert (answer["model"], answer["model_kind"]) == ("simulated:perfect", "simulated")


def test_a_plan_that_cannot_go_on_is_partial_and_names_the_failed_step(simulated: str) -> None:
    status, answer = send(simulated, {"goal": "ORDER9999", "language": "zh"})
    assert status == 200
    assert answer["status"] == "partial"
    assert answer["failed_step"] == "query"
    assert answer["steps"] == {"query": "failed", "amount": "blocked", "status": "blocked"}
    assert answer["outputs"] == {}
    assert answer["verdict"] == "incomplete"
    assert "执行不完整" in answer["report"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"goal": ""}, "goal must say"),
        ({"goal": " \n"}, "goal must say"),
        ({}, "goal must say"),
        ({"goal": None}, "goal must say"),
        ({"goal": 7}, "goal must say"),
        (b"", "no JSON"),
        (b"{'goal'", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 60_000, "no JSON"),
        (["ORDER1002"], "not list"),
        ("ORDER1002", "not str"),
        ({"goal": "ORDER1002", "language": "fr"}, "Valid: en, zh"),
        ({"goal": "ORDER1002", "language": ["en"]}, "Valid: en, zh"),
        ({"goal": "ORDER1002", "lang": "en"}, "Did you mean 'language'?"),
        ({"goal": "tell me a joke"}, "simulated model"),
        ({"goal": "\ud800"}, "simulated model"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(simulated: str, body: Any, words: str) -> None:
    status, answer = send(simulated, body)
    assert status == 400
    assert set(answer) == {"error"}
    assert words in answer["error"]
    assert "Traceback" not in answer["error"]


def test_a_body_is_bounded(simulated: str) -> None:
    fits = json.dumps({"goal": "ORDER1002"}).encode().ljust(LARGEST_BODY_BYTES)
    assert send(simulated, fits)[0] == 200
    status, answer = send(simulated, fits + b" ")
    assert status == 413
    assert str(LARGEST_BODY_BYTES) in answer["error"]
    assert send(simulated, fits * 16)[0] == 413


def test_other_paths_and_methods(simulated: str) -> None:
    assert send(simulated, method="GET", path="/health") == (200, {"status": "ok"})
    assert send(simulated, method="GET")[0] == 405
    assert send(simulated, {"goal": "ORDER1002"}, path="/api")[0] == 404


def test_a_web_page_cannot_use_the_server_of_its_visitor(simulated: str) -> None:
    status, answer = send(simulated, {"goal": "ORDER1002"}, Origin="https://example.org")
    assert status == 403
    assert "AGENTLAB_TOKEN" in answer["error"]


def test_many_requests_at_once_do_not_mix(simulated: str) -> None:
    goals = ["ORDER1002", "ORDER9999", "ORDER1001"] * 4
    with ThreadPoolExecutor(len(goals)) as pool:
        answers = list(pool.map(lambda goal: send(simulated, {"goal": goal}), goals))
    for goal, (status, answer) in zip(goals, answers, strict=True):
        assert status == 200
        assert answer["status"] == ("partial" if goal == "ORDER9999" else "completed")
        assert goal in answer["report"]
        assert {output["order_id"] for output in answer["outputs"].values()} <= {goal}


@pytest.mark.parametrize(
    "shown", [{}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN},
              {"Authorization": f"Basic {TOKEN}"}, {"Authorization": "Bearer t\xf6ken"}],
)  # fmt: skip
def test_without_the_right_token_nothing_runs(with_token: str, shown: dict[str, str]) -> None:
    status, answer = send(with_token, {"goal": "ORDER1002"}, **shown)
    assert status == 401
    assert "Authorization: Bearer" in answer["error"]
    assert TOKEN not in answer["error"]
    # Not even a body that could not be read is looked at.
    assert send(with_token, b"x" * 100_000, **shown)[0] == 401


def test_with_the_right_token_a_goal_runs_and_the_token_is_never_shown(with_token: str) -> None:
    authorized = {"Authorization": f"Bearer {TOKEN}"}
    assert send(with_token, {"goal": "ORDER1002"}, **authorized)[1]["status"] == "completed"
    assert send(with_token, {"goal": "ORDER1002"}, **authorized, Origin="https://example.org")[0] == 200
    status, answer = send(with_token, {"goal": "ORDER1002", TOKEN: 1}, **authorized)
    assert status == 400
    assert "'***'" in answer["error"]
    assert send(with_token, method="GET", path="/health") == (200, {"status": "ok"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "example.org"])
def test_another_host_needs_a_token(host: str) -> None:
    with command("--host", host, "--port", "0") as process:
        shown, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert shown == ""
    assert "AGENTLAB_TOKEN" in said
    assert "Traceback" not in said


def test_another_host_is_served_with_a_token() -> None:
    with serving("--host", "0.0.0.0", AGENTLAB_TOKEN=TOKEN) as address:
        here = address.replace("0.0.0.0", "127.0.0.1")
        assert send(here, {"goal": "ORDER1002"})[0] == 401
        assert send(here, {"goal": "ORDER1002"}, Authorization=f"bearer {TOKEN}")[0] == 200


def test_what_is_loopback() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("", "0.0.0.0", "::", "10.0.0.1", "localhost.example.org"))


@pytest.mark.parametrize("token", ["", "short", "long enough but with spaces", "lang-genug-aber-ümlaut"])
def test_a_token_that_anybody_could_guess_or_nobody_could_send_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="at least 16 characters"):
        make_app(token=token)


def test_an_address_that_is_taken_is_one_clear_message(simulated: str) -> None:
    with command("--port", simulated.rpartition(":")[2]) as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert "Cannot listen on 127.0.0.1" in said
    assert "Traceback" not in said


def test_ctrl_c_ends_it_in_order_and_closes_the_model(chat_server: ChatServer) -> None:
    chat_server.script([chat(order_plan("ORDER1002"))])
    endpoint = {"LLM_BASE_URL": chat_server.base_url, "LLM_API_KEY": KEY}
    with command("--port", "0", "--model", "openai:some-model", **endpoint) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split(" on ")[1].split()[0]
        assert send(address, {"goal": "ORDER1002"})[0] == 200
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
    # A connection that was left open would be complained about here.
    assert (process.returncode, said) == (0, "")


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_extra_is_one_clear_message(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; sys.argv = ['agentlab', 'serve']; import agentlab.__main__"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "pip install 'agentlab-compare[serve]'" in done.stderr
    assert package in done.stderr
    assert "Traceback" not in done.stderr


def test_free_text_runs_with_a_real_model(real: str, chat_server: ChatServer) -> None:
    chat_server.script([chat(order_plan("ORDER1002"))])
    status, answer = send(real, {"goal": "Is that order of USER002 all right?"})
    assert status == 200
    assert answer["status"] == "completed"
    assert answer["outputs"]["look"]["amount"] == -20.0
    assert answer["verdict"] == "failed"
    assert "Is that order of USER002 all right?" in chat_server.requests()[0]["body"]


def test_no_usable_plan_is_an_answer_too(real: str, chat_server: ChatServer) -> None:
    chat_server.script([chat("I would rather not.")])
    status, answer = send(real, {"goal": "ORDER1002"})
    assert status == 200
    assert (answer["status"], answer["end_reason"]) == ("failed", "invalid_plan")
    assert (answer["failed_step"], answer["steps"], answer["outputs"]) == (None, {}, {})
    assert (answer["verdict"], answer["report"]) == (None, None)
    assert "no usable plan" in answer["message"]


def test_a_slow_request_does_not_hold_up_another(real: str, chat_server: ChatServer) -> None:
    chat_server.script([chat(order_plan("ORDER1002"), delay_s=3), chat(order_plan("ORDER1001"))])
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(send, real, {"goal": "ORDER1002"})
        until = time.monotonic() + 2
        while not chat_server.requests() and time.monotonic() < until:
            time.sleep(0.01)
        _, fast = send(real, {"goal": "ORDER1001"})
        assert not slow.done()
        assert fast["outputs"]["look"]["order_id"] == "ORDER1001"
        assert slow.result()[1]["outputs"]["look"]["order_id"] == "ORDER1002"


def test_trouble_with_the_model_is_502_and_keeps_its_secrets(real: str, chat_server: ChatServer) -> None:
    refusal = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
    chat_server.script([{"status": 401, "body": refusal}])
    status, answer = send(real, {"goal": "ORDER1002"})
    assert status == 502
    assert "Incorrect API key provided: ***" in answer["error"]
    assert KEY not in json.dumps(answer)


def test_an_error_of_ours_is_500_without_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    remember("hunter2-hunter2")
    suite = load_suite("orders")

    class Broken:
        """The real environment, but it has a bug."""

        def __init__(self, inner: Environment) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def facts(self) -> JsonObject:
            raise RuntimeError("bug with hunter2-hunter2 in it")

    broken = dataclasses.replace(suite, make_environment=lambda options: Broken(suite.make_environment(options)))
    with TestClient(make_app(broken)) as client:
        response = client.post(EXECUTE, json={"goal": "ORDER1002"})
    assert response.status_code == 500
    assert "bug with *** in it" in response.json()["error"]
    assert "Traceback" not in response.text
    assert "Traceback" in caplog.text
    assert "hunter2" not in response.text + caplog.text


def test_a_model_object_of_the_caller_stays_open() -> None:
    closed = []

    class Watched(ScriptedModel):
        async def close(self) -> None:
            closed.append(self.name)

    with TestClient(make_app("orders", Watched([order_plan("ORDER1001")]))) as client:
        assert client.post(EXECUTE, json={"goal": "ORDER1001"}).json()["status"] == "completed"
    assert closed == []


def answer_to(goal: str, *replies: JsonObject | str, suite: str | Suite = "orders", **parameters: Any) -> JsonObject:
    model = ScriptedModel([reply if isinstance(reply, str) else json.dumps(reply) for reply in replies])
    result, _ = asyncio.run(try_task(goal, suite=suite, strategy="plan_execute", model=model, parameters=parameters))
    return answer_of(result)


def test_outputs_of_every_kind_of_step_are_what_references_resolve_to() -> None:
    def per_order(name: str, tool: str) -> JsonObject:
        arguments = {"order_id": "item.order_id"}
        return {"id": name, "tool": tool, "over": "steps.orders.output.orders", "arguments": arguments,
                "depends_on": ["orders"], "description": name}  # fmt: skip

    user = {"user_id": "USER001"}
    steps = [
        {"id": "user", "tool": "check_user_valid", "arguments": user, "description": "user"},
        {"id": "orders", "tool": "query_user_orders", "arguments": user, "depends_on": ["user"], "description": "all"},
        per_order("amounts", "check_order_amount"),
        per_order("states", "check_order_status"),
        {"id": "all", "kind": "collect", "arguments": {"first": "steps.amounts.output[0].amount"},
         "depends_on": ["amounts"], "description": "all"},
        {"id": "think", "kind": "goal", "description": "Is anything strange?", "depends_on": ["all"]},
    ]  # fmt: skip
    answer = answer_to("USER001", {"steps": steps}, "Nothing strange about it.")
    assert answer["status"] == "completed"
    outputs = answer["outputs"]
    assert outputs["amounts"] == [
        {"order_id": "ORDER1001", "amount": 199.0},
        {"order_id": "ORDER1003", "amount": 58.5},
        {"order_id": "ORDER1004", "amount": 320.0},
    ]
    assert [state["status"] for state in outputs["states"]] == ["paid", "pending", "cancelled"]
    assert outputs["all"] == [{"first": 199.0}]
    assert outputs["think"] == "Nothing strange about it."


def test_an_output_that_is_too_large_to_show_a_model_is_whole() -> None:
    result, _ = asyncio.run(try_task("top5-last-month", suite="sales", strategy="plan_execute"))
    answer = answer_of(result)
    assert answer["status"] == "completed"
    sales = answer["outputs"]["sales"]
    assert isinstance(sales, list)
    assert len(json.dumps(sales)) > DEFAULT_LIMIT_CHARS


def test_a_plan_that_replaces_another_keeps_what_is_done() -> None:
    look, *checks = json.loads(order_plan("ORDER1002"))["steps"]
    extra = {
        "id": "extra",
        "description": "extra",
        "tool": "query_order_detail",
        "arguments": {"order_id": "ORDER0000"},
    }
    first = {"steps": [look, extra, *checks]}
    answer = answer_to("ORDER1002", first, {"steps": checks}, on_surprise="replan")
    assert (answer["status"], answer["failed_step"]) == ("completed", None)
    assert list(answer["steps"]) == ["look", "check_order_amount", "check_order_status"]
    assert answer["outputs"]["look"]["amount"] == -20.0
    assert answer["outputs"]["check_order_status"]["status"] == "unknown"
    blocked = answer_to("ORDER1002", first)
    assert (blocked["status"], blocked["failed_step"]) == ("partial", "extra")
    assert set(blocked["outputs"]) == {"look", "check_order_amount", "check_order_status"}


@pytest.mark.parametrize("decision", ["terminate", "escalate"])
def test_a_plan_that_was_stopped_is_partial_though_every_step_completed(decision: str) -> None:
    plan = json.loads(order_plan("ORDER1002"))
    plan["steps"][-1]["on_not_passed"] = decision
    answer = answer_to("ORDER1002", plan)
    assert set(answer["steps"].values()) == {"completed"}
    assert (answer["status"], answer["failed_step"]) == ("partial", None)
    assert answer["end_reason"] == ("answered" if decision == "terminate" else "escalated")
    assert len(answer["outputs"]) == 3


def in_toy(id: str, tool: str, name: str, **more: Any) -> JsonObject:
    arguments = {"name": name, "text": "Open at nine."} if tool == "write_note" else {"name": name}
    return {"id": id, "description": id, "tool": tool, "arguments": arguments, **more}


LOOK = {"steps": [in_toy("look", "read_box", "BOX-1")]}
MISSING = in_toy("missing", "read_box", "BOX-0", on_error="replan")


@pytest.mark.parametrize(("task", "status"), [("toy-note--lost", "partial"), ("toy-note", "completed")])
def test_an_effect_that_a_replaced_plan_could_not_undo_is_no_success(task: str, status: str) -> None:
    write = in_toy("write", "write_note", "NOTE-6")
    bad = in_toy("bad", "read_box", "BOX-0", depends_on=["write"], on_error="rollback")
    look = {"steps": [in_toy("look", "check_note", "NOTE-6")]}
    answer = answer_to(task, {"steps": [write, bad, MISSING]}, look, suite="toy")
    assert (answer["steps"], answer["end_reason"]) == ({"look": "completed"}, "answered")
    assert answer["status"] == status
    assert ("Of an earlier plan: rollback incomplete: write" in answer["report"]) == (status == "partial")


def unsure_suite() -> Suite:
    """The toy suite with a tool that writes something and breaks: nobody knows whether it took effect."""
    suite = load_suite("toy")

    class Unsure:
        def __init__(self, inner: Environment) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def tools(self) -> list[Tool]:
            return [*self._inner.tools(), Tool("break_note", "Write a note.", {}, effect="write", function=self._break)]

        def _break(self) -> ToolResult:
            raise ConnectionResetError("the line dropped out")

    return dataclasses.replace(suite, make_environment=lambda options: Unsure(suite.make_environment(options)))


@pytest.mark.parametrize("replies", [(LOOK,), ()])
def test_an_effect_that_nobody_is_sure_of_is_no_success(replies: tuple[JsonObject, ...]) -> None:
    unsure = {"id": "unsure", "description": "unsure", "tool": "break_note"}
    policy = {"name": "p", "rules": [{"name": "skip", "on_error": "skip"}]}
    plan = {"steps": [unsure, MISSING if replies else LOOK["steps"][0]]}
    answer = answer_to("toy-box", plan, *replies, suite=unsure_suite(), policy=policy)
    assert answer["steps"]["look"] == "completed"
    assert set(answer["steps"].values()) <= {"completed", "skipped"}
    assert (answer["status"], answer["end_reason"]) == ("partial", "answered")
    assert "nknown whether it took effect: unsure" in answer["report"]
