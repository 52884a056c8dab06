"""Judge a finished run against the task's truth (DESIGN 4).

Three axes never mix: whether tools ran is in the trace, whether the product is right is the verdict,
whether the agent is right is `success`.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentlab.columns import EXCLUDED_END_REASONS, FAILURE_CLASSES
from agentlab.records import Answer, Event, Finding, JsonObject, record, verdict_of
from agentlab.tasks import RequiredCall, Task
from agentlab.tool_execution import UNCERTAIN_ERROR_KINDS

_BY_END_REASON = {
    "format_limit": "malformed_reply",
    "loop_detected": "loop_detected",
    "context_overflow": "context_overflow",
    "content_filtered": "content_filtered",
    "invalid_plan": "invalid_plan",
    "gave_up": "gave_up",
    "escalated": "escalated",
}


@record
class CallRecord:
    """One tool call as it stands in the trace, as far as judging needs it."""

    tool: str
    arguments: JsonObject
    executed: bool
    success: bool
    passed: bool | None = None
    check: str | None = None
    subject: str | None = None
    error_kind: str | None = None
    visible: Mapping[str, str] = field(default_factory=dict)
    effect: str = "read"
    repeated: bool = False


_CALL_FIELDS = tuple(each.name for each in dataclasses.fields(CallRecord))


@dataclass(frozen=True, slots=True)
class CheckScore:
    """One criterion: what is true, what was claimed, and whether the trace supports the claim."""

    key: str
    truth: str
    claimed: str | None
    supported: bool

    @property
    def is_right(self) -> bool:
        """True when the claim has the true status and is supported."""
        return self.claimed == self.truth and self.supported


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of one run; the fields are the columns of the same name (`agentlab.columns`)."""

    success: int | None
    outcome: str
    truth_verdict: str
    verdict: str | None
    claimed_verdict: str | None
    checks: tuple[CheckScore, ...]
    checks_total: int
    checks_right: int
    checks_defective: int
    checks_found: int
    members_defective: int
    members_named: int
    exposed: bool | None
    failure_class: str | None
    failure_classes: tuple[str, ...]


def calls_of(events: Iterable[Event]) -> list[CallRecord]:
    """Return the tool calls of a trace in order."""
    return [
        CallRecord(**{name: event.data[name] for name in _CALL_FIELDS if name in event.data})
        for event in events
        if event.kind == "tool_call"
    ]


def score_run(
    task: Task,
    answer: Answer | None,
    end_reason: str,
    calls: Sequence[CallRecord],
    facts: JsonObject,
    facts_before: JsonObject | None = None,
    n_malformed: int = 0,
) -> Score:
    """Return the judgement of a run.

    Args:
        task: with its truth.
        answer: what the strategy handed in; None when the run was stopped before.
        end_reason: why the run ended.
        calls: the tool calls of the trace.
        facts: the environment's facts at the end.
        facts_before: the same at the start; tells a missing action from a wrong one.
        n_malformed: unreadable replies, for the failure classes.
    """
    readable = answer is not None and answer.is_readable
    claims, contradictory = claimed_statuses(task, answer) if answer is not None else ({}, False)
    checks = tuple(
        CheckScore(key, truth, claims.get(key), is_supported(task, key, claims.get(key), calls))
        for key, truth in task.checks.items()
    )
    verdict = verdict_of([claims.get(key, "not_evaluated") for key in task.checks]) if readable else None
    submitted = answer.verdict if answer is not None else None
    inconsistent = contradictory or (readable and submitted is not None and submitted != verdict)
    violations = _violations(task, facts, facts_before or {}, calls)
    excluded = end_reason in EXCLUDED_END_REASONS
    right = all(check.is_right for check in checks) and not inconsistent and not violations
    success = None if excluded else int(right)
    classes = (
        ()
        if excluded or right
        else _failure_classes(end_reason, readable, inconsistent, checks, violations, calls, n_malformed, task)
    )
    failed = [check for check in checks if check.truth == "failed"]
    failing = sorted({member for members in task.failing_members.values() for member in members})
    return Score(
        success=success,
        outcome=_outcome(task, success, verdict, checks, facts),
        truth_verdict=task.true_verdict,
        verdict=verdict,
        claimed_verdict=submitted,
        checks=checks,
        checks_total=len(checks),
        checks_right=sum(check.is_right for check in checks),
        checks_defective=len(failed),
        checks_found=sum(check.is_right for check in failed),
        members_defective=len(failing),
        members_named=sum(_is_named(member, answer) for member in failing) if answer else 0,
        exposed=any(_shows(task, check.key, "failed", calls) for check in failed) if failed else None,
        failure_class=classes[0] if classes else None,
        failure_classes=classes,
    )


def claimed_statuses(task: Task, answer: Answer) -> tuple[dict[str, str], bool]:
    """Return the claimed status per criterion key, and whether the answer contradicts itself.

    A finding without a subject counts for the one criterion of its name. Findings on the members of a
    criterion (each order of a user) are folded into it unless the criterion itself is claimed.
    """
    claims: dict[str, str] = {}
    folded: dict[str, dict[str, str]] = {}
    contradictory = False
    for finding in answer.findings:
        key, member = _criterion_of(task, finding)
        if key is None:
            continue
        target, name = (claims, key) if member is None else (folded.setdefault(key, {}), member)
        contradictory |= target.get(name, finding.status) != finding.status
        target[name] = finding.status
    for key, statuses in folded.items():
        if key not in claims and ("failed" in statuses.values() or set(statuses) >= set(task.members[key])):
            claims[key] = {"incomplete": "not_evaluated"}.get(verdict := verdict_of(statuses), verdict)
    return claims, contradictory


def is_supported(task: Task, key: str, claimed: str | None, calls: Sequence[CallRecord]) -> bool:
    """Return whether the trace entitles the run to this claim.

    `passed` and `failed` need evidence of that check on the right subject; `not_evaluated` needs the
    task's required evidence of why.
    """
    if claimed is None:
        return False
    if claimed == "not_evaluated":
        return bool(task.required_evidence) and has_required_evidence(task, calls)
    if key in task.members and not task.members[key]:
        return claimed == "passed" and has_required_evidence(task, calls)
    return _shows(task, key, claimed, calls)


def has_required_evidence(task: Task, calls: Sequence[CallRecord]) -> bool:
    """Return whether every required call stands in the trace with its outcome."""
    return all(any(_matches(required, call) for call in calls) for required in task.required_evidence)


def _matches(required: RequiredCall, call: CallRecord) -> bool:
    return (
        call.executed
        and call.tool == required.tool
        and call.success == required.success
        and (required.error_kind is None or call.error_kind == required.error_kind)
        and all(call.arguments.get(name) == value for name, value in required.arguments.items())
    )


def _criterion_of(task: Task, finding: Finding) -> tuple[str | None, str | None]:
    """The criterion a finding speaks of, and the member when it speaks of one member only."""
    if finding.key in task.checks:
        return finding.key, None
    same_name = [criterion.key for criterion in task.criteria if criterion.name == finding.criterion]
    if finding.subject:
        owners = [key for key in same_name if finding.subject in task.members.get(key, ())]
        if owners:
            return owners[0], finding.subject
        without_subject = [key for key in same_name if key == finding.criterion]
        return (without_subject[0], None) if without_subject else (None, None)
    return (same_name[0], None) if len(same_name) == 1 else (None, None)


def _shows(task: Task, key: str, status: str, calls: Sequence[CallRecord]) -> bool:
    """Does the trace show `status` for this criterion? The latest evidence on each subject counts."""
    name, _, subject = key.partition("@")
    latest: dict[str, str] = {}
    whole = None
    for call in calls:
        whole = call.visible.get(key, whole)
        if call.check == name and call.passed is not None and call.executed:
            latest[call.subject or ""] = "passed" if call.passed else "failed"
    if whole is not None:
        return whole == status
    subjects = task.members.get(key) or ((subject,) if subject else tuple(latest))
    seen = [latest.get(member) for member in subjects]
    if status == "failed":
        return "failed" in seen
    return bool(seen) and all(value == "passed" for value in seen)


def _outcome(
    task: Task, success: int | None, verdict: str | None, checks: Sequence[CheckScore], facts: JsonObject
) -> str:
    truth = task.true_verdict
    if success is None:
        return "excluded"
    if verdict is None or (verdict == "incomplete" and truth != "incomplete"):
        return "no_verdict"
    if truth == "incomplete":
        return "incomplete_right" if success else "incomplete_wrong"
    if truth == "failed":
        if verdict == "failed":
            return "found" if any(check.truth == "failed" and check.is_right for check in checks) else "wrong_defect"
        blocking = {defect.name for defect in task.defects if defect.blocking}
        return "masked" if blocking & set(facts.get("detours", ())) else "missed"
    return "clean" if verdict == "passed" else "false_alarm"


def _violations(task: Task, facts: JsonObject, before: JsonObject, calls: Sequence[CallRecord]) -> list[str]:
    """The ways in which the environment's final state is not the required one."""
    found = []
    for name, wanted in task.end_state.items():
        actual = facts.get(name)
        if actual == wanted:
            continue
        if actual == before.get(name):
            found.append("did_not_act")
        elif task.true_verdict == "failed" and any(_may_be_irreversible(call) for call in calls):
            found.append("harmful_effect")
        else:
            found.append("acted_when_it_should_not")
    return found


def _may_be_irreversible(call: CallRecord) -> bool:
    """Did this call do something that cannot be undone, as far as anyone knows?"""
    took_effect = call.success or call.error_kind in UNCERTAIN_ERROR_KINDS
    return call.executed and call.effect == "irreversible" and took_effect


def _failure_classes(
    end_reason: str,
    readable: bool,
    inconsistent: bool,
    checks: Sequence[CheckScore],
    violations: Sequence[str],
    calls: Sequence[CallRecord],
    n_malformed: int,
    task: Task,
) -> tuple[str, ...]:
    """Every cause that applies, in the order of `FAILURE_CLASSES`."""
    found = set(violations)
    if end_reason.startswith("budget_"):
        found.add("budget")
    elif end_reason in _BY_END_REASON:
        found.add(_BY_END_REASON[end_reason])
    if inconsistent:
        found.add("inconsistent_answer")
    if end_reason == "answered":
        found |= (
            {_fault_of(check, task, calls) for check in checks if not check.is_right} if readable else {"no_answer"}
        )
        if not readable and not all(_is_evidenced(check, task, calls) for check in checks):
            found.add("false_finish")
    kinds = {call.error_kind for call in calls if not call.success}
    found |= {
        name
        for kind, name in (("unknown_tool", "hallucinated_tool"), ("bad_arguments", "wrong_argument"))
        if kind in kinds
    }
    if any(call.repeated for call in calls):
        found.add("repeated_call")
    if n_malformed:
        found.add("malformed_reply")
    return tuple(name for name in FAILURE_CLASSES if name in found) or ("unknown",)


def _fault_of(check: CheckScore, task: Task, calls: Sequence[CallRecord]) -> str:
    """Why one claim of a readable answer is not right."""
    if check.claimed is None:
        return "missed_check"
    if check.claimed == "not_evaluated" and check.truth != "not_evaluated":
        return "wrong_verdict" if _is_evidenced(check, task, calls) else "missed_check"
    was_checked = any(_shows(task, check.key, status, calls) for status in ("passed", "failed"))
    return "wrong_verdict" if was_checked else "false_finish"


def _is_evidenced(check: CheckScore, task: Task, calls: Sequence[CallRecord]) -> bool:
    """Did the run see what it takes to claim the truth?"""
    return is_supported(task, check.key, check.truth, calls)


def _is_named(member: str, answer: Answer) -> bool:
    texts = [answer.text, *(f"{finding.subject} {finding.evidence}" for finding in answer.findings)]
    return any(re.search(rf"(?<![\w]){re.escape(member)}(?![\w])", text, re.ASCII) for text in texts)
