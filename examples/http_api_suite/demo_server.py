"""A small booking API on loopback, made of the standard library, with faults on demand.

`python demo_server.py 8000` serves it until it is stopped, for the setting `base_url: http://127.0.0.1:8000`.

    PUT, GET, DELETE /workspaces/W          a workspace's whole state: rooms, bookings, faults
    GET  /workspaces/W/rooms/R              a room
    GET  /workspaces/W/rooms/R/bookings     its bookings
    POST /workspaces/W/rooms/R/bookings     book it: 201, or 409 when the day is taken

`faults` in the state: `loses_bookings` (201, but nothing is kept), `bookings_fail` (503), `bookings_hang` (no
answer in time).
"""

import contextlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_S = 60.0


class DemoServer:
    """The server in a thread of this process, on a free port."""

    def __init__(self, port: int = 0) -> None:
        self._server = _Server(("127.0.0.1", port), _Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving; answers that hang are given up."""
        self._server.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait(self) -> None:
        """Serve until the process is ended."""
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.workspaces: dict[str, Any] = {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: apart, each answer would wait 40 ms for an acknowledgement
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: the trace of a run holds every call."""

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        match self.path.strip("/").split("/"):
            case ["workspaces", workspace]:
                with self.server.lock:
                    status, answer = self._workspace(workspace, body)
            case ["workspaces", workspace, "rooms", room, *rest] if workspace in self.server.workspaces:
                state = self.server.workspaces[workspace]
                if rest and self.command == "GET" and "bookings_hang" in state["faults"]:
                    self.server.stopping.wait(HANG_S)
                with self.server.lock:
                    status, answer = self._room(state, room, rest, body)
            case _:
                status, answer = 404, None
        payload = json.dumps(answer).encode() if answer is not None else b""
        with contextlib.suppress(ConnectionError):  # the caller has given up
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

    def _workspace(self, name: str, body: Any) -> tuple[int, Any]:
        workspaces = self.server.workspaces
        if self.command == "PUT":
            workspaces[name] = body
            return 200, None
        if self.command == "DELETE":
            workspaces.pop(name, None)
            return 200, None
        return (200, workspaces[name]) if name in workspaces else (404, None)

    def _room(self, state: Any, room: str, rest: list[str], body: Any) -> tuple[int, Any]:
        if room not in state["rooms"]:
            return 404, None
        if not rest:
            return 200, state["rooms"][room]
        booked = [booking for booking in state["bookings"] if booking["room"] == room]
        if self.command == "POST":
            state["n_posts"] += 1
            if any(booking["day"] == body["day"] for booking in booked):
                return 409, None
            if "loses_bookings" not in state["faults"]:
                state["bookings"].append({"room": room, **body})
            return 201, {"room": room, **body}
        return (503, None) if "bookings_fail" in state["faults"] else (200, booked)


if __name__ == "__main__":
    server = DemoServer(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(server.base_url, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.wait()
