"""How far an experiment is, as text; reads the store only, so it can follow a running experiment."""

from pathlib import Path

import pandas as pd

from agentlab.analysis.frames import load_runs
from agentlab.secrets import without_password
from agentlab.store import Store


def status_text(folder: str | Path) -> str:
    """Return runs by strategy and state, end reasons, and how many attempts did not count.

    Once no process works on the experiment, runs that are marked as running count as interrupted.

    Raises:
        ConfigError: there is no experiment at this place.
    """
    store = Store(folder)
    try:
        about = store.experiment()
        n_running = store.counts()["running"]
    finally:
        store.close()
    runs = load_runs(folder)
    if runs.empty:
        return f"{about['experiment'] or 'no experiment yet'} in {without_password(str(folder))}: no run is planned yet"
    everything = load_runs(folder, attempts="all")
    states = runs["state"].astype("string")
    if n_running == 0:
        states = states.replace("running", "interrupted")
    done = int((states == "finished").sum())
    n_interrupted = int((states == "interrupted").sum())
    lines = [
        f"{about['experiment']} (seed {about['seed']}) in {without_password(str(folder))}",
        f"{done} of {len(runs)} runs finished, {len(everything) - len(runs)} further attempts kept beside them",
    ]
    if n_interrupted:
        lines.append(f"{n_interrupted} runs were interrupted; the same `agentlab run` runs them again")
    lines += ["", _table(pd.crosstab([runs["strategy"], runs["model"]], states))]
    ended = runs[runs["end_reason"].notna()]
    if len(ended):
        lines += ["", _table(pd.crosstab(ended["strategy"], ended["end_reason"].astype("string")))]
    troubles = ended.loc[ended["end_reason"].isin(["infrastructure", "error"]), "error"].dropna().value_counts()
    lines += [f"{count} x {message}" for message, count in troubles.head(5).items()]
    return "\n".join(lines)


def _table(frame: pd.DataFrame) -> str:
    return str(frame.to_string())
