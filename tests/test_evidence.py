import pytest

from agentlab.evidence import findings_of, quote
from agentlab.records import ToolResult
from agentlab.tasks import CriterionView

AMOUNT = CriterionView(name="amount", subject="O1", description="")
OTHER = CriterionView(name="amount", subject="O2", description="")
OWNER = CriterionView(name="amount", subject="USER", description="")


def check(subject: str, passed: bool, message: str = "") -> tuple[str, ToolResult]:
    return "check_amount", ToolResult(True, passed, "amount", subject, message=message)


MISSING = ("query", ToolResult(False, subject="O1", error_kind="not_found", message="no such order"))


@pytest.mark.parametrize(
    ("criteria", "results", "status", "evidence"),
    [
        ([AMOUNT], [check("O1", True)], "passed", "check_amount O1, passed=true"),
        ([AMOUNT], [check("O1", False, "negative")], "failed", "check_amount O1, passed=false, negative"),
        ([AMOUNT], [check("O1", False), check("O1", True)], "passed", "check_amount O1, passed=true"),
        ([AMOUNT, OTHER], [check("O2", False)], "not_evaluated", ""),
        ([AMOUNT], [MISSING], "not_evaluated", "query O1, not_found, no such order"),
        (
            [OWNER],
            [check("O1", True), check("O2", True)],
            "passed",
            "check_amount O1, passed=true; check_amount O2, passed=true",
        ),
        ([OWNER], [check("O1", True), check("O2", False)], "failed", "check_amount O2, passed=false"),
        ([OWNER], [check("USER", True), check("O2", False)], "passed", "check_amount USER, passed=true"),
        ([AMOUNT], [("look", ToolResult(True, visible={"amount@O1": "failed"}))], "failed", "look"),
        ([AMOUNT], [("query", ToolResult(True, subject="O1"))], "not_evaluated", ""),
    ],
)
def test_a_status_follows_from_the_results(
    criteria: list[CriterionView], results: list[tuple[str, ToolResult]], status: str, evidence: str
) -> None:
    finding = findings_of(criteria, results)[0]
    assert (finding.status, finding.evidence) == (status, evidence)


def test_every_criterion_gets_a_finding() -> None:
    assert [finding.key for finding in findings_of([AMOUNT, OTHER], [])] == ["amount@O1", "amount@O2"]
    assert quote(*MISSING) == "query O1, not_found, no such order"
