"""The native format: tools offered through the API, calls as `tool_calls`, the answer by `submit` or as JSON text."""

from typing import Any, Literal

from agentlab.answers import SUBMIT, answer_fault, answer_from_arguments, answer_to_arguments, read_answer
from agentlab.errors import BadArguments
from agentlab.records import (
    Answer,
    CallIntent,
    FinishIntent,
    Intent,
    JsonObject,
    PlanIntent,
    Reply,
    ToolCall,
    Unreadable,
)


class NativeFormat:
    """Tool calls of the API.

    Args:
        language: zh or en, for the feedback.
    """

    name = "native"
    native_tools = True
    stop: tuple[str, ...] = ()
    expects: Literal["turn", "plan"] = "turn"

    def __init__(self, language: str = "en") -> None:
        self.language = "zh" if language == "zh" else "en"

    def schema(self, tools: tuple[Any, ...]) -> JsonObject | None:
        """Return None: the API binds the arguments of native calls itself."""
        return None

    def read(self, reply: Reply, tools: tuple[Any, ...]) -> Intent:
        """Return the calls, or the answer.

        `submit` ends the run only when it is alone: beside other calls it was written before their results
        existed. A call that may not be executed (`ToolCall.problem`) is left out of the intent's calls; the
        session answers it by its id. Text without a call is the answer, in the answer format or without verdict.
        """
        if reply.problem is not None:
            return Unreadable(reply.problem, problem_feedback(reply, self.language))
        if not reply.tool_calls:
            return self._read_text(reply)
        if all(call.name == SUBMIT for call in reply.tool_calls):
            return self._read_submit(reply)
        calls = tuple(
            (call.name, call.arguments)
            for call in reply.tool_calls
            if call.problem is None and call.arguments is not None and call.name != SUBMIT
        )
        return CallIntent(calls, reply.text)

    def write(self, intent: Intent) -> Reply:
        """Return the reply that `read` turns into this intent; the ids of its calls are unique within the reply.

        Raises:
            ValueError: the intent is no intent of a model.
        """
        if isinstance(intent, Unreadable | PlanIntent):
            raise ValueError("a turn is calls or an answer")
        if isinstance(intent, CallIntent):
            calls = tuple(
                ToolCall(f"call_{index}", name, arguments) for index, (name, arguments) in enumerate(intent.calls, 1)
            )
            return Reply(text=intent.thought, tool_calls=calls, finish_reason="tool_calls")
        if not intent.answer.is_readable:
            return Reply(text=intent.answer.text, finish_reason="stop")
        submit = ToolCall("call_1", SUBMIT, answer_to_arguments(intent.answer))
        return Reply(text=intent.thought, tool_calls=(submit,), finish_reason="tool_calls")

    def _read_text(self, reply: Reply) -> Intent:
        if not reply.text.strip():
            return Unreadable("empty_answer", problem_feedback(reply, self.language))
        if fault := answer_fault(reply.text):
            return Unreadable("bad_answer", fault)
        return FinishIntent(read_answer(reply.text) or Answer(text=reply.text))

    def _read_submit(self, reply: Reply) -> Intent:
        first = reply.tool_calls[0]
        if any(call.arguments != first.arguments for call in reply.tool_calls):
            return Unreadable("bad_answer", _SUBMIT_TWICE[self.language])
        if first.problem is not None or first.arguments is None:
            return Unreadable(first.problem or "bad_arguments", first.detail or _PROBLEMS[self.language]["bad_answer"])
        try:
            return FinishIntent(answer_from_arguments(first.arguments), reply.text)
        except BadArguments as error:
            return Unreadable("bad_answer", str(error))


def problem_feedback(reply: Reply, language: str) -> str:
    """Return what a model should do after a reply that cannot be used, from the reply's `problem` and `detail`."""
    texts = _PROBLEMS["zh" if language == "zh" else "en"]
    text = texts.get(reply.problem or "empty_answer")
    return text if text is not None else texts["other"].format(reply.problem, reply.detail).strip()


_SUBMIT_TWICE = {
    "en": "You called submit more than once with different answers. Call it once.",
    "zh": "你多次调用了 submit，而且答案不同。请只调用一次。",
}
_PROBLEMS = {
    "en": {
        "truncated": "Your reply was cut off at the length limit, so nothing of it was used. Write less: "
        "one tool call, or the answer.",
        "call_in_text": "You wrote a tool call as text, so it was not run. Make the call through function calling.",
        "empty_answer": "Your reply was empty. Call a tool, or hand in the answer.",
        "no_choices": "Your reply was empty. Call a tool, or hand in the answer.",
        "bad_answer": "The answer could not be read. Write it in the answer format.",
        "other": "Your reply could not be used ({}). {}",
    },
    "zh": {
        "truncated": "回复超出长度限制被截断，内容全部未被采用。请写短一些：只写一个工具调用，或者只写答案。",
        "call_in_text": "你把工具调用写成了文字，因此没有执行。请通过函数调用来调用工具。",
        "empty_answer": "回复为空。请调用工具，或者提交答案。",
        "no_choices": "回复为空。请调用工具，或者提交答案。",
        "bad_answer": "答案无法读取。请按答案格式书写。",
        "other": "回复无法使用（{}）。{}",
    },
}
