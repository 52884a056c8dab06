"""`do_goal` and `resume` with the sales suite, killed for real in the middle of a mail: every mail goes out once."""

import asyncio
import email
import email.policy
import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentlab.environments.base import load_suite
from agentlab.errors import ConfigError
from agentlab.runner.do_goal import Done, do_goal
from agentlab.runner.resume_goal import resume

SUITE = str(Path(__file__).parent / "killed_sales")
_DRIVER = """
import json, sys
from agentlab.runner.blocking import run_blocking
from agentlab.runner.do_goal import do_goal
run_blocking(do_goal(**json.loads(sys.argv[1])))
"""


def _killed(folder: Path, goal: str, when: str, tool: str) -> None:
    """Carry out a goal in a process that kills itself in a tool."""
    (folder / f"kill-{when}").write_text(tool)
    settings = {"outbox": str(folder / "outbox")}
    arguments = {"goal": goal, "journal": str(folder / "journal.sqlite"), "suite": SUITE, "environment": settings}
    process = subprocess.run(
        [sys.executable, "-c", _DRIVER, json.dumps(arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == -9, process.stderr


def _resumed(folder: Path) -> Done:
    return asyncio.run(resume(folder / "journal.sqlite"))


def _sent(folder: Path) -> list[str]:
    files = (folder / "outbox").glob("*.eml")
    return sorted(str(email.message_from_bytes(f.read_bytes(), policy=email.policy.default)["To"]) for f in files)


@pytest.mark.parametrize(("when", "n_before"), [("before", 0), ("after", 1)])
def test_a_report_is_mailed_once_whenever_the_process_is_killed(tmp_path: Path, when: str, n_before: int) -> None:
    _killed(tmp_path, "top5-last-month", when, "send_email")
    assert len(_sent(tmp_path)) == n_before
    written = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "outbox").glob("*.eml")}
    done = _resumed(tmp_path)
    assert done.result is not None
    assert (done.result.end_reason, done.result.score.verdict, done.result.score.success) == ("answered", "passed", 1)
    assert done.result.facts["mails"] == 1
    assert (
        done.result.facts["report_top_ids"] == load_suite("sales").task("top5-last-month").end_state["report_top_ids"]
    )
    assert _sent(tmp_path) == ["operations@shop.example"]
    if when == "after":
        (file,) = (tmp_path / "outbox").glob("*.eml")
        assert {file.name: file.stat().st_mtime_ns} == written


@pytest.mark.parametrize(("when", "n_before"), [("before", 0), ("after", 1)])
def test_confirmations_are_mailed_once_each(tmp_path: Path, when: str, n_before: int) -> None:
    _killed(tmp_path, "fulfil-both-or-none", when, "send_confirmation")
    assert len(_sent(tmp_path)) == n_before
    done = _resumed(tmp_path)
    assert done.result is not None
    assert (done.result.score.verdict, done.result.score.success) == ("passed", 1)
    assert _sent(tmp_path) == ["orders@grove.example"] * 2


@pytest.mark.parametrize("tool", ["create_order", "deduct_stock"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_died_with_the_process_is_done_again(tmp_path: Path, when: str, tool: str) -> None:
    _killed(tmp_path, "fulfil-plain", when, tool)
    done = _resumed(tmp_path)
    assert done.result is not None
    assert (done.result.score.verdict, done.result.score.success) == ("passed", 1)
    assert len(_sent(tmp_path)) == 1


def test_the_outbox_of_another_journal_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    settings = {"outbox": str(tmp_path / "outbox")}

    def do(journal: str) -> Done:
        return asyncio.run(do_goal("top5-last-month", tmp_path / journal, environment=settings))

    first = do("first.sqlite").result
    assert first is not None
    assert first.score.success == 1
    with pytest.raises(ConfigError, match="belongs to another run"):
        do("second.sqlite")
    assert _sent(tmp_path) == ["operations@shop.example"]


def test_an_equal_mail_of_another_run_is_not_taken_for_this_runs(tmp_path: Path) -> None:
    _killed(tmp_path, "top5-last-month", "before", "send_email")
    other = {"outbox": str(tmp_path / "outbox")}
    result = asyncio.run(do_goal("top5-last-month", tmp_path / "other.sqlite", environment=other)).result
    assert result is not None
    assert result.score.success == 1
    with pytest.raises(ConfigError, match="belongs to another run"):
        _resumed(tmp_path)
    assert _sent(tmp_path) == ["operations@shop.example"]
