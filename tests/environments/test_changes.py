from typing import Any

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.changes import merge_patch, starting_state


# Examples of RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("base", "patch", "merged"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(base: Any, patch: Any, merged: Any) -> None:
    assert merge_patch(base, patch) == merged


def test_defects_are_laid_over_the_initial_state_and_change_nothing_else() -> None:
    task = load_suite("orders").task("order-1002--source-data")
    base = {"orders": {"ORDER1002": {"amount": 1.0, "status": "x", "user_id": "y"}}, "users": {"USER002": {}}}
    state = starting_state(task, base)
    assert state["orders"]["ORDER1002"] == {"amount": -20.0, "status": "unknown", "user_id": "USER002"}
    assert state["users"] == {"USER002": {}}
    state["users"]["USER002"]["name"] = "changed"
    assert base == {"orders": {"ORDER1002": {"amount": 1.0, "status": "x", "user_id": "y"}}, "users": {"USER002": {}}}
    assert task.initial_state["orders"]["ORDER1002"]["amount"] == 20.0
