import re
import string
from pathlib import Path

import pytest

import agentlab.prompts
from agentlab.answers import read_answer
from agentlab.environments.base import SUITES, load_suite
from agentlab.errors import ConfigError
from agentlab.prompts import LANGUAGES, load_prompt, prompt_hash

FOLDER = Path(agentlab.prompts.__file__).parent
NAMES = sorted({path.name.split(".")[0] for path in FOLDER.glob("*.md")})
TEMPLATES = {"task": {"instruction", "criteria"}, "react": {"tools"}, "plan_execute": {"tools", "max_steps"}}


def test_every_prompt_exists_in_both_languages() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == {f"{n}.{lang}.md" for n in NAMES for lang in LANGUAGES}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_have_their_placeholders_and_no_others(name: str, language: str) -> None:
    fields = {field for _, field, _, _ in string.Formatter().parse(load_prompt(name, language)) if field is not None}
    assert fields == TEMPLATES[name]


@pytest.mark.parametrize("name", ["task", "answer_format", "tool_loop", "react", "example_native", "example_react"])
def test_both_languages_name_the_same_things(name: str) -> None:
    english, chinese = (re.findall(r"`\w+`|\{\w+\}|\b[a-z]+_[a-z_]+\b|@\w+", load_prompt(name, x)) for x in LANGUAGES)
    assert sorted(set(english)) == sorted(set(chinese))


@pytest.mark.parametrize("language", LANGUAGES)
def test_rules_are_shared_by_all_strategies(language: str) -> None:
    numbered = re.findall(r"^\d\.", load_prompt("task", language), re.MULTILINE)
    assert len(numbered) == 7


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["example_native", "example_react"])
def test_the_example_ends_in_a_readable_answer(name: str, language: str) -> None:
    last_line = load_prompt(name, language).splitlines()[-1]
    answer = read_answer(last_line)
    assert answer is not None
    assert [finding.key for finding in answer.findings] == ["closes@DOOR7", "locks@DOOR7"]
    assert answer.verdict == "failed"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_template_of_the_answer_is_no_answer(language: str) -> None:
    assert read_answer(load_prompt("answer_format", language)) is None


@pytest.mark.parametrize("suite_name", [name for name in SUITES if name == "orders"])
def test_no_prompt_speaks_of_a_suite(suite_name: str) -> None:
    suite = load_suite(suite_name)
    environment = suite.make_environment({})
    words = {tool.name for tool in environment.tools()} | {task.subject for task in suite.tasks if task.subject}
    words |= {criterion.name for task in suite.tasks for criterion in task.criteria}
    environment.close()
    for name in NAMES:
        for language in LANGUAGES:
            written = set(re.findall(r"\w+", load_prompt(name, language), re.ASCII))
            assert not words & written, f"{name}.{language}"


def test_hash_depends_on_text_order_and_language() -> None:
    hashes = {
        prompt_hash(["task"], "en"),
        prompt_hash(["task"], "zh"),
        prompt_hash(["task", "tool_loop"], "en"),
        prompt_hash(["tool_loop", "task"], "en"),
    }
    assert len(hashes) == 4
    assert prompt_hash(iter(["task"]), "en") == prompt_hash(("task",), "en")


def test_unknown_names_list_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'tool_loop'.*answer_format"):
        load_prompt("tool_lop", "en")
    with pytest.raises(ConfigError, match="en, zh"):
        load_prompt("task", "de")
