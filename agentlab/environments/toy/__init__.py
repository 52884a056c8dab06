"""The suite `toy`: one small flow per kind of failure, without SQL, for tests and demonstrations."""

from pathlib import Path

from agentlab.environments.base import Suite
from agentlab.environments.toy.environment import ToyEnvironment
from agentlab.tasks import Criterion, Task, Text, load_tasks


def load_suite() -> Suite:
    """Return the suite."""
    tasks = tuple(load_tasks(Path(__file__).with_name("tasks.jsonl")))
    return Suite(
        name="toy",
        title=Text(zh="玩具环境", en="Toy"),
        tasks=tasks,
        make_environment=ToyEnvironment,
        default_criteria=(
            Criterion(
                name="box_valid", description=Text(zh="箱子里的数不为负。", en="The number in the box is not negative.")
            ),
        ),
        approved_tools={task.id: ("publish",) for task in tasks if task.cluster == "toy-publish"},
    )


def canaries(task: Task) -> tuple[str, ...]:
    """Return texts of a toy task that may never reach a request, an observation or a memory.

    They are its id, its cluster, the names of its defects, the ids of its reference steps, and the texts of
    its end state.
    """
    ends = (value for value in task.end_state.values() if isinstance(value, str))
    return (
        task.id,
        task.cluster,
        *(defect.name for defect in task.defects),
        *(step.id for step in task.reference),
        *ends,
    )
