"""Budget (limits of a run) and meter (what was spent), in the currency that all strategies share."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, NonNegativeInt

from agentlab.errors import BudgetExceeded
from agentlab.records import Reply


class Budget(BaseModel):
    """Limits of one run; None is unlimited. Never counted in "steps", whose meaning differs per strategy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_calls: NonNegativeInt | None = None
    """Model calls, unreadable replies included."""
    tool_calls: NonNegativeInt | None = None
    """Executed tool calls."""
    total_tokens: NonNegativeInt | None = None
    """Input and output tokens together."""
    cost_usd: NonNegativeFloat | None = None
    """US dollars; needs a model with a known price."""
    work_s: NonNegativeFloat | None = None
    """Seconds of model and tool work; queueing, rate-limit and retry waits do not count."""


@dataclass(slots=True)
class Meter:
    """What a run has spent so far.

    Known tokens and cost are lower bounds when `unknown_usage_calls` or `unpriced_calls` is above zero.
    """

    budget: Budget
    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    estimated_tokens: int = 0
    """Estimate for replies without usage: enforces the limit, never reported as usage."""
    estimated_cost_usd: float = 0.0
    """Price of the estimated tokens: enforces the limit, never reported as cost."""
    estimated_calls: int = 0
    """Calls behind the estimates."""
    cost_usd: float = 0.0
    model_s: float = 0.0
    tool_s: float = 0.0
    unknown_usage_calls: int = 0
    unpriced_calls: int = 0
    bound: str | None = field(default=None)
    """The limit that ended the run, if one did."""

    @property
    def total_tokens(self) -> int:
        """Known input plus output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def work_s(self) -> float:
        """Seconds of model and tool work."""
        return self.model_s + self.tool_s

    def reserve_model_call(self) -> None:
        """Count a model call before it is sent.

        Check and count happen without an await between them, so parallel steps cannot slip past a limit.

        Raises:
            BudgetExceeded: a limit is reached.
        """
        self._refuse_if_spent()
        self._refuse_if("model_calls", self.model_calls, self.budget.model_calls)
        self.model_calls += 1

    def reserve_tool_call(self) -> None:
        """Count a tool call before it is executed; raises `BudgetExceeded` as `reserve_model_call` does."""
        self._refuse_if_spent()
        self._refuse_if("tool_calls", self.tool_calls, self.budget.tool_calls)
        self.tool_calls += 1

    def charge(self, reply: Reply, *, estimated_tokens: int, estimated_cost_usd: float = 0.0) -> None:
        """Add what a reply cost, before anyone reads it. Usage of failed sends counts where the server gave it.

        Args:
            reply: of the model, or of a call that failed.
            estimated_tokens: what stands in for the usage where there is none; 0 when nothing can have been billed.
            estimated_cost_usd: the price of these tokens.
        """
        self.model_s += reply.latency_s
        usages = [send.usage for send in reply.sends if send.usage is not None and send.usage is not reply.usage]
        if reply.usage is None or reply.usage.total_tokens is None:
            self.unknown_usage_calls += 1
            self.estimated_tokens += estimated_tokens
            self.estimated_cost_usd += estimated_cost_usd
            self.estimated_calls += estimated_tokens > 0
        else:
            usages.append(reply.usage)
        for usage in usages:
            self.input_tokens += usage.input_tokens or 0
            self.output_tokens += usage.output_tokens or 0
            self.cached_input_tokens += usage.cached_input_tokens or 0
            self.reasoning_tokens += usage.reasoning_tokens or 0
        if reply.cost_usd is None:
            self.unpriced_calls += 1
        else:
            self.cost_usd += reply.cost_usd

    def remaining_work_s(self) -> float | None:
        """Return the work seconds left; None when unlimited."""
        limit = self.budget.work_s
        return None if limit is None else max(0.0, limit - self.work_s)

    def remaining(self) -> dict[str, float | None]:
        """Return what is left of each limit; None where unlimited."""
        spent = {
            "model_calls": self.model_calls,
            "tool_calls": self.tool_calls,
            "total_tokens": self.total_tokens + self.estimated_tokens,
            "cost_usd": self.cost_usd + self.estimated_cost_usd,
            "work_s": self.work_s,
        }
        limits = self.budget.model_dump()
        return {kind: None if limits[kind] is None else max(0, limits[kind] - spent[kind]) for kind in spent}

    def _refuse_if_spent(self) -> None:
        budget = self.budget
        if budget.total_tokens is not None:
            self._refuse_if("total_tokens", self.total_tokens + self.estimated_tokens, budget.total_tokens)
        if budget.cost_usd is not None:
            self._refuse_if("cost_usd", self.cost_usd + self.estimated_cost_usd, budget.cost_usd)
        if budget.work_s is not None:
            self._refuse_if("work_s", self.work_s, budget.work_s)

    def _refuse_if(self, kind: str, spent: float, limit: float | None) -> None:
        if limit is not None and spent >= limit:
            self.bound = kind
            raise BudgetExceeded(kind, f"the limit of {limit:g} {kind} is reached ({spent:g} spent)")
