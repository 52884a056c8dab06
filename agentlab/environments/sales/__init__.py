"""The suite `sales`: monthly sales reports that are checked and mailed, and orders that are fulfilled or undone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlab.environments.base import Environment, Suite
from agentlab.environments.sales.rules import FAILURE_POLICY, RULES
from agentlab.tasks import Criterion, Task, Text, load_tasks

DEFAULT_CRITERIA = (
    Criterion(
        name="totals_match",
        description=Text(
            zh="所涉及月份的销售合计与总账一致。",
            en="The sales of the months in question add up to the total in the ledger.",
        ),
    ),
    Criterion(
        name="no_duplicates",
        description=Text(
            zh="所涉及月份没有重复的销售记录。", en="No sale of the months in question is recorded twice."
        ),
    ),
    Criterion(
        name="products_known",
        description=Text(
            zh="所涉及月份售出的商品都在商品目录中。",
            en="Every product sold in the months in question is in the catalogue.",
        ),
    ),
)
APPROVED = ("send_email", "send_confirmation")
"""Approved beforehand in the tasks that ask for them: a mail is a normal part of those flows."""


def load_suite() -> Suite:
    """Return the suite."""
    tasks = tuple(load_tasks(Path(__file__).with_name("tasks.jsonl")))
    return Suite(
        name="sales",
        title=Text(zh="销售报告与订单履约", en="Sales reports and order fulfilment"),
        tasks=tasks,
        make_environment=_make_environment,
        default_criteria=DEFAULT_CRITERIA,
        approved_tools=_approvals(tasks),
        rules=RULES,
        policy=FAILURE_POLICY,
    )


def _approvals(tasks: tuple[Task, ...]) -> dict[str, tuple[str, ...]]:
    """Task id -> the tools that its flow is meant to use; a defect twin has the approvals of its healthy task."""
    used = {
        task.cluster: tuple(name for name in APPROVED if any(step.tool == name for step in task.reference))
        for task in tasks
        if not task.is_defective
    }
    return {task.id: used[task.cluster] for task in tasks if used[task.cluster]}


def _make_environment(settings: Mapping[str, Any]) -> Environment:
    # Imported on use: reading the tasks must not load the data set.
    from agentlab.environments.sales.environment import SalesEnvironment

    return SalesEnvironment(settings)
