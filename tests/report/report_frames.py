"""Synthetic `runs` and `calls` frames with the columns and dtypes of the store."""

import numpy as np
import pandas as pd

from agentlab.analysis.frames import to_frame
from agentlab.columns import CALLS, RUNS

TRIO_ACTORS = ("navigator", "operator", "validator")
RATES = {"tool_loop": 0.62, "react": 0.66, "plan_execute": 0.7, "trio": 0.86, "router": 0.8}
TOKENS = {"tool_loop": 4_000, "react": 5_200, "plan_execute": 4_600, "trio": 12_500, "router": 8_000}


def make_runs(
    strategies=("tool_loop", "react", "trio"),
    *,
    flows=14,
    twins=2,
    repeats=5,
    kind="real",
    rates=None,
    extra_tasks=0,
    seed=7,
    **columns,
) -> pd.DataFrame:
    """One row per run: per flow one healthy task and its twins; every eleventh run of the last strategy excluded."""
    rng = np.random.default_rng(seed)
    rates = {**RATES, **(rates or {})}
    difficulty = rng.normal(0, 1.1, flows)
    rows = []
    for repeat in range(repeats):
        for flow in range(flows):
            for twin in range(1 + twins + (extra_tasks if flow == 0 else 0)):
                for strategy in strategies:
                    rate = rates.get(strategy, 0.7)
                    logit = np.log(rate / (1 - rate)) - difficulty[flow] - 0.3 * bool(twin)
                    rows.append(_run(rng, strategy, flow, twin, repeat, 1 / (1 + np.exp(-logit)), kind))
    for row in rows:
        row.update(columns)
    return to_frame(rows, RUNS)


def _run(rng, strategy, flow, twin, repeat, chance, kind):
    right, defective = bool(rng.random() < chance), bool(twin)
    wrong = rng.choice(
        ["missed", "masked", "wrong_defect", "no_verdict"] if defective else ["false_alarm", "no_verdict"]
    )
    outcome = ("found" if defective else "clean") if right else str(wrong)
    causes = {"missed": "missed_check", "masked": "false_finish", "no_verdict": "budget"}
    tokens = int(TOKENS.get(strategy, 6_000) * rng.lognormal(0, 0.25))
    task = f"flow{flow:02d}" + (f"-defect{twin}" if twin else "")
    started = pd.Timestamp("2026-11-02T08:00Z") + pd.Timedelta(hours=12 * repeat + flow)
    return {
        "run_id": f"{task}/{strategy}/{repeat}",
        "attempt": 0,
        "n_attempts": 1,
        "experiment": "checkout_flows",
        "suite": "shop",
        "task_id": task,
        "cluster": f"flow{flow:02d}",
        "defective": defective,
        "truth_verdict": "failed" if defective else "passed",
        "strategy": strategy,
        "strategy_name": strategy,
        "answer_by": "python" if strategy in ("trio", "plan_execute") else "model",
        "model": f"{kind}:demo-model",
        "model_kind": kind,
        "repeat": repeat,
        "seed": repeat,
        "temperature": 0.7,
        "language": "en",
        "state": "finished",
        "end_reason": "answered" if outcome != "no_verdict" else "budget_total_tokens",
        "verdict": None if outcome == "no_verdict" else "failed" if outcome in ("found", "false_alarm") else "passed",
        "success": int(right),
        "outcome": outcome,
        "failure_class": None if right else causes.get(outcome, "wrong_verdict" if rng.random() < 0.8 else None),
        "budget_bound": "total_tokens" if outcome == "no_verdict" else None,
        "total_tokens": tokens,
        "known_tokens": tokens,
        "input_tokens": tokens - tokens // 8,
        "cached_input_tokens": tokens // 3,
        "output_tokens": tokens // 8,
        "cost_usd": tokens * 2e-6 if kind == "real" else None,
        "n_model_calls": 6,
        "started_at": started,
        "ended_at": started + pd.Timedelta(minutes=2),
        "package_version": "0.1.0",
    }


def make_calls(runs: pd.DataFrame) -> pd.DataFrame:
    """Six calls per run, by the actors of its strategy, that add up to the run's tokens."""
    rows = []
    for run in runs.to_dict("records"):
        actors = {"trio": TRIO_ACTORS, "router": ("router", *TRIO_ACTORS), "plan_execute": ("planner", "worker")}
        names = actors.get(run["strategy_name"], ("agent",))
        for call in range(6):
            known = not pd.isna(run["total_tokens"])
            share = int(run["total_tokens"]) // 6 if known else None
            rows.append(
                {
                    "run_id": run["run_id"],
                    "attempt": run["attempt"],
                    "call": call,
                    "actor": names[call % len(names)],
                    "input_tokens": share - share // 8 if known else None,
                    "cached_input_tokens": share // 3 if known else None,
                    "output_tokens": share // 8 if known else None,
                }
            )
    return to_frame(rows, CALLS)


def planned(strategy: str, n: int = 3) -> pd.DataFrame:
    """Runs that nobody has started."""
    rows = [
        {
            "run_id": f"planned/{strategy}/{i}", "attempt": 0, "experiment": "checkout_flows", "suite": "shop",
            "task_id": f"flow{i:02d}", "cluster": f"flow{i:02d}", "defective": False, "strategy": strategy,
            "strategy_name": strategy, "model": "real:demo-model", "model_kind": "real", "repeat": 0,
            "state": "planned",
        }
        for i in range(n)
    ]  # fmt: skip
    return to_frame(rows, RUNS)
