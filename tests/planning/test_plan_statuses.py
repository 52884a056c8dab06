from typing import get_args

import pytest

from agentlab.planning.recovery import RecoveryKind
from agentlab.planning.statuses import (
    OPEN,
    PLAN_PROJECTIONS,
    PLAN_STATUSES,
    STEP_PROJECTIONS,
    STEP_STATUSES,
)

STEP_SETS = {
    "000": {"pending", "running", "completed", "failed", "blocked"},
    "002": {"pending", "running", "completed", "failed", "skipped"},
    "004": {"pending", "running", "completed", "failed"},
}
PLAN_SETS = {
    "002": {"idle", "running", "completed", "failed", "stopped"},
    "004": {"planning", "executing", "completed", "failed"},
}
OPEN_WORDS = {"pending", "running", "idle", "planning", "executing"}


def test_the_statuses_are_those_of_the_design() -> None:
    assert set(STEP_STATUSES) == {
        "pending", "awaiting_approval", "running", "retry_wait", "completed", "failed", "blocked", "skipped",
        "cancelled", "interrupted", "rolled_back", "rollback_failed",
    }  # fmt: skip
    assert set(PLAN_STATUSES) == {
        "planning", "validating", "awaiting_approval", "executing", "replanning", "completed", "partial", "failed",
        "cancelled", "interrupted",
    }  # fmt: skip


@pytest.mark.parametrize("source", STEP_SETS)
def test_steps_project_onto_each_source(source: str) -> None:
    projection = STEP_PROJECTIONS[source]
    assert set(projection) == set(STEP_STATUSES)
    assert set(projection.values()) == STEP_SETS[source]
    assert {status for status in STEP_STATUSES if projection[status] in OPEN_WORDS} == OPEN
    assert [status for status in STEP_STATUSES if projection[status] == "completed"] == ["completed"]
    if {"blocked", "skipped"} & STEP_SETS[source]:
        assert projection["blocked"] != projection["skipped"]


@pytest.mark.parametrize("source", PLAN_SETS)
def test_002_20_plans_project_onto_each_source(source: str) -> None:
    projection = PLAN_PROJECTIONS[source]
    assert set(projection) == set(PLAN_STATUSES)
    assert set(projection.values()) == PLAN_SETS[source]
    assert [status for status in PLAN_STATUSES if projection[status] == "completed"] == ["completed"]
    ends = {status for status in PLAN_STATUSES if projection[status] not in OPEN_WORDS}
    assert ends == {"completed", "partial", "failed", "cancelled"}


def test_002_20_a_stopped_workflow_and_a_running_one_keep_their_names() -> None:
    projection = PLAN_PROJECTIONS["002"]
    assert projection["cancelled"] == "stopped"
    assert projection["interrupted"] == "running", "a workflow found running is not idle"


def test_002_19_the_kinds_of_recovery_are_the_source_s() -> None:
    assert set(get_args(RecoveryKind)) == {"idle", "completed", "recovered", "cannot_recover", "unknown"}
