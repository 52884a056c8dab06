"""The suite `cart_tests`: the tests of a small Python project, run with pytest."""

from pathlib import Path

from agentlab.environments.base import Suite
from agentlab.tasks import Text, load_tasks

from .environment import ProjectEnvironment


def load_suite() -> Suite:
    """Return the suite."""
    return Suite(
        name="cart_tests",
        title=Text(zh="用 pytest 检查购物车项目", en="Checks of a cart project with pytest"),
        tasks=tuple(load_tasks(Path(__file__).with_name("tasks.jsonl"))),
        make_environment=ProjectEnvironment,
    )
