"""The plain tool loop: ask with tools, act on every call, until the model hands in its answer."""

from agentlab.models.replies import assistant_message, tool_message
from agentlab.records import Answer, FinishIntent, Message, Reply, Unreadable
from agentlab.session import Session
from agentlab.strategies.base import rounds, system_message, task_message, whole_number
from agentlab.strategies.native import NativeFormat


class ToolLoop:
    """Asks with native tools, executes every call of the reply, and repeats until `submit` or a final text.

    Actors: agent, which sees all tools. Model calls: one per round; a round may hold several tool calls.
    Stops when the model submits, answers without a call, or a limit is reached.

    Args:
        max_rounds: model calls at most; None leaves it to the budget.
    """

    name = "tool_loop"
    version = "1"
    actors = ("agent",)
    answer_by = "model"
    prompts = ("task", "answer_format", "tool_loop", "example_native")
    formats = (NativeFormat,)

    def __init__(self, max_rounds: int | None = None) -> None:
        self.max_rounds: int | None = whole_number("max_rounds", max_rounds, or_none=True)

    async def solve(self, session: Session) -> Answer:
        """Return the model's answer."""
        format = NativeFormat(session.settings.language)
        messages = [system_message(session, "tool_loop", "example_native"), task_message(session)]
        for _ in rounds(self.max_rounds):
            reply = await session.ask("agent", messages, format)
            intent = format.read(reply, session.tools)
            if isinstance(intent, FinishIntent):
                return intent.answer
            messages.append(assistant_message(reply))
            if isinstance(intent, Unreadable):
                messages += feedback_messages(reply, session.unreadable("agent", intent))
                continue
            for call in reply.tool_calls:
                observation = await session.act("agent", call)
                messages.append(tool_message(call.id, observation.text))
        raise AssertionError("rounds() ends by raising")


def feedback_messages(reply: Reply, feedback: str) -> list[Message]:
    """Return the feedback as the answer to each call of the reply, or as a user message when it has none.

    Strict servers refuse a request in which a call has no tool message.
    """
    if reply.tool_calls:
        return [tool_message(call.id, feedback) for call in reply.tool_calls]
    return [{"role": "user", "content": feedback}]
