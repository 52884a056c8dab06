"""What happens when a step fails, as data: a table of rules, of which the first that applies decides.

    name: fulfilment
    rules:
      - {name: retry, on_error: retry}
      - {name: critical, when: {critical: true}, on_error: rollback}
      - {name: rest, on_error: skip}

`decide` is a pure function of the table and of what is known; it changes nothing and asks nobody.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentlab.errors import ConfigError, unknown_name
from agentlab.planning.plan import ON_NOT_PASSED, OnError, PlanGraph, PlanStep, Priority
from agentlab.planning.step_state import StepError
from agentlab.planning.view import PlanView

MOST_ATTEMPTS = 10
DEFAULT_ATTEMPTS = 3
"""One try and two retries."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Backoff(_Frozen):
    """How long to wait before a retry: base * 2^n seconds up to a cap, shortened by a random share."""

    base_s: float = Field(default=0.5, ge=0)
    cap_s: float = Field(default=30.0, ge=0)
    jitter: float = Field(default=0.5, ge=0, le=1)
    """Largest share of the delay that is taken off, so that steps that failed together do not retry together."""

    def delay_s(self, tries: int, key: str) -> float:
        """Return the seconds to wait after `tries` tries; the same key and number give the same delay."""
        delay = self.cap_s if tries > 60 else min(self.cap_s, self.base_s * 2 ** (tries - 1))
        return delay * (1 - self.jitter * random.Random(f"{key}:{tries}").random())


class When(_Frozen):
    """The failures a rule is for; a condition that is left out is always met."""

    steps: tuple[str, ...] | None = None
    """Ids of plan steps."""
    tools: tuple[str, ...] | None = None
    worker_types: tuple[str, ...] | None = None
    layers: tuple[str, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    critical: bool | None = None
    """The step itself is marked as critical."""
    on_critical_path: bool | None = None
    """The step is critical or of high priority, or a step that strongly needs it, directly or not, is."""
    error_kinds: tuple[str, ...] | None = None
    transient: bool | None = None
    not_passed: bool = False
    """True: the rule is for steps that did their work, and of which a check did not pass. Rules without it are for
    failures alone, because such a check is a result."""

    def matches(self, step: PlanStep, error: StepError | None, graph: PlanGraph) -> bool:
        """Return whether a failure, or without an error a check that did not pass, meets every condition."""
        if self.not_passed != (error is None):
            return False
        listed = (
            (self.steps, step.id),
            (self.tools, step.tool),
            (self.worker_types, step.worker_type),
            (self.layers, step.layer),
            (self.priorities, step.priority),
            (self.error_kinds, error and error.kind),
        )
        if any(valid is not None and value not in valid for valid, value in listed):
            return False
        if self.critical is not None and self.critical != bool(step.is_critical):
            return False
        if self.transient is not None and (error is None or self.transient != error.is_transient):
            return False
        return self.on_critical_path is None or self.on_critical_path == is_on_critical_path(step, graph)


_ANY_FAILURE = When()


class Rule(_Frozen):
    """One line of the table."""

    name: str
    on_error: OnError
    when: When = _ANY_FAILURE
    attempts: int = Field(default=DEFAULT_ATTEMPTS, ge=1, le=MOST_ATTEMPTS)
    """Of a retry: tries in all, the first one and the session's own repeats included."""
    only_transient: bool = True
    """Of a retry: only failures that may be gone the next time. What is not safe to repeat is never retried."""
    backoff: Backoff = Backoff()
    limit: int | None = None
    """How often the rule may apply in one run; then the next one is asked. None is unlimited."""
    back_to: str | None = None
    """Of a rollback: a step before the failed one, or `layer:<name>`, from which everything is undone; the rule does
    not apply where no such step is before it. None undoes what the failed step rested on: the effects before it,
    and what was built on them."""
    restart: bool = False
    """Of a rollback: run the undone part again."""

    @model_validator(mode="after")
    def _check(self) -> "Rule":
        if self.on_error != "rollback" and (self.back_to is not None or self.restart):
            raise ValueError(f"rule {self.name}: back_to and restart belong to a rollback, not to {self.on_error}")
        if self.on_error == "replan" and self.limit is None:
            raise ValueError(f"rule {self.name}: a replan needs a limit, else the run may never end")
        if self.restart and self.limit is None:
            raise ValueError(f"rule {self.name}: a restart needs a limit, else the run may never end")
        if self.when.not_passed and self.on_error not in ON_NOT_PASSED:
            raise ValueError(f"rule {self.name}: a check that did not pass leads to {' or '.join(ON_NOT_PASSED[1:])}")
        return self


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be done about a failed step."""

    kind: OnError
    rule: str
    """The rule that decided: its name, `plan` for the step's own wish, `default`."""
    reason: str
    delay_s: float = 0.0
    """Of a retry: seconds to wait."""
    back_to: str | None = None
    restart: bool = False
    is_counted: bool = False
    """True when the rule has a limit, so that applying it has to be recorded (`PlanState.count_rule`)."""


class FailurePolicy(_Frozen):
    """The table for one suite or experiment. Where no rule applies, the step fails and blocks what needs it."""

    name: str
    rules: tuple[Rule, ...] = ()
    plan_decides: bool = True
    """Whether the plan's own `on_error`, `max_retries` and `on_not_passed` come before the rules."""
    retry: Rule = Rule(name="retry", on_error="retry")
    """How a retry works that the plan asks for."""

    @model_validator(mode="after")
    def _check(self) -> "FailurePolicy":
        names = [rule.name for rule in self.rules]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"policy {self.name}: a rule name is used twice: {', '.join(sorted(twice))}")
        return self

    def decide(self, step: PlanStep, error: StepError, tries: int, graph: PlanGraph, state: PlanView) -> Action:
        """Return what is to be done.

        Args:
            step: the step that failed.
            error: why.
            tries: executions so far, this one and the session's own repeats included.
            graph: the plan.
            state: where the plan stands; tells how often a rule with a limit has been applied.
        """
        for rule in (*self._wishes(step), *self.rules):
            action = _applied(rule, step, error, tries, graph, state)
            if action is not None:
                return action
        return Action("block", "default", f"step {step.id} failed for good: {error.kind}")

    def after_check(self, step: PlanStep, graph: PlanGraph, state: PlanView) -> Action | None:
        """Return what is to be done about a check that ran and did not pass; None goes on with the plan.

        Args:
            step: the step that made the check.
            graph: the plan.
            state: where the plan stands.
        """
        rules = self.rules
        if self.plan_decides and step.on_not_passed is not None:
            if step.on_not_passed == "continue":
                return None
            rules = (_wish(step, step.on_not_passed, When(not_passed=True)), *rules)
        actions = (_applied(rule, step, None, 1, graph, state) for rule in rules)
        return next((action for action in actions if action is not None), None)

    def _wishes(self, step: PlanStep) -> list[Rule]:
        """What the plan asks for in this step: retries first, then its `on_error`."""
        if not self.plan_decides:
            return []
        wishes = []
        if step.max_retries is not None or step.on_error == "retry":
            retries = self.retry.attempts - 1 if step.max_retries is None else step.max_retries
            attempts = min(MOST_ATTEMPTS, retries + 1)
            wishes.append(self.retry.model_copy(update={"name": "plan", "attempts": attempts}))
        if step.on_error is not None and step.on_error != "retry":
            wishes.append(_wish(step, step.on_error))
        return wishes


def is_on_critical_path(step: PlanStep, graph: PlanGraph) -> bool:
    """Return whether a step, or one that strongly needs it, directly or not, is critical or of high priority."""
    steps = (step, *(graph.step(name) for name in graph.descendants(step.id)))
    return any(each.is_critical or each.priority == "high" for each in steps)


def load_policy(source: "str | Mapping[str, Any] | FailurePolicy") -> FailurePolicy:
    """Return a policy by its name, or from its fields as they stand in YAML.

    Raises:
        ConfigError: an unknown name, or fields that make no policy; names them.
    """
    if isinstance(source, FailurePolicy):
        return source
    if isinstance(source, str):
        if source not in POLICIES:
            raise unknown_name("failure policy", source, ["suite", *POLICIES])
        return POLICIES[source]
    try:
        return FailurePolicy.model_validate(source)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)]
        raise ConfigError("This is no failure policy:\n" + "\n".join(lines)) from error


def _wish(step: PlanStep, on_error: OnError, when: When = _ANY_FAILURE) -> Rule:
    """What a step asks for, as a rule. A plan says nothing about limits, so each step gets one replan or restart."""
    is_undo = on_error == "rollback"
    restart = is_undo and bool(step.restart)
    limit = 1 if on_error == "replan" or restart else None
    name = f"plan:{step.id}" if limit else "plan"
    back_to = step.back_to if is_undo else None
    return Rule(name=name, on_error=on_error, when=when, limit=limit, back_to=back_to, restart=restart)


def _applied(
    rule: Rule, step: PlanStep, error: StepError | None, tries: int, graph: PlanGraph, state: PlanView
) -> Action | None:
    """The action of a rule; None when it does not apply."""
    if not rule.when.matches(step, error, graph):
        return None
    if rule.limit is not None and state.applied.get(rule.name, 0) >= rule.limit:
        return None
    if rule.back_to is not None and not graph.steps_back(step.id, rule.back_to):
        return None
    why = f"{error.kind} after {tries} {'try' if tries == 1 else 'tries'}" if error else "a check did not pass"
    reason = f"{rule.on_error} by rule {rule.name!r}: {why}"
    delay_s = 0.0
    if rule.on_error == "retry" and error is not None:
        may_repeat = error.is_safe_to_repeat and (error.is_transient or not rule.only_transient)
        if tries >= rule.attempts or not may_repeat:
            return None
        delay_s = rule.backoff.delay_s(tries, step.id)
    return Action(rule.on_error, rule.name, reason, delay_s, rule.back_to, rule.restart, rule.limit is not None)


_RETRY = Rule(name="retry", on_error="retry")
_THREE_RETRIES = Rule(name="retry", on_error="retry", attempts=4)
_LOW = Rule(name="low priority", on_error="skip", when=When(priorities=("low",)))

POLICIES: Mapping[str, FailurePolicy] = {
    policy.name: policy
    for policy in (
        FailurePolicy(name="block"),
        FailurePolicy(name="default", rules=(_RETRY,)),
        FailurePolicy(
            name="rollback_high",
            rules=(
                _THREE_RETRIES,
                _LOW,
                Rule(name="high priority", on_error="rollback", when=When(priorities=("high",))),
                Rule(name="rest", on_error="terminate"),
            ),
        ),
        FailurePolicy(
            name="skip_off_path",
            rules=(
                _THREE_RETRIES,
                _LOW,
                Rule(
                    name="off the critical path",
                    on_error="skip",
                    when=When(priorities=("medium",), on_critical_path=False),
                ),
                Rule(name="rest", on_error="terminate"),
            ),
        ),
        FailurePolicy(
            name="rollback_critical",
            rules=(
                _RETRY,
                Rule(name="critical", on_error="rollback", when=When(critical=True)),
                Rule(name="rest", on_error="skip"),
            ),
        ),
    )
}
"""Policies by name.

block: seed 000 (a failure blocks what needs it, nothing is retried). default: retries of transient failures, then
block. rollback_high: the first decision table of 002.18. skip_off_path: the second one. rollback_critical: 004.10
(a critical step rolls back, any other is skipped and recorded)."""
