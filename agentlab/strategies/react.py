"""ReAct: one thought and one action per model call, as text, until the model writes its final answer."""

from agentlab.prompts import load_prompt
from agentlab.records import Answer, CallIntent, FinishIntent, JsonObject, Message, ToolCall, ToolResult, Unreadable
from agentlab.session import Session
from agentlab.strategies.base import rounds, system_message, task_message, whole_number
from agentlab.strategies.react_format import ReactFormat
from agentlab.strategies.react_reader import Turn, read_turn
from agentlab.tools import Tool

__all__ = ["ReAct", "ReactFormat", "Turn", "read_turn"]

REPAIR_ROUNDS = 4
_REPAIR = {
    "en": "One step of a plan failed: {goal}\nWhat went wrong: {problem}\n"
    "Reach the goal of this step in another way, and of this step only. When it is done or cannot be done, write:\n"
    "Final Answer: done, or why not",
    "zh": "计划中的一个步骤失败了：{goal}\n出错原因：{problem}\n"
    "请换一种方式完成这个步骤，只做这一步。完成或确定无法完成后，请写：\n最终答案：完成，或者无法完成的原因",
}
_OBSERVATION = {"en": "Observation: ", "zh": "观察："}


class ReAct:
    """Alternates one thought and one action per model call, with tools and results as text, until a final answer.

    Actors: agent, which sees all tools as text. Model calls: one per action, one per malformed reply, one for the
    answer. Stops at the final answer or when a limit is reached. What the model writes after its action is a guess
    about the result and is not kept in the history.

    Source: Yao et al. 2022, arXiv 2210.03629, section 2. Deviates: actions are checked against the tool's schema;
    a malformed action yields feedback instead of ending the run; the worked example is an experiment factor.

    Args:
        max_rounds: model calls at most; None leaves it to the budget.
    """

    name = "react"
    version = "1"
    actors = ("agent",)
    answer_by = "model"
    prompts = ("task", "answer_format", "react", "example_react")
    formats = (ReactFormat,)

    def __init__(self, max_rounds: int | None = None) -> None:
        self.max_rounds: int | None = whole_number("max_rounds", max_rounds, or_none=True)

    async def solve(self, session: Session) -> Answer:
        """Return the model's answer."""
        language = session.settings.language
        format = ReactFormat(language)
        tools = "\n".join(tool.text_line(language) for tool in session.tools if not tool.is_control)
        messages: list[Message] = [
            system_message(session, "react", "example_react", tools=tools),
            task_message(session),
        ]
        for number in rounds(self.max_rounds):
            reply = await session.ask("agent", messages, format)
            turn = read_turn(reply.text, session.tools, language)
            intent = format.intent_of(turn, reply)
            if isinstance(intent, FinishIntent):
                return intent.answer
            # Some servers refuse an empty assistant message.
            messages.append({"role": "assistant", "content": turn.kept or "..."})
            if isinstance(intent, Unreadable):
                messages.append({"role": "user", "content": session.unreadable("agent", intent)})
            elif isinstance(intent, CallIntent):
                name, arguments = intent.calls[0]
                observation = await session.act("agent", ToolCall(f"call_{number}", name, arguments))
                messages.append({"role": "user", "content": _OBSERVATION[language] + observation.text})
        raise AssertionError("rounds() ends by raising")


async def repair(
    session: Session, offered: tuple[Tool, ...], plan_step_id: str, goal: str, problem: str
) -> list[tuple[str, JsonObject, ToolResult]]:
    """Return the calls of a short ReAct loop that tries to reach the goal of a failed plan step another way.

    Each is tool, arguments and result.

    It ends at a final answer, at an unreadable reply or a tool that is not offered, or after `REPAIR_ROUNDS` model
    calls.
    """
    language = session.settings.language
    format = ReactFormat(language)
    tools = "\n".join(tool.text_line(language) for tool in offered)
    messages: list[Message] = [
        {"role": "system", "content": load_prompt("react", language).format(tools=tools)},
        {"role": "user", "content": _REPAIR[language].format(goal=goal, problem=problem)},
    ]
    results: list[tuple[str, JsonObject, ToolResult]] = []
    for number in range(REPAIR_ROUNDS):
        reply = await session.ask("worker", messages, format, offered)
        turn = read_turn(reply.text, offered, language)
        intent = format.intent_of(turn, reply)
        if not isinstance(intent, CallIntent):
            break
        name, arguments = intent.calls[0]
        if name not in {tool.name for tool in offered}:
            break
        observation = await session.act("worker", ToolCall(f"repair_{number}", name, arguments), plan_step_id)
        results.append((name, arguments, observation.result))
        messages.append({"role": "assistant", "content": turn.kept})
        messages.append({"role": "user", "content": _OBSERVATION[language] + observation.text})
    return results
