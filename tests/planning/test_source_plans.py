"""The plans that the sources describe: the bad example of 002.2, the trees of 002.3 and 002.7, the orders of 000."""

import json
from typing import Any

import pytest
from plan_runner import Runner, failing, scripted, steps

from agentlab.environments.base import load_suite
from agentlab.errors import PlanError
from agentlab.plan_rules import Exclusive, RequiredEdge, RequiredStep, RulePack
from agentlab.planning.granularity import hints
from agentlab.planning.plan import PlanGraph
from agentlab.planning.reading import read_plan
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import STEP_PROJECTIONS
from agentlab.planning.validation import check_plan
from agentlab.records import ToolResult
from agentlab.tasks import Text
from agentlab.tools import Tool

ORDERS = load_suite("orders")
ORDER_TOOLS: tuple[Tool, ...] = tuple(ORDERS.make_environment({}).tools())

# 002.2: "refactor the service for performance", cut into five workers that all run at once.
CHANGES = ("optimise_database", "implement_cache", "optimise_algorithm")
WORK: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = (
    *(Tool(name, "", WORK, effect="write", compensate="rollback_change") for name in CHANGES),
    Tool("deploy", "", WORK, effect="write"),
    *(Tool(name, "", WORK) for name in ("monitor", "analyse", "verify")),
)
RULES = RulePack(
    name="performance",
    required_steps=(
        RequiredStep(names=("analyse",), reason=Text(zh="先分析再优化。", en="Analyse before you optimise.")),
        RequiredStep(names=("verify",), reason=Text(zh="优化后必须验证。", en="A change has to be verified.")),
    ),
    required_edges=(
        RequiredEdge(
            later=("deploy",), earlier=("verify",), reason=Text(zh="未验证不得部署。", en="Only deploy what holds.")
        ),
        RequiredEdge(
            later=("monitor",), earlier=("deploy",), reason=Text(zh="部署后才能监控。", en="Watch what is deployed.")
        ),
    ),
    exclusive=(Exclusive(names=CHANGES, reason=Text(zh="不要同时修改同一服务。", en="They change one service.")),),
    requires_recovery=True,
)


def worker(name: str, *before: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": name, "description": f"{name} it", "dependencies": [*before], **fields}


def test_002_02_the_five_faults_of_the_bad_plan_are_findings() -> None:
    bad = [worker(name) for name in (*CHANGES, "deploy", "monitor")]
    with pytest.raises(PlanError) as caught:
        read_plan(json.dumps(bad), TOOLS, rules=RULES)
    found: dict[str, list[str]] = {}
    for problem in caught.value.problems:
        found.setdefault(problem.code, []).append(problem.message)
    # No analysis and no verification; deployed without it and watched before; changes that collide; no way back.
    assert ["uses analyse" in text or "uses verify" in text for text in found["missing_step"]] == [True, True]
    assert [text.split(":")[0] for text in found["missing_edge"]] == ["Step deploy", "Step monitor"]
    assert [text.split(":")[0] for text in found["unordered"]] == ["Step implement_cache", "Step optimise_algorithm"]
    assert [text.split(":")[0] for text in found["missing_recovery"]] == ["Step deploy"]
    assert set(found) == {"missing_step", "missing_edge", "unordered", "missing_recovery"}
    unordered = steps(*((name, "", {"tool": name}) for name in (*CHANGES, "deploy", "monitor")))
    assert [hint.code for hint in hints(unordered, tools=TOOLS)] == ["no_order"], "no dependency analysis at all"


def test_002_02_the_same_work_with_order_verification_and_recovery_is_accepted() -> None:
    good = [
        worker("analyse"),
        worker("optimise_database", "analyse"),
        worker("implement_cache", "optimise_database"),
        worker("optimise_algorithm", "implement_cache"),
        worker("verify", "optimise_algorithm"),
        worker("deploy", "verify", on_error="terminate"),
        worker("monitor", "deploy"),
    ]
    graph = read_plan(json.dumps(good), TOOLS, rules=RULES)
    assert len(graph) == 7
    assert hints(graph, tools=TOOLS) == ()


def test_002_07_the_example_tree_in_five_layers() -> None:
    tree = {"1": 3, "2": 3, "3": 3, "4": 2, "5": 2}
    written = []
    for layer, size in tree.items():
        before = [f"{int(layer) - 1}.{index}" for index in range(1, tree.get(str(int(layer) - 1), 0) + 1)]
        before = [step["id"] for step in written if step["layer"] == str(int(layer) - 1)] if before else []
        for index in range(1, size + 1):
            step = {"id": f"{layer}.{index}", "kind": "goal", "description": f"part {index}", "layer": layer}
            written.append({**step, "dependencies": before, "worker_type": f"worker {index}"})
    graph = read_plan(json.dumps({"tasks": written, "goal": "performance"}), [])
    assert [len(wave) for wave in graph.waves()] == [3, 3, 3, 2, 2]
    assert [{graph.step(name).layer for name in wave} for wave in graph.waves()] == [{layer} for layer in tree]
    assert hints(graph) == ()
    assert graph.critical_path().duration_s == 5


def test_002_06_the_analysis_comes_with_the_plan() -> None:
    analysis = {
        "goal": "performance",
        "constraints": ["no broken functions", "reversible", "testable"],
        "success_criteria": ["response time -50 %", "error rate not up", "resource use not up"],
    }
    graph = read_plan(json.dumps({"analysis": analysis, "tasks": [worker("analyse")]}), TOOLS)
    assert graph.analysis is not None
    assert len(graph.analysis.constraints) == len(graph.analysis.success_criteria) == 3
    assert PlanGraph.from_json(graph.to_json()) == graph


def is_ready(state: PlanState, name: str) -> bool:
    return state.next_ready(lambda step: step.id == name) is not None


def test_002_14_what_is_ready_first_and_after_the_analysis() -> None:
    graph = steps(
        ("analysis", ""), ("db-design", "analysis"), ("cache-design", "analysis"), ("db", "db-design"),
        ("cache", "cache-design"), ("test", "db cache"),
    )  # fmt: skip
    found = ToolResult(True, data={"bottlenecks": ["database", "algorithm"]})
    runner = Runner(graph, scripted({"analysis": found}))
    state = runner.state
    first = state.next_ready()
    assert first is not None
    assert first.id == "analysis"
    assert not is_ready(state, "db-design")
    state.start("analysis")
    state.complete("analysis", [found])
    ready = [name for name in ("analysis", "db-design", "cache-design", "db", "cache", "test") if is_ready(state, name)]
    assert ready == ["db-design", "cache-design"]
    assert state["analysis"].output == {"bottlenecks": ["database", "algorithm"]}
    assert runner.run().status == "completed"


def order_plan(order_id: str) -> str:
    def step(step_id: str, tool: str, *before: str) -> dict[str, Any]:
        return {
            "task_id": step_id, "description": tool, "tool_name": tool, "arguments": {"order_id": order_id},
            "dependencies": [*before],
        }  # fmt: skip

    tasks = [step("task_003", "check_order_status", "task_001"), step("task_002", "check_order_amount", "task_001")]
    return json.dumps({"tasks": [*tasks, step("task_001", "query_order_detail")]})


def task_of(order_id: str) -> Any:
    return next(task for task in ORDERS.tasks if task.subject == order_id and task.canonical)


def run_order(order_id: str, script: dict[str, Any]) -> Runner:
    criteria = task_of(order_id).view("en").criteria
    runner = Runner(
        read_plan(order_plan(order_id), ORDER_TOOLS, rules=ORDERS.rules, criteria=criteria), scripted(script)
    )
    runner.run()
    return runner


def summary(runner: Runner) -> dict[str, int]:
    counts = dict.fromkeys(("pending", "running", "completed", "failed", "blocked"), 0)
    for status, count in runner.state.counts().items():
        counts[STEP_PROJECTIONS["000"][status]] += count
    return counts


def test_000_28_order1002_completes_three_steps_with_two_checks_not_passed() -> None:
    checks = {"task_002": ToolResult(True, passed=False), "task_003": ToolResult(True, passed=False)}
    runner = run_order("ORDER1002", checks)
    assert runner.executed[0] == "task_001", "the order comes from the dependencies, not from the list"
    assert summary(runner) == {"pending": 0, "running": 0, "completed": 3, "failed": 0, "blocked": 0}
    assert runner.state.status == "completed"
    assert set(runner.state.checks_not_passed()) == {"task_002", "task_003"}
    assert runner.state.business_counts() == {"passed": 0, "failed": 2}


def test_000_29_order9999_blocks_both_checks_and_never_executes_them() -> None:
    runner = run_order("ORDER9999", {"task_001": failing("not_found", "Order ORDER9999 does not exist.")})
    assert summary(runner) == {"pending": 0, "running": 0, "completed": 0, "failed": 1, "blocked": 2}
    assert runner.executed == ["task_001"]
    assert runner.state.status == "failed"
    assert runner.state.explain("task_002") == (
        "blocked, because step task_001 is failed: not_found: Order ORDER9999 does not exist."
    )


def test_000_17_every_rule_has_its_own_message() -> None:
    def one(**fields: Any) -> dict[str, Any]:
        return {"id": "a", "tool": "query_order_detail", "arguments": {"order_id": "O"}, "dependencies": [], **fields}

    broken: list[tuple[Any, str]] = [
        ({"tasks": "none"}, "not_a_list"),
        ({"tasks": []}, "empty_plan"),
        ({"tasks": [one(id=str(i)) for i in range(21)]}, "too_many_tasks"),
        ({"tasks": [one(id="")]}, "bad_id"),
        ({"tasks": [one(), one()]}, "duplicate_id"),
        ({"tasks": [one(tool="drop_table")]}, "unknown_tool"),
        ({"tasks": [one(arguments=["O"])]}, "arguments_not_object"),
        ({"tasks": [one(arguments={"order_id": "O", "x": 1})]}, "extra_argument"),
        ({"tasks": [one(arguments={"order_id": 5})]}, "bad_argument"),
        ({"tasks": [one(dependencies="b")]}, "dependencies_not_list"),
        ({"tasks": [one(dependencies=[{"b": 1}])]}, "bad_dependency"),
        ({"tasks": [one(dependencies=["a"])]}, "cycle"),
        ({"tasks": [one(dependencies=["b"])]}, "unknown_dependency"),
        ({"tasks": [one(dependencies=["b"]), one(id="b", dependencies=["a"])]}, "cycle"),
    ]
    messages = set()
    for plan, code in broken:
        with pytest.raises(PlanError) as caught:
            read_plan(json.dumps(plan), ORDER_TOOLS)
        assert caught.value.codes[0] == code
        messages.add(caught.value.problems[0].message)
    assert len(messages) == 14


def test_002_08_strong_weak_and_no_dependency() -> None:
    graph = steps(("design", ""), ("3.1", "design"), ("3.2", "design ~3.1"), ("docs", ""))
    assert graph.waves() == (("design", "docs"), ("3.1", "3.2")), "a weak edge never delays"
    assert check_plan(graph, (Tool("work", "", WORK),)) == ()
