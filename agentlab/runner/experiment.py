"""Run an experiment: the grid, bounded concurrency, resume, progress. The only layer that writes to the store."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentlab.errors import AgentLabError, Interrupted, StoreError
from agentlab.html_text import lines, table
from agentlab.models.rate_limit import RateLimiter
from agentlab.runner.blocking import run_blocking
from agentlab.runner.build import ModelPool, PlannedRun, plan_runs
from agentlab.runner.progress import Progress, progress_for
from agentlab.runner.rows import call_rows, run_row, step_rows
from agentlab.runner.run_one import RunResult, knowledge_of, run_one
from agentlab.runner.spec import Experiment, load_experiment
from agentlab.runner.spending import SPENT_COLUMNS, Spending, refuse_unpriced
from agentlab.runner.stopped_models import StoppedModels
from agentlab.runner.store_writer import StoreWriter
from agentlab.secrets import without_password
from agentlab.store import HEARTBEAT_S, TRIED_AGAIN, Store
from agentlab.store_connection import BUSY_TIMEOUT_S
from agentlab.trace import pack

RESULTS = Path("results")
MOST_CAUSES_SHOWN = 5


@dataclass(slots=True)
class ExperimentSummary:
    """What one call of `run_experiment` did."""

    experiment: str
    store: str
    """Folder or database address of the results."""
    planned: int
    """Runs of the grid."""
    executed: int = 0
    """Runs that this call finished."""
    already_done: int = 0
    """Runs that were finished before, or are being run by another process."""
    infrastructure: int = 0
    errors: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    """Runs of this call that ended in infrastructure trouble or an error, by what went wrong and what to do."""
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        runs, were = "run" if self.executed == 1 else "runs", "was" if self.already_done == 1 else "were"
        text = f"{self.experiment}: {self.executed} {runs} executed, {self.already_done} {were} there before"
        text += f", of {self.planned} planned"
        if self.infrastructure:
            text += f"; {self.infrastructure} ended in infrastructure trouble (the same command tries them again)"
        if self.errors:
            text += f"; {self.errors} ended with an error of agentlab's own (no headline while any exist)"
        return "\n".join([text, *self._sentences()])

    @property
    def is_failure(self) -> bool:
        """True when runs ended in infrastructure trouble or an error, and none of this call ended well."""
        troubled = self.infrastructure + self.errors
        return troubled > 0 and self.executed == troubled

    def _sentences(self) -> list[str]:
        causes = [f"{count} x {cause}" for cause, count in self.causes.most_common(MOST_CAUSES_SHOWN)]
        if (left_out := len(self.causes) - len(causes)) > 0:
            causes.append(f"{left_out} further causes: see agentlab status")
        return [f"{sentence.rstrip('.')}." for sentence in (*causes, *self.warnings)]

    def _repr_html_(self) -> str:
        counts = ("planned", "executed", "already_done", "infrastructure", "errors")
        head = lines(f"{self.experiment} in {without_password(self.store)}", *self._sentences())
        return head + table(counts, [[getattr(self, name) for name in counts]])


def run_experiment(
    experiment: Experiment | str | Path,
    *,
    out: str | Path | None = None,
    model: str | None = None,
    repeats: int | None = None,
    concurrency: int | None = None,
    retry_errors: bool = False,
    is_quiet: bool = False,
) -> ExperimentSummary:
    """Run what is missing of an experiment and return what was done.

    Calling it again continues: finished runs are kept, interrupted ones are run again. Works in scripts,
    notebooks and inside a running event loop.

    Args:
        experiment: an `Experiment`, or the path of its YAML file.
        out: folder or database URL of the results; None is `results/<name>`.
        model: run with this model instead of the declared ones.
        repeats: another number of repeats; raising it adds runs.
        concurrency: runs in flight at once.
        retry_errors: run those again that ended with an error of agentlab's own.
        is_quiet: show no progress.

    Raises:
        ConfigError: an unknown name or a bad value, with the valid ones.
        WrongExperiment: the folder holds another experiment.
        KeyboardInterrupt: Ctrl-C; finished runs are stored, running ones are marked interrupted.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment)
    experiment = experiment.replaced(models=(model,) if model else None, repeats=repeats, concurrency=concurrency)
    address = str(out if out is not None else RESULTS / experiment.name)
    try:
        return run_blocking(_run_experiment(experiment, address, retry_errors, is_quiet))
    except Interrupted as stop:
        raise KeyboardInterrupt(str(stop)) from stop


async def _run_experiment(
    experiment: Experiment, address: str, retry_errors: bool, is_quiet: bool
) -> ExperimentSummary:
    models = ModelPool(_limiter(experiment))
    try:
        planned = plan_runs(experiment, models)
        budget_usd = experiment.budget.cost_usd if experiment.budget != "auto" else None
        refuse_unpriced([models.get(name) for name in experiment.models], experiment.max_cost_usd, budget_usd)
        # Only now: what is refused leaves nothing behind.
        with contextlib.closing(Store(address, create=True)) as store:
            return await _carry_out(experiment, planned, models, store, address, retry_errors, is_quiet)
    finally:
        await models.close()


async def _carry_out(
    experiment: Experiment,
    planned: list[PlannedRun],
    models: ModelPool,
    store: Store,
    address: str,
    retry_errors: bool,
    is_quiet: bool,
) -> ExperimentSummary:
    store.claim_folder(experiment.name, experiment.seed, experiment.model_dump(mode="json"))
    store.interrupt_dead()
    store.plan({**run.row, "planned_order": index} for index, run in enumerate(planned))
    summary = ExperimentSummary(experiment.name, address, len(planned))
    if experiment.repeats > 1 and experiment.temperature == 0:
        summary.warnings.append("Repeats at temperature 0 may be identical: a flip rate of 0 then shows no stability")
    spending = Spending(experiment.max_cost_usd, experiment.max_tokens)
    spending.add_stored(store.read("runs", SPENT_COLUMNS), store.trace)
    with progress_for(len(planned), experiment.name, is_quiet=is_quiet) as progress:
        engine = _Engine(store, models, summary, progress, spending, retry_errors)
        await engine.run(planned, experiment.concurrency)
    return summary


def _limiter(experiment: Experiment) -> RateLimiter | None:
    if experiment.requests_per_minute is None and experiment.tokens_per_minute is None:
        return None
    return RateLimiter(experiment.requests_per_minute, experiment.tokens_per_minute)


class _Engine:
    """Runs planned runs with bounded concurrency; all writes go through one thread, in order."""

    def __init__(
        self,
        store: Store,
        models: ModelPool,
        summary: ExperimentSummary,
        progress: Progress,
        spending: Spending,
        retry_errors: bool,
    ) -> None:
        self._store = store
        self._models = models
        self._summary = summary
        self._progress = progress
        self._spending = spending
        self._retry_errors = retry_errors
        self._writer = StoreWriter(store)
        self._stopped = StoppedModels()
        self._limit: str | None = None

    async def run(self, planned: list[PlannedRun], concurrency: int) -> None:
        queue = deque(planned)
        heartbeat = asyncio.create_task(self._beat())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(planned))):
                    group.create_task(self._work(queue))
        except* AgentLabError as stops:
            raise _first(stops) from None
        finally:
            heartbeat.cancel()
            # The writes that wait come first: a claim among them makes a running row that nobody here knows of yet.
            self._writer.stop()
            self._writer.join(BUSY_TIMEOUT_S)
            self._interrupt_what_runs()
        self._say_what_is_left(planned)

    def _interrupt_what_runs(self) -> None:
        # Rows of a closed store count as interrupted anyway, and a failure here must not hide why the runs ended.
        with contextlib.suppress(StoreError):
            self._store.interrupt_own()

    async def _work(self, queue: deque[PlannedRun]) -> None:
        while queue:
            if limit := self._spending.reached():
                self._limit = limit
                queue.clear()
                return
            planned = queue.popleft()
            if planned.cell.model not in self._stopped:
                await self._run(planned)
            self._progress.advance()

    def _say_what_is_left(self, planned: list[PlannedRun]) -> None:
        """Say why runs were not started, and how many are still to do."""
        if self._limit or self._stopped.names():
            left = _still_to_do(self._store, {run.run_id for run in planned}, self._retry_errors)
            self._summary.warnings += [
                f"No further run of {model} was started: {left[model]} of its runs are still to do, "
                "and the same command continues with them"
                for model in self._stopped.names()
            ]
            if self._limit:
                self._summary.warnings.append(f"{self._limit}: {left.total()} runs are still to do")
        self._summary.warnings += self._spending.doubts()

    async def _run(self, planned: PlannedRun) -> None:
        run_id = planned.run_id
        attempt = await self._writer.run(lambda: self._store.claim(run_id, retry_errors=self._retry_errors))
        if attempt is None:
            self._summary.already_done += 1
            return
        result = await execute(planned, self._models)
        await self._writer.run(self._store.finish, lambda: _finished(result, attempt))
        self._spending.add(result)
        self._summary.executed += 1
        self._summary.infrastructure += result.end_reason == "infrastructure"
        self._summary.errors += result.end_reason == "error"
        if result.end_reason in ("infrastructure", "error"):
            self._summary.causes[result.error or "no cause is known"] += 1
        self._stopped.learn(planned.cell.model, result)

    async def _beat(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(HEARTBEAT_S)
                # One that fails, on a database that is busy or away for a moment, must not be the last.
                with contextlib.suppress(StoreError):
                    await self._writer.run(self._store.heartbeat)


def _still_to_do(store: Store, run_ids: set[str], retry_errors: bool) -> Counter[str]:
    """How many of these runs the same command would run, by model."""
    # The rows come in the order of attempts, so the last attempt of a run is what stays.
    last = {row["run_id"]: row for row in store.read("runs", ("run_id", "model", "state", "end_reason"))}
    again = (*TRIED_AGAIN, "error") if retry_errors else TRIED_AGAIN
    return Counter(
        row["model"]
        for run_id, row in last.items()
        if run_id in run_ids and (row["state"] in ("planned", "interrupted") or row["end_reason"] in again)
    )


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, however deep it lies."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def execute(planned: PlannedRun, models: ModelPool) -> RunResult:
    """Return the result of one planned run, executed with fresh parts."""
    return await run_one(
        planned.task,
        planned.environment(),
        planned.strategy(),
        models.get(planned.cell.model),
        planned.settings,
        planned.budget,
        suite=knowledge_of(planned.suite),
        run_id=planned.run_id,
        repeat=planned.cell.repeat,
        seed=planned.seed,
    )


def _finished(result: RunResult, attempt: int) -> tuple[Any, ...]:
    """What `Store.finish` is given of a run."""
    events = result.events
    return result.run_id, attempt, run_row(result), step_rows(events), call_rows(events), pack(events)


def planned_runs(experiment: Experiment) -> Iterator[PlannedRun]:
    """Yield the runs of the experiment without running any."""
    yield from plan_runs(experiment, ModelPool())
