import re
from pathlib import Path

import pytest

from agentlab.errors import ConfigError
from agentlab.models.local_files import CACHE_VARIABLE, KNOWN_MODELS, SERVED, cache_folder, find_file, own_template


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_where_the_variable_says_or_where_the_platform_keeps_caches(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder() == cache
    monkeypatch.setenv(CACHE_VARIABLE, "~/models")
    assert cache_folder() == Path.home() / "models"
    monkeypatch.delenv(CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "xdg"))
    assert "agentlab-compare" in cache_folder().parts


@pytest.mark.parametrize(("name", "parts"), [("qwen2.5-coder-1.5b", 22), ("qwen2.5-coder-0.5b", 6)])
def test_the_facts_of_a_known_model_fit_together(name: str, parts: int, cache: Path) -> None:
    model = KNOWN_MODELS[name]
    assert (model.n_parts, model.licence, model.capabilities) == (parts, "Apache-2.0", SERVED)
    assert re.fullmatch("[0-9a-f]{64}", model.sha256)
    assert model.path == cache / "models" / model.file_name


def test_a_known_model_that_is_not_there_says_how_to_fetch_it(cache: Path) -> None:
    with pytest.raises(ConfigError, match=r"1\.1 GB.*agentlab local fetch qwen2\.5-coder-1\.5b"):
        find_file("qwen2.5-coder-1.5b")
    assert not cache.exists()


def test_a_file_of_another_size_is_not_used() -> None:
    path = KNOWN_MODELS["qwen2.5-coder-0.5b"].path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF half of it")
    with pytest.raises(ConfigError, match=r"15 bytes in place of 491,400,064.*agentlab local fetch"):
        find_file("qwen2.5-coder-0.5b")


def test_a_known_model_is_served_with_the_template_of_the_project() -> None:
    path = KNOWN_MODELS["qwen2.5-coder-0.5b"].path
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(KNOWN_MODELS["qwen2.5-coder-0.5b"].size_bytes)  # sparse: takes no space
    found = find_file("qwen2.5-coder-0.5b")
    assert (found.template, found.path) == (own_template(), path.resolve())
    assert re.fullmatch(r"qwen2\.5-coder-0\.5b@template-[0-9a-f]{8}", found.alias)


def test_an_unknown_name_lists_the_known_ones_and_the_other_way() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'qwen2.5-coder-1.5b'.*local:/path/to/model.gguf"):
        find_file("qwen2.5-coder-1.5")


def test_a_file_of_ones_own_keeps_its_template_unless_one_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "my model.gguf"
    path.write_bytes(b"GGUF...")
    found = find_file(str(path))
    assert (found.name, found.path, found.template, found.alias) == (str(path), path, None, "my model")
    path.with_suffix(".jinja").write_text("{{ messages }} 中", encoding="utf-8")
    found = find_file(str(path))
    assert found.template == "{{ messages }} 中"
    assert found.alias.startswith("my model@template-")


def test_a_relative_path_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.gguf").write_bytes(b"GGUF...")
    assert find_file("x.gguf").path == tmp_path / "x.gguf"


@pytest.mark.parametrize(
    ("content", "said"), [(None, "there is no file"), (b"PK\x03\x04", "no GGUF file"), (b"", "no GGUF file")]
)
def test_a_path_without_weights_says_what_is_there(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        find_file(str(path))
