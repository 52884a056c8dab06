"""Is a plan cut right? Remarks, not refusals: a plan with hints may be executed.

Source: requirements 002.7 (cut by function, time and risk) and 002.23 (dozens of fragments stall a plan; a step is
a functional module that can be verified by itself, 5 to 15 minutes of work). Only goal steps can be merged or cut:
a tool step is one call.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.problems import shown_names
from agentlab.tools import Tool

MOST_STEPS = 20
SHORTEST_MINUTES = 5.0
LONGEST_MINUTES = 15.0
MOST_FRAGMENTS = 2
"""So many goal steps may share a module before they count as fragments of it."""
MOST_CLAUSES = 4
_CLAUSES = re.compile(r"[,;，；、。]|\bthen\b|\band\b|然后|并且|接着|以及|再")


@dataclass(frozen=True, slots=True)
class Hint:
    """One remark on how a plan is cut."""

    code: str
    """too_many, too_fine, too_coarse, same_call, no_order, risk_not_isolated."""
    steps: tuple[str, ...]
    message: str
    message_zh: str
    suggested_steps: int | None = None
    """How many steps the named ones could be; None where that does not follow from the plan."""


def hints(
    graph: PlanGraph,
    *,
    minutes: Mapping[str, float] | None = None,
    tools: Sequence[Tool] | None = None,
    max_steps: int = MOST_STEPS,
) -> tuple[Hint, ...]:
    """Return remarks on the granularity of a plan; empty when there is nothing to say.

    Args:
        graph: the plan.
        minutes: expected minutes of work per step, where somebody has estimated them.
        tools: for the effect of steps; None says nothing about what depends on it, which is order and risk.
        max_steps: a plan above this is too long to be followed.
    """
    found = [*_too_fine(graph, minutes or {}), *_too_coarse(graph, minutes or {}), *_same_call(graph)]
    if len(graph) > max_steps:
        ids = tuple(step.id for step in graph.steps)
        message = f"{len(graph)} steps are too many to follow; plan modules of {max_steps} at most."
        found.insert(0, Hint("too_many", ids, message, f"{len(graph)} 个步骤过多；请按模块规划，最多 {max_steps} 个。"))
    if tools is None:
        return tuple(found)
    by_name = {tool.name: tool for tool in tools}
    return (*found, *_no_order(graph, by_name), *_risk_not_isolated(graph, by_name))


def _too_fine(graph: PlanGraph, minutes: Mapping[str, float]) -> Iterator[Hint]:
    modules = _modules(graph)
    fragments = [module for module in modules if len(module) > MOST_FRAGMENTS and _is_short(module, minutes)]
    if not fragments:
        return
    steps = tuple(step.id for step in graph.steps if any(step.id in module for module in modules))
    message = (
        f"{len(steps)} fragments belong to {len(modules)} modules "
        f"({'; '.join(', '.join(module) for module in modules)}): plan each module as one step that can be verified."
    )
    message_zh = f"{len(steps)} 个碎片属于 {len(modules)} 个功能模块：每个模块应是一个可独立验证的步骤。"
    yield Hint("too_fine", steps, message, message_zh, len(modules))


def _modules(graph: PlanGraph) -> list[tuple[str, ...]]:
    """The goal steps by module: the same layer and worker type, or, where neither is given, one unbranched chain."""
    modules: dict[object, list[str]] = {}
    chain_of: dict[str, str] = {}
    for name in graph.execution_order():
        step = graph.step(name)
        if step.kind != "goal":
            continue
        key: object = (step.layer, step.worker_type)
        if key == (None, None):
            before = step.depends_on[0] if len(step.depends_on) == 1 else ""
            is_next = before in chain_of and graph.dependents(before) == (name,)
            key = chain_of[name] = chain_of[before] if is_next else name
        modules.setdefault(key, []).append(name)
    return [tuple(module) for module in modules.values()]


def _is_short(module: Sequence[str], minutes: Mapping[str, float]) -> bool:
    """True unless somebody expects the steps to take as long as a step should."""
    known = [minutes[name] for name in module if name in minutes]
    return not known or median(known) < SHORTEST_MINUTES


def _too_coarse(graph: PlanGraph, minutes: Mapping[str, float]) -> Iterator[Hint]:
    for step in graph.steps:
        clauses = [clause for clause in _CLAUSES.split(step.description) if clause.strip()]
        is_long = minutes.get(step.id, 0.0) > LONGEST_MINUTES
        if step.kind == "goal" and (is_long or len(clauses) > MOST_CLAUSES):
            message = f"Step {step.id} is several things in one: cut it so that each part can be verified by itself."
            yield Hint("too_coarse", (step.id,), message, f"步骤 {step.id} 包含多件事：请拆成可独立验证的部分。")


def _same_call(graph: PlanGraph) -> Iterator[Hint]:
    """Calls of one tool on entries of a list whose length nobody knows before the plan runs."""
    groups: dict[object, list[str]] = {}
    for step in graph.steps:
        for reference in step.references() if step.kind == "tool" else ():
            index = next((place for place, piece in enumerate(reference.path) if isinstance(piece, int)), None)
            if index is not None:
                key = (step.tool, reference.step, reference.path[:index])
                groups.setdefault(key, []).append(step.id)
    for names in (list(dict.fromkeys(found)) for found in groups.values()):
        if len(names) > 1:
            message = f'Steps {shown_names(names)} make one call per entry of a list: use one map step with "over".'
            message_zh = f'步骤 {shown_names(names)} 对列表逐项做同一调用：请用一个带 "over" 的 map 步骤。'
            yield Hint("same_call", tuple(names), message, message_zh, 1)


def _no_order(graph: PlanGraph, tools: Mapping[str, Tool]) -> Iterator[Hint]:
    has_edges = any(step.depends_on or step.weak_depends_on for step in graph.steps)
    changing = tuple(step.id for step in graph.steps if _changes(step, tools, lambda tool: tool.effect != "read"))
    if len(graph) > 1 and not has_edges and len(changing) > 1:
        message = f"No step depends on another, though {shown_names(changing)} change something: what needs what?"
        yield Hint(
            "no_order", changing, message, f"步骤之间没有任何依赖，但 {shown_names(changing)} 会修改内容：谁依赖谁？"
        )


def _risk_not_isolated(graph: PlanGraph, tools: Mapping[str, Tool]) -> Iterator[Hint]:
    for wave in graph.waves():
        for name in wave:
            is_risky = _changes(graph.step(name), tools, lambda tool: tool.effect == "irreversible", unknown=False)
            if is_risky and len(wave) > 1:
                others = shown_names([other for other in wave if other != name])
                message = (
                    f"Step {name} cannot be undone, but may run at the same time as {others}: let it wait for them."
                )
                yield Hint(
                    "risk_not_isolated",
                    (name,),
                    message,
                    f"步骤 {name} 不可撤销，却可能与 {others} 同时执行：请让它最后执行。",
                )


def _changes(step: PlanStep, tools: Mapping[str, Tool], is_so: Callable[[Tool], bool], *, unknown: bool = True) -> bool:
    """Whether the step's tool is so; `unknown` for a goal step or a tool that is not given."""
    tool = tools.get(step.tool or "")
    if step.kind in ("collect", "report"):
        return False
    return unknown if tool is None else is_so(tool)
