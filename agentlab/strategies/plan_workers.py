"""The models inside a plan's execution: a worker on a goal step, and the wording of the report."""

from collections.abc import Callable, Collection, Sequence

from agentlab.errors import InfrastructureError, StopRun
from agentlab.json_values import dumps
from agentlab.models.replies import assistant_message, tool_message
from agentlab.planning.plan import PlanStep
from agentlab.planning.report import changed_facts
from agentlab.prompts import load_prompt
from agentlab.records import CallIntent, JsonObject, Message, Reply, ToolCall, ToolResult, Unreadable
from agentlab.session import Session
from agentlab.strategies.native import NativeFormat
from agentlab.strategies.plan_format import ReportFormat
from agentlab.tools import Tool

WORKER_ROUNDS = 6
Refuse = Callable[[str], str]
"""Tool name -> why the worker may not call it; empty when it may."""
Progress = Callable[[str], None]
"""Hears which tool the worker is about to call."""


class GoalWorker:
    """A bounded loop of one worker with the tools of its kind; its last words are the output of the step.

    Args:
        session: of the run.
        actor: the worker type, or `worker`.
        tools: all that it may use.
        refuse: forbids a tool for the moment.
        progress: told before every call.
    """

    def __init__(
        self, session: Session, actor: str, tools: tuple[Tool, ...], refuse: Refuse, progress: Progress
    ) -> None:
        self._session = session
        self._actor = actor
        self._tools = tools
        self._refuse = refuse
        self._progress = progress
        self.results: list[tuple[str, ToolResult]] = []
        """Tool name and result of every call so far."""

    async def work(self, step: PlanStep, inputs: JsonObject) -> ToolResult:
        """Return what the worker came to; `passed` sums up the checks that it made."""
        language = self._session.settings.language
        format = NativeFormat(language)
        messages = self._briefing(step, inputs)
        for _ in range(WORKER_ROUNDS):
            reply = await self._session.ask(self._actor, messages, format, self._tools)
            intent = format.read(reply, self._tools)
            messages.append(assistant_message(reply))
            if isinstance(intent, Unreadable):
                messages.append({"role": "user", "content": self._session.unreadable(self._actor, intent)})
            elif isinstance(intent, CallIntent):
                messages += [await self._answered(call, step) for call in reply.tool_calls]
            else:
                return ToolResult(True, passed=_passed(self.results), data=reply.text)
        words = f"the worker did not finish in {WORKER_ROUNDS} rounds"
        return ToolResult(False, error_kind="round_limit", message=words)

    def _briefing(self, step: PlanStep, inputs: JsonObject) -> list[Message]:
        worker = self._session.suite.workers.get(step.worker_type or "")
        text = f"{step.description}\n{dumps(inputs)}" if inputs else step.description
        task: Message = {"role": "user", "content": text}
        if worker is None:
            return [task]
        return [{"role": "system", "content": worker.expertise.in_language(self._session.settings.language)}, task]

    async def _answered(self, call: ToolCall, step: PlanStep) -> Message:
        """Make a call and return its observation as a message; what the worker may not use is refused."""
        names = [tool.name for tool in self._tools]
        if call.problem is None and call.name not in names:
            detail = f"There is no tool {call.name} here. Tools: {', '.join(names)}."
            call = ToolCall(call.id, call.name, call.arguments, problem="unknown_tool", detail=detail)
        elif call.problem is None and (reason := self._refuse(call.name)):
            call = ToolCall(call.id, call.name, call.arguments, problem="check_not_passed", detail=reason)
        self._progress(call.name)
        observation = await self._session.act(self._actor, call, step.id)
        self.results.append((call.name, observation.result))
        return tool_message(call.id, observation.text)


async def polished(session: Session, report: str, names: Collection[str]) -> str:
    """Return the report in a model's words, or as it is where the model changed a fact or did not answer.

    The report stands already, so neither a limit nor a failing provider costs the run.

    Args:
        session: of the run; the call is charged like any other.
        report: written by Python.
        names: words that are facts: ids of steps, names of tools and criteria.
    """
    format = ReportFormat()
    messages: list[Message] = [
        {"role": "system", "content": load_prompt("plan_report", session.view.language)},
        {"role": "user", "content": report},
    ]
    try:
        reply = await session.ask("planner", messages, format, ())
    except (StopRun, InfrastructureError) as error:
        session.note("note", "planner", reporter="python", reason=str(error))
        return report
    changed = _changed(report, reply, names)
    if changed:
        session.note("note", "planner", reporter="python", reason="the model changed facts", changed=changed)
        return report
    session.note("note", "planner", reporter="model")
    return reply.text.strip()


def _changed(report: str, reply: Reply, names: Collection[str]) -> list[str]:
    if reply.problem is not None:
        return [reply.problem]
    return changed_facts(report, reply.text, names)


def _passed(results: list[tuple[str, ToolResult]]) -> bool | None:
    """What the checks came to, the last one on each subject: all passed, or one did not; None without a check."""
    latest = {(result.check, result.subject): result.passed for _, result in results if result.passed is not None}
    return all(latest.values()) if latest else None


class PersonsApproval:
    """Asks the session for a person's approval of a plan step before it starts (`planning.outcomes.Approve`).

    Args:
        session: of the run.
        call: makes the session's call of a tool and its arguments.
    """

    def __init__(self, session: Session, call: Callable[[str, JsonObject], ToolCall]) -> None:
        self._session = session
        self._call = call

    def is_needed(self, step: PlanStep, calls: Sequence[JsonObject]) -> bool:
        """Return whether one of the step's calls has to be approved; a goal step's worker asks call by call."""
        return step.tool is not None and any(
            self._session.must_ask(self._call(step.tool, arguments)) for arguments in calls
        )

    async def ask(self, step: PlanStep, calls: Sequence[JsonObject]) -> bool | None:
        """Return True when every call is approved, False when one is refused, None when one is undecided."""
        actor = step.worker_type or "worker"
        for arguments in calls:
            call = self._call(step.tool or "", arguments)
            if self._session.must_ask(call) and not (given := await self._session.approval(actor, call, step.id)):
                return given
        return True
