"""What the notebooks show of a run and of an experiment: small frames and texts, computed here, shown there."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import agentlab
from agentlab.analysis.frames import load_runs
from agentlab.analysis.rates import by_strategy
from agentlab.environments.base import Suite, load_suite
from agentlab.records import Event
from agentlab.report.run_report import run_report
from agentlab.report.trace_text import trace_lines
from agentlab.runner.run_one import RunResult
from agentlab.secrets import without_password
from agentlab.store import Store

_KIND_WORDS = {
    "simulated": "SIMULATED - not evidence about any model",
    "scripted": "scripted replies",
    "replay": "replayed",
}


def provenance(folder: str | Path) -> str:
    """Return where numbers come from: experiment, seed, kinds of models, data fingerprint, versions."""
    store = Store(folder)
    try:
        about = store.experiment()
    finally:
        store.close()
    runs = load_runs(folder, attempts="all")
    kinds = ", ".join(
        f"{kind} ({_KIND_WORDS.get(kind, kind)})" for kind in sorted(runs["model_kind"].dropna().unique())
    )
    return "\n".join(
        [
            f"experiment {about['experiment']}, seed {about['seed']}, {without_password(str(folder))}",
            f"models: {', '.join(sorted(runs['model'].dropna().unique()))}; kind: {kinds}",
            f"data {fingerprint(runs)}: {len(runs)} attempts, {int((runs['state'] == 'finished').sum())} finished",
            f"agentlab {agentlab.__version__}",
        ]
    )


def headline_rates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rate table with the columns that a first look needs, rounded; all are in `by_strategy`."""
    columns = ["pass_rate", "low", "high", "healthy_rate", "defective_rate", "defect_recall", "false_alarm_rate"]
    columns += ["flip_rate", "evaluable", "planned", "excluded", "tokens_per_run", "answer_by"]
    return by_strategy(runs)[columns].round(3)


def fingerprint(runs: pd.DataFrame) -> str:
    """Return a short hash that changes when any attempt's identity or result changes."""
    columns = ["run_id", "attempt", "end_reason", "success", "total_tokens"]
    text = runs.sort_values(["run_id", "attempt"])[columns].to_csv(index=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_provenance(result: RunResult) -> str:
    """Return what produced a single run, with the mark of its kind of model."""
    kind = _KIND_WORDS.get(result.model_kind, result.model_kind)
    return f"{result.strategy} with {result.model} ({kind}), task {result.task.id}, agentlab {agentlab.__version__}"


def prompt_text(events: Sequence[Event]) -> str:
    """Return the messages of the first model call, each under its role."""
    first = next(event.data for event in events if event.kind == "model_call")
    return "\n\n".join(f"--- {message['role']} ---\n{message['content']}" for message in first["messages"])


def conversation(events: Sequence[Event]) -> str:
    """Return the whole trace as text, without the prompt that `prompt_text` shows."""
    lines: list[str] = []
    for number, event in enumerate(event for event in events if event.kind not in ("run_start", "run_end")):
        shown = trace_lines(event)
        lines += [line for line in shown if not (number == 0 and line.lstrip().startswith(("system>", "user>")))]
    return "\n".join(lines)


def calls_table(events: Sequence[Event]) -> pd.DataFrame:
    """Return one row per tool call: round, tool, arguments, both axes and the observation."""
    columns = ["round", "tool", "arguments", "executed", "success", "check", "passed", "error_kind", "observation"]
    rows = [{name: getattr(call, name) for name in columns} for call in run_report(events).calls]
    return pd.DataFrame(rows, columns=columns)


def checks_table(result: RunResult) -> pd.DataFrame:
    """Return one row per criterion: the truth, the claim, whether the trace supports it, and whether it is right."""
    rows = [
        {"criterion": c.key, "truth": c.truth, "claimed": c.claimed, "supported": c.supported, "right": c.is_right}
        for c in result.score.checks
    ]
    return pd.DataFrame(rows, columns=["criterion", "truth", "claimed", "supported", "right"])


def judgement(result: RunResult) -> str:
    """Return the judgement of a run in one line."""
    score = result.score
    return f"verdict {score.verdict}, success {score.success}, outcome {score.outcome}, end_reason {result.end_reason}"


def suite_with(name: str, **settings: Any) -> Suite:
    """Return a suite whose environment has these settings, as an experiment's `environment` would give them.

    Raises:
        ConfigError: no such suite; an unknown setting is refused when a run starts.
    """
    suite = load_suite(name)
    return dataclasses.replace(suite, make_environment=lambda given: suite.make_environment({**settings, **given}))
