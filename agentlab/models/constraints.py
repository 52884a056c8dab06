"""What binds a model's reply to the format a strategy expects (`constrained: on`), where the model can be bound."""

from typing import Any, Literal

from agentlab.records import GrammarFormat, ReplyFormat

Constraint = Literal["json_schema", "grammar", "tool_choice"]


def constraint_of(format: ReplyFormat, tools: tuple[Any, ...], capabilities: frozenset[str]) -> Constraint | None:
    """Return by what a reply of this format is bound; None where it is left to the model.

    `json_schema` and `grammar` bind the whole reply. `tool_choice` asks for a call in every reply: a server that has
    grammars binds the arguments of native calls by itself, and refuses a grammar of ours beside tools.

    Args:
        format: what the strategy expects.
        tools: the offered tools.
        capabilities: of the model.
    """
    if format.native_tools:
        return "tool_choice" if {"tools", "grammar"} <= capabilities else None
    if "json_schema" in capabilities and format.schema(tools) is not None:
        return "json_schema"
    if "grammar" in capabilities and isinstance(format, GrammarFormat) and format.grammar(tools) is not None:
        return "grammar"
    return None
