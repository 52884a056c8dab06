import ast
import json
import sys
from pathlib import Path

import pytest
from plan_runner import steps

import agentlab.planning
from agentlab.errors import CorruptRecord, PlanError
from agentlab.planning.plan import Analysis, CriticalPath, PlanGraph, PlanStep
from agentlab.references import Reference

# The good example of 002.3: five layers, thirteen steps; 5 after 4, 6 after 3 and beside both.
LAYERED = steps(
    ("1", ""), ("2", "1"), ("3", "2"), ("4", "3"), ("5", "4"), ("6", "3"), ("7", "5 6"), ("8", "7"), ("9", "8"),
    ("10", "9"), ("11", "10"), ("12", "11"), ("13", "11"),
)  # fmt: skip


def test_waves_follow_the_strong_dependencies_and_keep_plan_order() -> None:
    assert LAYERED.waves() == (
        ("1",), ("2",), ("3",), ("4", "6"), ("5",), ("7",), ("8",), ("9",), ("10",), ("11",), ("12", "13"),
    )  # fmt: skip
    assert steps(("report", "a b"), ("a", "d"), ("b", "d"), ("d", "")).waves() == (("d",), ("a", "b"), ("report",))
    assert steps(("a", ""), ("b", "~a")).waves() == (("a", "b"),)
    assert PlanGraph(()).waves() == ()


def test_ancestors_and_descendants_over_strong_dependencies() -> None:
    assert LAYERED.ancestors("7") == ("1", "2", "3", "4", "5", "6")
    assert LAYERED.descendants("5") == ("7", "8", "9", "10", "11", "12", "13")
    assert LAYERED.descendants("12", "6") == ("7", "8", "9", "10", "11", "12", "13")
    assert LAYERED.ancestors("1") == ()
    graph = steps(("a", ""), ("b", "~a"), ("c", "b a"))
    assert (graph.descendants("a"), graph.ancestors("c"), graph.dependents("a")) == (("c",), ("a", "b"), ("c",))


def test_the_order_of_execution_comes_from_the_dependencies() -> None:
    assert steps(("c", "b"), ("b", "a"), ("a", ""), ("d", "")).execution_order() == ("a", "b", "c", "d")


def test_the_critical_path_is_the_longest_chain() -> None:
    assert LAYERED.critical_path() == CriticalPath(("1", "2", "3", "4", "5", "7", "8", "9", "10", "11", "12"), 11)
    graph = steps(("a", ""), ("b", ""), ("c", "a b"), ("d", "a"))
    assert graph.critical_path({"a": 1.0, "b": 2.5, "c": 1.0}) == CriticalPath(("b", "c"), 3.5)
    assert graph.critical_path({"d": 9.0}) == CriticalPath(("a", "d"), 9.0)
    assert PlanGraph(()).critical_path() == CriticalPath((), 0.0)


def test_a_graph_for_networkx_carries_what_a_drawing_needs() -> None:
    graph = steps(("a", "", {"priority": "high", "layer": "one"}), ("b", "a"), ("c", "~b")).to_networkx()
    assert graph.nodes["a"] == {
        "description": "", "kind": "tool", "tool": "work", "priority": "high", "layer": "one", "worker_type": None,
        "generation": 0,
    }  # fmt: skip
    assert set(graph.edges(data="strength")) == {("a", "b", "strong"), ("b", "c", "weak")}
    assert [graph.nodes[name]["generation"] for name in "abc"] == [0, 1, 0]


def test_networkx_is_loaded_on_use_alone() -> None:
    import subprocess

    code = "import sys, agentlab.planning.plan; print('networkx' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"


PURE = (
    "extraction", "fields", "granularity", "inputs", "plan", "policy", "problems", "reading", "ready", "recovery",
    "rules", "state", "statuses", "step_state", "structure", "validation", "view",
)  # fmt: skip


@pytest.mark.parametrize("name", PURE)
def test_planning_is_data_in_data_out(name: str) -> None:
    text = Path(agentlab.planning.__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    imported = {
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    outside = {"asyncio", "time", "agentlab.session", "agentlab.models", "agentlab.store", "agentlab.environments"}
    assert not [module for module in imported if any(f"{module}.".startswith(f"{each}.") for each in outside)]


def test_a_plan_comes_back_from_json() -> None:
    step = PlanStep(
        "3.1", "检查", "map", "check", {"id": Reference(None, ("id",)), "text": "steps.1.output", "n": [1, None]},
        ("1", "2"), ("2",), ("1",), ("2",), Reference("1", ("items",)), "checked", "high", "db", "optimise", "rollback",
        3, "terminate", "1", True, is_critical=False,
    )  # fmt: skip
    graph = PlanGraph(
        (PlanStep("1", tool="list", arguments={"type": "literal", "value": 5}), PlanStep("2", "aim", "goal"), step),
        "goal", Analysis("a", ("b",), ("c", "d")), "why", ("note",),
    )  # fmt: skip
    assert PlanGraph.from_json(json.loads(json.dumps(graph.to_json()))) == graph
    assert graph.to_json()["steps"][1] == {"id": "2", "description": "aim", "kind": "goal"}


@pytest.mark.parametrize("data", [{}, {"steps": [{}]}, {"steps": [{"id": "1", "colour": "red"}]}, {"steps": 5}])
def test_what_is_no_stored_plan_is_a_corrupt_record(data: dict[str, object]) -> None:
    with pytest.raises(CorruptRecord, match="a stored plan cannot be read"):
        PlanGraph.from_json(data)


def test_an_unsound_graph_cannot_be_made() -> None:
    with pytest.raises(PlanError) as caught:
        steps(("a", "b ghost"), ("b", "a"), ("c", "c"), ("c", ""))
    assert caught.value.codes == ("duplicate_id", "unknown_dependency", "cycle", "cycle")
    assert "a -> b -> a" in str(caught.value)
    with pytest.raises(PlanError) as caught:
        PlanGraph(
            (PlanStep("a", tool="t", arguments={"x": Reference("b")}), PlanStep("b", tool="t", depends_on=("a",)))
        )
    assert caught.value.codes == ("cycle",)
    with pytest.raises(PlanError, match="b -> a -> b"):
        steps(("b", "a"), ("a", "~b"))


def test_the_texts_of_a_plan_error() -> None:
    with pytest.raises(PlanError) as caught:
        steps(*((f"s{i}", f"ghost{i}") for i in range(25)))
    english, chinese = caught.value.feedback(), caught.value.feedback("zh")
    assert english.startswith("This plan cannot be used")
    assert english.count("\n- ") == 21
    assert "... and 5 more." in english
    assert "步骤 s0：依赖的步骤 ghost0 不存在。" in chinese
    assert "……另有 5 个问题。" in chinese
    assert caught.value.problems[3].step == "s3"
    assert caught.value.problems[3].fix.startswith("Steps: s0, s1")
