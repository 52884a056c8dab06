import datetime
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from agentlab import store as store_module
from agentlab.errors import ConfigError, CorruptRecord, StoreError, WrongExperiment
from agentlab.records import Event
from agentlab.store import Store, meta, runs
from agentlab.store_connection import read_only_url
from agentlab.trace import pack


def a_row(run_id: str, **fields: Any) -> dict[str, Any]:
    return {"run_id": run_id, "experiment": "e", "strategy": "s", "seed": 2**31, "planned_order": 0, **fields}


def finish(
    store: Store, run_id: str, attempt: int, end_reason: str = "answered", events: list[Event] | None = None
) -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    row = {"end_reason": end_reason, "success": 1, "started_at": now, "cost_usd": None}
    step = {"step": 0, "tool": "查询", "executed": True, "arguments": "{}"}
    store.finish(run_id, attempt, row, [step], [{"call": 0, "actor": "agent", "input_tokens": 5}], pack(events or []))


@pytest.fixture
def store(tmp_path: Path) -> Any:
    made = Store(tmp_path, create=True)
    yield made
    made.close()


def test_a_run_is_planned_claimed_finished_and_read_back(store: Store) -> None:
    assert store.plan([a_row("r1"), a_row("r2")]) == 2
    assert store.plan([a_row("r1"), a_row("r2"), a_row("r3")]) == 1
    assert store.claim("r1") == 0
    assert store.claim("r1") is None
    event = Event("r1", 0, 0.5, "note", "agent", {"text": "中文 \u2028 \x00 🦊"})
    finish(store, "r1", 0, events=[event])
    assert store.claim("r1") is None
    row = next(row for row in store.read("runs") if row["run_id"] == "r1")
    assert (row["state"], row["success"], row["cost_usd"], row["seed"]) == ("finished", 1, None, 2**31)
    assert row["started_at"].microsecond == 678901
    assert store.read("steps")[0]["tool"] == "查询"
    assert store.trace("r1") == [event]
    assert {row["state"] for row in store.read("runs")} == {"finished", "planned"}


@pytest.mark.parametrize(
    ("end_reason", "again"),
    [("infrastructure", 1), ("cancelled", 1), ("answered", None), ("budget_work_s", None), ("error", None)],
)
def test_only_what_says_nothing_about_the_agent_is_run_again(store: Store, end_reason: str, again: int | None) -> None:
    store.plan([a_row("r")])
    store.claim("r")
    finish(store, "r", 0, end_reason)
    assert store.claim("r") == again


def test_an_error_of_ours_is_run_again_on_request(store: Store) -> None:
    store.plan([a_row("r", strategy_name="react")])
    store.claim("r")
    finish(store, "r", 0, "error")
    assert store.claim("r", retry_errors=True) == 1
    assert [row["strategy_name"] for row in store.read("runs")] == ["react", "react"]


def test_a_running_row_of_a_dead_process_is_interrupted_and_claimed(store: Store, tmp_path: Path) -> None:
    store.plan([a_row("r")])
    code = "import os, sys; from agentlab.store import Store; Store(sys.argv[1]).claim('r'); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    assert store.claim("r") == 1
    assert [(row["attempt"], row["state"]) for row in store.read("runs")] == [(0, "interrupted"), (1, "running")]
    assert store.read("runs")[0]["known_tokens"] is None


def test_a_running_row_of_a_live_process_is_left_alone(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    store.plan([a_row("r")])
    assert other.claim("r") == 0
    assert store.claim("r") is None
    assert store.interrupt_dead() == 0
    other.close()
    assert store.interrupt_dead() == 1


def test_another_machine_is_judged_by_its_heartbeat(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.plan([a_row("r")])
    store.claim("r")
    with store._engine.begin() as connection:
        connection.execute(sa.update(runs).values(owner="elsewhere:1:1:abc"))
    assert store.claim("r") is None
    later = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + datetime.timedelta(seconds=120)
    monkeypatch.setattr(store_module, "_now", lambda: later)
    assert store.claim("r") == 1


def test_a_folder_belongs_to_one_experiment(store: Store) -> None:
    store.claim_folder("night", 7, {"name": "night"})
    store.claim_folder("night", 7, {"name": "night", "repeats": 5})
    assert store.experiment() == {"experiment": "night", "seed": 7, "definition": {"name": "night", "repeats": 5}}
    for name, seed in (("day", 7), ("night", 8)):
        with pytest.raises(WrongExperiment, match=r"'night' with seed 7.*--out"):
            store.claim_folder(name, seed, {})


@pytest.mark.parametrize(("version", "words"), [("99", "newer agentlab"), ("0", "agentlab that wrote it")])
def test_another_schema_is_refused_and_nothing_is_changed(
    store: Store, tmp_path: Path, version: str, words: str
) -> None:
    with store._engine.begin() as connection:
        connection.execute(sa.update(meta).where(meta.c.name == "schema_version").values(value=version))
    before = (tmp_path / "agentlab.sqlite").read_bytes()
    with pytest.raises(WrongExperiment, match=words):
        Store(tmp_path)
    with pytest.raises(WrongExperiment, match="agentlab export"):
        Store(tmp_path, create=True)
    assert (tmp_path / "agentlab.sqlite").read_bytes() == before


def test_what_is_no_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no experiment"):
        Store(tmp_path / "nothing")
    (tmp_path / "notes").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="notes is a file, but no store"):
        Store(tmp_path / "notes")
    (tmp_path / "agentlab.sqlite").write_bytes(b"not a database, far from it" * 100)
    with pytest.raises(CorruptRecord, match="is no agentlab store"):
        Store(tmp_path)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("create table t (x)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(CorruptRecord):
        Store(other)
    assert other.read_bytes() == before


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    store.plan([a_row("abc1"), a_row("abd2"), a_row("xyz")])
    for run_id in ("abc1", "abd2"):
        store.claim(run_id)
        finish(store, run_id, 0)
    assert store.trace("abc") == []
    with pytest.raises(ConfigError, match="Several runs begin with 'ab'"):
        store.trace("ab")
    with pytest.raises(ConfigError, match="Unknown run 'q'"):
        store.trace("q")
    with pytest.raises(ConfigError, match="not finished"):
        store.trace("xyz")


def test_no_secret_reaches_the_store(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-planted-secret")
    store.plan([a_row("r")])
    store.claim("r")
    finish(store, "r", 0, events=[Event("r", 0, 0.0, "note", "agent", {"text": "key sk-planted-secret"})])
    assert store.trace("r")[0].data == {"text": "key ***"}
    store.claim_folder("e", 0, {"environment": {"token": "sk-planted-secret"}})
    store.close()
    assert all(b"sk-planted-secret" not in path.read_bytes() for path in tmp_path.iterdir())


def _write_many(folder: str, prefix: str, count: int) -> None:
    """Runs in a process of its own: plan, claim and finish `count` runs with four threads."""
    own = Store(folder, create=True)
    ids = [f"{prefix}{i}" for i in range(count)]
    own.plan([a_row(run_id) for run_id in ids])

    def work(part: list[str]) -> None:
        for run_id in part:
            attempt = own.claim(run_id)
            if attempt is not None:
                finish(own, run_id, attempt)

    threads = [threading.Thread(target=work, args=(ids[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own.close()


WRITER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_store
test_store._write_many(sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


@pytest.mark.parametrize(("prefixes", "expected"), [(("a", "b"), 400), (("a", "a"), 200)])
def test_e10_two_processes_on_a_database_that_does_not_exist_yet(
    tmp_path: Path, prefixes: tuple[str, str], expected: int
) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), prefix, "200"], stderr=subprocess.PIPE)
        for prefix in prefixes
    ]
    errors = [process.communicate(timeout=100)[1].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    reader = Store(tmp_path)
    rows = reader.read("runs")
    reader.close()
    assert len(rows) == len({row["run_id"] for row in rows}) == expected
    assert {row["state"] for row in rows} == {"finished"}


def test_the_store_survives_a_kill_in_the_middle_of_writing(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), "k", "100000"])
    try:
        while not _finished(tmp_path):
            assert process.poll() is None
    finally:
        os.kill(process.pid, 9)
        process.wait()
    reader = Store(tmp_path)
    done = {row["run_id"] for row in reader.read("runs") if row["state"] == "finished"}
    for table in ("steps", "calls"):
        assert {row["run_id"] for row in reader.read(table)} == done
    reader.close()


def _finished(folder: Path) -> bool:
    try:
        reader = Store(folder)
    except ConfigError:
        return False
    try:
        return sum(row["state"] == "finished" for row in reader.read("runs")) > 20
    finally:
        reader.close()


def test_a_reader_waits_for_the_tables_that_another_process_is_creating(tmp_path: Path) -> None:
    file = tmp_path / "agentlab.sqlite"
    file.touch()
    creation = threading.Timer(0.3, lambda: Store(tmp_path, create=True).close())
    creation.start()
    reader = Store(tmp_path)
    assert reader.read("runs") == []
    reader.close()
    creation.join()


def test_an_empty_file_is_no_store_and_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_CREATION_S", 0.1)
    file = tmp_path / "agentlab.sqlite"
    file.touch()
    with pytest.raises(CorruptRecord, match="is no agentlab store"):
        Store(tmp_path)
    assert file.read_bytes() == b""


def test_a_store_is_created_although_somebody_is_just_writing_to_the_new_file(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "agentlab.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("create table t (x)")
    end = threading.Timer(0.3, other.rollback)
    end.start()
    made = Store(tmp_path, create=True)
    end.join()
    assert made.counts() == {"planned": 0, "running": 0, "finished": 0, "interrupted": 0}
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    made.close()
    other.close()


def test_counts_tell_the_dead_from_the_running(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    store.plan([a_row(name) for name in "abcd"])
    store.claim("a")
    finish(store, "a", 0)
    other.claim("b")
    store.claim("c")
    assert store.counts() == {"planned": 1, "running": 2, "finished": 1, "interrupted": 0}
    other.close()
    assert store.counts() == {"planned": 1, "running": 1, "finished": 1, "interrupted": 1}
    assert {row["state"] for row in store.read("runs")} == {"planned", "running", "finished"}


def test_a_stored_trace_is_a_table_in_a_notebook(store: Store) -> None:
    store.plan([a_row("r1")])
    assert store.claim("r1") == 0
    call = {"tool": "look", "arguments": {"a": "<b>"}, "observation": '{"success": true}'}
    reply = {"text": "I look.", "tool_calls": [{"name": "look", "arguments": {"a": 1}}]}
    events = [
        Event("r1", 0, 0.0, "model_call", "agent", reply),
        Event("r1", 1, 0.5, "tool_call", "agent", call),
        Event("r1", 2, 1.0, "run_end", "session", {"end_reason": "answered"}),
    ]
    finish(store, "r1", 0, events=events)
    shown = store.trace("r1")
    assert list(shown) == events
    html = shown._repr_html_()
    assert "run r1: 3 events, 1.000 s" in html
    assert "I look. look({&quot;a&quot;: 1})" in html
    assert "look({&quot;a&quot;: &quot;&lt;b&gt;&quot;}) -&gt; {&quot;success&quot;: true}" in html


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"file/deeper cannot be written: .* Name another place"):
        Store(tmp_path / "file" / "deeper", create=True)


def test_a_store_that_may_only_be_read_is_read(store: Store, tmp_path: Path) -> None:
    store.plan([a_row("r1")])
    log = tmp_path / "agentlab.sqlite-wal"
    assert log.stat().st_size  # what is there alone would be missed by an immutable reader
    assert "immutable" not in read_only_url(tmp_path / "agentlab.sqlite")
    store.close()
    before = sorted(path.name for path in tmp_path.iterdir())
    reader = Store(read_only_url(tmp_path / "agentlab.sqlite"))
    assert "immutable" in reader.url
    assert reader.counts()["planned"] == 1
    with pytest.raises(StoreError, match="readonly"):
        reader.plan([a_row("r2")])
    reader.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_full_disk_is_told_with_what_is_kept_and_how_to_go_on(store: Store) -> None:
    store.plan([a_row("r1")])

    @sa.event.listens_for(store._engine, "begin")
    def _full(connection: sa.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")

    with pytest.raises(StoreError) as caught:
        store.plan([a_row(f"r{number}", strategy="s" * 5000) for number in range(2, 100)])
    words = "The runs that are finished are kept. Free some space, then give the same command again"
    assert words in str(caught.value)
    assert len(store.read("runs")) == 1


def test_a_store_interrupts_what_it_has_running_itself_and_nothing_else(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path)
    store.plan([a_row(name) for name in "abcde"])
    for name in "abc":
        store.claim(name)
    finish(store, "a", 0)
    other.claim("d")
    assert store.interrupt_own() == 2
    assert store.interrupt_own() == 0
    states = {row["run_id"]: row["state"] for row in store.read("runs")}
    assert states == {"a": "finished", "b": "interrupted", "c": "interrupted", "d": "running", "e": "planned"}
    assert store.claim("b") == 1
    other.close()


def test_a_store_is_unused_until_a_run_is_planned(store: Store) -> None:
    assert store.is_unused()
    with store.together():
        assert store.is_unused()
        store.plan([a_row("r")])
        assert not store.is_unused()
    assert not store.is_unused()


def test_an_attempt_that_another_process_adds_while_a_claim_waits_for_the_lock_is_seen(store: Store) -> None:
    """PostgreSQL gives who waited the row of before; SQLite cannot wait here, so the attempt is put in by hand."""
    store.plan([a_row("r")])
    store.claim("r")
    finish(store, "r", 0, "infrastructure")
    looks: list[str] = []

    @sa.event.listens_for(store._engine, "after_cursor_execute")
    def _add(connection: sa.Connection, _cursor: Any, statement: str, *_more: Any) -> None:
        if "ORDER BY runs.attempt DESC" in statement:
            looks.append(statement)
            if len(looks) == 1:
                new = a_row("r", attempt=1, state="running", owner=store._owner, heartbeat_at=store_module._now())
                connection.execute(sa.insert(runs).values(new))

    assert store.claim("r") is None
    assert [(row["attempt"], row["state"]) for row in store.read("runs")] == [(0, "finished"), (1, "running")]


def test_a_column_that_does_not_exist_is_refused_and_nothing_is_written(store: Store) -> None:
    with pytest.raises(KeyError, match="runs has no column colour, taste"):
        store.plan([a_row("r", taste="sweet", colour="red")])
    assert store.read("runs") == []
    store.plan([a_row("r")])
    store.claim("r")
    with pytest.raises(KeyError, match="steps has no column colour"):
        store.finish("r", 0, {"end_reason": "answered"}, [{"step": 0, "colour": "red"}], [], pack([]))
    assert [row["state"] for row in store.read("runs")] == ["running"]
