"""The small frozen records that travel between the parts of agentlab.

Hot-path records are slotted dataclasses; what is configured or stored as JSON (`Task`, `Budget`,
`Experiment`) are pydantic models in their own modules. No record formats prompt text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, dataclass_transform, runtime_checkable

STATUSES = ("passed", "failed", "not_evaluated")
VERDICTS = ("passed", "failed", "incomplete")

JsonObject = dict[str, Any]
Message = dict[str, Any]
"""One chat message in the wire form: `role`, `content`, and `tool_calls` or `tool_call_id`."""


Class = TypeVar("Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(made: type[Class]) -> type[Class]:
    """Make a class a slotted dataclass that only the type checker keeps from being changed.

    A frozen one takes five to eight times as long to make, and some of these are made for every model call.
    """
    return dataclass(slots=True, unsafe_hash=True)(made)


def verdict_of(statuses: "Mapping[str, str] | list[str]") -> str:
    """Return the verdict that follows from statuses: any failed -> failed, else any not evaluated -> incomplete.

    No status at all is `incomplete`: nothing was evaluated.
    """
    values = list(statuses.values()) if isinstance(statuses, Mapping) else statuses
    if "failed" in values:
        return "failed"
    if not values or "not_evaluated" in values:
        return "incomplete"
    return "passed"


@record
class Usage:
    """Tokens of one model reply. None means that the provider did not say, never zero."""

    input_tokens: int | None
    """Tokens of the prompt, those served from a cache included."""
    output_tokens: int | None
    """Tokens that were generated, reasoning included."""
    cached_input_tokens: int | None = None
    """The part of `input_tokens` that came from the provider's cache."""
    reasoning_tokens: int | None = None
    """The part of `output_tokens` that was reasoning."""
    source: Literal["provider", "simulated"] = "provider"
    """Who counted: the provider, or an estimate made for a simulated model."""

    @property
    def total_tokens(self) -> int | None:
        """Input plus output tokens; None when either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


@record
class ToolCall:
    """One tool call of a reply, as far as it could be read."""

    id: str
    """Unique within the run; made by us where the server sent none or sent one twice."""
    name: str
    """Name of an offered tool, or the name as sent when there is no such tool."""
    arguments: JsonObject | None
    """Arguments that fit the tool's schema; None when the call may not be executed."""
    problem: str | None = None
    """Why the call may not be executed: truncated, bad_arguments, unknown_tool."""
    sent_name: str | None = None
    """The name as the model sent it, where it differs from `name`."""
    detail: str = ""
    """The problem in words that the model can act on."""
    sent_arguments: JsonObject | None = None
    """The arguments as sent, where they could be read but not accepted; for the history and the trace, never run."""


@record
class Send:
    """One HTTP exchange behind a reply; a reply may need several."""

    status: int | None
    """HTTP status; None when no response came."""
    latency_s: float
    wait_s: float = 0.0
    """Seconds waited before this send (back-off, Retry-After, rate limit); not the model's time."""
    error: str | None = None
    """Problem code and the server's words, when the send brought no usable reply."""
    usage: Usage | None = None


@record
class Reply:
    """What a model answered, read tolerantly; `problem` says why it cannot be used as a whole."""

    text: str = ""
    """The answer's text without reasoning; empty when there is none."""
    reasoning: str = ""
    """Reasoning text, kept apart from the answer and never executed."""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    latency_s: float = 0.0
    """Seconds of the sends together, without waits."""
    sends: tuple[Send, ...] = ()
    problem: str | None = None
    """truncated, call_in_text, empty_answer, no_choices, content_filtered, context_too_long, server_error,
    quota_exhausted, request_refused; None when the reply can be used."""
    detail: str = ""
    """The problem in words."""
    model: str | None = None
    """The model's name as the server returned it."""
    notes: tuple[str, ...] = ()
    """Repairs and oddities worth a line in the trace."""


@record
class Finding:
    """What an answer says about one criterion."""

    criterion: str
    """Name of the criterion, without its subject."""
    status: str
    """passed, failed or not_evaluated."""
    subject: str = ""
    """What was checked (`ORDER1002`); empty when the task has one subject for this criterion."""
    evidence: str = ""

    @property
    def key(self) -> str:
        """`criterion@subject`, or the bare criterion when there is no subject."""
        return f"{self.criterion}@{self.subject}" if self.subject else self.criterion


@record
class Answer:
    """What a strategy hands in at the end of a run."""

    findings: tuple[Finding, ...] = ()
    verdict: str | None = None
    """The verdict as submitted; the verdict that counts is derived from the findings."""
    text: str = ""
    gave_up: bool = False
    """True when the strategy declares that it cannot finish (end_reason `gave_up`)."""

    @property
    def is_readable(self) -> bool:
        """True when the answer says anything in the answer format."""
        return bool(self.findings) or self.verdict is not None


@record
class ToolResult:
    """What a tool returns: did it run (`success`), and, for a check, is the product right (`passed`)."""

    success: bool
    passed: bool | None = None
    """The business result of a checking tool; None for queries and whenever `success` is false."""
    check: str | None = None
    """The criterion that this call checked."""
    subject: str | None = None
    """What was looked at (`ORDER1002`)."""
    data: Any = None
    message: str = ""
    error_kind: str | None = None
    """Why `success` is false: not_found, unknown_tool, bad_arguments, timed_out, tool_failed, ..."""
    visible: Mapping[str, str] = field(default_factory=dict)
    """Criterion keys that this observation shows without a checking tool, with the status it shows."""

    def __post_init__(self) -> None:
        if not self.success and self.passed is not None:
            raise ValueError("a tool that did not succeed has no business result: success=False implies passed=None")


@record
class PlanProblem:
    """One reason why a plan may not be executed."""

    step: str | None
    """The step it is about; None for the plan as a whole."""
    code: str
    """One word for the kind of problem: unknown_tool, cycle, missing_argument, ..."""
    message: str
    """What is wrong, in English."""
    fix: str = ""
    """What to write instead, in English."""
    message_zh: str = ""
    fix_zh: str = ""

    def line(self, language: str) -> str:
        """Return message and fix in a language (zh or en)."""
        parts = (self.message_zh or self.message, self.fix_zh) if language == "zh" else (self.message, self.fix)
        return ("" if language == "zh" else " ").join(part for part in parts if part)


@record
class Observation:
    """The text that a model sees of a tool result, cut by one rule for all strategies."""

    text: str
    result: ToolResult
    cut_chars: int = 0
    """Characters left out of `text`; the trace holds the whole result."""
    notice: str = ""
    """A remark of the session inside `text` (repeated call, refused effect)."""
    tries: int = 1
    """Executions of the tool behind it; 0 when the call was refused."""
    handle: str = ""
    """Name that stands for the whole data in a tool argument, where `text` shows a part only."""


@record
class CallIntent:
    """The model wants to call tools, in this order."""

    calls: tuple[tuple[str, JsonObject], ...]
    thought: str = ""


@record
class FinishIntent:
    """The model hands in its answer."""

    answer: Answer
    thought: str = ""


@record
class Unreadable:
    """The reply says nothing that the format can read; `feedback` tells the model what to write instead."""

    problem: str
    feedback: str


@record
class PlanIntent:
    """The model proposes a plan, in the planner's JSON form; Python decides whether it may run."""

    plan: JsonObject
    thought: str = ""


Intent = CallIntent | FinishIntent | PlanIntent | Unreadable


class ReplyFormat(Protocol):
    """How a strategy reads a reply to an intent, and how an intent is written as a reply.

    `write` exists so that simulated models can answer any strategy; a contract test checks that
    `read(write(intent))` gives the intent back.
    """

    name: str
    native_tools: bool
    """True when tools are offered through the API instead of in the prompt's text."""
    stop: tuple[str, ...]
    expects: Literal["turn", "plan"]
    """What a reply is: one turn of a loop (calls or the answer), or a plan."""

    def schema(self, tools: "tuple[Any, ...]") -> JsonObject | None:
        """Return the JSON schema of a reply for constrained decoding; None where the format has none."""

    def read(self, reply: Reply, tools: "tuple[Any, ...]") -> Intent:
        """Return what the reply asks for."""

    def write(self, intent: Intent) -> Reply:
        """Return a reply (text and tool calls only) that `read` turns into this intent."""


@runtime_checkable
class GrammarFormat(Protocol):
    """A `ReplyFormat` of text that a grammar can describe where a JSON schema cannot."""

    def grammar(self, tools: "tuple[Any, ...]") -> str | None:
        """Return the grammar of a reply in llama.cpp's form (GBNF) for constrained decoding; None without one."""


@record
class RequestContext:
    """Where a request comes from. Attached by the session, never sent to a provider, never seen by a strategy.

    Simulated models draw from it; replay keys on it.
    """

    run_id: str
    task: Any
    """The whole `Task`, truth included: for simulated models alone."""
    repeat: int
    seed: int
    actor: str
    occurrence: int
    """How many requests this actor has sent before in this run."""
    steps: tuple[tuple[str, JsonObject, ToolResult], ...] = ()
    """The tool calls executed so far: name, arguments, result."""
    language: str = "en"
    handles: Mapping[str, Any] = field(default_factory=dict)
    """Large results by the handle that stands for each in a tool argument."""


@record
class ModelRequest:
    """One request to a model."""

    messages: list[Message]
    tools: tuple[Any, ...]
    """The offered `Tool`s, for reading the reply; sent only when the format uses native tools."""
    tool_schemas: list[JsonObject]
    """The offered tools in wire form; empty when tools are rendered as text."""
    format: ReplyFormat
    temperature: float
    max_output_tokens: int | None
    seed: int | None
    constrained: bool
    context: RequestContext
    timeout_s: float = 60.0
    """Total seconds for one send."""


class Model(Protocol):
    """Who thinks. Implementations are single-use per run or share a client that is safe to share."""

    name: str
    kind: Literal["real", "local", "simulated", "scripted", "replay"]

    @property
    def capabilities(self) -> frozenset[str]:
        """What the model can do: tools, json_schema, grammar, stop, seed, vision."""

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the reply.

        Raises:
            ModelUnavailable: no usable reply after all sends.
            QuotaExhausted: the account has no quota left.
        """

    async def close(self) -> None:
        """Release connections and processes."""


@record
class Event:
    """One line of a trace. `t_s` are seconds since the run started."""

    run_id: str
    seq: int
    t_s: float
    kind: str
    """run_start, model_call, tool_call, plan, step, decision, approval, note, budget_hit, error, run_end."""
    actor: str
    data: JsonObject
