"""The report of a plan, written by Python from the records of its steps: both axes, always."""

import difflib
import re
from collections.abc import Collection

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.state import PlanState

LONGEST_RESULT_CHARS = 400
_WORD = re.compile(r"[A-Za-z0-9_@.+-]+|不完整|未通过|没有|[未不无]|通过|完成|失败|阻塞|跳过|回滚|取消|中断")
_FACT_WORDS = frozenset({
    "completed", "failed", "blocked", "skipped", "cancelled", "interrupted", "pending", "rolled", "back", "rollback",
    "passed", "incomplete", "unknown", "true", "false", "null", "not", "no", "never", "without", "all", "every",
})  # fmt: skip

_WORDS = {
    "en": {
        "totals": "1. Totals: {total} steps: {completed} completed, {failed} failed, {blocked} blocked, "
        "{skipped} skipped",
        "checks": "   Checks: {passed} passed, {failed} not passed",
        "steps": "2. Steps",
        "conclusion": "3. Conclusion",
        "incomplete": "Execution incomplete: {steps}.",
        "not_passed": "Not passed: {steps}.",
        "all_passed": "Every step was executed and every check passed.",
        "executed": "Every step was executed; there was no check.",
        "rollback": "Rollback incomplete: {steps}; somebody has to undo this by hand.",
        "unsure": "Unknown whether it took effect: {steps}; somebody has to look.",
    },
    "zh": {
        "totals": "一、统计：共 {total} 步，完成 {completed}，失败 {failed}，阻塞 {blocked}，跳过 {skipped}",
        "checks": "    检查：通过 {passed}，未通过 {failed}",
        "steps": "二、各步骤",
        "conclusion": "三、结论",
        "incomplete": "执行不完整：{steps}。",
        "not_passed": "未通过：{steps}。",
        "all_passed": "所有步骤均已执行，所有检查均通过。",
        "executed": "所有步骤均已执行，没有检查。",
        "rollback": "回滚不完整：{steps}，需要人工处理。",
        "unsure": "不清楚是否已生效：{steps}，需要人工确认。",
    },
}


def plan_report(state: PlanState, language: str = "en") -> str:
    """Return totals, every step with its result or reason, and the conclusion; a pure function of the records."""
    words = _WORDS["zh" if language == "zh" else "en"]
    counts, checks = state.counts(), state.business_counts()
    lines = [words["totals"].format(total=len(state.graph), **counts), words["checks"].format(**checks), words["steps"]]
    lines += [_step_line(state, step.id) for step in state.graph.steps]
    return "\n".join([*lines, words["conclusion"], *_conclusion(state, words)])


def _step_line(state: PlanState, step_id: str) -> str:
    step = state.graph.step(step_id)
    line = f"- {step_id} {step.description or step.tool or step.kind}: {state[step_id].status}"
    for result in state[step_id].results:
        shown = {name: getattr(result, name) for name in ("passed", "subject", "message", "data")}
        kept = {name: value for name, value in shown.items() if value not in (None, "")}
        line += f"\n    {cut_middle(dumps(kept), LONGEST_RESULT_CHARS)}"
    reason = state.explain(step_id)
    return f"{line}\n    {reason}" if reason else line


def _conclusion(state: PlanState, words: dict[str, str]) -> list[str]:
    lines = []
    if left := state.with_status("failed", "blocked", "cancelled", "interrupted", "pending"):
        lines.append(words["incomplete"].format(steps=", ".join(left)))
    if stuck := state.with_status("rollback_failed"):
        lines.append(words["rollback"].format(steps=", ".join(stuck)))
    if unsure := [name for name in state.with_status("failed", "skipped") if _may_have_happened(state, name)]:
        lines.append(words["unsure"].format(steps=", ".join(unsure)))
    if failed := state.checks_not_passed():
        lines.append(words["not_passed"].format(steps=", ".join(failed)))
    if lines:
        return lines
    return [words["all_passed"] if state.business_counts()["passed"] else words["executed"]]


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
