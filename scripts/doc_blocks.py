"""The parts of the documents that follow from the code: `<!-- generated: NAME -->` ... `<!-- end of NAME -->`.

- `help`: what `--help` prints for every command
- `strategy-parameters`: the parameters of every strategy
- `experiment-fields`: every field of an experiment file
- `columns FRAME`: every column of the frame `runs`, `steps` or `calls`
- `plan-...`: what a plan may contain and what becomes of it (`doc_plans.py`)
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import doc_plans
import typer
from doc_commands import DocumentProblem
from doc_plans import docstrings
from pydantic import BaseModel

from agentlab.budget import Budget
from agentlab.cli.app import app
from agentlab.columns import FRAMES
from agentlab.runner.spec import Experiment, StrategyEntry
from agentlab.strategies.base import STRATEGIES, build_strategy

MARKED = re.compile(r"<!-- generated: (?P<name>[^>]+) -->\n(?P<body>.*?)<!-- end of (?P=name) -->", re.DOTALL)
WIDTH = 80

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "head": "| field | value | default | meaning |",
        "parameters_head": "| strategy | parameters and their defaults |",
        "needed": "needed",
        "none": "none",
        "text": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "`true`, `false`",
        "mapping": "mapping",
        "list": "list of {item}",
        "at_least_one": "list of {item}, at least one",
        "limits": "`auto`, or limits (below)",
        "strategy": "names or mappings (below)",
        "above": "above {limit}",
        "below": "below {limit}",
        "from": "from {limit}",
        "to": "to {limit}",
        "and": ", ",
    },
    "zh": {
        "head": "| 字段 | 取值 | 默认值 | 含义 |",
        "parameters_head": "| 策略 | 参数与默认值 |",
        "needed": "必填",
        "none": "无",
        "text": "文本",
        "integer": "整数",
        "number": "数值",
        "boolean": "`true`、`false`",
        "mapping": "映射",
        "list": "列表：{item}",
        "at_least_one": "列表（至少一项）：{item}",
        "limits": "`auto`，或各项上限（见下）",
        "strategy": "策略名或映射（见下）",
        "above": "大于 {limit}",
        "below": "小于 {limit}",
        "from": "不小于 {limit}",
        "to": "不大于 {limit}",
        "and": "，",
    },
}

MEANINGS_ZH = {
    "name": "也是 results/ 下结果目录的名字。",
    "question": "这次对比要回答的问题，显示在报告开头。",
    "suites": "已注册的套件名、目录（`./my_suite`）或可导入的模块（`my_package.suite`）。",
    "tasks": "要运行的任务 id；留空表示套件中的全部任务。",
    "strategies": "参与对比的策略；同一策略可以用不同参数出现多次。",
    "strategies[].name": "已注册的策略名。",
    "strategies[].label": "表格和图中的名字；留空则用策略名。",
    "strategies[].parameters": "策略的参数，例如 `max_rounds`。",
    "models": "写成 `provider:name`；不同模型的结果从不合并。",
    "languages": "任务说明与提示词的语言。",
    "repeats": "每个任务在每种策略、模型、语言下运行的次数。",
    "seed": "决定任务顺序和每次运行的种子；同一次运行的种子对各策略都相同。",
    "budget": "`auto`：按参考步骤为每个任务设定 total_tokens 与 work_s，并留有余量。",
    "budget.model_calls": "模型调用次数，无法解析的回复也计入。",
    "budget.tool_calls": "实际执行的工具调用次数。",
    "budget.total_tokens": "输入与输出 Token 之和。",
    "budget.cost_usd": "美元；模型必须有已知价格。",
    "budget.work_s": "模型与工具工作的秒数；排队、限流与重试等待不计入。",
    "concurrency": "同时进行的运行数。",
    "baseline": "作为比较基准的策略标签；留空则为第一个策略。",
    "margin": "有实际意义的最小通过率差异，在第一次运行之前声明。",
    "approvals": '对 `permission="ask"` 的工具如何答复。',
    "temperature": "每次模型调用的采样温度；为 0 时多次重复可能完全相同。",
    "max_output_tokens": "单次回复的长度上限。",
    "examples": "`one` 在提示词中加入一个完整示例。",
    "constrained": "在模型支持时，用 schema 约束回复格式。",
    "memory": "角色的记忆。",
    "observe": "向模型展示环境的哪些内容。",
    "max_cost_usd": "所有尝试的费用达到该值后，不再启动新的运行。",
    "max_tokens": "所有尝试的 Token 达到该值后，不再启动新的运行。",
    "requests_per_minute": "请求数的速率限制，所有模型和运行共用。",
    "tokens_per_minute": "Token 数的速率限制，所有模型和运行共用。",
    "environment": "环境的设置，例如 database_url。",
}
GRAINS = {
    "runs": 'One row per run (the attempt that counts), or per attempt with `attempts="all"`.',
    "steps": "One row per tool call.",
    "calls": "One row per model call.",
}


def with_generated(text: str, language: str) -> str:
    """Return the document with its generated blocks written anew.

    Raises:
        DocumentProblem: a block has a name that nothing makes, or a field has no meaning in this language.
    """

    def block(found: re.Match[str]) -> str:
        kind, _, argument = found["name"].partition(" ")
        if kind not in BLOCKS:
            raise DocumentProblem(f"nothing makes the block {found['name']!r}; there are {', '.join(BLOCKS)}")
        return (
            f"<!-- generated: {found['name']} -->\n{BLOCKS[kind](argument, language)}\n<!-- end of {found['name']} -->"
        )

    return MARKED.sub(block, text)


def help_texts(_: str, __: str) -> str:
    """Return what each command's `--help` prints, one block a command; the command line speaks English."""
    command: Any = typer.main.get_command(app)
    return "\n\n".join(_helps(command, command.context_class(command, info_name="agentlab", terminal_width=WIDTH)))


def experiment_fields(_: str, language: str) -> str:
    """Return the table of an experiment file's fields, those of its strategies and its budget after their own row."""
    words = WORDS[language]
    rows = [words["head"], "| --- | --- | --- | --- |"]
    for name, value, default, meaning in _fields(Experiment, "", words):
        shown = MEANINGS_ZH.get(name) if language == "zh" else meaning
        if not shown:
            raise DocumentProblem(f"the field {name} of an experiment is not explained ({language})")
        rows.append(f"| `{name}` | {value} | {default} | {shown} |")
    return "\n".join(rows)


def strategy_parameters(_: str, language: str) -> str:
    """Return the table of the strategies' parameters."""
    rows = [WORDS[language]["parameters_head"], "| --- | --- |"]
    for name in STRATEGIES:
        parameters = inspect.signature(type(build_strategy(name))).parameters.values()
        shown = (f"`{parameter.name}: {json.dumps(parameter.default)}`" for parameter in parameters)
        rows.append(f"| `{name}` | {', '.join(shown)} |")
    return "\n".join(rows)


def columns(frame: str, _: str) -> str:
    """Return the table of a frame's columns."""
    rows = [GRAINS[frame], "", "| column | dtype | meaning |", "| --- | --- | --- |"]
    for column in FRAMES[frame]:
        levels = f" Levels: {', '.join(column.levels)}." if column.levels else ""
        rows.append(f"| `{column.name}` | {column.dtype} | {column.meaning}{levels} |")
    return "\n".join(rows)


BLOCKS: dict[str, Callable[[str, str], str]] = {
    "help": help_texts,
    "strategy-parameters": strategy_parameters,
    "experiment-fields": experiment_fields,
    "columns": columns,
    **doc_plans.BLOCKS,
}


def _helps(command: Any, context: Any) -> Iterator[str]:
    """The help of a command, or of all commands of a group."""
    for word, inner in getattr(command, "commands", {}).items():
        yield from _helps(inner, inner.context_class(inner, info_name=word, parent=context))
    if not hasattr(command, "commands"):
        lines = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        yield f"```text\n{lines}\n```"


def _fields(owner: type[BaseModel], prefix: str, words: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Name, value, default and meaning of each field."""
    schema = owner.model_json_schema()
    meanings = docstrings(owner)
    for name, field in schema["properties"].items():
        default = words["needed"] if name in schema.get("required", ()) else _default_words(field, words)
        yield prefix + name, _value_words(field, words), default, meanings.get(name, "")
        if owner is Experiment and name == "strategies":
            yield from _fields(StrategyEntry, "strategies[].", words)
        if owner is Experiment and name == "budget":
            yield from _fields(Budget, "budget.", words)


def _default_words(field: dict[str, Any], words: dict[str, str]) -> str:
    default = field.get("default")
    return words["none"] if default in (None, "", []) else f"`{json.dumps(default, ensure_ascii=False).strip(chr(34))}`"


def _value_words(field: dict[str, Any], words: dict[str, str]) -> str:
    choices = [choice for choice in field.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 2:
        return words["limits"]
    if choices:
        return _value_words(choices[0], words)
    if "$ref" in field:
        return words["strategy"]
    if allowed := field.get("enum") or ([field["const"]] if "const" in field else []):
        return ", ".join(f"`{value}`" for value in allowed)
    if field["type"] == "array":
        form = "at_least_one" if field.get("minItems") else "list"
        return words[form].format(item=_value_words(field["items"], words))
    if field["type"] in ("integer", "number"):
        return words["and"].join([words[field["type"]], *_limits(field, words)])
    return words[{"string": "text", "object": "mapping", "boolean": "boolean"}[field["type"]]]


def _limits(field: dict[str, Any], words: dict[str, str]) -> list[str]:
    names = {"exclusiveMinimum": "above", "minimum": "from", "exclusiveMaximum": "below", "maximum": "to"}
    return [words[word].format(limit=field[name]) for name, word in names.items() if name in field]
