"""The sentences of a decision in English and Chinese.

Sentences about real models advise; the same facts about simulated models are only described.
"""

from agentlab.report.labels import LANGUAGES, tight

SIMULATED_PREFIX = "SIMULATED - not evidence about any model:"

SENTENCES: dict[str, tuple[str, str]] = {
    "better": (
        "Use {strategy} rather than {baseline}: its pass rate is {size} points higher (95 % interval {low} to {high}; "
        "{design}), more than the margin of {margin} points{tokens}.",
        "建议用 {strategy} 取代 {baseline}：通过率高 {size} 个百分点（95% 置信区间 {low} 至 {high}；{design}），"
        "超过事先约定的 {margin} 个百分点{tokens}。",
    ),
    "better_size_uncertain": (
        "{strategy} is better than {baseline}, size uncertain: its pass rate is {size} points higher (95 % interval "
        "{low} to {high}; {design}), and a gain below the margin of {margin} points is not ruled out{tokens}. Use it "
        "where that price is acceptable, or add flows.",
        "{strategy} 优于 {baseline}，但幅度尚不确定：通过率高 {size} 个百分点（95% 置信区间 {low} 至 {high}；"
        "{design}），不能排除提升不足 {margin} 个百分点的可能{tokens}。若代价可以接受，可以采用；否则请先增加流程。",
    ),
    "worse": (
        "Keep {baseline}: the pass rate of {strategy} is {size} points lower (95 % interval {low} to {high}; "
        "{design}){tokens}.",
        "建议继续用 {baseline}：{strategy} 的通过率低 {size} 个百分点（95% 置信区间 {low} 至 {high}；{design}）"
        "{tokens}。",
    ),
    "equivalent": (
        "{strategy} and {baseline} are equivalent within the margin of {margin} points (difference {difference}, 90 % "
        "interval {low90} to {high90}; {design}): use the cheaper one{cheaper}.",
        "{strategy} 与 {baseline} 的通过率相当，差异在 {margin} 个百分点的界值以内（差异 {difference}，90% 置信区间 "
        "{low90} 至 {high90}；{design}）：建议选成本更低的一个{cheaper}。",
    ),
    "not_distinguishable": (
        "{strategy} and {baseline} are not distinguishable: difference {difference} points (95 % interval {low} to "
        "{high}; {design}), margin {margin} points. {plan}",
        "现有数据无法区分 {strategy} 与 {baseline}：差异 {difference} 个百分点（95% 置信区间 {low} 至 {high}；"
        "{design}），界值为 {margin} 个百分点。{plan}",
    ),
    "too_few_flows": (
        "Too few flows for a decision: {n} of at least {least} have runs of both {strategy} and {baseline}. So far "
        "{strategy} passes {passed} runs, {baseline} {baseline_passed}.",
        "流程太少，无法作出结论：同时有 {strategy} 和 {baseline} 运行结果的流程只有 {n} 条，至少需要 {least} 条。"
        "目前 {strategy} 通过 {passed} 次，{baseline} 通过 {baseline_passed} 次。",
    ),
    "refused": (
        "No headline: {n} {runs_word} ended with an error of agentlab itself (end_reason error; {where}). Repair it "
        "and resume the experiment first.",
        "暂不给出结论：有 {n} 次运行因 agentlab 自身的错误终止（end_reason 为 error；{where}）。请先修复，再续跑实验。",
    ),
    "protocol_check": (
        "Protocol check only ({kind}, {model}): {evaluable} of {planned} planned runs have a result. The figures show "
        "that the pipeline works, not how the strategies do with another model; no decision is drawn from them.",
        "仅为流程验证（{kind}，{model}）：计划 {planned} 次运行，{evaluable} 次有结果。这些数字只说明整条链路可以跑通，"
        "不代表各策略在其他模型上的表现，不作为决策依据。",
    ),
    "nothing_to_compare": (
        "Nothing to compare: the runs belong to {n} {strategies_word}{name}.",
        "没有可比较的对象：这些运行只涉及 {n} 个策略{name}。",
    ),
}

DESCRIPTIONS: dict[str, tuple[str, str]] = {
    "better": (
        "the pass rate of {strategy} is {size} points higher than that of {baseline} (95 % interval {low} to {high}; "
        "{design}), more than the margin of {margin} points{tokens}.",
        "在模拟数据中，{strategy} 的通过率比 {baseline} 高 {size} 个百分点（95% 置信区间 {low} 至 {high}；{design}），"
        "超过 {margin} 个百分点的界值{tokens}。",
    ),
    "better_size_uncertain": (
        "{strategy} is better than {baseline}, size uncertain: its pass rate is {size} points higher (95 % interval "
        "{low} to {high}; {design}), and a gain below the margin of {margin} points is not ruled out{tokens}.",
        "在模拟数据中，{strategy} 优于 {baseline}，但幅度尚不确定：通过率高 {size} 个百分点（95% 置信区间 {low} 至 "
        "{high}；{design}），不能排除提升不足 {margin} 个百分点的可能{tokens}。",
    ),
    "worse": (
        "the pass rate of {strategy} is {size} points lower than that of {baseline} (95 % interval {low} to {high}; "
        "{design}){tokens}.",
        "在模拟数据中，{strategy} 的通过率比 {baseline} 低 {size} 个百分点（95% 置信区间 {low} 至 {high}；{design}）"
        "{tokens}。",
    ),
    "equivalent": (
        "{strategy} and {baseline} are equivalent within the margin of {margin} points (difference {difference}, 90 % "
        "interval {low90} to {high90}; {design}).",
        "在模拟数据中，{strategy} 与 {baseline} 的通过率相当，差异在 {margin} 个百分点的界值以内（差异 {difference}，"
        "90% 置信区间 {low90} 至 {high90}；{design}）。",
    ),
}

PARTS: dict[str, tuple[str, str]] = {
    "design": (
        "{flows} flow{s_flows}, {tasks} task{s_tasks} × {repeats} repeat{s_repeats}",
        "{flows} 条流程，{tasks} 个任务 × {repeats} 次重复",
    ),
    "passed_of": ("{passed} of {runs}", "{passed}/{runs}"),
    "tokens": (", at {ratio} times the tokens", "，Token 消耗为 {baseline} 的 {ratio} 倍"),
    "cheaper": (
        ", {cheap} ({other} takes {ratio} times the tokens)",
        "，即 {cheap}（{other} 的 Token 消耗为其 {ratio} 倍）",
    ),
    "plan_flows": (
        "About {n} flows like these with {repeats} repeat{s_repeats} would detect the margin (80 % power).",
        "若要以 80% 的把握检出界值大小的差异，大约需要 {n} 条同类流程、每个任务重复 {repeats} 次。",
    ),
    "plan_width": (
        "The design is large enough to detect the margin; twice as many flows would narrow the interval to about "
        "±{width} points.",
        "现有规模已足以检出界值大小的差异；流程数加倍后，区间可收窄到约 ±{width} 个百分点。",
    ),
    "plan_alike": (
        "All flows agree so far: {n} flows without any difference would show equivalence.",
        "目前所有流程的结果都一致：若 {n} 条流程均无差异，即可认为两者相当。",
    ),
    "strategies_one": ("strategy", ""),
    "strategies_many": ("strategies", ""),
    "runs_one": ("run", ""),
    "runs_many": ("runs", ""),
    "name": (" ({name})", "（{name}）"),
}

NOTES: dict[str, tuple[str, str]] = {
    "rate": (
        "{strategy}: pass rate {rate}{interval}, {passed} of {runs} runs{strata}{recall}{tokens}{answer_by}.",
        "{strategy}：通过率 {rate}{interval}，{runs} 次运行通过 {passed} 次{strata}{recall}{tokens}{answer_by}。",
    ),
    "no_rate": (
        "{strategy}: no data ({planned} planned runs without a result).",
        "{strategy}：暂无数据（计划 {planned} 次运行，均无结果）。",
    ),
    "strata": ("; healthy tasks {healthy}, defective {defective}", "；正常任务 {healthy}，缺陷任务 {defective}"),
    "recall": ("; defect recall {recall}, false alarms {alarms}", "；缺陷检出率 {recall}，误报率 {alarms}"),
    "tokens_per_run": ("; {tokens} tokens per run", "；每次运行 {tokens} Token"),
    "tokens_known": (" ({unknown} runs unknown)", "（{unknown} 次用量未知）"),
    "answer_by": ("; answer by {who}", "；答案由 {who} 给出"),
    "comparison": (
        "{strategy} against {baseline}: {kind}, {difference} points{interval}, p = {p} (sign-flip, Holm {holm}).",
        "{strategy} 对比 {baseline}：{kind}，差异 {difference} 个百分点{interval}，p = {p}（符号置换检验，"
        "Holm 校正后 {holm}）。",
    ),
    "no_comparison": ("{strategy} against {baseline}: no common task.", "{strategy} 对比 {baseline}：没有共同任务。"),
    "unjudged": (
        "{strategy}: {missing} of {planned} planned runs have no result ({excluded} excluded, {unfinished} unfinished);"
        " counted as failures they would give {strict}.",
        "{strategy}：计划 {planned} 次运行，{missing} 次没有结果（{excluded} 次不计入，{unfinished} 次未完成）；"
        "若都算作失败，通过率为 {strict}。",
    ),
    "budget": (
        "A budget ended {share} of the runs of {strategy} (more than 5 %): the result depends on the budget.",
        "{strategy} 有 {share} 的运行因预算用尽而结束（超过 5%）：结果受预算影响。",
    ),
    "temperature": (
        "Repeats at temperature 0 may be near copies: repeats add less than their number suggests.",
        "温度为 0 时，多次重复可能几乎相同，重复带来的信息比次数显示的要少。",
    ),
    "missing_pairs": (
        "{n} task{s} without runs of both {strategy} and {baseline} {are} left out: {tasks}.",
        "有 {n} 个任务没有同时具备 {strategy} 和 {baseline} 的结果，未参与比较：{tasks}。",
    ),
    "unbalanced": (
        "There are no defect twins among these tasks: the pass rate says nothing about finding defects.",
        "这些任务中没有缺陷版本，通过率不能说明发现缺陷的能力。",
    ),
    "constant": (
        "{strategy} is not shown to beat the best constant answer ({rate}).",
        "尚不能说明 {strategy} 优于固定回答的最好成绩（{rate}）。",
    ),
    "digests": (
        "Runs of {strategy} come from {n} versions of its source.",
        "{strategy} 的运行来自 {n} 个不同版本的源代码。",
    ),
    "untested": (
        "Only differences to {baseline} are tested, not those between the other strategies.",
        "只检验了各策略与 {baseline} 的差异，其他策略之间未作检验。",
    ),
}

KIND_WORDS: dict[str, tuple[str, str]] = {
    "better": ("better", "更好"),
    "worse": ("worse", "更差"),
    "better_size_uncertain": ("better, size uncertain", "更好，幅度不确定"),
    "equivalent": ("equivalent within the margin", "在界值内相当"),
    "not_distinguishable": ("not distinguishable", "无法区分"),
    "too_few_flows": ("too few flows for a decision", "流程太少"),
}


def sentence(table: dict[str, tuple[str, str]], key: str, language: str, **values: object) -> str:
    """Return a text of one of the tables in a language, its placeholders filled."""
    words = table[key][LANGUAGES.index(language)].format(**values)
    return tight(words) if language == "zh" else words
