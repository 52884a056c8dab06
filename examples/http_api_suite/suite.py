"""The suite `room_bookings`: an HTTP API for booking rooms, tested through its endpoints."""

from pathlib import Path

from agentlab.environments.base import Suite
from agentlab.tasks import Text, load_tasks

from .environment import BookingEnvironment


def load_suite() -> Suite:
    """Return the suite."""
    return Suite(
        name="room_bookings",
        title=Text(zh="会议室预订接口检查", en="Checks of a room booking API"),
        tasks=tuple(load_tasks(Path(__file__).with_name("tasks.jsonl"))),
        make_environment=BookingEnvironment,
    )
