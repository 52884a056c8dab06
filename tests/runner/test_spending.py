"""Spending against a real server on loopback."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from fake_chat_server import ChatServer

from agentlab.analysis.frames import load_calls, load_runs
from agentlab.errors import ConfigError
from agentlab.models import openai_compatible
from agentlab.models.retry import RetryPolicy
from agentlab.runner.build import ModelPool
from agentlab.runner.dry_run import describe
from agentlab.runner.experiment import run_experiment
from agentlab.runner.spec import Experiment

ANSWER = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
    "usage": {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000},
}
WRONG_KEY = {"status": 401, "body": {"error": {"message": "bad key"}}}
QUOTA = {"status": 429, "body": {"error": {"message": "used up", "code": "insufficient_quota"}}}


def an_experiment(**fields: Any) -> Experiment:
    defaults: dict[str, Any] = {
        "name": "e",
        "suites": ["toy"],
        "strategies": ["tool_loop"],
        "models": ["openai:test-model"],
        "repeats": 1,
        "concurrency": 1,
    }
    return Experiment.model_validate(defaults | fields)


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("- {model: test-model, input_per_mtok: 100, output_per_mtok: 100, from: 2026-01-01}\n")
    monkeypatch.setenv("AGENTLAB_PRICES", str(path))


def test_a_token_limit_stops_starting_runs_and_holds_over_resumes(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": ANSWER}])
    experiment = an_experiment(max_tokens=3000)
    summary = run_experiment(experiment, out=tmp_path / "r", is_quiet=True)
    assert summary.executed == 3
    assert "max_tokens 3,000 is reached (at least 3,000)" in str(summary)
    assert run_experiment(experiment, out=tmp_path / "r", is_quiet=True).executed == 0
    raised = run_experiment(an_experiment(max_tokens=5000), out=tmp_path / "r", is_quiet=True)
    assert raised.executed == 2
    assert (load_runs(tmp_path / "r")["state"] == "planned").sum() == raised.planned - 5


@pytest.mark.usefixtures("prices")
def test_a_dollar_limit_counts_every_attempt(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": ANSWER}])
    summary = run_experiment(an_experiment(max_cost_usd=0.25), out=tmp_path / "r", is_quiet=True)
    assert summary.executed == 3
    assert load_runs(tmp_path / "r")["cost_usd"].dropna().tolist() == pytest.approx([0.1] * 3)


def test_a_dollar_limit_on_an_unpriced_model_is_refused(endpoint: ChatServer, tmp_path: Path) -> None:
    for fields in ({"max_cost_usd": 1.0}, {"budget": {"cost_usd": 0.1}}):
        with pytest.raises(ConfigError, match=r"openai:test-model has none.*AGENTLAB_PRICES.*max_tokens"):
            run_experiment(an_experiment(**fields), out=tmp_path / "r", is_quiet=True)
    with pytest.raises(ConfigError, match="simulated:perfect has none"):
        run_experiment(an_experiment(max_cost_usd=1.0, models=["simulated:perfect"]), out=tmp_path / "s", is_quiet=True)


def test_unknown_usage_still_counts_against_a_token_limit(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": {"choices": ANSWER["choices"]}}])
    summary = run_experiment(an_experiment(max_tokens=1000), out=tmp_path / "r", is_quiet=True)
    assert 0 < summary.executed < 5
    runs = load_runs(tmp_path / "r")
    assert runs["total_tokens"].isna().all()
    assert runs["cost_usd"].isna().all()


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("limits", [{"max_cost_usd": 0.1}, {"max_tokens": 1000}])
def test_unknown_usage_is_estimated_and_holds_over_resumes(
    limits: dict[str, Any], endpoint: ChatServer, tmp_path: Path
) -> None:
    endpoint.script([{"body": {"choices": ANSWER["choices"]}}])
    first = run_experiment(an_experiment(**limits), out=tmp_path / "r", is_quiet=True)
    assert 0 < first.executed < first.planned
    assert f"is an estimate for {len(endpoint.requests())} calls without usage" in str(first)
    assert f"{first.planned - first.executed} runs are still to do" in str(first)
    again = run_experiment(an_experiment(**limits), out=tmp_path / "r", is_quiet=True)
    assert again.executed == 0
    assert load_runs(tmp_path / "r")["cost_usd"].isna().all()


@pytest.mark.usefixtures("prices")
def test_a_dollar_budget_of_a_run_holds_without_usage(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": {"choices": ANSWER["choices"]}}])
    budget = {"cost_usd": 0.001, "model_calls": 3}
    run_experiment(an_experiment(budget=budget, strategies=["react"]), out=tmp_path / "r", is_quiet=True)
    runs = load_runs(tmp_path / "r")
    assert (runs["end_reason"] == "budget_cost_usd").all()
    assert (runs["n_model_calls"] == 1).all()


@pytest.mark.usefixtures("prices")
def test_a_refused_request_is_not_estimated(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([WRONG_KEY])
    summary = run_experiment(an_experiment(max_cost_usd=0.0001), out=tmp_path / "r", is_quiet=True)
    assert "max_cost_usd" not in str(summary)


def test_runs_that_are_done_are_not_still_to_do(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": ANSWER}])
    run_experiment(an_experiment(max_tokens=3000), out=tmp_path / "r", is_quiet=True)
    again = run_experiment(an_experiment(max_tokens=3000), out=tmp_path / "r", is_quiet=True)
    assert f": {again.planned - 3} runs are still to do." in str(again)


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize(
    ("status", "words", "advice"),
    [
        (401, "bad key", "Check the key in LLM_API_KEY."),
        (403, "no access", "The key in LLM_API_KEY may not use this model or address."),
        (404, "no such model", "the model name 'test-model'."),
    ],
)
def test_what_meets_every_run_stops_the_model(
    status: int, words: str, advice: str, concurrency: int, endpoint: ChatServer, tmp_path: Path
) -> None:
    endpoint.script([{"status": status, "body": {"error": {"message": words}}}])
    experiment = an_experiment(concurrency=concurrency)
    summary = run_experiment(experiment, out=tmp_path / "r", is_quiet=True)
    assert 3 <= summary.executed == summary.infrastructure <= 2 + concurrency
    assert len(endpoint.requests()) == summary.executed
    assert summary.is_failure
    text = str(summary)
    assert f"{summary.executed} x No answer from openai:test-model" in text
    assert text.count(words) == text.count(advice) == text.count("No further run of openai:test-model") == 1
    assert f"{summary.planned} of its runs are still to do" in text
    assert ".." not in text
    endpoint.script([{"body": ANSWER}])
    then = run_experiment(experiment, out=tmp_path / "r", is_quiet=True)
    assert (then.executed, then.is_failure) == (then.planned, False)


def test_a_model_that_has_answered_goes_on_after_such_failures(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": ANSWER}, *[WRONG_KEY] * 4, {"body": ANSWER}])
    summary = run_experiment(an_experiment(), out=tmp_path / "r", is_quiet=True)
    assert (summary.executed, summary.infrastructure, summary.is_failure) == (summary.planned, 4, False)


def test_nothing_listening_stops_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr(openai_compatible, "RetryPolicy", functools.partial(RetryPolicy, base_s=0.001))
    summary = run_experiment(an_experiment(), out=tmp_path / "r", is_quiet=True)
    assert summary.executed == 3
    assert "3 x No answer from openai:test-model after 5 sends to http://127.0.0.1:9/v1/chat" in str(summary)
    assert str(summary).count("nothing is listening at that address") == 1


def test_an_exhausted_quota_is_told_once(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([QUOTA])
    text = str(run_experiment(an_experiment(concurrency=8), out=tmp_path / "r", is_quiet=True))
    assert text.count("No further run") == text.count("used up") == text.count("Add credit") == 1
    assert ".." not in text
    assert "QuotaExhausted" not in text


def test_an_exhausted_quota_stops_the_model_and_says_why(endpoint: ChatServer, tmp_path: Path) -> None:
    endpoint.script([{"body": ANSWER}, {"body": ANSWER}, QUOTA])
    summary = run_experiment(an_experiment(), out=tmp_path / "r", is_quiet=True)
    assert (summary.executed, summary.infrastructure) == (3, 1)
    assert "No further run of openai:test-model was started" in str(summary)
    assert "used up" in str(summary)
    assert len(endpoint.requests()) == 3
    runs = load_runs(tmp_path / "r")
    assert runs["state"].value_counts()["planned"] == summary.planned - 3
    endpoint.script([{"body": ANSWER}])
    assert run_experiment(an_experiment(), out=tmp_path / "r", is_quiet=True).executed == summary.planned - 2


@pytest.mark.parametrize("limits", [{}, {"requests_per_minute": 6000}])
def test_retry_after_pauses_all_runs(endpoint: ChatServer, tmp_path: Path, limits: dict[str, int]) -> None:
    endpoint.script(
        [
            {"status": 429, "headers": {"retry-after": "1"}, "body": {"error": {"message": "slow down"}}},
            {"body": ANSWER},
        ]
    )
    run_experiment(an_experiment(concurrency=4, **limits), out=tmp_path / "r", is_quiet=True)
    calls = load_calls(tmp_path / "r")
    assert calls["wait_s"].max() >= 0.9
    assert (calls["wait_s"] > 0.3).sum() >= 3  # not only the one that was refused
    assert calls["n_sends"].sum() == len(calls) + 1
    runs = load_runs(tmp_path / "r")
    assert (runs["work_s"] < runs["wall_s"].max()).all()


@pytest.mark.usefixtures("prices")
def test_a_dry_run_shows_a_range_of_cost(endpoint: ChatServer) -> None:
    text = describe(an_experiment())
    assert "cost $" in text
    assert "unknown" not in text
    assert "tokens" in text


def test_one_limiter_serves_all_models(endpoint: ChatServer, tmp_path: Path) -> None:
    from agentlab.models.rate_limit import RateLimiter

    limiter = RateLimiter(requests_per_minute=1)
    pool = ModelPool(limiter)
    recorded = pool.get(f"record:{tmp_path / 'r.jsonl'}+openai:test-model")
    assert pool.get("openai:a").limiter is pool.get("openai:b").limiter is recorded.limiter is limiter  # type: ignore[attr-defined]
    json.dumps(sorted(recorded.capabilities))
