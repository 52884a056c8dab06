import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentlab.observations import cut_middle, observe
from agentlab.records import ToolResult


@given(st.text(), st.integers(0, 300))
def test_a_cut_text_keeps_its_limit_and_stays_valid(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    assert len(cut) <= max(limit, 0) or cut == text
    assert cut == text or len(text) > limit


def test_a_cut_says_how_much_is_left_out_and_keeps_both_ends() -> None:
    cut = cut_middle("a" * 500 + "z" * 500, 300)
    assert cut.startswith("aaa")
    assert cut.endswith("zzz")
    assert "of 1000 characters are left out" in cut


@pytest.mark.parametrize(
    "result", [ToolResult(True, message="m" * 500, data={"kept": 1}), ToolResult(True, data=["x"] * 200)]
)
def test_whatever_is_too_long_the_cut_is_noticed(result: ToolResult) -> None:
    seen = observe(result, 300, "result_1")
    assert len(seen.text) <= 300
    assert seen.cut_chars > 0


def test_a_short_result_shows_only_what_is_known() -> None:
    text = observe(ToolResult(True, False, "amount", "O1", {"x": 1}), 300, "h").text
    assert text == '{"success": true, "passed": false, "check": "amount", "subject": "O1", "data": {"x": 1}}'
