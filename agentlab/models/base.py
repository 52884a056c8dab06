"""The models that are known by name: `provider:name` strings become model objects."""

import importlib
from collections.abc import Callable

from agentlab.errors import ConfigError, unknown_name
from agentlab.records import Model

PROVIDERS: dict[str, str] = {
    "openai": "agentlab.models.openai_client:build",
    "simulated": "agentlab.models.simulated:build",
    "scripted": "agentlab.models.scripted:build",
    "replay": "agentlab.models.replay:build_replay",
    "record": "agentlab.models.replay:build_recording",
}
"""Provider -> `module:factory`; the factory takes what follows `provider:`."""

EXAMPLES = (
    "openai:gpt-4o-mini",
    "simulated:perfect",
    "scripted:replies.json",
    "replay:recorded.jsonl",
    "record:recorded.jsonl+openai:gpt-4o-mini",
)


def build_model(spec: str) -> Model:
    """Return the model of a `provider:name` string. Opens no connection and writes no file.

    Raises:
        ConfigError: no provider of that name, or the provider cannot use what follows; says what is valid.
    """
    provider, _, name = spec.partition(":")
    if provider not in PROVIDERS:
        raise unknown_name(
            "model provider", provider, PROVIDERS, hint=f"A model is provider:name, for example {', '.join(EXAMPLES)}."
        )
    if not name:
        example = next(example for example in EXAMPLES if example.startswith(f"{provider}:"))
        raise ConfigError(f"Model {spec!r} names no model: write provider:name, for example {example}.")
    module, _, factory = PROVIDERS[provider].partition(":")
    build: Callable[[str], Model] = getattr(importlib.import_module(module), factory)
    return build(name)
