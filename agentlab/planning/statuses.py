"""The statuses of plan steps and plans, the changes that are possible, and how they read in the sources' own terms.

`ready` is no status: it is computed (pending, and every strong dependency completed).
"""

from collections.abc import Mapping
from typing import Literal, get_args

StepStatus = Literal[
    "pending", "awaiting_approval", "running", "retry_wait", "interrupted",
    "completed", "failed", "blocked", "skipped", "cancelled", "rolled_back", "rollback_failed",
]  # fmt: skip
PlanStatus = Literal[
    "planning", "validating", "replanning", "awaiting_approval", "executing", "interrupted",
    "completed", "partial", "failed", "cancelled",
]  # fmt: skip
Phase = Literal["planning", "validating", "replanning", "executing"]
STEP_STATUSES: tuple[StepStatus, ...] = get_args(StepStatus)
PLAN_STATUSES: tuple[PlanStatus, ...] = get_args(PlanStatus)
PHASES: tuple[Phase, ...] = get_args(Phase)
OPEN: frozenset[StepStatus] = frozenset({"pending", "awaiting_approval", "running", "retry_wait", "interrupted"})
"""Statuses of a step that something still has to happen to; a plan with such a step is not finished."""

STATUS_WORDS: dict[str, tuple[str, str]] = {
    "completed": ("completed", "完成"),
    "failed": ("failed", "失败"),
    "blocked": ("blocked", "阻塞"),
    "skipped": ("skipped", "跳过"),
    "cancelled": ("cancelled", "取消"),
    "rolled_back": ("rolled back", "已回滚"),
    "rollback_failed": ("rollback failed", "回滚失败"),
    "pending": ("pending", "等待"),
    "awaiting_approval": ("awaiting approval", "待审批"),
    "running": ("running", "执行中"),
    "retry_wait": ("waits for a retry", "等待重试"),
    "interrupted": ("interrupted", "中断"),
}
"""How the statuses of a step read, in English and Chinese."""

TRANSITIONS: Mapping[StepStatus, frozenset[StepStatus]] = {
    # failed: an argument that cannot be resolved fails the step before it runs.
    # rolled_back, here and below: an earlier try may have taken effect.
    "pending": frozenset(
        {"running", "awaiting_approval", "failed", "blocked", "skipped", "cancelled", "rolled_back", "rollback_failed"}
    ),
    # pending: approved, and ready again.
    "awaiting_approval": frozenset({"pending", "failed", "blocked", "skipped", "cancelled"}),
    # interrupted: found running after a crash.
    "running": frozenset({"completed", "failed", "retry_wait", "skipped", "cancelled", "interrupted"}),
    # pending: the wait is over.
    "retry_wait": frozenset({"pending", "failed", "blocked", "skipped", "cancelled", "rolled_back", "rollback_failed"}),
    # pending: it is harmless to run it again; completed: it turned out that it had happened.
    "interrupted": frozenset({"pending", "completed", "failed", "skipped", "cancelled"}),
    # To pending, here and below: a restart of this part of the plan.
    "completed": frozenset({"rolled_back", "rollback_failed", "pending"}),
    "failed": frozenset({"rolled_back", "rollback_failed", "pending"}),
    "blocked": frozenset({"pending"}),
    "skipped": frozenset({"pending", "rolled_back", "rollback_failed"}),
    "cancelled": frozenset({"pending"}),
    "rolled_back": frozenset({"pending"}),
    # Never to pending: what is half undone is not run again by a program.
    "rollback_failed": frozenset({"rolled_back"}),
}
"""Every change of a step's status that is possible, and why where it is not plain."""

STEP_PROJECTIONS: Mapping[str, Mapping[StepStatus, str]] = {
    "000": {
        "pending": "pending", "awaiting_approval": "pending", "running": "running", "retry_wait": "running",
        "interrupted": "running", "completed": "completed", "failed": "failed", "blocked": "blocked",
        "skipped": "failed", "cancelled": "failed", "rolled_back": "failed", "rollback_failed": "failed",
    },
    "002": {
        "pending": "pending", "awaiting_approval": "pending", "running": "running", "retry_wait": "running",
        "interrupted": "running", "completed": "completed", "failed": "failed", "blocked": "failed",
        "skipped": "skipped", "cancelled": "failed", "rolled_back": "failed", "rollback_failed": "failed",
    },
    "004": {
        "pending": "pending", "awaiting_approval": "pending", "running": "running", "retry_wait": "running",
        "interrupted": "running", "completed": "completed", "failed": "failed", "blocked": "failed",
        "skipped": "failed", "cancelled": "failed", "rolled_back": "failed", "rollback_failed": "failed",
    },
}  # fmt: skip
"""Source -> our status -> its status. An open status stays open and a final one final; blocked (a dependency did not
succeed) and skipped (a decision) never share a name where the source has a name for one of them."""

PLAN_PROJECTIONS: Mapping[str, Mapping[PlanStatus, str]] = {
    "002": {
        "planning": "idle", "validating": "idle", "replanning": "running", "awaiting_approval": "running",
        "executing": "running", "interrupted": "running", "completed": "completed", "partial": "failed",
        "failed": "failed", "cancelled": "stopped",
    },
    "004": {
        "planning": "planning", "validating": "planning", "replanning": "executing", "awaiting_approval": "executing",
        "executing": "executing", "interrupted": "executing", "completed": "completed", "partial": "failed",
        "failed": "failed", "cancelled": "failed",
    },
}  # fmt: skip
"""Source -> our plan status -> its workflow or plan status. The HTTP answer of 004.11 knows only two: `completed`
for completed, `partial` for every other finished plan."""
