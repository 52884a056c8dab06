import asyncio
import copy
import json
import time
from typing import Any

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.checker import check_environment
from agentlab.environments.proofs import prove, prove_suite
from agentlab.environments.reference import run_in_thread, walk
from agentlab.environments.service.environment import ServiceEnvironment
from agentlab.environments.service.plans import PLANS
from agentlab.errors import ConfigError, PlanError, TaskError
from agentlab.models.base import build_model
from agentlab.planning.plan import PlanGraph
from agentlab.planning.reading import read_plan
from agentlab.records import JsonObject, ToolResult
from agentlab.runner.build import auto_budget
from agentlab.runner.run_one import RunResult, run_one
from agentlab.runner.try_one import try_task
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy
from agentlab.tasks import Task, resolve_references
from agentlab.tool_execution import execute
from agentlab.tools import find_tool
from agentlab.workers import Workers

SUITE = load_suite("service")
HEALTHY = {task.cluster: task for task in SUITE.tasks if not task.is_defective}


def _environment(task_id: str = "workflow", seed: int = 7, **fields: Any) -> ServiceEnvironment:
    """The environment of a task, or with `fields` of one service `api` of one's own."""
    environment = ServiceEnvironment()
    task = SUITE.task(task_id)
    if fields:
        task = task.model_copy(update={"initial_state": {"services": {"api": fields}}, "defects": ()})
    environment.reset(task, seed)
    return environment


def _call(environment: ServiceEnvironment, name: str, /, **arguments: str) -> ToolResult:
    tool = find_tool(environment.tools(), name)
    tool.check_arguments(arguments)
    workers = Workers()
    try:
        return asyncio.run(execute(tool, arguments, workers, tool.timeout_s))
    finally:
        workers.close()


def _designed(environment: ServiceEnvironment, component: str, service: str = "api") -> str:
    finding = _call(environment, "analyse_code", service=service).data["findings"][component]
    return str(_call(environment, f"design_{component}", service=service, finding=finding).data["design"])


ONE: JsonObject = {"components": {"database": {"response_factors": [0.5]}}}


# The suite.


def test_every_task_is_proven() -> None:
    assert prove_suite(SUITE) == []


def test_a_twin_whose_defect_shows_nowhere_would_not_be_proven() -> None:
    twin = SUITE.task("workflow--more-errors")
    harmless = twin.defects[0].model_copy(update={"changes": {"services": {"order-api": {"extra": {}}}}})
    assert any(
        "is not detected" in problem for problem in prove(twin.model_copy(update={"defects": (harmless,)}), SUITE)
    )


@pytest.mark.parametrize("cluster", HEALTHY)
def test_the_environment_keeps_the_contract(cluster: str) -> None:
    for task in (task for task in SUITE.tasks if task.cluster == cluster):
        assert check_environment(SUITE.make_environment, task) == []


def test_there_are_flows_enough_and_each_criterion_is_broken_by_twins() -> None:
    broken: dict[str, set[str]] = {}
    for task in SUITE.tasks:
        for key, status in task.checks.items():
            if status == "failed":
                broken.setdefault(key.partition("@")[0].partition("_in_")[0], set()).add(task.cluster)
    assert len(HEALTHY) >= 10
    assert {name: len(clusters) >= 2 for name, clusters in broken.items()} == {
        "response_time_halved": True,
        "errors_not_up": True,
        "resources_not_up": True,
        "functions_kept": True,
        "cache_active": False,
    }
    assert all(4 <= task.complexity <= 13 for task in HEALTHY.values())


def test_instructions_name_the_service_and_every_literal_argument_in_both_languages() -> None:
    for task in SUITE.tasks:
        for step in task.reference:
            for value in step.arguments.values():
                if not value.startswith("steps."):
                    assert value in task.instruction.zh, (task.id, value)
                    assert value in task.instruction.en, (task.id, value)


def test_criteria_of_one_name_are_described_alike_and_named_by_their_service() -> None:
    texts = {c.name: {c.description.zh + c.description.en} for c in SUITE.default_criteria}
    for task in SUITE.tasks:
        for criterion in task.criteria:
            assert criterion.subject == task.subject
            assert criterion.subject in task.instruction.zh
            assert criterion.subject in task.instruction.en
            texts.setdefault(criterion.name, set()).add(criterion.description.zh + criterion.description.en)
    assert all(len(found) == 1 for found in texts.values()), texts


def test_every_tool_is_described_in_both_languages_with_its_arguments() -> None:
    for tool in ServiceEnvironment().tools():
        assert tool.description
        assert tool.description_zh
        assert all("description" in schema for schema in tool.parameters["properties"].values()), tool.name
        assert tool.parameters["additionalProperties"] is False


def test_workers_share_out_every_tool_and_hold_no_other() -> None:
    assert set(SUITE.workers) == {"code_analyser", "db", "cache", "algorithm", "test", "deploy"}
    held = {name for worker in SUITE.workers.values() for name in worker.tools}
    assert held == {tool.name for tool in ServiceEnvironment().tools()}
    assert all(worker.expertise.zh and worker.expertise.en for worker in SUITE.workers.values())


def test_other_suites_have_no_workers() -> None:
    assert load_suite("orders").workers == {}


def test_deployments_are_approved_beforehand_where_the_flow_deploys() -> None:
    assert SUITE.approved_tools is not None
    flows = {SUITE.task(task_id).cluster for task_id in SUITE.approved_tools}
    assert flows == {"layered", "verification-loop", "verification-stop", "test-deployment", "production-rollback"}
    assert SUITE.approved_tools["verification-stop--not-halved"] == ("deploy",)


def _run(task: Task, strategy: str, language: str = "en", **settings: Any) -> RunResult:
    approved = frozenset((SUITE.approved_tools or {}).get(task.id, ()))
    return asyncio.run(
        run_one(
            task,
            SUITE.make_environment({}),
            build_strategy(strategy),
            build_model("simulated:perfect"),
            SessionSettings(language=language, **{"approved_tools": approved, **settings}),
            auto_budget(task),
            debug=True,
        )
    )


@pytest.mark.parametrize("strategy", ["tool_loop", "react"])
@pytest.mark.parametrize("task_id", [task.id for task in SUITE.tasks])
def test_a_perfect_model_succeeds_within_the_default_budget(strategy: str, task_id: str) -> None:
    for language in ("en", "zh"):
        result = _run(SUITE.task(task_id), strategy, language)
        assert (result.end_reason, result.score.success, result.score.failure_classes) == ("answered", 1, ())


def test_without_the_approval_nothing_is_deployed() -> None:
    result = _run(SUITE.task("test-deployment"), "tool_loop", approved_tools=frozenset())
    assert result.score.success == 0
    assert result.facts["deployments"] == 0


def test_the_session_never_repeats_the_first_failure_of_the_cache_by_itself() -> None:
    result = _run(SUITE.task("workflow"), "tool_loop")
    calls = [
        event.data for event in result.events if event.kind == "tool_call" and event.data["tool"] == "implement_cache"
    ]
    assert [(call["success"], call.get("error_kind"), call["tries"]) for call in calls] == [
        (False, "connection_failed", 1),
        (True, None, 1),
    ]
    assert result.facts["effects"].count("order-api: implement cache 1") == 1


# The workflow.


def test_the_numbers_of_the_workflow() -> None:
    environment = _environment("workflow")
    walked = run_in_thread(walk(environment, SUITE.task("workflow")))
    data = walked.results[-1].data
    assert data["before"] == {"response_ms": 800, "errors_percent": 0.4, "cpu_percent": 62, "memory_mb": 1500}
    assert data["after"] == {"response_ms": 314, "errors_percent": 0.4, "cpu_percent": 44, "memory_mb": 1460}
    assert data["criteria"] == dict.fromkeys(["response_time_halved", "errors_not_up", "resources_not_up"], "passed")
    assert (walked.results[-1].passed, walked.results[-1].check) == (None, None)


def test_a_dropped_connection_changes_nothing_and_says_so() -> None:
    environment = _environment(components={"cache": {"drops": [1]}})
    design = _designed(environment, "cache")
    before = environment.facts()
    dropped = _call(environment, "implement_cache", service="api", design=design)
    assert (dropped.success, dropped.passed, dropped.error_kind) == (False, None, "connection_failed")
    assert "Nothing was changed" in dropped.message
    assert environment.facts() == before
    assert _call(environment, "implement_cache", service="api", design=design).success
    assert environment.facts()["build"] == {"api": ["cache"]}


def test_the_number_of_tries_is_part_of_a_snapshot() -> None:
    environment = _environment(components={"cache": {"drops": [1]}})
    design = _designed(environment, "cache")
    assert not _call(environment, "implement_cache", service="api", design=design).success
    other = ServiceEnvironment()
    other.restore(environment.snapshot())
    assert _call(other, "implement_cache", service="api", design=design).success


def test_a_server_that_is_down_drops_every_time() -> None:
    environment = _environment(components={"cache": {"drops": [None]}})
    design = _designed(environment, "cache")
    kinds = [_call(environment, "implement_cache", service="api", design=design).error_kind for _ in range(6)]
    assert kinds == ["connection_failed"] * 6
    assert _call(environment, "check_cache", service="api").passed is False


def test_a_refused_change_is_no_transient_failure() -> None:
    environment = _environment(components={"database": {"refused_from": 1}})
    result = _call(environment, "optimise_database", service="api", design=_designed(environment, "database"))
    assert (result.success, result.error_kind) == (False, "migration_refused")


def test_a_new_design_follows_a_discarded_or_implemented_one_and_no_other() -> None:
    environment = _environment(components={"database": {"drops": [None, 0], "response_factors": [0.9, 0.5]}})
    first = _designed(environment, "database")
    assert _designed(environment, "database") == first
    assert _call(environment, "optimise_database", service="api", design=first).error_kind == "connection_failed"
    finding = _call(environment, "analyse_code", service="api").data["findings"]["database"]
    assert _call(environment, "discard_design", service="api", finding=finding).message == "Discarded."
    assert _call(environment, "optimise_database", service="api", design=first).error_kind == "not_found"
    second = _designed(environment, "database")
    assert second != first
    assert _call(environment, "optimise_database", service="api", design=second).success
    assert _call(environment, "discard_design", service="api", finding=finding).error_kind == "in_use"
    third = _designed(environment, "database")
    assert third not in (first, second)
    assert _call(environment, "discard_design", service="api", finding=finding).success
    assert environment.facts()["build"] == {"api": ["database"]}


def test_a_design_of_another_component_or_an_invented_one_is_not_found() -> None:
    environment = _environment(**ONE)
    database = _designed(environment, "database")
    finding = _call(environment, "analyse_code", service="api").data["findings"]["database"]
    assert _call(environment, "implement_cache", service="api", design=database).error_kind == "not_found"
    assert _call(environment, "design_cache", service="api", finding=finding).error_kind == "not_found"
    for design in ("", "DB-DESIGN-1", "steps.1.output.design"):
        assert _call(environment, "optimise_database", service="api", design=design).error_kind == "not_found"


@pytest.mark.parametrize("tool", [tool.name for tool in ServiceEnvironment().tools()])
def test_an_unknown_service_is_not_found_and_nothing_is_changed(tool: str) -> None:
    environment = _environment()
    before = environment.snapshot()
    offered = find_tool(environment.tools(), tool)
    arguments = {name: "test" if name == "environment" else "x" for name in offered.parameters["properties"]}
    result = _call(environment, tool, **{**arguments, "service": "nowhere"})
    assert (result.success, result.error_kind) == (False, "not_found")
    assert "nowhere" in result.message
    assert environment.snapshot() == before


def test_only_the_two_environments_can_be_named() -> None:
    tool = find_tool(ServiceEnvironment().tools(), "deploy")
    assert tool.parameters["properties"]["environment"]["enum"] == ["test", "production"]


# Effects, and how they are undone.


def test_doing_it_again_changes_nothing() -> None:
    environment = _environment(**ONE)
    design = _designed(environment, "database")
    for _ in range(2):
        assert _call(environment, "optimise_database", service="api", design=design).success
        assert _call(environment, "deploy", service="api", environment="test").success
        assert _call(environment, "create_checkpoint", service="api", name="now").success
    assert environment.facts()["effects"] == [
        "api: design database 1",
        "api: implement database 1",
        "api: deploy test",
        "api: checkpoint now",
    ]
    assert environment.facts()["deployments"] == 1


def test_every_write_can_be_undone_with_its_own_arguments_and_undoing_again_is_harmless() -> None:
    tools = {tool.name: tool for tool in ServiceEnvironment().tools()}
    writes = [tool for tool in tools.values() if tool.has_side_effect]
    assert len(writes) == 7
    for tool in writes:
        assert tool.compensate is not None
        undo = tools[tool.compensate]
        assert set(undo.parameters["required"]) <= set(tool.parameters["required"]), tool.name
        assert (undo.effect, tool.max_retries, tool.repeatable) == ("idempotent", 0, True)


def test_the_workflow_is_undone_in_reverse_order() -> None:
    task = SUITE.task("workflow")
    environment = _environment("workflow", seed=0)
    start = environment.snapshot()
    walked = run_in_thread(walk(environment, task))
    for step in reversed(walked.steps):
        if step.tool.compensate and step.result.success:
            undo = find_tool(environment.tools(), step.tool.compensate)
            arguments = {name: step.arguments[name] for name in undo.parameters["required"]}
            for _ in range(2):
                assert _call(environment, undo.name, **arguments).success
    assert environment.facts()["build"] == {"order-api": []}
    parts = environment.snapshot()["services"]["order-api"]["components"]
    assert {part["design"] for part in parts.values()} == {""}
    assert start["services"]["order-api"]["deployed"] == environment.snapshot()["services"]["order-api"]["deployed"]


def test_rolling_back_an_earlier_change_takes_out_the_one_over_it() -> None:
    environment = _environment(components={"database": {"response_factors": [0.9, 0.5]}})
    designs = []
    for _ in range(2):
        designs.append(_designed(environment, "database"))
        _call(environment, "optimise_database", service="api", design=designs[-1])
    after = _call(environment, "run_performance_test", service="api").data["after"]["response_ms"]
    _call(environment, "rollback_change", service="api", design=designs[1])
    back = _call(environment, "run_performance_test", service="api").data["after"]["response_ms"]
    _call(environment, "rollback_change", service="api", design=designs[0])
    assert (after, back) == (400, 720)
    assert environment.facts()["build"] == {"api": []}


def test_a_checkpoint_brings_back_the_build_and_leaves_deployments_alone() -> None:
    environment = _environment(**ONE)
    assert _call(environment, "restore_checkpoint", service="api", name="start").error_kind == "not_found"
    _call(environment, "create_checkpoint", service="api", name="start")
    design = _designed(environment, "database")
    _call(environment, "optimise_database", service="api", design=design)
    _call(environment, "deploy", service="api", environment="test")
    assert _call(environment, "create_checkpoint", service="api", name="start").error_kind == "exists"
    for _ in range(2):
        assert _call(environment, "restore_checkpoint", service="api", name="start").success
    facts = environment.facts()
    assert facts["build"] == {"api": []}
    assert facts["deployed"]["api"]["test"] == ["database"]
    assert facts["rolled_back"] == ["restore start"]
    assert _call(environment, "observe", service="api", environment="test").data["metrics"]["response_ms"] == 400
    assert _designed(environment, "database") != design


# Tests, deployments, checks.


def test_an_unchanged_build_gives_no_evidence() -> None:
    environment = _environment(**ONE)
    for tool in ("run_performance_test", "run_regression_test"):
        result = _call(environment, tool, service="api")
        assert (result.success, result.passed, dict(result.visible)) == (True, None, {})


def test_half_is_half_and_equal_is_not_up() -> None:
    environment = _environment(components={"database": {"response_factors": [0.5], "cpu_percent": 0, "memory_mb": 0}})
    _call(environment, "optimise_database", service="api", design=_designed(environment, "database"))
    result = _call(environment, "run_performance_test", service="api")
    assert set(result.visible.values()) == {"passed"}
    assert result.data["after"] == {**result.data["before"], "response_ms": 400}


@pytest.mark.parametrize(
    ("changes", "criterion"),
    [
        ({"response_factors": [0.51]}, "response_time_halved"),
        ({"errors_percent": 0.01}, "errors_not_up"),
        ({"cpu_percent": 1}, "resources_not_up"),
        ({"memory_mb": 1}, "resources_not_up"),
    ],
)
def test_each_fault_fails_its_criterion_alone(changes: JsonObject, criterion: str) -> None:
    harmless = {"response_factors": [0.5], "cpu_percent": 0, "memory_mb": 0}
    environment = _environment(components={"database": {**harmless, **changes}})
    _call(environment, "optimise_database", service="api", design=_designed(environment, "database"))
    visible = _call(environment, "run_performance_test", service="api").visible
    assert [key for key, status in visible.items() if status == "failed"] == [f"{criterion}@api"]
    _call(environment, "deploy", service="api", environment="test")
    checks = {name: _call(environment, name, service="api", environment="test") for name in _CHECKS}
    assert [(c.check, c.subject) for c in checks.values() if not c.passed] == [(f"{criterion}_in_test", "api")]


_CHECKS = ("check_response_time", "check_errors", "check_resources")


def test_the_regression_test_counts_what_the_build_breaks() -> None:
    environment = _environment(components={"database": {"broken_tests": 2}, "cache": {"broken_tests": 1}})
    _call(environment, "optimise_database", service="api", design=_designed(environment, "database"))
    result = _call(environment, "run_regression_test", service="api")
    assert (result.passed, result.check, result.subject) == (False, "functions_kept", "api")
    assert result.data["broken"] == 2


def test_production_takes_only_what_test_runs() -> None:
    environment = _environment(**ONE)
    assert _call(environment, "deploy", service="api", environment="test").error_kind == "nothing_to_deploy"
    _call(environment, "optimise_database", service="api", design=_designed(environment, "database"))
    assert _call(environment, "deploy", service="api", environment="production").error_kind == "not_in_test"
    for place in ("test", "production"):
        assert _call(environment, "deploy", service="api", environment=place).success
    _call(environment, "implement_cache", service="api", design=_designed(environment, "cache"))
    assert _call(environment, "deploy", service="api", environment="production").error_kind == "not_in_test"


def test_after_a_rollback_there_is_nothing_to_check_so_the_finding_stands() -> None:
    environment = _environment("production-rollback--errors-in-production")
    task = SUITE.task("production-rollback--errors-in-production")
    run_in_thread(walk(environment, task))
    for name in _CHECKS:
        result = _call(environment, name, service="checkout-api", environment="production")
        assert (result.success, result.passed, result.error_kind) == (False, None, "not_deployed")
    observed = _call(environment, "observe", service="checkout-api", environment="production").data
    assert (observed["changed"], observed["metrics"]["errors_percent"]) == ([], 0.4)


def test_the_load_of_production_shows_in_production_alone() -> None:
    environment = _environment(**ONE, extra={"production": {"response_factor": 1.5, "errors_percent": 0.6}})
    _call(environment, "optimise_database", service="api", design=_designed(environment, "database"))
    for place in ("test", "production"):
        _call(environment, "deploy", service="api", environment=place)
    seen = {
        p: _call(environment, "observe", service="api", environment=p).data["metrics"] for p in ("test", "production")
    }
    assert (seen["test"]["response_ms"], seen["production"]["response_ms"]) == (400, 600)
    assert (seen["test"]["errors_percent"], seen["production"]["errors_percent"]) == (0.4, 1.0)


# Seed, settings, state.


def test_ids_follow_from_the_seed_alone() -> None:
    ids = [_designed(_environment(seed=seed, **ONE), "database") for seed in (3, 3, 4)]
    assert ids[0] == ids[1] != ids[2]


def test_work_takes_its_simulated_seconds_times_the_scale_and_can_overlap() -> None:
    environment = ServiceEnvironment({"delay_scale": 0.02})
    environment.reset(SUITE.task("workflow"), 0)
    tool = find_tool(environment.tools(), "run_performance_test")
    workers = Workers()

    async def five_at_once() -> list[ToolResult]:
        call = {"service": "order-api"}
        return await asyncio.gather(*(execute(tool, call, workers, tool.timeout_s) for _ in range(5)))

    started = time.perf_counter()
    results = asyncio.run(five_at_once())
    elapsed_s = time.perf_counter() - started
    workers.close()
    assert 0.1 <= elapsed_s < 0.4
    assert results[0].data["work"] == {"seconds": 5, "cpu_percent": 80, "memory_mb": 700}


@pytest.mark.parametrize("scale", [-1, 5.1, "1", True, None, float("nan")])
def test_a_delay_that_is_none_is_refused(scale: object) -> None:
    with pytest.raises(ConfigError, match="delay_scale must be a number from 0"):
        ServiceEnvironment({"delay_scale": scale})


def test_an_unknown_setting_is_refused_with_the_valid_one() -> None:
    with pytest.raises(ConfigError, match=r"delay_scal.*Valid: delay_scale"):
        ServiceEnvironment({"delay_scal": 1})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"services": {"api": {"component": {}}}}, "api: there is no field 'component'. Valid: baseline, components"),
        ({"services": {"api": {"components": {"cache": {"drop": [1]}}}}}, "api.components.cache.*'drop'.*drops"),
        ({"services": {"api": {"components": {"queue": {}}}}}, "api.components.*'queue'.*database, cache, algorithm"),
        ({"services": {"api": 5}}, "api: 5 must be an object"),
    ],
)
def test_a_mistake_in_the_state_is_named_with_what_is_valid(state: JsonObject, message: str) -> None:
    task = SUITE.task("workflow").model_copy(update={"initial_state": state})
    with pytest.raises(TaskError, match=message):
        ServiceEnvironment().reset(task, 0)


def test_a_part_of_the_state_that_does_not_exist_is_refused() -> None:
    task = SUITE.task("workflow").model_copy(update={"initial_state": {"orders": {}}})
    with pytest.raises(ConfigError, match=r"'orders'.*Valid: services"):
        ServiceEnvironment().reset(task, 0)


# The plans.


def _executed(plan: JsonObject, task: Task) -> dict[str, ToolResult]:
    """The steps in the order of the list, which the plans of this suite may be executed in; nothing is retried."""
    environment = ServiceEnvironment()
    environment.reset(task, 0)
    outputs: dict[str, Any] = {}
    results: dict[str, ToolResult] = {}
    for step in plan["steps"]:
        assert set(step["depends_on"]) <= set(results), step["id"]
        if not all(results[id].success for id in step["depends_on"]):
            continue
        arguments = resolve_references(step["arguments"], outputs)
        results[step["id"]] = _call(environment, step["tool"], **arguments)
        outputs[step["id"]] = results[step["id"]].data
    return results


@pytest.mark.parametrize("cluster", PLANS)
def test_a_plan_uses_only_tools_of_its_workers(cluster: str) -> None:
    assert cluster in HEALTHY
    for step in PLANS[cluster]["steps"]:
        assert step["tool"] in SUITE.workers[step["worker_type"]].tools, step["id"]


def test_the_workflow_plan_has_eight_tasks_of_five_worker_types_and_the_sources_edges() -> None:
    steps = {step["id"]: step for step in PLANS["workflow"]["steps"]}
    assert {id: step["depends_on"] for id, step in steps.items()} == {
        "1": [],
        "2.1": ["1"],
        "2.2": ["1"],
        "2.3": ["1"],
        "3.1": ["2.1"],
        "3.2": ["2.2"],
        "3.3": ["2.3"],
        "4": ["3.1", "3.2", "3.3"],
    }
    assert steps["3.2"]["weak_depends_on"] == ["3.1"]
    assert {step["worker_type"] for step in steps.values()} == set(SUITE.workers) - {"deploy"}


def test_the_layered_plan_has_thirteen_steps_in_five_layers_and_one_for_the_way_back() -> None:
    steps = {step["id"]: step for step in PLANS["layered"]["steps"]}
    layers: dict[str, list[str]] = {}
    for id, step in steps.items():
        layers.setdefault(step["layer"], []).append(id)
    assert layers == {
        "analysis": ["1", "2", "3"],
        "optimisation": ["4", "5", "6"],
        "verification": ["7", "8"],
        "deployment": ["9", "10", "11"],
        "monitoring": ["12", "13", "14"],
    }
    assert (steps["5"]["depends_on"], steps["6"]["depends_on"]) == (["4"], ["3"])


def _read(plan: JsonObject, task: Task) -> PlanGraph:
    return read_plan(
        json.dumps(plan),
        ServiceEnvironment().tools(),
        rules=SUITE.rules,
        criteria=task.view("en").criteria,
        workers={name: worker.tools for name, worker in SUITE.workers.items()},
    )


@pytest.mark.parametrize("cluster", PLANS)
def test_a_plan_keeps_every_rule_and_is_read_as_written(cluster: str) -> None:
    graph = _read(PLANS[cluster], HEALTHY[cluster])
    assert graph.notes == ()
    assert [(step.id, list(step.depends_on)) for step in graph.steps] == [
        (step["id"], [*step["depends_on"], *step.get("only_if_not_passed", [])]) for step in PLANS[cluster]["steps"]
    ]


def _changed(cluster: str, step_id: str, **fields: Any) -> JsonObject:
    plan = copy.deepcopy(PLANS[cluster])
    next(step for step in plan["steps"] if step["id"] == step_id).update(fields)
    return plan


def _without(cluster: str, step_id: str) -> JsonObject:
    return {"steps": [step for step in copy.deepcopy(PLANS[cluster])["steps"] if step["id"] != step_id]}


@pytest.mark.parametrize(
    ("plan", "cluster", "step", "code"),
    [
        (_changed("workflow", "4", depends_on=["3.1", "3.2"]), "workflow", "4", "unordered"),
        (_changed("workflow", "4", depends_on=[]), "workflow", "4", "missing_edge"),
        (_without("workflow", "4"), "workflow", None, "missing_check"),
        (_without("layered", "13"), "layered", None, "missing_check"),
        (_changed("verification-stop", "5.1", depends_on=[]), "verification-stop", "5.1", "unordered"),
        (_changed("workflow", "3.1", worker_type="cache"), "workflow", "3.1", "wrong_worker"),
        (_changed("workflow", "3.1", description=""), "workflow", "3.1", "missing_description"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused(plan: JsonObject, cluster: str, step: str | None, code: str) -> None:
    with pytest.raises(PlanError) as caught:
        _read(plan, HEALTHY[cluster])
    assert (step, code) in [(problem.step, problem.code) for problem in caught.value.problems]


@pytest.mark.parametrize("cluster", ["layered", "cache-fallback", "verification-stop"])
def test_a_plan_executed_as_it_stands_shows_the_truth_of_the_healthy_task(cluster: str) -> None:
    task = HEALTHY[cluster]
    results = _executed(PLANS[cluster], task)
    assert len(results) == len(PLANS[cluster]["steps"])
    shown = {f"{r.check}@{r.subject}": "passed" if r.passed else "failed" for r in results.values() if r.check}
    for result in results.values():
        shown |= result.visible
    assert {key: shown[key] for key in task.checks} == task.checks


def test_the_workflow_plan_needs_the_retry_of_its_cache() -> None:
    results = _executed(PLANS["workflow"], HEALTHY["workflow"])
    assert results["3.2"].error_kind == "connection_failed"
    assert "4" not in results
    assert sum(result.success for result in results.values()) == 6


def test_without_the_cache_the_fallback_plan_goes_on_and_finds_it_missing() -> None:
    results = _executed(PLANS["cache-fallback"], SUITE.task("cache-fallback--cache-down"))
    assert results["3.2"].success is False
    assert results["4"].visible["response_time_halved@catalog-api"] == "passed"
    assert results["5"].passed is False


@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.id)
def test_the_plan_of_a_flow_succeeds_and_undoes_what_does_not_hold(task: Task) -> None:
    parameters = {"parallelism": 4 if task.is_defective else 1}
    result, _ = asyncio.run(try_task(task.id, suite=SUITE, strategy="plan_execute", parameters=parameters))
    assert (result.end_reason, result.score.success, result.score.failure_classes) == ("answered", 1, ())
    assert result.meter.model_calls == 1
    done = [event.data["tool"] for event in result.events if event.kind == "tool_call"]
    undo = {"rollback_deployment", "rollback_change", "restore_checkpoint", "discard_design"}
    wanted = [step.tool for step in task.reference]
    assert undo.intersection(done) >= undo.intersection(wanted)
    if not task.is_defective:
        assert len(done) - done.count("rollback_change") == len(wanted)


def test_no_effect_outlives_the_process() -> None:
    known = ServiceEnvironment().happened("deploy", {"service": "order-api", "environment": "test"})
    assert (known.success, known.error_kind) == (False, "not_happened")
