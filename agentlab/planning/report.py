"""The report of a plan, written by Python from the records of its steps: both axes, always."""

import difflib
import re
from collections.abc import Collection

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.reasons import NOT_NEEDED
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import OPEN, STATUS_WORDS, StepStatus

LONGEST_RESULT_CHARS = 400
_STATUSES = (*STATUS_WORDS.values(), NOT_NEEDED)
_FACTS_ZH = {
    *(chinese for _, chinese in _STATUSES),
    "不完整", "未通过", "没有", "通过", "回滚", "撤销", "未", "不", "无", "没", "非",
    # Begins like the word for running, and says the opposite.
    "执行中断",
}  # fmt: skip
_WORD = re.compile("|".join(["[A-Za-z0-9_@.+-]+", *sorted(_FACTS_ZH, key=len, reverse=True)]))
_FACT_WORDS = frozenset({word for english, _ in _STATUSES for word in english.split()} - {"for", "a"}) | {
    "undone", "passed", "incomplete", "unknown", "true", "false", "null", "no", "never", "without", "all", "every",
}  # fmt: skip
_NOT_EXECUTED: tuple[StepStatus, ...] = ("failed", "blocked", "cancelled", *sorted(OPEN))

_WORDS = {
    "en": {
        "totals": "1. Totals: {total} steps: {completed} completed, {failed} failed, {blocked} blocked, "
        "{skipped} skipped{others}",
        "others": ", {n} {status}",
        "checks": "   Checks: {passed} passed, {failed} not passed",
        "steps": "2. Steps",
        "conclusion": "3. Conclusion",
        "incomplete": "Execution incomplete: {steps}.",
        "skipped": "Skipped: {steps}.",
        "undone": "Undone: {steps}.",
        "not_passed": "Not passed: {steps}.",
        "criteria": "{step} ({names})",
        "all_passed": "Every step was executed and every check passed.",
        "needed_passed": "Every step that was needed was executed, and every check passed.",
        "executed": "Every step was executed; there was no check.",
        "needed": "Every step that was needed was executed; there was no check.",
        "rollback": "Rollback incomplete: {steps}; somebody has to undo this by hand.",
        "unsure": "Unknown whether it took effect: {steps}; somebody has to look.",
    },
    "zh": {
        "totals": "一、统计：共 {total} 步，完成 {completed}，失败 {failed}，阻塞 {blocked}，跳过 {skipped}{others}",
        "others": "，{status} {n}",
        "checks": "    检查：通过 {passed}，未通过 {failed}",
        "steps": "二、各步骤",
        "conclusion": "三、结论",
        "incomplete": "执行不完整：{steps}。",
        "skipped": "已跳过：{steps}。",
        "undone": "已撤销：{steps}。",
        "not_passed": "未通过：{steps}。",
        "criteria": "{step}（{names}）",
        "all_passed": "所有步骤均已执行，所有检查均通过。",
        "needed_passed": "需要执行的步骤均已执行，所有检查均通过。",
        "executed": "所有步骤均已执行，没有检查。",
        "needed": "需要执行的步骤均已执行，没有检查。",
        "rollback": "回滚不完整：{steps}，需要人工处理。",
        "unsure": "不清楚是否已生效：{steps}，需要人工确认。",
    },
}


def plan_report(state: PlanState, language: str = "en") -> str:
    """Return totals, every step with its result or reason, and the conclusion; a pure function of the records.

    Args:
        state: where the plan stands.
        language: zh or en; results, and what tools said about errors, stay as they are.
    """
    language = "zh" if language == "zh" else "en"
    words, checks = _WORDS[language], state.business_counts()
    lines = [_totals(state, language), words["checks"].format(**checks), words["steps"]]
    lines += [_step_line(state, step.id, language) for step in state.graph.steps]
    return "\n".join([*lines, words["conclusion"], *_conclusion(state, words)])


def _totals(state: PlanState, language: str) -> str:
    """The counts; steps that were not needed, and statuses that are rare, only where there are any."""
    words, counts = _WORDS[language], state.counts()
    n_not_needed = len(state.not_needed())
    counts["skipped"] -= n_not_needed
    usual = ("completed", "failed", "blocked", "skipped")
    others = [(NOT_NEEDED, n_not_needed), *((STATUS_WORDS[name], n) for name, n in counts.items() if name not in usual)]
    shown = [words["others"].format(n=n, status=_in_language(status, language)) for status, n in others if n]
    return words["totals"].format(total=len(state.graph), others="".join(shown), **counts)


def _step_line(state: PlanState, step_id: str, language: str) -> str:
    step = state.graph.step(step_id)
    status = NOT_NEEDED if step_id in state.not_needed() else STATUS_WORDS[state[step_id].status]
    line = f"- {step_id} {step.description or step.tool or step.kind}: {_in_language(status, language)}"
    for result in state[step_id].results:
        shown = {name: getattr(result, name) for name in ("passed", "subject", "visible", "message", "data")}
        kept = {name: value for name, value in shown.items() if value not in (None, "", {})}
        line += f"\n    {cut_middle(dumps(kept), LONGEST_RESULT_CHARS)}"
    reason = state.explain(step_id, language)
    return f"{line}\n    {reason}" if reason else line


def _in_language(words: tuple[str, str], language: str) -> str:
    return words[1] if language == "zh" else words[0]


def _conclusion(state: PlanState, words: dict[str, str]) -> list[str]:
    not_needed = state.not_needed()
    named = {
        "incomplete": state.with_status(*_NOT_EXECUTED),
        "skipped": [name for name in state.with_status("skipped") if name not in not_needed],
        "undone": state.with_status("rolled_back"),
        "rollback": state.with_status("rollback_failed"),
        "unsure": [name for name in state.with_status("failed", "skipped") if _may_have_happened(state, name)],
        "not_passed": [_not_passed(state, name, words) for name in state.checks_not_passed()],
    }
    lines = [words[form].format(steps=", ".join(names)) for form, names in named.items() if names]
    has_checks = bool(state.business_counts()["passed"])
    if not_needed:
        return lines or [words["needed_passed" if has_checks else "needed"]]
    return lines or [words["all_passed" if has_checks else "executed"]]


def _not_passed(state: PlanState, step_id: str, words: dict[str, str]) -> str:
    """A step of which a check did not pass; with the criteria, where it is a step that shows several at once."""
    shown = [key for result in state[step_id].results for key, status in result.visible.items() if status == "failed"]
    names = ", ".join(dict.fromkeys(shown))
    return words["criteria"].format(step=step_id, names=names) if shown else step_id


def changed_facts(before: str, after: str, names: Collection[str] = ()) -> list[str]:
    """Return what a new wording of a report changes in its facts: `-fact` and `+fact`; empty when it changes none.

    Facts are, in their order, numbers, words with a digit or an underscore, status words, negations, and the given
    names. The order counts, so a status cannot move from one step to another.

    Args:
        before: the report.
        after: the same in other words.
        names: further words that must stay, for example the ids of the steps.
    """
    kept = _FACT_WORDS | set(names)
    old, new = _facts(before, kept), _facts(after, kept)
    return [line[0] + line[2:] for line in difflib.ndiff(old, new) if line[0] in "-+"]


def _facts(text: str, kept: Collection[str]) -> list[str]:
    words = (found.group().rstrip(".-+") for found in _WORD.finditer(text))
    return [word for word in words if word in kept or word.lower() in kept or not word.isascii() or _is_fact(word)]


def _is_fact(word: str) -> bool:
    return any(letter.isdigit() or letter in "_@" for letter in word)


def _may_have_happened(state: PlanState, step_id: str) -> bool:
    error = state[step_id].error
    return error is not None and error.may_have_happened
