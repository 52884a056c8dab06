"""The suite `orders`: checking orders, users, refunds and logins of a small shop back end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentlab.environments.base import Environment, Suite
from agentlab.environments.orders.rules import RULES
from agentlab.tasks import Criterion, Text, load_tasks

DEFAULT_CRITERIA = (
    Criterion(
        name="amount_valid", description=Text(zh="订单金额不为负数。", en="The amount of the order is not negative.")
    ),
    Criterion(
        name="status_valid",
        description=Text(
            zh="订单状态是 paid、pending、cancelled 之一。",
            en="The status of the order is one of paid, pending, cancelled.",
        ),
    ),
)


def load_suite() -> Suite:
    """Return the suite."""
    return Suite(
        name="orders",
        title=Text(zh="订单检查", en="Order checks"),
        tasks=tuple(load_tasks(Path(__file__).with_name("tasks.jsonl"))),
        make_environment=_make_environment,
        default_criteria=DEFAULT_CRITERIA,
        rules=RULES,
    )


def _make_environment(settings: Mapping[str, Any]) -> Environment:
    # Imported on use: reading the tasks must not load SQLAlchemy.
    from agentlab.environments.orders.environment import OrdersEnvironment

    return OrdersEnvironment(settings)
