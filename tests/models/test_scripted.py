import asyncio
import json
from pathlib import Path

import pytest

from agentlab.errors import ConfigError, ModelUnavailable
from agentlab.models.scripted import ScriptedModel, build
from agentlab.records import ModelRequest, Reply, RequestContext, Usage
from agentlab.strategies.native import NativeFormat


def request(run_id: str = "run", actor: str = "agent", occurrence: int = 0) -> ModelRequest:
    context = RequestContext(run_id, None, 0, 0, actor, occurrence)
    return ModelRequest([{"role": "user", "content": "hi"}], (), [], NativeFormat(), 0.0, None, None, False, context)


def ask(model: ScriptedModel, **where: object) -> Reply:
    return asyncio.run(model.complete(request(**where)))  # type: ignore[arg-type]


def test_every_form_of_an_item() -> None:
    own = Reply(text="own", cost_usd=0.5)
    model = ScriptedModel(
        [
            "text",
            {"tool_calls": [{"name": "server_time"}, {"name": "save_note", "arguments": {"text": "x"}}]},
            {"text": "cut", "problem": "truncated", "usage": {"input_tokens": 7, "output_tokens": 2}},
            own,
            ModelUnavailable("down"),
        ]
    )
    replies = [ask(model, occurrence=number) for number in range(4)]
    assert replies[0] == Reply(text="text", finish_reason="stop")
    assert [(call.name, call.arguments) for call in replies[1].tool_calls] == [
        ("server_time", {}),
        ("save_note", {"text": "x"}),
    ]
    assert replies[1].finish_reason == "tool_calls"
    assert replies[2].problem == "truncated"
    assert replies[2].usage == Usage(7, 2)
    assert replies[3] is own
    assert [reply.usage for reply in replies[:2]] == [None, None]
    with pytest.raises(ModelUnavailable, match="down"):
        ask(model, occurrence=4)


def test_call_ids_are_unique_within_a_run() -> None:
    call = {"name": "server_time"}
    model = ScriptedModel([{"tool_calls": [call, call]}, {"tool_calls": [call, {**call, "id": "mine"}]}])
    ids = [call.id for number in range(2) for call in ask(model, occurrence=number).tool_calls]
    assert len(set(ids)) == 4
    assert "mine" in ids


def test_an_exhausted_list_says_how_many_replies_there_were() -> None:
    model = ScriptedModel(["one", "two"], name="short script")
    ask(model)
    ask(model, occurrence=1)
    with pytest.raises(ConfigError, match=r"short script has 2 replies.*reply 3.*actor agent"):
        ask(model, occurrence=2)


def test_every_run_and_every_attempt_starts_at_the_first_reply() -> None:
    model = ScriptedModel(["first", "second", "third"])
    assert ask(model, run_id="a").text == "first"
    assert ask(model, run_id="a", actor="validator").text == "second"
    assert ask(model, run_id="b").text == "first"
    assert ask(model, run_id="a", occurrence=1).text == "third"
    assert ask(model, run_id="a").text == "first", "the run is attempted again"
    assert ask(model, run_id="a", actor="validator").text == "second"


def test_a_function_sees_the_request() -> None:
    model = ScriptedModel(lambda request: {"text": f"{request.context.actor} {request.context.occurrence}"})
    assert ask(model, actor="planner", occurrence=3).text == "planner 3"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"txt": "x"}, "Did you mean 'text'"),
        ({"tool_calls": [{"arguments": {}}]}, "name"),
        ({"tool_calls": [{"name": "x", "args": {}}]}, "arguments"),
        ({"usage": {"prompt_tokens": 1}}, "input_tokens"),
        ({"text": 5}, "text must be a text"),
        (5, "not int"),
    ],
)
def test_an_item_of_an_unknown_form_is_refused_with_its_number(item: object, words: str) -> None:
    with pytest.raises(ConfigError, match="reply 2"):
        ScriptedModel(["ok", item])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=words):
        ScriptedModel(["ok", item])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match=words):
        ask(ScriptedModel(lambda _: item))  # type: ignore[arg-type, return-value]


def test_a_script_comes_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(["你好", {"text": "再见"}], ensure_ascii=False), encoding="utf-8")
    model = build(str(path))
    assert model.name == f"scripted:{path}"
    assert [ask(model, occurrence=0).text, ask(model, occurrence=1).text] == ["你好", "再见"]


@pytest.mark.parametrize(
    ("content", "words"), [(None, "cannot be read"), ("[", "not valid JSON"), ('{"a": 1}', "array"), ("[5]", "reply 1")]
)
def test_a_bad_file_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "replies.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"replies.json.*{words}"):
        build(str(path))
