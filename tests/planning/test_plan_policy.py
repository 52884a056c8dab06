from typing import Any

import pytest
import yaml
from plan_runner import steps

from agentlab.errors import ConfigError
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.planning.policy import (
    MOST_ATTEMPTS,
    POLICIES,
    Action,
    Backoff,
    FailurePolicy,
    Rule,
    When,
    is_on_critical_path,
    load_policy,
)
from agentlab.planning.state import PlanState
from agentlab.planning.step_state import StepError

TRANSIENT = StepError("connection_failed", "dropped", is_transient=True)
FINAL = StepError("not_found", "no such order")
UNSAFE = StepError("timed_out", "late", is_transient=True, is_safe_to_repeat=False, may_have_happened=True)


def decide(policy: str | dict[str, Any] | FailurePolicy, error: StepError, tries: int = 1, **fields: Any) -> Action:
    step = PlanStep("a", **{"tool": "t", **fields})
    graph = PlanGraph((step, PlanStep("b", tool="t", depends_on=("a",))))
    return load_policy(policy).decide(step, error, tries, graph, PlanState(graph))


# 002.18: both decision tables, line by line

TABLE_1 = [
    # recoverable and retries left -> retry, whatever the priority
    *((TRANSIENT, tries, priority, "retry") for tries in (1, 2, 3) for priority in ("high", "medium", "low")),
    # else by priority: LOW -> skip, HIGH -> rollback, else terminate
    *((error, tries, "low", "skip") for error, tries in ((TRANSIENT, 4), (FINAL, 1))),
    *((error, tries, "high", "rollback") for error, tries in ((TRANSIENT, 4), (FINAL, 1))),
    *((error, tries, "medium", "terminate") for error, tries in ((TRANSIENT, 4), (FINAL, 1))),
]


@pytest.mark.parametrize(("error", "tries", "priority", "action"), TABLE_1)
def test_002_18_the_first_decision_table(error: StepError, tries: int, priority: str, action: str) -> None:
    assert decide("rollback_high", error, tries, priority=priority).kind == action


@pytest.mark.parametrize("dependent", ["high", "medium"])
@pytest.mark.parametrize(
    ("error", "tries", "priority", "on_path", "off_path"),
    [
        (TRANSIENT, 3, "high", "retry", "retry"),
        (TRANSIENT, 3, "medium", "retry", "retry"),
        (TRANSIENT, 3, "low", "retry", "retry"),
        (FINAL, 1, "low", "skip", "skip"),
        (FINAL, 1, "medium", "terminate", "skip"),
        (TRANSIENT, 4, "medium", "terminate", "skip"),
        (FINAL, 1, "high", "terminate", "terminate"),
    ],
)
def test_002_18_the_second_decision_table(
    error: StepError, tries: int, priority: str, on_path: str, off_path: str, dependent: str
) -> None:
    step = PlanStep("a", tool="t", priority=priority)  # type: ignore[arg-type]
    graph = PlanGraph((
        step, PlanStep("b", tool="t", depends_on=("a",)),
        PlanStep("c", tool="t", depends_on=("b",), priority=dependent),  # type: ignore[arg-type]
    ))  # fmt: skip
    action = POLICIES["skip_off_path"].decide(step, error, tries, graph, PlanState(graph))
    assert action.kind == (on_path if dependent == "high" else off_path)


def test_the_policy_of_000_blocks_and_that_of_004_10_asks_whether_a_step_is_critical() -> None:
    assert decide("block", TRANSIENT).kind == "block"
    assert decide("block", TRANSIENT).rule == "default"
    assert decide("rollback_critical", FINAL, is_critical=True).kind == "rollback"
    assert decide("rollback_critical", FINAL, is_critical=False).kind == "skip"
    assert decide("rollback_critical", FINAL).kind == "skip"
    assert decide("rollback_critical", TRANSIENT, 2, is_critical=True).kind == "retry"


def test_the_default_retries_what_may_pass_twice_and_then_blocks() -> None:
    assert [decide("default", TRANSIENT, tries).kind for tries in (1, 2, 3)] == ["retry", "retry", "block"]
    assert decide("default", FINAL).kind == "block"


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("fields", [{}, {"on_error": "retry"}, {"max_retries": 5}])
def test_what_may_have_happened_is_never_tried_again(name: str, fields: dict[str, Any]) -> None:
    assert decide(name, UNSAFE, **fields).kind != "retry"
    eager = Rule(name="eager", on_error="retry", only_transient=False, attempts=9)
    assert decide(FailurePolicy(name="eager", rules=(eager,)), UNSAFE, **fields).kind == "block"


# What the plan asks for


def test_the_plan_asks_for_retries_first_and_then_for_its_own_way_out() -> None:
    wish = {"on_error": "skip", "max_retries": 3}
    assert [decide("block", TRANSIENT, tries, **wish).kind for tries in (1, 2, 3, 4)] == ["retry"] * 3 + ["skip"]
    assert decide("block", FINAL, **wish).kind == "skip"
    assert decide("block", FINAL, **wish).rule == "plan"
    assert decide("block", TRANSIENT, 1, on_error="rollback").kind == "rollback"


def test_a_wish_for_retries_alone_leaves_the_rest_to_the_policy() -> None:
    assert [decide("rollback_critical", TRANSIENT, tries, on_error="retry").kind for tries in (2, 3)] == [
        "retry",
        "skip",
    ]
    assert decide("block", TRANSIENT, 1, max_retries=0).kind == "block"
    assert decide("block", TRANSIENT, MOST_ATTEMPTS, max_retries=50).kind == "block"


def test_a_suite_may_keep_the_decision_to_itself() -> None:
    strict = {"name": "strict", "plan_decides": False, "rules": [{"name": "all", "on_error": "terminate"}]}
    assert decide(strict, TRANSIENT, on_error="skip", max_retries=9).kind == "terminate"


def test_a_plan_may_ask_for_a_replan_once_per_step() -> None:
    step = PlanStep("a", tool="t", on_error="replan")
    graph = PlanGraph((step,))
    state = PlanState(graph)
    first = load_policy("block").decide(step, FINAL, 1, graph, state)
    assert (first.kind, first.is_counted) == ("replan", True)
    state.count_rule(first.rule)
    assert load_policy("block").decide(step, FINAL, 1, graph, state).kind == "block"


# Rules as data


def test_a_check_that_did_not_pass_is_not_retried_or_skipped() -> None:
    with pytest.raises(ConfigError, match="leads to rollback or replan or terminate or escalate"):
        load_policy({"name": "p", "rules": [{"name": "r", "when": {"not_passed": True}, "on_error": "retry"}]})


def test_a_policy_is_written_in_yaml() -> None:
    text = """
    name: service
    rules:
      - name: retry
        on_error: retry
        attempts: 4
        backoff: {base_s: 0.1, cap_s: 1, jitter: 0}
      - name: redesign
        when: {steps: ["3.1"], critical: true}
        on_error: rollback
        back_to: "2.1"
        restart: true
        limit: 1
      - name: new plan
        when: {layers: [verification], not_passed: true}
        on_error: replan
        limit: 2
      - {name: mail, when: {tools: [send_email], worker_types: [deploy], transient: false}, on_error: escalate}
    """
    policy = load_policy(yaml.safe_load(text))
    assert decide(policy, TRANSIENT, 3) == Action(
        "retry", "retry", "retry by rule 'retry': connection_failed after 3 tries", 0.4
    )
    assert decide(policy, FINAL, is_critical=True).kind == "block"
    assert decide(policy, FINAL, layer="verification").kind == "block"
    assert decide(policy, FINAL, tool="send_email", worker_type="deploy").kind == "escalate"
    assert decide(policy, FINAL, tool="send_email", worker_type="db").kind == "block"
    assert FailurePolicy.model_validate(policy.model_dump(mode="json")) == policy


def test_a_rule_with_a_limit_gives_way_to_the_next_one() -> None:
    rules = (Rule(name="once", on_error="replan", limit=1), Rule(name="then", on_error="terminate"))
    policy = FailurePolicy(name="p", rules=rules)
    graph = steps(("a", ""))
    state = PlanState(graph)
    assert policy.decide(graph.steps[0], FINAL, 1, graph, state).kind == "replan"
    state.count_rule("once")
    assert policy.decide(graph.steps[0], FINAL, 1, graph, state).kind == "terminate"


def test_a_rollback_to_a_step_is_for_what_comes_after_it() -> None:
    policy = FailurePolicy(name="p", rules=(Rule(name="r", on_error="rollback", back_to="layer:one"),))
    graph = steps(("a", "", {"layer": "one"}), ("b", "a"), ("c", ""))
    actions = [policy.decide(graph.step(name), FINAL, 1, graph, PlanState(graph)) for name in ("b", "c", "a")]
    assert [action.kind for action in actions] == ["rollback", "block", "block"]
    assert actions[0].back_to == "layer:one"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("blok", "Did you mean 'block'"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "explode"}]}, "rules.0.on_error"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "skip", "colour": 1}]}, "rules.0.colour"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "replan"}]}, "a replan needs a limit"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "rollback", "restart": True}]}, "a restart needs a limit"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "skip", "back_to": "1"}]}, "belong to a rollback"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "skip"}] * 2}, "a rule name is used twice: a"),
        ({"name": "p", "rules": [{"name": "a", "on_error": "retry", "attempts": 99}]}, "attempts"),
    ],
)
def test_what_is_no_policy_is_refused_with_the_place(source: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_policy(source)


def test_conditions_are_met_together() -> None:
    graph = steps(("a", "", {"priority": "low", "layer": "one"}), ("b", "a", {"is_critical": True}), ("c", "~b"))
    step = graph.step("a")
    for when, matches in [
        (When(), True),
        (When(priorities=("low",), layers=("one",)), True),
        (When(priorities=("low",), layers=("two",)), False),
        (When(critical=False), True),
        (When(critical=True), False),
        (When(on_critical_path=True), True),
        (When(on_critical_path=False), False),
        (When(transient=True), False),
        (When(error_kinds=("not_found",)), True),
    ]:
        assert when.matches(step, FINAL, graph) == matches, when
    assert [is_on_critical_path(graph.step(name), graph) for name in "abc"] == [True, True, False]


# Waiting


def test_the_wait_doubles_up_to_a_cap_and_is_never_the_same_for_all() -> None:
    plain = Backoff(base_s=0.5, cap_s=3.0, jitter=0.0)
    assert [plain.delay_s(tries, "a") for tries in (1, 2, 3, 4, 500)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    jittered = Backoff(base_s=1.0, cap_s=60.0, jitter=0.5)
    delays = [jittered.delay_s(3, f"step {i}") for i in range(200)]
    assert len(set(delays)) == 200
    assert 2.0 <= min(delays) < 2.2
    assert 3.8 < max(delays) <= 4.0
    assert jittered.delay_s(3, "step 1") == delays[1]
