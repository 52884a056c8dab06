"""What the steps of a plan were doing at given moments, and what they used: tables for monitoring a workflow."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

Row = dict[str, Any]

_WAITING = ("pending", "ready", "blocked")
_NEVER_RUN = ("skipped", "cancelled")
"""Statuses by which a step ends without having started."""
_COLUMNS = {
    "step": "string",
    "status": "string",
    "waits_for": "object",
    "started_without": "object",
    "elapsed_s": "Float64",
    "cpu_percent": "Float64",
    "memory_mb": "Float64",
}


def step_timeline(steps: Sequence[Mapping[str, Any]], moments: Sequence[Any]) -> pd.DataFrame:
    """Return what every step was doing at every moment, one row per moment and step, in the given order.

    Columns: `moment`; `step`; `status` (pending, ready, blocked, running, or the step's own status once it has
    ended); `waits_for` (needed steps that have not completed, while it has not started); `started_without`
    (influencing steps that had not completed when it started: its gaps); `elapsed_s` (missing before the
    start); `cpu_percent` and `memory_mb` (missing unless running).

    A weak edge never delays: only `depends_on` can keep a step from being ready, and a step that started
    before a step in its `weak_depends_on` had completed has a gap, not a delay. REQUIREMENTS 1.7 settles this
    against the example timeline of 002.10, in which 3.2 waits for 3.1 over an edge that 002.8 calls weak.

    Args:
        steps: records with `id` and `status`, and where known `start`, `end` (all datetimes, or all seconds of
            one clock), `cpu_percent`, `memory_mb`, `depends_on`, `weak_depends_on` (ids). A step without
            `start` never started; one without `end` still runs.
        moments: when to look, of the same kind as `start`. A step runs from its start up to, not at, its end.

    Raises:
        ValueError: an id is used twice, a dependency has no record, or a step ends without or before its start.
    """
    known = {str(step["id"]): step for step in steps}
    _refuse_unusable(steps, known)
    rows = []
    for moment in moments:
        blocked = _blocked(known, moment)
        rows += [{"moment": moment, **_at(step, known, blocked, moment)} for step in steps]
    return pd.DataFrame(rows, columns=["moment", *_COLUMNS]).astype(_COLUMNS)


def resource_use(timeline: pd.DataFrame) -> pd.DataFrame:
    """Return one row per moment of a `step_timeline`: how many steps wait, run and have ended, and what those running use.

    Columns: `waiting` (pending, ready or blocked), `running`, `ended`, `cpu_percent`, `memory_mb`. A sum is
    missing when the use of any running step is unknown, and 0 when nothing runs. The index is the moment.
    """  # noqa: E501
    table = pd.DataFrame(
        {
            "moment": timeline["moment"],
            "waiting": timeline["status"].isin(_WAITING),
            "running": timeline["status"] == "running",
        }
    )
    table["ended"] = ~(table["waiting"] | table["running"])
    for name in ("cpu_percent", "memory_mb"):
        table[name] = timeline[name].where(table["running"], 0.0)
    grouped = table.groupby("moment", sort=False)
    counts = grouped[["waiting", "running", "ended"]].sum().astype("Int64")
    used = grouped[["cpu_percent", "memory_mb"]].sum(skipna=False)
    return counts.join(used)


def _at(step: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], blocked: set[str], moment: Any) -> Row:
    id, start, end = str(step["id"]), _time(step, "start"), _time(step, "end")
    row: Row = {"step": id, "waits_for": (), "started_without": ()}
    row |= {"elapsed_s": None, "cpu_percent": None, "memory_mb": None}
    if start is None or moment < start:
        row["waits_for"] = _incomplete(step, "depends_on", known, moment)
        if start is None and step["status"] in _NEVER_RUN:
            return {**row, "status": str(step["status"])}
        return {**row, "status": "blocked" if id in blocked else "pending" if row["waits_for"] else "ready"}
    is_running = end is None or moment < end
    row["started_without"] = _incomplete(step, "weak_depends_on", known, start)
    row["elapsed_s"] = _seconds((moment if is_running else end) - start)
    if is_running:
        row |= {"cpu_percent": step.get("cpu_percent"), "memory_mb": step.get("memory_mb")}
    return {**row, "status": "running" if is_running else str(step["status"])}


def _blocked(known: Mapping[str, Mapping[str, Any]], moment: Any) -> set[str]:
    """The ids of the steps that cannot start any more, because of what has ended by then."""
    needed_by: dict[str, list[str]] = {}
    for id, step in known.items():
        for other in step.get("depends_on") or ():
            needed_by.setdefault(str(other), []).append(id)
    lost = [id for id, step in known.items() if _has_no_success(step, moment)]
    blocked: set[str] = set()
    while lost:
        for id in needed_by.get(lost.pop(), ()):
            if id not in blocked and _time(known[id], "start") is None:
                blocked.add(id)
                lost.append(id)
    return blocked


def _has_no_success(step: Mapping[str, Any], moment: Any) -> bool:
    """Has the step ended by then without success, or was it never to run?"""
    if (end := _time(step, "end")) is not None:
        return bool(end <= moment and step["status"] != "completed")
    return _time(step, "start") is None and step["status"] in _NEVER_RUN


def _incomplete(
    step: Mapping[str, Any], edges: str, known: Mapping[str, Mapping[str, Any]], moment: Any
) -> tuple[str, ...]:
    """The ids at the other end of these edges that had not completed by then."""

    def has_completed(other: Mapping[str, Any]) -> bool:
        end = _time(other, "end")
        return end is not None and end <= moment and other["status"] == "completed"

    return tuple(str(id) for id in step.get(edges) or () if not has_completed(known[str(id)]))


def _time(step: Mapping[str, Any], name: str) -> Any:
    """A time of a record; None where it is missing in any of the ways of pandas."""
    value = step.get(name)
    return None if value is None or pd.isna(value) else value


def _seconds(span: Any) -> float:
    return span.total_seconds() if isinstance(span, datetime.timedelta) else float(span)


def _refuse_unusable(steps: Sequence[Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]) -> None:
    if len(known) != len(steps):
        ids = [str(step["id"]) for step in steps]
        raise ValueError(f"step {next(id for id in ids if ids.count(id) > 1)!r} has more than one record")
    for id, step in known.items():
        for edge in (*(step.get("depends_on") or ()), *(step.get("weak_depends_on") or ())):
            if str(edge) not in known:
                raise ValueError(f"step {id!r} depends on {str(edge)!r}, which has no record")
        start, end = _time(step, "start"), _time(step, "end")
        if end is not None and (start is None or end < start):
            raise ValueError(f"step {id!r} ends at {end} but starts at {start}")
