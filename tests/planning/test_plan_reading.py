import json
from pathlib import Path
from typing import Any

import pytest
from plan_runner import Runner

from agentlab.errors import PlanError
from agentlab.planning.plan import Analysis, PlanGraph, PlanStep
from agentlab.planning.reading import read_plan
from agentlab.records import ToolResult
from agentlab.references import Reference
from agentlab.tools import Tool, tools_from_schemas

FILE = json.loads((Path(__file__).parents[1] / "cases" / "plans.json").read_text(encoding="utf-8"))
TOOLS = FILE["tools"]
CASES = {case["id"]: case for case in FILE["cases"]}


def read(case_id: str) -> PlanGraph:
    given = CASES[case_id]["input"]
    return read_plan(given["text"], TOOLS, given.get("limit", 20))


def outcome(case_id: str) -> PlanGraph | PlanError:
    try:
        return read(case_id)
    except PlanError as error:
        return error


def result_of(value: Any) -> ToolResult:
    """What the session makes of a tool's return value: a result in its own form, or plain data."""
    known = {"success", "passed", "message", "data"}
    return ToolResult(**value) if isinstance(value, dict) and set(value) <= known else ToolResult(True, data=value)


def run(case_id: str) -> Runner:
    results = CASES[case_id]["input"]["tool_results"]
    runner = Runner(read(case_id), lambda name, arguments: result_of(results.get(name, {"success": True})))
    runner.run()
    return runner


@pytest.mark.parametrize("case_id", CASES)
def test_every_case_ends_as_it_should(case_id: str) -> None:
    expect = CASES[case_id]["expect"]
    given = outcome(case_id)
    option = next(each for each in expect.get("any_of", [expect]) if each["valid"] == isinstance(given, PlanGraph))
    if isinstance(given, PlanError):
        wanted = [each["problem"] for each in option.get("problems", [option])]
        assert list(given.codes) == wanted
        for name in option.get("names", []):
            assert name in str(given)
        for each, problem in zip(option.get("problems", []), given.problems, strict=False):
            assert (problem.step, each["name"] in problem.message) == (each["id"], True)
        assert given.explanation == option.get("explanation", "")
        return
    if "tasks" in option:
        shown = [
            {"id": s.id, "tool": s.tool, "arguments": dict(s.arguments), "depends_on": list(s.depends_on)}
            for s in given.steps
        ]
        assert shown == option["tasks"]
    if "waves" in option:
        assert [list(wave) for wave in given.waves()] == option["waves"]
    for name, earlier in option.get("must_run_after", {}).items():
        assert set(earlier) <= set(given.ancestors(name))


def test_c03_the_description_is_exact() -> None:
    assert read("C03").steps[0].description == "it's, ok"


def test_c09_the_reference_counts_as_a_dependency_and_the_plan_says_so() -> None:
    graph = read("C09")
    assert graph.step("3").depends_on == ("2", "1")
    assert graph.notes == ("3: depends on 1, because it refers to steps.1.output",)
    assert graph.step("3").arguments == {"data": Reference("1"), "limit": 5}


def test_c10_a_path_into_an_empty_list_fails_the_step_and_not_the_tool() -> None:
    runner = run("C10")
    assert runner.executed == CASES["C10"]["expect"]["executed"]
    assert runner.statuses == CASES["C10"]["expect"]["status"]
    error = runner.state["2"].error
    assert error is not None
    assert "steps.1.output.items[0].id leads nowhere: items has 0 entries" in error.message
    assert runner.state.cause_chain("3") == ("2",)


def test_c13_says_how_many_and_how_many_are_allowed() -> None:
    assert "21 steps, but at most 20" in str(outcome("C13"))
    assert len(read_plan(CASES["C13"]["input"]["text"], TOOLS, 21)) == 21


def test_c14_nothing_to_do_is_no_reason_to_invent_a_step() -> None:
    error = outcome("C14")
    assert isinstance(error, PlanError)
    assert "again" not in error.feedback()
    assert "重新" not in error.feedback("zh")


def test_c15_the_feedback_asks_for_a_json_plan() -> None:
    error = outcome("C15")
    assert isinstance(error, PlanError)
    assert "one JSON object" in error.feedback()
    assert "JSON 对象" in error.feedback("zh")
    assert "没有执行任何工具" in error.feedback("zh")


def test_c16_a_reference_by_id_gives_the_whole_output() -> None:
    assert dict(run("C16").calls)["2"] == CASES["C16"]["expect"]["executed_with"]["2"]


def test_c17_a_check_that_does_not_pass_is_no_failed_step() -> None:
    runner, expect = run("C17"), CASES["C17"]["expect"]
    assert runner.statuses == expect["status"]
    assert list(runner.state.checks_not_passed()) == expect["checks_not_passed"]
    counts = runner.state.counts()
    assert {name: counts[name] for name in expect["counts"]} == expect["counts"]  # type: ignore[index]


# Beyond the cases


def plan(*steps: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"steps": steps, **fields}, ensure_ascii=False)


def look(step_id: str, *depends_on: str, **fields: Any) -> dict[str, Any]:
    arguments = {"order_id": "O1"}
    return {"id": step_id, "tool": "query_order_detail", "arguments": arguments, "depends_on": [*depends_on], **fields}


def refused(text: str, **options: Any) -> PlanError:
    with pytest.raises(PlanError) as caught:
        read_plan(text, TOOLS, **options)
    return caught.value


def test_goal_analysis_and_explanation_come_along() -> None:
    analysis = {"goal": "faster", "constraints": ["reversible"], "successCriteria": "half the time"}
    graph = read_plan(plan(look("a"), goal="检查", analysis=analysis, explanation="short"), TOOLS)
    assert (graph.goal, graph.explanation) == ("检查", "short")
    assert graph.analysis == Analysis("faster", ("reversible",), ("half the time",))
    assert read_plan(plan(look("a"), analysis="check it"), TOOLS).analysis == Analysis("check it")
    assert read_plan(plan(look("a"), analysis=5), TOOLS).analysis is None


def test_other_fields_of_the_plan_are_refused_unless_they_mean_nothing() -> None:
    error = refused(plan(look("a"), look("b"), edges=[["a", "b"]]))
    assert error.codes == ("unknown_fields",)
    assert "edges" in str(error)
    assert error.problems[0].step is None
    assert read_plan(plan(look("a"), thought="well", created_at="now"), TOOLS).notes == (
        "plan: left out thought, created_at",
    )


def test_every_problem_is_reported_at_once_in_the_order_of_the_rules() -> None:
    text = plan(
        look("a", "ghost"),
        look("a", colour="red"),
        {"id": "c", "tool": "fly", "arguments": {"x": "steps.nobody.output"}, "depends_on": "a"},
        {"id": "d", "tool": "create_refund", "arguments": {"order_id": 5, "x": 1}, "depends_on": ["d"]},
        "e",
        *(look(f"f{i}") for i in range(16)),
    )
    error = refused(text)
    assert error.codes == (
        "too_many_tasks", "not_an_object", "duplicate_id", "unknown_tool", "missing_argument", "extra_argument",
        "bad_argument", "dependencies_not_list", "unknown_dependency", "cycle", "unknown_fields", "unknown_reference",
    )  # fmt: skip


def test_a_list_of_steps_is_needed() -> None:
    error = refused('{"tasks": {"id": "a"}}')
    assert error.codes == ("not_a_list",)
    assert '"tasks" is {"id": "a"}, not a list' in str(error)


def test_control_tools_are_no_plan_steps() -> None:
    tools = [*tools_from_schemas(TOOLS), Tool("submit", "ends the run", {"type": "object"}, is_control=True)]
    with pytest.raises(PlanError, match='there is no tool "submit"'):
        read_plan(plan({"id": "a", "tool": "submit"}), tools)


def test_a_map_step_takes_its_list_from_another_step() -> None:
    text = plan(
        {"id": "orders", "tool": "list_orders", "arguments": {"user_id": "U1"}},
        {"id": "amounts", "tool": "check_order_amount", "over": "steps.orders.output.orders",
         "arguments": {"order_id": "item.order_id"}},
        {"id": "report", "tool": "write_report", "arguments": {"content": "$amounts"}, "dependsOn": ["amounts"]},
    )  # fmt: skip
    graph = read_plan(text, TOOLS)
    assert graph.step("amounts").depends_on == ("orders",)
    assert graph.step("amounts").over == Reference("orders", ("orders",))
    assert graph.step("report").arguments == {"content": Reference("amounts")}
    assert graph.notes == ("amounts: depends on orders, because it refers to steps.orders.output.orders",)


def test_an_ancestor_needs_no_note_and_a_weak_dependency_stays_weak() -> None:
    text = plan(
        look("a"),
        look("b", "a"),
        {"id": "c", "tool": "write_report", "arguments": {"content": "steps.a.output"}, "depends_on": ["b"]},
        {"id": "d", "tool": "create_refund", "depends_on": ["a"], "weak_depends_on": ["b"],
         "arguments": {"order_id": "O1", "amount": 1, "notify": "steps.b.output.flag"}},
    )  # fmt: skip
    graph = read_plan(text, TOOLS)
    assert graph.notes == ()
    assert graph.step("d").depends_on == ("a",)


def test_a_reference_that_closes_a_cycle_is_a_cycle() -> None:
    error = refused(plan(look("a", arguments={"order_id": "steps.b.output.id"}), look("b", "a")))
    assert error.codes == ("cycle",)
    assert "a -> b -> a" in str(error)


DONE = PlanStep("q", tool="list_orders", arguments={"user_id": "U1"}, output="orders")


def test_a_new_plan_keeps_what_has_completed() -> None:
    again = {"id": "q", "tool": "list_orders", "arguments": {"user_id": "U1"}}
    check = {"id": "c", "tool": "check_order_amount", "arguments": {"order_id": "$orders.orders[0].order_id"}}
    graph = read_plan(plan(again, check), TOOLS, 2, done=[DONE])
    assert [step.id for step in graph.steps] == ["q", "c"]
    assert graph.step("q") == DONE
    assert graph.step("c").depends_on == ("q",)
    assert graph.notes[0] == "q: has completed already and is kept"
    error = refused(plan({**again, "arguments": {"user_id": "U2"}}), done=[DONE])
    assert error.codes == ("changed_step",)
    assert "q" in str(error)


def test_a_completed_step_keeps_no_tie_to_a_step_that_did_not_complete() -> None:
    refund = PlanStep(
        "r", tool="create_refund", weak_depends_on=("q", "lost"), depends_on=("q",),
        arguments={"order_id": "O1", "amount": 1, "notify": Reference("lost", ("flag",))},
    )  # fmt: skip
    graph = read_plan(plan(look("n", "r")), TOOLS, done=[DONE, refund])
    assert graph.step("r").weak_depends_on == ("q",)
    assert graph.step("r").arguments == {"order_id": "O1", "amount": 1}


def test_workers_and_what_they_may_use() -> None:
    workers = {"db": ["query_order_detail"], "mail": []}
    assert read_plan(plan(look("a", worker="db")), TOOLS, workers=workers).step("a").worker_type == "db"
    assert refused(plan(look("a", worker="cache")), workers=workers).codes == ("unknown_worker",)
    assert refused(plan(look("a", worker="mail")), workers=workers).codes == ("wrong_worker",)
    assert read_plan(plan(look("a", worker="cache")), TOOLS).step("a").worker_type == "cache"
