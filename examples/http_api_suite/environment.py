"""The environment: an HTTP API, each run in a workspace of its own, and the tools that call it.

Whatever the API answers is something to observe: a 404, a 503 or no answer in time becomes a result that the
model sees (`success` false with an `error_kind`). Only an API that cannot be reached at all while a run is set up
is infrastructure trouble, which counts for nobody.
"""

import contextlib
import uuid
from collections.abc import Mapping
from typing import Any

import httpx2

from agentlab.environments.changes import starting_state
from agentlab.errors import ConfigError, EnvironmentUnavailable, ToolError, unknown_name
from agentlab.records import JsonObject, ToolResult
from agentlab.tasks import Task
from agentlab.tools import Tool, tool, tools_of

from .demo_server import DemoServer

BASE: JsonObject = {
    "rooms": {"LION": {"capacity": 10}, "PANDA": {"capacity": 4}},
    "bookings": [],
    "faults": {},
    "n_posts": 0,
}
DEFAULT_TIMEOUT_S = 0.5
"""Enough for a server on this machine; give an API of your own more with the setting `timeout_s`."""


class ApiProblem(ToolError):
    """The API did not do what was asked; `kind` becomes the `error_kind` of the tool's result."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Api:
    """The HTTP calls of one run."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._client: httpx2.Client | None = None

    def connect(self, base_url: str) -> None:
        """Use this API, in a new workspace of it: parallel runs do not see each other."""
        self.close()
        address = f"{base_url.rstrip('/')}/workspaces/{uuid.uuid4().hex}"
        # A proxy of the network is not meant for a server on this machine.
        is_here = httpx2.URL(base_url).host in ("localhost", "127.0.0.1", "::1")
        self._client = httpx2.Client(base_url=address, timeout=self._timeout_s, trust_env=not is_here)

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> Any:
        """Return what the API answers, read from JSON.

        Raises:
            ApiProblem: it answers with an error status, not in time, or not at all.
        """
        assert self._client is not None
        try:
            response = self._client.request(method, path, json=body)
        except httpx2.TimeoutException as error:
            effect = " Whether it took effect is unknown." if method != "GET" else ""
            message = f"{method} {path} brought no answer within {self._timeout_s:g} s.{effect}"
            raise ApiProblem("timed_out", message) from error
        except httpx2.TransportError as error:
            raise ApiProblem("connection_failed", f"{method} {path}: {type(error).__name__}.") from error
        if response.status_code == 404:
            raise ApiProblem("not_found", f"{method} {path} answered 404: there is no such thing.")
        if response.is_error:
            raise ApiProblem(f"http_{response.status_code}", f"{method} {path} answered {response.status_code}.")
        return response.json() if response.content else None

    def state(self) -> JsonObject:
        """Return the whole state of the workspace."""
        state: JsonObject = self._manage("GET")
        return state

    def set_state(self, state: JsonObject) -> None:
        """Bring the workspace into a state."""
        self._manage("PUT", state)

    def close(self) -> None:
        """Remove the workspace and close the connections; may be called twice."""
        if self._client is not None:
            with contextlib.suppress(EnvironmentUnavailable):  # an API that is gone keeps nothing
                self._manage("DELETE")
            self._client.close()
            self._client = None

    def _manage(self, method: str, body: JsonObject | None = None) -> Any:
        """A call that sets a run up or looks at it from outside; the API under test must not fail here."""
        try:
            return self.ask(method, "", body)
        except ApiProblem as error:
            raise EnvironmentUnavailable(
                f"The booking API cannot be prepared for a run ({error.kind}: {error}). Is it running at the base_url "
                "of the experiment's environment, and does it have workspaces?"
            ) from error


class BookingTools:
    """The tools of one run."""

    def __init__(self, api: Api) -> None:
        self._api = api

    @tool(zh="查询会议室：可容纳的人数。")
    def get_room(self, room: str) -> ToolResult:
        """Look up a room: how many people it holds.

        Args:
            room: Name of the room.
        """
        return ToolResult(True, subject=room, data=self._api.ask("GET", f"/rooms/{room}"))

    @tool(zh="检查会议室是否容得下指定的人数。")
    def check_capacity(self, room: str, people: int) -> ToolResult:
        """Check whether a room holds a number of people.

        Args:
            room: Name of the room.
            people: How many people it has to hold.
        """
        capacity = self._api.ask("GET", f"/rooms/{room}")["capacity"]
        message = f"The room holds {capacity}, needed are {people}."
        return ToolResult(True, capacity >= people, check="capacity_valid", subject=room, message=message)

    @tool(effect="write", zh="预订会议室一天。")
    def book_room(self, room: str, day: str, person: str) -> ToolResult:
        """Book a room for a day.

        Args:
            room: Name of the room.
            day: The day as YYYY-MM-DD.
            person: Who books it.
        """
        booking = self._api.ask("POST", f"/rooms/{room}/bookings", {"day": day, "person": person})
        return ToolResult(True, subject=room, data=booking, message="The API accepted the booking.")

    @tool(max_retries=1, zh="检查会议室在某天是否恰好有此人的一个预订。")
    def check_booking(self, room: str, day: str, person: str) -> ToolResult:
        """Check whether a room is booked for a day by a person, exactly once.

        Args:
            room: Name of the room.
            day: The day as YYYY-MM-DD.
            person: Who should have booked it.
        """
        bookings = [b for b in self._api.ask("GET", f"/rooms/{room}/bookings") if b["day"] == day]
        passed = [booking["person"] for booking in bookings] == [person]
        return ToolResult(True, passed, check="booking_valid", subject=room, data=bookings)


class BookingEnvironment:
    """The booking API of one run: a demo server of its own, or the API at `base_url`.

    Args:
        settings: `base_url`, the address of an API that runs already (needs the demo server's endpoints; adapt
            `Api` to yours); `timeout_s`, the limit for one HTTP call.
    """

    version = "1"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        for name in settings:
            if name not in ("base_url", "timeout_s"):
                raise unknown_name("setting of the booking environment", name, ["base_url", "timeout_s"])
        self._base_url: str | None = settings.get("base_url")
        if self._base_url is not None and not str(self._base_url).startswith(("http://", "https://")):
            raise ConfigError(f"base_url must be an address such as http://127.0.0.1:8000, not {self._base_url!r}.")
        self._api = Api(float(settings.get("timeout_s", DEFAULT_TIMEOUT_S)))
        self._server: DemoServer | None = None

    def reset(self, task: Task, seed: int) -> None:
        """Bring a new workspace of the API into the task's initial state, defects included."""
        base_url = self._base_url
        if base_url is None:
            self._server = self._server or DemoServer()
            base_url = self._server.base_url
        self._api.connect(base_url)
        self._api.set_state(starting_state(task, BASE))

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools, the same for every task."""
        return tools_of(BookingTools(self._api))

    def observe(self) -> str:
        """Return an empty text: there is nothing to see before the first call."""
        return ""

    def facts(self) -> JsonObject:
        """Return the `bookings` that there are, and how many were asked for (`n_posts`)."""
        state = self._api.state()
        return {"bookings": state["bookings"], "n_posts": state["n_posts"]}

    def snapshot(self) -> JsonObject:
        """Return the state of the workspace."""
        return self._api.state()

    def restore(self, snapshot: JsonObject) -> None:
        """Bring the workspace into the state of a snapshot."""
        self._api.set_state(snapshot)

    def close(self) -> None:
        """Remove the workspace, close the connections, stop the run's own server."""
        self._api.close()
        if self._server is not None:
            self._server.close()
            self._server = None
