"""Plan-and-Execute: the model proposes a plan, Python decides whether and how it runs, and writes the answer."""

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentlab.calls_made import call_key
from agentlab.errors import StopRun, unknown_name
from agentlab.evidence import findings_of
from agentlab.planning.outcomes import Ended, StepOutcome, is_high_risk
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import Action, FailurePolicy, Rule, load_policy
from agentlab.planning.report import plan_report
from agentlab.planning.scheduler import Scheduler
from agentlab.planning.state import Changes, PlanState
from agentlab.planning.step_state import StepError, Transition
from agentlab.records import (
    Answer,
    Finding,
    JsonObject,
    Observation,
    ReplyFormat,
    ToolCall,
    ToolResult,
    verdict_of,
)
from agentlab.session import Session, SuiteKnowledge
from agentlab.strategies.base import whole_number
from agentlab.strategies.plan_format import PlanFormat
from agentlab.strategies.plan_workers import GoalWorker, PersonsApproval, polished
from agentlab.strategies.planner import Planner
from agentlab.strategies.react import repair
from agentlab.tools import Tool

Surprise = Literal["block", "replan", "react"]
Reporter = Literal["python", "model"]
SURPRISES = ("block", "replan", "react")
REPORTERS = ("python", "model")


class PlanExecute:
    """Asks once for a plan, checks it, runs its steps without a model, and derives the answer from their results.

    Actors: planner; worker (or the step's worker type) acts; no model between the steps, except for `goal` steps
    and with `on_surprise: react`. Model calls: (1 + repairs) * (1 + replans), + at most 6 per goal step, + at most 4
    per step that fails for good with `on_surprise: react`, + 1 with `reporter: model`; repairs at most `max_repairs`
    per plan, replans at most `max_replans`. An invalid plan is sent back with its problems, a reply that is no plan
    at all once; after the last repair the run ends with `invalid_plan`. Stops when no step is left.

    Source: plan, then execute: Wang et al. 2023, arXiv 2305.04091, section 3; execution of a dependency graph: Kim
    et al. 2023, arXiv 2312.04511, section 3; planning once with references to later results: Xu et al. 2023 (ReWOO),
    arXiv 2305.18323, section 3. Deviates: Python writes the answer, not a solver model.

    Args:
        parallelism: steps in flight at once; 1 is reproducible.
        max_repairs: how often an invalid plan is sent back.
        max_replans: how often a failed plan may be replaced; completed work is kept.
        on_surprise: what a failure for good leads to: `block` what needs it, `replan`, or `react` (a short local
            loop tries to reach the step's goal another way).
        policy: failure policy by name or as data (`agentlab.planning.policy`); `suite` is the one that the suite
            brings along, or `default` where it brings none.
        max_steps: largest plan.
        reporter: who words the report: `python`, or `model` (one more planner call; a text that changes a fact of
            Python's report is refused, and findings and verdict are Python's in any case).
    """

    name = "plan_execute"
    version = "3"
    actors: tuple[str, ...] = ("planner", "worker")
    answer_by = "python"
    prompts: tuple[str, ...] = ("task", "plan_execute", "react")
    formats: tuple[Callable[[str], ReplyFormat], ...] = (PlanFormat,)

    def __init__(
        self,
        parallelism: int = 1,
        max_repairs: int = 2,
        max_replans: int = 1,
        on_surprise: Surprise = "block",
        policy: str | Mapping[str, Any] = "suite",
        max_steps: int = 20,
        reporter: Reporter = "python",
    ) -> None:
        if on_surprise not in SURPRISES:
            raise unknown_name("on_surprise", str(on_surprise), SURPRISES)
        if reporter not in REPORTERS:
            raise unknown_name("reporter", str(reporter), REPORTERS)
        self.parallelism: int = whole_number("parallelism", parallelism)
        self.max_repairs: int = whole_number("max_repairs", max_repairs, least=0)
        self.max_replans: int = whole_number("max_replans", max_replans, least=0)
        self.on_surprise = on_surprise
        self.max_steps: int = whole_number("max_steps", max_steps)
        self.reporter = reporter
        if reporter == "model":
            self.prompts = (*self.prompts, "plan_report")
        self._policy = None if policy == "suite" else load_policy(policy)

    async def solve(self, session: Session) -> Answer:
        """Return the answer that follows from the results of the steps."""
        planner = Planner(session, self.max_repairs, self.max_steps)
        graph = await planner.plan()
        if graph is None:
            return Answer(text=planner.explanation, gave_up=True)
        return await self.carry_out(session, Execution(session, PlanState(graph), self), planner)

    async def carry_out(
        self, session: Session, execution: "Execution", planner: "Planner | None" = None, n_replans: int = 0
    ) -> Answer:
        """Return the answer after the plan has been run, and replaced where that was needed.

        Args:
            session: of the run.
            execution: holds the plan, new or as it stood when it was stopped.
            planner: the one that made the plan; None gets a new one where it is needed.
            n_replans: plans that were replaced before.
        """
        while (ended := await execution.run()).kind == "replan":
            graph = None
            if n_replans < self.max_replans:
                planner = planner or Planner(session, self.max_repairs, self.max_steps)
                graph = await planner.replan(execution.state, ended)
                n_replans += 1
            execution.continue_with(graph)
        if ended.kind == "escalate":
            session.note("note", "scheduler", report=execution.report())
            raise StopRun("escalated", f"step {ended.step} needs a person: {ended.reason}")
        answer = execution.answer()
        if self.reporter == "python":
            return answer
        return dataclasses.replace(answer, text=await polished(session, answer.text, execution.names()))

    def policy_for(self, suite: SuiteKnowledge) -> FailurePolicy:
        """Return the failure policy, with a replan as its last resort where a surprise is to lead to one."""
        policy = self._policy or load_policy(suite.policy or "default")
        if self.on_surprise != "replan" or self.max_replans == 0:
            return policy
        last = Rule(name="surprise", on_error="replan", limit=self.max_replans)
        return policy.model_copy(update={"rules": (*policy.rules, last)})


@dataclass(frozen=True, slots=True)
class _Made:
    """The result of a call, with what decides about its place among all of them."""

    step: str
    tool: str
    result: ToolResult
    restarts: int
    is_entry: bool


class Execution:
    """One plan on its way: calls go through the session, changes into the trace (and a journal, if there is one)."""

    def __init__(self, session: Session, state: PlanState, strategy: PlanExecute) -> None:
        self.state = state
        self._session = session
        self._strategy = strategy
        self._tools = {tool.name: tool for tool in session.tools if not tool.is_control}
        done = sorted(state.with_status("completed"), key=lambda name: state[name].completed_seq or 0)
        self._results: list[_Made] = []
        for name in done:
            self._keep(name, state.graph.step(name).tool or "", *state[name].results)
        self._handles: dict[int, str] = {}
        self._made: dict[str, list[ToolCall]] = {}
        self._n_calls = 0
        # One clock for all plans of the run.
        self._started = time.perf_counter()
        self._scheduler: Scheduler | None = None

    async def run(self) -> Ended:
        """Run what is left of the plan."""
        session_asks = self._session.settings.approvals == "ask"
        self._scheduler = Scheduler(
            self.state,
            self._tools,
            self._strategy.policy_for(self._session.suite),
            self._run_step,
            self._run_undo,
            self._record,
            parallelism=self._strategy.parallelism,
            rescue=self._rescue if self._strategy.on_surprise == "react" else None,
            approve=PersonsApproval(self._session, self._call) if session_asks else None,
            told=self._command,
            now_s=lambda: time.perf_counter() - self._started,
        )
        return await self._scheduler.run()

    def continue_with(self, graph: PlanGraph | None) -> None:
        """Go on with a plan that replaces the present one; None goes on with what is left of it."""
        if graph is not None:
            self.state = self.state.continued(graph)
        else:
            self._record(self.state.set_phase("executing"))

    def take_up(self, step_id: str, call: ToolCall, result: ToolResult | None = None) -> None:
        """Take note of a call of an earlier attempt, so that it may be made again once its effect is undone.

        Args:
            step_id: its step.
            call: the call.
            result: what it brought, where the answer has to know it and no step holds it.
        """
        self._made.setdefault(step_id, []).append(call)
        if result is not None and step_id in self.state.graph:
            self._keep(step_id, call.name, result)

    def report(self) -> str:
        """Return the report so far."""
        return plan_report(self.state, self._session.settings.language)

    def names(self) -> set[str]:
        """Return the words of the report that are names: steps, tools, criteria."""
        criteria = {criterion.name for criterion in self._session.view.criteria}
        steps = {step.id for step in self.state.graph.steps} | {name for name, _ in self.state.superseded}
        return steps | set(self._tools) | criteria

    def answer(self) -> Answer:
        """Return what the results say: statuses by evidence, nothing passed of which a part was not checked."""
        findings = tuple(self._checked(f) for f in findings_of(self._session.view.criteria, self._in_order()))
        verdict = verdict_of([finding.status for finding in findings])
        return Answer(findings, verdict, self.report())

    async def _run_step(self, step: PlanStep, calls: Sequence[JsonObject]) -> StepOutcome:
        if step.kind == "goal":
            return await self._work_towards(step, calls[0])
        n_done = 0

        async def act(arguments: JsonObject) -> Observation:
            nonlocal n_done
            observation = await self._act(step, step.tool or "", arguments)
            n_done += 1
            if n_done < len(calls):
                self._report(step, progress=n_done / len(calls))
            return observation

        earlier = Counter(map(call_key, self._made.get(step.id, ())))
        done = await self._session.map(act, calls, self._strategy.parallelism)
        results = tuple(observation.result for observation in done)
        self._keep(step.id, step.tool or "", *results)
        made = self._really_made(step, calls, done, earlier)
        return StepOutcome(results, max((max(1, each.tries) for each in done), default=1), made)

    def _really_made(
        self, step: PlanStep, calls: Sequence[JsonObject], done: Sequence[Observation], earlier: Counter[str]
    ) -> tuple[JsonObject | None, ...]:
        """The arguments of each call that this step made, now or in an earlier try; None for the effect of another."""
        made: list[JsonObject | None] = []
        for arguments, observation in zip(calls, done, strict=True):
            key = call_key(self._call(step.tool or "", arguments))
            is_own = observation.tries > 0 or earlier[key] > 0
            if observation.tries == 0 and is_own:
                earlier[key] -= 1
            made.append(arguments if is_own else None)
        return tuple(made)

    def _call(self, tool: str, arguments: JsonObject) -> ToolCall:
        """The call as the session gets it: large results stand as their handle."""
        by_handle = {name: self._handles.get(id(value), value) for name, value in arguments.items()}
        return ToolCall(f"step_{self._n_calls}", tool, by_handle)

    async def _act(self, step: PlanStep, tool: str, arguments: JsonObject) -> Observation:
        self._n_calls += 1
        call = self._call(tool, arguments)
        observation = await self._session.act(step.worker_type or "worker", call, step.id, by_program=True)
        if observation.tries:
            self._made.setdefault(step.id, []).append(call)
        if observation.handle:
            self._handles[id(observation.result.data)] = observation.handle
        return observation

    async def _run_undo(self, step: PlanStep, tool: str, arguments: JsonObject) -> ToolResult:
        # Its entries may need the same undo several times; the plan counts them.
        self._session.forget(self._call(tool, arguments))
        result = (await self._act(step, tool, arguments)).result
        self._keep(step.id, tool, result)
        return result

    async def _rescue(self, step: PlanStep, outcome: StepOutcome) -> StepOutcome:
        """Let a short ReAct loop reach the goal of a failed step; its last success with the step's tool counts."""
        failure = outcome.failure
        if step.tool is None or len(outcome.results) != 1 or failure is None or failure.error_kind == "not_approved":
            return outcome
        self._session.note("decision", "worker", step=step.id, on_surprise="react", error=failure.message)
        tools = tuple(tool for name, tool in self._tools.items() if name == step.tool or not is_high_risk(tool))
        results = await repair(self._session, tools, step.id, step.description or step.tool, failure.message)
        for tool, _, result in results:
            self._keep(step.id, tool, result)
        good = [(arguments, result) for tool, arguments, result in results if tool == step.tool and result.success]
        if not good:
            return outcome
        arguments, result = good[-1]
        return StepOutcome((result,), outcome.tries + len(results), (arguments,))

    async def _work_towards(self, step: PlanStep, inputs: JsonObject) -> StepOutcome:
        """Let the step's worker reach its goal, with the tools of its kind."""
        worker = self._session.suite.workers.get(step.worker_type or "")
        tools = tuple(tool for name, tool in self._tools.items() if worker is None or name in worker.tools)

        def refuse(tool: str) -> str:
            gate = self.state.failed_gate(step.id) if is_high_risk(self._tools[tool]) else None
            return f"The check of step {gate} did not pass, so {tool} must not be used." if gate else ""

        actor = step.worker_type or "worker"
        goal = GoalWorker(self._session, actor, tools, refuse, lambda tool: self._report(step, activity=tool))
        try:
            result = await goal.work(step, inputs)
        finally:
            for tool_name, each in goal.results:
                self._keep(step.id, tool_name, each)
        used = {name for name, each in goal.results if _has_acted(self._tools.get(name), each)}
        return StepOutcome((result,), effects=tuple(sorted(used)))

    def _keep(self, step_id: str, tool: str, *results: ToolResult) -> None:
        is_entry = self.state.graph.step(step_id).kind == "map"
        restarts = self.state[step_id].restarts
        self._results += [_Made(step_id, tool, result, restarts, is_entry) for result in results]

    def _report(self, step: PlanStep, *, progress: float | None = None, activity: str = "") -> None:
        if self._scheduler is not None:
            self._scheduler.report(step.id, progress=progress, activity=activity)

    def _in_order(self) -> list[tuple[str, ToolResult]]:
        """Tools and results step by step, so that an answer does not depend on which parallel step was faster."""
        ranks = {name: rank for rank, name in enumerate(self.state.graph.execution_order())}

        def place(made: _Made) -> tuple[int, int, bool]:
            # A step that is no longer in the plan belongs to one that this plan has replaced. Of the entries of a map
            # step about the same thing, the one that did not pass counts.
            is_last = made.is_entry and made.result.passed is False
            return ranks.get(made.step, -1), made.restarts, is_last

        return [(made.tool, made.result) for made in sorted(self._results, key=place)]

    def _checked(self, finding: Finding) -> Finding:
        """A passed finding about an owner only stands when every planned check of its kind was done."""
        shown = [made for made in self._results if made.result.check == finding.criterion]
        if any(made.result.subject == finding.subject for made in shown):
            return finding
        tools = {made.tool for made in shown}
        undone = [s.id for s in self.state.graph.steps if s.tool in tools and self.state[s.id].status != "completed"]
        if finding.status != "passed" or not undone:
            return finding
        reason = "; ".join(f"step {name}: {self.state.explain(name) or self.state[name].status}" for name in undone)
        return dataclasses.replace(finding, status="not_evaluated", evidence=reason)

    def _record(self, changes: Changes) -> None:
        if self._session.journal is not None:
            self._session.journal.changes(changes)
        for change in changes:
            if change.after == "rolled_back":
                # The effects are gone, so a restart of the step is no repetition.
                for call in self._made.pop(change.step or "", ()):
                    self._session.forget(call)
            stored = change.to_json()["changes"]
            about = {name: value for name, value in stored.items() if name not in ("results", "output", "calls")}
            moved = {"step": change.step, "before": change.before, "after": change.after}
            self._session.note("step", "scheduler", **moved, **about, **self._message(change))

    def _message(self, change: Transition) -> JsonObject:
        """What scheduler and worker tell each other with a change: assignment, update, result or failure."""
        step = self.state.graph.step(change.step) if change.step is not None else None
        if step is None or "running" not in (change.before, change.after) or change.after == "interrupted":
            return {}
        worker = step.worker_type or "worker"
        if change.before != "running":
            written = step.to_json()
            payload: JsonObject = {name: written[name] for name in ("tool", "arguments", "over") if name in written}
            payload["description"] = step.description
            return {"message": "assign", "sender": "scheduler", "receiver": worker, "payload": payload}
        back = {"sender": worker, "receiver": "scheduler"}
        if change.after == "running":
            return {"message": "update", **back}
        results = change.changes.get("results", ())
        checks = [result.passed for result in results if result.passed is not None]
        if change.after == "completed":
            counts = {"results": len(results), "passed": checks.count(True), "not_passed": checks.count(False)}
            return {"message": "result", **back, "payload": counts}
        error = change.changes.get("error") or self.state[step.id].error
        can_recover = error is not None and error.is_transient and error.is_safe_to_repeat
        return {"message": "failure", **back, "payload": {"can_recover": can_recover}}

    def _command(self, step_id: str, action: Action) -> None:
        """Record what was decided about a step that did not succeed, as the command that its worker gets."""
        upcoming = self.state.next_ready()
        payload: JsonObject = {"command": action.kind, "rule": action.rule, "reason": action.reason}
        payload |= {"delay_s": action.delay_s} if action.kind == "retry" else {}
        payload |= {"next_step": upcoming.id} if upcoming is not None else {}
        receiver = self.state.graph.step(step_id).worker_type or "worker"
        about = {"step": step_id, "sender": "scheduler", "receiver": receiver, "payload": payload}
        self._session.note("decision", "scheduler", message="recovery_command", **about)


def _has_acted(tool: Tool | None, result: ToolResult) -> bool:
    """Whether a call may have changed something."""
    is_there = result.success or StepError.of(result, tool).may_have_happened
    return tool is not None and tool.has_side_effect and is_there
