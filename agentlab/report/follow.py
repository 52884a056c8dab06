"""Follow a running experiment from outside: it reads the store only, so stopping it stops nothing."""

import time
from pathlib import Path

from agentlab.html_text import lines, table
from agentlab.store import Store

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

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in self.counts.items() if count)
        return f"{self.experiment}: {self.finished} of {self.total} runs finished ({states or 'no runs yet'})"

    def _repr_html_(self) -> str:
        return lines(str(self)) + table(list(self.counts), [list(self.counts.values())])


def look_at(folder: str | Path) -> Following:
    """Return how far an experiment is now; runs of a process that is gone count as interrupted.

    Raises:
        ConfigError: there is no experiment at this place.
    """
    store = Store(folder)
    try:
        return Following(str(store.experiment()["experiment"]), store.counts())
    finally:
        store.close()


def follow(folder: str | Path, *, interval_s: float = 2.0, timeout_s: float | None = None) -> Following:
    """Show progress until no process works on the experiment any more, or the time is up; return the last look.

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
        while not now.is_at_rest and (timeout_s is None or time.monotonic() - started < timeout_s):
            time.sleep(interval_s)
            now = look_at(folder)
            bar.total = now.total
            bar.update(now.finished - bar.n)
    return now
