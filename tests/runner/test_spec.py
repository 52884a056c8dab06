from pathlib import Path
from typing import Any

import pytest

from agentlab.budget import Budget
from agentlab.errors import ConfigError
from agentlab.runner.build import ModelPool, plan_runs
from agentlab.runner.dry_run import describe
from agentlab.runner.spec import Experiment, load_experiment

SPEC = """name: e
question: which one?
suites: orders
tasks: [order-1002]
strategies:
  - tool_loop
  - {name: react, label: react-8, parameters: {max_rounds: 8}}
models: ["simulated:perfect"]
repeats: 2
temperature: 0.7
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "e.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def test_a_declaration_is_read(spec: Path) -> None:
    experiment = load_experiment(spec)
    assert experiment.suites == ("orders",)
    assert [entry.title for entry in experiment.strategies] == ["tool_loop", "react-8"]
    assert experiment.replaced(repeats=5, seed=None).repeats == 5


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("repeats: 2", "repeats: 0", ["line 9", "repeats", "greater than 0", "found 0"]),
        ("repeats: 2", "repeats: true", ["line 9", "true is no number"]),
        ("repeats: 2", "repeets: 2", ["line 9", "unknown field 'repeets'", "repeats"]),
        ("question: which one?", "languages: [fr]", ["line 2", "'zh' or 'en'", "found 'fr'"]),
        ("label: react-8", "labell: react-8", ["line 7", "unknown field 'labell'", "label"]),
        ("label: react-8", "label: tool_loop", ["same label"]),
        ("suites: orders\n", "", ["suites", "Needed: name, suites"]),
        ("repeats: 2", "budget: {total_tokens: -1}", ["line 9", "total_tokens"]),
        ("repeats: 2", "baseline: plan", ["baseline 'plan'", "tool_loop"]),
        ("repeats: 2", "repeats: [2", ["not valid YAML", "line"]),
        ("name: e", "name: a/b", ["line 1", "name"]),
        ("name: e", "name: ..", ["line 1", "folder", "found '..'"]),
        ("repeats: 2", "repeats: 2\nrepeats: 3", ["line 10", "the key 'repeats' stands in line 9 already"]),
        ("repeats: 2", "seed: 2026-13-45", ["not valid YAML", 'e.yaml", line 9', "month must be in 1..12"]),
        ("repeats: 2", "repeats: [2\nx: {", ['e.yaml", line']),
        ("- tool_loop", "- tool_lop", ["line 6", "Unknown strategy 'tool_lop'", "Did you mean 'tool_loop'"]),
        ("max_rounds: 8", "max_round: 8", ["line 7", "Unknown parameter of react 'max_round'", "max_rounds"]),
        ("max_rounds: 8", "max_rounds: -3", ["line 7", "max_rounds is -3, expected a whole number of at least 1"]),
        ("suites: orders", "suites: ordrs", ["line 3", "Unknown suite 'ordrs'", "orders"]),
        ("[order-1002]", "[order-1002, order-102]", ["line 4", "Unknown task 'order-102'", "order-1002"]),
        ("[order-1002]", "[order-1002, order-1002]", ["line 4", "order-1002 stands here more than once"]),
        ("simulated:perfect", "simulatd:perfect", ["line 8", "Unknown model provider 'simulatd'", "simulated"]),
        ('"simulated:perfect"', "scripted:a, scripted:a", ["line 8", "scripted:a stands here more than once"]),
        (
            "  - tool_loop\n  - {name: react, label: react-8, parameters: {max_rounds: 8}}\n",
            "  tool_loop\n",
            ["line 5", "strategies must be a list, for example `strategies: [tool_loop]`"],
        ),
    ],
)
def test_a_broken_declaration_names_file_line_and_what_is_allowed(
    spec: Path, old: str, new: str, words: list[str]
) -> None:
    spec.write_text(SPEC.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_experiment(spec)
    for word in ["e.yaml", *words]:
        assert word in str(caught.value)


def test_a_missing_file_lists_those_that_are_there(spec: Path) -> None:
    with pytest.raises(ConfigError, match=r"Experiment files here: .*e\.yaml"):
        load_experiment(spec.with_name("f.yaml"))
    spec.write_text("- a list", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1: an experiment is a mapping"):
        load_experiment(spec)


def plan(**fields: Any) -> list[Any]:
    defaults: dict[str, Any] = {
        "name": "e",
        "suites": ["toy"],
        "strategies": ["tool_loop"],
        "models": ["simulated:perfect"],
        "repeats": 1,
    }
    return plan_runs(Experiment.model_validate(defaults | fields), ModelPool())


def ids(**fields: Any) -> set[str]:
    return {run.run_id for run in plan(**fields)}


@pytest.mark.parametrize(
    "change",
    [
        {"strategies": ["react"]},
        {"strategies": [{"name": "tool_loop", "parameters": {"max_rounds": 8}}]},
        {"models": ["simulated:careless"]},
        {"languages": ["zh"]},
        {"budget": Budget(model_calls=5)},
        {"seed": 1},
        {"temperature": 0.5},
        {"max_output_tokens": 100},
        {"examples": "one"},
        {"approvals": "allow"},
    ],
    ids=str,
)
def test_every_factor_makes_another_run(change: dict[str, Any]) -> None:
    assert not ids() & ids(**change)


@pytest.mark.parametrize(
    "same",
    [
        {"concurrency": 1},
        {"question": "other"},
        {"margin": 0.2},
        {"strategies": [{"name": "tool_loop", "label": "x"}]},
        {"strategies": [{"name": "tool_loop", "parameters": {"max_rounds": None}}]},
    ],
    ids=str,
)
def test_what_is_no_factor_makes_the_same_run(same: dict[str, Any]) -> None:
    assert ids() == ids(**same)


def test_raising_repeats_adds_runs_and_prompts_tasks_and_tools_are_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids() < ids(repeats=2)
    factors = plan()[0].factors
    assert set(factors) == {
        "task",
        "strategy",
        "prompts",
        "tools",
        "environment",
        "model",
        "settings",
        "budget",
        "repeat",
        "seed",
    }
    from agentlab.runner import build

    monkeypatch.setattr(build, "prompt_hash", lambda names, language: "another wording")
    assert not ids() & {run.run_id for run in plan(repeats=1)} - ids()


def test_the_order_is_stable_and_repeats_are_outermost() -> None:
    runs = plan(repeats=2, strategies=["tool_loop", "react"])
    half = len(runs) // 2
    assert {run.cell.repeat for run in runs[:half]} == {0}
    assert [run.cell.strategy.name for run in runs[:4]] == ["tool_loop", "react"] * 2
    assert [run.run_id for run in runs] == [run.run_id for run in plan(repeats=2, strategies=["tool_loop", "react"])]
    assert [run.task.id for run in runs] != [
        run.task.id for run in plan(repeats=2, strategies=["tool_loop", "react"], seed=9)
    ]


def test_the_same_run_twice_is_refused() -> None:
    twice = [{"name": "tool_loop", "label": "a"}, {"name": "tool_loop", "label": "b"}]
    with pytest.raises(ConfigError, match="same in every factor"):
        plan(strategies=twice)


def test_a_dry_run_shows_ranges_and_unknown_cost(spec: Path) -> None:
    text = describe(load_experiment(spec))
    assert "4 runs" in text
    assert "cost unknown" in text
    assert "unknown to" not in text
    priced = describe(load_experiment(spec).replaced(temperature=0.0, models=("simulated:perfect",)))
    assert "repeats at temperature 0" in priced


def test_equal_keys_in_one_line_are_told_too(spec: Path) -> None:
    spec.write_text(SPEC.replace("max_rounds: 8", "max_rounds: 8, max_rounds: 9"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 7: the key 'max_rounds' stands in line 7 already"):
        load_experiment(spec)


def test_keys_that_come_from_an_anchor_may_be_overwritten(spec: Path) -> None:
    text = "environment: {a: &base {x: 1, y: 2}, b: {<<: *base, y: 3}}\n"
    spec.write_text(SPEC + text, encoding="utf-8")
    assert load_experiment(spec).environment["b"] == {"x": 1, "y": 3}


def test_a_file_that_is_no_utf_8_and_a_folder_are_named(spec: Path) -> None:
    spec.write_bytes("name: e\nquestion: größer?\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"e\.yaml, line 2: this is no UTF-8 text"):
        load_experiment(spec)
    folder = spec.with_name("folder.yaml")
    folder.mkdir()
    with pytest.raises(ConfigError, match=r"folder\.yaml: Is a directory\. Experiment files here: [^ ]*e\.yaml\.$"):
        load_experiment(folder)


@pytest.mark.parametrize(
    ("strategy", "parameters", "words"),
    [
        (
            "tool_loop",
            {"max_rounds": 0},
            "max_rounds is 0, expected a whole number of at least 1, or null for no limit",
        ),
        ("react", {"max_rounds": "x"}, "max_rounds is 'x', expected a whole number of at least 1"),
        ("react", {"max_rounds": True}, "max_rounds is True, expected"),
        ("plan_execute", {"max_replans": "many"}, "max_replans is 'many', expected a whole number of at least 0."),
        ("plan_execute", {"max_repairs": -1}, "max_repairs is -1, expected a whole number of at least 0."),
        ("plan_execute", {"parallelism": 1.5}, "parallelism is 1.5, expected a whole number of at least 1."),
        ("plan_execute", {"max_steps": None}, "max_steps is None, expected a whole number of at least 1."),
    ],
)
def test_a_parameter_that_cannot_work_is_refused(strategy: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(strategies=[{"name": strategy, "parameters": parameters}])
    assert words in str(caught.value)


def test_a_declaration_is_a_table_in_a_notebook(spec: Path) -> None:
    html = load_experiment(spec)._repr_html_()
    assert "<p>which one?</p>" in html
    assert "<td>react-8</td><td>react</td><td>{&quot;max_rounds&quot;: 8}</td>" in html
    assert "<td>repeats</td><td>2</td>" in html
    assert "margin" not in html, "what was left at its default is not shown"
