from pathlib import Path
from typing import Any

import pytest

from agentlab.environments.base import load_suite
from agentlab.errors import TaskError
from agentlab.tasks import Task, load_tasks, resolve_references

TASK: dict[str, Any] = {
    "id": "t", "suite": "s", "environment": "e", "cluster": "c", "declared": {"steps": 1},
    "instruction": {"zh": "检查", "en": "check"},
    "criteria": [{"name": "ok", "subject": "O1", "description": {"zh": "好", "en": "good"}}],
    "checks": {"ok@O1": "passed"}, "reference": [{"id": "1", "tool": "look"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"criteria": [], "checks": {}}, "no criteria"),
        ({"checks": {"ok": "passed"}}, "must name exactly the criteria"),
        ({"checks": {"ok@O1": "good"}}, "not_evaluated"),
        ({"checks": {"ok@O1": "not_evaluated"}}, "required_evidence of why"),
        ({"members": {"other": ["O1"]}}, "unknown criteria"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_task_that_could_not_be_judged_is_refused_with_file_and_line(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    import json

    path = tmp_path / "tasks.jsonl"
    path.write_text("\n" + json.dumps(TASK | change, ensure_ascii=False), encoding="utf-8")
    with pytest.raises(TaskError, match=r"tasks\.jsonl, line 2") as caught:
        load_tasks(path)
    assert words in str(caught.value)


def test_an_id_twice_is_refused(tmp_path: Path) -> None:
    line = Task.model_validate(TASK).model_dump_json()
    (tmp_path / "t.jsonl").write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(TaskError, match="'t' is used twice"):
        load_tasks(tmp_path / "t.jsonl")


def test_every_bad_line_is_named_with_its_fields(tmp_path: Path) -> None:
    import json

    no_zh = json.dumps(TASK | {"instruction": {"en": "check"}})
    other = json.dumps(TASK | {"checks": {"ok@O1": "good"}, "clusster": "c"})
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(TASK)}\n{no_zh}\n{other}\n{{'id': 1}}\n", encoding="utf-8")
    with pytest.raises(TaskError) as caught:
        load_tasks(path)
    assert str(caught.value).replace(str(tmp_path), "").split("\n") == [
        "/tasks.jsonl, line 2: instruction.zh is missing (the Chinese text).",
        "/tasks.jsonl, line 3: checks.ok@O1: Input should be 'passed', 'failed' or 'not_evaluated', found 'good'.",
        "/tasks.jsonl, line 3: clusster is no known field. Did you mean 'cluster'?",
        "/tasks.jsonl, line 4: no valid JSON: key must be a string at column 2",
    ]


def test_a_missing_file_and_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    with pytest.raises(TaskError, match=r"tasks\.jsonl: No such file or directory\. Tasks stand here as JSON, one"):
        load_tasks(path)
    line = Task.model_validate(TASK).model_dump_json()
    path.write_text(line, encoding="utf-8-sig")
    assert [task.id for task in load_tasks(path)] == ["t"]
    path.write_bytes(b"\n" + line.encode("gbk"))
    with pytest.raises(TaskError, match="line 2: not UTF-8; save the file as UTF-8"):
        load_tasks(path)


def test_a_view_tells_nothing_true() -> None:
    for suite in ("orders", "toy"):
        for task in load_suite(suite).tasks:
            text = task.view("en").model_dump_json()
            assert set(task.view("en").model_dump()) == {"id", "instruction", "language", "criteria", "declared"}
            for secret in (f'"{task.id}"', *(defect.name for defect in task.defects)):
                assert secret not in text


def test_twins_look_the_same_and_any_change_is_another_version() -> None:
    by_cluster: dict[str, set[str]] = {}
    for task in load_suite("orders").tasks:
        by_cluster.setdefault(task.cluster, set()).add(task.view("zh").model_dump_json())
    assert all(len(views) == 1 for views in by_cluster.values())
    task = Task.model_validate(TASK)
    assert task.digest() != task.model_copy(update={"end_state": {"x": 1}}).digest()


def test_references_resolve_by_step_and_path() -> None:
    outputs = {"s1": {"items": [{"id": "A"}, {"id": "B"}]}, "s.2": [1, 2]}
    wanted = {"a": "steps.s1.output.items[1].id", "b": ["steps.s1.output"], "c": "steps are fine", "d": 5}
    assert resolve_references(wanted, outputs) == {"a": "B", "b": [outputs["s1"]], "c": "steps are fine", "d": 5}
    with pytest.raises(KeyError):
        resolve_references("steps.s9.output", outputs)
