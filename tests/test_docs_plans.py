"""The documents about plans: their examples are accepted, and both languages have the same."""

import json
import re
from pathlib import Path

import doc_blocks
import doc_plans
import pytest
import yaml
from doc_commands import DocumentProblem

from agentlab.environments.base import load_suite
from agentlab.planning.policy import load_policy
from agentlab.planning.reading import read_plan

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("docs/plans.md", "docs/plans.zh-CN.md")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_shown_plans_and_policies_are_accepted(name: str) -> None:
    plan, step = blocks(name, "json")
    tools = list(load_suite("sales").make_environment({}).tools())
    graph = read_plan(plan, tools)
    assert graph.ancestors("confirm") == ("order", "stock", "deduction")
    assert not graph.notes
    orders = list(load_suite("orders").make_environment({}).tools())
    listed = {"id": "orders", "description": "List", "tool": "query_user_orders", "arguments": {"user_id": "USER001"}}
    assert read_plan(json.dumps({"steps": [listed, json.loads(step)]}), orders).step("amounts").kind == "map"
    example, _ = blocks(name, "yaml")
    assert load_policy(yaml.safe_load(example)).name == "fulfilment"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_tables_are_those_of_the_code(name: str) -> None:
    language = "zh" if "zh-CN" in name else "en"
    assert doc_blocks.with_generated(read(name), language) == read(name)
    assert {found["name"] for found in doc_blocks.MARKED.finditer(read(name))} == set(doc_plans.BLOCKS)


def test_both_languages_have_the_same_structure_and_the_same_code() -> None:
    def shape(name: str) -> list[str]:
        return re.findall(r"^(#+ |<!-- .* -->|\| --- .*|```\w+)", read(name), re.MULTILINE)

    def code(name: str) -> list[str]:
        return [block.replace(" --lang zh", "") for kind in ("json", "yaml", "sh") for block in blocks(name, kind)]

    english, chinese = DOCUMENTS
    assert shape(english) == shape(chinese)
    assert code(english) == code(chinese)


def test_a_field_that_nobody_explains_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(doc_plans.FIELDS_ZH, "over")  # type: ignore[arg-type]
    with pytest.raises(DocumentProblem, match="over of a plan is not explained"):
        doc_plans.plan_fields("", "zh")


def test_the_named_policies_can_be_read_back() -> None:
    (written,) = re.findall(r"```yaml\n(.*)```", doc_plans.policies("", "en"), re.DOTALL)
    assert [load_policy(data) for data in yaml.safe_load(written)] == list(doc_plans.POLICIES.values())
