"""The reasons in a plan's records, and how they read in Chinese.

A reason is stored in English when something is decided, whatever the language of the run, so that records do not
depend on who reads them. What a tool said is never translated.
"""

import re
from collections.abc import Mapping

NOT_NEEDED = ("not needed", "无需执行")
"""What a step is called that was skipped because its condition was not met."""

_CONDITIONS = {
    "needs_passed": (
        "only if the checks of {steps} pass, which they did not",
        "仅当步骤 {steps} 的检查全部通过时才需要，实际未通过",
    ),
    "needs_not_passed": (
        "only if a check of {steps} does not pass, and none did",
        "仅当步骤 {steps} 有检查未通过时才需要，实际没有",
    ),
    "after_not_needed": ("step {step} was not needed", "它所依赖的步骤 {step} 无需执行"),
}
_DECISIONS = {
    "gate": (
        "check {step} did not pass, so this was not done",
        "步骤 {step} 的检查未通过，因此没有执行",
    ),
    "rule": ("{action} by rule {rule}: {why}", "按规则 {rule} {action}：{why}"),
}
_WHY = {
    "tries": ("{kind} after {n} tries", "{kind}，已尝试 {n} 次"),
    "one_try": ("{kind} after {n} try", "{kind}，已尝试 {n} 次"),
    "check": ("a check did not pass", "检查未通过"),
}
_PROBLEMS = {
    "no_undo": ("{tool} cannot be undone: it has no undo tool", "{tool} 没有对应的撤销工具"),
    "undo_failed": ("the undo tool failed", "撤销工具执行失败"),
    "not_approved": ("a person did not approve {tool}", "{tool} 没有得到人工批准"),
    "round_limit": ("the worker did not finish in {n} rounds", "执行者在 {n} 轮内没有完成"),
}
_ACTIONS_ZH = {
    "retry": "重试", "skip": "跳过", "block": "阻塞", "rollback": "回滚", "replan": "重新规划", "terminate": "终止计划",
    "escalate": "转人工",
}  # fmt: skip
_UNDO_ZH = {
    "started": "用 {tool} 撤销，尚无结果", "interrupted": "用 {tool} 撤销时中断", "done": "已用 {tool} 撤销",
    "failed": "用 {tool} 撤销失败",
}  # fmt: skip

_Forms = Mapping[str, tuple[str, str]]


def condition(form: str, **values: str) -> str:
    """Return in words, as they are stored, why a step is not needed: needs_passed, needs_not_passed, after_not_needed.

    Args:
        form: which of them.
        values: `steps`, of `after_not_needed` `step`: what the condition is about.
    """
    return _CONDITIONS[form][0].format(**values)


def is_condition(reason: str) -> bool:
    """Return whether a stored reason says that a step is not needed, rather than that something went wrong."""
    return _found(reason, _CONDITIONS) is not None


def reason_words(reason: str, language: str) -> str:
    """Return a stored reason in a language; in English, or where its form is not known, as it is stored."""
    if language != "zh" or (found := _found(reason, {**_CONDITIONS, **_DECISIONS})) is None:
        return reason
    words, values = found
    if "why" in values:
        values["action"] = _ACTIONS_ZH.get(values["action"], values["action"])
        values["why"] = _in_chinese(values["why"], _WHY)
    return words.format(**values)


def problem_words(message: str, language: str) -> str:
    """Return the message of an error in a language, where the program wrote it and not a tool."""
    return _in_chinese(message, _PROBLEMS) if language == "zh" else message


def undo_words(tool: str, state: str, message: str, language: str) -> str:
    """Return what became of an undo.

    Args:
        tool: the undo tool, `none` where there is none.
        state: started, interrupted, done or failed.
        message: of the undo, empty where there is none.
        language: zh or en.
    """
    if language != "zh":
        return f"undo with {tool} {state}" + (f": {message}" if message else "")
    needs = f"{tool} needs "
    words = (
        f"{tool} 缺少参数 {message.removeprefix(needs)}" if message.startswith(needs) else problem_words(message, "zh")
    )
    return _UNDO_ZH[state].format(tool=tool) + (f"：{words}" if words else "")


def _in_chinese(text: str, forms: _Forms) -> str:
    found = _found(text, forms)
    return text if found is None else found[0].format(**found[1])


def _found(text: str, forms: _Forms) -> tuple[str, dict[str, str]] | None:
    """The Chinese form of a stored text and the values in it; None when it has none of the forms."""
    for english, chinese in forms.values():
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(english))
        if match := re.fullmatch(pattern, text, re.DOTALL):
            return chinese, match.groupdict()
    return None
