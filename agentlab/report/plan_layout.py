"""Where the steps of a plan stand in a picture: generation by generation from left to right, few crossings.

A layered drawing after Sugiyama, Tagawa and Toda 1981 (IEEE SMC 11(2), sections II-III): long edges get a place in
every generation they pass, and the places of a generation are sorted by the mean place of their neighbours. Deviates:
the order starts from the plan's, and a fixed number of sweeps is made. Nothing is drawn here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentlab.planning.plan import PlanGraph

SWEEPS, ROUNDS = 8, 40
ROOM, PASSING_ROOM = 1.0, 0.35
"""Room that a step and that an edge passing by take in their column, in heights of a step."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependency in the picture."""

    source: str
    target: str
    is_weak: bool
    places: tuple[tuple[int, float], ...]
    """Column and height of everything from the source to the target, both included."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns are generations from 0; heights are in heights of a step, 0 is the middle of every column."""

    places: dict[str, tuple[int, float]]
    edges: tuple[Edge, ...]
    n_columns: int
    per_band: int
    """Columns side by side; the following ones belong into a further band below."""


def layout(graph: PlanGraph, most_columns: int) -> Layout:
    """Return where to draw the steps and dependencies of a plan.

    Strong dependencies that follow from others (a needs b needs c, so a needs c) are left out. Bands have at most
    `most_columns` columns, and about the same number each.
    """
    column = {id: number for number, wave in enumerate(graph.waves()) for id in wave}
    edges = [(a, b, False) for a, b in direct_edges(graph)]
    strong = {(a, b) for a, b, _ in edges}
    edges += [
        (a, step.id, True) for step in graph.steps for a in dict.fromkeys(step.weak_depends_on)
        if (a, step.id) not in strong
    ]  # fmt: skip
    paths = [_path(number, a, b, column) for number, (a, b, _) in enumerate(edges)]
    columns: list[list[str]] = [list(wave) for wave in graph.waves()]
    for path in paths:
        for at, name in path[1:-1]:
            columns[at].append(name)
    _sort(columns, paths)
    n_bands = max(1, -(-len(columns) // most_columns))
    per_band = max(1, -(-len(columns) // n_bands))
    heights: dict[str, float] = {}
    for start in range(0, len(columns), per_band):
        heights |= _heights(columns[start : start + per_band], set(column), paths)
    places = {id: (column[id], heights[id]) for id in column}
    drawn = [
        Edge(a, b, weak, tuple((at, heights[name]) for at, name in path))
        for (a, b, weak), path in zip(edges, paths, strict=True)
    ]
    return Layout(places, tuple(drawn), len(columns), per_band)


def direct_edges(graph: PlanGraph) -> list[tuple[str, str]]:
    """Return the strong dependencies that do not follow from others, in plan order."""
    bits = graph.ancestor_bits()
    found = []
    for step in graph.steps:
        before = [graph.position(name) for name in dict.fromkeys(step.depends_on)]
        implied = 0
        for position in before:
            implied |= bits[position]
        found += [(graph.steps[p].id, step.id) for p in before if not implied >> p & 1]
    return found


def _path(number: int, source: str, target: str, column: dict[str, int]) -> list[tuple[int, str]]:
    """The places of an edge from column to column; a weak edge may run backwards or stay in its column."""
    start, end = column[source], column[target]
    way = 1 if end >= start else -1
    between = [(at, f"\0{number}:{at}") for at in range(start + way, end, way)]
    return [(start, source), *between, (end, target)]


def _sort(columns: list[list[str]], paths: Sequence[Sequence[tuple[int, str]]]) -> None:
    left: dict[str, list[str]] = {}
    right: dict[str, list[str]] = {}
    for path in paths:
        for (a, first), (b, second) in pairwise(path):
            if a != b:
                first, second = (first, second) if a < b else (second, first)
                right.setdefault(first, []).append(second)
                left.setdefault(second, []).append(first)
    place = {name: _share(i, names) for names in columns for i, name in enumerate(names)}
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        neighbours = left if forward else right
        for names in columns if forward else reversed(columns):
            key = {name: _mean([place[other] for other in neighbours.get(name, ())], place[name]) for name in names}
            names.sort(key=key.__getitem__)
            place |= {name: _share(i, names) for i, name in enumerate(names)}


def _share(place: int, names: Sequence[str]) -> float:
    return (place + 0.5) / len(names)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _heights(
    columns: Sequence[Sequence[str]], steps: set[str], paths: Sequence[Sequence[tuple[int, str]]]
) -> dict[str, float]:
    """Of one band: every column centred, then everything moves to its neighbours where there is room."""
    rooms = {name: ROOM if name in steps else PASSING_ROOM for names in columns for name in names}
    heights: dict[str, float] = {}
    for names in columns:
        at = -sum(rooms[name] for name in names) / 2
        for name in names:
            heights[name] = at + rooms[name] / 2
            at += rooms[name]
    near: dict[str, list[str]] = {}
    for path in paths:
        for (_, first), (_, second) in pairwise(path):
            if first in heights and second in heights:
                near.setdefault(first, []).append(second)
                near.setdefault(second, []).append(first)
    limit = max((abs(height) + rooms[name] / 2 for name, height in heights.items()), default=0.5)
    for _ in range(ROUNDS):
        for names in columns:
            _relax(names, rooms, heights, near, limit)
    return heights


def _relax(
    names: Sequence[str], rooms: dict[str, float], heights: dict[str, float], near: dict[str, list[str]], limit: float
) -> None:
    """Move each place of a column to the mean of its neighbours, keeping order, distances and the picture's limits."""
    for i, name in enumerate(names):
        half = rooms[name] / 2
        low, high = -limit + half, limit - half
        if i > 0:
            low = heights[names[i - 1]] + (rooms[names[i - 1]] + rooms[name]) / 2
        if i + 1 < len(names):
            high = heights[names[i + 1]] - (rooms[names[i + 1]] + rooms[name]) / 2
        wanted = _mean([heights[other] for other in near.get(name, ())], heights[name])
        heights[name] = min(max(wanted, low), max(low, high))
