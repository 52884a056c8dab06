"""`agentlab do` and `agentlab resume`, killed for real at every boundary: no effect happens twice, none is lost."""

import asyncio
import importlib
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from agentlab.environments.base import SUITES
from agentlab.errors import ConfigError, StoreError
from agentlab.planning.journal import read_journal
from agentlab.runner import do_goal as do_goal_module
from agentlab.runner.do_goal import Done, do_goal
from agentlab.store import Store

HERE = Path(__file__).parent


def agentlab(folder: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(HERE / "effects.py"), *arguments],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False,
        env={**os.environ, "EFFECTS_FOLDER": str(folder), **environment},
    )  # fmt: skip


def do(
    folder: Path, goal: str = "order", policy: str = "default", approvals: str = "ask", **environment: str
) -> "subprocess.CompletedProcess[str]":
    journal = str(folder / "journal.sqlite")
    options = ["--policy", policy, "--approvals", approvals]
    return agentlab(folder, "do", goal, "--suite", "effects", "--journal", journal, *options, **environment)


def resume(folder: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return agentlab(folder, "resume", str(folder / "journal.sqlite"), *options, **environment)


def effects(folder: Path) -> Counter[str]:
    path = folder / "effects.log"
    return Counter(path.read_text().split() if path.exists() else [])


def statuses(folder: Path) -> dict[str, str]:
    store = Store(folder / "journal.sqlite")
    try:
        state = read_journal(store, str(store.read("runs")[-1]["run_id"])).state
    finally:
        store.close()
    assert state is not None
    return {step.id: state[step.id].status for step in state.graph.steps}


def test_a_goal_is_carried_out_and_shown_live(tmp_path: Path) -> None:
    done = do(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "step create running -> completed" in done.stdout
    assert "ended: answered   verdict passed   success 1" in done.stdout
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}
    again = resume(tmp_path)
    assert (again.returncode, again.stdout.strip()) == (0, "completed: it ended: answered")
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}
    second = do(tmp_path)
    assert second.returncode == 2
    assert "agentlab resume" in second.stderr


@pytest.mark.parametrize("boundary", ["recorded:look", "recorded:create", "recorded:pay", "recorded:check"])
def test_killed_after_the_record_continues_with_the_next_step(tmp_path: Path, boundary: str) -> None:
    assert do(tmp_path, KILL_AT=boundary).returncode == -9
    done = resume(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ended: answered   verdict passed   success 1" in done.stdout
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}


@pytest.mark.parametrize("boundary", ["started:create", "before:create", "before:pay", "after:create", "after:pay"])
def test_killed_around_an_effect_is_looked_up_where_the_environment_knows(tmp_path: Path, boundary: str) -> None:
    assert do(tmp_path, KILL_AT=boundary, ENVIRONMENT_KNOWS="1").returncode == -9
    done = resume(tmp_path, ENVIRONMENT_KNOWS="1")
    assert done.returncode == 0, done.stderr
    assert "verdict passed   success 1" in done.stdout
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}


@pytest.mark.parametrize(("boundary", "option"), [("before:pay", "--did-not-happen"), ("after:pay", "--happened")])
def test_killed_around_an_effect_that_nobody_knows_of_asks_and_waits_for_nothing(
    tmp_path: Path, boundary: str, option: str
) -> None:
    assert do(tmp_path, KILL_AT=boundary).returncode == -9
    before = effects(tmp_path)
    for _ in range(2):
        asked = resume(tmp_path)
        assert asked.returncode == 3
        assert "nobody knows whether these took effect: pay" in asked.stdout
        assert "--happened pay" in asked.stdout
    assert effects(tmp_path) == before
    assert statuses(tmp_path)["pay"] == "interrupted"
    done = resume(tmp_path, option, "pay")
    assert done.returncode == 0, done.stdout + done.stderr
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}
    assert set(statuses(tmp_path).values()) == {"completed"}


def test_killed_in_a_read_runs_the_read_again(tmp_path: Path) -> None:
    assert do(tmp_path, KILL_AT="started:look").returncode == -9
    store = Store(tmp_path / "journal.sqlite")
    assert read_journal(store, str(store.read("runs")[-1]["run_id"])).snapshot == {}
    store.close()
    assert "verdict passed   success 1" in resume(tmp_path).stdout
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}


def test_a_critical_failure_is_rolled_back_in_reverse_order(tmp_path: Path) -> None:
    done = do(tmp_path, "failing", "rollback_critical")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "effects.log").read_text().split() == ["look", "create", "pay", "refund", "uncreate"]
    assert statuses(tmp_path) == {"look": "completed", "create": "rolled_back", "pay": "rolled_back", "ship": "failed"}


@pytest.mark.parametrize(("boundary", "option"), [("undo-before", "--did-not-happen"), ("undo-after", "--happened")])
def test_killed_during_an_undo_that_must_not_be_repeated_asks_a_person(
    tmp_path: Path, boundary: str, option: str
) -> None:
    assert do(tmp_path, "failing", "rollback_critical", KILL_AT=boundary).returncode == -9
    before = effects(tmp_path)
    asked = resume(tmp_path)
    assert asked.returncode == 3
    assert "--happened pay" in asked.stdout
    assert effects(tmp_path) == before
    assert statuses(tmp_path)["ship"] == "failed"
    assert resume(tmp_path, option, "pay").returncode == 0
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1, "refund": 1, "uncreate": 1}
    assert statuses(tmp_path) == {"look": "completed", "create": "rolled_back", "pay": "rolled_back", "ship": "failed"}


@pytest.mark.parametrize("boundary", ["uncreate-before", "uncreate-after"])
def test_killed_during_an_undo_that_is_idempotent_undoes_again(tmp_path: Path, boundary: str) -> None:
    assert do(tmp_path, "failing", "rollback_critical", KILL_AT=boundary).returncode == -9
    assert resume(tmp_path).returncode == 0
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1, "refund": 1, "uncreate": 1}
    assert statuses(tmp_path) == {"look": "completed", "create": "rolled_back", "pay": "rolled_back", "ship": "failed"}


def test_killed_between_two_undos_never_undoes_twice(tmp_path: Path) -> None:
    assert do(tmp_path, "failing", "rollback_critical", KILL_AT="recorded:pay-undo").returncode == 0
    assert effects(tmp_path)["refund"] == effects(tmp_path)["uncreate"] == 1


def test_killed_before_there_is_a_plan_starts_anew(tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    code = (
        "import os, sys; sys.argv = ['x']; sys.path.insert(0, sys.argv[0]); import effects\n"
        "from agentlab.environments import base; base.SUITES['effects'] = 'effects:load_suite'\n"
        "from agentlab.strategies import plan_execute\n"
        "async def die(self): os.kill(os.getpid(), 9)\n"
        "plan_execute.PlanExecute.solve = lambda self, session: die(self)\n"
        "from agentlab.runner.blocking import run_blocking\nfrom agentlab.runner.do_goal import do_goal\n"
        f"run_blocking(do_goal('order', {str(journal)!r}, suite='effects'))"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(HERE), "EFFECTS_FOLDER": str(tmp_path)},
        check=False,
    )
    assert killed.returncode == -9
    assert "verdict passed   success 1" in resume(tmp_path).stdout
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}


# Approvals


def test_without_a_person_a_step_waits_for_its_approval_and_the_rest_goes_on(tmp_path: Path) -> None:
    asked = do(tmp_path, "asking")
    assert asked.returncode == 3, asked.stderr
    assert "an approval is needed: send" in asked.stdout
    assert "--approve send" in asked.stdout
    assert statuses(tmp_path) == {
        "look": "completed", "create": "completed", "send": "awaiting_approval", "check": "completed",
    }  # fmt: skip
    assert resume(tmp_path).returncode == 3
    assert effects(tmp_path) == {"look": 1, "create": 1}
    done = resume(tmp_path, "--approve", "send")
    assert done.returncode == 0, done.stderr
    assert "verdict passed   success 1" in done.stdout
    assert effects(tmp_path) == {"look": 1, "create": 1, "send": 1}
    assert "completed: it ended: answered" in resume(tmp_path, "--approve", "send").stdout
    assert effects(tmp_path)["send"] == 1


def test_a_refused_step_fails_and_is_not_made(tmp_path: Path) -> None:
    assert do(tmp_path, "asking").returncode == 3
    done = resume(tmp_path, "--refuse", "send")
    assert done.returncode == 0, done.stderr
    assert "not_approved" in done.stdout
    assert statuses(tmp_path)["send"] == "failed"
    assert effects(tmp_path) == {"look": 1, "create": 1}


@pytest.mark.parametrize(("answer", "n_sent"), [("allow", 1), ("deny", 0)])
def test_approvals_may_be_settled_beforehand(tmp_path: Path, answer: str, n_sent: int) -> None:
    done = do(tmp_path, "asking", "default", approvals=answer)
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path)["send"] == n_sent


def test_an_approval_is_used_up_by_the_call_it_was_for(tmp_path: Path) -> None:
    assert do(tmp_path, "asking").returncode == 3
    assert resume(tmp_path, "--approve", "send", KILL_AT="before:send").returncode == -9
    asked = resume(tmp_path, "--did-not-happen", "send")
    assert asked.returncode == 3, "the approval was for the call that was cut short"
    assert effects(tmp_path)["send"] == 0
    assert resume(tmp_path, "--approve", "send").returncode == 0
    assert effects(tmp_path)["send"] == 1


def test_an_approval_that_was_not_used_holds_after_a_kill(tmp_path: Path) -> None:
    assert do(tmp_path, "asking").returncode == 3
    assert resume(tmp_path, "--approve", "send", KILL_AT="approved:send").returncode == -9
    assert statuses(tmp_path)["send"] == "pending"
    assert resume(tmp_path).returncode == 0
    assert effects(tmp_path)["send"] == 1


# Map steps that were cut short


def test_a_map_step_that_was_cut_short_does_the_rest_where_the_environment_knows(tmp_path: Path) -> None:
    assert do(tmp_path, "mapped", KILL_AT="after:pay-B", ENVIRONMENT_KNOWS="1").returncode == -9
    assert effects(tmp_path) == {"look": 1, "pay": 1, "pay-B": 1}
    done = resume(tmp_path, ENVIRONMENT_KNOWS="1")
    assert done.returncode == 0, done.stderr
    assert "verdict passed   success 1" in done.stdout
    assert effects(tmp_path) == {"look": 1, "pay": 1, "pay-B": 1, "pay-C": 1}


@pytest.mark.parametrize(("option", "n_paid"), [("--happened", 0), ("--did-not-happen", 1)])
def test_a_map_step_that_was_cut_short_is_settled_by_a_person(tmp_path: Path, option: str, n_paid: int) -> None:
    assert do(tmp_path, "mapped", KILL_AT="before:pay").returncode == -9
    asked = resume(tmp_path)
    assert asked.returncode == 3
    assert "--happened all" in asked.stdout
    done = resume(tmp_path, option, "all")
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path) == Counter({"look": 1, "pay": n_paid, "pay-B": n_paid, "pay-C": n_paid})
    assert statuses(tmp_path)["all"] == "completed"


# A plan that stops for a person


def test_a_plan_that_stopped_for_a_person_goes_on_or_ends_as_the_person_says(tmp_path: Path) -> None:
    asked = do(tmp_path, "escalating")
    assert asked.returncode == 3, asked.stderr
    assert "--restart test   (or --end test)" in asked.stdout
    assert resume(tmp_path).returncode == 3
    assert effects(tmp_path) == {"look": 1, "test": 1}
    done = resume(tmp_path, "--restart", "test")
    assert done.returncode == 0, done.stderr
    assert "plan completed   ended: answered   verdict passed   success 1" in done.stdout
    assert effects(tmp_path) == {"look": 1, "test": 2, "pay": 1}


def test_a_plan_that_stopped_for_a_person_may_be_left_at_that(tmp_path: Path) -> None:
    assert do(tmp_path, "escalating").returncode == 3
    done = resume(tmp_path, "--end", "test")
    assert done.returncode == 0, done.stderr
    assert "plan failed   ended: answered" in done.stdout
    assert effects(tmp_path) == {"look": 1, "test": 1}
    assert resume(tmp_path).stdout.strip() == "failed: it ended: answered"


# What cannot work


@pytest.mark.parametrize(
    ("goal", "options", "words"),
    [
        ("order", ["--policy", "nosuch"], "Unknown failure policy 'nosuch'"),
        ("order", ["--model", "nosuch:x"], "nosuch"),
        ("order", ["--lang", "fr"], "Unknown language 'fr'. Valid: en, zh"),
        ("order", ["--approvals", "maybe"], "Valid: allow, ask, deny"),
        ("order", ["--environment", "colour"], "--environment colour has no value"),
        ("order", ["--set", "max_replans"], "--set max_replans has no value"),
        ("order", ["--set", "max_replan=1"], "parameter of plan_execute 'max_replan'. Did you mean 'max_replans'"),
        ("order", ["--set", "on_surprise=no"], "Unknown on_surprise 'no'"),
        ("order", ["--set", 'policy={"rules": 1}'], "policy"),
        (" ", [], "The goal is empty"),
        ("Do something about it.", [], "free text"),
    ],
)
def test_a_mistake_begins_no_journal(tmp_path: Path, goal: str, options: list[str], words: str) -> None:
    journal = tmp_path / "journal.sqlite"
    refused = agentlab(tmp_path, "do", goal, "--suite", "effects", "--journal", str(journal), *options)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not journal.exists()


def test_a_step_that_the_plan_does_not_have_is_refused(tmp_path: Path) -> None:
    assert do(tmp_path, "asking").returncode == 3
    refused = resume(tmp_path, "--approve", "sent")
    assert refused.returncode == 2
    assert "Unknown step of the plan 'sent'" in refused.stderr
    assert "send" in refused.stderr


def test_what_is_no_journal_is_refused_in_words(tmp_path: Path) -> None:
    missing = resume(tmp_path)
    assert missing.returncode == 2
    assert "There is no journal" in missing.stderr
    (tmp_path / "e.yaml").write_text("name: e\nsuites: [toy]\nstrategies: [tool_loop]\nmodels: ['simulated:perfect']\n")
    results = tmp_path / "results"
    agentlab(tmp_path, "run", str(tmp_path / "e.yaml"), "--out", str(results), "--quiet")
    refused = agentlab(tmp_path, "resume", str(results))
    assert (refused.returncode, "holds no goal" in refused.stderr) == (2, True), refused.stderr
    text = tmp_path / "notes.txt"
    text.write_text("mine")
    refused = agentlab(tmp_path, "do", "order", "--suite", "effects", "--journal", str(text))
    assert (refused.returncode, "is a file, but no store" in refused.stderr) == (2, True), refused.stderr
    assert do(tmp_path).returncode == 0
    refused = agentlab(tmp_path, "report", str(tmp_path / "journal.sqlite"))
    assert (refused.returncode, "is the journal of a goal" in refused.stderr) == (2, True), refused.stderr


# Other processes


@pytest.fixture
def effects_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite of `effects.py` in this process."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setitem(SUITES, "effects", "effects:load_suite")
    monkeypatch.setattr(importlib.import_module("effects"), "FOLDER", tmp_path)


@pytest.mark.usefixtures("effects_suite")
def test_of_two_that_begin_one_journal_at_the_same_moment_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, together = tmp_path / "journal.sqlite", Store.together
    results: list[Done] = []

    def late(self: Store) -> AbstractContextManager[None]:
        """Right before the first one plans, another one comes and goes all the way."""
        monkeypatch.setattr(Store, "together", together)
        other = threading.Thread(target=lambda: results.append(asyncio.run(do_goal("order", path, suite="effects"))))
        other.start()
        other.join()
        return together(self)

    monkeypatch.setattr(Store, "together", late)
    with pytest.raises(ConfigError, match=r"holds a run already\. Continue it with `agentlab resume"):
        asyncio.run(do_goal("failing", path, suite="effects"))
    assert [done.plan_status for done in results] == ["completed"]
    assert effects(tmp_path) == {"look": 1, "create": 1, "pay": 1}
    store = Store(path)
    assert [row["task_id"] for row in store.read("runs")] == ["order"]
    assert store.experiment()["definition"]["goal"] == "order"
    store.close()


@pytest.mark.usefixtures("effects_suite")
def test_a_goal_sends_heartbeats_also_after_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    run_one = do_goal_module.run_one

    def heartbeat(self: Store) -> None:
        threads.append(threading.get_ident())
        raise StoreError("away for a moment")

    async def slow(*arguments: Any, **options: Any) -> Any:
        deadline = time.monotonic() + 10
        while len(threads) < 3 and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        return await run_one(*arguments, **options)

    monkeypatch.setattr(do_goal_module, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(do_goal_module, "run_one", slow)
    monkeypatch.setattr(Store, "heartbeat", heartbeat)
    assert asyncio.run(do_goal("order", tmp_path / "journal.sqlite", suite="effects")).plan_status == "completed"
    assert len(threads) >= 3
    assert set(threads) == {threading.get_ident()}
