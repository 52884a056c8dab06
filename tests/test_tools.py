import inspect
from typing import Literal

import pytest

from agentlab.errors import BadArguments, ConfigError, UnknownTool
from agentlab.tools import find_tool, tool, tool_from_function, tools_from_schemas, tools_of


class Shop:
    @tool(effect="write", max_uses=1, zh="退款")
    def refund(
        self, order_id: str, amount: float, notify: bool = False, mode: Literal["full", "part"] = "full"
    ) -> dict[str, str]:
        """Refund an order.

        Second paragraph, not for the model.

        Args:
            order_id: id of the order
            amount: money to return
        """
        return {"order_id": order_id}

    @tool()
    def look(self) -> str:
        """Look around."""
        return "nothing"


REFUND, LOOK = tools_of(Shop())


def test_schema_comes_from_the_signature_and_docstring() -> None:
    assert REFUND.description == "Refund an order."
    assert REFUND.describe("zh") == "退款"
    assert LOOK.describe("zh") == "Look around."
    assert REFUND.parameters["required"] == ["order_id", "amount"]
    assert REFUND.parameters["additionalProperties"] is False
    assert REFUND.parameters["properties"]["amount"] == {"description": "money to return", "type": "number"}
    assert REFUND.native_schema()["function"]["name"] == "refund"
    assert LOOK.parameters == {"additionalProperties": False, "properties": {}, "type": "object", "required": []}


def test_tools_are_bound_and_keep_their_order() -> None:
    assert [t.name for t in tools_of(Shop())] == ["refund", "look"]
    assert REFUND.function is not None
    assert REFUND.function(order_id="O1", amount=1.0) == {"order_id": "O1"}
    assert inspect.ismethod(LOOK.function)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"amount": 1}, ["order_id is missing"]),
        ({"order_id": "O1", "amount": "20"}, ["amount must be of type number, not string"]),
        (
            {"order_id": 7, "amount": None},
            ["order_id must be of type string, not integer", "amount must be of type number, not null"],
        ),
        ({"order_id": "O1", "amount": 1, "extra": 1, "more": 2}, ["extra, more are not an argument"]),
        ({"order_id": "O1", "amount": 1, "mode": "half"}, ["mode"]),
        (["O1"], ["must be a JSON object", "not array"]),
        (None, ["must be a JSON object", "not null"]),
    ],
)
def test_wrong_arguments_are_named_with_what_they_need(arguments: object, words: list[str]) -> None:
    with pytest.raises(BadArguments) as caught:
        REFUND.check_arguments(arguments)
    for word in [*words, '"order_id": string', "refund"]:
        assert word in str(caught.value)


def test_right_arguments_pass() -> None:
    REFUND.check_arguments({"order_id": "O1", "amount": 20, "notify": False})
    with pytest.raises(BadArguments, match="notify must be of type boolean"):
        REFUND.check_arguments({"order_id": "O1", "amount": 20, "notify": 0})


def test_alternatives_are_named_in_the_shape_and_in_what_is_wrong() -> None:
    def rank(rows: list[dict[str, int]] | str, limit: int | None = None) -> None:
        """Rank."""

    tool = tool_from_function(rank)
    assert tool.shape() == '{"rows": array or string, "limit": integer or null (optional)}'
    tool.check_arguments({"rows": [{"a": 1}], "limit": None})
    with pytest.raises(BadArguments, match="rows must be of type array or string, not object"):
        tool.check_arguments({"rows": {}})


def test_a_handle_may_stand_for_any_argument_before_the_session_has_resolved_it() -> None:
    arguments = {"order_id": "O1", "amount": "result_1"}
    REFUND.check_arguments(arguments, may_hold_handles=True)
    with pytest.raises(BadArguments, match="amount must be of type number"):
        REFUND.check_arguments(arguments)
    for wrong in (
        {"order_id": "O1", "amount": "result"},
        {"amount": "result_1"},
        {"order_id": 5, "amount": "result_1"},
    ):
        with pytest.raises(BadArguments):
            REFUND.check_arguments(wrong, may_hold_handles=True)


def test_unknown_tool_lists_the_names() -> None:
    with pytest.raises(UnknownTool, match="refund, look"):
        find_tool((REFUND, LOOK), "delete_order")


def test_retries_follow_the_effect() -> None:
    assert (LOOK.max_retries, REFUND.max_retries) == (2, 0)

    def pay(amount: float) -> None:
        """Pay."""

    with pytest.raises(ConfigError, match="may not be repeated"):
        tool_from_function(pay, effect="irreversible", max_retries=1)


def test_a_tool_needs_a_docstring_and_types() -> None:
    def silent(x: int) -> None: ...

    def untyped(x) -> None:  # type: ignore[no-untyped-def]
        """Say x."""

    with pytest.raises(ConfigError, match="docstring"):
        tool_from_function(silent)
    with pytest.raises(ConfigError, match="'x' needs a type"):
        tool_from_function(untyped)


def test_tools_from_openai_dicts() -> None:
    schemas = [
        {
            "type": "function",
            "function": {"name": "now", "description": "time", "parameters": {"type": "object", "properties": {}}},
        },
        {"type": "function", "function": {"name": "pay"}, "side_effects": True},
    ]
    now, pay = tools_from_schemas(schemas)
    assert (now.function, now.effect, pay.effect) == (None, "read", "write")
    assert now.native_schema()["function"]["description"] == "time"
    with pytest.raises(ConfigError, match=r"function\.name"):
        tools_from_schemas([{"type": "function", "function": {}}])
