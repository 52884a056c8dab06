import datetime
import decimal
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlab.json_values import NotJsonable, canonical, clean_text, copy_json, dumps, to_json_value

VALUE = {
    "when": datetime.datetime(2026, 10, 1, 8, 0, tzinfo=datetime.UTC),
    "price": decimal.Decimal("19.90"),
    "n": np.int64(3),
    "arr": np.arange(3),
    "raw": b"\xff\x00",
    "bad": float("nan"),
    "inf": float("inf"),
    "s": {2, 1},
}


def test_e03_every_value_becomes_strict_json() -> None:
    assert to_json_value(VALUE) == {
        "when": "2026-10-01T08:00:00+00:00",
        "price": "19.90",
        "n": 3,
        "arr": [0, 1, 2],
        "raw": "base64:/wA=",
        "bad": "NaN",
        "inf": "Infinity",
        "s": [1, 2],
    }
    assert json.loads(dumps(VALUE), parse_constant=pytest.fail) == to_json_value(VALUE)
    assert dumps(VALUE) == dumps(VALUE)


def test_e03_a_value_that_cannot_be_carried_names_the_field() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(NotJsonable, match=r"\$\.a\[0\] contains itself"):
        to_json_value({"a": loop})
    with pytest.raises(NotJsonable, match=r"\$\.x is a object"):
        to_json_value({"x": object()})


def test_the_same_list_twice_is_no_loop() -> None:
    shared = [1]
    assert to_json_value([shared, shared]) == [[1], [1]]


def test_a31_control_characters_and_surrogates_are_replaced_and_nothing_is_lost() -> None:
    assert clean_text("ok\x00tail\x1b[31m\ud800") == "ok␀tail␛[31m\ufffd"
    assert clean_text("a\tb\nc\r\n") == "a\tb\nc\r\n"
    assert clean_text("订单🦊") == "订单🦊"


def test_canonical_ignores_the_order_of_keys_and_spacing() -> None:
    assert canonical({"b": 1, "a": [1.0]}) == canonical({"a": [1.0], "b": 1}) == '{"a":[1.0],"b":1}'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_like_value_survives_utf8(value: object) -> None:
    text = dumps(value)
    assert json.loads(text.encode("utf-8")) == to_json_value(value)


def test_a_copy_shares_no_container() -> None:
    value: Any = {"a": [1, {"b": "c"}], "d": None}
    copied = copy_json(value)
    assert copied == value
    copied["a"][1]["b"] = "changed"
    assert value == {"a": [1, {"b": "c"}], "d": None}
