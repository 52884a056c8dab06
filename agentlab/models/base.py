"""The models that are known by name: `provider:name` strings become model objects."""

import importlib
from collections.abc import Callable
from typing import NamedTuple

from agentlab.errors import ConfigError, unknown_name
from agentlab.records import Model


class Provider(NamedTuple):
    """One way to get a model."""

    factory: str
    """`module:function`; the function takes what follows `provider:`."""
    example: str
    help: str
    """What it is, in one line."""
    capabilities: tuple[str, ...] | None = None
    """What its models can do; None where that depends on the model behind it."""
    needs_name: bool = True
    """False when `provider:` alone takes the name from the environment."""


PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        "agentlab.models.openai_compatible:build",
        "openai:gpt-4o-mini",
        "any chat-completions endpoint (LLM_API_KEY, LLM_BASE_URL, LLM_MODEL)",
        ("json_schema", "seed", "stop", "tools"),
        needs_name=False,
    ),
    "local": Provider(
        "agentlab.models.local:build",
        "local:qwen2.5-coder-1.5b",
        "a small model on this machine (agentlab local list), or a GGUF file by its path",
        ("grammar", "json_schema", "seed", "stop", "tools"),
    ),
    "simulated": Provider(
        "agentlab.models.simulated:build",
        "simulated:perfect",
        "knows the task's reference and errs by a published error model; no evidence about any model",
        ("seed", "stop", "tools"),
    ),
    "scripted": Provider(
        "agentlab.models.scripted:build",
        "scripted:replies.json",
        "replies from a JSON file, in order",
        ("stop", "tools"),
    ),
    "replay": Provider(
        "agentlab.models.replay:build_replay", "replay:recorded.jsonl", "replies that were recorded before"
    ),
    "record": Provider(
        "agentlab.models.replay:build_recording",
        "record:recorded.jsonl+openai:gpt-4o-mini",
        "asks the model after + and records its replies for replay",
    ),
}


def build_model(spec: str) -> Model:
    """Return the model of a `provider:name` string. Opens no connection and writes no file.

    Raises:
        ConfigError: no provider of that name, or the provider cannot use what follows; says what is valid.
    """
    provider, _, name = spec.partition(":")
    if provider not in PROVIDERS:
        examples = ", ".join(known.example for known in PROVIDERS.values())
        raise unknown_name(
            "model provider", provider, PROVIDERS, hint=f"A model is provider:name, for example {examples}."
        )
    known = PROVIDERS[provider]
    if not name and known.needs_name:
        raise ConfigError(f"Model {spec!r} names no model: write {provider}:..., for example {known.example}.")
    module, _, factory = known.factory.partition(":")
    build: Callable[[str], Model] = getattr(importlib.import_module(module), factory)
    return build(name)
