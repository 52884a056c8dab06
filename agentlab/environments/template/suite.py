"""What agentlab loads: the tasks, and the environment that they run on."""

from pathlib import Path

from agentlab.environments.base import Suite
from agentlab.tasks import Criterion, Text, load_tasks

from .environment import FlagEnvironment


def load_suite() -> Suite:
    """Return the suite."""
    return Suite(
        name="feature_flags",
        title=Text(zh="功能开关检查", en="Feature flag checks"),
        tasks=tuple(load_tasks(Path(__file__).with_name("tasks.jsonl"))),
        make_environment=FlagEnvironment,
        # What `agentlab try "some free text"` reports on.
        default_criteria=(
            Criterion(
                name="rollout_valid",
                description=Text(zh="灰度比例在 0 到 100 之间。", en="The rollout is between 0 and 100 percent."),
            ),
        ),
    )
