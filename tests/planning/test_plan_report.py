import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_runner import Runner, failing, scripted, steps

from agentlab.planning.outcomes import StepOutcome
from agentlab.planning.plan import PlanStep
from agentlab.planning.policy import FailurePolicy, Rule, When
from agentlab.planning.reasons import NOT_NEEDED, is_condition, problem_words, reason_words, undo_words
from agentlab.planning.report import changed_facts, plan_report
from agentlab.planning.scheduler import Scheduler
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import STATUS_WORDS, STEP_STATUSES
from agentlab.planning.step_state import StepError
from agentlab.records import ToolResult
from agentlab.tools import Tool

PASSED, NOT_PASSED = ToolResult(True, passed=True), ToolResult(True, passed=False)
TOOLS = {
    "work": Tool("work", "", {}),
    "write": Tool("write", "", {}, effect="write", compensate="undo"),
    "lasting": Tool("lasting", "", {}, effect="write"),
    "mail": Tool("mail", "", {}, effect="irreversible"),
    "undo": Tool("undo", "", {}, effect="idempotent"),
}
ABOUT_ONE = {"only_if_not_passed": ("check",)}


def carried_out(
    rows: tuple[Any, ...], results: dict[str, ToolResult | list[ToolResult]], rules: tuple[Rule, ...] = ()
) -> PlanState:
    """The state as it is stored after the scheduler ran a plan."""
    state, answer = PlanState(steps(*rows)), scripted(results)

    async def run_step(step: PlanStep, calls: Any) -> StepOutcome:
        return StepOutcome((answer(step.id, {}),))

    async def run_undo(step: PlanStep, tool: str, call: Any) -> ToolResult:
        return answer(f"undo:{step.id}", {})

    policy = FailurePolicy(name="p", rules=rules)
    asyncio.run(Scheduler(state, TOOLS, policy, run_step, run_undo, lambda changes: None).run())
    return PlanState.from_json(state.to_json())


def test_a_step_whose_condition_is_not_met_is_not_needed_in_both_languages() -> None:
    state = carried_out((("check", ""), ("back", "", ABOUT_ONE), ("more", "back")), {"check": PASSED})
    english, chinese = plan_report(state), plan_report(state, "zh")
    assert "3 steps: 1 completed, 0 failed, 0 blocked, 0 skipped, 2 not needed" in english
    assert "- back work: not needed\n    only if a check of check does not pass, and none did" in english
    assert english.endswith("Every step that was needed was executed, and every check passed.")
    assert "共 3 步，完成 1，失败 0，阻塞 0，跳过 0，无需执行 2" in chinese
    assert "- back work: 无需执行\n    仅当步骤 check 有检查未通过时才需要，实际没有" in chinese
    assert "- more work: 无需执行\n    它所依赖的步骤 back 无需执行" in chinese
    assert chinese.endswith("需要执行的步骤均已执行，所有检查均通过。")
    assert state["back"].reason.startswith("only if"), "records do not depend on the language of the report"


def test_what_an_error_or_a_gate_skipped_is_skipped_and_no_success() -> None:
    rows = (
        ("check", ""),
        ("mail", "check", {"tool": "mail"}),
        ("bad", ""),
        ("fine", "", {"only_if_passed": ("check",)}),
    )
    rest = (Rule(name="rest", on_error="skip"),)
    state = carried_out(rows, {"check": NOT_PASSED, "bad": failing("not_found", "gone")}, rest)
    assert state.not_needed() == ("fine",)
    english, chinese = plan_report(state), plan_report(state, "zh")
    assert "1 completed, 0 failed, 0 blocked, 2 skipped, 1 not needed" in english
    assert english.endswith("Skipped: mail, bad.\nNot passed: check.")
    assert "- mail work" not in chinese
    assert "步骤 check 的检查未通过，因此没有执行" in chinese
    assert "按规则 'rest' 跳过：not_found，已尝试 1 次" in chinese
    assert "仅当步骤 check 的检查全部通过时才需要，实际未通过" in chinese
    assert chinese.endswith("已跳过：mail, bad。\n未通过：check。")


def test_without_anything_skipped_for_its_condition_nothing_is_said_about_it() -> None:
    state = carried_out((("a", ""), ("b", "a")), {"a": PASSED})
    for language in ("en", "zh"):
        assert "not needed" not in plan_report(state, language)
        assert "需要" not in plan_report(state, language)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ((Rule(name="stop", on_error="terminate"),), "按规则 'stop' 终止计划：tool_failed，已尝试 1 次"),
        ((Rule(name="ask", on_error="escalate"),), "按规则 'ask' 转人工：tool_failed，已尝试 1 次"),
        (
            (Rule(name="it's", on_error="terminate", when=When(not_passed=True)),),
            '按规则 "it\'s" 终止计划：检查未通过',
        ),
    ],
)
def test_why_a_plan_was_stopped_reads_in_chinese(rules: tuple[Rule, ...], words: str) -> None:
    bad = NOT_PASSED if rules[0].when.not_passed else failing()
    state = carried_out((("a", ""), ("b", "~a")), {"a": bad}, rules)
    assert (state["b"].status, state.explain("b", "zh")) == ("skipped", words)
    assert state.explain("b") == state["b"].reason


def test_undos_and_blocked_steps_read_in_chinese() -> None:
    rows = (("a", "", {"tool": "write"}), ("b", "a", {"tool": "lasting"}), ("c", "b"), ("d", "c"), ("e", "d"))
    rules = (Rule(name="all", on_error="rollback"),)
    state = carried_out(rows, {"c": failing("not_found", "gone"), "undo:a": failing("x", "locked")}, rules)
    assert state.explain("a", "zh") == "用 undo 撤销失败：locked"
    assert state.explain("b", "zh") == "用 none 撤销失败：lasting 没有对应的撤销工具"
    assert state.explain("d", "zh") == "阻塞，因为步骤 c 失败：not_found: gone"
    assert state.explain("e", "zh") == "阻塞，因为步骤 c 失败（经由 d）：not_found: gone"
    chinese = plan_report(state, "zh")
    assert "阻塞 2，跳过 0，回滚失败 2" in chinese
    assert chinese.endswith("执行不完整：c, d, e。\n回滚不完整：a, b，需要人工处理。")


def test_what_a_tool_said_is_never_translated() -> None:
    assert reason_words("the user asked for it", "zh") == "the user asked for it"
    assert problem_words("It needs time", "zh") == "It needs time"
    assert problem_words("a person did not approve mail", "zh") == "mail 没有得到人工批准"
    assert undo_words("undo", "failed", "undo needs id, name", "zh") == "用 undo 撤销失败：undo 缺少参数 id, name"
    assert undo_words("undo", "failed", "it needs time", "zh") == "用 undo 撤销失败：it needs time"
    assert undo_words("undo", "done", "", "zh") == "已用 undo 撤销"
    assert not is_condition("check c did not pass, so this was not done")


def test_undone_steps_and_open_ones_are_no_success() -> None:
    state = PlanState(steps(("a", ""), ("b", "")))
    state.start("a")
    state.complete("a", (PASSED,))
    state.start_undo("a", "undo")
    state.finish_undo("a", success=True)
    state.start("b")
    assert plan_report(state).endswith("Execution incomplete: b.\nUndone: a.")
    assert "0 skipped, 1 running, 1 rolled back" in plan_report(state)
    assert plan_report(state, "zh").endswith("执行不完整：b。\n已撤销：a。")


@pytest.mark.parametrize("status", STEP_STATUSES)
def test_every_status_reads_in_the_language_of_the_report(status: str) -> None:
    stored = PlanState(steps(("a", ""), ("b", ""))).to_json()
    stored["steps"] = {"a": {"status": status, "cause": "b"}, "b": {"status": "failed"}}
    state = PlanState.from_json(stored)
    english, chinese = STATUS_WORDS[status]
    assert f"- a work: {english}" in plan_report(state)
    assert f"- a work: {chinese}" in plan_report(state, "zh")
    if status not in ("completed", "skipped"):
        assert "均已执行" not in plan_report(state, "zh")


# Several criteria in one step


def test_criteria_that_a_step_only_shows_decide_the_conclusion() -> None:
    shown = {
        "errors_not_up@web": "passed",
        "response_time_halved@web": "failed",
        "resources_not_up@web": "not_evaluated",
    }
    runner = Runner(steps(("test", ""), ("end", "test")), scripted({"test": ToolResult(True, visible=shown)}))
    state = runner.run()
    assert state.business_counts() == {"passed": 1, "failed": 1}
    assert "Checks: 1 passed, 1 not passed" in plan_report(state)
    assert plan_report(state).endswith("Not passed: test (response_time_halved@web).")
    assert plan_report(state, "zh").endswith("未通过：test（response_time_halved@web）。")
    assert '"visible": {"errors_not_up@web": "passed"' in plan_report(state)


def test_criteria_that_all_pass_are_checks_that_passed() -> None:
    shown = {"errors_not_up@web": "passed", "resources_not_up@web": "passed"}
    state = Runner(steps(("test", "")), scripted({"test": ToolResult(True, visible=shown)})).run()
    assert plan_report(state).endswith("Every step was executed and every check passed.")
    nothing = ToolResult(True, visible=dict.fromkeys(shown, "not_evaluated"))
    state = Runner(steps(("test", "")), scripted({"test": nothing})).run()
    assert plan_report(state).endswith("there was no check.")


# New wordings


@pytest.mark.parametrize("status", STEP_STATUSES)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_status_may_be_replaced_by_another(status: str, language: str) -> None:
    index = ("en", "zh").index(language)
    for other in STEP_STATUSES:
        before, after = STATUS_WORDS[status][index], STATUS_WORDS[other][index]
        changed = changed_facts(f"- a: {before}\n", f"- a: {after}\n", ["a"])
        assert bool(changed) == (other != status), (before, after)


def test_chinese_facts_stay_in_a_new_wording() -> None:
    report = "- a: 无需执行\n- b: 执行中\n- c: 已回滚\n所有检查均通过。"
    assert changed_facts(report, report.replace("- a:", "步骤 a 的情况是"), ["a", "b", "c"]) == []
    for old, new in (("无需执行", "需要执行"), ("执行中", "执行中断"), ("已回滚", "完成"), ("均通过", "没通过")):
        assert changed_facts(report, report.replace(old, new), ["a", "b", "c"]), (old, new)


def test_an_error_that_may_have_had_an_effect_is_told_in_both_languages() -> None:
    state = PlanState(steps(("a", "")))
    state.start("a")
    state.fail("a", StepError("timed_out", "no answer", may_have_happened=True))
    assert plan_report(state, "zh").endswith("不清楚是否已生效：a，需要人工确认。")
    assert plan_report(state).endswith("somebody has to look.")


# Plans that were replaced


def undone(state: PlanState, step_id: str, *, success: bool, message: str = "") -> None:
    state.start_undo(step_id, "undo")
    state.finish_undo(step_id, success=success, message=message)


def replaced(*, is_clean: bool) -> PlanState:
    """A plan whose only step completed, after one in which something went wrong."""
    old = PlanState(steps(("a", ""), ("b", ""), ("c", "b")))
    for name in ("a", "b"):
        old.start(name)
    old.complete("a", (ToolResult(True, message="written"),))
    undone(old, "a", success=is_clean, message="" if is_clean else "locked")
    old.fail("b", StepError("timed_out", "no answer", may_have_happened=not is_clean))
    new = old.continued(steps(("d", "")))
    new.start("d")
    new.complete("d", (PASSED,))
    return PlanState.from_json(new.to_json())


def test_the_report_names_what_is_left_of_a_plan_that_was_replaced() -> None:
    english, chinese = plan_report(replaced(is_clean=False)), plan_report(replaced(is_clean=False), "zh")
    assert (
        "- d work: completed\n"
        '    {"passed": true}\n'
        "   Of an earlier plan:\n"
        "- a: rollback failed\n"
        '    {"message": "written"}\n'
        "    undo with undo failed: locked\n"
        "- b: failed\n"
        "    timed_out: no answer\n"
    ) in english
    assert english.endswith(
        "3. Conclusion\n"
        "Of an earlier plan: b failed.\n"
        "Of an earlier plan: rollback incomplete: a; somebody has to undo this by hand.\n"
        "Of an earlier plan: unknown whether it took effect: b; somebody has to look."
    )
    assert "    此前的计划：\n- a: 回滚失败\n" in chinese
    assert "    用 undo 撤销失败：locked\n- b: 失败\n    timed_out: no answer\n" in chinese
    assert chinese.endswith(
        "三、结论\n"
        "此前的计划中失败：b。\n"
        "此前的计划中回滚不完整：a，需要人工处理。\n"
        "此前的计划中不清楚是否已生效：b，需要人工确认。"
    )


def test_a_replaced_plan_without_a_trace_in_the_world_spoils_no_success() -> None:
    english, chinese = plan_report(replaced(is_clean=True)), plan_report(replaced(is_clean=True), "zh")
    assert english.endswith(
        "Every step was executed and every check passed.\nOf an earlier plan: b failed.\nOf an earlier plan: a undone."
    )
    assert chinese.endswith("所有检查均通过。\n此前的计划中失败：b。\n此前的计划中已撤销：a。")
    assert "1. Totals: 1 step: 1 completed" in english


def test_a_skipped_try_that_may_have_had_an_effect_is_told_of_an_earlier_plan_and_a_condition_is_not() -> None:
    state = carried_out((("check", ""), ("back", "", ABOUT_ONE), ("bad", "")), {"check": PASSED})
    stored = state.to_json()
    stored["steps"]["bad"] = {
        "status": "skipped",
        "error": {"kind": "timed_out", "message": "", "may_have_happened": True},
    }
    new = PlanState.from_json(stored).continued(steps(("check", "")))
    assert "- back" not in plan_report(new)
    assert plan_report(new).endswith("Of an earlier plan: unknown whether it took effect: bad; somebody has to look.")


# Stopped plans, undos and restarts


def test_the_conclusion_says_why_a_plan_was_stopped() -> None:
    stop = (Rule(name="stop", on_error="terminate", when=When(not_passed=True)),)
    state = carried_out((("a", ""), ("b", "")), {"b": NOT_PASSED}, stop)
    assert state.with_status("completed") == ("a", "b")
    assert plan_report(state).endswith(
        "3. Conclusion\nThe plan was stopped: terminate by rule 'stop': a check did not pass.\nNot passed: b."
    )
    assert plan_report(state, "zh").endswith(
        "三、结论\n计划提前结束：按规则 'stop' 终止计划：检查未通过。\n未通过：b。"
    )
    state = PlanState(steps(("a", "")))
    state.stop("the user asked for it")
    assert "计划提前结束：the user asked for it。" in plan_report(state, "zh")


RESTARTED = (("a", "", {"tool": "write"}), ("b", "a"), ("c", "b"))
AGAIN = (Rule(name="again", on_error="rollback", restart=True, limit=1), Rule(name="rest", on_error="block"))


def test_what_ran_again_after_an_undo_says_so() -> None:
    state = carried_out(RESTARTED, {"b": [failing("not_found", "gone"), PASSED]}, AGAIN)
    assert state.status == "completed"
    english, chinese = plan_report(state), plan_report(state, "zh")
    assert "- a write: completed\n    {}\n    undo with undo done\n    ran again after an undo\n" in english
    assert "- c work: completed\n    {}\n    in a part that was undone and started again\n" in english
    assert "    已用 undo 撤销\n    撤销后重新执行\n" in chinese
    assert "- c work: 完成\n    {}\n    所在部分撤销后重新开始\n" in chinese


def test_a_step_that_fails_after_a_restart_has_its_error_beside_the_undo() -> None:
    state = carried_out(RESTARTED, {"a": [PASSED, failing("not_found", "gone")], "b": failing("not_found", "x")}, AGAIN)
    assert state["a"].status == "failed"
    assert "    undo with undo done\n    ran again after an undo\n    not_found: gone\n" in plan_report(state)
    state = PlanState(steps(("a", "")))
    state.start("a")
    state.complete("a", ())
    undone(state, "a", success=True)
    state.restart(["a"])
    state.stop("enough")
    assert "    undo with undo done\n    was to run again after an undo, and did not\n    enough\n" in plan_report(
        state
    )


def test_every_attempt_to_undo_a_step_is_told() -> None:
    state = PlanState(steps(("a", "")))
    state.start("a")
    state.complete("a", ())
    undone(state, "a", success=False, message="locked")
    undone(state, "a", success=True)
    assert "- a work: rolled back\n    undo with undo failed: locked\n    undo with undo done\n3." in plan_report(state)
    assert "    用 undo 撤销失败：locked\n    已用 undo 撤销\n" in plan_report(state, "zh")


# No fact may be replaced


def test_a_contraction_is_a_negation() -> None:
    for before, after in (
        ("check passed", "check wasn't passed"),
        ("it ran", "it didn’t run"),
        ("it may", "it mayn't"),
        ("it can", "it cannot"),
    ):
        assert changed_facts(before, after) == ["+not"]
        assert changed_facts(after, before) == ["-not"]
    assert changed_facts("it was not passed", "it wasn't passed") == []
    assert changed_facts("check passed", "check non-passed") == ["+non"]
    assert changed_facts("It's passed.", "It is passed.") == []


def test_chinese_names_are_found_inside_chinese_text() -> None:
    before, after = "- 查询: 失败\n- 核对: 完成", "- 核对: 失败\n- 查询: 完成"
    assert changed_facts(before, after, ["查询", "核对"])
    assert changed_facts("步骤查询失败，核对完成", "步骤核对失败，查询完成", ["查询", "核对"])
    assert changed_facts("查询库存: 失败", "查询: 失败", ["查询", "查询库存"]) == ["-查询库存", "+查询"]
    assert changed_facts("- a-1: failed", "- a-2: failed", ["a", "a-1", "a-2"]) == ["-a-1", "+a-2"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("所有步骤均已执行，所有检查均通过。", "部分步骤已执行，有些检查通过。"),
        ("所有步骤均已执行。", "几乎所有步骤均已执行。"),
        ("Every step was executed and every check passed.", "Most steps were executed and some checks passed."),
        ("All checks passed.", "All checks partly passed."),
    ],
)
def test_quantifiers_are_facts(before: str, after: str) -> None:
    assert changed_facts(before, after)


IDS = ("query", "check_1", "c", "查询", "核对库存", "核对", "a.b")
FACTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "status": tuple(tuple(words[index] for words in (*STATUS_WORDS.values(), NOT_NEEDED)) for index in (0, 1)),
    "name": (IDS, IDS),
    "quantifier": (("every", "all", "some", "most", "each", "partly"), ("所有", "均", "部分", "有些", "每", "全部")),
    "result": (("passed", "not passed"), ("通过", "未通过")),
    "negation": (("not", "never", "no"), ("未", "不", "没有", "无")),
}  # fmt: skip


def places(report: str, words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where one of the words stands in a report, the longest one that does; English ones as whole words."""
    longest_first = sorted(words, key=len, reverse=True)
    shown = [rf"(?<![\w.-]){w}(?![\w.-]*\w)" if w.isascii() else re.escape(w) for w in longest_first]
    return (found.span() for found in re.finditer("|".join(shown), report, re.ASCII))


@st.composite
def reports(draw: st.DrawFn) -> tuple[str, int]:
    """The report of a plan that ended in some way, and the index of its language."""
    rows: list[Any] = []
    for position, name in enumerate(draw(st.permutations(IDS))):
        before = draw(st.sets(st.sampled_from([row[0] for row in rows]), max_size=2)) if rows else set()
        fields: dict[str, Any] = {"tool": draw(st.sampled_from(["work", "write", "mail"]))}
        if before and draw(st.booleans()):
            fields[draw(st.sampled_from(["only_if_passed", "only_if_not_passed"]))] = tuple(sorted(before))
        rows.append((name, " ".join(sorted(before)), fields, position))
    word = draw(st.sampled_from(["block", "skip", "rollback", "terminate", "escalate"]))
    endings = [PASSED, NOT_PASSED, failing("not_found", "gone")]
    endings += [failing("timed_out", "no answer")]
    results = {row[0]: draw(st.sampled_from(endings)) for row in rows}
    state = carried_out(tuple(row[:3] for row in rows), results, (Rule(name="rule", on_error=word),))
    index = draw(st.integers(0, 1))
    return plan_report(state, ("en", "zh")[index]), index


@settings(max_examples=150, deadline=None)
@given(reports(), st.data())
def test_any_single_replacement_of_a_fact_in_a_report_is_found(made: tuple[str, int], data: st.DataObject) -> None:
    report, index = made
    assert changed_facts(report, report, IDS) == []
    found = {kind: list(places(report, words[index])) for kind, words in FACTS.items()}
    kind = data.draw(st.sampled_from([kind for kind, spans in found.items() if spans]))
    start, end = data.draw(st.sampled_from(found[kind]))
    others = [word for word in FACTS[kind][index] if word.lower() != report[start:end].lower()]
    changed = report[:start] + data.draw(st.sampled_from(others)) + report[end:]
    assert changed_facts(report, changed, IDS), (kind, report[start:end], changed)


@settings(max_examples=60, deadline=None)
@given(reports(), st.data())
def test_any_single_replacement_of_a_number_in_a_report_is_found(made: tuple[str, int], data: st.DataObject) -> None:
    report, _ = made
    number = data.draw(st.sampled_from(list(re.finditer(r"\d+", report))))
    other = data.draw(st.integers(0, 99).map(str).filter(lambda text: text != number.group()))
    changed = report[: number.start()] + other + report[number.end() :]
    assert changed_facts(report, changed, IDS), changed
