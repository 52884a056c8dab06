"""What a dry run says about limits."""

import re
from pathlib import Path
from typing import Any

import pytest
from fake_chat_server import ChatServer

from agentlab.analysis.frames import load_runs
from agentlab.errors import ConfigError
from agentlab.runner.dry_run import describe
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import Experiment


def an_experiment(**fields: Any) -> Experiment:
    defaults: dict[str, Any] = {"name": "e", "suites": ["toy"], "strategies": ["tool_loop"], "models": ["openai:m"]}
    return Experiment.model_validate({**defaults, "repeats": 1, **fields})


@pytest.fixture(autouse=True)
def _a_server(endpoint: ChatServer) -> None:
    """Models can be built; nothing is sent."""


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("- {model: m, input_per_mtok: 100, output_per_mtok: 100}\n")
    monkeypatch.setenv("AGENTLAB_PRICES", str(path))


@pytest.mark.parametrize("fields", [{"max_cost_usd": 1.0}, {"budget": {"cost_usd": 0.1}}])
def test_a_dollar_limit_on_an_unpriced_model_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"openai:m has none.*AGENTLAB_PRICES"):
        describe(an_experiment(**fields))


@pytest.mark.usefixtures("prices")
def test_the_limits_are_shown() -> None:
    text = describe(an_experiment(max_cost_usd=1.5, max_tokens=20000, budget={"model_calls": 5, "cost_usd": 0.25}))
    assert "max_cost_usd $1.5:" in text
    assert "max_tokens 20,000:" in text
    assert "budget of a run: model_calls 5, cost_usd 0.25" in text
    assert "budget of a run: auto" in describe(an_experiment())
    assert "budget of a run: unlimited" in describe(an_experiment(budget={}))


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize(
    ("budget", "bounds"),
    [
        ({"cost_usd": 0.01}, ["cost $0.20"]),
        ({"cost_usd": 0.5}, ["to $10.00", "to unknown"]),
        ({"model_calls": 9}, ["to 180,", "cost $"]),
        ({"model_calls": 2, "total_tokens": 1000}, ["model calls 20 to 20", "to 20,000", "to $2.00"]),
    ],
)
def test_budgets_are_upper_bounds(budget: dict[str, Any], bounds: list[str]) -> None:
    text = describe(an_experiment(budget=budget))
    assert "20 runs" in text
    for words in bounds:
        assert words in text
    if "cost_usd" not in budget:
        assert "unknown" not in text


def test_what_runs_really_take_lies_within_the_range(tmp_path: Path) -> None:
    experiment = Experiment(
        name="range",
        suites=("toy",),
        strategies=("tool_loop", "react", "plan_execute"),  # type: ignore[arg-type]
        models=("simulated:context_decay",),
        repeats=1,
        temperature=0.5,
    )
    lines = describe(experiment).splitlines()
    run_experiment(experiment, out=tmp_path, is_quiet=True)
    for strategy, used in load_runs(tmp_path).groupby("strategy", observed=True):
        line = next(line for line in lines if f"{strategy} with" in line)
        found = re.search(r"model calls ([\d,]+) to ([\d,]+), tokens ([\d,]+) to ([\d,]+)", line)
        assert found is not None
        calls_low, calls_high, low, high = (int(number.replace(",", "")) for number in found.groups())
        assert calls_low <= used["n_model_calls"].sum() <= calls_high
        assert low <= used["total_tokens"].sum() <= high
