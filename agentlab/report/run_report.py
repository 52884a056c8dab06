"""The report of one run, written by Python from its trace; what the agent claims stands beside it.

Both axes are always shown: what was executed, and what the checks found. A query is not a check, and a
check that finds a defect was executed successfully.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentlab.evidence import findings_of
from agentlab.records import Event, JsonObject, ToolResult, verdict_of
from agentlab.report.run_texts import TEXTS, RunTexts
from agentlab.tasks import CriterionView

_NEVER_STARTED: JsonObject = {
    "task": {"instruction": "", "criteria": []},
    "strategy": {"name": ""},
    "model": {"name": "", "kind": ""},
}


@dataclass(frozen=True, slots=True)
class CallLine:
    """One tool call of the run."""

    round: int
    """How many model calls came before it."""
    tool: str
    arguments: JsonObject
    executed: bool
    success: bool
    check: str | None
    subject: str | None
    passed: bool | None
    error_kind: str | None
    observation: str
    visible: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One criterion: what the tools showed, and what the agent claimed."""

    key: str
    description: str
    status: str
    """By the evidence in the trace: passed, failed or not_evaluated."""
    claimed: str | None

    @property
    def is_contradicted(self) -> bool:
        """True when the agent claims something that the trace does not show."""
        return self.claimed is not None and self.claimed != self.status


@dataclass(frozen=True, slots=True)
class RunReport:
    """The facts of one run; `text` renders them."""

    instruction: str
    strategy: str
    """Empty for a run that never began, because the environment could not be reset."""
    model: str
    model_kind: str
    end_reason: str
    message: str | None
    calls: tuple[CallLine, ...]
    checks: tuple[CheckLine, ...]
    claimed_verdict: str | None
    answer_text: str
    n_model_calls: int

    @property
    def verdict(self) -> str:
        """The verdict that follows from what the tools showed."""
        return verdict_of([check.status for check in self.checks])

    @property
    def totals(self) -> dict[str, int]:
        """Counts on both axes: calls executed, failed, refused; checks passed, not passed, not evaluated."""
        executed = [call for call in self.calls if call.executed]
        return {
            "executed": sum(call.success for call in executed),
            "failed": sum(not call.success for call in executed),
            "refused": len(self.calls) - len(executed),
            "queries": sum(call.check is None for call in executed),
            "checks": sum(call.check is not None for call in executed),
            "passed": sum(check.status == "passed" for check in self.checks),
            "not_passed": sum(check.status == "failed" for check in self.checks),
            "not_evaluated": sum(check.status == "not_evaluated" for check in self.checks),
        }

    def text(self, language: str = "en") -> str:
        """Return the report as plain text: totals, calls, conclusion, the agent's claim; why, where none began."""
        words = TEXTS[language]
        if not self.strategy:
            return "\n".join([words.title, words.end(self.end_reason, self.message)])
        lines = [
            words.title,
            f"{words.task}{words.colon}{self.instruction}",
            f"{self.strategy} · {self.model} ({words.kinds[self.model_kind]})",
            "",
        ]
        lines += [words.section_totals, *words.totals(self.totals, self.n_model_calls), ""]
        lines += [
            words.section_calls,
            *(_call_text(number, call, words) for number, call in enumerate(self.calls, 1)),
            "",
        ]
        lines += [words.section_conclusion, *self._conclusion(words), ""]
        lines += [words.section_claim, *self._claim(words)]
        return "\n".join(lines)

    def _conclusion(self, words: RunTexts) -> list[str]:
        lines = [
            f"- {check.key}{words.colon}{words.statuses[check.status]} ({check.description})" for check in self.checks
        ]
        lines.append(
            words.conclusion(
                self.verdict, [c.key for c in self.checks if c.status == "failed"], self.totals["not_evaluated"]
            )
        )
        lines.append(words.end(self.end_reason, self.message))
        return lines

    def _claim(self, words: RunTexts) -> list[str]:
        if self.claimed_verdict is None and all(check.claimed is None for check in self.checks):
            return [words.no_claim, *([f"> {self.answer_text}"] if self.answer_text else [])]
        said = self.claimed_verdict or ""
        lines = [f"{words.claimed_verdict}{words.colon}{words.verdicts.get(said, said or '-')}"]
        for check in self.checks:
            claimed = words.statuses.get(check.claimed or "", words.not_claimed)
            lines.append(
                f"- {check.key}{words.colon}{claimed}{'  ' + words.contradiction if check.is_contradicted else ''}"
            )
        return [*lines, *([f"> {self.answer_text}"] if self.answer_text else [])]


def run_report(events: Sequence[Event]) -> RunReport:
    """Return the report of the run with these events; a pure function of the trace."""
    start = next((event.data for event in events if event.kind == "run_start"), _NEVER_STARTED)
    end = next((event.data for event in reversed(events) if event.kind == "run_end"), {})
    answer = end.get("answer") or {}
    calls = _calls(events)
    claimed = _claimed(answer)
    return RunReport(
        instruction=start["task"]["instruction"],
        strategy=start["strategy"]["name"],
        model=start["model"]["name"],
        model_kind=start["model"]["kind"],
        end_reason=end.get("end_reason", "interrupted"),
        message=end.get("message"),
        calls=calls,
        checks=_checks(start["task"]["criteria"], calls, claimed),
        claimed_verdict=answer.get("verdict"),
        answer_text=answer.get("text") or "",
        n_model_calls=sum(event.kind == "model_call" for event in events),
    )


def loop_result(events: Sequence[Event]) -> JsonObject:
    """Return the run in the loop's own form.

    `{"success": True, "answer": text, "history": [...]}` when the strategy answered, else
    `{"success": False, "reason": text, "history": [...]}`; a history entry is
    `{"round", "tool", "arguments", "result"}`. Here `success` only says that the loop ended by itself.
    """
    report = run_report(events)
    history = [
        {"round": call.round, "tool": call.tool, "arguments": call.arguments, "result": call.observation}
        for call in report.calls
    ]
    if report.end_reason == "answered":
        return {"success": True, "answer": report.answer_text, "history": history}
    return {"success": False, "reason": report.message or report.end_reason, "history": history}


def _calls(events: Sequence[Event]) -> tuple[CallLine, ...]:
    lines = []
    rounds = 0
    for event in events:
        rounds += event.kind == "model_call"
        if event.kind == "tool_call":
            data = event.data
            lines.append(
                CallLine(
                    rounds,
                    data["tool"],
                    data["arguments"],
                    data["executed"],
                    data["success"],
                    data.get("check"),
                    data.get("subject"),
                    data.get("passed"),
                    data.get("error_kind"),
                    data["observation"],
                    data.get("visible", {}),
                )
            )
    return tuple(lines)


def _claimed(answer: JsonObject) -> dict[str, str]:
    claimed = {}
    for finding in answer.get("findings", ()):
        name, subject = finding["criterion"], finding.get("subject")
        claimed[f"{name}@{subject}" if subject else name] = finding["status"]
    return claimed


def _checks(
    criteria: Sequence[JsonObject], calls: Sequence[CallLine], claimed: dict[str, str]
) -> tuple[CheckLine, ...]:
    views = [CriterionView.model_validate(criterion) for criterion in criteria]
    names = Counter(view.name for view in views)
    results = [
        (call.tool, ToolResult(call.success, call.passed, call.check, call.subject, visible=call.visible))
        for call in calls
    ]
    return tuple(
        CheckLine(
            finding.key,
            view.description,
            finding.status,
            claimed.get(finding.key, claimed.get(view.name) if names[view.name] == 1 else None),
        )
        for view, finding in zip(views, findings_of(views, results), strict=True)
    )


def _call_text(number: int, call: CallLine, words: RunTexts) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    if not call.executed:
        state = f"{words.refused} ({call.error_kind})"
    elif not call.success:
        state = f"{words.failed} ({call.error_kind})"
    else:
        state = words.executed
    if call.passed is not None:
        state += f"{words.comma}{words.passed if call.passed else words.not_passed}"
    return f"{number}. {call.tool}({arguments}){words.colon}{state}\n   {call.observation}"
