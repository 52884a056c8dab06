"""The one door between a strategy and the world: ask a model, act with a tool.

The session charges before anyone parses, enforces the budget before the next call, records the trace,
and treats every strategy alike. A strategy that keeps to it cannot be unfair.
"""

import asyncio
import dataclasses
import operator
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Protocol, TypeVar

from agentlab.answers import refuse_name_of_submit
from agentlab.approvals import Approvals, Ask, Policy
from agentlab.budget import Meter
from agentlab.calls_made import CallsMade, call_key
from agentlab.environments.base import WorkerType
from agentlab.errors import InfrastructureError, ModelUnavailable, StopRun, ToolError
from agentlab.observations import DEFAULT_LIMIT_CHARS, observe
from agentlab.plan_rules import RulePack
from agentlab.records import (
    JsonObject,
    Message,
    Model,
    ModelRequest,
    Observation,
    Reply,
    ReplyFormat,
    RequestContext,
    ToolCall,
    ToolResult,
    Unreadable,
)
from agentlab.tasks import Task, TaskView
from agentlab.tokens import estimate_call
from agentlab.tool_execution import TRANSIENT_ERROR_KINDS, execute
from agentlab.tools import Tool, find_tool
from agentlab.trace import Trace, reply_data, result_data
from agentlab.workers import Workers

Item = TypeVar("Item")
Result = TypeVar("Result")
RETRY_BASE_S = 0.05
_STOPPING_PROBLEMS = {"context_too_long": "context_overflow", "content_filtered": "content_filtered"}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What the experiment fixes for all strategies alike."""

    language: str = "en"
    temperature: float = 0.0
    max_output_tokens: int | None = None
    examples: str = "none"
    """none, or one worked example in the prompt."""
    constrained: bool = False
    """Bind decoding to the format's schema where the model can."""
    memory: str = "none"
    observe: str = "text"
    approvals: Policy = "deny"
    """What happens to a tool with permission `ask`: allow, deny, or ask a person (never in a batch)."""
    approved_tools: frozenset[str] = frozenset()
    """Tools that the suite approves for this task beforehand."""
    observation_limit_chars: int = DEFAULT_LIMIT_CHARS
    request_timeout_s: float = 60.0
    format_limit: int = 3
    """Unreadable replies in a row that end the run."""
    repeat_limit: int = 3
    """Identical calls with an identical result that end the run; one fewer brings a notice."""


class PlanJournal(Protocol):
    """What the planning layer writes its changes to (`agentlab.planning.journal.Journal`)."""

    def plan(self, graph: Any) -> None:
        """Store a plan that was accepted."""

    def changes(self, changes: Any) -> None:
        """Store changes of the plan's state, in one transaction."""

    def call(self, step_id: str, tool: str, arguments: JsonObject, result: ToolResult) -> None:
        """Store a call that was made within a step, as soon as its result is known."""


@dataclass(frozen=True, slots=True)
class SuiteKnowledge:
    """What a suite tells every strategy alike; nothing of it depends on the task's truth."""

    rules: RulePack | None = None
    """What a plan must contain and which order it must keep."""
    workers: Mapping[str, WorkerType] = field(default_factory=dict)
    policy: JsonObject | None = None
    """What a failed step of a plan leads to; None where the suite says nothing."""


@dataclass(slots=True)
class Session:
    """One run's access to model and tools. Strategies call `ask`, `act`, `note`, `unreadable`, `remaining`."""

    view: TaskView
    tools: tuple[Tool, ...]
    """The offered tools: the environment's and `submit`."""
    settings: SessionSettings
    suite: SuiteKnowledge
    """What anybody may know of the suite: rules for plans, types of workers."""
    _task: Task
    _model: Model
    _meter: Meter
    _trace: Trace
    _repeat: int = 0
    _seed: int = 0
    _ask_person: InitVar[Ask | None] = None
    journal: PlanJournal | None = None
    """Where the planning layer stores every change before it goes on; None keeps it in memory."""
    _workers: Workers = field(default_factory=Workers)
    _steps: list[tuple[str, JsonObject, ToolResult]] = field(default_factory=list)
    _made: CallsMade = field(default_factory=CallsMade)
    _in_flight: dict[str, asyncio.Event] = field(default_factory=dict)
    """Calls with an effect that are being made: an equal one waits, and finds the effect there."""
    _uses: dict[str, int] = field(default_factory=dict)
    _handles: dict[str, Any] = field(default_factory=dict)
    _sent: dict[str, list[Message]] = field(default_factory=dict)
    _occurrences: dict[str, int] = field(default_factory=dict)
    _schemas: dict[tuple[Tool, ...], list[JsonObject]] = field(default_factory=dict)
    _unreadable_in_a_row: int = 0
    _approvals: Approvals = field(init=False)

    def __post_init__(self, _ask_person: Ask | None) -> None:
        refuse_name_of_submit([tool for tool in self.tools if not tool.is_control])
        self._approvals = Approvals(self.settings.approvals, self.settings.approved_tools, _ask_person)

    async def ask(
        self, actor: str, messages: Sequence[Message], format: ReplyFormat, tools: tuple[Tool, ...] | None = None
    ) -> Reply:
        """Return the model's reply to the messages; charged and recorded before it is returned.

        Args:
            actor: who asks.
            messages: the whole conversation of this actor.
            format: how the reply will be read.
            tools: fewer tools than the offered ones, for an actor with a part of the work; None offers all.

        Raises:
            BudgetExceeded: a limit was reached before the call.
            StopRun: the context is too long, or the content filter stopped the reply.
            InfrastructureError: no usable reply came.
        """
        self._meter.reserve_model_call()
        request = self._request(actor, list(messages), format, self.tools if tools is None else tools)
        started = time.perf_counter() - self._trace.started
        try:
            reply = await self._model.complete(request)
        except ModelUnavailable as error:
            latency_s = sum(send.latency_s for send in error.sends)
            failed = Reply(sends=error.sends, latency_s=latency_s, problem="server_error", detail=str(error))
            self._record_model_call(request, started, failed)
            raise
        self._record_model_call(request, started, reply)
        if reply.problem in _STOPPING_PROBLEMS:
            raise StopRun(_STOPPING_PROBLEMS[reply.problem], reply.detail)
        if reply.problem == "request_refused":
            raise InfrastructureError(reply.detail)
        return reply

    async def act(
        self, actor: str, call: ToolCall, plan_step_id: str | None = None, *, by_program: bool = False
    ) -> Observation:
        """Return the observation of a tool call; a call that may not be executed is answered with the reason.

        Args:
            actor: who acts.
            call: tool and arguments; large results may stand as their handle.
            plan_step_id: the plan step behind the call.
            by_program: True when Python decided on the call (a plan, an undo), so that a repetition is meant
                and no sign of a model that turns in circles. Effects are guarded all the same.

        Raises:
            BudgetExceeded: a limit was reached before the call.
            StopRun: the same call brought the same result `repeat_limit` times (`loop_detected`).
            Interrupted: a person pressed Ctrl-C while the tool ran.
        """
        key = call_key(call)
        while (equal := self._in_flight.get(key)) is not None:
            await equal.wait()
        tool, arguments, refusal = self._admit(call, key)
        if refusal is not None or tool is None or not tool.has_side_effect:
            return await self._act(actor, call, key, tool, arguments, refusal, plan_step_id, by_program)
        is_over = self._in_flight[key] = asyncio.Event()
        try:
            return await self._act(actor, call, key, tool, arguments, refusal, plan_step_id, by_program)
        finally:
            del self._in_flight[key]
            is_over.set()

    def must_ask(self, call: ToolCall) -> bool:
        """Return whether a person has to approve a call before it may be executed."""
        return self._approvals.is_open(find_tool(self.tools, call.name), call_key(call))

    async def approval(self, actor: str, call: ToolCall, plan_step_id: str | None = None) -> bool | None:
        """Return a person's decision on a call that must be approved; None when nobody has decided yet.

        An approval holds for this tool with exactly these arguments, and is used up by the call.
        """
        tool = find_tool(self.tools, call.name)
        allowed = await self._approvals.request(tool, call.arguments or {}, call_key(call), plan_step_id)
        self._note_approval(actor, call, allowed, "person")
        return allowed

    def recall_approval(self, call: ToolCall) -> None:
        """Take up a person's approval of an earlier attempt that was not used."""
        self._approvals.give(call_key(call))

    def recall(
        self, actor: str, call: ToolCall, result: ToolResult, plan_step_id: str | None = None, *, is_open: bool = False
    ) -> None:
        """Put the result of a call of an earlier attempt into this trace: it is evidence, and is not made again.

        Args:
            actor: who made it.
            call: the call.
            result: what it brought.
            plan_step_id: the plan step behind it.
            is_open: True when the call may be asked for once more, so that it has to be known as made.
        """
        tool = find_tool(self.tools, call.name)
        handle = f"result_{len(self._handles) + 1}"
        observation = observe(result, self.settings.observation_limit_chars, handle)
        if observation.cut_chars:
            self._handles[handle] = result.data
        self._steps.append((call.name, call.arguments or {}, result))
        if is_open:
            self._made.keep(call_key(call), observation.text, result)
        self._trace.add(
            "tool_call",
            actor,
            id=call.id,
            tool=call.name,
            arguments=call.arguments or {},
            executed=True,
            tries=0,
            duration_s=0.0,
            effect=tool.effect,
            repeated=False,
            observation=observation.text,
            plan_step_id=plan_step_id,
            **result_data(result, is_cut=observation.cut_chars > 0),
        )

    async def map(
        self, function: Callable[[Item], Awaitable[Result]], items: Sequence[Item], parallelism: int = 1
    ) -> list[Result]:
        """Return what an async function gives for each item, in their order, at most `parallelism` at once.

        The first exception ends it; what still runs is cancelled and awaited.
        """
        gate = asyncio.Semaphore(parallelism)

        async def one(item: Item) -> Result:
            async with gate:
                return await function(item)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(item)) for item in items]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    def forget(self, call: ToolCall) -> None:
        """Let a call be executed again whose effect was undone; otherwise it counts as a repetition."""
        self._made.forget(call_key(call))

    def unreadable(self, actor: str, problem: Unreadable) -> str:
        """Record a reply that the format cannot read; return the feedback for the model.

        Raises:
            StopRun: it was the `format_limit`-th in a row (`format_limit`).
        """
        self._unreadable_in_a_row += 1
        self._trace.add("error", actor, where="reply", problem=problem.problem, feedback=problem.feedback)
        if self._unreadable_in_a_row >= self.settings.format_limit:
            raise StopRun(
                "format_limit", f"{self._unreadable_in_a_row} replies in a row could not be read: {problem.problem}"
            )
        return problem.feedback

    def note(self, kind: str, actor: str, **data: Any) -> None:
        """Add an event of a strategy's own (plan, step, decision, note) to the trace."""
        self._trace.add(kind, actor, **data)

    def remaining(self) -> Mapping[str, float | None]:
        """Return what is left of each limit of the budget; None where unlimited."""
        return self._meter.remaining()

    def close(self) -> None:
        """Release the run's worker threads."""
        self._workers.close()

    async def _act(
        self,
        actor: str,
        call: ToolCall,
        key: str,
        tool: Tool | None,
        arguments: JsonObject | None,
        refusal: ToolResult | None,
        plan_step_id: str | None,
        by_program: bool,
    ) -> Observation:
        """Execute an admitted call, or answer one that is refused."""
        if refusal is None and tool is not None and tool.permission != "auto":
            # Others may have used it up while a person was asked.
            refusal = await self._unapproved(actor, tool, call, key, plan_step_id) or self._used_up(tool)
        started = time.perf_counter()
        tries = 0
        if refusal is None:
            assert tool is not None
            assert arguments is not None
            self._meter.reserve_tool_call()
            self._uses[tool.name] = self._uses.get(tool.name, 0) + 1
            result, tries = await self._execute(tool, arguments)
            self._steps.append((tool.name, arguments, result))
            # Every effect, and all that a model did within a step. What a plan only reads, a resumed plan reads again.
            if self.journal is not None and plan_step_id is not None and (tool.has_side_effect or not by_program):
                self.journal.call(plan_step_id, tool.name, arguments, result)
        else:
            result = refusal
        duration_s = time.perf_counter() - started
        self._meter.tool_s += duration_s if tries else 0.0
        return self._observe(actor, call, key, tool, result, tries, duration_s, plan_step_id, by_program)

    def _request(
        self, actor: str, messages: list[Message], format: ReplyFormat, tools: tuple[Tool, ...]
    ) -> ModelRequest:
        occurrence = self._occurrences.get(actor, 0)
        self._occurrences[actor] = occurrence + 1
        settings = self.settings
        context = RequestContext(
            run_id=self._trace.run_id,
            task=self._task,
            repeat=self._repeat,
            seed=self._seed,
            actor=actor,
            occurrence=occurrence,
            steps=tuple(self._steps),
            language=settings.language,
            handles=dict(self._handles),
        )
        return ModelRequest(
            messages=messages,
            tools=tools,
            tool_schemas=self._schemas_of(tools) if format.native_tools else [],
            format=format,
            temperature=settings.temperature,
            max_output_tokens=settings.max_output_tokens,
            seed=(self._seed + occurrence) % 2**31,
            constrained=settings.constrained,
            context=context,
            timeout_s=settings.request_timeout_s,
        )

    def _schemas_of(self, tools: tuple[Tool, ...]) -> list[JsonObject]:
        """The wire form of these tools, built once: most requests of a run offer the same."""
        if tools not in self._schemas:
            self._schemas[tools] = [tool.native_schema(self.settings.language) for tool in tools]
        return self._schemas[tools]

    def _record_model_call(self, request: ModelRequest, t_s: float, reply: Reply) -> None:
        actor = request.context.actor
        first_new = self._first_new_message(actor, request.messages)
        estimate = estimate_call(self._model, request.messages, reply)
        tokens, cost_usd = estimate or (0, 0.0)
        self._meter.charge(reply, estimated_tokens=tokens, estimated_cost_usd=cost_usd)
        self._trace.add(
            "model_call",
            actor,
            started_s=round(t_s, 6),
            format=request.format.name,
            messages_from=first_new,
            messages=request.messages[first_new:],
            **reply_data(reply),
            **({"estimated_tokens": tokens, "estimated_cost_usd": cost_usd} if estimate else {}),
        )

    def _first_new_message(self, actor: str, messages: list[Message]) -> int:
        """Index of the first message that this actor has not sent before: a trace holds each message once."""
        sent = self._sent.get(actor, [])
        known = len(sent)
        is_continued = known <= len(messages) and all(map(operator.is_, sent, messages))
        self._sent[actor] = messages
        return known if is_continued else 0

    def _admit(self, call: ToolCall, key: str) -> tuple[Tool | None, JsonObject | None, ToolResult | None]:
        """The tool and its arguments, or the result that refuses the call."""
        try:
            if call.problem is not None:
                return (
                    None,
                    call.arguments,
                    ToolResult(False, error_kind=call.problem, message=call.detail or call.problem),
                )
            tool = find_tool(self.tools, call.name)
            arguments = self._with_handles(call.arguments)
            tool.check_arguments(arguments)
        except ToolError as error:
            return None, call.arguments, ToolResult(False, error_kind=error.kind, message=str(error))
        return tool, arguments, self._refusal(tool, key)

    def _refusal(self, tool: Tool, key: str) -> ToolResult | None:
        """Why a valid call is not executed: an effect that happened already, or used up."""
        if tool.is_control:
            message = (
                f"{tool.name} must be the only call of a reply, made after you have seen the other results. Ignored."
            )
            return ToolResult(False, error_kind="not_alone", message=message)
        if (earlier := self._made.earlier_effect(tool, key)) is not None:
            return earlier
        return self._used_up(tool)

    def _used_up(self, tool: Tool) -> ToolResult | None:
        if tool.max_uses is None or self._uses.get(tool.name, 0) < tool.max_uses:
            return None
        return ToolResult(
            False, error_kind="used_up", message=f"{tool.name} may be used {tool.max_uses} times in a run."
        )

    async def _unapproved(
        self, actor: str, tool: Tool, call: ToolCall, key: str, plan_step_id: str | None
    ) -> ToolResult | None:
        """The refusal of a call that is not approved; None when it may be executed."""
        is_asked = self._approvals.is_open(tool, key)
        if is_asked:
            await self.approval(actor, call, plan_step_id)
        approved_by = self._approvals.use(tool, key)
        if not is_asked and approved_by != "person":
            self._note_approval(actor, call, approved_by is not None, approved_by or "settings")
        if approved_by is not None:
            return None
        message = f"{tool.name} needs an approval that was not given; it was not executed."
        return ToolResult(False, error_kind="not_approved", message=message)

    def _note_approval(self, actor: str, call: ToolCall, allowed: bool | None, by: str) -> None:
        self._trace.add("approval", actor, tool=call.name, arguments=call.arguments, allowed=allowed, by=by)

    def _with_handles(self, arguments: Any) -> Any:
        """Replace handles of large results by the values they stand for."""
        if not self._handles or not isinstance(arguments, dict):
            return arguments
        return {
            name: self._handles[value] if isinstance(value, str) and value in self._handles else value
            for name, value in arguments.items()
        }

    async def _execute(self, tool: Tool, arguments: JsonObject) -> tuple[ToolResult, int]:
        """The result and the number of tries; only transient failures of harmless tools are tried again."""
        tries = 0
        while True:
            limit = tool.timeout_s
            left = self._meter.remaining_work_s()
            if limit is not None and left is not None:
                limit = min(limit, left)
            result = await execute(tool, arguments, self._workers, limit)
            tries += 1
            if result.success or result.error_kind not in TRANSIENT_ERROR_KINDS or tries > tool.max_retries:
                return result, tries
            await asyncio.sleep(RETRY_BASE_S * 2 ** (tries - 1))

    def _observe(
        self,
        actor: str,
        call: ToolCall,
        key: str,
        tool: Tool | None,
        result: ToolResult,
        tries: int,
        duration_s: float,
        plan_step_id: str | None,
        by_program: bool,
    ) -> Observation:
        """Build the observation, record the call, and notice repetitions."""
        handle = f"result_{len(self._handles) + 1}"
        observation = observe(result, self.settings.observation_limit_chars, handle)
        if observation.cut_chars:
            self._handles[handle] = result.data
        count = self._made.count(key, tool, observation.text, result)
        if count > 1 and not by_program:
            notice = (
                f"You have made this call {count} times with the same result. Use the result, or do something else."
            )
            observation = observe(result, self.settings.observation_limit_chars, handle, notice)
        self._trace.add(
            "tool_call",
            actor,
            id=call.id,
            tool=call.name,
            arguments=call.arguments if call.arguments is not None else {},
            executed=tries > 0,
            tries=tries,
            duration_s=round(duration_s, 6),
            effect=tool.effect if tool is not None else "read",
            repeated=count > 1,
            observation=observation.text,
            **result_data(result, is_cut=observation.cut_chars > 0),
            **({"plan_step_id": plan_step_id} if plan_step_id is not None else {}),
        )
        if tries:
            self._unreadable_in_a_row = 0
        if count >= self.settings.repeat_limit and not by_program:
            raise StopRun(
                "loop_detected", f"{call.name} was called {count} times with the same arguments and the same result"
            )
        if tries != 1 or observation.cut_chars:
            return dataclasses.replace(observation, tries=tries, handle=handle if observation.cut_chars else "")
        return observation
