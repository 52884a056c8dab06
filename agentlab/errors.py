"""Every error that agentlab raises on purpose.

The tree (a test compares this drawing with the code):

    AgentLabError
      ConfigError
      TaskError
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
    from agentlab.records import Send


class AgentLabError(Exception):
    """Base of all errors below; its text is written for the person who reads it."""


class ConfigError(AgentLabError):
    """Something the user named or set cannot be used: an unknown name, a missing key, a bad file."""


class TaskError(AgentLabError):
    """A task cannot be used: no checks, an unknown criterion, a reference that does not prove it."""


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
