import math
import subprocess
import sys

import matplotlib
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from report_frames import make_calls, make_runs, planned

from agentlab.analysis.compare import paired_difference
from agentlab.analysis.rates import pass_rate
from agentlab.errors import ConfigError
from agentlab.report.charts import failure_classes, forest, outcomes, save, stability_heatmap, tokens_by_actor
from agentlab.report.labels import LANGUAGES
from agentlab.report.style import Chart, strategy_looks

CHINESE = ("工具循环", "规划执行", "三智能体")
LONG = "trio(validator_mode=result, retries=3, observe=picture, memory=off)"

DRAW = {
    "forest": lambda runs, language: forest(runs, _first(runs), language, margin=0.05),
    "forest without baseline": lambda runs, language: forest(runs, None, language),
    "tokens_by_actor": lambda runs, language: tokens_by_actor(make_calls(runs), runs, language),
    "stability_heatmap": stability_heatmap,
    "failure_classes": failure_classes,
    "outcomes": outcomes,
}


def _first(runs: pd.DataFrame) -> str | None:
    return str(runs["strategy"].iloc[0]) if len(runs) else None


def hard(kind: str = "real") -> pd.DataFrame:
    """Five strategies, a long name, excluded runs, unknown tokens, a missing part, and one that never started."""
    runs = make_runs(("tool_loop", "react", "plan_execute", "trio", "router"), flows=12, repeats=4, kind=kind)
    runs["strategy"] = runs["strategy"].replace({"trio": LONG})
    late = (runs["strategy"] == "react") & (runs["repeat"] >= 2)
    runs.loc[late, ["success", "failure_class", "total_tokens", "known_tokens"]] = pd.NA
    runs.loc[late, "outcome"], runs.loc[late, "end_reason"] = "excluded", "infrastructure"
    runs = runs[~((runs["strategy"] == "router") & (runs["cluster"] < "flow03"))]
    more = planned("router_declared").assign(model_kind=kind, model=f"{kind}:demo-model")
    return pd.concat([runs, more], ignore_index=True)


FRAMES = {
    "usual": lambda: make_runs(),
    "hard": hard,
    "simulated": lambda: hard("simulated"),
    "chinese": lambda: make_runs(CHINESE),
    "one strategy": lambda: make_runs(("react",), flows=3),
    "one run": lambda: make_runs(("react",), flows=1, twins=0, repeats=1),
    "no runs": lambda: make_runs(("react",)).iloc[:0],
    "planned only": lambda: pd.concat([planned("tool_loop"), planned("trio")], ignore_index=True),
}


def words(figure) -> list[str]:
    return [item.get_text() for item in figure.findobj(Text) if item.get_visible() and item.get_text().strip()]


def boxes(figure) -> list[tuple[str, object]]:
    figure.canvas.draw()
    found = []
    for item in figure.findobj(Text):
        if item.get_visible() and item.get_text().strip() and "SIMULATED" not in item.get_text():
            found.append((item.get_text(), item.get_window_extent()))
    return found


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("chart", DRAW)
def test_every_text_is_inside_and_none_lies_on_another(chart, frame, language, tmp_path):
    figure = DRAW[chart](FRAMES[frame](), language)
    matplotlib.backends.backend_agg.FigureCanvasAgg(figure)
    limits = figure.bbox
    placed = boxes(figure)
    assert placed
    for text, box in placed:
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= limits.x1 + 1 and box.y1 <= limits.y1 + 1
        assert inside, f"{text!r} is cut"
    for i, (text, box) in enumerate(placed):
        for other, place in placed[i + 1 :]:
            width = min(box.x1, place.x1) - max(box.x0, place.x0)
            height = min(box.y1, place.y1) - max(box.y0, place.y0)
            assert width < 2 or height < 2, f"{text!r} and {other!r} overlap"
    assert figure.caption.endswith(".")


@pytest.mark.parametrize("chart", DRAW)
def test_chinese_is_drawn_without_a_missing_glyph(chart, tmp_path):
    # Warnings are errors in this suite: a glyph that no font has would fail here.
    path = save(DRAW[chart](make_runs(CHINESE, flows=6), "zh"), tmp_path / "chart.png")
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize("chart", DRAW)
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_saving_gives_the_same_bytes(chart, suffix, tmp_path):
    runs = make_runs(flows=4, repeats=2)
    figures = [DRAW[chart](runs, "zh"), DRAW[chart](runs, "zh")]
    paths = [save(figures[0], tmp_path / f"a{suffix}"), save(figures[1], tmp_path / f"b{suffix}")]
    again = save(figures[0], tmp_path / f"c{suffix}")
    assert paths[0].read_bytes() == paths[1].read_bytes() == again.read_bytes()


@pytest.mark.parametrize("chart", DRAW)
def test_the_users_settings_stay_as_they_are(chart):
    with mpl.rc_context({"font.size": 21, "axes.grid": True, "figure.facecolor": "black", "text.parse_math": True}):
        before = dict(mpl.rcParams)
        figure = DRAW[chart](make_runs(flows=3, repeats=2), "zh")
        assert dict(mpl.rcParams) == before
        assert figure.get_facecolor() == (1, 1, 1, 1)
        dark = figure._repr_png_()
    assert dark == figure._repr_png_()


@pytest.mark.parametrize("chart", DRAW)
def test_a_notebook_shows_the_picture(chart):
    from IPython.core.formatters import DisplayFormatter

    bundle, _ = DisplayFormatter().format(DRAW[chart](make_runs(flows=3, repeats=2), "en"))
    assert bundle["image/png"].startswith(b"\x89PNG")


@pytest.mark.parametrize("chart", DRAW)
def test_simulated_data_are_marked(chart, tmp_path):
    figure = DRAW[chart](make_runs(flows=3, repeats=2, kind="simulated"), "en")
    assert figure.is_simulated
    assert "模拟数据 SIMULATED" in words(figure)
    assert any("simulated:demo-model (simulated)" in text for text in words(figure))
    assert save(figure, tmp_path / "chart.png").name == "chart.simulated.png"
    assert save(figure, tmp_path / "chart.simulated.png").name == "chart.simulated.png"


@pytest.mark.parametrize("chart", DRAW)
def test_real_data_are_not_marked(chart, tmp_path):
    figure = DRAW[chart](make_runs(flows=3, repeats=2), "en")
    assert not figure.is_simulated
    assert not any("SIMULATED" in text for text in words(figure))
    assert save(figure, tmp_path / "chart.png").name == "chart.png"


@pytest.mark.parametrize("chart", DRAW)
def test_kinds_of_models_are_never_mixed(chart):
    runs = make_runs(flows=3, repeats=2)
    runs.loc[runs.index[:5], "model_kind"] = "simulated"
    with pytest.raises(ConfigError, match="never pooled"):
        DRAW[chart](runs, "en")


@pytest.mark.parametrize("chart", DRAW)
def test_the_footer_says_where_the_data_come_from(chart):
    text = " ".join(words(DRAW[chart](make_runs(), "en"))).replace("\n", " ")
    for part in ("checkout_flows", "42 tasks × 5 repeats", "14 flows", "real:demo-model (real)", "agentlab 0.1.0"):
        assert part in text
    assert "data 2026-11-02 – 2026-11-04" in text


@pytest.mark.parametrize("chart", DRAW)
def test_unknown_language_is_refused(chart):
    with pytest.raises(ConfigError, match="Unknown language 'de'"):
        DRAW[chart](make_runs(flows=2, repeats=1), "de")


@pytest.mark.parametrize("chart", [name for name in DRAW if name != "stability_heatmap"])
def test_a_strategy_without_a_run_is_shown_as_no_data(chart):
    figure = DRAW[chart](pd.concat([make_runs(flows=3, repeats=2), planned("router")], ignore_index=True), "en")
    assert "router" in words(figure)
    assert "no data" in words(figure)
    assert "router: no data" in figure.caption


def test_one_look_per_strategy_everywhere():
    runs = make_runs(("tool_loop", "react", "trio", "variant"))
    looks = strategy_looks(runs)
    assert len({(look.color, look.marker) for look in looks.values()}) == 4
    part = strategy_looks(runs[runs["strategy"] != "tool_loop"])
    assert (part["react"], part["trio"]) == (looks["react"], looks["trio"])
    variants = strategy_looks(make_runs(("trio", "trio-b")).assign(strategy_name="trio"))
    assert variants["trio"] == looks["trio"]
    assert variants["trio-b"] != variants["trio"]


def test_many_strategies_have_different_looks():
    runs = pd.concat([planned(f"s{i:02d}", 1) for i in range(40)], ignore_index=True)
    assert len(set(strategy_looks(runs).values())) == 40


def _lines(axes) -> list[tuple[float, float, float]]:
    return [
        (float(line.get_xdata()[0]), float(line.get_xdata()[1]), float(line.get_ydata()[0]))
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]
    ]


def test_bars_end_where_the_intervals_end():
    runs = make_runs()
    rates, differences = forest(runs, "tool_loop").axes
    drawn = {round(low, 9): high for low, high, _ in _lines(rates)}
    for name in ("tool_loop", "react", "trio"):
        rate = pass_rate(runs[runs["strategy"] == name])
        assert drawn[round(rate.low, 9)] == pytest.approx(rate.high)
    trio = paired_difference(runs, "trio", "tool_loop")
    assert any((low, high) == pytest.approx((trio.low, trio.high)) for low, high, _ in _lines(differences))


@pytest.mark.parametrize(("passed", "low", "high"), [(1, 0.7225, 1.0), (0, 0.0, 0.2775)])
def test_all_alike_still_has_a_bar(passed, low, high):
    runs = pd.DataFrame({"task_id": [f"t{i}" for i in range(10)], "repeat": 0, "success": passed, "strategy": "A"})
    (axes,) = forest(runs).axes
    assert _lines(axes)[0][:2] == pytest.approx((low, high), abs=1e-3)


def test_best_strategy_stands_on_top():
    figure = forest(make_runs(), "tool_loop")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["trio", "tool_loop", "react"]


def test_missing_results_make_the_marker_hollow_and_are_counted():
    runs = make_runs(("trio",))
    runs.loc[runs.index[:35], ["success", "outcome"]] = [pd.NA, "excluded"]
    figure = forest(runs)
    point = next(line for line in figure.axes[0].lines if line.get_markersize() > 8 and line.get_marker() == "P")
    assert point.get_markerfacecolor() == "white"
    assert any(text.endswith("/ 175\nof 210 planned") for text in words(figure))


def test_the_baseline_must_exist():
    with pytest.raises(ConfigError, match="Did you mean 'trio'"):
        forest(make_runs(flows=2, repeats=1), "trios")


def test_heat_map_cells_and_order():
    digits = {"hard": "0000", "mixed": "1010", "easy": "1111"}
    rows = [
        {"task_id": task, "repeat": i, "success": int(digit), "strategy": "A"}
        for task, text in digits.items()
        for i, digit in enumerate(text)
    ]
    rows.append({"task_id": "easy", "repeat": 0, "success": 1, "strategy": "B"})
    figure = stability_heatmap(pd.DataFrame(rows))
    cells = figure.axes[0]
    assert [label.get_text() for label in cells.get_yticklabels()] == ["hard", "mixed", "easy"]
    assert [item.get_text() for item in cells.texts] == ["0/4", "–", "2/4", "–", "4/4", "1/1"]
    assert "A: flip rate 0.22" in figure.caption
    assert "B: no data" in figure.caption


def test_heat_map_text_is_readable_on_every_shade():
    rows = [
        {"task_id": f"t{passed:02d}", "repeat": i, "success": int(i < passed), "strategy": "A"}
        for passed in range(11)
        for i in range(10)
    ]
    cells = stability_heatmap(pd.DataFrame(rows)).axes[0]
    image = cells.images[0]
    for y, item in enumerate(cells.texts):
        red, green, blue, _ = image.to_rgba(y / 10)
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
        luminance = float(np.dot(linear, [0.2126, 0.7152, 0.0722]))
        ink = 1.0 if item.get_color() == "white" else 0.0
        contrast = (max(ink, luminance) + 0.05) / (min(ink, luminance) + 0.05)
        assert contrast > 4.0, item.get_text()


def test_a_long_heat_map_shows_the_least_stable_tasks():
    rows = [
        {"task_id": f"t{i:03d}", "repeat": k, "success": k if i < 10 else 1, "strategy": "A"}
        for i in range(120)
        for k in range(2)
    ]
    figure = stability_heatmap(pd.DataFrame(rows))
    assert "80 of 120 tasks shown, the least stable ones." in words(figure)
    assert {f"t{i:03d}" for i in range(10)} <= set(words(figure))


def test_token_bars_add_up_to_the_mean_run():
    runs = make_runs(("trio",), flows=3, repeats=2)
    figure = tokens_by_actor(make_calls(runs), runs)
    total = sum(patch.get_width() for patch in figure.axes[0].patches)
    assert total == pytest.approx(runs["total_tokens"].astype(float).mean(), rel=0.01)
    assert {"navigator", "operator", "validator"} <= set(words(figure))


def test_unknown_usage_is_counted_beside_the_bar():
    runs = make_runs(("react",), flows=2, twins=0, repeats=2)
    runs.loc[runs.index[:2], "total_tokens"] = pd.NA
    figure = tokens_by_actor(make_calls(runs), runs)
    assert "2 of 4 runs: usage unknown" in words(figure)
    nothing = runs.assign(total_tokens=pd.array([pd.NA] * 4, dtype="Int64"))
    assert "no data" in words(tokens_by_actor(make_calls(nothing), nothing))


def test_calls_of_other_runs_are_refused():
    runs = make_runs(("react",), flows=2, repeats=1)
    calls = make_calls(runs).assign(run_id="other")
    with pytest.raises(ConfigError, match="load calls and runs of one source"):
        tokens_by_actor(calls, runs)


def test_failures_show_unknown_and_gather_the_rare():
    runs = make_runs(("react",), flows=10)
    failed = runs["success"] == 0
    causes = ["missed_check", "budget", "gave_up", "wrong_verdict", "invalid_plan", "escalated", "no_answer"]
    causes += ["false_finish", "loop_detected"]
    runs.loc[failed, "failure_class"] = np.resize(causes, int(failed.sum()))
    shown = words(failure_classes(runs))
    assert "other (2)" in shown
    assert "unknown" in shown
    assert f"{int(failed.sum())} of 150 failed" in shown


def test_no_failed_run_is_not_no_data():
    runs = make_runs(("react",), flows=2, repeats=1).assign(success=1)
    runs["success"] = runs["success"].astype("Int64")
    assert "no failed run" in words(failure_classes(runs))


def test_outcomes_are_split_by_truth():
    shown = words(outcomes(make_runs(("trio",)), "en"))
    assert {"tasks with a defect", "healthy tasks", "found", "clean"} <= set(shown)
    bars = outcomes(make_runs(("trio",))).axes[0].patches
    assert math.isclose(sum(bar.get_width() for bar in bars), 1)


def test_saving_needs_a_known_suffix(tmp_path):
    with pytest.raises(ConfigError, match=r"valid suffixes: \.png, \.svg, \.pdf"):
        save(Chart(), tmp_path / "chart.jpg")


def test_pyplot_is_never_imported():
    code = "import sys, agentlab.report.charts; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
