"""Options that are given as NAME=VALUE."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentlab.errors import ConfigError


def environment_settings(given: Sequence[str]) -> dict[str, Any]:
    """Return the settings of `--environment`: numbers and truth values where the text is one, else the text.

    Raises:
        ConfigError: one has no value.
    """
    return _read(given, "--environment", _simple)


def strategy_parameters(given: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of `--set`: JSON where the text is JSON (`2`, `null`, an object), else the text.

    Raises:
        ConfigError: one has no value.
    """
    return _read(given, "--set", _json)


def _read(given: Sequence[str], option: str, read: Callable[[str], Any]) -> dict[str, Any]:
    pairs = [setting.partition("=") for setting in given]
    if wrong := [name for name, separator, _ in pairs if not separator]:
        raise ConfigError(f"{option} {wrong[0]} has no value. Write {option} NAME=VALUE.")
    return {name: read(text) for name, _, text in pairs}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _simple(text: str) -> Any:
    value = _json(text)
    return value if isinstance(value, int | float) else text
