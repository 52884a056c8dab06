"""The generated parts of the documents about plans: fields, spellings, statuses, failure policies.

- `plan-fields`: every field of a step
- `plan-aliases`: the other spellings of its fields that are read
- `plan-statuses`: every status of a step and of a plan
- `policy-fields`: every field of a failure policy, of its rules, conditions and backoff
- `policies`: the named policies as YAML
"""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import yaml
from doc_commands import DocumentProblem
from pydantic import BaseModel

from agentlab.planning.fields import ALIASES
from agentlab.planning.plan import KINDS, ON_ERROR, ON_NOT_PASSED, PRIORITIES, PlanStep
from agentlab.planning.policy import POLICIES, Backoff, FailurePolicy, Rule, When
from agentlab.planning.statuses import OPEN, PLAN_STATUSES, STATUS_WORDS, STEP_STATUSES

HEADS = {
    "fields": {"en": ("field", "value", "meaning"), "zh": ("字段", "取值", "含义")},
    "aliases": {"en": ("field", "also read"), "zh": ("字段", "也可写作")},
    "step": {"en": ("status of a step", "final", "meaning"), "zh": ("步骤状态", "终态", "含义")},
    "plan": {"en": ("status of a plan", "meaning"), "zh": ("计划状态", "含义")},
    "policies": {"en": ("policy", "meaning"), "zh": ("策略表", "含义")},
}
YES = {"en": ("yes", "no"), "zh": ("是", "否")}

VALUES: Mapping[str, tuple[str, str]] = {
    "text": ("text", "文本"),
    "id": ("text, unique", "文本，不可重复"),
    "ids": ("list of ids", "步骤编号的列表"),
    "object": ("object", "对象"),
    "list": ("reference or list", "引用或列表"),
    "retries": ("0 to 10", "0 到 10"),
    "truth": ("`true`, `false`", "`true`、`false`"),
    "back_to": ("id, or `layer:<name>`", "步骤编号，或 `layer:<层名>`"),
}
STEP_VALUES: Mapping[str, str | tuple[str, ...]] = {
    "id": "id", "description": "text", "kind": KINDS, "tool": "text", "arguments": "object", "depends_on": "ids",
    "weak_depends_on": "ids", "only_if_passed": "ids", "only_if_not_passed": "ids", "over": "list", "output": "text",
    "priority": PRIORITIES, "worker_type": "text", "layer": "text", "on_error": ON_ERROR, "max_retries": "retries",
    "on_not_passed": ON_NOT_PASSED, "back_to": "back_to", "restart": "truth", "is_critical": "truth",
}  # fmt: skip
FIELDS_ZH = {
    "id": "步骤编号，其他步骤用它来引用本步骤。",
    "description": "这一步的目的；对 goal 步骤，执行者只能看到这段说明。",
    "kind": "步骤类型（见下）。写了 `over` 时默认为 `map`，否则为 `tool`。",
    "tool": "tool 或 map 步骤调用的工具。",
    "arguments": "工具参数：具体的值，或对其他步骤输出的引用。",
    "depends_on": "强依赖：这些步骤全部完成后，本步骤才能开始。",
    "weak_depends_on": "弱依赖：输出已经有了就用，没有也不等待。",
    "only_if_passed": "这些步骤的检查全部通过时才执行，否则本步骤无需执行；同时也是强依赖。",
    "only_if_not_passed": "这些步骤中有检查未通过时才执行，否则本步骤无需执行；同时也是强依赖。",
    "over": "map 步骤要逐项处理的列表，可以是引用，也可以直接写出列表。",
    "output": "步骤输出的别名，引用时可以代替编号。",
    "priority": "多个步骤同时就绪时先执行优先级高的；失败策略也可以按优先级区分。",
    "worker_type": "必须由哪类执行者完成；不写则不限。",
    "layer": "分层计划中所属的层，用于按层恢复。",
    "on_error": "步骤失败后计划希望怎么办；不写则由失败策略决定。",
    "max_retries": "首次执行之外最多再试几次；不写则由失败策略决定。",
    "on_not_passed": (
        "检查未通过（这是结果，不是失败）后计划希望怎么办；不写则由失败策略决定，失败策略也没有规定时，计划继续。"
    ),
    "back_to": "用于回滚：从之前的哪个步骤或哪一层起全部撤销；不写则撤销本步骤所依赖的各项副作用。",
    "restart": "用于回滚：为 true 时，撤销后把这部分重新执行一次。",
    "is_critical": "为 true 表示缺了这一步就达不到目标；不写表示计划没有说明。",
}
FIELDS_EN = {
    "id": "How other steps refer to it.",
    "arguments": "Values, or references to the output of other steps.",
    "kind": "What the step does (below). Without it: `map` where `over` is given, else `tool`.",
    "priority": "Of several ready steps the one of higher priority starts first; policies can tell them apart by it.",
}
"""Only of fields whose text in the code is written for programmers, or which need none there."""

STEP_MEANINGS: Mapping[str, tuple[str, str]] = {
    "pending": ("has not started", "尚未开始"),
    "awaiting_approval": ("waits until a person approves its call", "等待人工批准这次调用"),
    "running": ("its call, or its worker, is at work", "正在执行"),
    "retry_wait": ("a try failed; the next one follows after a wait", "一次尝试失败，等待后重试"),
    "interrupted": (
        "was running when the program stopped; whether it took effect is not known yet",
        "程序中断时正在执行，是否已生效尚不清楚",
    ),
    "completed": (
        "did its work; a check that did not pass has completed too",
        "已执行完；检查未通过也属于完成",
    ),
    "failed": ("could not do its work, time-outs included", "未能执行成功，包括超时"),
    "blocked": ("never ran: a step that it needs did not succeed", "没有执行：所需的步骤没有成功"),
    "skipped": (
        "left out by decision: of the policy, of the gate, because the plan was stopped, or because its condition was "
        "not met (then reports say *not needed*)",
        "经决定不执行：失败策略跳过、被门禁拦下、计划已终止，或条件不满足（报告中写作“无需执行”）",
    ),
    "cancelled": ("a person or the caller ended the plan", "计划被人或调用方取消"),
    "rolled_back": ("had completed, and its effect was undone", "曾经完成，副作用已撤销"),
    "rollback_failed": (
        "its effect could not be undone; somebody has to look",
        "副作用没能撤销，需要人工处理",
    ),
}
PLAN_MEANINGS: Mapping[str, tuple[str, str]] = {
    "planning": ("the planner is asked", "正在请规划者给出计划"),
    "validating": ("the plan is being checked", "正在检查计划"),
    "replanning": ("a new plan replaces what is left", "正在为剩余工作重新规划"),
    "awaiting_approval": ("nothing goes on before a person has decided", "等待人工批准，暂无步骤可执行"),
    "executing": ("steps run, or could start", "有步骤在执行，或可以开始"),
    "interrupted": ("what was running when the program stopped is not settled", "程序中断时执行中的步骤尚未查清"),
    "completed": (
        "every step completed or was skipped by decision, and at least one completed",
        "所有步骤均已完成或经决定跳过，且至少完成一步",
    ),
    "partial": (
        "some steps completed; others failed, were blocked or were undone",
        "部分步骤完成，另一些失败、被阻塞或已撤销",
    ),
    "failed": ("no step stands, or the plan was stopped", "没有任何步骤的成果保留下来，或计划被终止"),
    "cancelled": ("a person or the caller ended it", "被人或调用方取消"),
}

POLICY_PARTS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", FailurePolicy), ("rules[].", Rule), ("rules[].when.", When), ("rules[].backoff.", Backoff),
)  # fmt: skip
POLICY_EN = {
    "name": "Shown with the decisions.",
    "rules": "Asked in this order; the first that applies decides.",
    "rules[].name": "Unique in the table; stands in the trace with every decision.",
    "rules[].on_error": "What to do.",
    "rules[].when": "Which failures it is for; without it, all.",
    "rules[].backoff": "Of a retry: how long to wait.",
    "rules[].when.tools": "Names of tools.",
    "rules[].when.worker_types": "Kinds of workers.",
    "rules[].when.layers": "Layers of the plan.",
    "rules[].when.priorities": "`high`, `medium`, `low`.",
    "rules[].when.error_kinds": "`error_kind` of the tool's result, for example `timed_out`.",
    "rules[].when.transient": "Whether the same step may succeed if it is tried again.",
    "rules[].backoff.base_s": "Seconds before the first retry; doubled with every further one.",
    "rules[].backoff.cap_s": "Most seconds.",
}
POLICY_ZH = {
    "name": "随每个决定一起显示的名字。",
    "rules": "按顺序逐条匹配，第一条适用的规则生效。",
    "plan_decides": "计划中的 `on_error`、`max_retries`、`on_not_passed` 是否优先于规则。",
    "retry": "计划要求重试时如何重试。",
    "rules[].name": "在表内不可重复；每个决定都会记下它。",
    "rules[].on_error": "怎么办。",
    "rules[].when": "适用于哪些失败；不写则全部适用。",
    "rules[].attempts": "用于重试：总次数，含首次执行和会话层自身的重复。",
    "rules[].only_transient": "用于重试：只重试可能自行恢复的失败。不能安全重复的步骤从不重试。",
    "rules[].backoff": "用于重试：等待多久。",
    "rules[].limit": "一次运行中最多生效几次，用完后匹配下一条；不写则不限。",
    "rules[].back_to": (
        "用于回滚：从之前的哪个步骤或 `layer:<层名>` 起全部撤销；找不到这样的步骤时，规则不适用。"
        "不写则撤销失败步骤所依赖的副作用，以及在其上完成的步骤。"
    ),
    "rules[].restart": "用于回滚：撤销后重新执行这部分。",
    "rules[].when.steps": "步骤编号。",
    "rules[].when.tools": "工具名。",
    "rules[].when.worker_types": "执行者类型。",
    "rules[].when.layers": "计划的层。",
    "rules[].when.priorities": "`high`、`medium`、`low`。",
    "rules[].when.critical": "步骤本身标为关键（`is_critical`）。",
    "rules[].when.on_critical_path": "步骤本身，或直接、间接强依赖它的某个步骤，是关键步骤或高优先级。",
    "rules[].when.error_kinds": "工具结果的 `error_kind`，例如 `timed_out`。",
    "rules[].when.transient": "再试一次是否可能成功。",
    "rules[].when.not_passed": (
        "为 true：规则针对执行完但检查未通过的步骤。未写此项的规则只针对失败，因为检查未通过是结果。"
    ),
    "rules[].backoff.base_s": "首次重试前等待的秒数，之后每次翻倍。",
    "rules[].backoff.cap_s": "等待秒数的上限。",
    "rules[].backoff.jitter": "最多随机减去等待时间的多大比例，避免同时失败的步骤又同时重试。",
}
POLICIES_MEANINGS: Mapping[str, tuple[str, str]] = {
    "block": ("nothing is retried; a failure blocks what needs it", "不重试；失败会阻塞依赖它的步骤"),
    "default": (
        "transient failures are tried three times in all, then as `block`",
        "可恢复的失败最多共试三次，之后同 `block`",
    ),
    "rollback_high": (
        "four tries; then low priority is skipped, high priority rolled back, anything else ends the plan",
        "最多共试四次；之后低优先级跳过，高优先级回滚，其余终止计划",
    ),
    "skip_off_path": (
        "four tries; then low priority is skipped, and medium priority where no important step needs it; anything "
        "else ends the plan",
        "最多共试四次；之后跳过低优先级，以及没有重要步骤依赖的中优先级；其余终止计划",
    ),
    "rollback_critical": (
        "three tries; then a critical step is rolled back, any other skipped",
        "最多共试三次；之后关键步骤回滚，其余跳过",
    ),
}  # fmt: skip


def docstrings(owner: type) -> dict[str, str]:
    """Return the text under each field of a class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def plan_fields(_: str, language: str) -> str:
    """Return the table of a step's fields."""
    meanings = FIELDS_ZH if language == "zh" else {**docstrings(PlanStep), **FIELDS_EN}
    rows = []
    for field in dataclasses.fields(PlanStep):
        value = _meaning(STEP_VALUES, field.name)
        shown = _codes(value) if isinstance(value, tuple) else _in(VALUES[value], language)
        rows.append((f"`{field.name}`", shown, _marked(_meaning(meanings, field.name))))
    return _table("fields", language, rows)


def plan_aliases(_: str, language: str) -> str:
    """Return the table of the other spellings of a step's fields."""
    fields = [field.name for field in dataclasses.fields(PlanStep) if field.name in ALIASES.values()]
    spellings = {name: tuple(word for word, meant in ALIASES.items() if meant == name) for name in fields}
    return _table("aliases", language, [(f"`{name}`", _codes(words)) for name, words in spellings.items()])


def plan_statuses(_: str, language: str) -> str:
    """Return the tables of the statuses of steps and of plans."""
    steps = [
        (
            f"`{name}`" + (f" {STATUS_WORDS[name][1]}" if language == "zh" else ""),
            YES[language][name in OPEN],
            _in(_meaning(STEP_MEANINGS, name), language),
        )
        for name in STEP_STATUSES
    ]
    plans = [(f"`{name}`", _in(_meaning(PLAN_MEANINGS, name), language)) for name in PLAN_STATUSES]
    return _table("step", language, steps) + "\n\n" + _table("plan", language, plans)


def policy_fields(_: str, language: str) -> str:
    """Return the table of a failure policy's fields, those of its parts after their own."""
    rows = []
    for prefix, owner in POLICY_PARTS:
        texts = {prefix + name: text for name, text in docstrings(owner).items()}
        meanings = POLICY_ZH if language == "zh" else {**texts, **POLICY_EN}
        for name, field in owner.model_fields.items():
            meaning = _marked(_meaning(meanings, prefix + name))
            rows.append((f"`{prefix}{name}`", _default(field, language), meaning))
    head = ("field", "default", "meaning") if language == "en" else ("字段", "默认值", "含义")
    return _lines(head, rows)


def policies(_: str, language: str) -> str:
    """Return the table of the named policies, and what they are as data."""
    rows = [(f"`{name}`", _in(_meaning(POLICIES_MEANINGS, name), language)) for name in POLICIES]
    data = [policy.model_dump(mode="json", exclude_defaults=True) for policy in POLICIES.values()]
    written = yaml.safe_dump(data, sort_keys=False, width=110, default_flow_style=None)
    return f"{_table('policies', language, rows)}\n\n```yaml\n{written}```"


BLOCKS: dict[str, Callable[[str, str], str]] = {
    "plan-fields": plan_fields,
    "plan-aliases": plan_aliases,
    "plan-statuses": plan_statuses,
    "policy-fields": policy_fields,
    "policies": policies,
}


def _meaning(meanings: Mapping[str, Any], name: str) -> Any:
    if name not in meanings:
        raise DocumentProblem(f"{name} of a plan is not explained; scripts/doc_plans.py has the words")
    return meanings[name]


def _marked(text: str) -> str:
    """The text of a docstring in words for people who write JSON or YAML."""
    words = {r"(?<=\. )None\b": "No value", r"\bNone\b": "no value", r"`Reference`": "reference", r"\bTrue\b": "`true`"}
    for written, shown in words.items():
        text = re.sub(written, shown, text)
    return text


def _default(field: Any, language: str) -> str:
    if field.is_required():
        return "needed" if language == "en" else "必填"
    default = field.default
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if default is None or isinstance(default, tuple | BaseModel):
        return "" if not isinstance(default, Rule) else f"`attempts: {default.attempts}`"
    return f"`{default}`"


def _codes(values: tuple[str, ...]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _in(words: tuple[str, str], language: str) -> str:
    return words[1] if language == "zh" else words[0]


def _table(kind: str, language: str, rows: list[tuple[str, ...]]) -> str:
    return _lines(HEADS[kind][language], rows)


def _lines(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
