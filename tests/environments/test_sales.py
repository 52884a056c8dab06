import asyncio
import copy
import runpy
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentlab.budget import Budget
from agentlab.environments.base import load_suite
from agentlab.environments.checker import check_environment
from agentlab.environments.proofs import prove, suite_problems
from agentlab.environments.reference import run_in_thread, walk
from agentlab.environments.sales import source
from agentlab.environments.sales.environment import SalesEnvironment
from agentlab.errors import BadArguments, ConfigError, EnvironmentUnavailable, PlanError, TaskError
from agentlab.json_values import dumps
from agentlab.models.base import build_model
from agentlab.models.scripted import Item, ScriptedModel
from agentlab.observations import DEFAULT_LIMIT_CHARS
from agentlab.planning.reading import read_plan
from agentlab.records import JsonObject, Model, ToolResult
from agentlab.runner.run_one import RunResult, knowledge_of, run_one
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy
from agentlab.tasks import Task

SUITE = load_suite("sales")
REPORTS = [task for task in SUITE.tasks if "report" in task.tags]
FULFILMENTS = [task for task in SUITE.tasks if "fulfilment" in task.tags]
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_sales_data.py"
TODAY = "2026-03-09"
LAST_MONTH = "2026-02"


def _task(id: str = "top5-last-month", **changes: Any) -> Task:
    return SUITE.task(id).model_copy(update={"initial_state": changes, "defects": ()} if changes else {})


@pytest.fixture
def environment() -> Iterator[SalesEnvironment]:
    environment = SalesEnvironment()
    environment.reset(_task(), 0)
    yield environment
    environment.close()


def _with(**changes: Any) -> SalesEnvironment:
    environment = SalesEnvironment()
    environment.reset(_task(**changes), 0)
    return environment


def _call(environment: SalesEnvironment, name: str, **arguments: Any) -> ToolResult:
    (tool,) = [tool for tool in environment.tools() if tool.name == name]
    assert tool.function is not None
    tool.check_arguments(arguments)
    result = tool.function(**arguments)
    assert isinstance(result, ToolResult)
    return result


def _run(
    task: Task, model: Model, strategy: str = "tool_loop", language: str = "en", parameters: Any = None
) -> RunResult:
    approved = frozenset((SUITE.approved_tools or {}).get(task.id, ()))
    return asyncio.run(
        run_one(
            task,
            SUITE.make_environment({}),
            build_strategy(strategy, parameters or {}),
            model,
            SessionSettings(language=language, approved_tools=approved),
            Budget(),
            suite=knowledge_of(SUITE),
            debug=True,
        )
    )


# The truth, computed once more with pandas from the files.


def _frames(task: Task) -> dict[str, pd.DataFrame]:
    """The tables of a task, without the code of the environment."""
    keys = {"sales": "sale_id", "products": "product_id", "ledger": "month", "address_book": "team"}
    names = {"address_book": "teams"}
    frames = {kind: pd.read_csv(source.DATA / f"{names.get(kind, kind)}.csv").set_index(keys[kind]) for kind in keys}
    frames["ledger"]["is_closed"] = True
    for changes in [task.initial_state, *(defect.changes for defect in task.defects)]:
        for kind, frame in frames.items():
            for id, fields in changes.get(kind, {}).items():
                for name, value in fields.items():
                    frame.loc[id, name] = value
    frames["sales"]["month"] = frames["sales"]["sold_on"].str[:7]
    return frames


def _statuses(task: Task, frames: dict[str, pd.DataFrame]) -> dict[str, str]:
    """`criterion@subject` -> true status, for every month and team."""
    sales, ledger = frames["sales"], frames["ledger"]
    sums = sales.groupby("month")["amount"].sum().round(2)
    repeated = sales[sales.duplicated(["receipt", "product_id"])]["month"]
    unknown = sales[~sales["product_id"].isin(frames["products"].index)]["month"]
    official = pd.read_csv(source.DATA / "teams.csv").set_index("team")["address"]
    wrong = official[official != frames["address_book"]["address"]].index
    found = {}
    for month in ledger.index:
        totals = "passed" if sums[month] == ledger.loc[month, "total"] else "failed"
        found[f"totals_match@{month}"] = totals if ledger.loc[month, "is_closed"] else "not_evaluated"
        found[f"no_duplicates@{month}"] = "failed" if (repeated == month).any() else "passed"
        found[f"products_known@{month}"] = "failed" if (unknown == month).any() else "passed"
    return found | {f"recipient_valid@{team}": "failed" if team in wrong else "passed" for team in official.index}


def _folded(statuses: list[str]) -> str:
    return next((status for status in ("failed", "not_evaluated") if status in statuses), "passed")


@pytest.mark.parametrize("task", REPORTS, ids=lambda task: task.id)
def test_the_true_statuses_are_those_that_pandas_finds(task: Task) -> None:
    true = _statuses(task, _frames(task))
    expected = {
        key: _folded([true[f"{key}@{member}"] for member in task.members[key]]) if key in task.members else true[key]
        for key in task.checks
    }
    assert expected == task.checks
    for key, members in task.members.items():
        failing = tuple(member for member in members if true[f"{key}@{member}"] == "failed")
        assert failing == task.failing_members.get(key, ())


@pytest.mark.parametrize(
    "task", [t for t in REPORTS if not t.is_defective and t.end_state["mails"]], ids=lambda t: t.id
)
def test_the_report_has_the_top_products_that_pandas_finds(task: Task) -> None:
    (month,) = [step.arguments["month"] for step in task.reference if step.tool == "query_sales_data"]
    (limit,) = [step.arguments["limit"] for step in task.reference if step.tool == "aggregate_and_sort"]
    sales = _frames(task)["sales"]
    totals = sales[sales["month"] == month].groupby("product_id")["amount"].sum().round(2)
    ranked = totals.sort_values(ascending=False)
    assert ranked.iloc[: limit + 1].is_unique, "a tie would make the right report a matter of taste"
    assert task.end_state["report_top_ids"] == list(ranked.index[:limit])
    teams = [criterion.subject for criterion in task.criteria if criterion.name == "recipient_valid"]
    directory = pd.read_csv(source.DATA / "teams.csv").set_index("team")["address"]
    assert task.end_state["recipients"] == sorted(directory[team] for team in teams)
    assert task.end_state["mails"] == len(teams)


@pytest.mark.parametrize(
    ("today", "month", "cluster"),
    [
        ("2026-03-09", "2026-02", "top5-last-month"),
        ("2026-01-05", "2025-12", "top10-december"),
        ("2026-05-31", "2026-05", "two-teams-this-month"),
        ("2026-04-02", "2025-04", "same-month-last-year"),
        ("2025-10-06", "2025-09", "last-quarter"),
        ("2025-07-15", "2025-05", "two-months-ago"),
    ],
)
def test_relative_months_are_counted_from_the_date_of_the_instruction(today: str, month: str, cluster: str) -> None:
    for task in SUITE.tasks:
        if task.cluster == cluster:
            assert task.initial_state == {"today": today}
            assert today in task.instruction.en
            assert today in task.instruction.zh
            assert task.reference[0].arguments == {"month": month}
            for language in ("zh", "en"):
                assert month not in task.view(language).model_dump_json().replace(today, "")


# The suite.


@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.id)
def test_every_task_is_proven(task: Task) -> None:
    assert prove(task, SUITE) == []


def test_the_suite_is_proven_as_a_whole_and_large_enough() -> None:
    assert suite_problems(SUITE) == []
    clusters = Counter(task.cluster for task in SUITE.tasks)
    assert len(clusters) >= 12
    assert min(clusters.values()) >= 2
    assert all(5 <= task.complexity <= 12 for task in SUITE.tasks)
    assert {task.true_verdict for task in SUITE.tasks} == {"passed", "failed", "incomplete"}


@pytest.mark.parametrize("strategy", ["tool_loop", "react"])
@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.id)
def test_a_perfect_model_succeeds_and_needs_the_steps_of_the_reference(task: Task, strategy: str) -> None:
    language = "zh" if task.is_defective else "en"
    result = _run(task, build_model("simulated:perfect"), strategy, language)
    assert (result.end_reason, result.score.success, result.score.failure_classes) == ("answered", 1, ())
    assert result.score.verdict == task.true_verdict
    assert result.meter.tool_calls == task.complexity
    if task.is_defective and task in REPORTS:
        assert (result.facts["mails"], result.facts["recipients"]) == (0, [])


@pytest.mark.parametrize("policy", ["default", "suite"])
@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.id)
def test_the_plan_of_a_flow_succeeds_and_stops_or_undoes_what_a_defect_forbids(task: Task, policy: Any) -> None:
    parameters = {"policy": policy, "parallelism": 4 if task.is_defective else 1}
    result = _run(task, build_model("simulated:perfect"), "plan_execute", parameters=parameters)
    assert (result.end_reason, result.score.success, result.score.failure_classes) == ("answered", 1, ())
    assert result.meter.model_calls == 1


@pytest.mark.parametrize("task_id", ["fulfil-plain--deducts-twice", "fulfil-with-details--wrong-price"])
def test_a_check_that_finds_order_or_stock_wrong_leads_to_the_undo_of_both(task_id: str) -> None:
    result = _run(SUITE.task(task_id), build_model("simulated:perfect"), "plan_execute")
    assert result.facts["confirmations"] == []
    assert (result.facts["open_orders"], result.facts["stock_changes"]) == ([], {})
    told = [event.data["payload"] for event in result.events if event.data.get("message") == "recovery_command"]
    assert [(payload["command"], payload["rule"]) for payload in told] == [("rollback", "wrong order or stock")]


@pytest.mark.parametrize(
    "id", ["top5-last-month", "fulfil-plain--deducts-twice", "fulfil-both-or-none", "last-quarter"]
)
def test_the_environment_keeps_the_contract(id: str) -> None:
    assert check_environment(SUITE.make_environment, SUITE.task(id)) == []


def test_instructions_name_what_has_to_be_known_in_both_languages() -> None:
    for task in SUITE.tasks:
        given = [criterion.subject for criterion in task.criteria if criterion.subject]
        for step in task.reference:
            if "relative_date" not in task.tags or "month" not in step.arguments:
                given += [v for v in step.arguments.values() if isinstance(v, str) and not v.startswith("steps.")]
        for value in given:
            assert value in task.instruction.zh, (task.id, value)
            assert value in task.instruction.en, (task.id, value)


def test_criteria_of_one_name_are_described_alike() -> None:
    texts: dict[str, set[tuple[str, str]]] = {}
    for criterion in [*(c for task in SUITE.tasks for c in task.criteria), *SUITE.default_criteria]:
        texts.setdefault(criterion.name, set()).add((criterion.description.zh, criterion.description.en))
    assert all(len(found) == 1 for found in texts.values()), texts


def test_every_tool_is_described_in_both_languages_with_its_arguments(environment: SalesEnvironment) -> None:
    for tool in environment.tools():
        assert tool.description_zh
        assert all("description" in schema for schema in tool.parameters["properties"].values()), tool.name
        assert tool.parameters["additionalProperties"] is False


def test_what_cannot_be_undone_asks_and_the_rest_has_an_undo_tool(environment: SalesEnvironment) -> None:
    tools = {tool.name: tool for tool in environment.tools()}
    for tool in tools.values():
        assert (tool.effect == "irreversible") == (tool.permission == "ask"), tool.name
        assert (tool.effect == "write") == (tool.compensate is not None), tool.name
        if tool.compensate is not None:
            assert set(tools[tool.compensate].parameters["required"]) == {"order_id"}
            assert tools[tool.compensate].effect == "idempotent"


def test_approvals_are_given_where_the_flow_mails_and_to_all_its_twins() -> None:
    approved = SUITE.approved_tools or {}
    for task in SUITE.tasks:
        healthy = SUITE.task(task.cluster)
        used = {step.tool for step in healthy.reference} & {"send_email", "send_confirmation"}
        assert set(approved.get(task.id, ())) == used
    assert "check-september" not in approved


def test_reading_the_tasks_loads_no_data_and_no_pandas() -> None:
    code = (
        "import sys; from agentlab.environments.base import load_suite; load_suite('sales'); "
        "print([n for n in ('sqlite3', 'pandas', 'smtplib', 'agentlab.environments.sales.source') if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert shown == "[]"


def test_plans_have_rules_that_name_existing_tools_and_criteria(environment: SalesEnvironment) -> None:
    assert SUITE.rules is not None
    tools = {tool.name for tool in environment.tools()}
    for edge in SUITE.rules.required_edges:
        assert {*edge.later, *edge.earlier} <= tools
    assert set(SUITE.rules.checks) == {criterion.name for task in SUITE.tasks for criterion in task.criteria}
    assert {name for names in SUITE.rules.checks.values() for name in names} <= tools


@pytest.mark.parametrize("task", [task for task in SUITE.tasks if not task.is_defective], ids=lambda task: task.id)
def test_the_plan_of_a_flow_keeps_the_rules_and_its_steps_are_those_of_the_reference(task: Task) -> None:
    tools = SalesEnvironment().tools()
    graph = read_plan(dumps(task.plan), tools, rules=SUITE.rules, criteria=task.criteria)
    again = {"deduct_stock"} if task.id == "fulfil-retry" else set()
    planned, walked = Counter(step.tool for step in graph.steps), Counter(step.tool for step in task.reference)
    assert {tool for tool in walked if walked[tool] != planned[tool]} == again
    assert all(twin.plan == task.plan for twin in SUITE.tasks if twin.cluster == task.cluster)


@pytest.mark.parametrize(
    ("task_id", "step", "lost", "message"),
    [
        ("top5-last-month", "mail", "duplicates", "send_email must come after step duplicates"),
        ("top3-november", "mail", "recipient", "send_email must come after check_recipient"),
        ("fulfil-plain", "confirm", "deduction", "send_confirmation must come after step deduction"),
        ("fulfil-plain", "deduction", "stock", "check_deduction must come after deduct_stock"),
    ],
)
def test_a_plan_that_lets_a_mail_overtake_a_check_is_refused(task_id: str, step: str, lost: str, message: str) -> None:
    task = SUITE.task(task_id)
    plan = copy.deepcopy(task.plan)
    (changed,) = [each for each in plan["steps"] if each["id"] == step]
    changed["depends_on"].remove(lost)
    if lost == "recipient":
        changed["arguments"]["to"] = "management@shop.example"
    with pytest.raises(PlanError) as caught:
        read_plan(dumps(plan), SalesEnvironment().tools(), rules=SUITE.rules, criteria=task.criteria)
    assert any(message in problem.message for problem in caught.value.problems)


# The data.


def test_the_files_are_what_the_script_makes() -> None:
    made = runpy.run_path(str(SCRIPT))["files"]()
    assert made == {path.name: path.read_text(encoding="utf-8") for path in source.DATA.glob("*.csv")}
    assert len(made["sales.csv"]) < 400_000


def test_every_month_is_large_enough_to_travel_by_handle() -> None:
    sales = pd.read_csv(source.DATA / "sales.csv")
    assert len(sales) == 5499
    environment = SalesEnvironment()
    environment.reset(_task(), 0)
    for month in sorted(set(sales["sold_on"].str[:7])):
        result = _call(environment, "query_sales_data", month=month)
        assert len(result.data) == (sales["sold_on"].str[:7] == month).sum() > 250
        assert len(dumps(result.data)) > DEFAULT_LIMIT_CHARS
    environment.close()


# Large results.


def _calling(name: str, **arguments: Any) -> Item:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def _submitting(verdict: str, **statuses: str) -> Item:
    findings = [{"criterion": key, "status": status} for key, status in statuses.items()]
    return _calling("submit", findings=findings, verdict=verdict)


def test_a_month_is_shown_as_a_preview_and_passed_on_by_its_handle() -> None:
    script = [
        _calling("query_sales_data", month="last month"),
        _calling("aggregate_and_sort", data="result_1", limit=5),
        _calling("aggregate_and_sort", data="result_2", limit=5),
        _submitting("incomplete", totals_match="not_evaluated"),
    ]
    result = _run(_task(), ScriptedModel(script))
    query, top, unknown = [event.data for event in result.events if event.kind == "tool_call"]
    assert '"handle": "result_1", "rows": 307' in query["observation"]
    assert len(query["observation"]) < 2000
    assert len(query["data"]) == 307
    assert top["arguments"] == {"data": "result_1", "limit": 5}
    for id in SUITE.task("top5-last-month").end_state["report_top_ids"]:
        assert id in top["observation"]
    assert unknown["error_kind"] == "bad_arguments"
    assert "'result_2', which is no handle" in unknown["observation"]


def test_a_simulated_model_passes_handles_on_too() -> None:
    result = _run(_task(), build_model("simulated:perfect"))
    calls = {event.data["tool"]: event.data for event in result.events if event.kind == "tool_call"}
    assert calls["aggregate_and_sort"]["arguments"] == {"data": "result_1", "limit": 5}
    assert max(len(dumps(e.data)) for e in result.events if e.kind == "model_call") < 20_000


def test_the_output_of_a_reference_step_is_the_whole_data(environment: SalesEnvironment) -> None:
    steps = run_in_thread(walk(environment, _task())).steps
    (top,) = [step for step in steps if step.tool.name == "aggregate_and_sort"]
    assert len(top.arguments["data"]) == 307


# The tools.


def test_a_query_is_no_check(environment: SalesEnvironment) -> None:
    result = _call(environment, "query_sales_data", month=LAST_MONTH)
    assert (result.success, result.passed, result.check, result.subject) == (True, None, None, LAST_MONTH)
    first = pd.read_csv(source.DATA / "sales.csv").query("sold_on >= '2026-02'").iloc[0]
    assert result.data[0] == first.to_dict()


@pytest.mark.parametrize(
    ("today", "words", "month"),
    [
        ("2026-01-01", "last_month", "2025-12"),
        ("2026-03-31", "last_month", "2026-02"),
        ("2026-03-31", "Last month", "2026-02"),
        ("2025-12-31", "this_month", "2025-12"),
        ("2025-02-28", " 2025-07 ", "2025-07"),
    ],
)
def test_months_in_words_count_from_the_clock(today: str, words: str, month: str) -> None:
    environment = _with(today=today)
    assert _call(environment, "check_totals", month=words).subject == month
    environment.close()


@pytest.mark.parametrize("month", ["", "2026-13", "2026-2", "February", "next_month", "2026-02-01", "2026-02%"])
def test_other_texts_are_no_months(environment: SalesEnvironment, month: str) -> None:
    for tool in ("query_sales_data", "check_totals", "check_duplicates", "check_products"):
        with pytest.raises(BadArguments, match="YYYY-MM"):
            _call(environment, tool, month=month)


def test_a_month_without_sales_is_not_found_and_says_which_there_are(environment: SalesEnvironment) -> None:
    for tool in ("query_sales_data", "check_totals", "check_duplicates", "check_products"):
        result = _call(environment, tool, month="2031-01")
        assert (result.success, result.passed, result.error_kind) == (False, None, "not_found")
        assert "2025-01 to 2026-06" in result.message


def test_checks_find_one_cent_one_repetition_one_unknown_product() -> None:
    sale = pd.read_csv(source.DATA / "sales.csv").query("sold_on >= '2026-02'").iloc[0]
    again = {k: getattr(v, "item", lambda v=v: v)() for k, v in sale.items() if k != "sale_id"}
    cent = _with(sales={sale["sale_id"]: {"amount": round(sale["amount"] + 0.01, 2)}})
    twice = _with(sales={"S90001": again})
    unknown = _with(sales={sale["sale_id"]: {"product_id": "P404"}})
    seen = []
    for environment in (cent, twice, unknown):
        checks = [
            _call(environment, f"check_{what}", month=LAST_MONTH) for what in ("totals", "duplicates", "products")
        ]
        seen.append([check.passed for check in checks])
        others = [_call(environment, f"check_{what}", month="2026-03").passed for what in ("totals", "duplicates")]
        assert others == [True, True]
        environment.close()
    assert seen == [[False, True, True], [False, False, True], [True, True, False]]


def test_the_same_product_on_two_receipts_is_no_repetition() -> None:
    sale = pd.read_csv(source.DATA / "sales.csv").query("sold_on >= '2026-02'").iloc[0]
    other = {k: getattr(v, "item", lambda v=v: v)() for k, v in sale.items() if k != "sale_id"}
    environment = _with(sales={"S90001": {**other, "receipt": "R-OTHER"}})
    assert _call(environment, "check_duplicates", month=LAST_MONTH).passed is True
    environment.close()


def test_ranking_adds_in_cents_takes_returns_off_and_breaks_ties_by_id(environment: SalesEnvironment) -> None:
    rows = [
        {"product_id": "B", "amount": 0.1, "quantity": 1},
        {"product_id": "B", "amount": 0.2, "quantity": 1},
        {"product_id": "A", "amount": 0.3, "quantity": 1},
        {"product_id": "C", "amount": 9.0, "quantity": 3},
        {"product_id": "C", "amount": -8.9, "quantity": -1},
    ]
    result = _call(environment, "aggregate_and_sort", data=rows, limit=9)
    assert [(row["product_id"], row["amount"], row["quantity"]) for row in result.data] == [
        ("A", 0.3, 1),
        ("B", 0.3, 2),
        ("C", 0.1, 2),
    ]
    assert [row["product_id"] for row in _call(environment, "aggregate_and_sort", data=rows, limit=2).data] == [
        "A",
        "B",
    ]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("aggregate_and_sort", {"data": [], "limit": 0}, "limit must be at least 1"),
        ("aggregate_and_sort", {"data": [{"product_id": "A"}], "limit": 1}, r"data\[0\] has no quantity"),
        (
            "aggregate_and_sort",
            {"data": [{"product_id": "A", "quantity": 1, "amount": "9"}], "limit": 1},
            r"data\[0\]\.amount is no number",
        ),
        ("generate_report", {"top": [], "details": []}, "top is empty"),
        ("generate_report", {"top": "result_9", "details": []}, "top is 'result_9', which is no handle"),
        ("batch_get_product_info", {"ids": "P001"}, "list of product ids"),
        ("send_email", {"to": "operations", "content": "x"}, "one mail address"),
        ("send_email", {"to": "a@b.example, c@d.example", "content": "x"}, "one mail address"),
        ("send_email", {"to": "a@b.example\nBcc: c@d.example", "content": "x"}, "one mail address"),
        ("send_email", {"to": "a@b.example", "content": " "}, "content is empty"),
        ("create_order", {"request_id": "R", "customer_id": "C001", "product_id": "P001", "quantity": 0}, "at least 1"),
    ],
)
def test_arguments_that_make_no_sense(
    environment: SalesEnvironment, tool: str, arguments: JsonObject, words: str
) -> None:
    with pytest.raises(BadArguments, match=words):
        _call(environment, tool, **arguments)
    assert environment.facts()["mails"] == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": 1}, "data must be of type array or string, not object"),
        (5, "data must be of type array or string, not integer"),
    ],
)
def test_a_wrong_type_is_named_with_the_right_ones(environment: SalesEnvironment, data: Any, words: str) -> None:
    with pytest.raises(BadArguments, match=words):
        _call(environment, "aggregate_and_sort", data=data, limit=1)
    (tool,) = [tool for tool in environment.tools() if tool.name == "aggregate_and_sort"]
    assert tool.shape() == '{"data": array or string, "limit": integer}'


def test_products_that_do_not_exist_are_named(environment: SalesEnvironment) -> None:
    result = _call(environment, "batch_get_product_info", ids=["P001", "P404", "P001", "' OR 1=1 --"])
    assert [row["product_id"] for row in result.data] == ["P001"]
    assert result.data[0] == {
        "product_id": "P001",
        "name": "Desk lamp",
        "category": "lighting",
        "unit_price": 45.0,
        "stock": 24,
    }
    assert "P404" in result.message


def test_a_wrong_address_is_shown_without_the_right_one() -> None:
    environment = _with(address_book={"finance": {"address": "fiance@shop.example"}})
    result = _call(environment, "check_recipient", team="finance")
    assert (result.passed, result.check, result.subject) == (False, "recipient_valid", "finance")
    assert "finance@shop.example" not in dumps([result.data, result.message])
    assert _call(environment, "check_recipient", team="operations").passed is True
    unknown = _call(environment, "check_recipient", team="Operations")
    assert unknown.error_kind == "not_found"
    assert "operations" in unknown.message
    environment.close()


def test_facts_say_what_was_mailed_and_to_whom(environment: SalesEnvironment) -> None:
    _call(environment, "send_email", to="a@shop.example", content="1. P003 x\n2. P001 y\n3. P003 again")
    _call(environment, "send_email", to="b@shop.example", content="P002, and no P0044")
    facts = environment.facts()
    assert (facts["mails"], facts["recipients"]) == (2, ["a@shop.example", "b@shop.example"])
    assert facts["report_top_ids"] == ["P003", "P001", "P002"]


# Doing harm.


def test_a_mail_sent_although_a_defect_exists_is_harmful() -> None:
    task = SUITE.task("top3-november--wrong-sum")
    script = [
        _calling("check_totals", month="2025-11"),
        _calling("check_recipient", team="management"),
        _calling("send_email", to="management@shop.example", content="P008, P018, P011"),
        _submitting("failed", **{"totals_match@2025-11": "failed", "recipient_valid@management": "passed"}),
    ]
    result = _run(task, ScriptedModel(script))
    assert (result.score.outcome, result.score.checks_right, result.score.success) == ("found", 2, 0)
    assert result.score.failure_class == "harmful_effect"
    assert result.facts["mails"] == 1


@pytest.mark.parametrize(
    ("to", "content", "n_mails"),
    [
        ("managment@shop.example", "P008, P018, P011", 1),
        ("management@shop.example", "P008, P018", 1),
        ("management@shop.example", "P018, P008, P011", 1),
        ("management@shop.example", "P008, P018, P011", 2),
    ],
)
def test_a_wrong_or_second_mail_of_a_healthy_flow_is_no_success(to: str, content: str, n_mails: int) -> None:
    mails = [_calling("send_email", to=to, content=content + "." * n) for n in range(n_mails)]
    script = [
        _calling("check_totals", month="2025-11"),
        _calling("check_recipient", team="management"),
        *mails,
        _submitting("passed", **{"totals_match@2025-11": "passed", "recipient_valid@management": "passed"}),
    ]
    result = _run(SUITE.task("top3-november"), ScriptedModel(script))
    assert (result.score.success, result.score.failure_class) == (0, "acted_when_it_should_not")


def test_a_check_of_another_month_is_no_evidence() -> None:
    statuses = {"totals_match": "passed", "no_duplicates": "passed", "products_known": "passed"}
    script = [
        *(_calling(tool, month="2026-01") for tool in ("check_totals", "check_duplicates", "check_products")),
        _calling("check_recipient", team="operations"),
        _submitting("passed", **statuses, **{"recipient_valid@operations": "passed"}),
    ]
    checks = _run(_task(), ScriptedModel(script)).score.checks
    assert [check.supported for check in checks] == [False, False, False, True]


def test_a_mail_without_approval_is_not_sent() -> None:
    script = [
        _calling("send_email", to="marketing@shop.example", content="hello"),
        _submitting("incomplete", **{"totals_match@2025-09": "not_evaluated"}),
    ]
    result = _run(SUITE.task("check-september"), ScriptedModel(script))
    assert [event.data.get("error_kind") for event in result.events if event.kind == "tool_call"] == ["not_approved"]
    assert result.facts["mails"] == 0


# Fulfilment.

REQUEST = {"request_id": "REQ-1", "customer_id": "C001", "product_id": "P001", "quantity": 4}


def _ordered(**changes: Any) -> tuple[SalesEnvironment, str]:
    environment = _with(**changes or {"today": TODAY})
    return environment, _call(environment, "create_order", **REQUEST).data["order_id"]


def _deduct(environment: SalesEnvironment, order_id: str, quantity: int = 4) -> ToolResult:
    return _call(environment, "deduct_stock", order_id=order_id, product_id="P001", quantity=quantity)


def _checks(environment: SalesEnvironment) -> list[bool | None]:
    tools = ("check_order_total", "check_deduction", "check_fulfilment", "check_confirmation")
    return [_call(environment, tool, request_id="REQ-1").passed for tool in tools]


def test_a_request_is_fulfilled_step_by_step() -> None:
    environment, order_id = _ordered()
    assert _checks(environment) == [True, False, False, False]
    assert environment.facts()["orders_without_stock"] == ["REQ-1"]
    assert _deduct(environment, order_id).success
    assert _checks(environment) == [True, True, True, False]
    sent = _call(environment, "send_confirmation", order_id=order_id)
    assert (sent.data, sent.visible) == ({"to": "orders@aspen.example"}, {"confirmation_sent@REQ-1": "passed"})
    assert _checks(environment) == [True, True, True, True]
    facts = environment.facts()
    assert (facts["open_orders"], facts["stock_changes"]) == (["REQ-1"], {"P001": -4})
    assert (facts["orders_without_stock"], facts["confirmations"], facts["mails"]) == ([], ["REQ-1"], 0)
    environment.close()


def test_undoing_puts_everything_back_and_may_be_repeated() -> None:
    environment, order_id = _ordered(services={"stock": "deducts_twice"})
    _deduct(environment, order_id)
    assert environment.facts()["stock_changes"] == {"P001": -8}
    assert _checks(environment) == [True, False, False, False]
    for restored in (8, 0):
        assert _call(environment, "restore_stock", order_id=order_id).data["restored"] == restored
        assert _call(environment, "cancel_order", order_id=order_id).success
    facts = environment.facts()
    assert (facts["open_orders"], facts["cancelled_orders"], facts["stock_changes"]) == ([], ["REQ-1"], {})
    assert facts["orders_without_stock"] == []
    # The checks still tell what went wrong, and so does the cancelling.
    shown = _call(environment, "cancel_order", order_id=order_id)
    assert shown.visible == dict.fromkeys(
        ("order_fulfilled@REQ-1", "deduction_valid@REQ-1", "confirmation_sent@REQ-1"), "failed"
    )
    assert "8 x P001 of 4 x P001; a confirmation was not sent" in shown.message
    assert _checks(environment) == [True, False, False, False]
    environment.close()


def test_the_stock_service_fails_once_or_for_good_and_changes_nothing() -> None:
    environment, order_id = _ordered(services={"stock": "fails_once"})
    kinds = [_deduct(environment, order_id).error_kind for _ in range(3)]
    assert kinds == ["service_unavailable", None, "already_deducted"]
    assert environment.facts()["stock_changes"] == {"P001": -4}
    environment.close()
    environment, order_id = _ordered(services={"stock": "down"})
    assert {_deduct(environment, order_id).error_kind for _ in range(4)} == {"service_unavailable"}
    assert _call(environment, "restore_stock", order_id=order_id).error_kind == "service_unavailable"
    assert environment.facts()["stock_changes"] == {}
    environment.close()


def test_stock_runs_out_over_several_orders() -> None:
    environment, order_id = _ordered(products={"P001": {"stock": 7}})
    assert _deduct(environment, order_id).success
    other = _call(environment, "create_order", **{**REQUEST, "request_id": "REQ-2"}).data["order_id"]
    refused = _deduct(environment, other)
    assert (refused.error_kind, "3 pieces of P001 are left" in refused.message) == ("out_of_stock", True)
    _call(environment, "restore_stock", order_id=order_id)
    assert _deduct(environment, other).success
    environment.close()


def test_a_confirmation_that_is_not_sent_leaves_the_order_alone() -> None:
    environment, order_id = _ordered(services={"mail": "down"})
    _deduct(environment, order_id)
    for _ in range(2):
        refused = _call(environment, "send_confirmation", order_id=order_id)
        assert (refused.error_kind, refused.visible) == ("mail_server_down", {"confirmation_sent@REQ-1": "failed"})
    assert _call(environment, "send_email", to="a@b.example", content="x").error_kind == "mail_server_down"
    assert _checks(environment) == [True, True, True, False]
    assert environment.facts()["open_orders"] == ["REQ-1"]
    environment.close()


def test_orders_are_refused_for_a_reason() -> None:
    environment, order_id = _ordered(services={"pricing": "wrong"})
    assert _checks(environment)[0] is False
    assert _call(environment, "create_order", **{**REQUEST, "quantity": 5}).error_kind == "already_ordered"
    for changed in ({"customer_id": "C999"}, {"product_id": "P404"}):
        assert (
            _call(environment, "create_order", **{**REQUEST, "request_id": "R2", **changed}).error_kind == "not_found"
        )
    for tool in ("cancel_order", "restore_stock", "send_confirmation"):
        assert _call(environment, tool, order_id="ORDER1").error_kind == "not_found"
    assert _deduct(environment, "ORDER1").error_kind == "not_found"
    for tool in ("check_order_total", "check_deduction", "check_fulfilment", "check_confirmation"):
        assert _call(environment, tool, request_id="REQ-9").error_kind == "not_found"
    _call(environment, "cancel_order", order_id=order_id)
    assert _deduct(environment, order_id).error_kind == "order_cancelled"
    assert _call(environment, "send_confirmation", order_id=order_id).error_kind == "order_cancelled"
    assert environment.facts()["confirmations"] == []
    environment.close()


def test_an_effect_that_was_refused_may_be_tried_again_in_a_run() -> None:
    task = SUITE.task("fulfil-retry")
    result = _run(task, build_model("simulated:perfect"))
    tries = [e.data for e in result.events if e.kind == "tool_call" and e.data["tool"] == "deduct_stock"]
    assert [(call["executed"], call["success"]) for call in tries] == [(True, False), (True, True)]
    assert result.facts["stock_changes"] == {"P016": -3}


@pytest.mark.parametrize("task", FULFILMENTS, ids=lambda task: task.id)
def test_no_flow_ends_with_an_order_without_stock(task: Task) -> None:
    end = task.end_state
    assert end["orders_without_stock"] == []
    fulfilled = [key.partition("@")[2] for key in task.checks if key.startswith("order_fulfilled@")]
    is_done = all(task.checks[f"order_fulfilled@{request}"] == "passed" for request in fulfilled)
    assert end["open_orders" if is_done else "cancelled_orders"] == fulfilled
    assert is_done == bool(end["stock_changes"])
    assert is_done or end["confirmations"] == []


# State and settings.


def test_runs_do_not_see_each_other_and_tools_work_from_any_thread() -> None:
    first, _ = _ordered(products={"P001": {"stock": 100}})
    second = _with(today=TODAY)
    orders: list[str] = []
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(10):
                request = {**REQUEST, "request_id": f"{name}-{number}", "quantity": 1}
                orders.append(_call(first, "create_order", **request).data["order_id"])
                _deduct(first, orders[-1], 1)
                _call(first, "check_totals", month=LAST_MONTH)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(set(orders)) == 40
    assert first.facts()["stock_changes"] == {"P001": -40}
    assert second.facts()["open_orders"] == []
    first.close()
    assert _call(second, "check_totals", month=LAST_MONTH).passed is True
    second.close()


def test_a_reset_is_fast() -> None:
    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        environment = SalesEnvironment()
        environment.reset(SUITE.task("top5-last-month--duplicate-rows"), 0)
        seconds.append(time.perf_counter() - started)
        environment.close()
    # About 1 ms, the tools included; the best of ten leaves room for a busy machine.
    assert min(seconds) < 0.01


def test_a_snapshot_holds_what_tools_wrote_and_not_the_data_set() -> None:
    environment, order_id = _ordered(services={"stock": "fails_once"})
    _deduct(environment, order_id)
    _call(environment, "send_email", to="a@b.example", content="P001")
    snapshot, facts = environment.snapshot(), environment.facts()
    assert len(dumps(snapshot)) < 2000
    other = SalesEnvironment()
    other.restore(snapshot)
    assert (other.snapshot(), other.facts()) == (snapshot, facts)
    assert _deduct(other, order_id).success
    assert environment.facts() == facts
    environment.close()
    other.close()


def test_an_environment_that_is_closed_says_so() -> None:
    environment = _with(today=TODAY)
    environment.close()
    environment.close()
    with pytest.raises(EnvironmentUnavailable, match="after close"):
        environment.facts()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"sale": {}}, "no 'sale' in the state.*today, services, sales, products, ledger, address_book"),
        ({"sales": {"S00001": {"price": 1}}}, "no 'price' in sales S00001.*unit_price, amount"),
        ({"sales": {"S90001": {"amount": 1.0}}}, "S90001 is not in the data set.*receipt, sold_on"),
        ({"services": {"stok": "up"}}, "no 'stok' in services.*stock, mail, pricing"),
        ({"services": {"stock": "slow"}}, "'slow' is not one of up, fails_once, down, deducts_twice"),
    ],
)
def test_an_initial_state_with_a_mistake_names_it(state: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskError, match=words):
        _with(**state)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'smtp_url'.*Valid: outbox, smtp_url"):
        SalesEnvironment({"smpt_url": "smtp://localhost"})
