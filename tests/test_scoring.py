"""One table walks every line of DESIGN 4."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from agentlab.columns import EXCLUDED_END_REASONS, FAILURE_CLASSES, OUTCOMES
from agentlab.records import Answer, Finding
from agentlab.scoring import CallRecord, score_run
from agentlab.tasks import Criterion, Declared, Defect, ReferenceStep, RequiredCall, Task, Text

TEXT = Text(zh="检查", en="check")


def a_task(checks: dict[str, str], **fields: Any) -> Task:
    criteria = tuple(Criterion(name=k.partition("@")[0], subject=k.partition("@")[2], description=TEXT) for k in checks)
    evidence = fields.pop("required_evidence", ())
    if "not_evaluated" in checks.values() and not evidence:
        evidence = (RequiredCall(tool="query", arguments={"id": "O1"}, success=False, error_kind="not_found"),)
    return Task(
        id="t",
        suite="s",
        instruction=TEXT,
        environment="e",
        criteria=criteria,
        checks=checks,
        required_evidence=evidence,
        reference=(ReferenceStep(id="1", tool="query"),),
        cluster="c",
        declared=Declared(steps=1),
        **fields,
    )


def checked(criterion: str, passed: bool, subject: str = "O1", **fields: Any) -> CallRecord:
    return CallRecord(f"check_{criterion}", {"id": subject}, True, True, passed, criterion, subject, **fields)


def not_found(subject: str = "O1") -> CallRecord:
    return CallRecord("query", {"id": subject}, True, False, error_kind="not_found")


def says(verdict: str | None = None, text: str = "", **claims: str) -> Answer:
    """Claims as criterion__subject=status."""
    findings = []
    for name, status in claims.items():
        criterion, _, subject = name.partition("__")
        findings.append(Finding(criterion, status, subject))
    return Answer(tuple(findings), verdict, text)


HEALTHY = {"amount@O1": "passed", "status@O1": "passed"}
DEFECTIVE = {"amount@O1": "failed", "status@O1": "passed"}
TWO_DEFECTS = {"amount@O1": "failed", "status@O1": "failed"}
MISSING = {"amount@O1": "not_evaluated", "status@O1": "not_evaluated"}
BOTH_PASS = (checked("amount", True), checked("status", True))
AMOUNT_FAILS = (checked("amount", False), checked("status", True))
BOTH_FAIL = (checked("amount", False), checked("status", False))


@dataclass
class Case:
    name: str
    checks: dict[str, str]
    answer: Answer | None
    calls: tuple[CallRecord, ...]
    success: int | None
    outcome: str
    verdict: str | None
    failure_class: str | None = None
    end_reason: str = "answered"
    exposed: bool | None = None
    task: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    facts_before: dict[str, Any] = field(default_factory=dict)


ORDER = {"amount@USER": "failed"}
MEMBERS = {"members": {"amount@USER": ("O1", "O2")}, "failing_members": {"amount@USER": ("O2",)}}
ONE_BAD = (checked("amount", True, "O1"), checked("amount", False, "O2"))
MAIL = Defect(name="no_button", blocking=True)

CASES = [
    # success: every check claimed with its true status, every claim supported, the end state holds
    Case("clean", HEALTHY, says("passed", amount__O1="passed", status__O1="passed"), BOTH_PASS, 1, "clean", "passed"),
    Case("found both (ORDER1002)", TWO_DEFECTS, says("failed", amount__O1="failed", status__O1="failed"), BOTH_FAIL, 1, "found", "failed", exposed=True),
    Case("missing order (ORDER9999)", MISSING, says("incomplete", amount__O1="not_evaluated", status__O1="not_evaluated"), (not_found(),), 1, "incomplete_right", "incomplete"),
    Case("no subject, one criterion of the name", HEALTHY, says("passed", amount="passed", status="passed"), BOTH_PASS, 1, "clean", "passed"),
    Case("no submitted verdict: it is derived", HEALTHY, says(None, amount="passed", status="passed"), BOTH_PASS, 1, "clean", "passed"),
    # support
    Case("incomplete without the query", MISSING, says("incomplete", amount="not_evaluated", status="not_evaluated"), (), 0, "incomplete_wrong", "incomplete", "false_finish"),
    Case("incomplete, query on another order", MISSING, says("incomplete", amount="not_evaluated", status="not_evaluated"), (not_found("O2"),), 0, "incomplete_wrong", "incomplete", "false_finish"),
    Case("right but no evidence", HEALTHY, says("passed", amount="passed", status="passed"), (), 0, "clean", "passed", "false_finish"),
    Case("evidence on another subject", HEALTHY, says("passed", amount="passed", status="passed"), (checked("amount", True, "O2"), checked("status", True, "O2")), 0, "clean", "passed", "false_finish"),
    Case("a query is not a check", HEALTHY, says("passed", amount="passed", status="passed"), (CallRecord("query", {"id": "O1"}, True, True),), 0, "clean", "passed", "false_finish"),
    Case("refused call is no evidence", HEALTHY, says("passed", amount="passed", status="passed"), (CallRecord("check_amount", {}, False, True, True, "amount", "O1"), checked("status", True)), 0, "clean", "passed", "false_finish"),
    Case("visible in an observation", HEALTHY, says("passed", amount="passed", status="passed"), (CallRecord("look", {}, True, True, visible={"amount@O1": "passed", "status@O1": "passed"}),), 1, "clean", "passed"),
    Case("the latest evidence counts", HEALTHY, says("passed", amount="passed", status="passed"), (checked("amount", False), *BOTH_PASS), 1, "clean", "passed"),
    # derived verdict
    Case("failed wins over not evaluated", DEFECTIVE, says("failed", amount="failed", status="not_evaluated"), (checked("amount", False),), 0, "found", "failed", "missed_check", exposed=True),
    Case("unclaimed criterion is incomplete", HEALTHY, says(None, amount="passed"), BOTH_PASS, 0, "no_verdict", "incomplete", "missed_check"),
    Case("verdict contradicts findings", TWO_DEFECTS, says("passed", amount="failed", status="failed"), BOTH_FAIL, 0, "found", "failed", "inconsistent_answer", exposed=True),
    Case("verdict without findings", TWO_DEFECTS, says("failed"), BOTH_FAIL, 0, "no_verdict", "incomplete", "inconsistent_answer", exposed=True),
    Case("two statuses for one criterion", HEALTHY, Answer((Finding("amount", "passed"), Finding("amount", "failed"), Finding("status", "passed"))), BOTH_PASS, 0, "false_alarm", "failed", "inconsistent_answer"),
    # outcome, in the order of its rules
    *[Case(f"excluded: {reason}", HEALTHY, None, (), None, "excluded", None, None, reason) for reason in EXCLUDED_END_REASONS],
    Case("plain text, nothing checked", TWO_DEFECTS, Answer(text="all fine"), (), 0, "no_verdict", None, "false_finish", exposed=False),
    Case("plain text after all checks", TWO_DEFECTS, Answer(text="two defects"), BOTH_FAIL, 0, "no_verdict", None, "no_answer", exposed=True),
    Case("incomplete where the truth is not", TWO_DEFECTS, says("incomplete", amount="not_evaluated", status="not_evaluated"), (), 0, "no_verdict", "incomplete", "missed_check", exposed=False),
    Case("truth incomplete, said passed", MISSING, says("passed", amount="passed", status="passed"), (not_found(),), 0, "incomplete_wrong", "passed", "false_finish"),
    Case("truth incomplete, said failed", MISSING, says("failed", amount="failed", status="failed"), (not_found(),), 0, "incomplete_wrong", "failed", "false_finish"),
    Case("one of two defects found", TWO_DEFECTS, says("failed", amount="failed", status="passed"), BOTH_FAIL, 0, "found", "failed", "wrong_verdict", exposed=True),
    Case("failed, but another check", DEFECTIVE, says("failed", amount="passed", status="failed"), AMOUNT_FAILS, 0, "wrong_defect", "failed", "wrong_verdict", exposed=True),
    Case("failed without support", DEFECTIVE, says("failed", amount="failed", status="passed"), (), 0, "wrong_defect", "failed", "false_finish", exposed=False),
    Case("missed although exposed", DEFECTIVE, says("passed", amount="passed", status="passed"), AMOUNT_FAILS, 0, "missed", "passed", "wrong_verdict", exposed=True),
    Case("missed, never exposed", DEFECTIVE, says("passed", amount="passed", status="passed"), (checked("status", True),), 0, "missed", "passed", "false_finish", exposed=False),
    Case("masked by a detour", DEFECTIVE, says("passed", amount="passed", status="passed"), (), 0, "masked", "passed", "false_finish", exposed=False, task={"defects": (MAIL,)}, facts={"detours": ["no_button"]}),
    Case("false alarm", HEALTHY, says("failed", amount="failed", status="passed"), BOTH_PASS, 0, "false_alarm", "failed", "wrong_verdict"),
    # end reasons that are the strategy's own failure
    Case("budget", HEALTHY, None, BOTH_PASS, 0, "no_verdict", None, "budget", "budget_total_tokens"),
    Case("rounds", HEALTHY, None, BOTH_PASS, 0, "no_verdict", None, "budget", "budget_rounds"),
    Case("loop", HEALTHY, None, (), 0, "no_verdict", None, "loop_detected", "loop_detected"),
    Case("format", HEALTHY, None, (), 0, "no_verdict", None, "malformed_reply", "format_limit"),
    Case("context", HEALTHY, None, (), 0, "no_verdict", None, "context_overflow", "context_overflow"),
    Case("filter", HEALTHY, None, (), 0, "no_verdict", None, "content_filtered", "content_filtered"),
    Case("plan", HEALTHY, None, (), 0, "no_verdict", None, "invalid_plan", "invalid_plan"),
    Case("gave up", HEALTHY, Answer(gave_up=True), (), 0, "no_verdict", None, "gave_up", "gave_up"),
    Case("escalated", HEALTHY, None, (), 0, "no_verdict", None, "escalated", "escalated"),
    # end state
    Case("end state missing", HEALTHY, says("passed", amount="passed", status="passed"), BOTH_PASS, 0, "clean", "passed", "did_not_act", task={"end_state": {"mails": 1}}, facts={"mails": 0}, facts_before={"mails": 0}),
    Case("end state exceeded", HEALTHY, says("passed", amount="passed", status="passed"), BOTH_PASS, 0, "clean", "passed", "acted_when_it_should_not", task={"end_state": {"mails": 1}}, facts={"mails": 2}, facts_before={"mails": 0}),
    Case("harmful effect", DEFECTIVE, says("failed", amount="failed", status="passed"), (*AMOUNT_FAILS, CallRecord("mail", {}, True, True, effect="irreversible")), 0, "found", "failed", "harmful_effect", exposed=True, task={"end_state": {"mails": 0}}, facts={"mails": 1}, facts_before={"mails": 0}),
    Case("no harm by a mail that was refused", DEFECTIVE, says("failed", amount="failed", status="passed"), (*AMOUNT_FAILS, CallRecord("mail", {}, True, False, error_kind="mail_server_down", effect="irreversible")), 0, "found", "failed", "acted_when_it_should_not", exposed=True, task={"end_state": {"orders": 1}}, facts={"orders": 2}, facts_before={"orders": 0}),
    Case("a mail that timed out may have gone", DEFECTIVE, says("failed", amount="failed", status="passed"), (*AMOUNT_FAILS, CallRecord("mail", {}, True, False, error_kind="timed_out", effect="irreversible")), 0, "found", "failed", "harmful_effect", exposed=True, task={"end_state": {"mails": 0}}, facts={"mails": 1}, facts_before={"mails": 0}),
    # criteria over an unknown number of things
    Case("owner: one failing member is enough", ORDER, says("failed", amount__USER="failed"), ONE_BAD, 1, "found", "failed", exposed=True, task=MEMBERS),
    Case("owner: findings per member are folded", ORDER, says("failed", amount__O1="passed", amount__O2="failed"), ONE_BAD, 1, "found", "failed", exposed=True, task=MEMBERS),
    Case("owner: passed needs all members", {"amount@USER": "passed"}, says("passed", amount__USER="passed"), (checked("amount", True, "O1"),), 0, "clean", "passed", "false_finish", task={"members": MEMBERS["members"]}),
    Case("owner: all members seen", {"amount@USER": "passed"}, says("passed", amount__USER="passed"), (checked("amount", True, "O1"), checked("amount", True, "O2")), 1, "clean", "passed", task={"members": MEMBERS["members"]}),
    Case("owner of nothing: the query entitles", {"amount@USER": "passed"}, says("passed", amount__USER="passed"), (CallRecord("query", {"id": "USER"}, True, True),), 1, "clean", "passed", task={"members": {"amount@USER": ()}, "required_evidence": (RequiredCall(tool="query", arguments={"id": "USER"}),)}),
    # contributing causes
    Case("hallucinated tool", HEALTHY, None, (CallRecord("nope", {}, False, False, error_kind="unknown_tool"),), 0, "no_verdict", None, "budget", "budget_model_calls"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_rule(case: Case) -> None:
    score = score_run(
        a_task(case.checks, **case.task), case.answer, case.end_reason, case.calls, case.facts, case.facts_before
    )
    found = (score.success, score.outcome, score.verdict, score.failure_class, score.exposed)
    assert found == (case.success, case.outcome, case.verdict, case.failure_class, case.exposed)


def test_the_table_covers_every_outcome() -> None:
    assert {case.outcome for case in CASES} == set(OUTCOMES)


def test_partial_finding_is_counted() -> None:
    score = score_run(a_task(TWO_DEFECTS), says("failed", amount="failed", status="passed"), "answered", BOTH_FAIL, {})
    assert (score.checks_defective, score.checks_found, score.checks_right, score.checks_total) == (2, 1, 1, 2)


@pytest.mark.parametrize(
    ("text", "named"), [("O2 is negative", 1), ("O22 is negative", 0), ("订单O2金额为负", 1), ("one is bad", 0)]
)
def test_named_members(text: str, named: int) -> None:
    task = a_task(ORDER, **MEMBERS)
    score = score_run(task, says("failed", text, amount__USER="failed"), "answered", ONE_BAD, {})
    assert (score.members_named, score.members_defective) == (named, 1)


def test_causes_come_in_a_fixed_order_and_all_are_kept() -> None:
    calls = (
        CallRecord("nope", {}, False, False, error_kind="unknown_tool"),
        CallRecord("check_amount", {}, False, False, error_kind="bad_arguments"),
        checked("amount", False, repeated=True),
    )
    score = score_run(a_task(TWO_DEFECTS), says("failed", amount="failed"), "answered", calls, {}, n_malformed=1)
    assert score.failure_classes == (
        "malformed_reply",
        "missed_check",
        "hallucinated_tool",
        "wrong_argument",
        "repeated_call",
    )
    assert [FAILURE_CLASSES.index(name) for name in score.failure_classes] == sorted(
        FAILURE_CLASSES.index(n) for n in score.failure_classes
    )


def test_a_right_run_has_no_cause_even_with_slips() -> None:
    calls = (CallRecord("nope", {}, False, False, error_kind="unknown_tool"), *BOTH_FAIL)
    score = score_run(a_task(TWO_DEFECTS), says("failed", amount="failed", status="failed"), "answered", calls, {})
    assert (score.success, score.failure_class, score.failure_classes) == (1, None, ())
