import asyncio
import random
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from agentlab.errors import ConfigError
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.state import PlanState
from agentlab.planning.statuses import STATUS_WORDS, STEP_STATUSES
from agentlab.planning.step_state import StepError
from agentlab.records import Event, ToolResult
from agentlab.report.charts import gantt, plan_graph, save
from agentlab.report.labels import LANGUAGES
from agentlab.report.plan_records import PlanRecord, StepRecord, plans_of_events
from agentlab.report.plan_style import STATUS_LOOKS
from agentlab.runner.try_one import try_task

DRAW = {"plan_graph": plan_graph, "gantt": gantt}


def played(n_steps: int, seed: int) -> PlanState:
    """A random plan that was carried out, with failures, skips, checks and Chinese among its texts."""
    draw, steps = random.Random(seed), []
    for i in range(n_steps):
        names = [f"s{j}" for j in range(max(0, i - 6), i)]
        strong = draw.sample(names, min(len(names), draw.choice([0, 1, 1, 2, 3])))
        weak = [name for name in draw.sample(names, min(1, len(names))) if name not in strong and draw.random() < 0.3]
        words = draw.choice(["Check the amount", "检查订单金额是否有效且不为负数，然后再核对一次状态", "", "x" * 80])
        steps.append(
            PlanStep(f"s{i}", words, tool="check_order_amount", depends_on=tuple(strong), weak_depends_on=tuple(weak))
        )
    state, at_s = PlanState(PlanGraph(tuple(steps))), 0.0
    while (step := state.next_ready()) is not None:
        state.start(step.id, at_s=at_s)
        at_s += draw.random()
        if draw.random() < 0.1:
            state.fail(step.id, StepError("timed_out", "The service did not answer. " * 5), at_s=at_s)
        elif draw.random() < 0.1:
            state.skip(step.id, "low priority", at_s=at_s)
        else:
            state.complete(step.id, [ToolResult(True, passed=draw.choice([True, False, None]))], tries=2, at_s=at_s)
    return state


def every_status() -> PlanRecord:
    graph = PlanGraph(tuple(PlanStep(f"step {name}") for name in STEP_STATUSES))
    return PlanRecord(graph, {f"step {name}": StepRecord(f"step {name}", name) for name in STEP_STATUSES})


def rollback_events() -> tuple[Event, ...]:
    options: dict[str, Any] = {"suite": "sales", "strategy": "plan_execute"}
    parameters = {"policy": "rollback_critical"}
    return asyncio.run(try_task("fulfil-plain--stock-down", **options, parameters=parameters))[0].events


def replan_events() -> tuple[Event, ...]:
    parameters = {"policy": {"name": "no retry", "plan_decides": False}, "on_surprise": "replan"}
    options: dict[str, Any] = {"suite": "sales", "strategy": "plan_execute"}
    return asyncio.run(try_task("fulfil-retry", **options, parameters=parameters))[0].events


SOURCES = {
    "no steps": lambda: PlanState(PlanGraph(())),
    "one step": lambda: PlanState(PlanGraph((PlanStep("only"),))),
    "nothing ran": lambda: PlanState(PlanGraph((PlanStep("a"), PlanStep("b", depends_on=("a",))))),
    "chain": lambda: PlanState(
        PlanGraph(tuple(PlanStep(f"{i}", depends_on=(f"{i - 1}",) if i else ()) for i in range(17)))
    ),
    "20 steps": lambda: played(20, 1),
    "40 steps": lambda: played(40, 2),
    "every status": every_status,
    "rollback": rollback_events,
    "replan": replan_events,
}


def words(figure: Any) -> list[str]:
    return [item.get_text() for item in figure.findobj(Text) if item.get_visible() and item.get_text().strip()]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("chart", DRAW)
def test_every_text_is_inside_and_none_lies_on_another(chart: str, source: str, language: str) -> None:
    figure = DRAW[chart](SOURCES[source](), language)
    figure.canvas.draw()
    placed = [
        (item.get_text(), item.get_window_extent())
        for item in figure.findobj(Text)
        if item.get_visible() and item.get_text().strip() and "SIMULATED" not in item.get_text()
    ]
    for text, box in placed:
        limits = figure.bbox
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= limits.x1 + 1 and box.y1 <= limits.y1 + 1
        assert inside, f"{text!r} is cut"
    for i, (text, box) in enumerate(placed):
        for other, place in placed[i + 1 :]:
            width = min(box.x1, place.x1) - max(box.x0, place.x0)
            height = min(box.y1, place.y1) - max(box.y0, place.y0)
            assert width < 2 or height < 2, f"{text!r} and {other!r} overlap"
    assert figure.caption.endswith(".")


@pytest.mark.parametrize("chart", DRAW)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_saving_gives_the_same_bytes_and_chinese_has_its_glyphs(chart: str, suffix: str, tmp_path: Any) -> None:
    # Warnings are errors in this suite: a glyph that no font has would fail here.
    paths = [save(DRAW[chart](played(12, 3), "zh"), tmp_path / f"{name}{suffix}") for name in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert len(paths[0].read_bytes()) > 10_000


@pytest.mark.parametrize("chart", DRAW)
def test_only_simulated_runs_are_marked_and_the_footer_says_what_made_them(chart: str) -> None:
    events = rollback_events()
    figure = DRAW[chart](events)
    assert figure.is_simulated
    assert any("plan_execute · simulated:perfect (simulated)" in text for text in words(figure))
    assert not DRAW[chart](played(5, 1)).is_simulated


@pytest.mark.parametrize("chart", DRAW)
def test_the_users_settings_stay_as_they_are(chart: str) -> None:
    with mpl.rc_context({"font.size": 21, "text.parse_math": True}):
        before = dict(mpl.rcParams)
        DRAW[chart](played(5, 1), "zh")
        assert dict(mpl.rcParams) == before


def test_every_status_has_a_look_of_its_own_and_a_word() -> None:
    assert set(STATUS_LOOKS) == set(STATUS_WORDS) == set(STEP_STATUSES)
    # Told apart without colour.
    assert len({(look.shape, look.hatch, look.line) for look in STATUS_LOOKS.values()}) == len(STEP_STATUSES) - 1
    assert STATUS_LOOKS["blocked"].line == "dashed"


def test_a_weak_edge_is_dotted_and_an_implied_one_is_left_out() -> None:
    steps = (
        PlanStep("a"),
        PlanStep("b", depends_on=("a",)),
        PlanStep("c", depends_on=("a", "b"), weak_depends_on=("d",)),
        PlanStep("d"),
    )
    figure = plan_graph(PlanState(PlanGraph(steps)))
    arrows = list(figure.findobj(FancyArrowPatch))
    # Solid: a -> b, b -> c and the legend. Dotted: d -> c and the legend.
    assert [arrow.get_linestyle() for arrow in arrows].count("solid") == 3
    assert len(arrows) == 5


def test_checks_and_tries_are_marked() -> None:
    state = PlanState(PlanGraph((PlanStep("a"), PlanStep("b"))))
    for name, passed in (("a", True), ("b", False)):
        state.start(name, at_s=0.0)
        state.complete(name, [ToolResult(True, passed=passed)], tries=3 if passed else 1, at_s=1.0)
    shown = words(plan_graph(state))
    # Once at the step and once in the legend.
    assert (shown.count("✓"), shown.count("✗"), shown.count("×3")) == (2, 2, 1)
    assert plan_graph(state).caption == "The plan: what needs what. 2 steps: 2 completed; checks not passed: b."


def test_the_gantt_chart_says_in_its_language_why_a_step_was_not_needed() -> None:
    state = PlanState(PlanGraph((PlanStep("a"), PlanStep("b", only_if_not_passed=("a",)))))
    state.start("a", at_s=0.0)
    state.complete("a", [ToolResult(True, passed=True)], at_s=1.0)
    state.pass_over("b", state.unmet_condition("b"))
    english, chinese = (" ".join(words(gantt(state, language))) for language in LANGUAGES)
    assert "not needed: only if a check of a does not pass" in english
    assert "无需执行：仅当步骤 a 有检查未通过" in chinese


def test_the_gantt_chart_shows_undos_replaced_plans_and_why_nothing_ran() -> None:
    shown = words(gantt(rollback_events()))
    assert {"undone", "critical path", "blocked because of stock"} <= set(shown)
    events = replan_events()
    shown = words(gantt(events))
    assert {"stock (plan 1)", "new plan"} <= set(shown)
    assert not {"stock (plan 1)", "new plan"} & set(words(gantt(plans_of_events(events)[1])))
    assert gantt(played(0, 1)).caption == "When the steps ran. no step ran."


@pytest.mark.parametrize("chart", DRAW)
def test_a_plan_too_large_for_a_picture_is_refused_with_the_way_out(chart: str) -> None:
    large = PlanState(PlanGraph(tuple(PlanStep(f"{i}") for i in range(201))))
    with pytest.raises(ConfigError, match=r"201 steps.*steps_table"):
        DRAW[chart](large)
