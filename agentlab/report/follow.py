"""Follow a running experiment from outside: it reads the store only, so stopping it stops nothing."""

import time
from pathlib import Path

from agentlab.html_text import lines, table
from agentlab.store import Store

START_S = 60.0
"""As long may a process plan its runs, or load a model, before nothing planned counts as over."""
ENDED = ("finished", "interrupted")


class Following:
    """How far an experiment is at one moment; a notebook shows it as a table."""

    def __init__(self, experiment: str, counts: dict[str, int]) -> None:
        self.experiment = experiment
        self.counts = counts

    @property
    def total(self) -> int:
        """Runs of the grid."""
        return sum(self.counts.values())

    @property
    def finished(self) -> int:
        """Runs that are finished."""
        return self.counts.get("finished", 0)

    @property
    def is_at_rest(self) -> bool:
        """True when no process works on it: everything is finished, or what was running has died or was stopped."""
        return self.counts.get("running", 0) == 0

    @property
    def is_complete(self) -> bool:
        """True when every run of the grid has ended."""
        return self.total > 0 and self.total == sum(self.counts.get(state, 0) for state in ENDED)

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        return f"{self.experiment}: {self.finished} of {self.total} runs finished ({states or 'none is planned yet'})"

    def _repr_html_(self) -> str:
        return lines(str(self)) + table(list(self.counts), [list(self.counts.values())])


def look_at(folder: str | Path) -> Following:
    """Return how far an experiment is now; runs of a process that is gone count as interrupted.

    Raises:
        ConfigError: there is no experiment at this place.
    """
    store = Store(folder)
    try:
        return Following(store.experiment()["experiment"] or "no experiment yet", store.counts())
    finally:
        store.close()


def follow(folder: str | Path, *, interval_s: float = 2.0, timeout_s: float | None = None) -> Following:
    """Show progress until no process works on the experiment any more, or the time is up; return the last look.

    Between two runs, and before the first, nothing runs for a moment: unless all runs have ended, two looks in a row
    must show the same rest. While no run is planned yet, it looks for up to `START_S` seconds.

    Args:
        folder: results folder or database URL of an experiment that runs elsewhere.
        interval_s: seconds between looks.
        timeout_s: stop looking after this; None looks until the experiment rests.

    Raises:
        ConfigError: there is no experiment at this place.
        KeyboardInterrupt: the looking was stopped; the experiment goes on.
    """
    from tqdm.auto import tqdm

    started = time.monotonic()
    now = look_at(folder)
    with tqdm(total=now.total, initial=now.finished, desc=now.experiment, unit="run") as bar:
        before: Following | None = None
        while not _is_over(now, before, looked_s := time.monotonic() - started) and (
            timeout_s is None or looked_s < timeout_s
        ):
            time.sleep(interval_s)
            before, now = now, look_at(folder)
            bar.total = now.total
            bar.update(now.finished - bar.n)
    return now


def _is_over(now: Following, before: Following | None, looked_s: float) -> bool:
    if now.total == 0:
        return looked_s >= START_S
    return now.is_at_rest and (now.is_complete or (before is not None and before.counts == now.counts))
