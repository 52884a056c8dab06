import asyncio
import dataclasses
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlab import secrets
from agentlab.errors import ConfigError, InfrastructureError, ModelUnavailable
from agentlab.models.base import build_model
from agentlab.models.replay import RecordingModel, ReplayModel, read_recording
from agentlab.models.scripted import ScriptedModel
from agentlab.records import Model, ModelRequest, Reply, RequestContext, Send, ToolCall, Usage
from agentlab.strategies.native import NativeFormat
from agentlab.strategies.react import ReactFormat

REPLY = Reply(
    text="查询",
    reasoning="think",
    tool_calls=(ToolCall("c1", "server_time", {"zone": "UTC"}, sent_name="serverTime"),),
    finish_reason="tool_calls",
    usage=Usage(100, 20, cached_input_tokens=60),
    cost_usd=0.25,
    latency_s=1.5,
    sends=(Send(500, 0.5, 1.0, "server_error", Usage(100, None)), Send(200, 1.0)),
    model="real-model-1",
    notes=("repaired",),
)


def request(content: str = "hi", run_id: str = "run", **changes: Any) -> ModelRequest:
    context = RequestContext(run_id, None, 0, 7, "agent", 0)
    places = {name: changes.pop(name) for name in ("actor", "repeat", "occurrence") if name in changes}
    base = ModelRequest(
        [{"role": "user", "content": content}],
        (),
        [{"type": "function"}],
        NativeFormat(),
        0.0,
        100,
        1,
        False,
        dataclasses.replace(context, **places),
    )
    return dataclasses.replace(base, **changes)


def ask(model: Model, *requests: ModelRequest) -> list[Reply]:
    async def all_of_them() -> list[Reply]:
        return [await model.complete(one) for one in requests]

    return asyncio.run(all_of_them())


def record(path: Path, requests: list[ModelRequest], texts: list[str]) -> None:
    replies = iter(texts)
    ask(RecordingModel(ScriptedModel(lambda _: next(replies)), path), *requests)


def test_a_recorded_reply_comes_back_without_cost_and_time(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.jsonl"
    recording = RecordingModel(ScriptedModel([REPLY], name="openai:m"), path)
    assert (recording.name, recording.kind) == ("openai:m", "scripted")
    assert ask(recording, request()) == [REPLY]
    replay = ReplayModel(path)
    sends = tuple(dataclasses.replace(send, latency_s=0.0, wait_s=0.0) for send in REPLY.sends)
    assert ask(replay, request()) == [dataclasses.replace(REPLY, cost_usd=None, latency_s=0.0, sends=sends)]
    assert (replay.kind, replay.name) == ("replay", f"replay:{path}")
    assert (replay.recorded_model, replay.recorded_kind) == ("openai:m", "scripted")
    assert replay.capabilities == recording.capabilities


CHANGES: list[dict[str, Any]] = [
    {"content": "other"},
    {"tool_schemas": []},
    {"format": ReactFormat()},
    {"temperature": 0.5},
    {"max_output_tokens": 50},
    {"seed": 2},
    {"constrained": True},
    {"repeat": 1},
    {"occurrence": 1},
    {"actor": "validator"},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_part_of_the_key_counts(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "file.jsonl"
    record(path, [request(), request(**change)], ["base", "changed"])
    assert [reply.text for reply in ask(ReplayModel(path), request(), request(**change))] == ["base", "changed"]
    only_base = tmp_path / "base.jsonl"
    record(only_base, [request()], ["base"])
    with pytest.raises(ConfigError, match="no reply for"):
        ask(ReplayModel(only_base), request(**change))


def test_the_run_is_no_part_of_the_key_but_decides_between_equal_requests(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    record(path, [request(run_id="a"), request(run_id="b"), request(run_id="a")], ["a1", "b1", "a2"])
    replay = ReplayModel(path)
    asked = [request(run_id=run_id) for run_id in ("a", "b", "never recorded")]
    assert [reply.text for reply in ask(replay, *asked)] == ["a2", "b1", "a2"]


def test_a_missing_reply_says_what_differs_and_how_to_record(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    record(path, [request()], ["x"])
    replay = ReplayModel(path)
    with pytest.raises(ConfigError) as error:
        ask(replay, request(content="something else", temperature=1.0))
    message = str(error.value)
    assert all(word in message for word in (str(path), "1 replies of scripted", "other messages and settings"))
    assert all(word in message for word in ("actor agent", "'something else'", "record:FILE+"))
    with pytest.raises(ConfigError, match="Nothing was recorded at this place"):
        ask(replay, request(occurrence=5))


def test_failures_are_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    model = RecordingModel(ScriptedModel([ModelUnavailable("down"), "fine"]), path)
    with pytest.raises(ModelUnavailable):
        ask(model, request())
    assert not path.exists()
    ask(model, request(occurrence=1))
    assert len(read_recording(path).records) == 1


def test_another_model_may_not_be_recorded_into_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    record(path, [request()], ["x"])
    RecordingModel(ScriptedModel([]), path)
    with pytest.raises(ConfigError, match=r"holds replies of scripted; record other into another file"):
        RecordingModel(ScriptedModel([], name="other"), path)


def torn_file(path: Path, tail: bytes) -> bytes:
    record(path, [request(), request(occurrence=1)], ["一", "二"])
    path.write_bytes(path.read_bytes() + tail)
    return path.read_bytes()


@pytest.mark.parametrize(
    "tail",
    [b'{"run": "r4", "step": 2, "te', '{"run": "r4", "text": "订'.encode()[:-1], b'{"key": 1, "reply": {}'],
    ids=["no line end", "inside a character", "a record"],
)
def test_e09_a_torn_last_line_is_reported_and_never_swallows_the_next_record(
    tmp_path: Path, tail: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file.jsonl"
    before = torn_file(path, tail)
    with caplog.at_level(logging.WARNING):
        model = RecordingModel(ScriptedModel(["三"]), path)
    assert [torn.line for torn in model.torn_lines] == [4]
    assert str(path) in caplog.text
    assert "1 torn line" in caplog.text
    assert "line 4" in caplog.text
    ask(model, request(occurrence=2))
    after = path.read_bytes()
    assert after.startswith(before + b"\n"), "the original bytes stay, the new record is on a line of its own"
    replay = ReplayModel(path)
    assert [torn.line for torn in replay.torn_lines] == [4]
    asked = [request(occurrence=number) for number in range(3)]
    assert [reply.text for reply in ask(replay, *asked)] == ["一", "二", "三"]


def test_e09_a_torn_line_between_complete_ones(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    lines = torn_file(path, b"").splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:50] + b"\n" + b"\n" + lines[2])
    recording = read_recording(path)
    assert [torn.line for torn in recording.torn_lines] == [2]
    assert len(recording.records) == 1
    assert ask(ReplayModel(path), request(occurrence=1))[0].text == "二"


def test_a_torn_header_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(b'{"agentlab_replay": 1, "mod')
    record(path, [request()], ["x"])
    assert ask(ReplayModel(path), request())[0].text == "x"
    assert [torn.line for torn in read_recording(path).torn_lines] == [1]


@pytest.mark.parametrize(
    "content", [None, b"", b"not json\n", b'{"agentlab_replay": 1, "model": "m", "kind": "real"}\n']
)
def test_a_file_without_replies_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "file.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"file\.jsonl.*record:FILE"):
        ReplayModel(path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text('{"agentlab_replay": 99, "model": "m", "kind": "real"}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="replay format 99"):
        ReplayModel(path)


def test_no_secret_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-very-secret-value")
    path = tmp_path / "file.jsonl"
    record(path, [request()], ["your key is sk-very-secret-value"])
    assert b"sk-very-secret" not in path.read_bytes()
    assert "***" in secrets.scrub("sk-very-secret-value")
    with pytest.raises(ConfigError) as error:
        ask(ReplayModel(path), request(content="sk-very-secret-value"))
    assert "sk-very-secret" not in str(error.value)


def test_a_file_that_cannot_be_written_is_infrastructure(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("", encoding="utf-8")
    model = RecordingModel(ScriptedModel(["x"]), tmp_path / "occupied" / "file.jsonl")
    with pytest.raises(InfrastructureError, match="could not be recorded"):
        ask(model, request())


WRITER = """
import asyncio, sys
sys.path[:0] = [sys.argv[3]]
import test_replay as t
from agentlab.models.replay import RecordingModel
from agentlab.models.scripted import ScriptedModel
path, actor = sys.argv[1], sys.argv[2]
model = RecordingModel(ScriptedModel(lambda r: {"text": actor * 2000}), path)
t.ask(model, *[t.request(actor=actor, occurrence=n) for n in range(150)])
"""


def test_two_processes_record_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    here = str(Path(__file__).parent)
    writers = [subprocess.Popen([*command, actor, here]) for actor in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    recording = read_recording(path)
    assert recording.torn_lines == ()
    assert len(recording.records) == 300
    asked = [request(actor=actor, occurrence=n) for actor in ("a", "b") for n in range(150)]
    assert [reply.text for reply in ask(ReplayModel(path), *asked)] == ["a" * 2000] * 150 + ["b" * 2000] * 150


def test_provider_strings(tmp_path: Path) -> None:
    script, path = tmp_path / "script.json", tmp_path / "file.jsonl"
    script.write_text(json.dumps(["hello"]), encoding="utf-8")
    ask(build_model(f"record:{path}+scripted:{script}"), request())
    assert ask(build_model(f"replay:{path}"), request())[0].text == "hello"
    for spec in (f"record:{path}", "record:+simulated:perfect", f"record:{path}+unknown:x"):
        with pytest.raises(ConfigError, match="name a file and the model"):
            build_model(spec)
