"""The words of the team report in Chinese and English."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PageTexts:
    """Every text of the report page in one language."""

    title: str
    model: str
    banner: Mapping[str, str]
    """First line of the report, by kind of model; real models have none."""
    rates: str
    rates_note: str
    denominator: str
    columns: Mapping[str, str]
    """Column of the rate table -> its head."""
    references: Mapping[str, str]
    """Constant answers -> their name."""
    answer_by: Mapping[str, str]
    charts: Mapping[str, str]
    """Chart function -> its heading, a question."""
    examples: str
    examples_note: str
    example_head: tuple[str, ...]
    no_failures: str
    judged: str
    rules: tuple[str, ...]
    provenance: str
    definition: str
    at_least: str
    missing: str


TEXTS: dict[str, PageTexts] = {
    "en": PageTexts(
        title="Strategy comparison: {name}",
        model="Model",
        banner={
            "simulated": "SIMULATED: the ranking follows from the assumptions of the simulated model, not from any "
            "real one. Tokens are estimates.",
            "local": "Protocol check: a small local model shows that the pipeline works, not which strategy is better.",
            "scripted": "SCRIPTED: the replies were written beforehand; nothing here is evidence about a model.",
            "replay": "REPLAY: recorded replies were played again; no model was asked.",
        },
        rates="Rates",
        rates_note="Pass rate = share of runs in which the agent is right and was entitled to say so, averaged over "
        "repeats, then tasks, then flows; the headline is the mean of healthy tasks and defect twins. A check that "
        "finds a defect has succeeded. Rows in italics are constant answers that look at nothing.",
        denominator="Quality rates leave out runs that infrastructure trouble made unjudgeable; the strict rate counts "
        "every planned run, missing ones as 0. Tokens and cost per correct verdict include those of wrong runs.",
        columns={
            "strategy": "strategy",
            "pass_rate": "pass rate",
            "interval": "95 % interval",
            "healthy_rate": "healthy",
            "defective_rate": "defective",
            "defect_recall": "defect recall",
            "false_alarm_rate": "false alarms",
            "flip_rate": "flip rate",
            "strict_rate": "strict",
            "runs": "judged / planned",
            "excluded": "excluded",
            "budget_bound_share": "budget bound",
            "tokens_per_run": "tokens / run",
            "tokens_per_correct": "tokens / correct",
            "cost_per_correct_usd": "$ / correct",
            "answer_by": "answer by",
        },
        references={
            "always_passed": "always passed",
            "always_failed": "always failed",
            "always_incomplete": "always incomplete",
        },
        answer_by={"model": "model", "python": "Python", "delegate": "delegate"},
        charts={
            "forest": "Who is better, and how sure are we?",
            "tokens_by_actor": "Where do the tokens go?",
            "stability_heatmap": "Is it stable?",
            "failure_classes": "Why do runs fail?",
            "outcomes": "What did runs do about the defect?",
        },
        examples="Failures to look at",
        examples_note="One run for each strategy and cause; `agentlab trace FOLDER RUN` shows every prompt, call and "
        "result.",
        example_head=("strategy", "cause", "task", "outcome", "end reason", "run"),
        no_failures="Every run that could be judged was right.",
        judged="How runs are judged",
        rules=(
            "Three axes stay apart: did the tools run, is the product right, is the agent right.",
            "A run is right when every criterion is claimed with its true status, every claim rests on evidence in "
            "the trace, and the required end state holds.",
            "The verdict is derived by Python from the claimed statuses; a query is not a check.",
            "Infrastructure trouble is nobody's failure: such runs are excluded from rates, counted, and run again.",
            "The unit of analysis is the flow; runs are paired over strategies by task, repeat and seed.",
            "This report is written by Python from the stored records.",
        ),
        provenance="Provenance",
        definition="Declared experiment",
        at_least="at least",
        missing="-",
    ),
    "zh": PageTexts(
        title="策略对比：{name}",
        model="模型",
        banner={
            "simulated": "模拟数据 SIMULATED：排名由模拟模型的假设决定，与任何真实模型无关。Token 数为估计值。",
            "local": "流程验证：小型本地模型只能说明整条流程可以运行，不能说明哪种策略更好。",
            "scripted": "脚本数据 SCRIPTED：回复是事先写好的，不能作为任何模型的证据。",
            "replay": "重放数据 REPLAY：播放的是录制的回复，没有调用模型。",
        },
        rates="各项比率",
        rates_note="通过率指智能体判断正确、并且有依据作出判断的运行所占的比例，先在重复之间平均，再在任务之间、"
        "流程之间平均；主指标是正常任务与缺陷任务两部分的均值。检查发现缺陷也算检查成功。"
        "斜体行是什么都不看、永远给出同一结论的基准。",
        denominator="质量类比率不计入因基础设施故障而无法判定的运行；严格通过率按全部计划运行计算，缺失记为 0。"
        "每个正确结论的 Token 数与费用包含判断错误的运行。",
        columns={
            "strategy": "策略",
            "pass_rate": "通过率",
            "interval": "95% 置信区间",
            "healthy_rate": "正常任务",
            "defective_rate": "缺陷任务",
            "defect_recall": "缺陷检出率",
            "false_alarm_rate": "误报率",
            "flip_rate": "翻转率",
            "strict_rate": "严格通过率",
            "runs": "已判定 / 计划",
            "excluded": "排除",
            "budget_bound_share": "预算耗尽",
            "tokens_per_run": "Token / 运行",
            "tokens_per_correct": "Token / 正确结论",
            "cost_per_correct_usd": "美元 / 正确结论",
            "answer_by": "答案来源",
        },
        references={"always_passed": "永远通过", "always_failed": "永远不通过", "always_incomplete": "永远不完整"},
        answer_by={"model": "模型", "python": "Python", "delegate": "被委派的策略"},
        charts={
            "forest": "哪种策略更好，把握有多大？",
            "tokens_by_actor": "Token 用在了哪里？",
            "stability_heatmap": "结果稳定吗？",
            "failure_classes": "运行为什么失败？",
            "outcomes": "运行对缺陷作出了什么判断？",
        },
        examples="值得查看的失败",
        examples_note="每种策略、每种原因各列一个运行；用 agentlab trace 目录 运行 可以查看全部提示、调用与结果。",
        example_head=("策略", "原因", "任务", "结果", "结束原因", "运行"),
        no_failures="所有可判定的运行都正确。",
        judged="运行如何判定",
        rules=(
            "三个维度分开：工具是否执行成功，产品是否正确，智能体是否正确。",
            "只有每个检查项的状态都与事实一致、每个说法在执行记录中都有依据、并且要求的最终状态成立，运行才算正确。",
            "结论由 Python 根据各检查项的状态推导；查询不算检查。",
            "基础设施故障不是任何一方的失败：这类运行不计入比率，但会计数，并会重新运行。",
            "分析单位是流程；各策略的运行按任务、重复序号与随机种子配对。",
            "本报告由 Python 根据存储的记录生成。",
        ),
        provenance="数据来源",
        definition="实验声明",
        at_least="至少",
        missing="-",
    ),
}
