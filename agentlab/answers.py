"""The one answer format of all strategies: the `submit` tool or, equally, a JSON object in the last message.

    {"findings": [{"criterion", "subject"?, "status", "evidence"}], "verdict", "summary"}

Reading is tolerant where the meaning is plain (a fence, prose around the object, `pass` for `passed`)
and refuses everything else: a guessed status would be a claim that the model did not make.
"""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from agentlab.errors import BadArguments, ConfigError
from agentlab.json_values import clean_text, dumps
from agentlab.records import STATUSES, VERDICTS, Answer, Finding, JsonObject
from agentlab.tools import Tool

SUBMIT = "submit"
NAME_IS_TAKEN = (
    f"The tool name {SUBMIT!r} is taken: it is the tool with which every model hands in its answer. Give the suite's "
    "tool another name."
)

_STATUS_SYNONYMS = {
    "pass": "passed", "通过": "passed", "已通过": "passed",
    "fail": "failed", "未通过": "failed", "不通过": "failed",
    "未评估": "not_evaluated",
}  # fmt: skip
_VERDICT_SYNONYMS = {
    "pass": "passed", "通过": "passed", "已通过": "passed",
    "fail": "failed", "未通过": "failed", "不通过": "failed",
    "未完成": "incomplete",
}  # fmt: skip
_DECODER = json.JSONDecoder(strict=False)
_MOST_BROKEN_OBJECTS = 100
"""Braces that open no readable object and are still tried; bounds the work on garbage."""


class CriterionLike(Protocol):
    """Anything that names a criterion: `Criterion` or `CriterionView`."""

    @property
    def name(self) -> str:
        """Name without subject."""

    @property
    def subject(self) -> str:
        """What it is about; empty when there is one subject only."""


def submit_tool(criteria: Iterable[CriterionLike], language: str) -> Tool:
    """Return the control tool `submit`, which hands in the answer and ends the run.

    The schema does not bind `criterion` to the task's names, because the JSON object in a message is not
    checked against them either: both ways of answering are read alike.

    Args:
        criteria: of the task; the tool's description lists them.
        language: zh or en, for the descriptions of the arguments.
    """
    listed = ", ".join(f"{c.name}@{c.subject}" if c.subject else c.name for c in criteria)
    return _submit_tool(listed, "zh" if language == "zh" else "en")


@functools.lru_cache(maxsize=1024)
def _submit_tool(listed: str, language: str) -> Tool:
    """One tool for all runs of a task: it holds no state, and its schema's validator is built once."""
    texts = _TEXTS[language]
    finding = {
        "type": "object",
        "properties": {
            "criterion": {"type": "string", "description": texts["criterion"].format(listed)},
            "subject": {"type": "string", "description": texts["subject"]},
            "status": {"type": "string", "enum": list(STATUSES), "description": texts["status"]},
            "evidence": {"type": "string", "description": texts["evidence"]},
        },
        "required": ["criterion", "status"],
    }
    parameters = {
        "type": "object",
        "properties": {
            "findings": {"type": "array", "items": finding, "description": texts["findings"]},
            "verdict": {"type": "string", "enum": list(VERDICTS), "description": texts["verdict"]},
            "summary": {"type": "string", "description": texts["summary"]},
        },
        "required": ["findings"],
    }
    return Tool(
        name=SUBMIT,
        description=_TEXTS["en"]["tool"],
        description_zh=_TEXTS["zh"]["tool"],
        parameters=parameters,
        timeout_s=None,
        is_control=True,
    )


def refuse_name_of_submit(tools: Iterable[Tool]) -> None:
    """Raise a `ConfigError` when a tool of an environment has the name of the tool that hands in the answer."""
    if any(tool.name == SUBMIT for tool in tools):
        raise ConfigError(NAME_IS_TAKEN)


def read_answer(text: str) -> Answer | None:
    """Return the answer that `text` holds in the answer format; None when it holds none that can be read.

    The last object in the format counts: a model may show an example or a draft first.
    """
    return _read(text)[0]


def answer_fault(text: str) -> str:
    """Return why an answer that `text` tries to give cannot be read, in words for the model.

    Empty when the answer can be read, and when the text does not try: plain text is no faulty answer.
    """
    return _read(text)[1]


def answer_from_arguments(arguments: JsonObject) -> Answer:
    """Return the answer that the arguments of `submit`, or the same object in a message, express.

    Statuses and verdict come back in lower case; `amount_valid@ORDER1002` as criterion is split.

    Raises:
        BadArguments: something cannot be read; says what, and what is valid.
    """
    items = arguments.get("findings", [])
    if not isinstance(items, list):
        raise BadArguments("findings must be an array of objects, one for each criterion.")
    verdict = arguments.get("verdict")
    if verdict is not None and verdict != "":
        verdict = _word(verdict, VERDICTS, _VERDICT_SYNONYMS, "verdict")
    answer = Answer(
        findings=tuple(_finding(item, f"findings[{index}]") for index, item in enumerate(items)),
        verdict=verdict or None,
        text=_text(arguments.get("summary")),
    )
    if not answer.is_readable:
        raise BadArguments("The answer has no findings: give one for each criterion.")
    return answer


def answer_to_arguments(answer: Answer) -> JsonObject:
    """Return the answer as arguments of `submit`; `answer_from_arguments` gives it back (`gave_up` excepted)."""
    findings = []
    for finding in answer.findings:
        item = {"criterion": finding.criterion, "subject": finding.subject, "status": finding.status}
        findings.append({name: value for name, value in item.items() if value} | {"evidence": finding.evidence})
    arguments: JsonObject = {"findings": findings, "verdict": answer.verdict, "summary": answer.text}
    return {name: value for name, value in arguments.items() if value is not None}


def _read(text: str) -> tuple[Answer | None, str]:
    """The answer in `text`, or why it cannot be read."""
    found: JsonObject | None = None
    rest = 0
    for value, end in _objects(text):
        for candidate in (value, value.get("arguments")):
            if isinstance(candidate, dict) and ("findings" in candidate or "verdict" in candidate):
                found, rest = candidate, end
    if fault := _broken_object(text, rest):
        return None, fault
    if found is None:
        return None, ""
    try:
        return answer_from_arguments(found), ""
    except BadArguments as error:
        return None, str(error)


def _objects(text: str) -> Iterator[tuple[JsonObject, int]]:
    """Every outermost JSON object in `text` and where it ends, in order."""
    begin = text.find("{")
    broken = 0
    while begin != -1 and broken < _MOST_BROKEN_OBJECTS:
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            broken += 1
            end = begin + 1
        else:
            yield value, end
        begin = text.find("{", end)


def _broken_object(text: str, start: int) -> str:
    """What is wrong with an answer's object after `start` that is no valid JSON; empty when there is none."""
    named = text.find('"findings"', start)
    begin = text.rfind("{", start, named) if named != -1 else -1
    if begin == -1:
        return ""
    try:
        _DECODER.raw_decode(text, begin)
    except ValueError as error:
        return f"The answer is not valid JSON: {error}."
    except RecursionError:
        return "The answer is not valid JSON: it is nested too deeply."
    return ""


def _finding(item: Any, where: str) -> Finding:
    if not isinstance(item, dict):
        raise BadArguments(f'{where} must be an object {{"criterion", "status", "evidence"}}.')
    name, _, subject = _text(item.get("criterion")).strip().partition("@")
    given = _text(item.get("subject")).strip()
    if not name:
        raise BadArguments(f"{where}.criterion is missing: name the criterion as the task lists it.")
    if subject and given and subject != given:
        raise BadArguments(f"{where} names two subjects, {subject!r} in criterion and {given!r} in subject.")
    status = _word(item.get("status"), STATUSES, _STATUS_SYNONYMS, f"{where}.status")
    return Finding(criterion=name, status=status, subject=subject or given, evidence=_text(item.get("evidence")))


def _word(value: Any, valid: tuple[str, ...], synonyms: dict[str, str], where: str) -> str:
    word = value.strip().lower().replace(" ", "_").replace("-", "_") if isinstance(value, str) else value
    word = synonyms.get(word, word) if isinstance(word, str) else word
    if word not in valid:
        shown = "missing" if value is None else f"{dumps(value)[:80]}, which is not valid"
        raise BadArguments(f"{where} is {shown}: use one of {', '.join(valid)}.")
    return str(word)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return clean_text(value) if isinstance(value, str) else dumps(value)


_TEXTS = {
    "en": {
        "tool": "Hand in the answer and end the run. Call it alone, after you have seen all results.",
        "findings": "One finding for each criterion of the task.",
        "criterion": "The criterion as the task lists it. Criteria: {}.",
        "subject": "What the finding is about, where criterion does not say it.",
        "status": "passed: checked and right. failed: checked and wrong. not_evaluated: could not be checked.",
        "evidence": "The result that shows it, or why it could not be checked.",
        "verdict": "failed if any status is failed; else incomplete if any is not_evaluated; else passed.",
        "summary": "One or two sentences.",
    },
    "zh": {
        "tool": "提交答案并结束运行。看到所有结果之后再调用，且单独调用。",
        "findings": "任务的每个检查项对应一条结论。",
        "criterion": "检查项，按任务中列出的写法。检查项：{}。",
        "subject": "结论针对的对象；检查项中已写明时可省略。",
        "status": "passed：已检查且正确。failed：已检查且有误。not_evaluated：无法检查。",
        "evidence": "能说明该状态的结果，或无法检查的原因。",
        "verdict": "任一状态为 failed 则为 failed；否则任一为 not_evaluated 则为 incomplete；否则为 passed。",
        "summary": "一两句话。",
    },
}
