"""The contract of a strategy, and the strategies that are known by name."""

import functools
import hashlib
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from agentlab.errors import BudgetExceeded, ConfigError, unknown_name
from agentlab.prompts import load_prompt
from agentlab.records import Answer, Message, ReplyFormat
from agentlab.session import Session

STRATEGIES: dict[str, str] = {
    "tool_loop": "agentlab.strategies.tool_loop:ToolLoop",
    "react": "agentlab.strategies.react:ReAct",
    "plan_execute": "agentlab.strategies.plan_execute:PlanExecute",
}


class Strategy(Protocol):
    """A method of solving a task. It sees the session alone; an instance serves one run."""

    name: str
    version: str
    """Changes whenever the method changes; a factor of the run."""
    actors: tuple[str, ...]
    answer_by: str
    """Who writes the answer: model, python, delegate."""
    prompts: tuple[str, ...]
    """Names of the prompt files it uses, the shared ones included; their hash is a factor of the run."""
    formats: tuple[Callable[[str], ReplyFormat], ...]
    """The formats of its replies, made for a language; whether a model can be bound to them is recorded."""

    async def solve(self, session: Session) -> Answer:
        """Return the answer; limits and infrastructure trouble leave as exceptions."""


def build_strategy(name: str, parameters: Mapping[str, Any] | None = None) -> Strategy:
    """Return a fresh strategy.

    Raises:
        ConfigError: an unknown strategy or parameter; lists the valid names.
    """
    strategy_class = _class_of(name)
    valid = parameters_of(name)
    for parameter in parameters or {}:
        if parameter not in valid:
            raise unknown_name(f"parameter of {name}", parameter, valid)
    try:
        strategy: Strategy = strategy_class(**(parameters or {}))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Parameters of strategy {name}: {error}") from error
    return strategy


@functools.cache
def parameters_of(name: str) -> tuple[str, ...]:
    """Return the names of a strategy's parameters; an unknown strategy is a `ConfigError`."""
    return tuple(inspect.signature(_class_of(name)).parameters)


@functools.lru_cache(maxsize=64)
def source_digest(name: str) -> str:
    """Return a digest of the strategy's source file: provenance, not a factor of the run."""
    path = inspect.getsourcefile(_class_of(name))
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12] if path else ""


@functools.cache
def _class_of(name: str) -> Any:
    if name not in STRATEGIES:
        raise unknown_name("strategy", name, STRATEGIES)
    module, _, class_name = STRATEGIES[name].partition(":")
    return getattr(importlib.import_module(module), class_name)


def whole_number(name: str, value: Any, *, least: int = 1, or_none: bool = False) -> Any:
    """Return the value of a strategy's parameter.

    Args:
        name: of the parameter.
        value: as it was given.
        least: the smallest number that works.
        or_none: whether None (no limit) is valid too.

    Raises:
        ConfigError: it is no whole number (truth values are none), or too small.
    """
    if (or_none and value is None) or (isinstance(value, int) and not isinstance(value, bool) and value >= least):
        return value
    expected = f"a whole number of at least {least}{', or null for no limit' if or_none else ''}"
    raise ConfigError(f"{name} is {value!r}, expected {expected}.")


def rounds(max_rounds: int | None) -> Iterator[int]:
    """Yield 1, 2, ...; after `max_rounds` the run ends with `budget_rounds` (None: only the budget limits).

    Raises:
        BudgetExceeded: the last round did not end the run.
    """
    number = 0
    while max_rounds is None or number < max_rounds:
        number += 1
        yield number
    raise BudgetExceeded("rounds", f"maximum rounds reached ({max_rounds})")


def system_message(session: Session, method: str, example: str | None, **placeholders: str) -> Message:
    """Return the system message: method text, and for a model that answers the answer format and an example.

    Args:
        session: of the run.
        method: name of the method's prompt.
        example: name of the worked example, used where the experiment has one; None for a strategy whose answer
            Python writes.
        placeholders: values for the method's prompt.
    """
    language = session.settings.language
    parts = [load_prompt(method, language).format(**placeholders) if placeholders else load_prompt(method, language)]
    if example is not None:
        parts.append(load_prompt("answer_format", language))
        if session.settings.examples == "one":
            parts.append(load_prompt(example, language))
    return {"role": "system", "content": "\n\n".join(part.strip() for part in parts)}


def task_message(session: Session) -> Message:
    """Return the user message that states the task, the same for every strategy."""
    view = session.view
    criteria = "\n".join(
        f"- {criterion.name}{'@' + criterion.subject if criterion.subject else ''}: {criterion.description}"
        for criterion in view.criteria
    )
    text = load_prompt("task", view.language).format(instruction=view.instruction, criteria=criteria)
    return {"role": "user", "content": text.strip()}
