"""What `agentlab list` prints."""

from agentlab.environments.base import SUITES, load_suite
from agentlab.models.base import PROVIDERS
from agentlab.strategies.base import STRATEGIES, build_strategy


def listing(kind: str, suite: str | None, language: str) -> str:
    """Return the names that exist, one per line with what they are.

    Args:
        kind: suites, tasks, strategies or models.
        suite: for tasks: only those of this suite.
        language: zh or en.
    """
    if kind == "suites":
        return "\n".join(_suite_line(name, language) for name in SUITES)
    if kind == "tasks":
        return "\n".join(line for name in ([suite] if suite else SUITES) for line in _task_lines(name, language))
    if kind == "strategies":
        return "\n".join(_strategy_line(name) for name in STRATEGIES)
    return "\n".join(
        f"{name + ':':<12} {provider.help}; e.g. {provider.example}" for name, provider in PROVIDERS.items()
    )


def _suite_line(name: str, language: str) -> str:
    suite = load_suite(name)
    n_clusters = len({task.cluster for task in suite.tasks})
    return f"{name:<10} {suite.title.in_language(language)} ({len(suite.tasks)} tasks in {n_clusters} flows)"


def _task_lines(name: str, language: str) -> list[str]:
    return [
        f"{task.id:<36} {'defective' if task.is_defective else 'healthy':<10} {task.instruction.in_language(language)}"
        for task in load_suite(name).tasks
    ]


def _strategy_line(name: str) -> str:
    strategy = build_strategy(name)
    summary = (type(strategy).__doc__ or "").strip().splitlines()[0]
    return f"{name:<14} answer by {strategy.answer_by}; {summary}"
