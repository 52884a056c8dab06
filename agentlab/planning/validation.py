"""May a plan be executed? Tools, arguments, references and kinds of its steps, against what really exists.

Arguments are checked against the JSON schema of the tool as far as they are known; what comes from another step
is checked when it is there, by the session.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from agentlab.answers import CriterionLike
from agentlab.plan_rules import RulePack
from agentlab.planning.plan import LAYER_PREFIX, PlanGraph, PlanStep, structure_problems
from agentlab.planning.problems import in_order, problem, shown, shown_names
from agentlab.planning.rules import rule_problems
from agentlab.planning.structure import ancestor_bits
from agentlab.records import JsonObject, PlanProblem
from agentlab.references import Reference, references_in
from agentlab.tools import Tool

Workers = Mapping[str, Collection[str]]
"""Worker type -> names of the tools it may use."""


def check_plan(
    graph: PlanGraph,
    tools: Sequence[Tool],
    *,
    workers: Workers | None = None,
    rules: RulePack | None = None,
    criteria: Sequence[CriterionLike] = (),
) -> tuple[PlanProblem, ...]:
    """Return everything that keeps a plan from being executed, in the order of the rules; empty when it may be.

    Args:
        graph: a plan, for example one that a person or a suite wrote.
        tools: the offered tools.
        workers: the worker types that exist; None accepts any.
        rules: the suite's rules for plans.
        criteria: the task's criteria, for the rules about what must be checked.
    """
    offered = {tool.name: tool for tool in tools}
    problems = check_steps(graph.steps, offered, workers)
    bits = graph.ancestor_bits()
    for step, reference in undeclared(graph.steps, bits):
        problems.append(problem("undeclared_reference", step.id, reference=reference.text(), name=reference.step))
    problems += weak_problems(graph.steps, bits, offered)
    problems += rollback_problems(graph.steps, bits)
    problems += rule_problems(graph.steps, offered, rules, criteria, bits)
    return tuple(in_order(problems))


def check_steps(
    steps: Sequence[PlanStep], tools: Mapping[str, Tool], workers: Workers | None, done: Collection[str] = ()
) -> list[PlanProblem]:
    """Return what is wrong with steps, one by one and as a graph; the steps in `done` are only referred to."""
    outputs = {step.id: step for step in reversed(steps)}
    names = shown_names(list(outputs))
    problems = structure_problems(steps)
    for step in steps:
        if step.id in done:
            continue
        problems += _kind_problems(step)
        problems += _tool_problems(step, tools)
        problems += _worker_problems(step, workers)
        for reference in dict.fromkeys(step.references()):
            source = outputs.get(str(reference.step))
            if source is None:
                problems.append(problem("unknown_reference", step.id, reference=reference.text(), names=names))
            elif detail := _missing_in_output(reference, source, tools):
                of: JsonObject = {"reference": reference.text(), "tool": source.tool, "detail": detail}
                problems.append(problem("unknown_output_path", step.id, **of))
    return problems


def undeclared(steps: Sequence[PlanStep], bits: Sequence[int]) -> Iterator[tuple[PlanStep, Reference]]:
    """Yield the references to steps that need not have run before; a weak dependency is declared.

    Args:
        steps: of a sound graph.
        bits: its ancestors, from `structure.ancestor_bits`.
    """
    positions = {step.id: position for position, step in enumerate(steps)}
    for step, before in zip(steps, bits, strict=True):
        for reference in dict.fromkeys(step.references()):
            name = str(reference.step)
            if name in positions and name not in step.weak_depends_on and not before >> positions[name] & 1:
                yield step, reference


def weak_problems(steps: Sequence[PlanStep], bits: Sequence[int], tools: Mapping[str, Tool]) -> list[PlanProblem]:
    """Return the needed values that come over a weak dependency: it never delays, so they may not be there.

    An argument that the tool does not require is left out in that case; `collect` and `report` need none.
    """
    positions = {step.id: position for position, step in enumerate(steps)}
    problems = []
    for step, before in zip(steps, bits, strict=True):
        weak = {name for name in step.weak_depends_on if not before >> positions[name] & 1}
        if not weak:
            continue
        tool = tools.get(step.tool or "")
        required = set(tool.parameters.get("required", ())) if tool else set()
        needed = [step.over, *(value for name, value in step.arguments.items() if name in required)]
        for reference in dict.fromkeys(references_in(needed)):
            if reference.step in weak:
                of: JsonObject = {"reference": reference.text(), "name": reference.step}
                problems.append(problem("weak_reference", step.id, **of))
    return problems


def rollback_problems(steps: Sequence[PlanStep], bits: Sequence[int]) -> Iterator[PlanProblem]:
    """Yield the rollbacks that are to go back to what is not before the step, and what belongs to one without one."""
    for step, before in zip(steps, bits, strict=True):
        is_undone = "rollback" in (step.on_error, step.on_not_passed)
        if (step.back_to is not None or step.restart) and not is_undone:
            yield problem("no_rollback", step.id)
        if step.back_to is None:
            continue
        earlier = [other for position, other in enumerate(steps) if before >> position & 1]
        if step.back_to not in {place for other in earlier for place in (other.id, f"{LAYER_PREFIX}{other.layer}")}:
            of: JsonObject = {"name": step.back_to, "names": shown_names([other.id for other in earlier])}
            yield problem("bad_back_to", step.id, **of)


def strong_bits(steps: Sequence[PlanStep]) -> list[int]:
    """Return the ancestors of each step over its declared strong dependencies, as bits of an integer."""
    positions = {step.id: position for position, step in enumerate(steps)}
    return ancestor_bits([[positions[name] for name in step.depends_on] for step in steps])


def _kind_problems(step: PlanStep) -> Iterator[PlanProblem]:
    if step.kind == "map" and not isinstance(step.over, Reference | list):
        yield problem("no_list_to_map", step.id, found=shown(step.over))
    if step.kind != "map" and step.over is not None:
        yield problem("over_without_map", step.id, kind=step.kind)
    if step.kind not in ("tool", "map") and step.tool is not None:
        yield problem("tool_without_use", step.id, kind=step.kind, name=step.tool)
    if step.kind == "goal" and not step.description:
        yield problem("no_goal", step.id)


def _tool_problems(step: PlanStep, tools: Mapping[str, Tool]) -> Iterator[PlanProblem]:
    if step.kind not in ("tool", "map"):
        return
    tool = tools.get(step.tool or "")
    if tool is None:
        close = difflib.get_close_matches(step.tool or "", tools, n=1)
        guess, guess_zh = (f" Did you mean {close[0]}?", f"是否指 {close[0]}？") if close else ("", "")
        of: JsonObject = {
            "name": shown(step.tool),
            "guess": guess,
            "guess_zh": guess_zh,
            "names": shown_names(list(tools)),
        }
        yield problem("unknown_tool", step.id, **of)
        return
    for error in tool.validator.iter_errors(dict(step.arguments)):
        if not _may_still_fit(error):
            yield from _argument_problems(step, tool, error)


def _may_still_fit(error: Any) -> bool:
    """True when the error is only about a value that comes from another step."""
    if isinstance(error.instance, Reference):
        return True
    is_shape = error.validator in ("required", "additionalProperties", "type", "minItems", "maxItems")
    return not is_shape and any(True for _ in references_in(error.instance))


def _argument_problems(step: PlanStep, tool: Tool, error: Any) -> Iterator[PlanProblem]:
    of: JsonObject = {"tool": tool.name, "shape": tool.shape()}
    where = "".join(f"{part}." for part in error.absolute_path)
    if error.validator == "required":
        # jsonschema reports each missing name in an error of its own, in the order of `required`.
        missing = [name for name in error.validator_value if name not in error.instance]
        name = next((name for name in missing if error.message.startswith(repr(name))), missing[0])
        yield problem("missing_argument", step.id, name=where + name, **of)
    elif error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        for name in error.instance:
            if name not in known:
                yield problem("extra_argument", step.id, name=where + name, **of)
    else:
        detail = f"{where.removesuffix('.')}: {error.message}"[:200]
        yield problem("bad_argument", step.id, detail=detail, **of)


def _worker_problems(step: PlanStep, workers: Workers | None) -> Iterator[PlanProblem]:
    if workers is None or step.worker_type is None:
        return
    if step.worker_type not in workers:
        yield problem("unknown_worker", step.id, name=step.worker_type, names=shown_names(list(workers)))
    elif step.tool is not None and step.tool not in workers[step.worker_type]:
        of: JsonObject = {
            "name": step.worker_type,
            "tool": step.tool,
            "names": shown_names(list(workers[step.worker_type])),
        }
        yield problem("wrong_worker", step.id, **of)


def _missing_in_output(reference: Reference, source: PlanStep, tools: Mapping[str, Tool]) -> str:
    """Why the path cannot exist in the declared output of the step; empty where it may exist."""
    if reference.part != "output":
        return ""
    tool = tools.get(source.tool or "")
    if source.kind not in ("tool", "map") or tool is None or tool.returns is None:
        return ""
    path = list(reference.path)
    if source.kind == "map":
        if path and not _is_index(path[0]):
            return f"a map step returns a list, so pick an entry with [0] before {path[0]!r}"
        path = path[1:]
    schema: JsonObject = tool.returns
    for piece in path:
        if schema.get("type") == "array" or "items" in schema:
            if not _is_index(piece):
                return f"a list has no {piece!r}"
            inner = schema.get("items", {})
        elif "properties" in schema:
            if str(piece) not in schema["properties"]:
                return f"there is no {str(piece)!r}, only {shown_names(list(schema['properties']))}"
            inner = schema["properties"][str(piece)]
        else:
            return ""
        schema = inner if isinstance(inner, dict) else {}
    return ""


def _is_index(piece: str | int) -> bool:
    return isinstance(piece, int) or piece.isdecimal()
