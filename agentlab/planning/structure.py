"""The bare graph behind a plan, on positions: order, cycles, ancestors. No recursion, so no plan is too long.

A graph is given as `dependencies`: for each step, in plan order, the positions of the steps that come before it.
"""

import heapq
from collections.abc import Sequence

Dependencies = Sequence[Sequence[int]]
MOST_CYCLES = 20


def dependents_of(dependencies: Dependencies) -> list[list[int]]:
    """Return for each step the positions of the steps that come directly after it, in plan order."""
    dependents: list[list[int]] = [[] for _ in dependencies]
    for position, before in enumerate(dependencies):
        for earlier in before:
            dependents[earlier].append(position)
    return dependents


def execution_order(dependencies: Dependencies) -> list[int]:
    """Return the positions so that each step stands after all before it, otherwise in plan order.

    Steps on a cycle, and those that depend on one, are left out. Source: Kahn (1962), Communications of the ACM 5(11).
    """
    unmet = [len(set(before)) for before in dependencies]
    dependents = [sorted(set(after)) for after in dependents_of(dependencies)]
    ready = [position for position, count in enumerate(unmet) if count == 0]
    order = []
    while ready:
        position = heapq.heappop(ready)
        order.append(position)
        for later in dependents[position]:
            unmet[later] -= 1
            if unmet[later] == 0:
                heapq.heappush(ready, later)
    return order


def find_cycles(dependencies: Dependencies) -> list[list[int]]:
    """Return up to `MOST_CYCLES` disjoint cycles, each from a step to what it depends on, and so back to the step.

    A graph without cycles, and no other, gives none.
    """
    left = set(range(len(dependencies))) - set(execution_order(dependencies))
    cycles: list[list[int]] = []
    while left and len(cycles) < MOST_CYCLES:
        # Within what is left every step depends on another one that is left, so the walk must come back.
        cycle = _walk_back(min(left), dependencies, left)
        cycles.append(cycle)
        left -= set(cycle)
        rest = [[earlier for earlier in before if earlier in left] for before in dependencies]
        left -= set(execution_order(rest))
    return cycles


def _walk_back(start: int, dependencies: Dependencies, left: set[int]) -> list[int]:
    path: list[int] = []
    seen: dict[int, int] = {}
    position = start
    while position not in seen:
        seen[position] = len(path)
        path.append(position)
        position = next(earlier for earlier in dependencies[position] if earlier in left)
    return path[seen[position] :]


def ancestor_bits(dependencies: Dependencies) -> list[int]:
    """Return for each step an integer whose bit p is set when the step at position p must come before it.

    Integers of n bits make the ancestors of all n steps affordable: about 6 MB for a chain of 10,000 steps.
    The graph must have no cycle.
    """
    bits = [0] * len(dependencies)
    for position in execution_order(dependencies):
        for earlier in dependencies[position]:
            bits[position] |= bits[earlier] | 1 << earlier
    return bits


def closure(start: Sequence[int], neighbours: Dependencies) -> set[int]:
    """Return everything that can be reached from `start`, which is itself included only where a path leads back."""
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        for neighbour in neighbours[waiting.pop()]:
            if neighbour not in found:
                found.add(neighbour)
                waiting.append(neighbour)
    return found
