"""The report of a plan, written by Python from the records of its steps: both axes, always."""

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.state import PlanState

LONGEST_RESULT_CHARS = 400

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
    if failed := state.checks_not_passed():
        lines.append(words["not_passed"].format(steps=", ".join(failed)))
    if lines:
        return lines
    return [words["all_passed"] if state.business_counts()["passed"] else words["executed"]]
