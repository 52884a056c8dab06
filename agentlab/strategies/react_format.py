"""The text format of ReAct: how a reply is read to an intent and how an intent is written as a reply."""

from typing import Any, Literal

from agentlab.answers import SUBMIT, answer_fault, answer_from_arguments, answer_to_arguments, read_answer
from agentlab.errors import BadArguments
from agentlab.json_values import dumps
from agentlab.records import Answer, CallIntent, FinishIntent, Intent, JsonObject, PlanIntent, Reply, Unreadable
from agentlab.strategies.grammars import Grammar, literal
from agentlab.strategies.native import problem_feedback
from agentlab.strategies.react_reader import Turn, read_turn

LONGEST_THOUGHT_CHARS = 300
"""Of a thought under a grammar: a small model may never end its line."""
_WORDS = {
    "en": {"thought": "Thought: ", "action": "Action: ", "input": "Action Input: ", "final": "Final Answer: "},
    "zh": {"thought": "思考：", "action": "行动：", "input": "行动输入：", "final": "最终答案："},
}


class ReactFormat:
    """One thought and one action, or a final answer, as text.

    Args:
        language: zh or en: the marker words that are written and the language of feedback; both are read.
    """

    name = "react"
    native_tools = False
    stop: tuple[str, ...] = ("\nObservation:", "\n观察：", "\n观察:")
    expects: Literal["turn", "plan"] = "turn"

    def __init__(self, language: str = "en") -> None:
        self.language = "zh" if language == "zh" else "en"

    def schema(self, tools: tuple[Any, ...]) -> JsonObject | None:
        """Return None: a turn is lines of text, not one JSON value."""
        return None

    def grammar(self, tools: tuple[Any, ...]) -> str:
        """Return the grammar of a turn: a thought line, then the action of an offered tool, or the answer's object.

        The answer is that of the control tool (`submit`). Where no tool is one, any JSON object is an answer.
        """
        words = _WORDS[self.language]
        grammar = Grammar()
        turns = []
        for index, tool in enumerate(tools):
            arguments = grammar.add_schema(f"input-{index}", tool.parameters)
            if tool.is_control:
                turns.append(f"{literal(words['final'])} {arguments}")
            else:
                head = f"{words['action']}{tool.name}\n{words['input']}"
                turns.append(f"{literal(head)} {arguments}")
        if not any(tool.is_control for tool in tools):
            turns.append(f"{literal(words['final'])} object")
        grammar.add("turn", " | ".join(turns))
        grammar.add("root", f'{literal(words["thought"])} [^\\n]{{1,{LONGEST_THOUGHT_CHARS}}} "\\n" turn')
        return grammar.text()

    def read(self, reply: Reply, tools: tuple[Any, ...]) -> Intent:
        """Return one call, the answer, or what is wrong with the form.

        A reply that was cut off still counts when its action was complete before the cut.
        """
        return self.intent_of(read_turn(reply.text, tools, self.language), reply)

    def intent_of(self, turn: Turn, reply: Reply) -> Intent:
        """Return what the turn that was read from this reply asks for."""
        is_complete = reply.problem == "call_in_text" or (turn.kind == "action" and bool(turn.dropped))
        if reply.problem is not None and not is_complete:
            return Unreadable(reply.problem, problem_feedback(reply, self.language))
        if turn.kind == "format_error":
            return Unreadable("format_error", turn.feedback)
        if turn.kind == "final":
            if fault := answer_fault(turn.answer):
                return Unreadable("bad_answer", fault)
            return FinishIntent(read_answer(turn.answer) or Answer(text=turn.answer), turn.thought)
        arguments = turn.arguments or {}
        if turn.tool == SUBMIT:
            try:
                return FinishIntent(answer_from_arguments(arguments), turn.thought)
            except BadArguments as error:
                return Unreadable("bad_answer", str(error))
        return CallIntent(((turn.tool, arguments),), turn.thought)

    def write(self, intent: Intent) -> Reply:
        """Return the turn as text. Line ends in the thought become spaces, so that none of it reads as a marker.

        Raises:
            ValueError: the intent does not hold exactly one call, or is no intent of a model.
        """
        words = _WORDS[self.language]
        if isinstance(intent, Unreadable | PlanIntent):
            raise ValueError("a turn is one call or an answer")
        lines = [words["thought"] + " ".join(intent.thought.split())] if intent.thought else []
        if isinstance(intent, CallIntent):
            if len(intent.calls) != 1:
                raise ValueError(f"a ReAct turn holds exactly one call, not {len(intent.calls)}")
            name, arguments = intent.calls[0]
            lines += [words["action"] + name, words["input"] + dumps(arguments)]
        else:
            answer = intent.answer
            lines.append(words["final"] + (dumps(answer_to_arguments(answer)) if answer.is_readable else answer.text))
        return Reply(text="\n".join(lines), finish_reason="stop")
