"""An effect happens at most once and is undone at most once: after kills, restarts, rescues, and in parallel."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentlab.environments.base import SUITES
from agentlab.models.scripted import ScriptedModel
from agentlab.runner import do_goal as do_goal_module
from agentlab.runner.do_goal import Done, do_goal
from agentlab.runner.person import Person
from agentlab.runner.resume_goal import resume

SCRIPT = Path(__file__).parent / "more_effects.py"


def agentlab(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
        env={**os.environ, "EFFECTS_FOLDER": str(folder), **environment},
    )  # fmt: skip


def do(folder: Path, goal: str, policy: str = "default", **environment: str) -> int:
    journal = str(folder / "journal.sqlite")
    return agentlab(
        folder, "do", goal, "--suite", "more", "--journal", journal, "--policy", policy, **environment
    ).returncode


def again(folder: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return agentlab(folder, "resume", str(folder / "journal.sqlite"), *options, **environment)


def effects(folder: Path) -> list[str]:
    path = folder / "effects.log"
    return path.read_text().split() if path.exists() else []


def test_a_restart_after_an_escalation_repeats_no_entry_that_was_made(tmp_path: Path) -> None:
    assert do(tmp_path, "partial") == 3
    (tmp_path / "stock").touch()
    done = again(tmp_path, "--restart", "all")
    assert done.returncode == 0, done.stderr
    assert "plan completed" in done.stdout
    assert effects(tmp_path) == ["pay-A", "pay-B"]


def test_a_restart_repeats_no_effect_whose_check_did_not_pass(tmp_path: Path) -> None:
    assert do(tmp_path, "paycheck") == 3
    assert again(tmp_path, "--restart", "pc").returncode == 3
    assert effects(tmp_path) == ["pay"]


def test_entries_made_before_a_retry_are_known_after_a_kill(tmp_path: Path) -> None:
    assert do(tmp_path, "partretry", KILL_AT="slow:2") == -9
    done = again(tmp_path)
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path) == ["pay-A", "try-B", "try-B", "pay-B"]


def test_a_step_that_was_waiting_for_a_retry_is_tried_again_after_a_kill(tmp_path: Path) -> None:
    assert do(tmp_path, "flaky", KILL_AT="wait:flaky") == -9
    done = again(tmp_path)
    assert (done.returncode, "plan completed" in done.stdout) == (0, True), done.stderr
    assert effects(tmp_path) == ["flaky", "flaky"]


def test_what_the_environment_knew_is_known_after_another_kill(tmp_path: Path) -> None:
    assert do(tmp_path, "mapped", KILL_AT="after:pay-B", ENVIRONMENT_KNOWS="1") == -9
    (tmp_path / "killed").unlink()
    assert again(tmp_path, KILL_AT="rerun:all", ENVIRONMENT_KNOWS="1").returncode == -9
    done = again(tmp_path, ENVIRONMENT_KNOWS="1")
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path) == ["pay-B", "pay-C"]


def test_a_resume_goes_on_although_a_completed_step_refers_to_one_that_was_undone(tmp_path: Path) -> None:
    assert do(tmp_path, "rolled", "rollback_critical", KILL_AT="slow:0") == -9
    done = again(tmp_path)
    assert (done.returncode, "plan partial" in done.stdout) == (0, True), done.stdout + done.stderr
    assert effects(tmp_path) == ["create", "uncreate"]


@pytest.mark.parametrize(
    ("boundary", "answer", "after"),
    [
        # B is undone after C. Cut short in the first undo: the other one is still to be made in either case.
        ("undo-before-C", "--did-not-happen", ["refund-C", "refund-B"]),
        ("undo-before-C", "--happened", ["refund-B"]),
        ("undo-before-B", "--did-not-happen", ["refund-C", "refund-B"]),
        ("undo-before-B", "--happened", ["refund-C"]),
    ],
)
def test_an_undo_of_several_entries_goes_on_where_it_was_cut_short(
    tmp_path: Path, boundary: str, answer: str, after: list[str]
) -> None:
    assert do(tmp_path, "mapfail", "rollback_critical", KILL_AT=boundary) == -9
    assert again(tmp_path).returncode == 3
    done = again(tmp_path, answer, "all")
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path) == ["pay-B", "pay-C", *after]


# In this process, with a model that says what the test wants


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for effects of this process."""
    import effects as effects_module
    import more_effects

    monkeypatch.setattr(effects_module, "FOLDER", tmp_path)
    monkeypatch.setattr(more_effects, "FOLDER", tmp_path)
    monkeypatch.setitem(SUITES, "more", "more_effects:load_more")
    return tmp_path


def carry_out(folder: Path, monkeypatch: pytest.MonkeyPatch, replies: list[Any], **parameters: Any) -> Done:
    use(monkeypatch, replies)
    journal = folder / "journal.sqlite"
    return asyncio.run(do_goal("flaky", journal, suite="more", approvals="allow", parameters=parameters))


def use(monkeypatch: pytest.MonkeyPatch, replies: list[Any]) -> None:
    monkeypatch.setattr(do_goal_module, "build_model", lambda name: ScriptedModel(replies))


def a_plan(name: str) -> str:
    from more_effects import PLANS

    return json.dumps({"steps": PLANS[name]})


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("plan", ["twice", "twosteps"])
def test_an_equal_call_is_made_once_and_undone_once(
    here: Path, monkeypatch: pytest.MonkeyPatch, plan: str, parallelism: int
) -> None:
    carry_out(here, monkeypatch, [a_plan(plan)], parallelism=parallelism)
    assert effects(here) == ["pay-A", "refund-A"]


def test_what_a_rescue_did_is_what_is_undone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = 'Thought: use the other\nAction: pay_once\nAction Input: {"name": "OPEN"}'
    ends = ["Thought: done\nFinal Answer: paid"] * 4
    carry_out(here, monkeypatch, [a_plan("closed"), call, *ends], on_surprise="react")
    assert effects(here) == ["pay-OPEN", "refund-OPEN"]


def test_an_approval_is_taken_up_only_for_the_arguments_it_was_given_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentlab.planning.journal import Journal

    use(monkeypatch, [a_plan("asking")])
    write = Journal.changes

    def stop_after_w(self: Journal, made: Any) -> None:
        write(self, made)
        if any(change.step == "w" and change.after == "completed" for change in made):
            raise KeyboardInterrupt

    def approve(step: str | None, tool: Any, arguments: Any) -> bool | None:
        asked.append(arguments)
        return True if len(asked) == 1 else None

    asked: list[Any] = []
    person = Person(approve=approve)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "changes", stop_after_w)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(do_goal("flaky", here / "j.sqlite", suite="more", approvals="ask", person=person))
    done = asyncio.run(resume(here / "j.sqlite", person=person))
    assert done.recovery is not None
    assert done.recovery.approvals == ("p",)
    assert asked == [{"table": "tmp"}, {"table": "tmp", "where": "EVERYTHING"}]
    assert effects(here) == []


def test_calls_of_a_worker_are_known_after_a_stop(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        {"id": "g", "description": "create the order and check it", "kind": "goal"},
        {"id": "s", "description": "d", "tool": "ship", "arguments": {}, "depends_on": ["g"], "on_error": "replan"},
    ]

    def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"tool_calls": [{"name": tool, "arguments": arguments}]}

    first = [json.dumps({"steps": steps}), call("create", {"name": "A"}), call("check", {}), "created"]
    from agentlab.errors import ModelUnavailable

    stopped = carry_out(here, monkeypatch, [*first, ModelUnavailable("down")], max_replans=1)
    assert stopped.result is not None
    assert stopped.result.end_reason == "infrastructure"
    new = {"id": "c", "description": "d", "tool": "create", "arguments": {"name": "A"}, "depends_on": ["g"]}
    use(monkeypatch, [json.dumps({"steps": [new]})])
    done = asyncio.run(resume(here / "journal.sqlite"))
    assert done.result is not None
    assert done.result.answer is not None
    assert [(f.criterion, f.status) for f in done.result.answer.findings] == [("paid", "passed")]
    assert effects(here) == ["create"]
