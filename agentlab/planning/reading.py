"""Read a planner's reply to a plan, or say everything that is wrong with it.

The schema is that of `PlanStep`; `fields.ALIASES` lists the other spellings that are read. A step with `over` is a
map step. Claims about progress (status, result, ...) and remarks (reason, note, ...) are left out, with a note; any
other unknown field is refused, because it may be a dependency under a name that nobody reads.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.answers import CriterionLike
from agentlab.errors import PlanError
from agentlab.json_values import clean_text
from agentlab.plan_rules import RulePack
from agentlab.planning.extraction import Draft, extract_plan, normal_name
from agentlab.planning.fields import IGNORED, StepReader, unknown_fields
from agentlab.planning.plan import LISTS, Analysis, PlanGraph, PlanStep
from agentlab.planning.problems import in_order, problem, shown
from agentlab.planning.rules import rule_problems
from agentlab.planning.validation import Workers, check_steps, rollback_problems, strong_bits, undeclared, weak_problems
from agentlab.records import JsonObject, PlanProblem
from agentlab.references import references_in
from agentlab.tools import Tool, tools_from_schemas

DEFAULT_MAX_STEPS = 20

_FIELDS = ("goal", "analysis", "explanation")
_IGNORED = IGNORED | {"id", "name", "title", "version", "language", "description", "task"}
_EXPLANATIONS = ("explanation", "reason", "note", "notes", "summary")
_ORDER_CODES = {"not_an_object", "bad_id", "duplicate_id", "unknown_dependency", "cycle"}
_EDGE_CODES = _ORDER_CODES | {"dependencies_not_list", "bad_dependency", "unknown_fields", "field_given_twice"}


def read_plan(
    text: str,
    tools: Sequence[Tool | Mapping[str, Any]],
    max_steps: int = DEFAULT_MAX_STEPS,
    *,
    rules: RulePack | None = None,
    criteria: Sequence[CriterionLike] = (),
    workers: Workers | None = None,
    done: Sequence[PlanStep] = (),
) -> PlanGraph:
    """Return the plan in a planner's reply. Of a plan that is not right throughout, nothing may be executed.

    A reference counts as a dependency: where the plan does not declare it, it is added, with a note.

    Args:
        text: the reply.
        tools: the offered tools, or their chat-completions dicts; control tools are no plan steps.
        max_steps: largest number of new steps.
        rules: the suite's rules for plans.
        criteria: the task's criteria, for the rules about what must be checked.
        workers: worker type -> names of the tools it may use; None accepts any type.
        done: of a plan that replaces another: the steps that have completed, in plan order. They stay in the
            plan, and the new steps may depend on them and refer to them.

    Raises:
        PlanError: every problem, in the order of the rules; of an empty plan also the planner's explanation.
    """
    offered = _by_name(tools)
    done = _without_gaps(done)
    draft = _draft_with_steps(text)
    reader = StepReader(offered, names=_names(done))
    problems = _plan_problems(draft, max_steps, reader.notes)
    written = reader.read_all(draft.steps)
    steps, changed = _joined(done, written, reader.notes)
    problems += [*reader.problems, *changed, *check_steps(steps, offered, workers, {step.id for step in done})]
    codes = {found.code for found in problems}
    bits = None
    if not codes & _ORDER_CODES:
        steps = _with_implied(steps, reader.notes)
        bits = strong_bits(steps)
        problems += [*weak_problems(steps, bits, offered), *rollback_problems(steps, bits)]
    problems += rule_problems(steps, offered, rules, criteria, None if codes & _EDGE_CODES else bits)
    if problems:
        raise PlanError(in_order(problems))
    return PlanGraph(
        steps=tuple(steps),
        goal=_text(draft.rest.get("goal")),
        analysis=_analysis(draft.rest.get("analysis")),
        explanation=_explanation(draft.rest),
        notes=tuple(reader.notes),
    )


def _draft_with_steps(text: str) -> Draft:
    """The plan in the text; without steps there is nothing to check, and the explanation is what counts."""
    draft = extract_plan(text)
    if not isinstance(draft.steps, list):
        raise PlanError([problem("not_a_list", field=shown(draft.field), found=shown(draft.steps))])
    if not draft.steps:
        raise PlanError([problem("empty_plan")], _explanation(draft.rest))
    return draft


def _by_name(tools: Sequence[Tool | Mapping[str, Any]]) -> dict[str, Tool]:
    given = [tool if isinstance(tool, Tool) else tools_from_schemas([dict(tool)])[0] for tool in tools]
    return {tool.name: tool for tool in given if not tool.is_control}


def _names(steps: Sequence[PlanStep]) -> dict[str, str]:
    outputs = {step.output: step.id for step in steps if step.output is not None}
    return {**outputs, **{step.id: step.id for step in steps}}


def _without_gaps(done: Sequence[PlanStep]) -> list[PlanStep]:
    """The completed steps without what they rested on and is not there (any more), and without arguments from it.

    A weak dependency need not have completed, and any other may have been undone since.
    """
    names = {step.id for step in done}
    return [step if _rests_on(step) <= names else _without(step, _rests_on(step) - names) for step in done]


def _rests_on(step: PlanStep) -> set[str | None]:
    return {*step.depends_on, *step.weak_depends_on, *(reference.step for reference in step.references())}


def _without(step: PlanStep, lost: set[str | None]) -> PlanStep:
    def is_lost(value: Any) -> bool:
        return any(reference.step in lost for reference in references_in(value))

    kept: dict[str, Any] = {each: tuple(name for name in getattr(step, each) if name not in lost) for each in LISTS}
    return dataclasses.replace(
        step,
        arguments={name: value for name, value in step.arguments.items() if not is_lost(value)},
        over=[] if is_lost(step.over) else step.over,
        back_to=None if step.back_to in lost else step.back_to,
        **kept,
    )


def _plan_problems(draft: Draft, max_steps: int, notes: list[str]) -> list[PlanProblem]:
    """What is wrong with the plan apart from its steps."""
    problems = []
    if len(draft.steps) > max_steps:
        problems.append(problem("too_many_tasks", count=len(draft.steps), limit=max_steps))
    others = [name for name in draft.rest if normal_name(name) not in _FIELDS]
    if unknown := unknown_fields("plan", others, _IGNORED, notes):
        problems.append(problem("unknown_fields", fields=unknown, names=", ".join(("steps", *_FIELDS))))
    return problems


def _joined(
    done: Sequence[PlanStep], written: Sequence[PlanStep], notes: list[str]
) -> tuple[list[PlanStep], list[PlanProblem]]:
    """The completed steps and the new ones; a completed step that is written again must be the same."""
    completed = {step.id: step for step in done}
    steps, problems = list(done), []
    for step in written:
        before = completed.get(step.id)
        if before is None:
            steps.append(step)
        elif (before.kind, before.tool, before.arguments, before.over) == (
            step.kind, step.tool, step.arguments, step.over,
        ):  # fmt: skip
            notes.append(f"{step.id}: has completed already and is kept")
        else:
            problems.append(problem("changed_step", step.id))
    return steps, problems


def _with_implied(steps: Sequence[PlanStep], notes: list[str]) -> list[PlanStep]:
    """The steps with the dependencies that their references imply."""
    implied: dict[str, list[str]] = {}
    for step, reference in undeclared(steps, strong_bits(steps)):
        implied.setdefault(step.id, []).append(str(reference.step))
        notes.append(f"{step.id}: depends on {reference.step}, because it refers to {reference.text()}")
    return [
        dataclasses.replace(step, depends_on=tuple(dict.fromkeys([*step.depends_on, *implied[step.id]])))
        if step.id in implied
        else step
        for step in steps
    ]


def _explanation(rest: JsonObject) -> str:
    by_name = {normal_name(name): value for name, value in rest.items()}
    return next((text for name in _EXPLANATIONS if (text := _text(by_name.get(name)))), "")


def _analysis(value: Any) -> Analysis | None:
    """Goal, constraints and success criteria, as far as they are given."""
    if not isinstance(value, dict):
        return Analysis(goal=value) if isinstance(value, str) and value else None
    by_name = {normal_name(name): entry for name, entry in value.items()}
    return Analysis(
        goal=_text(by_name.get("goal")),
        constraints=_texts(by_name.get("constraints")),
        success_criteria=_texts(by_name.get("success_criteria")),
    )


def _text(value: Any) -> str:
    return clean_text(value).strip() if isinstance(value, str) else ""


def _texts(value: Any) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else [value]
    return tuple(text for entry in entries if (text := _text(entry)))
