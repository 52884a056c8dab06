"""The suite `service`: optimising the performance of a back-end service, testing it and deploying it."""

from pathlib import Path

from agentlab.environments.base import Suite
from agentlab.environments.service.environment import ServiceEnvironment
from agentlab.environments.service.rules import RULES
from agentlab.environments.service.workers import WORKERS
from agentlab.tasks import Criterion, Text, load_tasks

DEFAULT_CRITERIA = (
    Criterion(
        name="response_time_halved",
        description=Text(
            zh="在实验环境中，响应时间降到优化前的一半或更低。",
            en="In the lab, the response time is at most half of what it was before.",
        ),
    ),
    Criterion(
        name="errors_not_up",
        description=Text(
            zh="在实验环境中，错误率没有上升。", en="In the lab, the error rate is not above what it was before."
        ),
    ),
    Criterion(
        name="resources_not_up",
        description=Text(
            zh="在实验环境中，CPU 和内存占用都没有上升。",
            en="In the lab, neither CPU nor memory use is above what it was before.",
        ),
    ),
)


def load_suite() -> Suite:
    """Return the suite."""
    tasks = tuple(load_tasks(Path(__file__).with_name("tasks.jsonl")))
    deploying = {task.cluster for task in tasks if any(step.tool == "deploy" for step in task.reference)}
    return Suite(
        name="service",
        title=Text(zh="服务优化", en="Service optimisation"),
        tasks=tasks,
        make_environment=ServiceEnvironment,
        default_criteria=DEFAULT_CRITERIA,
        # Twins of a flow that deploys are approved too: whether to deploy is theirs to decide.
        approved_tools={task.id: ("deploy",) for task in tasks if task.cluster in deploying},
        workers=WORKERS,
        rules=RULES,
    )
