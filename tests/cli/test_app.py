"""The command line as a user runs it: a process, its output and its exit code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_chat_server import ChatServer

ROOT = Path(__file__).parents[2]


def agentlab(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "OPENAI_"))}
    return subprocess.run(
        [sys.executable, "-m", "agentlab", *arguments],
        capture_output=True, text=True, cwd=ROOT, env=clean | environment, timeout=100, check=False,
    )  # fmt: skip


SPEC = """
name: small
suites: [toy]
strategies: [tool_loop, react]
models: ["simulated:perfect"]
repeats: 1
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    spec = folder / "small.yaml"
    spec.write_text(SPEC)
    done = agentlab("run", str(spec), "--out", str(folder / "out"))
    assert done.returncode == 0, done.stderr
    assert "40 runs executed" in done.stdout
    assert re.search(r"small: \d+ % \(\d+/40 runs\)", done.stderr)
    assert done.stderr.count("\n") <= 100
    return folder / "out"


@pytest.mark.parametrize("strategy", ["tool_loop", "react"])
def test_try_shows_the_worked_examples(strategy: str) -> None:
    found = agentlab("try", "ORDER1002", "--strategy", strategy, "--model", "simulated:perfect").stdout
    assert "3 executed, 0 failed, 0 refused; 1 queries, 2 checks" in found
    assert "0 passed, 2 not passed, 0 not evaluated" in found
    assert "verdict failed   success 1   outcome found" in found
    missing = agentlab("try", "ORDER9999", "--strategy", strategy, "--lang", "zh").stdout
    assert "检查项：通过 0 项，未通过 0 项，未评估 2 项" in missing
    assert "verdict incomplete   success 1   outcome incomplete_right" in missing


def test_try_takes_the_parameters_of_a_strategy() -> None:
    policy = '{"name": "stop", "rules": [{"name": "any failure", "on_error": "terminate"}]}'
    settings = ["--set", f"policy={policy}", "--set", "max_repairs=0"]
    done = agentlab("try", "ORDER9999", "--strategy", "plan_execute", *settings)
    assert done.returncode == 0, done.stderr
    assert "The plan was stopped: terminate by rule 'any failure'" in done.stdout


def test_try_with_free_text_and_a_real_endpoint_says_that_no_truth_is_known(chat_server: ChatServer) -> None:
    answer = '{"findings": [], "verdict": "incomplete", "summary": "nothing to check"}'
    chat_server.script(
        [{"body": {"choices": [{"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}]}}]
    )
    done = agentlab("try", "look at my order", "--model", "openai:m", LLM_BASE_URL=chat_server.base_url)
    assert (done.returncode, "no truth known" in done.stdout) == (0, True)
    refused = agentlab("try", "look at my order")
    assert refused.returncode == 2
    assert "truth" in refused.stderr


def test_status_trace_report_and_export(results: Path) -> None:
    assert "40 of 40 runs finished" in agentlab("status", str(results)).stdout
    run_id = re.findall(r"\b[0-9a-f]{20}\b", agentlab("trace", str(results), "zzz").stderr)[0]
    shown = agentlab("trace", str(results), run_id[:10]).stdout
    assert "system>" in shown
    assert "Run report (written by Python from the trace)" in shown
    assert '"run_start"' in agentlab("trace", str(results), run_id, "--events").stdout
    report = agentlab("report", str(results), "--lang", "zh")
    assert report.stdout.startswith("SIMULATED - not evidence about any model:")
    assert Path(report.stdout.splitlines()[-1]).exists()
    exported = agentlab("export", str(results)).stdout.split()
    assert [Path(path).name for path in exported] == ["runs.parquet", "steps.parquet", "calls.parquet"]
    from agentlab.analysis.frames import load_runs, load_steps

    assert load_runs(results / "parquet").equals(load_runs(results))
    assert load_steps(results / "parquet").equals(load_steps(results))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nothing.yaml"], ["nothing.yaml", "No such file"]),
        (["status", "nowhere"], ["There is no experiment in nowhere"]),
        (["try", "ORDER1001", "--suite", "ordres"], ["Unknown suite 'ordres'", "orders"]),
        (["try", "ORDER1001", "--strategy", "raect"], ["Did you mean 'react'", "tool_loop"]),
        (["try", "ORDER1001", "--model", "gpt-4o"], ["provider:name"]),
        (["try", "ORDER1001", "--model", "openai:gpt-4o"], ["LLM_API_KEY", "simulated:perfect"]),
        (["try", "ORDER1001", "--set", "max_rounds"], ["--set max_rounds has no value"]),
        (["try", "ORDER1001", "--set", "max=3"], ["Unknown parameter of tool_loop 'max'. Valid: max_rounds"]),
        (["list", "models2"], ["models"]),
        (["export", "x", "--to", "csv"], ["parquet"]),
        (["notebook", "nothing.ipynb", "--out", "x.ipynb"], ["There is no notebook"]),
    ],
)
def test_a_mistake_is_one_clear_message(arguments: list[str], words: list[str]) -> None:
    done = agentlab(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"status": 401, "body": {"error": {"message": "bad key"}}}, ["401", "LLM_API_KEY"]),
        ({"status": 404, "body": {"error": {"message": "no such model"}}}, ["404", "/v1/chat/completions"]),
        ({"status": 429, "body": {"error": {"message": "Quota used up", "code": "insufficient_quota"}}}, ["quota"]),
    ],
)
def test_a_wrong_endpoint_says_what_to_do_and_keeps_the_key(
    chat_server: ChatServer, response: dict[str, object], words: list[str]
) -> None:
    chat_server.script([response])
    key = "sk-secret-of-the-user-42"
    done = agentlab("try", "ORDER1001", "--model", "openai:m", LLM_BASE_URL=chat_server.base_url, LLM_API_KEY=key)
    assert done.returncode == 2
    for word in words:
        assert word.lower() in done.stderr.lower()
    assert key not in done.stdout + done.stderr
    for unwanted in ("ModelUnavailable", "QuotaExhausted", "experiment", ".."):
        assert unwanted not in done.stderr


BROKEN_SUITE = """
import dataclasses

from agentlab.environments import base


class Broken:
    version = "1"

    def reset(self, task, seed):
        raise LookupError("a bug of the suite")

    def facts(self):
        return {}

    def close(self):
        pass


def load_suite():
    return dataclasses.replace(base.load_suite("orders"), name="broken", make_environment=lambda settings: Broken())
"""


def test_a_run_that_ends_with_an_error_lets_try_exit_with_1(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "suite.py").write_text(BROKEN_SUITE)
    done = agentlab("try", "ORDER1001", "--suite", str(folder))
    assert "agentlab: LookupError: a bug of the suite (suite.py, line " in done.stderr
    assert done.returncode == 1


def test_a_run_in_which_nothing_ended_well_exits_with_1(chat_server: ChatServer, tmp_path: Path) -> None:
    spec = tmp_path / "small.yaml"
    spec.write_text(SPEC)
    chat_server.script([{"status": 401, "body": {"error": {"message": "bad key"}}}])
    done = agentlab(
        "run", str(spec), "--model", "openai:m", "--concurrency", "1", "--out", str(tmp_path / "out"),
        LLM_BASE_URL=chat_server.base_url, LLM_API_KEY="sk-secret-of-the-user-42",
    )  # fmt: skip
    assert done.returncode == 1
    assert "3 x No answer from openai:m" in done.stdout
    assert "Check the key in LLM_API_KEY." in done.stdout


def test_nothing_listening_and_no_such_host_say_so() -> None:
    refused = agentlab(
        "try", "ORDER1001", "--model", "openai:m", LLM_BASE_URL="http://127.0.0.1:9/v1", LLM_API_KEY="k-123456"
    )
    assert "127.0.0.1:9" in refused.stderr
    assert refused.returncode == 2


@pytest.mark.parametrize(
    ("kind", "words"), [("suites", "orders"), ("tasks", "order-1001"), ("strategies", "react"), ("models", "openai:")]
)
def test_list(kind: str, words: str) -> None:
    assert words in agentlab("list", kind).stdout


def test_help_of_every_command() -> None:
    shown = agentlab("--help").stdout
    for command in ("run", "status", "report", "trace", "try", "notebook", "list", "export"):
        assert command in shown
        assert agentlab(command, "--help").returncode == 0


def test_a_refused_run_leaves_nothing_behind(tmp_path: Path) -> None:
    spec = tmp_path / "e.yaml"
    spec.write_text(SPEC.replace("suites: [toy]", "suites: []"))
    refused = agentlab("run", str(spec), "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert "suites" in refused.stderr
    spec.write_text(SPEC.replace("suites: [toy]", "suites: [toys]"))
    assert agentlab("run", str(spec), "--out", str(tmp_path / "out")).returncode == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["try", "ORDER1002", "--strategy", "plan_execute", "--max-rounds", "3"],
            "--max-rounds does not apply to plan",
        ),
        (["try", "ORDER1002", "--max-rounds", "3", "--set", "max_rounds=2"], "either --max-rounds or --set"),
        (["try", "ORDER1002", "--suite", "sales"], "It is one of another suite: --suite orders"),
    ],
)
def test_a_contradiction_is_refused(arguments: list[str], words: str) -> None:
    done = agentlab(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
