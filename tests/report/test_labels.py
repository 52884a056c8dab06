import string

import pytest

from agentlab.columns import FAILURE_CLASSES, MODEL_KINDS, OUTCOMES
from agentlab.report.decision_texts import DESCRIPTIONS, KIND_WORDS, NOTES, PARTS, SENTENCES
from agentlab.report.labels import (
    ACTOR_WORDS,
    FAILURE_WORDS,
    OUTCOME_WORDS,
    TEXTS,
    percent,
    plural,
    signed,
    text,
    tight,
    word,
)

TABLES = [TEXTS, SENTENCES, DESCRIPTIONS, PARTS, NOTES, KIND_WORDS, FAILURE_WORDS, OUTCOME_WORDS, ACTOR_WORDS]
ENGLISH_ONLY = {"s", "s2", "s_flows", "s_tasks", "s_repeats", "are", "runs_word", "strategies_word"}


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


@pytest.mark.parametrize("table", TABLES)
def test_both_languages_say_the_same(table):
    for key, (english, chinese) in table.items():
        assert english, key
        # Chinese may have to name the baseline where English says "the".
        assert fields(english) - ENGLISH_ONLY - {"baseline"} == fields(chinese) - {"baseline"}, key


def test_every_level_has_words():
    assert set(FAILURE_CLASSES) <= set(FAILURE_WORDS)
    assert set(OUTCOMES) <= set(OUTCOME_WORDS)
    for kind in MODEL_KINDS:
        assert text(f"kind_{kind}", "zh")
    assert word(FAILURE_WORDS, "brand_new", "zh") == "brand new"


def test_chinese_names_have_no_spaces_around():
    assert tight("与 工具循环 的差异，与 trio 的差异") == "与工具循环的差异，与 trio 的差异"


def test_numbers():
    assert (signed(0.1234), signed(-0.05), signed(0.0), signed(-0.0001)) == ("+12.3", "−5.0", "0.0", "0.0")
    assert (percent(0.5, "en"), percent(0.5, "zh")) == ("50 %", "50%")
    assert (plural(1), plural(2)) == ("", "s")
