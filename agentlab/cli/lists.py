"""What `agentlab list` prints."""

from agentlab.environments.base import SUITES, load_suite
from agentlab.models.base import PROVIDERS
from agentlab.models.local_fetch import complete_parts
from agentlab.models.local_files import KNOWN_MODELS, KnownModel
from agentlab.strategies.base import STRATEGIES, build_strategy


def listing(kind: str, suite: str | None, language: str) -> str:
    """Return the names that exist, one per line with what they are.

    Args:
        kind: suites, tasks, strategies or models.
        suite: name, folder or module: only this suite, or only its tasks.
        language: zh or en.
    """
    if kind == "suites":
        return "\n".join(_suite_line(name, language) for name in ([suite] if suite else SUITES))
    if kind == "tasks":
        return "\n".join(line for name in ([suite] if suite else SUITES) for line in _task_lines(name, language))
    if kind == "strategies":
        return "\n".join(_strategy_line(name) for name in STRATEGIES)
    return "\n".join([*map(_provider_line, PROVIDERS), "", "Local models:", local_models()])


def local_models() -> str:
    """Return the known local models, one per line: size, licence, what they can do, and where the file is."""
    return "\n".join(_local_line(model) for model in KNOWN_MODELS.values())


def _provider_line(name: str) -> str:
    provider = PROVIDERS[name]
    can = ", ".join(provider.capabilities) if provider.capabilities is not None else "what the model behind it can"
    return f"{name + ':':<12} {provider.help}; e.g. {provider.example} [{can}]"


def _local_line(model: KnownModel) -> str:
    if model.path.is_file():
        where = str(model.path)
    else:
        parts = complete_parts(model)
        where = f"{parts} of {model.n_parts} parts fetched; go on" if parts else "not fetched; get it"
        where += f" with: agentlab local fetch {model.name}"
    facts = f"{model.title}, {model.size_bytes / 1e9:.1f} GB, {model.licence}"
    return f"local:{model.name:<20} {facts} [{', '.join(sorted(model.capabilities))}] {where}"


def _suite_line(name: str, language: str) -> str:
    suite = load_suite(name)
    n_tasks, n_flows = len(suite.tasks), len({task.cluster for task in suite.tasks})
    size = (
        f"（{n_tasks} 个任务，{n_flows} 条流程）"
        if language == "zh"
        else f" ({n_tasks} tasks in {n_flows} flow{'' if n_flows == 1 else 's'})"
    )
    return f"{name:<10} {suite.title.in_language(language)}{size}"


def _task_lines(name: str, language: str) -> list[str]:
    return [
        f"{task.id:<36} {'defective' if task.is_defective else 'healthy':<10} {task.instruction.in_language(language)}"
        for task in load_suite(name).tasks
    ]


def _strategy_line(name: str) -> str:
    strategy = build_strategy(name)
    summary = (type(strategy).__doc__ or "").strip().splitlines()[0]
    return f"{name:<14} answer by {strategy.answer_by}; {summary}"
