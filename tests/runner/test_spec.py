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
        ("repeats: 2", "repeets: 2", ["line 9", "unknown field 'repeets'", "repeats"]),
        ("question: which one?", "languages: [fr]", ["line 2", "'zh' or 'en'", "found 'fr'"]),
        ("label: react-8", "labell: react-8", ["line 7", "unknown field 'labell'", "label"]),
        ("label: react-8", "label: tool_loop", ["same label"]),
        ("suites: orders\n", "", ["suites", "Needed: name, suites"]),
        ("repeats: 2", "budget: {total_tokens: -1}", ["line 9", "total_tokens"]),
        ("repeats: 2", "baseline: plan", ["baseline 'plan'", "tool_loop"]),
        ("repeats: 2", "repeats: [2", ["not valid YAML", "line"]),
        ("name: e", "name: a/b", ["line 1", "name"]),
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
