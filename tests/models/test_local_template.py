"""The template as any Jinja engine renders it; that llama.cpp recognises its calls shows in the run with the model."""

import json
from typing import Any

import jinja2
import pytest

from agentlab.answers import submit_tool
from agentlab.environments.base import load_suite
from agentlab.models.local_files import own_template
from agentlab.models.replies import assistant_message, tool_message
from agentlab.records import Reply, ToolCall

SUITE = load_suite("orders")
TOOLS = (*SUITE.make_environment({}).tools(), submit_tool(SUITE.tasks[0].view("zh").criteria, "zh"))
SYSTEM = {"role": "system", "content": "你通过调用工具来测试软件。"}
USER = {"role": "user", "content": "检查订单 ORDER1002"}


def render(
    messages: list[dict[str, Any]], *, tools: list[Any] | None = None, trim: bool = True, end: bool = True
) -> str:
    environment = jinja2.Environment(trim_blocks=trim, lstrip_blocks=trim, undefined=jinja2.StrictUndefined)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(own_template()).render(messages=messages, tools=tools, add_generation_prompt=end)


def as_server(message: dict[str, Any]) -> dict[str, Any]:
    """A message as llama.cpp hands it to a template: arguments as an object, no fields that are null."""
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls", ())
    ]
    return {"tool_calls": None, **message, **({"tool_calls": calls} if calls else {})}


def turns(text: str) -> list[tuple[str, str]]:
    parts = text.removesuffix("<|im_start|>assistant\n").split("<|im_end|>\n")
    assert parts[-1] == ""
    return [tuple(part.removeprefix("<|im_start|>").split("\n", 1)) for part in parts[:-1]]  # type: ignore[misc]


def conversation() -> list[dict[str, Any]]:
    reply = Reply("先查询。", tool_calls=(ToolCall("a", "query_order_detail", {"order_id": "ORDER1002"}),))
    silent = Reply(tool_calls=(ToolCall("b", "check_order_amount", {"order_id": '订单"1"'}),))
    return [
        SYSTEM,
        USER,
        assistant_message(reply),
        tool_message("a", '{"success": true, "message": "金额 -20.00"}'),
        assistant_message(silent),
        tool_message("b", "second"),
        {"role": "user", "content": "继续"},
    ]


def test_each_message_becomes_a_turn() -> None:
    found = turns(render([as_server(message) for message in conversation()]))
    assert [role for role, _ in found] == ["system", "user", "assistant", "user", "assistant", "user", "user"]
    assert found[0][1] == SYSTEM["content"]
    assert found[2][1] == (
        '先查询。\n```json\n{"name": "query_order_detail", "arguments": {"order_id": "ORDER1002"}}\n```'
    )
    assert found[3][1] == 'Tool result:\n{"success": true, "message": "金额 -20.00"}'
    assert json.loads(found[4][1].strip("`").removeprefix("json"))["arguments"] == {"order_id": '订单"1"'}
    assert found[6][1] == "继续"


def test_arguments_as_text_read_the_same_as_an_object() -> None:
    messages = [{"tool_calls": None, **message} for message in conversation()]
    assert render(messages) == render([as_server(message) for message in conversation()])


def test_every_tool_is_one_line_of_json_in_the_system_turn() -> None:
    schemas = [tool.native_schema("zh") for tool in TOOLS]
    system = turns(render([SYSTEM, as_server(USER)], tools=schemas))[0][1]
    assert system.startswith(f"{SYSTEM['content']}\n\n# Tools\n")
    lines = system.split("a line:\n")[1].split("\n\nTo call")[0].split("\n")
    assert [json.loads(line) for line in lines] == [schema["function"] for schema in schemas]
    assert system.endswith('```json\n{"name": "tool_name", "arguments": {"argument": "value"}}\n```')
    assert "# Tools" not in render([SYSTEM, as_server(USER)])


def test_the_form_of_the_example_is_the_form_of_the_history() -> None:
    schemas = [tool.native_schema("en") for tool in TOOLS]
    text = render([as_server(message) for message in conversation()], tools=schemas)
    assert text.count('```json\n{"name": "') == 3
    assert text.count('", "arguments": {') == 3


def test_several_calls_of_a_reply_stand_one_after_the_other() -> None:
    calls = tuple(ToolCall(id, "query_user", {"user_id": id}) for id in ("U1", "U2"))
    text = turns(render([as_server(assistant_message(Reply(tool_calls=calls)))]))[1][1]
    assert text == "\n".join(
        f'```json\n{{"name": "query_user", "arguments": {{"user_id": "{id}"}}}}\n```' for id in ("U1", "U2")
    )


@pytest.mark.parametrize("messages", [[], [as_server(USER)]])
def test_without_a_system_message_there_is_a_system_turn_still(messages: list[dict[str, Any]]) -> None:
    text = render(messages)
    assert text.startswith("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n")
    assert text.endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert not render(messages, end=False).endswith("assistant\n")


def test_whitespace_does_not_depend_on_the_engine_s_settings() -> None:
    schemas = [tool.native_schema("en") for tool in TOOLS]
    messages = [as_server(message) for message in conversation()]
    assert render(messages, tools=schemas, trim=True) == render(messages, tools=schemas, trim=False)
