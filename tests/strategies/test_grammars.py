import json
from typing import Any

import pytest
from gbnf_checker import Gbnf
from hypothesis import given, settings
from hypothesis import strategies as st

from agentlab.answers import answer_to_arguments, submit_tool
from agentlab.environments.base import load_suite
from agentlab.json_values import dumps
from agentlab.records import STATUSES, VERDICTS, Answer, CallIntent, Finding, FinishIntent, GrammarFormat
from agentlab.strategies.grammars import Grammar, literal
from agentlab.strategies.native import NativeFormat
from agentlab.strategies.react_format import LONGEST_THOUGHT_CHARS, ReactFormat
from agentlab.tools import Tool

SUITE = load_suite("orders")
TOOLS = (*SUITE.make_environment({}).tools(), submit_tool(SUITE.tasks[0].view("en").criteria, "en"))
CALLED = [tool for tool in TOOLS if not tool.is_control]
LANGUAGES = ("en", "zh")
GRAMMARS = {language: Gbnf(ReactFormat(language).grammar(TOOLS)) for language in LANGUAGES}

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters='"\\/\n\t{}[]中文：'), max_size=20)
thoughts = texts.map(lambda text: " ".join(text.split())).filter(bool)
languages = st.sampled_from(LANGUAGES)


@st.composite
def calls(draw: Any) -> CallIntent:
    tool = draw(st.sampled_from(CALLED))
    arguments = {name: draw(texts) for name in tool.parameters["properties"]}
    return CallIntent(((tool.name, arguments),), draw(thoughts))


findings = st.builds(Finding, st.just("amount_valid"), st.sampled_from(STATUSES), st.just("ORDER1002"), texts)
answers = st.builds(
    Answer, st.lists(findings, min_size=1, max_size=3).map(tuple), st.sampled_from([*VERDICTS, None]), texts
)


def grammar_of(schema: Any) -> Gbnf:
    grammar = Grammar()
    grammar.add("root", grammar.add_schema("x", schema))
    return Gbnf(grammar.text())


@settings(deadline=None, max_examples=60)
@given(calls(), languages)
def test_every_call_of_an_offered_tool_can_be_written(intent: CallIntent, language: str) -> None:
    text = ReactFormat(language).write(intent).text
    assert GRAMMARS[language].matches(text)
    assert not GRAMMARS[language].matches(text + "\nObservation: ")


@settings(deadline=None, max_examples=60)
@given(st.builds(FinishIntent, answers, thoughts), languages)
def test_every_answer_can_be_written_with_the_keys_in_the_order_of_the_prompt(
    intent: FinishIntent, language: str
) -> None:
    arguments = answer_to_arguments(intent.answer)
    for finding in arguments["findings"]:
        finding["evidence"] = finding.pop("evidence")  # after the subject, as the schema's optional keys come
        finding["subject"] = finding.pop("subject")
    words = {"en": ("Thought: ", "Final Answer: "), "zh": ("思考：", "最终答案：")}[language]
    ordered = [
        {key: finding[key] for key in ("criterion", "status", "subject", "evidence")}
        for finding in arguments["findings"]
    ]
    text = f"{words[0]}{intent.thought}\n{words[1]}{dumps({**arguments, 'findings': ordered})}"
    assert GRAMMARS[language].matches(text)


@pytest.mark.parametrize(
    "text",
    [
        'Thought: x\nAction: delete_order\nAction Input: {"order_id": "A"}',
        'Thought: x\nAction: query_order_detail\nAction Input: {"order": "A"}',
        'Thought: x\nAction: query_order_detail\nAction Input: {"order_id": 5}',
        "Thought: x\nAction: query_order_detail\nAction Input: {}",
        'Action: query_order_detail\nAction Input: {"order_id": "A"}',
        'Thought: x\nAction: submit\nAction Input: {"findings": []}',
        "Thought: x\nFinal Answer: all is well",
        'Thought: x\nFinal Answer: {"findings": [{"criterion": "a", "status": "good"}]}',
        f'Thought: {"x" * (LONGEST_THOUGHT_CHARS + 1)}\nAction: query_user\nAction Input: {{"user_id": "A"}}',
        'Thought: x\nAction: query_user\nAction Input: {"user_id": "A"}\nObservation: {}',
    ],
)
def test_nothing_else_can_be_written(text: str) -> None:
    assert not GRAMMARS["en"].matches(text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_tool_stands_in_the_grammar(language: str) -> None:
    text = ReactFormat(language).grammar(TOOLS)
    assert [tool.name for tool in CALLED if tool.name not in text] == []
    assert "submit" not in text


def test_without_a_control_tool_any_object_is_an_answer() -> None:
    checker = Gbnf(ReactFormat("en").grammar(TOOLS[:1]))
    assert checker.matches('Thought: x\nFinal Answer: {"findings": [1, {"a": null}], "b": true}')
    assert not checker.matches("Thought: x\nFinal Answer: none")


def test_only_react_has_a_grammar() -> None:
    assert isinstance(ReactFormat(), GrammarFormat)
    assert not isinstance(NativeFormat(), GrammarFormat)


def test_names_and_values_with_signs_of_the_grammar_stay_literal() -> None:
    odd = 'say "a" | b\\ [c]\n(d)? 中\x01'
    schema = {"type": "object", "properties": {odd: {"enum": [odd, 1.5, None]}}, "required": [odd]}
    checker = grammar_of(schema)
    for value in (odd, 1.5, None):
        assert checker.matches(json.dumps({odd: value}, ensure_ascii=False))
    assert not checker.matches(json.dumps({odd: "b"}, ensure_ascii=False))
    assert literal("a\x01") == '"a\\x01"'


SCHEMAS: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "integer"}, [0, -7, 12], [1.5, "1", None]),
    ({"type": "number"}, [0, -1.25, 1e-07, 10.0], ["1", None]),
    ({"type": ["string", "null"]}, ["", None, 'a "b"\n'], [1, False]),
    ({"type": "boolean"}, [True, False], [0, None]),
    ({"const": {"a": [1]}}, [{"a": [1]}], [{"a": [2]}]),
    ({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}]}, [3, [], [True]], ["x", [1]]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [[1], [1, 2, 3]], [[], ["a"]]),
    ({"type": "object"}, [{}, {"a": {"b": [1, None]}}], [[], "x"]),
    ({"type": "object", "properties": {}, "additionalProperties": False}, [{}], [{"a": 1}]),
    (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}}},
        [{}, {"a": 1}, {"b": "x"}, {"a": 1, "c": [2]}, {"a": 1, "b": "x", "c": None}],
        [{"d": 1}, {"a": "x"}],
    ),
    (
        {"type": "object", "properties": {"o": {"type": "integer"}, "r": {"type": "string"}}, "required": ["r"]},
        [{"r": "x"}, {"r": "x", "o": 1}],
        [{}, {"o": 1}],
    ),
    (
        {
            "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
            "$ref": "#/$defs/Node",
        },
        [{}, {"next": {"next": {}}}],
        [{"next": 1}],
    ),
    (True, [1, "x", {"a": []}], []),
    ({"$ref": "https://example.com/schema"}, [1, {"a": None}], []),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), SCHEMAS, ids=lambda part: json.dumps(part)[:60])
def test_the_shape_of_a_schema_is_bound(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    checker = grammar_of(schema)
    assert [value for value in valid if not checker.matches(json.dumps(value))] == []
    assert [value for value in invalid if checker.matches(json.dumps(value))] == []


@settings(deadline=None, max_examples=40)
@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), texts),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
        max_leaves=5,
    )
)
def test_any_json_value_is_a_value(value: Any) -> None:
    assert grammar_of({}).matches(dumps(value))


def test_a_tool_with_odd_parameters_does_no_harm() -> None:
    odd = Tool(
        "odd", "Odd.", {"type": "object", "properties": {"x": {"format": "uri", "pattern": "^a", "type": "string"}}}
    )
    assert Gbnf(ReactFormat().grammar((odd,))).matches('Thought: x\nAction: odd\nAction Input: {"x": "anything"}')
