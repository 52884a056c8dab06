"""The suite that the benchmark runs: the toy environment with enough boxes for long runs."""

from agentlab.environments.base import Suite
from agentlab.environments.toy.environment import ToyEnvironment
from agentlab.tasks import Task, Text

BOXES = 40


def load_suite() -> Suite:
    """Return the suite with its one task."""
    task = Task.model_validate(
        {
            "id": "boxes-1",
            "suite": "boxes",
            "environment": "boxes",
            "cluster": "boxes",
            "instruction": {
                "zh": "检查箱子 BOX-1 里的数是否有效。",
                "en": "Check whether the number in BOX-1 is valid.",
            },
            "criteria": [
                {
                    "name": "box_valid",
                    "subject": "BOX-1",
                    "description": {"zh": "箱子里的数不为负。", "en": "The number in the box is not negative."},
                }
            ],
            "declared": {"steps": 20},
            "initial_state": {"numbers": {f"BOX-{number}": number for number in range(1, BOXES + 1)}},
            "checks": {"box_valid@BOX-1": "passed"},
            "reference": [{"id": "check", "tool": "check_box", "arguments": {"name": "BOX-1"}}],
        }
    )
    return Suite("boxes", Text(zh="箱子", en="Boxes"), (task,), ToyEnvironment)
