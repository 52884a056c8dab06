"""Plan-and-Execute: the model proposes a plan, Python decides whether and how it runs, and writes the answer."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentlab.errors import ConfigError, PlanError, StopRun, unknown_name
from agentlab.evidence import findings_of
from agentlab.json_values import dumps
from agentlab.models.replies import assistant_message, tool_message
from agentlab.observations import cut_middle
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import FailurePolicy, Rule, load_policy
from agentlab.planning.report import plan_report
from agentlab.planning.scheduler import Ended, Scheduler, StepOutcome
from agentlab.planning.state import Changes, PlanState
from agentlab.records import (
    Answer,
    CallIntent,
    Finding,
    JsonObject,
    Message,
    ToolCall,
    ToolResult,
    Unreadable,
    verdict_of,
)
from agentlab.session import Session
from agentlab.strategies.base import system_message, task_message
from agentlab.strategies.native import NativeFormat, problem_feedback
from agentlab.strategies.plan_format import PlanFormat
from agentlab.strategies.react import repair

Surprise = Literal["block", "replan", "react"]
SURPRISES = ("block", "replan", "react")
WORKER_ROUNDS = 6
_REPLAN_WORDS = {
    "en": "The plan could not be finished: {reason}\nDone so far, and kept: {done}\nResults:\n{results}\n"
    "Write a plan for what is left, as before. You may refer to completed steps by their id.",
    "zh": "计划无法完成：{reason}\n已完成并保留的步骤：{done}\n结果：\n{results}\n"
    "请按之前的格式为剩余工作制定计划，可以用编号引用已完成的步骤。",
}


class PlanExecute:
    """Asks once for a plan, checks it, runs its steps without a model, and derives the answer from their results.

    Actors: planner; worker (or the step's worker type) acts; no model between the steps, except for `goal` steps
    and with `on_surprise: react`. Model calls: 1 + repairs + replans (+ the rounds of goal steps and local
    repairs); repairs at most `max_repairs` per plan, replans at most `max_replans`. An invalid plan is sent back
    with its problems; after the last repair the run ends with `invalid_plan`. Stops when no step is left.

    Source: plan, then execute: Wang et al. 2023, arXiv 2305.04091, section 3; execution of a dependency graph: Kim
    et al. 2023, arXiv 2312.04511, section 3; planning once with references to later results: Xu et al. 2023 (ReWOO),
    arXiv 2305.18323, section 3. Deviates: Python writes the answer, not a solver model.

    Args:
        parallelism: steps in flight at once; 1 is reproducible.
        max_repairs: how often an invalid plan is sent back.
        max_replans: how often a failed plan may be replaced; completed work is kept.
        on_surprise: what a failure for good leads to: `block` what needs it, `replan`, or `react` (a short local
            loop tries to reach the step's goal another way).
        policy: failure policy by name or as data (`agentlab.planning.policy`).
        max_steps: largest plan.
    """

    name = "plan_execute"
    version = "1"
    actors = ("planner", "worker")
    answer_by = "python"
    prompts = ("task", "plan_execute", "react")

    def __init__(
        self,
        parallelism: int = 1,
        max_repairs: int = 2,
        max_replans: int = 1,
        on_surprise: Surprise = "block",
        policy: str | Mapping[str, Any] = "default",
        max_steps: int = 20,
    ) -> None:
        if on_surprise not in SURPRISES:
            raise unknown_name("on_surprise", on_surprise, SURPRISES)
        if parallelism < 1 or max_repairs < 0 or max_replans < 0:
            raise ConfigError("parallelism must be at least 1, max_repairs and max_replans at least 0")
        self.parallelism = parallelism
        self.max_repairs = max_repairs
        self.max_replans = max_replans
        self.on_surprise = on_surprise
        self.max_steps = max_steps
        self.policy = self._with_surprise(load_policy(policy))

    async def solve(self, session: Session) -> Answer:
        """Return the answer that follows from the results of the steps."""
        planner = Planner(session, self.max_repairs, self.max_steps)
        graph = await planner.plan()
        if graph is None:
            return Answer(text=planner.explanation, gave_up=True)
        execution = Execution(session, PlanState(graph), self)
        while (ended := await execution.run()).kind == "replan":
            execution.continue_with(await planner.replan(execution.state, ended))
        if ended.kind == "escalate":
            raise StopRun("escalated", f"step {ended.step} needs a person: {ended.reason}")
        return execution.answer()

    def _with_surprise(self, policy: FailurePolicy) -> FailurePolicy:
        """The policy with a replan as its last resort, where a surprise is to lead to one."""
        if self.on_surprise != "replan" or self.max_replans == 0:
            return policy
        last = Rule(name="surprise", on_error="replan", limit=self.max_replans)
        return policy.model_copy(update={"rules": (*policy.rules, last)})


class Planner:
    """Gets a sound plan out of the model, with a bounded number of repairs, each billed and recorded."""

    def __init__(self, session: Session, max_repairs: int, max_steps: int) -> None:
        self.explanation = ""
        """Why there is nothing to do, in the planner's words."""
        self._session = session
        self._max_repairs = max_repairs
        language = session.settings.language
        self._format = PlanFormat(language, session.suite, session.view.criteria, max_steps)
        tools = "\n".join(tool.text_line(language) for tool in session.tools if not tool.is_control)
        system = system_message(session, "plan_execute", None, tools=tools, max_steps=str(max_steps))
        self._messages: list[Message] = [system, task_message(session)]

    async def plan(self, done: Sequence[PlanStep] = ()) -> PlanGraph | None:
        """Return a sound plan; None when the planner says that there is nothing to do.

        Raises:
            StopRun: no sound plan after the last repair (`invalid_plan`).
        """
        for repairs in range(self._max_repairs + 1):
            reply = await self._session.ask("planner", self._messages, self._format)
            self._messages.append({"role": "assistant", "content": reply.text or "..."})
            try:
                graph = self._format.plan_of(reply, self._session.tools, done)
            except PlanError as error:
                if error.explanation:
                    self.explanation = error.explanation
                    return None
                self._reject(error, repairs, reply.problem and problem_feedback(reply, self._format.language))
                continue
            self._session.note("plan", "planner", plan=graph.to_json(), repairs=repairs)
            return graph
        raise StopRun("invalid_plan", f"no usable plan after {self._max_repairs} repairs")

    async def replan(self, state: PlanState, ended: Ended) -> PlanGraph:
        """Return a plan that keeps what has completed; a planner that sees nothing to do ends the run."""
        done = [state.graph.step(name) for name in state.with_status("completed")]
        words = _REPLAN_WORDS[self._format.language]
        results = "\n".join(f"{step.id}: {_short(state[step.id].results)}" for step in done)
        text = words.format(reason=ended.reason, done=", ".join(step.id for step in done) or "-", results=results)
        self._messages.append({"role": "user", "content": text})
        graph = await self.plan(done)
        return graph if graph is not None else state.graph

    def _reject(self, error: PlanError, repairs: int, reply_problem: str | None) -> None:
        feedback = reply_problem or error.feedback(self._format.language)
        problems = [{"step": p.step, "code": p.code, "message": p.message} for p in error.problems]
        self._session.note("error", "planner", where="plan", problems=problems, repairs=repairs, feedback=feedback)
        self._messages.append({"role": "user", "content": feedback})


class Execution:
    """One plan on its way: calls go through the session, changes into the trace (and a journal, if there is one)."""

    def __init__(self, session: Session, state: PlanState, strategy: PlanExecute) -> None:
        self.state = state
        self._session = session
        self._strategy = strategy
        self._tools = {tool.name: tool for tool in session.tools if not tool.is_control}
        self._results: list[tuple[str, ToolResult]] = []
        self._handles: dict[int, str] = {}
        self._n_calls = 0

    async def run(self) -> Ended:
        """Run what is left of the plan."""
        scheduler = Scheduler(
            self.state,
            self._tools,
            self._strategy.policy,
            self._run_step,
            self._run_undo,
            self._record,
            parallelism=self._strategy.parallelism,
        )
        return await scheduler.run()

    def continue_with(self, graph: PlanGraph) -> None:
        """Go on with a plan that replaces the present one."""
        self.state = self.state.continued(graph)

    def answer(self) -> Answer:
        """Return what the results say: statuses by evidence, nothing passed of which a part was not checked."""
        findings = tuple(self._checked(f) for f in findings_of(self._session.view.criteria, self._results))
        verdict = verdict_of([finding.status for finding in findings])
        return Answer(findings, verdict, plan_report(self.state, self._session.settings.language))

    async def _run_step(self, step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        if step.kind == "goal":
            return StepOutcome((await self._work_towards(step),))

        async def act(arguments: JsonObject) -> tuple[ToolResult, int]:
            return await self._act(step, step.tool or "", arguments)

        done = await self._session.map(act, calls, self._strategy.parallelism)
        outcome = StepOutcome(tuple(result for result, _ in done), max((tries for _, tries in done), default=1))
        failure = outcome.failure
        if failure is None or self._strategy.on_surprise != "react" or len(calls) != 1:
            return outcome
        return await self._repaired(step, failure) or outcome

    async def _act(self, step: PlanStep, tool: str, arguments: JsonObject) -> tuple[ToolResult, int]:
        self._n_calls += 1
        by_handle = {name: self._handles.get(id(value), value) for name, value in arguments.items()}
        call = ToolCall(f"step_{self._n_calls}", tool, by_handle)
        observation = await self._session.act(step.worker_type or "worker", call, step.id, by_program=True)
        if observation.handle:
            self._handles[id(observation.result.data)] = observation.handle
        self._results.append((tool, observation.result))
        return observation.result, max(1, observation.tries)

    async def _run_undo(self, step: PlanStep, tool: str, arguments: JsonObject) -> ToolResult:
        result, _ = await self._act(step, tool, arguments)
        return result

    async def _repaired(self, step: PlanStep, failure: ToolResult) -> StepOutcome | None:
        """Let a short ReAct loop reach the goal of a failed step; None when it does not."""
        self._session.note("decision", "worker", step=step.id, on_surprise="react", error=failure.message)
        results = await repair(self._session, step.id, step.description or step.tool or "", failure.message)
        self._results += results
        return next((StepOutcome((result,)) for tool, result in results if tool == step.tool and result.success), None)

    async def _work_towards(self, step: PlanStep) -> ToolResult:
        """A goal step: a bounded loop of a worker with the tools of its kind; its last words are the output."""
        language = self._session.settings.language
        worker = self._session.suite.workers.get(step.worker_type or "")
        names = set(worker.tools) if worker is not None else set(self._tools)
        tools = tuple(tool for name, tool in self._tools.items() if name in names)
        format = NativeFormat(language)
        expertise = worker.expertise.in_language(language) if worker is not None else ""
        messages: list[Message] = [
            *([{"role": "system", "content": expertise}] if expertise else []),
            {"role": "user", "content": step.description},
        ]
        for _ in range(WORKER_ROUNDS):
            reply = await self._session.ask(step.worker_type or "worker", messages, format, tools)
            intent = format.read(reply, tools)
            messages.append(assistant_message(reply))
            if isinstance(intent, Unreadable):
                messages.append({"role": "user", "content": self._session.unreadable("worker", intent)})
            elif isinstance(intent, CallIntent):
                for call in reply.tool_calls:
                    observation = await self._session.act(step.worker_type or "worker", call, step.id)
                    self._results.append((call.name, observation.result))
                    messages.append(tool_message(call.id, observation.text))
            else:
                return ToolResult(True, data=reply.text)
        return ToolResult(
            False, error_kind="round_limit", message=f"the worker did not finish in {WORKER_ROUNDS} rounds"
        )

    def _checked(self, finding: Finding) -> Finding:
        """A passed finding about an owner only stands when every planned check of its kind was done."""
        shown = [(tool, result) for tool, result in self._results if result.check == finding.criterion]
        if any(result.subject == finding.subject for _, result in shown):
            return finding
        tools = {tool for tool, _ in shown}
        undone = [s.id for s in self.state.graph.steps if s.tool in tools and self.state[s.id].status != "completed"]
        if finding.status != "passed" or not undone:
            return finding
        reason = "; ".join(f"step {name}: {self.state.explain(name) or self.state[name].status}" for name in undone)
        return dataclasses.replace(finding, status="not_evaluated", evidence=reason)

    def _record(self, changes: Changes) -> None:
        for change in changes:
            stored = change.to_json()["changes"]
            about = {name: value for name, value in stored.items() if name not in ("results", "output")}
            moved = {"step": change.step, "before": change.before, "after": change.after}
            self._session.note("step", "scheduler", **moved, **about)


def _short(results: Sequence[ToolResult], limit_chars: int = 500) -> str:
    shown = [result.data if result.data is not None else result.message for result in results]
    return cut_middle(dumps(shown), limit_chars)
