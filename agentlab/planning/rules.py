"""Apply a suite's rules for plans: required steps and checks, required order, descriptions, recovery."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentlab.answers import CriterionLike
from agentlab.plan_rules import Exclusive, RequiredEdge, RulePack
from agentlab.planning.plan import PlanStep
from agentlab.planning.problems import problem
from agentlab.records import JsonObject, PlanProblem
from agentlab.references import references_in
from agentlab.tasks import Text
from agentlab.tools import Tool


def rule_problems(
    steps: Sequence[PlanStep],
    tools: Mapping[str, Tool],
    rules: RulePack | None,
    criteria: Sequence[CriterionLike] = (),
    bits: Sequence[int] | None = None,
) -> list[PlanProblem]:
    """Return what the plan lacks by the rules.

    Args:
        steps: the steps of the plan.
        tools: name -> tool.
        rules: of the suite; None has none.
        criteria: of the task.
        bits: ancestors of each step (`structure.ancestor_bits`); None leaves out the rules about order, because
            the order is not known.
    """
    if rules is None:
        return []
    problems = []
    for rule in rules.required_steps:
        if not any(_is_any(step, rule.names) for step in steps):
            problems.append(problem("missing_step", names=" / ".join(rule.names), **_reasons(rule.reason)))
    problems += _unchecked(steps, rules, criteria)
    if rules.requires_description:
        problems += [problem("missing_description", step.id) for step in steps if not step.description]
    if rules.requires_recovery:
        problems += _unrecoverable(steps, tools)
    if bits is not None:
        for edge in rules.required_edges:
            problems += (_late_steps if edge.every else _missing_edges)(steps, bits, edge)
        for exclusive in rules.exclusive:
            problems += _unordered(steps, bits, exclusive)
    return problems


def _is_any(step: PlanStep, names: Sequence[str]) -> bool:
    return step.tool in names or step.worker_type in names


def _reasons(reason: Text) -> dict[str, str]:
    return {"reason": f" {reason.en}" if reason.en else "", "reason_zh": reason.zh}


def _unchecked(steps: Sequence[PlanStep], rules: RulePack, criteria: Sequence[CriterionLike]) -> Iterator[PlanProblem]:
    for criterion in criteria:
        names = rules.checks.get(criterion.name, ())
        if names and not any(_is_any(step, names) and _is_about(step, criterion.subject) for step in steps):
            key = f"{criterion.name}@{criterion.subject}" if criterion.subject else criterion.name
            yield problem("missing_check", criterion=key, names=" / ".join(names))


def _is_about(step: PlanStep, subject: str) -> bool:
    """True when the step mentions the subject, or takes values from another step, which may lead to it."""
    if not subject or step.over is not None or any(True for _ in references_in(dict(step.arguments))):
        return True
    return step.kind == "goal" or _mentions(dict(step.arguments), subject)


def _mentions(value: Any, subject: str) -> bool:
    if isinstance(value, dict | list):
        return any(_mentions(entry, subject) for entry in (value.values() if isinstance(value, dict) else value))
    return str(value) == subject


def _unrecoverable(steps: Sequence[PlanStep], tools: Mapping[str, Tool]) -> Iterator[PlanProblem]:
    for step in steps:
        tool = tools.get(step.tool or "")
        if tool is not None and tool.has_side_effect and tool.compensate is None and step.on_error is None:
            yield problem("missing_recovery", step.id, name=tool.name)


def _missing_edges(steps: Sequence[PlanStep], bits: Sequence[int], rule: RequiredEdge) -> Iterator[PlanProblem]:
    earlier = _earlier(steps, rule)
    for step, before in zip(steps, bits, strict=True):
        if _is_any(step, rule.later) and not before & _fitting(earlier, step, rule):
            of: JsonObject = {"name": step.tool or step.worker_type, "names": " / ".join(rule.earlier)}
            yield problem("missing_edge", step.id, **of, **_reasons(rule.reason))


def _late_steps(steps: Sequence[PlanStep], bits: Sequence[int], rule: RequiredEdge) -> Iterator[PlanProblem]:
    earlier = _earlier(steps, rule)
    for position, (step, before) in enumerate(zip(steps, bits, strict=True)):
        if not _is_any(step, rule.later):
            continue
        if late := _fitting(earlier, step, rule) & ~before & ~(1 << position):
            first = (late & -late).bit_length() - 1
            of: JsonObject = {"name": step.tool or step.worker_type, "other": steps[first].id}
            yield problem("missing_edge", step.id, words="late_step", **of, **_reasons(rule.reason))


def _earlier(steps: Sequence[PlanStep], rule: RequiredEdge) -> dict[str | None, int]:
    """Positions of the steps with an `earlier` name, as bits, by the value of the argument in common."""
    found: dict[str | None, int] = {}
    for position, step in enumerate(steps):
        if _is_any(step, rule.earlier):
            value = _plain(step, rule.same)
            found[value] = found.get(value, 0) | 1 << position
    return found


def _fitting(earlier: Mapping[str | None, int], step: PlanStep, rule: RequiredEdge) -> int:
    """The earlier steps that may be about the same thing as this one, as bits."""
    value = _plain(step, rule.same)
    if value is not None:
        return earlier.get(value, 0) | earlier.get(None, 0)
    anything = 0
    for mask in earlier.values():
        anything |= mask
    return anything


def _plain(step: PlanStep, argument: str | None) -> str | None:
    """The argument as text where it is a plain value; None where it is not known before the plan runs."""
    value = step.arguments.get(argument) if argument is not None else None
    return str(value) if isinstance(value, str | int | float) else None


def _unordered(steps: Sequence[PlanStep], bits: Sequence[int], rule: Exclusive) -> Iterator[PlanProblem]:
    members = [position for position, step in enumerate(steps) if _is_any(step, rule.names)]
    for index, position in enumerate(members):
        for other in members[:index]:
            if not (bits[position] >> other & 1 or bits[other] >> position & 1):
                of: JsonObject = {"name": steps[position].tool or steps[position].worker_type, "other": steps[other].id}
                yield problem("unordered", steps[position].id, **of, **_reasons(rule.reason))
                break
