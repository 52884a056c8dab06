"""The report of a plan, written by Python from the records of its steps: both axes, always."""

import difflib
import re
from collections.abc import Collection, Iterator

from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.plan import PlanStep
from agentlab.planning.reasons import NOT_NEEDED, is_condition, problem_words, reason_words, undo_words
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import OPEN, STATUS_WORDS, StepStatus
from agentlab.planning.step_state import StepState

LONGEST_RESULT_CHARS = 400
_NOT_EXECUTED: tuple[StepStatus, ...] = ("failed", "blocked", "cancelled", *sorted(OPEN))
_UNDONE: tuple[StepStatus, ...] = ("rolled_back", "rollback_failed")

_WORDS = {
    "en": {
        "totals": "1. Totals: {total} step{s}: {completed} completed, {failed} failed, {blocked} blocked, "
        "{skipped} skipped{others}",
        "others": ", {n} {status}",
        "checks": "   Checks: {passed} passed, {failed} not passed",
        "steps": "2. Steps",
        "earlier": "   Of an earlier plan:",
        "again": "ran again after an undo",
        "not_again": "was to run again after an undo, and did not",
        "part_again": "in a part that was undone and started again",
        "conclusion": "3. Conclusion",
        "stopped": "The plan was stopped: {reason}.",
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
        "earlier_failed": "Of an earlier plan: {steps} failed.",
        "earlier_undone": "Of an earlier plan: {steps} undone.",
        "earlier_rollback": "Of an earlier plan: rollback incomplete: {steps}; somebody has to undo this by hand.",
        "earlier_unsure": "Of an earlier plan: unknown whether it took effect: {steps}; somebody has to look.",
    },
    "zh": {
        "totals": "一、统计：共 {total} 步，完成 {completed}，失败 {failed}，阻塞 {blocked}，跳过 {skipped}{others}",
        "others": "，{status} {n}",
        "checks": "    检查：通过 {passed}，未通过 {failed}",
        "steps": "二、各步骤",
        "earlier": "    此前的计划：",
        "again": "撤销后重新执行",
        "not_again": "撤销后应重新执行，但没有执行",
        "part_again": "所在部分撤销后重新开始",
        "conclusion": "三、结论",
        "stopped": "计划提前结束：{reason}。",
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
        "earlier_failed": "此前的计划中失败：{steps}。",
        "earlier_undone": "此前的计划中已撤销：{steps}。",
        "earlier_rollback": "此前的计划中回滚不完整：{steps}，需要人工处理。",
        "earlier_unsure": "此前的计划中不清楚是否已生效：{steps}，需要人工确认。",
    },
}  # fmt: skip


def plan_report(state: PlanState, language: str = "en") -> str:
    """Return totals, every step with its result or reason, and the conclusion; a pure function of the records.

    Steps of a plan that was replaced, which were tried and did not stay completed, stand after those of the plan.

    Args:
        state: where the plan stands.
        language: zh or en; results, and what tools said about errors, stay as they are.
    """
    language = "zh" if language == "zh" else "en"
    words, checks = _WORDS[language], state.business_counts()
    lines = [_totals(state, language), words["checks"].format(**checks), words["steps"]]
    for step in state.graph.steps:
        lines += _step_lines(state, step, language)
    earlier = [(step_id, step) for step_id, step in state.superseded if not is_condition(step.reason)]
    lines += [words["earlier"]] if earlier else []
    for step_id, old in earlier:
        status = _in_language(STATUS_WORDS[old.status], language)
        lines += [f"- {step_id}: {status}", *_details(old, _reason(old, language), language)]
    return "\n".join([*lines, words["conclusion"], *_conclusion(state, language)])


def _totals(state: PlanState, language: str) -> str:
    """The counts; steps that were not needed, and statuses that are rare, only where there are any."""
    words, counts = _WORDS[language], state.counts()
    n_not_needed = len(state.not_needed())
    counts["skipped"] -= n_not_needed
    usual = ("completed", "failed", "blocked", "skipped")
    others = [(NOT_NEEDED, n_not_needed), *((STATUS_WORDS[name], n) for name, n in counts.items() if name not in usual)]
    shown = [words["others"].format(n=n, status=_in_language(status, language)) for status, n in others if n]
    total = len(state.graph)
    return words["totals"].format(total=total, s="" if total == 1 else "s", others="".join(shown), **counts)


def _step_lines(state: PlanState, step: PlanStep, language: str) -> list[str]:
    status = NOT_NEEDED if step.id in state.not_needed() else STATUS_WORDS[state[step.id].status]
    head = f"- {step.id} {step.description or step.tool or step.kind}: {_in_language(status, language)}"
    is_blocked = state[step.id].status == "blocked"
    reason = state.explain(step.id, language) if is_blocked else _reason(state[step.id], language)
    return [head, *_details(state[step.id], reason, language)]


def _details(step: StepState, reason: str, language: str) -> list[str]:
    """What came of a step: its results, what was undone, and why it did not complete."""
    lines = []
    for result in step.results:
        shown = {name: getattr(result, name) for name in ("passed", "subject", "visible", "message", "data")}
        kept = {name: value for name, value in shown.items() if value not in (None, "", {})}
        lines.append(cut_middle(dumps(kept), LONGEST_RESULT_CHARS))
    return [f"    {line}" for line in (*lines, *_undos(step, language), reason) if line]


def _undos(step: StepState, language: str) -> Iterator[str]:
    """Every attempt to undo a step, and where it ran again: only what was undone does, so it follows on an undo."""
    words, n_restarts = _WORDS[language], 0
    for undo in step.undos:
        yield undo_words(undo.tool, undo.state, undo.message, language)
        if undo.state == "done" and n_restarts < step.restarts:
            n_restarts += 1
            yield words["again" if n_restarts < step.restarts or step.tries else "not_again"]
    if n_restarts < step.restarts:
        yield words["part_again"]


def _reason(step: StepState, language: str) -> str:
    """Why a step that is not blocked did not complete; of one that was undone, its undos say so."""
    if step.status in OPEN or step.status in ("completed", *_UNDONE):
        return ""
    if step.reason or step.error is None:
        return reason_words(step.reason, language)
    return f"{step.error.kind}: {problem_words(step.error.message, language)}"


def _in_language(words: tuple[str, str], language: str) -> str:
    return words[1] if language == "zh" else words[0]


def _conclusion(state: PlanState, language: str) -> list[str]:
    words, not_needed = _WORDS[language], state.not_needed()
    named = {
        "incomplete": state.with_status(*_NOT_EXECUTED),
        "skipped": [name for name in state.with_status("skipped") if name not in not_needed],
        "undone": state.with_status("rolled_back"),
        "rollback": state.with_status("rollback_failed"),
        "unsure": [step.id for step in state.graph.steps if _is_unsure(state[step.id])],
        "not_passed": [_not_passed(state, name, words) for name in state.checks_not_passed()],
    }
    lines = [words[form].format(steps=", ".join(names)) for form, names in named.items() if names]
    if state.stopped:
        lines.insert(0, words["stopped"].format(reason=reason_words(state.stopped, language)))
    earlier = {
        "earlier_failed": [name for name, step in state.superseded if step.status == "failed"],
        "earlier_undone": [name for name, step in state.superseded if step.status == "rolled_back"],
        "earlier_rollback": [name for name, step in state.superseded if step.status == "rollback_failed"],
        "earlier_unsure": [name for name, step in state.superseded if _is_unsure(step)],
    }
    if not lines and not earlier["earlier_rollback"] and not earlier["earlier_unsure"]:
        has_checks = bool(state.business_counts()["passed"])
        success = ("needed_passed", "needed") if not_needed else ("all_passed", "executed")
        lines = [words[success[0] if has_checks else success[1]]]
    shown = {form: ", ".join(dict.fromkeys(names)) for form, names in earlier.items() if names}
    return [*lines, *(words[form].format(steps=names) for form, names in shown.items())]


def _not_passed(state: PlanState, step_id: str, words: dict[str, str]) -> str:
    """A step of which a check did not pass; with the criteria, where it is a step that shows several at once."""
    shown = [key for result in state[step_id].results for key, status in result.visible.items() if status == "failed"]
    names = ", ".join(dict.fromkeys(shown))
    return words["criteria"].format(step=step_id, names=names) if shown else step_id


def _is_unsure(step: StepState) -> bool:
    """Whether nobody knows if the effect of a step is there: its last try may have had one, and was not undone."""
    is_settled = step.status in ("completed", *_UNDONE)
    return not is_settled and step.error is not None and step.error.may_have_happened


# New wordings

_STATUSES = (*STATUS_WORDS.values(), NOT_NEEDED)
_FACTS_ZH = {
    *(chinese for _, chinese in _STATUSES),
    "不完整", "未通过", "没有", "通过", "回滚", "撤销", "执行", "成功", "未", "不", "无", "没", "非",
    # Begins like the word for running, and says the opposite.
    "执行中断",
    "所有", "全部", "全都", "大部分", "部分", "一些", "有些", "某些", "大多数", "多数", "少数", "个别", "几乎",
    "均", "都", "每", "仅", "只",
}  # fmt: skip
_FACT_WORDS = frozenset({word for english, _ in _STATUSES for word in english.split()} - {"for", "a"}) | {
    "undone", "passed", "incomplete", "unknown", "executed", "success", "successful", "successfully", "unsuccessful",
    "true", "false", "null", "no", "never", "without", "none", "nothing", "nobody", "neither", "nor", "non",
    "all", "every", "each", "both", "some", "most", "mostly", "many", "several", "few", "half", "partly", "partially",
    "nearly", "almost", "only",
}  # fmt: skip
_CHARS = "A-Za-z0-9_@%"
_WORD = rf"[{_CHARS}.+-]+(?:['’]t\b)?"
_CONTRACTION = re.compile(
    r"[a-z]*n['’]t|cannot|(?:is|are|was|were|do|does|did|has|have|had|ca|wo|could|would|should)nt", re.IGNORECASE
)


def changed_facts(before: str, after: str, names: Collection[str] = ()) -> list[str]:
    """Return what a new wording of a report changes in its facts: `-fact` and `+fact`; empty when it changes none.

    Facts are, in their order, numbers, words with a digit or an underscore, status words, negations, quantifiers, and
    the given names. The order counts, so a status cannot move from one step to another.

    Args:
        before: the report.
        after: the same in other words.
        names: further words that must stay, for example the ids of the steps; found as they are written, also in
            the middle of Chinese text.
    """
    literal = sorted({*filter(None, names), *_FACTS_ZH}, key=lambda word: (-len(word), word))
    pattern = re.compile("|".join([*map(_literally, literal), _WORD]))
    old, new = (list(_facts(text, pattern, {*literal})) for text in (before, after))
    changed = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            changed += [f"-{fact}" for fact in old[i:j]] + [f"+{fact}" for fact in new[k:m]]
    return changed


def _literally(word: str) -> str:
    """A pattern for a word; where it begins or ends like an English one, it is no part of a longer one."""
    start = rf"(?<![{_CHARS}.+-])" if re.match(rf"[{_CHARS}.+-]", word) else ""
    end = rf"(?![{_CHARS}]|[.+-]+[{_CHARS}])" if re.search(rf"[{_CHARS}.+-]$", word) else ""
    return start + re.escape(word) + end


def _facts(text: str, pattern: re.Pattern[str], literal: Collection[str]) -> Iterator[str]:
    for found in pattern.finditer(text):
        word = found.group()
        if word in literal:
            yield word
        elif _CONTRACTION.fullmatch(word):
            yield "not"
        elif any(letter.isdigit() or letter in "_@" for letter in word):
            yield word.rstrip(".-+")
        else:
            yield from (part for part in re.split(r"[.+-]+", word.lower()) if part in _FACT_WORDS)
