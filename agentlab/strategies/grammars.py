"""Grammars for constrained decoding, in llama.cpp's form (GBNF): JSON schemas become rules.

Source: llama.cpp, grammars/README.md (GBNF guide). Its own converter from schemas is C++ inside the server and gives a
whole grammar, not a rule inside another one. Deviates: only what bounds the shape is bound (types, properties, enum,
const, items, alternatives, local references); patterns, formats and ranges are left to the check of the arguments.
"""

import json
import re
from typing import Any

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_BASE_RULES = {
    "value": "object | array | string | number | boolean | null",
    "object": '"{" space (string ":" space value ("," space string ":" space value)*)? "}"',
    "array": '"[" space (value ("," space value)*)? "]"',
    "string": r'"\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""',
    "number": 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
    "integer": '"-"? ("0" | [1-9] [0-9]{0,15})',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "space": '" "?',
}


class Grammar:
    """Rules by name; the root rule is written by whoever uses it."""

    def __init__(self) -> None:
        self._rules: dict[str, str] = dict(_BASE_RULES)

    def add(self, name: str, body: str) -> str:
        """Add a rule and return its name, which holds letters, digits and hyphens."""
        self._rules[name] = body
        return name

    def add_schema(self, name: str, schema: Any) -> str:
        """Add a rule for the JSON texts of a schema and return its name; unknown schemas allow any value."""
        definitions = schema.get("$defs", {}) if isinstance(schema, dict) else {}
        return _SchemaRules(self, name, definitions).rule(name, schema)

    def text(self) -> str:
        """Return the grammar."""
        return "".join(f"{name} ::= {body}\n" for name, body in self._rules.items())

    def __contains__(self, name: str) -> bool:
        return name in self._rules


def literal(text: str) -> str:
    """Return the grammar symbol that stands for exactly this text."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02X}", escaped) + '"'


class _SchemaRules:
    """The rules of one schema; its local references become rules of their own, so that they may be recursive."""

    def __init__(self, grammar: Grammar, prefix: str, definitions: Any) -> None:
        self._grammar = grammar
        self._prefix = prefix
        self._definitions = definitions

    def rule(self, name: str, schema: Any) -> str:
        """Add the rule of a schema and return its name."""
        return self._grammar.add(name, self._body(name, schema))

    def _body(self, name: str, schema: Any) -> str:
        if not isinstance(schema, dict):
            return "value"
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        if "const" in schema:
            return _json_literal(schema["const"])
        if schema.get("enum"):
            return " | ".join(_json_literal(value) for value in schema["enum"])
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self._alternatives(name, schema[key])
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._alternatives(name, [{**schema, "type": one} for one in kind])
        if kind == "object" and schema.get("properties"):
            return self._object(name, schema)
        if kind == "array" and "items" in schema:
            return self._array(name, schema)
        if kind == "object" and schema.get("additionalProperties") is False:
            return '"{}"'
        return kind if kind in _BASE_RULES else "value"

    def _reference(self, target: str) -> str:
        key = target.removeprefix("#/$defs/")
        if key not in self._definitions:
            return "value"
        name = f"{self._prefix}-def-{list(self._definitions).index(key)}"
        if name not in self._grammar:
            self._grammar.add(name, "value")  # so that a definition may refer to itself
            self.rule(name, self._definitions[key])
        return name

    def _alternatives(self, name: str, schemas: list[Any]) -> str:
        return " | ".join(self.rule(f"{name}-{index}", schema) for index, schema in enumerate(schemas))

    def _array(self, name: str, schema: dict[str, Any]) -> str:
        item = self.rule(f"{name}-item", schema["items"])
        items = f'{item} ("," space {item})*'
        return f'"[" {items} "]"' if schema.get("minItems") else f'"[" ({items})? "]"'

    def _object(self, name: str, schema: dict[str, Any]) -> str:
        """Properties in the order of the schema: the required ones, then any of the others."""
        required: list[str] = []
        optional: list[str] = []
        for index, (key, inner) in enumerate(schema["properties"].items()):
            value = self.rule(f"{name}-{index}", inner)
            pair = f'{_json_literal(key)} ":" space {value}'
            (required if key in schema.get("required", ()) else optional).append(pair)
        if required:
            pairs = ' "," space '.join(required) + "".join(f' ("," space {pair})?' for pair in optional)
            return f'"{{" {pairs} "}}"'
        starts = [
            pair + "".join(f' ("," space {later})?' for later in optional[index + 1 :])
            for index, pair in enumerate(optional)
        ]
        return '"{" (' + " | ".join(starts) + ')? "}"'


def _json_literal(value: Any) -> str:
    return literal(json.dumps(value, ensure_ascii=False))
