"""The problems a plan can have: one code each, in the order in which they are reported, with words in two languages."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from agentlab.json_values import clean_text, dumps
from agentlab.records import PlanProblem

_SHOWN_CHARS = 80


class _Words(NamedTuple):
    message: str
    fix: str
    message_zh: str
    fix_zh: str


def problem(code: str, step: str | None = None, *, words: str = "", **values: Any) -> PlanProblem:
    """Return the problem of a code in words.

    Args:
        code: a key of the table in this module.
        step: the step it is about; None for the plan as a whole.
        words: key of the words, where they are not those of the code.
        values: what the words mention.
    """
    message, fix, message_zh, fix_zh = (text.format(step=step, **values) for text in _WORDS[words or code])
    where, where_zh = (f"Step {step}: ", f"步骤 {step}：") if step is not None else ("", "")
    return PlanProblem(step, code, where + message, fix, where_zh + message_zh, fix_zh)


def in_order(problems: list[PlanProblem]) -> list[PlanProblem]:
    """Return the problems in the order of the rules; within a rule in the order in which they were found."""
    return sorted(problems, key=lambda found: _RANKS[found.code])


def shown(value: Any) -> str:
    """Return a value as written, for a message; long ones cut."""
    text = clean_text(dumps(value))
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


def shown_names(names: Sequence[str], most: int = 30) -> str:
    """Return names for a message, the first ones where there are many."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "") if names else "none"


# Braces are doubled because the words below are format strings.
_PLAN_FORM = '{{"steps": [{{"id", "description", "tool", "arguments", "depends_on"}}]}}'
_REFERENCE_FORM = "steps.<id>.output.<field>[<index>]"

_WORDS = {
    # Is it a plan at all?
    "not_a_plan": _Words(
        "Your reply contains no plan, and no tool has run yet.",
        f"Reply with one JSON object and nothing else: {_PLAN_FORM}.",
        "回复中没有计划，而目前还没有执行任何工具。",
        f"请只回复一个 JSON 对象：{_PLAN_FORM}。",
    ),
    "not_json": _Words(
        "the plan is not valid JSON: {reason}, near: {excerpt}",
        "Write strict JSON: double quotes, no comments, no trailing commas, closed to the end.",
        "计划不是合法的 JSON：{reason}，位置：{excerpt}",
        "请写严格的 JSON：双引号、无注释、无多余逗号、完整闭合。",
    ),
    "several_plans": _Words(
        "the reply contains {count} different plans.", "Send exactly one.",
        "回复中有 {count} 个不同的计划。", "请只给出一个。",
    ),
    # The rules of seed 000, item 17, in their order.
    "not_a_list": _Words(
        "{field} is {found}, not a list of steps.", f"Write {_PLAN_FORM}.",
        "{field} 不是步骤列表，而是 {found}。", f"请写 {_PLAN_FORM}。",
    ),
    "empty_plan": _Words(
        "The plan has no steps.", "That is right when there is nothing to do; say why in \"explanation\".",
        "计划中没有步骤。", "如果确实无事可做，这样是对的；请在 \"explanation\" 中说明原因。",
    ),
    "too_many_tasks": _Words(
        "the plan has {count} steps, but at most {limit} are allowed.",
        "Merge steps, or let one map step work through a list.",
        "计划有 {count} 个步骤，最多允许 {limit} 个。", "请合并步骤，或用一个 map 步骤处理整个列表。",
    ),
    "not_an_object": _Words(
        "is {found}, not an object.", 'Write {{"id", "description", "tool", "arguments", "depends_on"}}.',
        "不是对象，而是 {found}。", '请写 {{"id", "description", "tool", "arguments", "depends_on"}}。',
    ),
    "bad_id": _Words(
        "the id is {found}.", "Give every step an id: a short text that is not empty, such as \"query\" or \"3.1\".",
        "id 为 {found}。", "每个步骤都要有一个非空的简短文本 id，例如 \"query\" 或 \"3.1\"。",
    ),
    "duplicate_id": _Words(
        "the id {step} is used {count} times.", "Give every step an id of its own.",
        "id {step} 用了 {count} 次。", "每个步骤的 id 必须不同。",
    ),
    "unknown_tool": _Words(
        "there is no tool {name}.{guess}", "Tools: {names}.",
        "没有名为 {name} 的工具。{guess_zh}", "可用工具：{names}。",
    ),
    "arguments_not_object": _Words(
        "the arguments are {found}, not an object.", "Write {shape}.",
        "参数不是对象，而是 {found}。", "请写 {shape}。",
    ),
    "missing_argument": _Words(
        "{tool} needs the argument {name}.", "Write {shape}.",
        "{tool} 缺少参数 {name}。", "请写 {shape}。",
    ),
    "extra_argument": _Words(
        "{tool} has no argument {name}.", "Write {shape}.",
        "{tool} 没有参数 {name}。", "请写 {shape}。",
    ),
    "bad_argument": _Words(
        "an argument of {tool} does not fit: {detail}.", "Write {shape}.",
        "{tool} 的参数不符合要求：{detail}。", "请写 {shape}。",
    ),
    "dependencies_not_list": _Words(
        "{field} is {found}, not a list.", "Write a list of step ids, [] for none.",
        "{field} 不是列表，而是 {found}。", "请写步骤 id 的列表，没有依赖时写 []。",
    ),
    "bad_dependency": _Words(
        "{field} contains {found}, which is no step id.", "Write the ids of steps of this plan.",
        "{field} 中的 {found} 不是步骤 id。", "请写本计划中步骤的 id。",
    ),
    "self_dependency": _Words(
        "it depends on itself, so it could never start.", "Remove {step} from its own depends_on and arguments.",
        "该步骤依赖自身，永远无法开始。", "请从它的 depends_on 和参数中去掉 {step}。",
    ),
    "unknown_dependency": _Words(
        "it depends on {name}, but there is no such step.", "Steps: {names}.",
        "依赖的步骤 {name} 不存在。", "已有步骤：{names}。",
    ),
    "cycle": _Words(
        "the dependencies form a cycle, so none of these steps could ever start: {members}.",
        "Remove one of these dependencies.",
        "依赖关系成环，这些步骤永远无法开始：{members}。", "请去掉其中一个依赖。",
    ),
    # Fields and kinds.
    "unknown_fields": _Words(
        "these fields are not understood: {fields}.", "Known fields: {names}.",
        "无法识别的字段：{fields}。", "可用字段：{names}。",
    ),
    "field_given_twice": _Words(
        "{field} is given as {first} and as {second}, and the two differ.", "Give it once.",
        "{field} 同时以 {first} 和 {second} 给出，且两者不同。", "请只写一次。",
    ),
    "bad_field": _Words(
        "{field} is {found}.", "Write {valid}.",
        "{field} 的值是 {found}。", "应为 {valid}。",
    ),
    "too_deep": _Words(
        "the arguments are nested too deeply.", "Write plain values.",
        "参数嵌套过深。", "请写简单的值。",
    ),
    "no_list_to_map": _Words(
        "a map step needs \"over\", a reference to a list; found {found}.",
        f'Write "over": "{_REFERENCE_FORM}", and item or item.<field> in the arguments.',
        "map 步骤需要 \"over\"（指向列表的引用），现在是 {found}。",
        f'请写 "over": "{_REFERENCE_FORM}"，参数中用 item 或 item.<字段>。',
    ),
    "over_without_map": _Words(
        "\"over\" belongs to a map step, but the kind is {kind}.", 'Write "kind": "map", or leave "over" out.',
        "\"over\" 只用于 map 步骤，而 kind 是 {kind}。", '请写 "kind": "map"，或去掉 "over"。',
    ),
    "tool_without_use": _Words(
        "a {kind} step uses no tool, but names {name}.", 'Leave "tool" out, or write "kind": "tool".',
        "{kind} 步骤不使用工具，却写了 {name}。", '请去掉 "tool"，或写 "kind": "tool"。',
    ),
    "no_goal": _Words(
        "a goal step needs a description: it is all that its worker is told.", "Say what is to be reached.",
        "goal 步骤需要 description：执行者只能看到它。", "请写明要达到的目标。",
    ),
    "unknown_worker": _Words(
        "there is no worker type {name}.", "Worker types: {names}.",
        "没有名为 {name} 的执行者类型。", "可用类型：{names}。",
    ),
    "wrong_worker": _Words(
        "a worker of type {name} may not use {tool}.", "Its tools: {names}.",
        "{name} 类型的执行者不能使用 {tool}。", "它的工具：{names}。",
    ),
    "changed_step": _Words(
        "this step has already been carried out and is now planned differently.",
        "Leave finished steps out; refer to their outputs by id.",
        "该步骤已执行，新计划却改变了它。", "请省略已完成的步骤，只用 id 引用它们的输出。",
    ),
    "bad_back_to": _Words(
        "it is to roll back to {name}, which is not before it.", "Before it: {names}.",
        "要回滚到 {name}，但它不在该步骤之前。", "之前的步骤：{names}。",
    ),
    "no_rollback": _Words(
        "back_to and restart belong to a rollback, and it asks for none.",
        'Write "on_error" or "on_not_passed": "rollback", or leave them out.',
        "back_to 和 restart 只用于回滚，但该步骤没有要求回滚。",
        '请写 "on_error" 或 "on_not_passed"："rollback"，或去掉它们。',
    ),
    # References.
    "bad_reference": _Words(
        "{text} looks like a reference but is none.",
        f"A reference is a whole value: {_REFERENCE_FORM}; to pass the text itself, write "
        '{{"type": "literal", "value": ...}}.',
        "{text} 看起来像引用，但不合规。",
        f"引用必须是完整的值：{_REFERENCE_FORM}；若要传递文本本身，请写 "
        '{{"type": "literal", "value": ...}}。',
    ),
    "unknown_reference": _Words(
        "{reference} refers to a step that does not exist.", "Steps: {names}.",
        "{reference} 引用了不存在的步骤。", "已有步骤：{names}。",
    ),
    "undeclared_reference": _Words(
        "{reference} refers to step {name}, which this step does not depend on.", "Add {name} to depends_on.",
        "{reference} 引用了步骤 {name}，但没有声明依赖。", "请把 {name} 加入 depends_on。",
    ),
    "weak_reference": _Words(
        "{reference} is needed, but {name} is only a weak dependency, which may not be there.",
        "Move {name} to depends_on.",
        "{reference} 是必需的，但 {name} 只是弱依赖，可能没有结果。", "请把 {name} 移到 depends_on。",
    ),
    "unknown_output_path": _Words(
        "{reference} does not exist in the output of {tool}: {detail}.", "Refer to what the tool returns.",
        "{tool} 的输出中没有 {reference}：{detail}。", "请引用该工具实际返回的内容。",
    ),
    # Domain rules of a suite.
    "missing_description": _Words(
        "it has no description.", "Say in a few words what the step is for.",
        "没有 description。", "请简要说明该步骤的目的。",
    ),
    "missing_step": _Words(
        "no step uses {names}.{reason}", "Add such a step.",
        "没有使用 {names} 的步骤。{reason_zh}", "请添加这样的步骤。",
    ),
    "missing_check": _Words(
        "nothing in the plan checks {criterion}.", "Add a step with {names} for it.",
        "计划中没有检查 {criterion} 的步骤。", "请添加使用 {names} 的步骤。",
    ),
    "missing_edge": _Words(
        "{name} must come after {names}, and no such step comes before it.{reason}",
        "Depend on such a step; add one if there is none.",
        "{name} 必须在 {names} 之后，但之前没有这样的步骤。{reason_zh}", "请依赖这样的步骤；没有时请添加。",
    ),
    "late_step": _Words(
        "{name} must come after step {other}, and may run before it.{reason}",
        "Let it depend on {other}.",
        "{name} 必须在步骤 {other} 之后，但可能先于它执行。{reason_zh}", "请让它依赖 {other}。",
    ),
    "unordered": _Words(
        "{name} and step {other} change the same thing and may run at the same time.{reason}",
        "Let one depend on the other.",
        "{name} 与步骤 {other} 修改同一对象，却可能同时执行。{reason_zh}", "请让其中一个依赖另一个。",
    ),
    "missing_recovery": _Words(
        "{name} has an effect, and nothing says what happens when it fails: it has no undo and no on_error.",
        'Write "on_error": rollback, terminate or escalate.',
        "{name} 有副作用，却没有说明失败时如何处理：既无撤销工具，也无 on_error。",
        '请写 "on_error"：rollback、terminate 或 escalate。',
    ),
}  # fmt: skip

_RANKS = {code: rank for rank, code in enumerate(_WORDS)}
