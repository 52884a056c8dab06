"""Models of which no further run is started, because it would fail as the runs before it did."""

from collections import Counter

from agentlab.runner.run_one import RunResult

HOPELESS_KINDS = frozenset({"wrong_key", "not_found", "refused", "unknown_host"})
"""Values of `ModelUnavailable.kind` that meet every run of a model alike, as long as nobody changes the setting."""
RUNS_UNTIL_STOPPED = 3
"""So many runs in a row must fail for such a cause: one alone may be a server that is just being restarted."""


class StoppedModels:
    """Learns from the runs of this process; a model that has once answered is stopped by its quota alone."""

    def __init__(self) -> None:
        self._stopped: set[str] = set()
        self._answered: set[str] = set()
        self._in_a_row: Counter[str] = Counter()

    def __contains__(self, model: str) -> bool:
        return model in self._stopped

    def names(self) -> list[str]:
        """Return the stopped models, sorted."""
        return sorted(self._stopped)

    def learn(self, model: str, result: RunResult) -> None:
        """Take in how a run of the model ended."""
        if result.is_quota_exhausted:
            self._stopped.add(model)
        elif result.end_reason != "infrastructure":
            self._answered.add(model)
        elif result.failure_kind not in HOPELESS_KINDS:
            self._in_a_row[model] = 0
        elif model not in self._answered:
            self._in_a_row[model] += 1
            if self._in_a_row[model] >= RUNS_UNTIL_STOPPED:
                self._stopped.add(model)
