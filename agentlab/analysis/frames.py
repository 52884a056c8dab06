"""Stored runs as typed pandas frames: `runs`, `steps`, `calls` with the columns of `docs/schema.md`.

The columns and dtypes are the same for every store, also for an empty one.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from agentlab.columns import EXCLUDED_END_REASONS, FRAMES, Column
from agentlab.errors import ConfigError
from agentlab.output_places import writing
from agentlab.store import Store

Source = str | Path
KEY = ["run_id", "attempt"]


def load_runs(source: Source | Iterable[Source], *, attempts: Literal["counting", "all"] = "counting") -> pd.DataFrame:
    """Return one row per run, in the order of the plan; columns as in `agentlab.columns.RUNS`.

    Args:
        source: a results folder, a database URL, a parquet export folder, or several of them; a run that
            stands in several sources counts once.
        attempts: `counting` keeps, per run, the first attempt that did not end in infrastructure trouble, an
            interruption, a cancellation or an error of agentlab's own, and else the last one; `all` keeps all.

    Raises:
        ConfigError: there is no store at the source.
    """
    frame = _load(source, "runs").drop_duplicates(KEY, ignore_index=True)
    frame["n_attempts"] = frame.groupby("run_id")["attempt"].transform("size").astype("Int64")
    return frame if attempts == "all" else _counting(frame)


def load_steps(source: Source | Iterable[Source], *, attempts: Literal["counting", "all"] = "counting") -> pd.DataFrame:
    """Return one row per tool call of the runs that `load_runs` returns; columns as in `agentlab.columns.STEPS`."""
    return _of_runs(source, "steps", attempts)


def load_calls(source: Source | Iterable[Source], *, attempts: Literal["counting", "all"] = "counting") -> pd.DataFrame:
    """Return one row per model call of the runs that `load_runs` returns; columns as in `agentlab.columns.CALLS`."""
    return _of_runs(source, "calls", attempts)


def to_frame(rows: Iterable[Any], columns: tuple[Column, ...]) -> pd.DataFrame:
    """Return rows (mappings) as a frame with exactly these columns and dtypes."""
    raw = pd.DataFrame(list(rows), columns=[column.name for column in columns], dtype=object)
    return pd.DataFrame({column.name: _typed(raw[column.name], column) for column in columns})


def export_parquet(source: Source, folder: str | Path) -> list[Path]:
    """Write `runs` (all attempts), `steps` and `calls` as parquet files for sharing; return their paths.

    Raises:
        ConfigError: there is no store at the source, or the folder cannot be written.
    """
    target = Path(folder)
    paths = []
    for name in FRAMES:
        path = target / f"{name}.parquet"
        frame = _load(source, name)
        with writing(path):
            target.mkdir(parents=True, exist_ok=True)
            frame.to_parquet(path, index=False)
        paths.append(path)
    return paths


def _load(source: Source | Iterable[Source], name: str) -> pd.DataFrame:
    sources = [source] if isinstance(source, str | Path) else list(source)
    frames = [_load_one(one, name) for one in sources]
    if not frames:
        raise ConfigError("No source to load runs from.")
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def _load_one(source: Source, name: str) -> pd.DataFrame:
    columns = FRAMES[name]
    parquet = Path(source) / f"{name}.parquet"
    if "://" not in str(source) and parquet.exists():
        return to_frame(pd.read_parquet(parquet).astype(object).to_dict("records"), columns)
    store = Store(source)
    try:
        return to_frame(store.read(name), columns)
    finally:
        store.close()


def _of_runs(source: Source | Iterable[Source], name: str, attempts: Literal["counting", "all"]) -> pd.DataFrame:
    keys = load_runs(source, attempts=attempts)[KEY]
    frame = _load(source, name).drop_duplicates([*KEY, FRAMES[name][2].name])
    return frame.merge(keys, on=KEY, how="inner").reset_index(drop=True)


def _counting(frame: pd.DataFrame) -> pd.DataFrame:
    """The one attempt of each run that counts; the rule looks at how attempts ended, never at success."""
    ended = (frame["state"] == "finished") & ~frame["end_reason"].isin(EXCLUDED_END_REASONS)
    rank = frame["attempt"].where(ended, -frame["attempt"] + 1_000_000)
    chosen = rank.groupby(frame["run_id"], sort=False).idxmin()
    return frame.loc[sorted(chosen)].reset_index(drop=True)


def _typed(values: pd.Series, column: Column) -> pd.Series:
    if column.dtype == "category":
        return pd.Series(pd.Categorical(values, categories=list(column.levels or ())), index=values.index)
    if column.dtype == "boolean":
        return values.map(lambda value: None if pd.isna(value) else bool(value)).astype("boolean")
    if column.dtype.startswith("datetime"):
        return pd.to_datetime(values, utc=True).astype("datetime64[us, UTC]")
    if column.dtype in ("Int64", "Float64"):
        values = pd.to_numeric(values.astype(object).where(values.notna(), None))
    return values.astype(pd.api.types.pandas_dtype(column.dtype))
