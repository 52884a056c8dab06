"""Which steps may start now, in the order in which they should."""

import heapq
from collections.abc import Callable, Iterable

from agentlab.planning.plan import PRIORITIES, PlanGraph, PlanStep
from agentlab.planning.statuses import StepStatus


class ReadyQueue:
    """The steps that are pending and have every strong dependency completed, by priority and then plan order.

    A change of one step's status costs work in proportion to its own edges, plus one heap operation for each step
    that becomes ready, so a whole plan costs steps plus edges (times the logarithm of the steps that are ready).

    Args:
        graph: the plan.
        statuses: the status of every step, in plan order.
    """

    def __init__(self, graph: PlanGraph, statuses: Iterable[StepStatus]) -> None:
        self._graph = graph
        by_id = {step.id: status for step, status in zip(graph.steps, statuses, strict=True)}
        self._pending = {step_id for step_id, status in by_id.items() if status == "pending"}
        self._unmet = {
            step.id: sum(by_id[name] != "completed" for name in set(step.depends_on)) for step in graph.steps
        }
        self._ready: set[str] = set()
        self._heap: list[tuple[int, int]] = []
        for step in graph.steps:
            self._sync(step.id)

    def __contains__(self, step_id: object) -> bool:
        return step_id in self._ready

    def __len__(self) -> int:
        return len(self._ready)

    def update(self, step_id: str, before: StepStatus, after: StepStatus) -> None:
        """Take note of a step's new status."""
        if (before == "completed") != (after == "completed"):
            for name in self._graph.dependents(step_id):
                self._unmet[name] += -1 if after == "completed" else 1
                self._sync(name)
        if after == "pending":
            self._pending.add(step_id)
        else:
            self._pending.discard(step_id)
        self._sync(step_id)

    def first(self, fits: Callable[[PlanStep], bool]) -> PlanStep | None:
        """Return the first ready step that fits, without taking it out; None when there is none."""
        passed_over = []
        found = None
        while self._heap and found is None:
            step = self._graph.steps[self._heap[0][1]]
            if step.id not in self._ready:
                heapq.heappop(self._heap)
            elif fits(step):
                found = step
            else:
                passed_over.append(heapq.heappop(self._heap))
        for entry in passed_over:
            heapq.heappush(self._heap, entry)
        return found

    def _sync(self, step_id: str) -> None:
        is_ready = step_id in self._pending and self._unmet[step_id] == 0
        if not is_ready:
            # Its entry in the heap is dropped when it comes to the top.
            self._ready.discard(step_id)
        elif step_id not in self._ready:
            self._ready.add(step_id)
            rank = PRIORITIES.index(self._graph.step(step_id).priority)
            heapq.heappush(self._heap, (rank, self._graph.position(step_id)))
