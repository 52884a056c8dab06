"""Every error that agentlab raises on purpose.

The tree (a test compares this drawing with the code):

    AgentLabError
      ConfigError
      TaskError
      PlanError
      UnresolvedReference
      StopRun
        BudgetExceeded
      Interrupted
      ToolError
        UnknownTool
        BadArguments
        ToolFailed
        ToolTimedOut
      InfrastructureError
        ModelUnavailable
          QuotaExhausted
        EnvironmentUnavailable
      StoreError
        WrongExperiment
        CorruptRecord
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentlab.records import PlanProblem, Send

MOST_PROBLEMS_SHOWN = 20


class AgentLabError(Exception):
    """Base of all errors below; its text is written for the person who reads it."""


class ConfigError(AgentLabError):
    """Something the user named or set cannot be used: an unknown name, a missing key, a bad file."""


class TaskError(AgentLabError):
    """A task cannot be used: no checks, an unknown criterion, a reference that does not prove it."""


class PlanError(AgentLabError):
    """A plan may not be executed; nothing of it has run."""

    def __init__(self, problems: "Iterable[PlanProblem]", explanation: str = "") -> None:
        self.problems: tuple[PlanProblem, ...] = tuple(problems)
        """Everything that is wrong with it, in the order of the rules."""
        self.explanation = explanation
        """Why there is nothing to do, in the planner's words; only where the plan has no steps."""
        super().__init__("\n".join(["The plan cannot be used.", *(problem.line("en") for problem in self.problems)]))

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the problems."""
        return tuple(problem.code for problem in self.problems)

    def feedback(self, language: str = "en") -> str:
        """Return what the planner is told: every problem with its fix, in a language (zh or en).

        An empty plan is not sent back with a demand for steps: nothing to do is an honest outcome.
        """
        zh = language == "zh"
        lines = [problem.line(language) for problem in self.problems[:MOST_PROBLEMS_SHOWN]]
        if (left_out := len(self.problems) - len(lines)) > 0:
            lines.append(f"……另有 {left_out} 个问题。" if zh else f"... and {left_out} more.")
        if set(self.codes) <= {"empty_plan", "not_a_plan"}:
            return "\n".join(lines)
        if zh:
            before, after = (
                "这个计划不能执行，目前没有执行任何步骤：",
                "请改正以上全部问题，并重新给出完整的 JSON 计划。",
            )
        else:
            before = "This plan cannot be used; nothing of it was executed:"
            after = "Correct all of this and send the whole JSON plan again."
        return "\n".join([before, *(f"- {line}" for line in lines), after])


class UnresolvedReference(AgentLabError, KeyError):
    """A reference to the output of a plan step leads nowhere."""

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(f"{reference} leads nowhere: {reason}.")
        self.reference = reference

    def __str__(self) -> str:
        # A KeyError shows the repr of its argument; this text is written for people.
        return str(self.args[0])


class StopRun(AgentLabError):
    """Ends the run with `end_reason`; raised by the session, caught in `run_one` alone."""

    def __init__(self, end_reason: str, message: str) -> None:
        super().__init__(message)
        self.end_reason = end_reason


class BudgetExceeded(StopRun):
    """A limit of the budget is reached; `end_reason` is `budget_<kind>`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"budget_{kind}", message)
        self.kind = kind


class Interrupted(AgentLabError):
    """A person stopped the work (Ctrl-C), possibly while a tool was running; the run is marked interrupted."""


class ToolError(AgentLabError):
    """A tool call failed in a way that the model is told about; `kind` becomes `error_kind`."""

    kind = "tool_failed"


class UnknownTool(ToolError):
    """The model named a tool that is not offered."""

    kind = "unknown_tool"


class BadArguments(ToolError):
    """The arguments are not an object that fits the tool's schema."""

    kind = "bad_arguments"


class ToolFailed(ToolError):
    """The tool's function raised, or returned what cannot be passed on."""


class ToolTimedOut(ToolError):
    """The tool did not return within its time limit; whether it took effect is unknown."""

    kind = "timed_out"


class InfrastructureError(AgentLabError):
    """Nobody's failure: the same run could end otherwise if it were repeated."""


class ModelUnavailable(InfrastructureError):
    """No usable answer came from the model's server after all sends."""

    sends: "tuple[Send, ...]" = ()
    """The HTTP exchanges that were made; some may have been billed."""
    kind: str = ""
    """Why: a key of `agentlab.models.failures.TRANSPORT_WORDS`, wrong_key, not_found or quota_exhausted; "" else."""


class QuotaExhausted(ModelUnavailable):
    """The account has no quota left; repeating cannot help, so no further run of this model is started."""


class EnvironmentUnavailable(InfrastructureError):
    """The harness around the system under test failed (a browser process, a database server)."""


class StoreError(AgentLabError):
    """The store of results cannot be used as asked."""


class WrongExperiment(StoreError):
    """The folder holds another experiment (other name or seed), or was written by a newer schema."""


class CorruptRecord(StoreError):
    """A stored record cannot be read back."""


def unknown_name(what: str, name: str, valid: Iterable[str], *, hint: str = "") -> ConfigError:
    """Return the error for a name that does not exist, with the valid names and the closest one."""
    import difflib

    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    return ConfigError(
        f"Unknown {what} {name!r}.{guess} Valid: {', '.join(names) or 'none'}.{' ' + hint if hint else ''}"
    )
