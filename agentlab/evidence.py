"""What tool results show about the criteria of a task, without knowing the truth.

A strategy whose answer is written by Python, and the run report, derive statuses here; `scoring` judges them.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from agentlab.records import Finding, ToolResult

Results = Sequence[tuple[str, ToolResult]]
"""Tool name and result of each executed call, in order."""


class CriterionLike(Protocol):
    """Anything that names a criterion."""

    @property
    def name(self) -> str:
        """Name without subject."""

    @property
    def subject(self) -> str:
        """What it is about; empty when there is one subject only."""


def findings_of(criteria: Iterable[CriterionLike], results: Results) -> tuple[Finding, ...]:
    """Return what the results show for every criterion; the latest result on each subject counts.

    Evidence on the criterion's own subject decides. Without any, all evidence of its name counts that belongs to
    no other criterion: a criterion on an owner is failed when one of its things fails. No evidence is
    `not_evaluated`, with the last failure as its reason.
    """
    listed = list(criteria)
    return tuple(_finding(criterion, listed, results) for criterion in listed)


def quote(tool: str, result: ToolResult) -> str:
    """Return a result in a few words: `check_order_amount ORDER1002, passed=false, The amount -20.00 is negative.`."""
    parts = [f"{tool} {result.subject}" if result.subject else tool]
    if result.passed is not None:
        parts.append("passed=true" if result.passed else "passed=false")
    if result.error_kind is not None:
        parts.append(result.error_kind)
    if result.message:
        parts.append(result.message)
    return ", ".join(parts)


def _finding(criterion: CriterionLike, criteria: Sequence[CriterionLike], results: Results) -> Finding:
    key = f"{criterion.name}@{criterion.subject}" if criterion.subject else criterion.name
    others = {c.subject for c in criteria if c.name == criterion.name} - {criterion.subject}
    shown: dict[str, tuple[str, ToolResult]] = {}
    whole: tuple[str, ToolResult] | None = None
    for tool, result in results:
        if key in result.visible:
            whole = tool, result
        if result.check == criterion.name and result.passed is not None and (result.subject or "") not in others:
            shown[result.subject or ""] = tool, result
    if whole is not None:
        return Finding(criterion.name, whole[1].visible[key], criterion.subject, quote(*whole))
    if criterion.subject in shown:
        shown = {criterion.subject: shown[criterion.subject]}
    if not shown:
        failures = [quote(tool, result) for tool, result in results if not result.success]
        return Finding(criterion.name, "not_evaluated", criterion.subject, failures[-1] if failures else "")
    failing = [found for found in shown.values() if not found[1].passed]
    evidence = "; ".join(quote(*found) for found in failing or shown.values())
    return Finding(criterion.name, "failed" if failing else "passed", criterion.subject, evidence)
