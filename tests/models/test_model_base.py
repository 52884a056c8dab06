import importlib
import inspect
from pathlib import Path

import pytest

from agentlab.errors import ConfigError
from agentlab.models.base import PROVIDERS, build_model
from agentlab.models.local_files import SERVED


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_names_a_factory_of_one_text(name: str) -> None:
    module, _, factory = PROVIDERS[name].factory.partition(":")
    parameters = inspect.signature(getattr(importlib.import_module(module), factory)).parameters
    assert len(parameters) == 1
    assert PROVIDERS[name].example.startswith(f"{name}:")


@pytest.mark.parametrize("spec", ["gpt-4o-mini", "opneai:gpt-4o-mini", "", ":x"])
def test_an_unknown_provider_lists_the_valid_ones_with_examples(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"local, openai, record, replay, scripted, simulated.*simulated:perfect"):
        build_model(spec)


@pytest.mark.parametrize("provider", [name for name, provider in PROVIDERS.items() if provider.needs_name])
def test_a_missing_name_is_an_error_with_an_example(provider: str) -> None:
    for spec in (provider, f"{provider}:"):
        with pytest.raises(ConfigError, match=f"names no model.*{provider}:"):
            build_model(spec)


def test_names_become_models(tmp_path: Path) -> None:
    script = tmp_path / "a+b.json"
    script.write_text('["hello"]', encoding="utf-8")
    assert build_model("simulated:perfect").kind == "simulated"
    assert build_model(f"scripted:{script}").kind == "scripted"
    recording = build_model(f"record:{tmp_path / 'c+d.jsonl'}+scripted:{script}")
    assert (recording.kind, recording.name) == ("scripted", f"scripted:{script}")
    assert [path.name for path in tmp_path.iterdir()] == ["a+b.json"], "building a model writes no file"


def test_the_capabilities_of_a_provider_are_those_of_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-any-key-0123")
    script = tmp_path / "script.json"
    script.write_text('["hello"]', encoding="utf-8")
    for spec in ("openai:any", "simulated:perfect", f"scripted:{script}"):
        assert frozenset(PROVIDERS[spec.partition(":")[0]].capabilities or ()) == build_model(spec).capabilities
    assert frozenset(PROVIDERS["local"].capabilities or ()) == SERVED


def test_the_provider_s_own_error_comes_through() -> None:
    with pytest.raises(ConfigError, match="careless, context_decay, malformed, perfect"):
        build_model("simulated:perfekt")
