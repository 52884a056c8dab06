"""How a plan stands, for whoever looks at it: statuses, counts, outputs, and why something did not complete."""

from collections.abc import Iterable

from agentlab.planning.inputs import Inputs, inputs_of
from agentlab.planning.plan import PlanGraph
from agentlab.planning.ready import ReadyQueue
from agentlab.planning.reasons import condition, is_condition, problem_words, reason_words, undo_words
from agentlab.planning.statuses import OPEN, STATUS_WORDS, STEP_STATUSES, Phase, PlanStatus, StepStatus
from agentlab.planning.step_state import StepState
from agentlab.records import JsonObject, ToolResult


class PlanView:
    """The readable side of a `PlanState`.

    A step's state is replaced as a whole, so that a reader in another thread sees result and status together.

    Args:
        graph: the plan.
    """

    def __init__(self, graph: PlanGraph) -> None:
        self.graph = graph
        self.phase: Phase = "executing"
        self.stopped = ""
        """Why the plan was ended before its end (terminate, escalate, a spent budget); empty otherwise."""
        self.applied: dict[str, int] = {}
        """Policy rule -> how often it was applied, for rules with a limit."""
        self.superseded: tuple[tuple[str, StepState], ...] = ()
        """Steps of the plans that this one replaces, which were tried and did not stay completed."""
        self.rollback: JsonObject | None = None
        """The rollback that is going on (failed, back_to, restart), so that it goes on after a crash too."""
        self.decisions: tuple[JsonObject, ...] = ()
        """What was decided about the whole plan and is not carried out yet (kind, step, rule, reason, back_to,
        restart), so that nothing of it is lost in a crash."""
        self.seq = 0
        """Number of changes so far, over all plans of the run."""
        self._steps: dict[str, StepState] = {step.id: StepState() for step in graph.steps}
        self._derive()

    def __getitem__(self, step_id: str) -> StepState:
        return self._steps[step_id]

    def with_status(self, *statuses: StepStatus) -> tuple[str, ...]:
        """Return the steps with one of these statuses, in plan order."""
        return tuple(step_id for step_id, state in self._steps.items() if state.status in statuses)

    def counts(self) -> dict[StepStatus, int]:
        """Return how many steps have each status, zeros included."""
        return dict(self._counts)

    @property
    def progress(self) -> float:
        """Share of the steps that are finished, however they ended; 1.0 for a plan without steps."""
        n_open = sum(self._counts[status] for status in OPEN)
        return 1.0 - n_open / len(self._steps) if self._steps else 1.0

    @property
    def current_steps(self) -> tuple[str, ...]:
        """The steps that are running, in plan order."""
        return self.with_status("running")

    @property
    def is_finished(self) -> bool:
        """True when nothing can or will happen to any step any more."""
        is_settled = self.rollback is None and not self.decisions
        return is_settled and not any(self._counts[status] for status in OPEN)

    @property
    def status(self) -> PlanStatus:
        """The status of the plan.

        completed: every step completed or was skipped by decision, and at least one completed. partial: some
        completed, but others failed, were blocked or rolled back. failed: nothing stands, or the plan was stopped.
        A plan with an open step is never any of these.
        """
        counts = self._counts
        if self.phase != "executing":
            return self.phase
        if not self.is_finished:
            return self._open_status()
        if counts["cancelled"]:
            return "cancelled"
        if self.stopped or not counts["completed"]:
            return "failed"
        return "completed" if counts["completed"] + counts["skipped"] == len(self._steps) else "partial"

    @property
    def escalated(self) -> tuple[str, ...]:
        """The steps because of which the plan stopped for a person to decide what becomes of it."""
        return tuple(decision["step"] for decision in self.decisions if decision["kind"] == "escalate")

    def stuck(self) -> tuple[str, ...]:
        """Return the steps that wait although nothing runs, waits for a moment or a person, or could start.

        Empty unless a caller has lost a change; a plan that stands like this must not be reported as finished.
        """
        counts = self._counts
        is_moving = self._ready or any(counts[status] for status in OPEN - {"pending"})
        return () if is_moving else self.with_status("pending")

    def checks_not_passed(self) -> tuple[str, ...]:
        """Return the steps of which a check ran and did not pass: a result about the product, no failed step."""
        return tuple(step_id for step_id in self._steps if not self.has_passed(step_id))

    def has_passed(self, step_id: str) -> bool:
        """Return whether no check of a step ran and did not pass."""
        return not any("failed" in _shown(result) for result in self._steps[step_id].results)

    def unmet_condition(self, step_id: str) -> str:
        """Return why a step is not needed, as it is stored; empty when it is needed, or has no condition."""
        step = self.graph.step(step_id)
        if failed := [name for name in step.only_if_passed if not self.has_passed(name)]:
            return condition("needs_passed", steps=", ".join(failed))
        if step.only_if_not_passed and all(map(self.has_passed, step.only_if_not_passed)):
            return condition("needs_not_passed", steps=", ".join(step.only_if_not_passed))
        return ""

    def not_needed(self) -> tuple[str, ...]:
        """Return the skipped steps that nothing kept from running but their condition, in plan order."""
        return tuple(step_id for step_id in self.with_status("skipped") if is_condition(self._steps[step_id].reason))

    def failed_gate(self, step_id: str) -> str | None:
        """Return the step before a step whose check did not pass when it was last made; None when there is none."""
        latest: dict[str, tuple[bool, str]] = {}
        before = [name for name in self.graph.ancestors(step_id) if self._steps[name].results]
        for name in sorted(before, key=lambda name: self._steps[name].completed_seq or 0):
            made: dict[str, bool] = {}
            for result in self._steps[name].results:
                key = f"{result.check or name}@{result.subject}" if result.subject else result.check or name
                shown = {} if result.passed is None else {key: result.passed}
                shown |= {key: status != "failed" for key, status in result.visible.items()}
                # Entries of a map step may be about the same thing, or not say about what.
                made |= {key: passed and made.get(key, True) for key, passed in shown.items()}
            latest |= {key: (passed, name) for key, passed in made.items()}
        return next((name for passed, name in latest.values() if not passed), None)

    def business_counts(self) -> dict[str, int]:
        """Return how many checks `passed` and `failed`, whatever became of the other steps."""
        statuses = [s for state in self._steps.values() for result in state.results for s in _shown(result)]
        return {name: statuses.count(name) for name in ("passed", "failed")}

    def inputs(self, step_id: str) -> Inputs:
        """Return what a step works on, references resolved.

        Raises:
            UnresolvedReference: a reference leads nowhere; the step has to fail with it, and its tool is not called.
        """
        completed = dict(self._completed(step_id))
        not_passed = {
            name: [result.data for result in state.results if "failed" in _shown(result)]
            for name, state in completed.items()
        }
        outputs = {name: state.output for name, state in completed.items()}
        return inputs_of(self.graph.step(step_id), outputs, not_passed)

    def cause_chain(self, step_id: str) -> tuple[str, ...]:
        """Return the steps that a blocked step waits for in vain, from its own dependency to the root."""
        chain = []
        while (cause := self._steps[step_id].cause) is not None:
            chain.append(cause)
            step_id = cause
        return tuple(chain)

    def explain(self, step_id: str, language: str = "en") -> str:
        """Return in words why a step did not complete; empty for one that did, or is still open.

        Args:
            step_id: the step.
            language: zh or en; what a tool said stays as it is.
        """
        state = self._steps[step_id]
        if state.status == "blocked":
            return self._blocked_words(step_id, language)
        if state.status in OPEN or state.status == "completed":
            return ""
        if state.reason:
            return reason_words(state.reason, language)
        if state.status in ("rolled_back", "rollback_failed"):
            undo = state.undos[-1]
            return undo_words(undo.tool, undo.state, undo.message, language)
        if state.error is None:
            return ""
        return f"{state.error.kind}: {problem_words(state.error.message, language)}"

    def _blocked_words(self, step_id: str, language: str) -> str:
        *between, root = self.cause_chain(step_id)
        names = ", ".join(between)
        english, chinese = STATUS_WORDS[self._steps[root].status]
        if language == "zh":
            words = f"阻塞，因为步骤 {root} {chinese}" + (f"（经由 {names}）" if names else "")
        else:
            words = f"blocked, because step {root} is {english}" + (f" (through {names})" if names else "")
        return ("：" if language == "zh" else ": ").join(part for part in (words, self.explain(root, language)) if part)

    def _open_status(self) -> PlanStatus:
        counts = self._counts
        waits_for_nobody = any(decision["kind"] != "escalate" for decision in self.decisions)
        if counts["running"] or counts["retry_wait"] or self._ready or self.rollback is not None or waits_for_nobody:
            return "executing"
        if counts["interrupted"]:
            return "interrupted"
        return "awaiting_approval" if counts["awaiting_approval"] or self.decisions else "executing"

    def _completed(self, step_id: str) -> Iterable[tuple[str, StepState]]:
        """The completed steps that a step refers to; of one that has started, without what it started without."""
        own = self._steps[step_id]
        gaps = () if own.status in ("pending", "awaiting_approval") else own.gaps
        names = {str(reference.step) for reference in self.graph.step(step_id).references()}
        return ((name, self._steps[name]) for name in names - set(gaps) if self._steps[name].status == "completed")

    def _derive(self) -> None:
        """Compute counters and queue from the steps."""
        self._counts: dict[StepStatus, int] = dict.fromkeys(STEP_STATUSES, 0)
        for state in self._steps.values():
            self._counts[state.status] += 1
        self._ready = ReadyQueue(self.graph, (self._steps[step.id].status for step in self.graph.steps))


def _shown(result: ToolResult) -> list[str]:
    """The statuses that a result shows: of its own check, and of criteria that it makes visible besides."""
    own = [] if result.passed is None else ["passed" if result.passed else "failed"]
    return [*own, *result.visible.values()]
