"""The model that plans: it is asked for a plan, told what is wrong with it, and asked for another where one failed."""

from collections.abc import Sequence

from agentlab.errors import PlanError, StopRun
from agentlab.json_values import dumps
from agentlab.observations import cut_middle
from agentlab.planning.outcomes import Ended
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.state import PlanState
from agentlab.records import Message, ToolResult
from agentlab.session import Session
from agentlab.strategies.base import system_message, task_message
from agentlab.strategies.native import problem_feedback
from agentlab.strategies.plan_format import PlanFormat

_REPLAN_WORDS = {
    "en": "The plan could not be finished: {reason}\nDone so far, and kept: {done}\nResults:\n{results}\n"
    "Write a plan for what is left, as before. You may refer to completed steps by their id.",
    "zh": "计划无法完成：{reason}\n已完成并保留的步骤：{done}\n结果：\n{results}\n"
    "请按之前的格式为剩余工作制定计划，可以用编号引用已完成的步骤。",
}


class Planner:
    """Gets a sound plan out of the model, with a bounded number of repairs, each billed and recorded."""

    def __init__(self, session: Session, max_repairs: int, max_steps: int) -> None:
        self.explanation = ""
        """Why there is nothing to do, in the planner's words."""
        self._session = session
        self._max_repairs = max_repairs
        self._was_no_plan = False
        language = session.settings.language
        self._format = PlanFormat(language, session.suite, session.view.criteria, max_steps)
        tools = "\n".join(tool.text_line(language) for tool in session.tools if not tool.is_control)
        system = system_message(session, "plan_execute", None, tools=tools, max_steps=str(max_steps))
        self._messages: list[Message] = [system, task_message(session)]

    async def plan(self, done: Sequence[PlanStep] = ()) -> PlanGraph | None:
        """Return a sound plan; None when the planner says that there is nothing to do.

        Raises:
            StopRun: no sound plan after the last repair, or a second reply that is no plan at all (`invalid_plan`).
        """
        for repairs in range(self._max_repairs + 1):
            reply = await self._session.ask("planner", self._messages, self._format)
            self._messages.append({"role": "assistant", "content": reply.text or "..."})
            try:
                graph = self._format.plan_of(reply, self._session.tools, done)
            except PlanError as error:
                if error.explanation:
                    self.explanation = error.explanation
                    self._session.note("note", "planner", explanation=error.explanation, repairs=repairs)
                    return None
                self._reject(error, repairs, reply.problem and problem_feedback(reply, self._format.language))
                is_no_plan = error.codes == ("not_a_plan",) and reply.problem is None
                if is_no_plan and self._was_no_plan:
                    raise StopRun("invalid_plan", "no usable plan: two replies were no plan at all") from error
                self._was_no_plan = self._was_no_plan or is_no_plan
                continue
            if self._session.journal is not None:
                self._session.journal.plan(graph)
            self._session.note("plan", "planner", plan=graph.to_json(), repairs=repairs)
            return graph
        raise StopRun("invalid_plan", f"no usable plan after {self._max_repairs} repairs")

    async def replan(self, state: PlanState, ended: Ended) -> PlanGraph | None:
        """Return a plan that keeps what has completed; None when the planner sees nothing more to do."""
        done = [state.graph.step(name) for name in state.with_status("completed")]
        words = _REPLAN_WORDS[self._format.language]
        results = "\n".join(f"{step.id}: {_short(state[step.id].results)}" for step in done)
        reason = (
            f"step {ended.step}: {state.explain(ended.step, self._format.language) or ended.reason}"
            if ended.step
            else ended.reason
        )
        text = words.format(reason=reason, done=", ".join(step.id for step in done) or "-", results=results)
        self._messages.append({"role": "user", "content": text})
        return await self.plan(done)

    def _reject(self, error: PlanError, repairs: int, reply_problem: str | None) -> None:
        feedback = reply_problem or error.feedback(self._format.language)
        problems = [{"step": p.step, "code": p.code, "message": p.message} for p in error.problems]
        self._session.note("error", "planner", where="plan", problems=problems, repairs=repairs, feedback=feedback)
        self._messages.append({"role": "user", "content": feedback})


def _short(results: Sequence[ToolResult], limit_chars: int = 500) -> str:
    shown = [result.data if result.data is not None else result.message for result in results]
    return cut_middle(dumps(shown), limit_chars)
