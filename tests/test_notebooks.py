import datetime
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from agentlab.errors import ConfigError
from agentlab.notebooks import NotebookFailed, execute_notebook, parameter_names, parse_parameters

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def a_notebook(path: Path, *cells: tuple[str, list[str]]) -> Path:
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(source, metadata={"tags": tags}) for source, tags in cells]
    path.write_text(nbformat.writes(made), encoding="utf-8")
    return path


def outputs(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "".join(output.get("text", "") for cell in cells if cell.cell_type == "code" for output in cell.outputs)


ODD = {
    "none": None,
    "flag": True,
    "text": "a='b'\"c\n",
    "emoji": "🦊",
    "win": "C:\\users\\new\\u0041",
    "path": "a b/中文",
    "deep": {"a": [1, 2.5, None]},
}


def test_e12_values_arrive_equal_or_are_refused(tmp_path: Path) -> None:
    parameters = "\n".join(f"{name} = 0" for name in ODD)
    shown = f"import json\nprint(json.dumps([{', '.join(ODD)}]))"
    source = a_notebook(tmp_path / "n.ipynb", (parameters, ["parameters"]), (shown, []))
    out = execute_notebook(source, tmp_path / "out" / "n.ipynb", ODD)
    assert json.loads(outputs(out)) == list(ODD.values())
    json.loads(out.read_text(encoding="utf-8"), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    "value", [datetime.date(2026, 10, 1), math.nan, math.inf, Path("a"), np.arange(3), {1: 2}, (1, 2), b"x"]
)
def test_e12_other_values_are_refused_with_the_name_and_what_is_allowed(tmp_path: Path, value: Any) -> None:
    source = a_notebook(tmp_path / "n.ipynb", ("day = 0", ["parameters"]))
    with pytest.raises(ConfigError, match=r"Parameter day is .*can take text"):
        execute_notebook(source, tmp_path / "o.ipynb", {"day": value})
    assert not (tmp_path / "o.ipynb").exists()


def test_e13_parameters_that_nobody_reads_are_refused(tmp_path: Path) -> None:
    none = a_notebook(tmp_path / "none.ipynb", ("strategy = 'a'", []))
    two = a_notebook(tmp_path / "two.ipynb", ("a = 1", ["parameters"]), ("b = 1", ["parameters"]))
    good = a_notebook(tmp_path / "good.ipynb", ("strategy = 'a'  # help\nn: int = 3", ["parameters"]))
    for source in (none, two):
        with pytest.raises(ConfigError, match="exactly one cell tagged 'parameters'"):
            execute_notebook(source, tmp_path / "o.ipynb", {"strategy": "b"})
    with pytest.raises(ConfigError, match=r"'stratgy'. Did you mean 'strategy'"):
        execute_notebook(good, tmp_path / "o.ipynb", {"stratgy": "b"})
    assert parameter_names(good) == ["strategy", "n"]


def test_a_failing_cell_is_named_and_its_notebook_kept(tmp_path: Path) -> None:
    source = a_notebook(tmp_path / "n.ipynb", ("x = 1", ["parameters"]), ("raise ValueError('bad data')", []))
    with pytest.raises(NotebookFailed, match=r"ValueError: bad data[\s\S]*out\.ipynb"):
        execute_notebook(source, tmp_path / "out.ipynb")
    kept = (tmp_path / "out.ipynb").read_text(encoding="utf-8")
    assert "bad data" in kept


def test_an_executed_notebook_names_no_folder_of_the_machine(tmp_path: Path) -> None:
    source = a_notebook(tmp_path / "n.ipynb", ("x = 1", ["parameters"]))
    out = execute_notebook(source, tmp_path / "out.ipynb")
    text = out.read_text(encoding="utf-8")
    assert '"input_path": "n.ipynb"' in text
    assert str(tmp_path) not in text
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["n.ipynb", "out.ipynb"]


def test_e14_a_dead_kernel_fails_its_notebook_alone(tmp_path: Path) -> None:
    dying = a_notebook(
        tmp_path / "d.ipynb",
        ("x = 1", ["parameters"]),
        ("import os, signal\nprint('before', flush=True)", []),
        ("os.kill(os.getpid(), 9)", []),
    )
    with pytest.raises(NotebookFailed, match="the kernel died"):
        execute_notebook(dying, tmp_path / "dead.ipynb")
    assert "before" in outputs(tmp_path / "dead.ipynb")
    assert not _kernels_below(os.getpid())


def test_e14_a_batch_goes_on_after_a_dead_kernel(tmp_path: Path) -> None:
    bodies = ["print('one')", "import os; os.kill(os.getpid(), 9)", "print('three')", "print('four')"]
    sources = [
        a_notebook(tmp_path / f"n{i}.ipynb", ("x = 1", ["parameters"]), (body, [])) for i, body in enumerate(bodies)
    ]
    command = [sys.executable, "-m", "agentlab", "notebooks", *map(str, sources), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["done", "failed", "done", "done"]
    assert "n1.ipynb: " in done.stderr
    assert "the kernel died" in done.stderr
    assert [outputs(tmp_path / "out" / f"n{i}.ipynb") for i in (0, 2, 3)] == ["one\n", "three\n", "four\n"]
    assert not _kernels_below(os.getpid())


def _kernels_below(pid: int) -> list[str]:
    import psutil

    return [
        child.name()
        for child in psutil.Process(pid).children(recursive=True)
        if "ipykernel" in " ".join(child.cmdline())
    ]


def test_e14_a_notebook_that_hangs_is_stopped(tmp_path: Path) -> None:
    source = a_notebook(tmp_path / "h.ipynb", ("x = 1", ["parameters"]), ("import time; time.sleep(60)", []))
    with pytest.raises(NotebookFailed, match="did not end within 4 s"):
        execute_notebook(source, tmp_path / "h-out.ipynb", timeout_s=4)
    assert not _kernels_below(os.getpid())


def test_parameters_of_the_command_line_are_typed() -> None:
    pairs = [
        "n=3",
        "x=0.5",
        "on=true",
        "none=null",
        "list=[1, 2]",
        "day=2026-10-01",
        "text=a=b",
        "empty=",
        "odd={",
        "model=openai:x",
    ]
    assert parse_parameters(pairs) == {
        "n": 3, "x": 0.5, "on": True, "none": None, "list": [1, 2], "day": "2026-10-01", "text": "a=b", "empty": "",
        "odd": "{", "model": "openai:x",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="name=value"):
        parse_parameters(["n"])


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_stripped_has_parameters_and_defines_nothing(path: Path) -> None:
    import ast

    notebook = nbformat.read(path, as_version=4)
    assert parameter_names(path)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
            tree = ast.parse(cell.source, mode="exec") if "await" not in cell.source else ast.parse("")
            assert not [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)]


@pytest.mark.parametrize("name", ["01_tool_loop", "02_react"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_step_by_step_notebooks_show_the_worked_examples(tmp_path: Path, name: str, language: str) -> None:
    shown = outputs(execute_notebook(NOTEBOOKS / f"{name}.ipynb", tmp_path / "o.ipynb", {"language": language}))
    assert "SIMULATED - not evidence about any model" in shown
    assert "verdict failed, success 1, outcome found" in shown
    assert "verdict incomplete, success 1, outcome incomplete_right" in shown
    assert ("未通过：amount_valid@ORDER1002" if language == "zh" else "Not passed: amount_valid@ORDER1002") in shown


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_plan_notebook_shows_every_way_a_plan_can_go(tmp_path: Path, language: str) -> None:
    parameters = {"language": language, "delay_scale": 0.01}
    executed = execute_notebook(NOTEBOOKS / "03_plan_and_execute.ipynb", tmp_path / "o.ipynb", parameters)
    shown = outputs(executed)
    expected = {
        "en": [
            "3 steps: 3 completed; checks not passed: amount, status",
            "3 steps: 1 failed, 2 blocked",
            "Execution incomplete: query, amount, status",
            "7 steps: 7 completed",
            "9 steps: 8 completed, 1 skipped; checks not passed: totals",
            "8 steps: 8 completed",
            "2: 5 steps: 5 completed",
            "1 rolled back",
        ],
        "zh": [
            "共 3 步：完成 3；检查未通过：amount，status",
            "共 3 步：失败 1，阻塞 2",
            "执行不完整：query, amount, status",
            "共 7 步：完成 7",
            "共 9 步：完成 8，跳过 1；检查未通过：totals",
            "共 8 步：完成 8",
            "2: 共 5 步：完成 5",
            "已回滚 1",
        ],
    }
    assert [line for line in expected[language] if line not in shown] == []
    assert "tried twice: 3.2" in shown
    assert "verdict incomplete, success 1, outcome incomplete_right" in shown
    assert shown.count("success 1") == 8
    assert executed.read_text(encoding="utf-8").count('"image/png"') == 12


def test_an_experiment_runs_and_is_compared_in_notebooks(tmp_path: Path) -> None:
    spec = tmp_path / "small.yaml"
    spec.write_text(
        "name: small\nsuites: [toy]\nstrategies: [tool_loop, react]\nmodels: ['simulated:careless']\ntemperature: 0.7\n"
    )
    folder = str(tmp_path / "results")
    executed = execute_notebook(
        NOTEBOOKS / "10_run_experiment.ipynb",
        tmp_path / "10.ipynb",
        {"experiment": str(spec), "repeats": 2, "output": folder},
    )
    assert "runs executed, 0 were there before" in outputs(executed)
    followed = execute_notebook(NOTEBOOKS / "11_follow_experiment.ipynb", tmp_path / "11.ipynb", {"results": folder})
    assert "80 of 80 runs finished" in followed.read_text(encoding="utf-8")
    compared = execute_notebook(
        NOTEBOOKS / "20_compare.ipynb", tmp_path / "20.ipynb", {"results": folder, "language": "zh"}
    )
    figures = [
        output
        for cell in nbformat.read(compared, as_version=4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(figures) == 5
    assert "SIMULATED - not evidence about any model:" in compared.read_text(encoding="utf-8")


def test_the_copy_may_not_be_the_notebook_itself(tmp_path: Path) -> None:
    source = a_notebook(tmp_path / "n.ipynb", ("day = 0", ["parameters"]))
    before = source.read_bytes()
    with pytest.raises(ConfigError, match=r"would overwrite n\.ipynb itself"):
        execute_notebook(source, tmp_path / "x" / ".." / "n.ipynb")
    assert source.read_bytes() == before


@pytest.mark.parametrize("content", ["name: e\n", "{}", "[1]", ""])
def test_what_is_no_notebook_is_refused_in_words(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"mine\.yaml is no notebook: name a \.ipynb file"):
        execute_notebook(file, tmp_path / "o.ipynb")


def test_a_copy_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path) -> None:
    source = a_notebook(tmp_path / "n.ipynb", ("day = 0", ["parameters"]))
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"file/o\.ipynb cannot be written: .*Name another place"):
        execute_notebook(source, tmp_path / "file" / "o.ipynb")
    with pytest.raises(ConfigError, match="is a folder"):
        execute_notebook(source, tmp_path)


def test_a_notebook_that_was_never_begun_is_not_said_to_be_kept(tmp_path: Path) -> None:
    source = a_notebook(tmp_path / "n.ipynb", ("day = 0", ["parameters"]))
    out = tmp_path / "o.ipynb"
    out.write_text("of an earlier run", encoding="utf-8")
    with pytest.raises(NotebookFailed) as caught:
        execute_notebook(source, out, timeout_s=0.01)
    assert str(caught.value) == "n.ipynb did not end within 0.01 s."
