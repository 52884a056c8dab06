"""The format of a planner's reply: one JSON plan, which Python reads, checks, and only then may carry out."""

from collections.abc import Sequence
from typing import Any, Literal

from agentlab.answers import CriterionLike
from agentlab.errors import PlanError
from agentlab.json_values import dumps
from agentlab.planning.plan import ON_ERROR, ON_NOT_PASSED, PlanGraph, PlanStep
from agentlab.planning.problems import problem
from agentlab.planning.reading import DEFAULT_MAX_STEPS, read_plan
from agentlab.records import Answer, CallIntent, FinishIntent, Intent, JsonObject, PlanIntent, Reply, Unreadable
from agentlab.session import SuiteKnowledge
from agentlab.strategies.native import problem_feedback

_IDS: JsonObject = {"type": "array", "items": {"type": "string"}}


class PlanFormat:
    """One plan per reply.

    Args:
        language: zh or en, for the feedback.
        suite: rules and workers that a plan has to keep to.
        criteria: of the task, for the rules about what must be checked.
        max_steps: largest number of steps.
    """

    name = "plan"
    native_tools = False
    stop: tuple[str, ...] = ()
    expects: Literal["turn", "plan"] = "plan"

    def __init__(
        self,
        language: str = "en",
        suite: SuiteKnowledge | None = None,
        criteria: Sequence[CriterionLike] = (),
        max_steps: int = DEFAULT_MAX_STEPS,
    ) -> None:
        self.language = "zh" if language == "zh" else "en"
        self._suite = suite or SuiteKnowledge()
        self._criteria = criteria
        self._max_steps = max_steps

    def schema(self, tools: tuple[Any, ...]) -> JsonObject | None:
        """Return the schema of a plan for constrained decoding; what it cannot say is checked by `plan_of`."""
        names = [tool.name for tool in tools if not tool.is_control]
        step = {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "description": {"type": "string"},
                "tool": {"type": "string", "enum": names},
                "arguments": {"type": "object"},
                "over": {"type": "string"},
                "depends_on": _IDS,
                "on_error": {"type": "string", "enum": list(ON_ERROR)},
                "on_not_passed": {"type": "string", "enum": list(ON_NOT_PASSED)},
                "only_if_passed": _IDS,
                "only_if_not_passed": _IDS,
            },
            "required": ["id", "description", "tool", "arguments", "depends_on"],
        }
        steps = {"type": "array", "items": step, "maxItems": self._max_steps}
        explanation = {"type": "string"}
        return {"type": "object", "properties": {"steps": steps, "explanation": explanation}, "required": ["steps"]}

    def plan_of(self, reply: Reply, tools: tuple[Any, ...], done: Sequence[PlanStep] = ()) -> PlanGraph:
        """Return the plan of a reply.

        Args:
            reply: of the planner.
            tools: the offered tools.
            done: completed steps that the plan builds on.

        Raises:
            PlanError: everything that is wrong with it; a reply that was cut off is no plan, however much of it
                can be read.
        """
        if reply.problem not in (None, "call_in_text"):
            raise PlanError([problem("not_a_plan")])
        return read_plan(
            reply.text,
            tools,
            self._max_steps,
            rules=self._suite.rules,
            criteria=self._criteria,
            workers={name: worker.tools for name, worker in self._suite.workers.items()} or None,
            done=done,
        )

    def read(self, reply: Reply, tools: tuple[Any, ...]) -> Intent:
        """Return the plan, or what is wrong with it as feedback."""
        if reply.problem is not None and reply.problem != "call_in_text":
            return Unreadable(reply.problem, problem_feedback(reply, self.language))
        try:
            return PlanIntent(self.plan_of(reply, tools).to_json())
        except PlanError as error:
            return Unreadable("invalid_plan", error.feedback(self.language))

    def write(self, intent: Intent) -> Reply:
        """Return the plan as text.

        Raises:
            ValueError: the intent is no plan.
        """
        if not isinstance(intent, PlanIntent):
            raise ValueError(f"a planner writes plans, not {type(intent).__name__}")
        return Reply(text=dumps(intent.plan), finish_reason="stop")


class ReportFormat:
    """A report in plain text: whatever the model writes."""

    name = "report"
    native_tools = False
    stop: tuple[str, ...] = ()
    expects: Literal["turn", "plan"] = "turn"

    def schema(self, tools: tuple[Any, ...]) -> JsonObject | None:
        """Return None: text has no schema."""
        return None

    def read(self, reply: Reply, tools: tuple[Any, ...]) -> Intent:
        """Return the text as an answer without findings."""
        return FinishIntent(Answer(text=reply.text))

    def write(self, intent: Intent) -> Reply:
        """Return the words of an intent as text.

        Raises:
            ValueError: the intent is a plan or unreadable.
        """
        if isinstance(intent, FinishIntent):
            return Reply(text=intent.answer.text or intent.thought, finish_reason="stop")
        if isinstance(intent, CallIntent):
            return Reply(text=intent.thought, finish_reason="stop")
        raise ValueError(f"a report is text, not {type(intent).__name__}")
