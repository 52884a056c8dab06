import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.environments.base import load_suite
from agentlab.environments.orders.environment import OrdersEnvironment
from agentlab.environments.reference import run_in_thread, walk
from agentlab.errors import ConfigError, EnvironmentUnavailable, TaskError
from agentlab.records import ToolResult
from agentlab.tasks import Task

SUITE = load_suite("orders")


def _canonical(subject: str) -> Task:
    (task,) = [task for task in SUITE.tasks if task.subject == subject and task.canonical]
    return task


def _source(**changes: Any) -> Task:
    return _canonical("ORDER1001").model_copy(update={"initial_state": changes, "defects": ()})


@pytest.fixture
def environment() -> Iterator[OrdersEnvironment]:
    environment = OrdersEnvironment()
    environment.reset(_source(), 7)
    yield environment
    environment.close()


def _call(environment: OrdersEnvironment, name: str, **arguments: str) -> ToolResult:
    (tool,) = [tool for tool in environment.tools() if tool.name == name]
    assert tool.function is not None
    tool.check_arguments(arguments)
    result = tool.function(**arguments)
    assert isinstance(result, ToolResult)
    return result


# The source's own results (REQUIREMENTS 000.28, 000.29, 001.6, 001.7, and the rules of 1.7).


def test_the_source_data_is_there_exactly(environment: OrdersEnvironment) -> None:
    first = _call(environment, "query_order_detail", order_id="ORDER1001")
    second = _call(environment, "query_order_detail", order_id="ORDER1002")
    assert first.data == {"order_id": "ORDER1001", "amount": 199.0, "status": "paid", "user_id": "USER001"}
    assert second.data == {"order_id": "ORDER1002", "amount": -20.0, "status": "unknown", "user_id": "USER002"}
    assert (first.success, first.passed, first.check) == (True, None, None)


def test_order1002_is_executed_three_times_and_has_two_checks_not_passed() -> None:
    environment = OrdersEnvironment()
    task = _canonical("ORDER1002")
    environment.reset(task, 0)
    results = run_in_thread(walk(environment, task)).results
    environment.close()
    assert [result.success for result in results] == [True, True, True]
    assert [result.passed for result in results] == [None, False, False]
    assert results[1].data["amount"] == -20.0
    assert results[2].data["status"] == "unknown"
    assert task.true_verdict == "failed"


@pytest.mark.parametrize("tool", ["query_order_detail", "check_order_amount", "check_order_status"])
def test_order9999_is_not_found_and_nothing_is_evaluated(environment: OrdersEnvironment, tool: str) -> None:
    result = _call(environment, tool, order_id="ORDER9999")
    assert (result.success, result.passed, result.error_kind) == (False, None, "not_found")
    assert "ORDER9999 does not exist" in result.message
    assert result.check is None


@pytest.mark.parametrize(
    ("subject", "id", "verdict"),
    [
        ("ORDER1001", "order-1001", "passed"),
        ("ORDER1002", "order-1002--source-data", "failed"),
        ("ORDER9999", "order-9999--missing-order", "incomplete"),
        ("USER001", "user-001", "passed"),
    ],
)
def test_a_subject_resolves_to_the_task_of_the_source(subject: str, id: str, verdict: str) -> None:
    task = _canonical(subject)
    assert (task.id, task.true_verdict) == (id, verdict)


def test_user001_owns_order1001_and_the_declared_extra_orders() -> None:
    environment = OrdersEnvironment()
    task = _canonical("USER001")
    environment.reset(task, 0)
    orders = _call(environment, "query_user_orders", user_id="USER001").data["orders"]
    environment.close()
    assert [order["order_id"] for order in orders] == ["ORDER1001", "ORDER1003", "ORDER1004"]
    assert task.members["amount_valid@USER001"] == ("ORDER1001", "ORDER1003", "ORDER1004")
    assert task.declared.steps == 7


# The suite.


def test_the_suite_is_large_enough_to_decide_something() -> None:
    clusters = {task.cluster for task in SUITE.tasks}
    incomplete = {task.cluster for task in SUITE.tasks if task.true_verdict == "incomplete"}
    assert len(clusters) >= 14
    assert len(SUITE.tasks) >= 36
    assert len(incomplete) >= 4
    assert max(task.complexity for task in SUITE.tasks) == 12
    assert all(2 <= task.complexity <= 12 for task in SUITE.tasks if not task.is_defective)


def test_instructions_name_what_the_criteria_are_about_in_both_languages() -> None:
    for task in SUITE.tasks:
        for criterion in task.criteria:
            assert criterion.subject in task.instruction.zh, task.id
            assert criterion.subject in task.instruction.en, task.id


def test_instructions_name_the_inputs_that_the_reference_uses() -> None:
    for task in SUITE.tasks:
        for step in task.reference:
            for value in step.arguments.values():
                if not value.startswith("steps."):
                    assert value in task.instruction.zh, (task.id, value)
                    assert value in task.instruction.en, (task.id, value)


def test_criteria_of_one_name_are_described_alike() -> None:
    texts: dict[tuple[str, bool], set[str]] = {}
    for task in SUITE.tasks:
        for criterion in task.criteria:
            assert criterion.description.zh
            key = (criterion.name, criterion.key in task.members or criterion.subject.startswith("USER"))
            texts.setdefault(key, set()).add(criterion.description.en)
    assert all(len(found) == 1 for found in texts.values()), texts


def test_reading_the_tasks_does_not_load_sqlalchemy() -> None:
    code = (
        "import sys; from agentlab.environments.base import load_suite; load_suite('orders'); load_suite('toy'); "
        "print('sqlalchemy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert shown == "False"


def test_every_tool_is_described_in_both_languages_with_its_arguments(environment: OrdersEnvironment) -> None:
    for tool in environment.tools():
        assert tool.description
        assert tool.description_zh
        assert all("description" in schema for schema in tool.parameters["properties"].values()), tool.name
        assert tool.parameters["additionalProperties"] is False


# The tools.


def test_an_amount_of_zero_is_valid_and_one_cent_below_is_not() -> None:
    environment = OrdersEnvironment()
    orders = {"ORDER1": {"amount": 0.0}, "ORDER2": {"amount": -0.01}, "ORDER3": {"amount": 19.99}}
    environment.reset(_source(orders=orders), 0)
    results = [_call(environment, "check_order_amount", order_id=id) for id in orders]
    environment.close()
    assert [(result.passed, result.data["amount"]) for result in results] == [
        (True, 0.0),
        (False, -0.01),
        (True, 19.99),
    ]


@pytest.mark.parametrize(
    ("status", "passed"), [("paid", True), ("pending", True), ("cancelled", True), ("unknown", False), ("PAID", False)]
)
def test_allowed_statuses(status: str, passed: bool) -> None:
    environment = OrdersEnvironment()
    environment.reset(_source(orders={"ORDER1001": {"status": status}}), 0)
    result = _call(environment, "check_order_status", order_id="ORDER1001")
    environment.close()
    assert (result.success, result.passed, result.check, result.subject) == (True, passed, "status_valid", "ORDER1001")


@pytest.mark.parametrize(
    ("status", "refunds", "passed"),
    [
        ("paid", [], True),
        ("paid", [99.5, 99.5], True),
        ("paid", [199.01], False),
        ("cancelled", [99.5, 99.5], True),
        ("cancelled", [99.5], False),
        ("cancelled", [], False),
        ("cancelled", [199.0, 1.0], False),
    ],
)
def test_refunds(status: str, refunds: list[float], passed: bool) -> None:
    environment = OrdersEnvironment()
    rows = {f"REFUND{i}": {"order_id": "ORDER1001", "amount": amount} for i, amount in enumerate(refunds)}
    environment.reset(_source(orders={"ORDER1001": {"status": status}}, refunds=rows), 0)
    result = _call(environment, "check_refund_amount", order_id="ORDER1001")
    environment.close()
    assert (result.passed, result.check) == (passed, "refund_valid")
    assert result.data["refunded"] == sum(refunds)


def test_the_order_of_another_user_is_noticed(environment: OrdersEnvironment) -> None:
    right = _call(environment, "check_order_owner", order_id="ORDER1001", user_id="USER001")
    wrong = _call(environment, "check_order_owner", order_id="ORDER1001", user_id="USER002")
    assert (right.passed, wrong.passed) == (True, False)
    assert wrong.data["user_id"] == "USER001"


def test_same_amount_counts_for_both_orders_whichever_comes_first(environment: OrdersEnvironment) -> None:
    result = _call(environment, "check_same_amount", order_id="ORDER1001", other_order_id="ORDER1002")
    assert result.passed is False
    assert result.visible == {"same_amount@ORDER1001": "failed", "same_amount@ORDER1002": "failed"}
    missing = _call(environment, "check_same_amount", order_id="ORDER1001", other_order_id="ORDER9999")
    assert missing.error_kind == "not_found"


def test_users(environment: OrdersEnvironment) -> None:
    assert _call(environment, "query_user", user_id="USER001").data == {
        "user_id": "USER001",
        "name": "Lin",
        "state": "active",
    }
    assert _call(environment, "check_user_valid", user_id="USER001").passed is True
    for tool in ("query_user", "check_user_valid", "query_user_orders"):
        assert _call(environment, tool, user_id="USER999").error_kind == "not_found"


def test_a_model_may_send_any_text_as_an_id(environment: OrdersEnvironment) -> None:
    for id in (
        "",
        "order1001",
        "ORDER1001 ",
        "ORDER\x001001",
        "\ud800",
        "'; drop table agentlab_orders; --",
        "单" * 5000,
    ):
        assert _call(environment, "query_order_detail", order_id=id).error_kind == "not_found"
    assert _call(environment, "query_order_detail", order_id="ORDER1001").success


# Logins and tokens.

LOGIN = {
    "users": {"U1": {"password": "right-1"}, "U2": {"password": "right-2", "state": "frozen"}},
    "orders": {
        "OPEN": {"amount": 5.0, "user_id": "U1"},
        "OWN": {"amount": -5.0, "user_id": "U1", "is_protected": True},
        "FOREIGN": {"amount": 9.0, "user_id": "U2", "is_protected": True},
    },
    "sessions": {"OLD": {"user_id": "U1", "token": "OLD-TOKEN", "is_expired": True}},
}


def _with_login(seed: int = 3, **user_changes: str) -> OrdersEnvironment:
    environment = OrdersEnvironment()
    users = {id: {**fields, **user_changes} for id, fields in LOGIN["users"].items()}
    environment.reset(_source(**{**LOGIN, "users": users}), seed)
    return environment


def _token(environment: OrdersEnvironment) -> str:
    login = _call(environment, "login", user_id="U1", password="right-1")
    return str(_call(environment, "get_token", session_id=login.data["session_id"]).data["token"])


def test_the_chain_of_login_token_query_and_check() -> None:
    environment = _with_login()
    token = _token(environment)
    query = _call(environment, "query_order_with_token", order_id="OWN", token=token)
    check = _call(environment, "check_amount_with_token", order_id="OWN", token=token)
    assert (query.passed, query.check, query.data["amount"]) == (None, None, -5.0)
    assert (check.passed, check.check, check.subject) == (False, "amount_valid", "OWN")
    assert environment.facts()["logged_in"] == ["U1"]
    environment.close()


def test_ids_of_sessions_and_tokens_follow_from_the_seed_alone() -> None:
    tokens = []
    for seed in (3, 3, 4):
        environment = _with_login(seed)
        tokens += [_token(environment), _token(environment)]
        environment.close()
    assert len(set(tokens[:4])) == 1
    assert tokens[4] == tokens[5] != tokens[0]


@pytest.mark.parametrize(
    ("user", "password", "accepted", "shown"),
    [
        ("U1", "right-1", True, {"login_valid@U1": "passed"}),
        ("U1", "wrong", False, {"login_refused@U1": "passed"}),
        ("U1", "", False, {"login_refused@U1": "passed"}),
        ("U2", "right-2", False, {"login_refused@U2": "passed"}),
        ("U9", "any", False, {"login_refused@U9": "passed"}),
    ],
)
def test_a_login_shows_the_criterion_it_is_about(
    user: str, password: str, accepted: bool, shown: dict[str, str]
) -> None:
    environment = _with_login()
    result = _call(environment, "login", user_id=user, password=password)
    environment.close()
    assert (result.success, result.passed, dict(result.visible)) == (accepted, None, shown)
    assert result.error_kind == (None if accepted else "login_refused")


@pytest.mark.parametrize(
    ("rule", "user", "password", "shown"),
    [
        ("refuses_all", "U1", "right-1", {"login_valid@U1": "failed"}),
        ("accepts_any_password", "U1", "wrong", {"login_refused@U1": "failed"}),
        ("accepts_any_password", "U2", "wrong", {"login_refused@U2": "passed"}),
        ("accepts_frozen", "U2", "right-2", {"login_refused@U2": "failed"}),
        ("accepts_frozen", "U2", "wrong", {"login_refused@U2": "passed"}),
    ],
)
def test_faults_of_the_login(rule: str, user: str, password: str, shown: dict[str, str]) -> None:
    environment = _with_login(login_rule=rule)
    result = _call(environment, "login", user_id=user, password=password)
    environment.close()
    assert dict(result.visible) == shown


def test_protected_orders_need_a_token() -> None:
    environment = _with_login()
    for tool in ("query_order_detail", "check_order_amount", "check_order_status", "check_refund_amount"):
        assert _call(environment, tool, order_id="OWN").error_kind == "token_required"
    listed = _call(environment, "query_user_orders", user_id="U1").data["orders"]
    environment.close()
    assert [sorted(order) for order in listed] == [
        ["amount", "order_id", "status", "user_id"],
        ["needs_token", "order_id"],
    ]


def test_tokens_are_refused_for_a_reason() -> None:
    environment = _with_login()
    token = _token(environment)
    foreign = _call(environment, "query_order_with_token", order_id="FOREIGN", token=token)
    expired = _call(environment, "check_amount_with_token", order_id="OWN", token="OLD-TOKEN")
    unknown = _call(environment, "query_order_with_token", order_id="OWN", token="made-up")
    missing = _call(environment, "query_order_with_token", order_id="NONE", token=token)
    environment.close()
    assert (foreign.error_kind, dict(foreign.visible)) == ("forbidden", {"access_refused@FOREIGN": "passed"})
    assert (expired.error_kind, dict(expired.visible)) == ("token_expired", {"access_refused@OWN": "passed"})
    # A made-up token proves nothing about the token that the task is about.
    assert (unknown.error_kind, dict(unknown.visible)) == ("token_invalid", {})
    assert missing.error_kind == "not_found"


def test_a_fault_shows_the_order_to_a_token_that_must_not_see_it() -> None:
    environment = _with_login(token_rule="never_expires")
    old = _call(environment, "query_order_with_token", order_id="OWN", token="OLD-TOKEN")
    environment.close()
    assert (old.success, dict(old.visible)) == (True, {"access_refused@OWN": "failed"})


def test_a_detour_around_a_blocking_defect_is_a_fact() -> None:
    task = SUITE.task("login-then-order--login-refused")
    environment = OrdersEnvironment()
    environment.reset(task, 0)
    _call(environment, "query_order_detail", order_id="ORDER4002")
    _call(environment, "login", user_id="USER006", password="wrong")
    assert environment.facts()["detours"] == []
    _call(environment, "login", user_id="USER006", password="stone-606")
    assert environment.facts()["detours"] == []
    _call(environment, "query_order_detail", order_id="ORDER4002")
    assert environment.facts()["detours"] == ["login_refused"]
    environment.reset(SUITE.task("login-then-order"), 0)
    assert environment.facts()["detours"] == []
    environment.close()


# State, threads, databases.


def test_tools_work_from_other_threads_at_the_same_time() -> None:
    environment = _with_login()
    results: list[ToolResult] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                results.append(_call(environment, "query_order_detail", order_id="OPEN"))
                results.append(_call(environment, "login", user_id="U1", password="right-1"))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    environment.close()
    assert errors == []
    assert len(results) == 240
    assert all(result.success for result in results)


def test_a_reset_is_fast(environment: OrdersEnvironment) -> None:
    task = SUITE.task("account-closing")
    seconds = []
    for _ in range(20):
        started = time.perf_counter()
        fresh = OrdersEnvironment()
        fresh.reset(task, 1)
        seconds.append(time.perf_counter() - started)
        fresh.close()
    # About 0.8 ms on the machine it was written on; the best of twenty leaves room for a busy one.
    assert min(seconds) < 0.005


def _rows(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        tables = ("users", "orders", "refunds", "sessions")
        counts = [connection.execute(f"select count(*) from agentlab_{name}").fetchone()[0] for name in tables]
    connection.close()
    return sum(counts)


def test_two_runs_share_a_database_file_without_seeing_each_other(tmp_path: Path) -> None:
    path = tmp_path / "own.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table orders (mine text)")
        connection.execute("insert into orders values ('stays')")
    connection.close()
    settings = {"database_url": f"sqlite:///{path}"}
    first, second = OrdersEnvironment(settings), OrdersEnvironment(settings)
    first.reset(SUITE.task("token-chain"), 1)
    second.reset(SUITE.task("token-chain--negative-amount"), 1)
    amounts = []
    for environment in (first, second):
        login = _call(environment, "login", user_id="USER005", password="river-505")
        token = _call(environment, "get_token", session_id=login.data["session_id"]).data["token"]
        amounts.append(_call(environment, "query_order_with_token", order_id="ORDER4001", token=token).data["amount"])
    assert amounts == [88.0, -88.0]
    before = second.snapshot()
    first.close()
    assert second.snapshot() == before
    assert _rows(path) > 0
    second.close()
    assert _rows(path) == 0
    with sqlite3.connect(path) as connection:
        assert connection.execute("select mine from orders").fetchall() == [("stays",)]
    connection.close()


def test_concurrent_runs_in_one_database_file_all_see_their_own_truth(tmp_path: Path) -> None:
    settings = {"database_url": f"sqlite:///{tmp_path / 'shared.sqlite'}"}
    tasks = [task for task in SUITE.tasks if task.cluster in ("order-1001", "token-chain", "order-9999")]
    wrong: list[str] = []

    def work(task: Task) -> None:
        try:
            for _ in range(3):
                environment = OrdersEnvironment(settings)
                environment.reset(task, 0)
                walked = run_in_thread(walk(environment, task))
                environment.close()
                seen = [result.passed for result in walked.results if result.check == "amount_valid"]
                if (False in seen) != (
                    task.checks.get("amount_valid@ORDER1001", "") == "failed" or "negative" in task.id
                ):
                    wrong.append(task.id)
        except Exception as error:
            wrong.append(f"{task.id}: {error!r}")

    threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert _rows(tmp_path / "shared.sqlite") == 0


def test_snapshot_and_restore_bring_logins_back() -> None:
    environment = _with_login()
    before = json.loads(json.dumps(environment.snapshot()))
    token = _token(environment)
    after = json.loads(json.dumps(environment.snapshot()))
    environment.restore(before)
    assert _call(environment, "query_order_with_token", order_id="OWN", token=token).error_kind == "token_invalid"
    environment.restore(after)
    assert _call(environment, "query_order_with_token", order_id="OWN", token=token).success
    environment.close()


def test_a_tool_called_after_close_does_not_open_the_database_again() -> None:
    environment = OrdersEnvironment()
    environment.reset(_source(), 0)
    environment.close()
    environment.close()
    with pytest.raises(EnvironmentUnavailable, match="after close"):
        _call(environment, "query_order_detail", order_id="ORDER1001")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"databse_url": "sqlite://"}, "Did you mean 'database_url'"),
        ({"database_url": "nonsense"}, "sqlite:///orders.sqlite"),
        ({"database_url": "oracle9://user:topsecret1@host/name"}, "oracle9"),
        ({"database_url": 5}, "must be text"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        OrdersEnvironment(settings)
    assert "topsecret1" not in str(caught.value)


def test_a_database_that_does_not_open_is_infrastructure(tmp_path: Path) -> None:
    environment = OrdersEnvironment({"database_url": f"sqlite:///{tmp_path}/no/such/folder/x.sqlite"})
    with pytest.raises(EnvironmentUnavailable, match="unable to open database file") as caught:
        environment.reset(_source(), 0)
    assert "database_url" in str(caught.value)
    environment.close()


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"ordrs": {}}, "no 'ordrs'.*users, orders, refunds, sessions"),
        ({"orders": {"X": {"amnt": 1}}}, "X: orders have no field 'amnt'"),
        ({"users": {"X": {"state": "asleep"}}}, "X: state 'asleep' is not one of active, frozen"),
    ],
)
def test_an_initial_state_with_a_mistake_names_it(state: dict[str, Any], words: str) -> None:
    environment = OrdersEnvironment()
    with pytest.raises(TaskError, match=words):
        environment.reset(_source(**state), 0)
    environment.close()
