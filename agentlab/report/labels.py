"""The words of the charts in English and Chinese: one table, one place.

Names of strategies, tasks and flows are data and stay as they are. Words of DESIGN (run, task, flow, pass rate)
are rendered by the same Chinese word everywhere.
"""

import re

from agentlab.errors import unknown_name

LANGUAGES = ("en", "zh")

TEXTS: dict[str, tuple[str, str]] = {
    # what every chart has
    "simulated": ("SIMULATED", "模拟数据 SIMULATED"),
    "no_data": ("no data", "暂无数据"),
    "nothing_to_show": ("No runs to show.", "没有可展示的运行。"),
    "unknown": ("(unknown)", "（未知）"),
    "tasks_by_repeats": ("{tasks} task{s} × {repeats} repeat{s2}", "{tasks} 个任务 × {repeats} 次重复"),
    "flows": ("{n} flow{s}", "{n} 条流程"),
    "model_of_kind": ("{model} ({kind})", "{model}（{kind}）"),
    "several_models": ("{n} models", "{n} 个模型"),
    "kind_unknown": ("kind of model not stated", "未注明模型类别"),
    "data_of": ("data {date}", "数据日期 {date}"),
    "date_unknown": ("data undated", "数据无日期"),
    "kind_real": ("real", "真实模型"),
    "kind_local": ("local", "本地模型"),
    "kind_simulated": ("simulated", "模拟模型"),
    "kind_scripted": ("scripted", "脚本"),
    "kind_replay": ("replay", "重放"),
    # forest
    "forest_title": ("Pass rate and difference to the baseline", "通过率及与基线的差异"),
    "forest_title_single": ("Pass rate", "通过率"),
    "forest_hint": (
        "Bars are 95 % intervals over flows. The difference panel is the evidence: overlapping bars are no test.",
        "横线为按流程计算的 95% 置信区间。判断依据是右侧的差异，左侧区间是否重叠不能代替检验。",
    ),
    "forest_hint_single": ("Bars are 95 % intervals over flows.", "横线为按流程计算的 95% 置信区间。"),
    "balanced_hint": (
        "Large marker: mean of healthy (△) and defective (▽) tasks.",
        "大标记为正常任务（△）与缺陷任务（▽）通过率的均值。",
    ),
    "axis_pass_rate": ("pass rate", "通过率"),
    "axis_difference": ("difference to {baseline}, percentage points", "与 {baseline} 的差异（百分点）"),
    "column_rate": ("pass rate [95 %]", "通过率 [95%]"),
    "column_passed": ("passed / runs", "通过 / 运行"),
    "column_units": ("tasks / flows", "任务 / 流程"),
    "column_difference": ("difference [95 %]", "差异 [95%]"),
    "of_planned": ("of {planned} planned", "计划 {planned} 次"),
    "baseline": ("baseline", "基线"),
    "margin_band": ("margin ±{margin} points", "界值 ±{margin} 个百分点"),
    "no_common_task": ("no common task", "没有共同任务"),
    "constant_answer": ("best constant answer {rate}", "固定回答最高 {rate}"),
    "forest_caption": (
        "{strategy}: pass rate {rate}, {passed} of {runs} runs",
        "{strategy}：通过率 {rate}，{runs} 次运行通过 {passed} 次",
    ),
    # tokens
    "tokens_title": ("Tokens per run by actor", "每次运行的 Token 消耗（按角色）"),
    "tokens_hint": (
        "Mean of evaluable runs whose usage is known completely; failed runs included.",
        "仅统计用量完整已知的有效运行（含失败的运行），取均值。",
    ),
    "axis_tokens": ("tokens per run", "每次运行的 Token 数"),
    "column_tokens": ("tokens / run", "Token / 运行"),
    "column_calls": ("calls / run", "调用 / 运行"),
    "column_cached": ("cached input", "缓存命中"),
    "column_runs": ("runs", "运行"),
    "usage_unknown": ("{unknown} of {runs} runs: usage unknown", "{runs} 次运行中 {unknown} 次用量未知"),
    "tokens_caption": ("{strategy}: {tokens} tokens per run", "{strategy}：每次运行 {tokens} Token"),
    # stability
    "stability_title": ("Repeats that pass, by task and strategy", "各任务、各策略的重复通过情况"),
    "stability_hint": (
        "Hardest tasks on top. Flip rate: share of pairs of repeats that disagree (0 = always the same).",
        "最难的任务在最上方。翻转率：同一任务两次重复结果不一致的比例（0 表示每次都一样）。",
    ),
    "stability_cut": (
        "{shown} of {tasks} tasks shown, the least stable ones.",
        "共 {tasks} 个任务，仅展示最不稳定的 {shown} 个。",
    ),
    "flip_rate": ("flip rate", "翻转率"),
    "flip_rate_all": ("flip rate, all tasks", "翻转率（全部）"),
    "share_passed": ("share of repeats that pass", "重复通过比例"),
    "stability_caption": ("{strategy}: flip rate {rate}", "{strategy}：翻转率 {rate}"),
    # failures and outcomes
    "failures_title": ("Why runs fail: first cause", "失败原因（首要原因）"),
    "failures_hint": ("Failed runs = 100 %; numbers are runs.", "以失败的运行为 100%，数字为运行次数。"),
    "axis_share": ("share of failed runs", "占失败运行的比例"),
    "failed_of": ("{failed} of {runs} failed", "{runs} 次中失败 {failed} 次"),
    "no_failures": ("no failed run", "没有失败的运行"),
    "other_classes": ("other ({n})", "其他（{n} 类）"),
    "failures_caption": ("{strategy}: {failed} of {runs} runs failed", "{strategy}：{runs} 次运行失败 {failed} 次"),
    "outcomes_title": ("What runs did about the defect", "运行对缺陷的判断结果"),
    "outcomes_hint": ("Started runs = 100 %; numbers are runs.", "以已开始的运行为 100%，数字为运行次数。"),
    "truth_failed": ("tasks with a defect", "有缺陷的任务"),
    "truth_passed": ("healthy tasks", "正常任务"),
    "truth_incomplete": ("tasks that cannot be completed", "无法完成检查的任务"),
    "truth_any": ("all tasks", "全部任务"),
    "runs_count": ("{n} run{s}", "{n} 次运行"),
    "outcomes_caption": ("{strategy}: {right} of {runs} runs right", "{strategy}：{runs} 次运行判断正确 {right} 次"),
    # plans
    "plan_run": ("run {run}", "运行 {run}"),
    "plan_title": ("The plan: what needs what", "计划：步骤与依赖"),
    "plan_title_number": ("Plan {number}: what needs what", "计划 {number}：步骤与依赖"),
    "plan_hint": (
        "Left to right by generation; dependencies that follow from others are left out.",
        "从左到右按层次排列，可由其他依赖推出的依赖不画。",
    ),
    "plan_strong": ("needs", "强依赖"),
    "plan_weak": ("uses if it is there (weak)", "弱依赖"),
    "plan_passed": ("check passed", "检查通过"),
    "plan_not_passed": ("check not passed", "检查未通过"),
    "plan_tries": ("number of tries", "尝试次数"),
    "plan_comma": (", ", "，"),
    "plan_count": ("{n} {status}", "{status} {n}"),
    "plan_caption": ("{n} step{s}: {counts}{checks}", "共 {n} 步：{counts}{checks}"),
    "plan_caption_checks": ("; checks not passed: {steps}", "；检查未通过：{steps}"),
    "plan_no_hints": ("Nothing to remark on how the plan is cut.", "计划的步骤划分没有需要提示的地方。"),
    "gantt_title": ("When the steps ran", "各步骤的执行时间"),
    "gantt_hint": (
        "One bar per try. Critical path: the chain of dependencies that took longest.",
        "每次尝试一条。关键路径：耗时最长的依赖链。",
    ),
    "gantt_axis_s": ("seconds since the first step started", "距首个步骤开始的秒数"),
    "gantt_axis_ms": ("milliseconds since the first step started", "距首个步骤开始的毫秒数"),
    "gantt_replaced": ("plan {number}", "计划 {number}"),
    "gantt_new_plan": ("new plan", "新计划"),
    "gantt_critical": ("critical path", "关键路径"),
    "gantt_retried": ("try that is repeated", "将重试的尝试"),
    "gantt_wait": ("wait before a retry", "重试前等待"),
    "gantt_undo_done": ("undone", "撤销完成"),
    "gantt_undo_failed": ("undo failed", "撤销失败"),
    "gantt_undo_started": ("undo not finished", "撤销未结束"),
    "gantt_because": ("{status}: {reason}", "{status}：{reason}"),
    "gantt_because_of": ("{status} because of {step}", "因 {step} {status}"),
    "gantt_never": ("no step ran", "没有步骤执行过"),
    "gantt_column_tries": ("tries", "次数"),
    "gantt_column_time": ("time", "耗时"),
    "gantt_caption": ("{n} step{s} ran in {time}; critical path {path}", "{n} 个步骤用时 {time}；关键路径 {path}"),
}

OUTCOME_WORDS: dict[str, tuple[str, str]] = {
    "found": ("found", "发现缺陷"),
    "clean": ("clean", "正确放行"),
    "incomplete_right": ("incomplete, rightly", "如实报告未完成"),
    "missed": ("missed", "漏报"),
    "masked": ("masked", "绕过缺陷"),
    "wrong_defect": ("wrong defect", "指错缺陷"),
    "false_alarm": ("false alarm", "误报"),
    "incomplete_wrong": ("should be incomplete", "应报未完成而未报"),
    "no_verdict": ("no verdict", "没有结论"),
    "excluded": ("excluded", "不计入"),
    "unknown": ("unknown", "未知"),
}

FAILURE_WORDS: dict[str, tuple[str, str]] = {
    "budget": ("budget", "预算用尽"),
    "loop_detected": ("loop detected", "陷入循环"),
    "malformed_reply": ("malformed reply", "回复格式错误"),
    "context_overflow": ("context overflow", "上下文超长"),
    "content_filtered": ("content filtered", "内容被过滤"),
    "invalid_plan": ("invalid plan", "计划无效"),
    "gave_up": ("gave up", "主动放弃"),
    "escalated": ("escalated", "转交人工"),
    "no_answer": ("no answer", "没有答案"),
    "inconsistent_answer": ("inconsistent answer", "答案自相矛盾"),
    "harmful_effect": ("harmful effect", "造成有害影响"),
    "acted_when_it_should_not": ("acted when it should not", "不该执行却执行"),
    "did_not_act": ("did not act", "该执行却未执行"),
    "wrong_verdict": ("wrong verdict", "结论错误"),
    "missed_check": ("missed check", "漏做检查"),
    "false_finish": ("false finish", "未完成却称完成"),
    "hallucinated_tool": ("hallucinated tool", "虚构工具"),
    "wrong_argument": ("wrong argument", "参数错误"),
    "repeated_call": ("repeated call", "重复调用"),
    "unknown": ("unknown", "未知"),
}

ACTOR_WORDS: dict[str, tuple[str, str]] = {
    "agent": ("agent", "智能体"),
    "planner": ("planner", "规划者"),
    "worker": ("worker", "执行者"),
    "navigator": ("navigator", "导航者"),
    "operator": ("operator", "操作者"),
    "validator": ("validator", "验证者"),
    "router": ("router", "路由"),
}


def check_language(language: str) -> str:
    """Return the language; raise a ConfigError for any other than zh and en."""
    if language not in LANGUAGES:
        raise unknown_name("language", language, LANGUAGES)
    return language


def text(key: str, language: str, **values: object) -> str:
    """Return a text of the charts in a language, its placeholders filled."""
    words = TEXTS[key][LANGUAGES.index(language)].format(**values)
    return tight(words) if language == "zh" else words


def tight(words: str) -> str:
    """Return Chinese text without the spaces that stand between two Chinese characters.

    Texts have spaces around their placeholders, which is right for names in Latin letters only.
    """
    return re.sub(r"(?<=[\u3000-\u9fff\uff00-\uffef]) (?=[\u3000-\u9fff\uff00-\uffef])", "", words)


def signed(share: float, digits: int = 1) -> str:
    """Return a difference in percentage points with its sign; a real minus, and no sign on zero."""
    words = f"{100 * share:+.{digits}f}"
    return words[1:] if float(words) == 0 else words.replace("-", "−")


def percent(share: float, language: str) -> str:
    """Return a share as a whole percentage, spaced as the language does."""
    return f"{100 * share:.0f}%" if language == "zh" else f"{100 * share:.0f} %"


def plural(count: int) -> str:
    """Return the English plural ending for a count."""
    return "" if count == 1 else "s"


def word(table: dict[str, tuple[str, str]], name: str, language: str) -> str:
    """Return the word of an outcome, a failure class or an actor; an unlisted name is shown as it is."""
    return table[name][LANGUAGES.index(language)] if name in table else name.replace("_", " ")
