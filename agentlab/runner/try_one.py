"""One run outside any experiment: `agentlab try`, and the notebooks that show a task step by step."""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentlab.budget import Budget
from agentlab.environments.base import SUITES, Suite, load_suite
from agentlab.errors import ConfigError
from agentlab.models.base import build_model
from agentlab.records import Event, Model
from agentlab.runner.run_one import RunResult, knowledge_of, run_one
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy, parameters_of
from agentlab.tasks import NO_TRUTH_TAG, Declared, Task, Text

TRY_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Resolved:
    """The task that a text stands for."""

    task: Task
    has_truth: bool
    """False for free text: it runs with the suite's default criteria and cannot be judged."""


def resolve_task(suite: Suite, text: str) -> Resolved:
    """Return the task that `text` names: an id, an instruction, or exactly one subject such as ORDER1002.

    Among tasks that share the instruction or the subject the canonical one wins. Any other text becomes a
    task without truth.

    Raises:
        ConfigError: it would be a task without truth, and the suite has no default criteria for one.
    """
    by_id = [task for task in suite.tasks if task.id == text.strip()]
    by_instruction = [
        task for task in suite.tasks if text.strip() in (task.instruction.en.strip(), task.instruction.zh.strip())
    ]
    found = by_id or by_instruction or _by_subject(suite, text)
    if found:
        return Resolved(next((task for task in found if task.canonical), found[0]), True)
    if not suite.default_criteria:
        raise ConfigError(
            f"{text!r} is no task of the suite {suite.name}, and the suite has no default_criteria for free text. "
            f"Its tasks: {', '.join(task.id for task in suite.tasks)}."
        )
    free = Task(
        id="free-text",
        suite=suite.name,
        instruction=Text(zh=text, en=text),
        environment=suite.tasks[0].environment,
        initial_state={},
        criteria=suite.default_criteria,
        checks={criterion.key: "passed" for criterion in suite.default_criteria},
        reference=(),
        cluster="free-text",
        declared=Declared(steps=len(suite.default_criteria) + 1),
        tags=(NO_TRUTH_TAG,),
    )
    return Resolved(free, False)


def no_truth(suite: Suite, text: str) -> ConfigError:
    """Return the error for a text without truth that a simulated model is asked about, with near names."""
    near = difflib.get_close_matches(text.strip(), _names(suite), n=3)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    if elsewhere := [name for name in SUITES if text.strip() in _names(load_suite(name))]:
        meant = f" It is one of another suite: --suite {elsewhere[0]}."
    return ConfigError(
        f"{text!r} names no task of the suite {suite.name}.{meant} As free text it has no truth, which a "
        "simulated model answers from. Name a task (`agentlab list tasks --suite SUITE` shows them), or take a real "
        "model (`--model openai:NAME`)."
    )


def _names(suite: Suite) -> list[str]:
    subjects = dict.fromkeys(task.subject for task in suite.tasks if task.subject)
    return [*subjects, *(task.id for task in suite.tasks)]


async def try_task(
    text: str,
    *,
    suite: str | Suite = "orders",
    strategy: str = "tool_loop",
    model: str | Model = "simulated:perfect",
    language: str = "en",
    parameters: dict[str, Any] | None = None,
    temperature: float = 0.0,
    seed: int = 0,
    on_event: Callable[[Event], Any] | None = None,
) -> tuple[RunResult, bool]:
    """Return the result of one run, and whether its truth is known.

    Args:
        text: a task id, an instruction, a subject, or free text.
        suite: name, folder or module of a suite (as for `load_suite`), or one.
        strategy: name of a strategy.
        model: `provider:name`, or a model object (which is then not closed here).
        language: zh or en.
        parameters: of the strategy; `max_rounds` is 8 unless given, for strategies that have it.
        temperature: sampling temperature.
        seed: of environment and model.
        on_event: called with every event as it happens.

    Raises:
        ConfigError: an unknown name; a simulated model asked for a task without truth.
    """
    held = load_suite(suite) if isinstance(suite, str) else suite
    resolved = resolve_task(held, text)
    thinker = build_model(model) if isinstance(model, str) else model
    chosen = dict(parameters or {})
    if "max_rounds" in parameters_of(strategy):
        chosen.setdefault("max_rounds", TRY_ROUNDS)
    if thinker.kind == "simulated" and not resolved.has_truth:
        raise no_truth(held, text)
    settings = SessionSettings(
        language=language,
        temperature=temperature,
        approved_tools=frozenset((held.approved_tools or {}).get(resolved.task.id, ())),
    )
    try:
        result = await run_one(
            resolved.task,
            held.new_environment({}),
            build_strategy(strategy, chosen),
            thinker,
            settings,
            Budget(),
            suite=knowledge_of(held, is_free_text=not resolved.has_truth),
            seed=seed,
            on_event=on_event,
        )
    finally:
        if isinstance(model, str):
            await thinker.close()
    return result, resolved.has_truth


def _by_subject(suite: Suite, text: str) -> list[Task]:
    subjects = {task.subject for task in suite.tasks if task.subject}
    named = {subject for subject in subjects if re.search(rf"(?<!\w){re.escape(subject)}(?!\w)", text, re.ASCII)}
    return [task for task in suite.tasks if task.subject in named] if len(named) == 1 else []
