import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from agentlab.environments.base import Suite, load_suite
from agentlab.environments.proofs import prove, prove_suite
from agentlab.environments.reference import Walk, run_in_thread, walk
from agentlab.records import Answer, Finding
from agentlab.scoring import CallRecord, Score, score_run
from agentlab.tasks import Defect, ReferenceStep, RequiredCall, Task, Text

ORDERS = load_suite("orders")
TOY = load_suite("toy")
ALL = [(suite, task) for suite in (ORDERS, TOY) for task in suite.tasks]
EVERY_TASK = pytest.mark.parametrize(("suite", "task"), ALL, ids=[task.id for _, task in ALL])


@EVERY_TASK
def test_every_task_is_proven(suite: Suite, task: Task) -> None:
    assert prove(task, suite) == []


@pytest.mark.parametrize("suite", [ORDERS, TOY], ids=lambda suite: suite.name)
def test_the_suites_are_proven_as_a_whole(suite: Suite) -> None:
    assert prove_suite(suite) == []


def _score(suite: Suite, task: Task, act: bool) -> Score:
    """The judgement of a run that claims exactly the truth, after the reference or after nothing at all."""
    environment = suite.make_environment({})
    environment.reset(task, 0)
    before = environment.facts()
    walked = run_in_thread(walk(environment, task)) if act else Walk(())
    after = environment.facts()
    environment.close()
    calls = [
        CallRecord(
            tool=step.tool.name,
            arguments=step.arguments,
            executed=True,
            success=step.result.success,
            passed=step.result.passed,
            check=step.result.check,
            subject=step.result.subject,
            error_kind=step.result.error_kind,
            visible=step.result.visible,
            effect=step.tool.effect,
        )
        for step in walked.steps
    ]
    findings = tuple(
        Finding(criterion.name, task.checks[criterion.key], criterion.subject) for criterion in task.criteria
    )
    return score_run(task, Answer(findings, task.true_verdict), "answered", calls, after, before)


@EVERY_TASK
def test_scoring_agrees_with_the_proof(suite: Suite, task: Task) -> None:
    expected = {"passed": "clean", "failed": "found", "incomplete": "incomplete_right"}[task.true_verdict]
    is_solvable = task.cluster != "toy-colour"
    done, idle = _score(suite, task, act=True), _score(suite, task, act=False)
    assert (done.success, idle.success) == (int(is_solvable), 0)
    if is_solvable:
        assert done.outcome == expected
    assert done.members_defective == len({m for members in task.failing_members.values() for m in members})


# One fault at a time in a copy of a task; each must be found, and named.

Change = Callable[[Task], dict[str, Any]]


def _step(task: Task, index: int, **changes: Any) -> tuple[ReferenceStep, ...]:
    steps = list(task.reference)
    steps[index] = steps[index].model_copy(update=changes)
    return tuple(steps)


FAULTS: list[tuple[str, str, Change, str]] = [
    ("reset fails", "order-1001", lambda t: {"initial_state": {"ordrs": {}}}, "reset fails: TaskError"),
    ("unknown tool", "order-1001", lambda t: {"reference": _step(t, 0, tool="query_order")}, "no tool 'query_order'"),
    ("wrong arguments", "order-1001", lambda t: {"reference": _step(t, 0, arguments={})}, "order_id is missing"),
    (
        "reference leads nowhere",
        "token-chain",
        lambda t: {"reference": _step(t, 2, arguments={"session_id": "steps.login.output.session"})},
        "leads nowhere",
    ),
    (
        "step fails",
        "order-1001",
        lambda t: {"reference": _step(t, 0, arguments={"order_id": "ORDER9999"})},
        "step 'query' (query_order_detail) failed: not_found",
    ),
    (
        "check not made",
        "order-1001",
        lambda t: {"reference": t.reference[:2]},
        "check status_valid@ORDER1001 is declared passed, but the steps show not_evaluated",
    ),
    (
        "wrong truth",
        "order-1002--source-data",
        lambda t: {"checks": {**t.checks, "status_valid@ORDER1002": "passed"}},
        "check status_valid@ORDER1002 is declared passed, but the steps show failed",
    ),
    (
        "evaluated after all",
        "order-9999--missing-order",
        lambda t: {"defects": (Defect(name="nothing"),)},
        "required evidence is missing: query_order_detail",
    ),
    (
        "one member not checked",
        "user-001",
        lambda t: {"reference": t.reference[:-1]},
        "check status_valid@USER001 is declared passed, but the steps show not_evaluated",
    ),
    (
        "wrong failing member",
        "user-001--negative-amount",
        lambda t: {"failing_members": {"amount_valid@USER001": ("ORDER1004",)}},
        "failing_members of amount_valid@USER001 are declared ['ORDER1004'], but the steps show ['ORDER1003']",
    ),
    (
        "required evidence never shown",
        "order-9999--missing-order",
        lambda t: {"required_evidence": (RequiredCall(tool="query_user", arguments={"user_id": "USER002"}),)},
        "required evidence is missing: query_user",
    ),
    (
        "defect without effect",
        "order-1001--negative-amount",
        lambda t: {
            "initial_state": {"orders": {"ORDER1001": {"amount": -1.0}}},
        },
        "defect 'negative_amount' is not detected",
    ),
    (
        "defect elsewhere",
        "order-1001--negative-amount",
        lambda t: {"defects": (Defect(name="elsewhere", changes={"orders": {"ORDER1002": {"amount": -1.0}}}),)},
        "defect 'elsewhere' is not detected",
    ),
    (
        "end state not reached",
        "toy-note",
        lambda t: {"end_state": {"writes": 2}},
        "end state 'writes' should be 2, but is 1",
    ),
    ("nothing to do", "order-1001", lambda t: {"reference": ()}, "the reference has no steps"),
    (
        "doing nothing succeeds",
        "order-9999--missing-order",
        lambda t: {"required_evidence": ()},
        "a run that does nothing meets the success rule",
    ),
    (
        "end state holds before",
        "toy-note",
        lambda t: {"end_state": {"published": []}},
        "the end state holds before the reference acts",
    ),
    (
        "failed without a defect",
        "order-1001--negative-amount",
        lambda t: {"defects": ()},
        "it has no defect, yet amount_valid@ORDER1001 is not passed",
    ),
    (
        "defect without a failed check",
        "order-1001",
        lambda t: {"defects": (Defect(name="quiet", changes={"users": {"USER001": {"name": "Li"}}}),)},
        "it has a defect, yet every check is passed",
    ),
    ("two defects unannounced", "order-1002--source-data", lambda t: {"tags": ()}, "a twin seeds exactly one defect"),
    ("other suite", "order-1001", lambda t: {"suite": "sales"}, "it says suite 'sales', but is in 'orders'"),
    ("proof waived outside toy", "order-1001", lambda t: {"proof": "waived(in a hurry)"}, "only the suite toy may do"),
    ("proof misspelt", "toy-colour", lambda t: {"proof": "waived"}, "use 'required', or 'waived(reason)'"),
    ("proof waived without reason", "toy-colour", lambda t: {"proof": "waived()"}, "use 'required', or"),
    ("proof waived for no reason", "toy-box", lambda t: {"proof": "waived(why not)"}, "yet the task is proven"),
    ("proof needed", "toy-done", lambda t: {"proof": "required"}, "the end state holds before the reference acts"),
    ("unsolvable", "toy-colour", lambda t: {"proof": "required"}, "declared passed, but the steps show not_evaluated"),
]


@pytest.mark.parametrize(("task_id", "change", "words"), [fault[1:] for fault in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_broken_task_is_caught(task_id: str, change: Change, words: str) -> None:
    suite = TOY if task_id.startswith("toy-") else ORDERS
    task = suite.task(task_id)
    problems = prove(task.model_copy(update=change(task)), suite)
    assert any(words in problem for problem in problems), problems


_ONE_CLUSTER = dataclasses.replace(ORDERS, tasks=tuple(task for task in ORDERS.tasks if task.cluster == "order-1001"))


def _suite_with(task_id: str, **changes: Any) -> Suite:
    tasks = [task.model_copy(update=changes) if task.id == task_id else task for task in _ONE_CLUSTER.tasks]
    return dataclasses.replace(_ONE_CLUSTER, tasks=tuple(tasks))


_TWIN = ORDERS.task("order-1001--unknown-status")


@pytest.mark.parametrize(
    ("suite", "words"),
    [
        (
            _suite_with(_TWIN.id, instruction=Text(zh=_TWIN.instruction.zh, en=_TWIN.instruction.en + " ")),
            "order-1001--unknown-status and order-1001 are of one cluster, but differ in instruction",
        ),
        (
            _suite_with(_TWIN.id, declared=_TWIN.declared.model_copy(update={"steps": 4})),
            "of one cluster, but differ in declared",
        ),
        (_suite_with(_TWIN.id, criteria=_TWIN.criteria[::-1]), "of one cluster, but differ in criteria"),
        (
            _suite_with(_TWIN.id, initial_state={"users": {"USER009": {}}}),
            "of one cluster, but differ in initial_state",
        ),
        (_suite_with(_TWIN.id, id="order-1001"), "task id 'order-1001' is used 2 times"),
        (_suite_with(_TWIN.id, cluster="alone"), "cluster 'alone' needs one healthy task and at least one defect twin"),
        (_suite_with(_TWIN.id, canonical=True), "subject 'ORDER1001' needs exactly one canonical task, and has 2"),
        (_suite_with(_TWIN.id, subject="ORDER1005"), "subject 'ORDER1005' needs exactly one canonical task, and has 0"),
        (
            dataclasses.replace(_ONE_CLUSTER, approved_tools={"order-1": ()}),
            "approved_tools names the task 'order-1', which does not exist",
        ),
        (
            dataclasses.replace(_ONE_CLUSTER, approved_tools={"order-1001": ("login",)}),
            "approved_tools of order-1001: 'login' is no tool with permission ask",
        ),
    ],
)
def test_a_broken_suite_is_caught(suite: Suite, words: str) -> None:
    assert prove_suite(_ONE_CLUSTER) == []
    problems = prove_suite(suite)
    assert any(words in problem for problem in problems), problems


def test_a_proof_works_inside_a_running_loop() -> None:
    async def inside() -> list[str]:
        return prove(ORDERS.task("order-1001"), ORDERS)

    assert asyncio.run(inside()) == []
