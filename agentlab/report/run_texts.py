"""The words of the run report in Chinese and English."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RunTexts:
    """Every label of a run report in one language."""

    title: str
    task: str
    section_totals: str
    section_calls: str
    section_conclusion: str
    section_claim: str
    executed: str
    failed: str
    refused: str
    passed: str
    not_passed: str
    no_claim: str
    claimed_verdict: str
    not_claimed: str
    contradiction: str
    calls_line: str
    checks_line: str
    model_line: str
    incomplete: str
    some_failed: str
    also_incomplete: str
    all_passed: str
    ended: str
    statuses: Mapping[str, str]
    verdicts: Mapping[str, str]
    kinds: Mapping[str, str]
    join: str
    colon: str
    comma: str

    def totals(self, totals: Mapping[str, int], n_model_calls: int) -> list[str]:
        """Return one line per axis: execution, business, effort."""
        return [
            self.calls_line.format(**totals),
            self.checks_line.format(**totals),
            self.model_line.format(n=n_model_calls),
        ]

    def conclusion(self, verdict: str, failed: Sequence[str], n_not_evaluated: int) -> str:
        """Return the conclusion; checks that failed are named also when others could not be evaluated."""
        if verdict == "passed":
            return self.all_passed
        if verdict == "incomplete":
            return self.incomplete.format(n=n_not_evaluated)
        text = self.some_failed.format(failed=self.join.join(failed))
        return text + (self.also_incomplete.format(n=n_not_evaluated) if n_not_evaluated else "")

    def end(self, end_reason: str, message: str | None) -> str:
        """Return why the run ended."""
        return f"{self.ended}{self.colon}{end_reason}{f' ({message})' if message else ''}"


TEXTS: dict[str, RunTexts] = {
    "en": RunTexts(
        title="Run report (written by Python from the trace)",
        task="Task",
        section_totals="1. Totals",
        section_calls="2. Tool calls",
        section_conclusion="3. Conclusion from the tools",
        section_claim="4. What the agent claimed",
        executed="executed",
        failed="execution failed",
        refused="not executed",
        passed="check passed",
        not_passed="check not passed",
        no_claim="The agent gave no verdict in the answer format.",
        claimed_verdict="Verdict as submitted",
        not_claimed="not claimed",
        contradiction="<- the trace does not show this",
        calls_line="Tool calls: {executed} executed, {failed} failed, {refused} refused; "
        "{queries} queries, {checks} checks",
        checks_line="Criteria: {passed} passed, {not_passed} not passed, {not_evaluated} not evaluated",
        model_line="Model calls: {n}",
        incomplete="Execution incomplete: {n} criteria could not be evaluated.",
        some_failed="Not passed: {failed}.",
        also_incomplete=" Execution incomplete as well: {n} criteria could not be evaluated.",
        all_passed="All criteria passed.",
        ended="The run ended",
        statuses={"passed": "passed", "failed": "not passed", "not_evaluated": "not evaluated"},
        verdicts={"passed": "passed", "failed": "failed", "incomplete": "incomplete"},
        kinds={
            "real": "real",
            "local": "local model",
            "simulated": "SIMULATED",
            "scripted": "scripted",
            "replay": "replayed",
        },
        join=", ",
        colon=": ",
        comma=", ",
    ),
    "zh": RunTexts(
        title="运行报告（由 Python 根据执行记录生成）",
        task="任务",
        section_totals="一、统计",
        section_calls="二、工具调用",
        section_conclusion="三、依据工具结果的结论",
        section_claim="四、智能体的说法",
        executed="已执行",
        failed="执行失败",
        refused="未执行",
        passed="检查通过",
        not_passed="检查未通过",
        no_claim="智能体没有按答案格式给出结论。",
        claimed_verdict="提交的结论",
        not_claimed="未说明",
        contradiction="<- 执行记录不支持这一说法",
        calls_line="工具调用：成功 {executed} 次，失败 {failed} 次，拒绝 {refused} 次；"
        "其中查询 {queries} 次，检查 {checks} 次",
        checks_line="检查项：通过 {passed} 项，未通过 {not_passed} 项，未评估 {not_evaluated} 项",
        model_line="模型调用：{n} 次",
        incomplete="执行不完整：{n} 项无法评估。",
        some_failed="未通过：{failed}。",
        also_incomplete="同时执行不完整：{n} 项无法评估。",
        all_passed="全部检查项通过。",
        ended="运行结束原因",
        statuses={"passed": "通过", "failed": "未通过", "not_evaluated": "未评估"},
        verdicts={"passed": "通过", "failed": "未通过", "incomplete": "不完整"},
        kinds={
            "real": "真实模型",
            "local": "本地模型",
            "simulated": "模拟 SIMULATED",
            "scripted": "脚本",
            "replay": "重放",
        },
        join="、",
        colon="：",
        comma="，",
    ),
}
