from typing import Any

import pytest

from agentlab.environments.base import load_suite
from agentlab.models.constraints import Constraint, constraint_of
from agentlab.models.local_files import SERVED
from agentlab.records import ReplyFormat
from agentlab.strategies.native import NativeFormat
from agentlab.strategies.react_format import ReactFormat

OPENAI = frozenset({"tools", "json_schema", "stop", "seed"})
TOOLS = load_suite("orders").make_environment({}).tools()


@pytest.mark.parametrize(
    ("format", "capabilities", "bound_by"),
    [
        (ReactFormat(), SERVED, "grammar"),
        (ReactFormat(), OPENAI, None),
        (ReactFormat(), SERVED - {"grammar"}, None),
        (NativeFormat(), SERVED, "tool_choice"),
        (NativeFormat(), OPENAI, None),
        (NativeFormat(), frozenset({"grammar"}), None),
    ],
)
def test_what_binds_a_format(format: ReplyFormat, capabilities: frozenset[str], bound_by: Constraint | None) -> None:
    assert constraint_of(format, TOOLS, capabilities) == bound_by


def test_a_schema_binds_before_a_grammar(probe_format: Any) -> None:
    format = probe_format(native_tools=False, json_schema={"type": "object"})
    assert constraint_of(format, TOOLS, SERVED) == constraint_of(format, TOOLS, OPENAI) == "json_schema"
    assert constraint_of(format, TOOLS, frozenset({"tools"})) is None
