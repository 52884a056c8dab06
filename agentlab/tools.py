"""Tools: a typed Python function with a docstring becomes a name, a description and a JSON schema.

The function's docstring is what the model reads, so it is part of the experiment: its hash is a factor of the run.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from agentlab.errors import BadArguments, ConfigError, UnknownTool
from agentlab.json_values import canonical
from agentlab.observations import HANDLE
from agentlab.records import JsonObject

Effect = Literal["read", "idempotent", "write", "irreversible"]
Permission = Literal["auto", "ask", "deny"]
DEFAULT_TIMEOUT_S = 30.0
DEFAULT_RETRIES = 2
_MARK = "__agentlab_tool__"
_PLAIN_KEYS = frozenset({"type", "description", "default", "title"})
_FLAT_KEYS = _PLAIN_KEYS | {"properties", "required", "additionalProperties"}
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Tool:
    """One capability of the environment, as offered to a strategy."""

    name: str
    description: str
    parameters: JsonObject
    """JSON schema of the arguments; an object schema."""
    function: Callable[..., Any] | None = None
    """Plain or async function called with the arguments by name; None for a tool that is only described."""
    effect: Effect = "read"
    permission: Permission = "auto"
    repeatable: bool = False
    """True when the same call again is meant (a tap on a screen); otherwise repeats are detected."""
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    """Limit for one call; None runs a plain function inline, without a limit."""
    max_retries: int = 0
    """Automatic repeats of a transient failure; 0 for write and irreversible tools."""
    max_uses: int | None = None
    """How often the tool may be executed in one run; None is unlimited."""
    compensate: str | None = None
    """Name of the tool that undoes this one. Where it is idempotent, it may also be called when nobody knows whether
    there is anything to undo."""
    returns: JsonObject | None = None
    """JSON schema of the result's data, where it is declared; lets references to it be checked before it runs."""
    description_zh: str = ""
    is_control: bool = False
    """True for `submit`: it ends the run and never reaches the environment."""
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """What was made of the schema, once: the wire form by language, the validator."""

    @property
    def has_side_effect(self) -> bool:
        """True when executing the call twice could do harm."""
        return self.effect in ("write", "irreversible")

    @property
    def validator(self) -> Any:
        """The jsonschema validator of the arguments."""
        if "validator" not in self._made:
            import jsonschema

            validator_class = jsonschema.validators.validator_for(self.parameters, jsonschema.Draft202012Validator)
            self._made["validator"] = validator_class(self.parameters)
        return self._made["validator"]

    @property
    def is_async(self) -> bool:
        """True when its function has to be awaited."""
        if "is_async" not in self._made:
            self._made["is_async"] = inspect.iscoroutinefunction(self.function)
        return bool(self._made["is_async"])

    @functools.cached_property
    def _plain_types(self) -> dict[str, tuple[type, ...]] | None:
        return _plain_types_of(self.parameters)

    def native_schema(self, language: str = "en") -> JsonObject:
        """Return the tool in the wire form of chat completions."""
        schema: JsonObject | None = self._made.get(language)
        if schema is None:
            function = {"name": self.name, "description": self.describe(language), "parameters": self.parameters}
            schema = self._made[language] = {"type": "function", "function": function}
        return schema

    def text_line(self, language: str = "en") -> str:
        """Return the tool as one block of prompt text: name, arguments, description."""
        return f"- {self.name}({self.shape()}): {self.describe(language)}"

    def describe(self, language: str) -> str:
        """Return the description in a language; English where there is no Chinese one."""
        return self.description_zh if language == "zh" and self.description_zh else self.description

    def shape(self) -> str:
        """Return the arguments object with type names for values, as shown to a model: `{"order_id": string}`."""
        required = set(self.parameters.get("required", ()))
        parts = []
        for name, schema in self.parameters.get("properties", {}).items():
            optional = "" if name in required else " (optional)"
            parts.append(f'"{name}": {" or ".join(_types(schema)) or "any"}{optional}')
        return "{" + ", ".join(parts) + "}"

    def check_arguments(self, arguments: Any, *, may_hold_handles: bool = False) -> None:
        """Accept arguments that fit the schema.

        Args:
            arguments: as sent, or with the handles of large results replaced by their data.
            may_hold_handles: accept a handle in place of any argument: only the session knows what it stands for.

        Raises:
            BadArguments: every problem in words, with the field, the type it needs and the expected shape.
        """
        if not isinstance(arguments, dict):
            raise BadArguments(
                f"The arguments of {self.name} must be a JSON object {self.shape()}, not {_type_name(arguments)}."
            )
        if self._fits_plainly(arguments):
            return
        problems = [
            _problem(error)
            for error in self.validator.iter_errors(arguments)
            if not (may_hold_handles and _is_about_a_handle(error))
        ]
        if problems:
            raise BadArguments(
                f"Wrong arguments for {self.name}: {'; '.join(sorted(problems))}. Expected {self.shape()}."
            )

    def _fits_plainly(self, arguments: JsonObject) -> bool:
        """True when the arguments fit without doubt; False leaves it to the validator, which takes much longer."""
        types = self._plain_types
        return (
            types is not None
            and all(type(value) in types.get(name, ()) for name, value in arguments.items())
            and all(name in arguments for name in self.parameters.get("required", ()))
        )


def find_tool(tools: Iterable[Tool], name: str) -> Tool:
    """Return the tool of that name.

    Raises:
        UnknownTool: there is none; the message lists the names that exist.
    """
    for candidate in tools:
        if candidate.name == name:
            return candidate
    raise UnknownTool(f"There is no tool {name!r}. Available tools: {', '.join(t.name for t in tools)}.")


def tool(
    *,
    effect: Effect = "read",
    permission: Permission = "auto",
    repeatable: bool = False,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    max_retries: int | None = None,
    max_uses: int | None = None,
    compensate: str | None = None,
    returns: JsonObject | None = None,
    zh: str = "",
) -> Callable[[F], F]:
    """Mark a function or method as a tool; `tools_of` and `tool_from_function` build the `Tool` from it.

    Args:
        effect: what the call does to the world: `read` nothing, `idempotent` the same when repeated,
            `write` something that can be undone, `irreversible` something that cannot.
        permission: `auto` runs it, `ask` needs an approval, `deny` never runs it.
        repeatable: the same call again is meant, so it is no repetition.
        timeout_s: limit for one call in seconds; None runs it inline without a limit.
        max_retries: automatic repeats of a transient failure; None means 2 for read and idempotent, else 0.
        max_uses: how often it may be executed in one run.
        compensate: name of the tool that undoes this one.
        returns: JSON schema of the result's data; fields that are not in its `properties` do not exist.
        zh: Chinese description; the docstring's first paragraph is the English one.
    """
    marks = {
        "effect": effect,
        "permission": permission,
        "repeatable": repeatable,
        "timeout_s": timeout_s,
        "max_retries": max_retries,
        "max_uses": max_uses,
        "compensate": compensate,
        "returns": returns,
        "description_zh": zh,
    }

    def mark(function: F) -> F:
        setattr(function, _MARK, marks)
        return function

    return mark


def tool_from_function(function: Callable[..., Any], **overrides: Any) -> Tool:
    """Return the tool that a typed function with a docstring describes.

    Args:
        function: its parameters need type annotations; Google-style `Args:` lines become their descriptions.
        overrides: fields of `Tool` that win over the marks of the `tool` decorator.

    Raises:
        ConfigError: no docstring, an unannotated parameter, or a write tool with automatic retries.
    """
    plain = inspect.unwrap(getattr(function, "__func__", function))
    name, description, parameters = _described(plain)
    marks = {**getattr(plain, _MARK, {}), **overrides}
    effect = marks.get("effect", "read")
    retries = marks.pop("max_retries", None)
    if retries is None:
        retries = DEFAULT_RETRIES if effect in ("read", "idempotent") else 0
    elif retries and effect in ("write", "irreversible"):
        raise ConfigError(f"Tool {name} is {effect}: it may not be repeated automatically, so max_retries must be 0.")
    return Tool(
        **{"name": name, "description": description, "parameters": parameters, **marks},
        max_retries=retries,
        function=function,
    )


def tools_of(owner: Any) -> tuple[Tool, ...]:
    """Return the tools that the marked methods of an object describe, in the order of their definition."""
    return tuple(
        _with_function(described, getattr(owner, name)) for name, described in _tools_of_class(owner.__class__)
    )


@functools.lru_cache(maxsize=256)
def _tools_of_class(owner: type) -> tuple[tuple[str, Tool], ...]:
    """Name and description of the marked methods; built once per class, not per run."""
    names = [name for base in reversed(owner.__mro__) for name, member in vars(base).items() if hasattr(member, _MARK)]
    return tuple((name, tool_from_function(getattr(owner, name))) for name in dict.fromkeys(names))


def _with_function(described: Tool, function: Callable[..., Any]) -> Tool:
    """The same tool with another function; unlike with `dataclasses.replace`, what was made of its schema is shared."""
    tool = object.__new__(Tool)
    vars(tool).update(vars(described), function=function)
    return tool


def tools_from_schemas(schemas: Sequence[JsonObject]) -> tuple[Tool, ...]:
    """Return tools without functions from chat-completions tool dicts (`{"type": "function", "function": {...}}`).

    A key `side_effects: true` beside the function makes it a write tool.

    Raises:
        ConfigError: an entry without a function name.
    """
    tools = []
    for schema in schemas:
        function = schema.get("function", schema)
        if not isinstance(function.get("name"), str):
            raise ConfigError(f"A tool schema needs function.name: {canonical(schema)[:200]}")
        tools.append(
            Tool(
                name=function["name"],
                description=function.get("description", ""),
                parameters=function.get("parameters") or {"type": "object", "properties": {}},
                effect="write" if schema.get("side_effects") else "read",
            )
        )
    return tuple(tools)


@functools.lru_cache(maxsize=1024)
def _described(function: Callable[..., Any]) -> tuple[str, str, JsonObject]:
    """Name, description and argument schema of a function; built once per function, not per run."""
    from pydantic import ConfigDict, Field, create_model

    name = function.__name__
    text = inspect.getdoc(function)
    if not text:
        raise ConfigError(f"Tool {name} needs a docstring: it is what the model reads.")
    described = _argument_texts(text)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.annotation is inspect.Parameter.empty:
            raise ConfigError(f"Tool {name}: parameter {parameter.name!r} needs a type annotation.")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, Field(default, description=described.get(parameter.name)))
    model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    schema = _without_titles(model.model_json_schema())
    schema.setdefault("properties", {})
    schema.setdefault("required", [])
    return name, re.split(r"\n\s*\n", text, maxsplit=1)[0].replace("\n", " "), schema


def _argument_texts(docstring: str) -> dict[str, str]:
    """Descriptions of the `Args:` section of a Google-style docstring."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", docstring, re.MULTILINE)
    lines = re.findall(r"^\s+(\w+)(?:\s*\([^)]*\))?:\s*(.+)$", section[1] if section else "", re.MULTILINE)
    return {name: text.strip() for name, text in lines}


def _without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: {name: _without_titles(value) for name, value in item.items()}
            if key == "properties"
            else _without_titles(item)
            for key, item in schema.items()
            if key != "title"
        }
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def _plain_types_of(schema: JsonObject) -> dict[str, tuple[type, ...]] | None:
    """The Python types of each argument of a flat schema; None when it demands anything besides types."""
    if schema.get("type") != "object" or not schema.keys() <= _FLAT_KEYS:
        return None
    types = {}
    for name, inner in schema.get("properties", {}).items():
        kind = inner.get("type") if isinstance(inner, dict) and inner.keys() <= _PLAIN_KEYS else None
        if not isinstance(kind, str) or kind not in _PLAIN_TYPES:
            return None
        types[name] = _PLAIN_TYPES[kind]
    return types


def _types(schema: Any) -> list[str]:
    """The types that a schema allows, by name; empty where it does not say."""
    kinds = schema.get("type", [])
    own = [kinds] if isinstance(kinds, str) else list(kinds)
    return own or [name for inner in schema.get("anyOf", ()) for name in _types(inner)]


def _is_about_a_handle(error: Any) -> bool:
    value = error.instance
    return len(error.absolute_path) == 1 and isinstance(value, str) and HANDLE.fullmatch(value) is not None


def _problem(error: Any) -> str:
    """One schema violation in words: where it is and what it needs."""
    where = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "type":
        wanted = error.validator_value
        wanted = " or ".join(wanted) if isinstance(wanted, list) else wanted
        return f"{where or 'the arguments'} must be of type {wanted}, not {_type_name(error.instance)}"
    if error.validator == "anyOf" and (kinds := _types(error.schema)) and _type_name(error.instance) not in kinds:
        return f"{where or 'the arguments'} must be of type {' or '.join(kinds)}, not {_type_name(error.instance)}"
    if error.validator == "required":
        return f"{'.'.join(filter(None, [where, _missing(error)]))} is missing"
    if error.validator == "additionalProperties":
        extra = sorted(set(error.instance) - set(error.schema.get("properties", {})))
        return f"{', '.join(extra)} {'is' if len(extra) == 1 else 'are'} not an argument of this tool"
    message = str(error.message)
    return f"{where}: {message[:200]}" if where else message[:200]


def _missing(error: Any) -> str:
    return next(
        str(name) for name in error.validator_value if name not in error.instance and f"'{name}'" in error.message
    )


def _type_name(value: Any) -> str:
    names = {
        dict: "object",
        list: "array",
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)
