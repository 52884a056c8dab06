import re
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib
import pytest
from matplotlib import font_manager
from report_frames import make_runs

from agentlab.errors import ConfigError
from agentlab.report import fonts
from agentlab.report.forest import forest
from agentlab.report.stability_chart import stability_heatmap

CHINESE = ("工具循环", "规划执行", "三智能体")


@pytest.fixture
def _no_chinese_font(monkeypatch):
    """As on a machine with no Chinese family installed and without the extra."""
    monkeypatch.delenv(fonts.VARIABLE, raising=False)
    monkeypatch.setattr(fonts, "FAMILIES", ())
    monkeypatch.setitem(sys.modules, fonts.EXTRA_PACKAGE, None)
    fonts._fonts.cache_clear()
    fonts._warn.cache_clear()
    yield
    fonts._fonts.cache_clear()
    fonts._warn.cache_clear()


def texts(figure):
    return [item.get_text() for item in figure.findobj(matplotlib.text.Text) if item.get_text()]


def test_a_font_with_the_sample_is_found():
    found = fonts.chart_fonts()
    assert found.has_chinese
    assert found.families[0] == "DejaVu Sans"
    assert found.can_draw("通过率 单循环/规划–执行/路由 误差 缺失 失败 −1 → ≥ ✓")
    assert found.drawable("ok \U0010fffd") == "ok ?"


def test_a_named_font_comes_first(monkeypatch):
    extra = pytest.importorskip(fonts.EXTRA_PACKAGE).sans_path()
    monkeypatch.setenv(fonts.VARIABLE, str(extra))
    assert fonts.chart_fonts().families == ("DejaVu Sans", "Noto Sans SC")


def test_a_named_file_that_is_no_font_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(fonts.VARIABLE, str(tmp_path / "none.otf"))
    with pytest.raises(ConfigError, match=r"AGENTLAB_FONT=.*none\.otf is no readable font file"):
        forest(make_runs(flows=2, repeats=1))


def test_a_named_font_without_chinese_is_refused(monkeypatch):
    monkeypatch.setenv(fonts.VARIABLE, font_manager.findfont("DejaVu Sans"))
    with pytest.raises(ConfigError, match="lacks the simplified Chinese characters 单规误败"):
        fonts.chart_fonts()


@pytest.mark.usefixtures("_no_chinese_font")
def test_without_a_font_labels_are_english_and_one_warning_says_why():
    runs = make_runs(CHINESE, flows=3, repeats=2)
    ids = {"工具循环": "tool_loop", "规划执行": "plan_execute", "三智能体": "trio"}
    runs["strategy_name"] = runs["strategy"].map(ids).astype("string")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chart = forest(runs, "工具循环", "zh", margin=0.05)
        chart._repr_png_()
        stability_heatmap(runs, "zh")._repr_png_()
    assert [str(item.message) for item in caught if "Chinese" in str(item.message)] == [str(caught[0].message)]
    assert len(caught) == 1
    assert "agentlab-compare[cjk]" in str(caught[0].message)
    shown = " ".join(texts(chart))
    assert not re.search("[一-鿿]", shown)
    assert {"tool_loop", "plan_execute", "trio"} <= set(texts(chart))
    assert "pass rate" in texts(chart)


@pytest.mark.usefixtures("_no_chinese_font")
def test_without_a_font_english_charts_need_no_warning():
    chart = forest(make_runs(flows=3, repeats=2, kind="simulated"), "tool_loop")
    assert "SIMULATED" in texts(chart)
    assert len(chart._repr_png_()) > 10_000


@pytest.mark.usefixtures("_no_chinese_font")
def test_names_without_an_english_id_are_numbered():
    runs = make_runs(CHINESE[:2], flows=2, repeats=1)
    with pytest.warns(UserWarning, match="No font with Chinese characters"):
        chart = forest(runs.drop(columns="strategy_name"))
    assert {"strategy 1", "strategy 2"} <= set(texts(chart))


def test_a_missing_extra_in_a_process_of_its_own(tmp_path):
    code = """
import sys, warnings
sys.modules["pylopdf_fonts_zh_cn"] = None
from agentlab.report import fonts
fonts.FAMILIES = ()
assert not fonts.chart_fonts().has_chinese
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_sample_is_what_the_labels_need():
    source = Path(fonts.__file__).with_name("labels.py").read_text(encoding="utf-8")
    characters = set(re.findall("[一-鿿]", source))
    assert fonts.chart_fonts().can_draw("".join(characters))
