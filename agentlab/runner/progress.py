"""Show how far an experiment is: a bar in a terminal or notebook, one line per percent elsewhere."""

import sys
from types import TracebackType
from typing import Any, Protocol


class Progress(Protocol):
    """Counts finished runs."""

    def advance(self) -> None:
        """Count one more run."""

    def __enter__(self) -> "Progress": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...


def progress_for(total: int, name: str, *, is_quiet: bool = False) -> Progress:
    """Return a progress display that suits where the output goes."""
    if is_quiet:
        return PercentLines(total, name, stream=None)
    if sys.stderr.isatty() or _in_notebook():
        return _Bar(total, name)
    return PercentLines(total, name, stream=sys.stderr)


class PercentLines:
    """Prints one short line whenever another percent is reached, so that a log stays readable.

    Args:
        total: number of runs.
        name: of the experiment.
        stream: where to print; None prints nothing.
    """

    def __init__(self, total: int, name: str, stream: Any) -> None:
        self._total = total
        self._name = name
        self._stream = stream
        self._done = 0
        self._percent = 0

    def advance(self) -> None:
        """Count one more run."""
        self._done += 1
        percent = 100 * self._done // max(1, self._total)
        if percent > self._percent and self._stream is not None:
            print(f"{self._name}: {percent} % ({self._done}/{self._total} runs)", file=self._stream, flush=True)
        self._percent = percent

    def __enter__(self) -> "PercentLines":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None


class _Bar:
    def __init__(self, total: int, name: str) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(total=total, desc=name, unit="run")

    def advance(self) -> None:
        self._bar.update()

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.close()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
