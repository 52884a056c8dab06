"""The HTTP service: one goal in, one plan carried out, one JSON answer back. Needs the extra `serve`.

`POST /api/task/execute` with `{"goal": "...", "language": "en" | "zh"}` runs the goal with `plan_execute`, as
`agentlab try` does; `GET /health` says that the server is there. Every answer is JSON; one that reports no run has
`error`. Requests share one event loop and one model; each has an environment of its own, and nothing is stored.
"""

import contextlib
import hmac
import ipaddress
import json
import logging
import socket
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentlab.environments.base import Suite, load_suite
from agentlab.errors import ConfigError, InfrastructureError, unknown_name
from agentlab.json_values import dumps
from agentlab.models.base import build_model
from agentlab.planning.inputs import inputs_of
from agentlab.planning.plan import PlanGraph, PlanStep
from agentlab.records import Event, JsonObject, Model
from agentlab.runner.run_one import RunResult
from agentlab.runner.try_one import try_task
from agentlab.secrets import remember, scrub

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ModuleNotFoundError as missing:
    raise ConfigError(
        f"The HTTP service needs {missing.name}: python -m pip install 'agentlab-compare[serve]'"
    ) from missing

LARGEST_BODY_BYTES = 64 * 1024
SHORTEST_TOKEN_CHARS = 16
LANGUAGES = ("en", "zh")
FIELDS = ("goal", "language")
SHUTDOWN_S = 10
"""Seconds that requests in progress get to end after Ctrl-C; then their runs are cancelled."""
_log = logging.getLogger(__name__)


def make_app(
    suite: str | Suite = "orders",
    model: str | Model = "simulated:perfect",
    token: str | None = None,
    *,
    parameters: Mapping[str, Any] | None = None,
) -> Starlette:
    """Return the application, for `serve` or any other ASGI server.

    Args:
        suite: name, folder or module of a suite, or one; its tools are what a plan can use.
        model: `provider:name`, closed when the application shuts down, or a model object, which stays open.
        token: what every request for a run has to show as `Authorization: Bearer`; None asks for nothing, and
            then requests from web pages are refused.
        parameters: of `plan_execute`.

    Raises:
        ConfigError: an unknown suite or model, or a token that cannot be one.
    """
    if token is not None:
        _check_token(token)
        remember(token)
    held = load_suite(suite) if isinstance(suite, str) else suite
    thinker = build_model(model) if isinstance(model, str) else model

    async def execute(request: Request) -> Response:
        _admit(request, token)
        goal, language = _read(await _body(request))
        result = await _run(goal, held, thinker, language, dict(parameters or {}))
        return _json(answer_of(result))

    async def health(request: Request) -> Response:
        return _json({"status": "ok"})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            if isinstance(model, str):
                await thinker.close()

    return Starlette(
        routes=[Route("/api/task/execute", execute, methods=["POST"]), Route("/health", health)],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )


def serve(
    suite: str = "orders",
    model: str = "simulated:perfect",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    on_ready: Callable[[str], Any] = print,
) -> None:
    """Serve until Ctrl-C or SIGTERM; requests in progress get `SHUTDOWN_S` seconds to end.

    Args:
        suite: name, folder or module of a suite.
        model: `provider:name`.
        host: address to listen on; only the loopback ones do without a token.
        port: 0 takes a free one.
        token: see `make_app`.
        on_ready: called with the address (`http://127.0.0.1:8000`) once connections are accepted.

    Raises:
        ConfigError: another host without a token, an address that cannot be used, or as for `make_app`.
    """
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"Whoever reaches {host or 'this server'} could run goals and spend the model's tokens, so it needs a "
            "token: set AGENTLAB_TOKEN (or --token), or listen on 127.0.0.1. To make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    app = make_app(suite, model, token)
    with _listening(host, port) as listener:
        name, number = listener.getsockname()[:2]
        on_ready(f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan="on",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_S,
        )
        # uvicorn raises the signal again after it has shut down in order.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on that host: `localhost`, 127.0.0.0/8, ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def answer_of(result: RunResult) -> JsonObject:
    """Return the JSON answer for a run of `plan_execute` with `parallelism` 1; a pure function of its records.

    `status`: `completed` when every step completed or was skipped by decision, nothing ended the plan or the run
    before its end, and no effect is left, of a replaced plan neither, that could not be undone or of which nobody
    knows; `partial` when a plan was begun and that is not so, `failed` when there was no plan to carry out.
    `failed_step`: the first step that failed for good, or None. `steps`: id -> status. `outputs`: id -> output of
    the completed steps, as references to them resolve. `verdict` and `report` are the answer's, None without one;
    `end_reason` and `message` say how the run ended.
    """
    plan = _Plan()
    for event in result.events:
        plan.add(event)
    answer = result.answer
    return {
        "status": plan.status(result.end_reason),
        "failed_step": next(iter(plan.failed), None),
        "steps": plan.statuses,
        "outputs": plan.outputs,
        "verdict": answer.verdict if answer is not None else None,
        "report": answer.text if answer is not None else None,
        "end_reason": result.end_reason,
        "message": result.error,
        "model": result.model,
        "model_kind": result.model_kind,
    }


@dataclass(slots=True)
class _Plan:
    """A plan's execution as the events of the trace tell it."""

    graph: PlanGraph | None = None
    statuses: dict[str, str] = field(default_factory=dict)
    outputs: JsonObject = field(default_factory=dict)
    failed: dict[str, None] = field(default_factory=dict)
    """The steps that failed for good, in the order of their failures."""
    unsure: set[str] = field(default_factory=set)
    """The steps of which nobody knows whether their effect is there."""
    is_stopped: bool = False
    has_lost_effect: bool = False
    """Whether a plan that was replaced has left an effect that could not be undone, or of which nobody knows."""
    _calls: list[JsonObject] = field(default_factory=list)
    _text: str = ""

    def status(self, end_reason: str) -> str:
        """Return completed, partial or failed, as `answer_of` has it."""
        statuses = set(self.statuses.values())
        if not statuses:
            return "failed"
        is_whole = "completed" in statuses and statuses <= {"completed", "skipped"}
        is_clean = not self.is_stopped and not self.unsure and not self.has_lost_effect
        return "completed" if is_whole and is_clean and end_reason == "answered" else "partial"

    def add(self, event: Event) -> None:
        """Follow one event."""
        if event.kind == "plan":
            self.has_lost_effect |= bool(self.unsure) or "rollback_failed" in self.statuses.values()
            self.graph = PlanGraph.from_json(event.data["plan"])
            # What has completed stays so in a plan that replaces another one.
            self.statuses = {
                step.id: "completed" if step.id in self.outputs else "pending" for step in self.graph.steps
            }
            self.failed, self.unsure, self.is_stopped = {}, set(), False
        elif event.kind == "model_call":
            self._text = event.data["text"]
        elif event.kind == "tool_call":
            self._calls.append(event.data)
        elif event.kind == "step" and event.data["step"] is not None:
            self._settle(event.data)
            self._move(event.data["step"], event.data["after"])
        elif event.kind == "step":
            self.is_stopped = bool(event.data.get("stopped", self.is_stopped))

    def _settle(self, data: JsonObject) -> None:
        """Take in whether the effect of a step is known: its last error says so, and an undo settles it."""
        if (data.get("error") or {}).get("may_have_happened"):
            self.unsure.add(data["step"])
        elif "error" in data or data["after"] in ("completed", "rolled_back", "rollback_failed"):
            self.unsure.discard(data["step"])

    def _move(self, step_id: str, after: str) -> None:
        if after == "running" and self.statuses[step_id] != "running":
            self._calls = []
        if after == "completed" and self.statuses[step_id] != "completed":
            assert self.graph is not None
            self.outputs[step_id] = self._output(self.graph.step(step_id))
        elif after != "completed":
            self.outputs.pop(step_id, None)
        if after == "failed":
            self.failed.setdefault(step_id)
        elif after in ("pending", "running"):
            self.failed.pop(step_id, None)
        self.statuses[step_id] = after

    def _output(self, step: PlanStep) -> Any:
        """The output of a step that has just completed; the trace keeps what it is made of."""
        if step.kind in ("collect", "report"):
            return [dict(call) for call in inputs_of(step, self.outputs).calls]
        if step.kind == "goal":
            return self._text
        shown = [_data_of(call) for call in self._calls if call["tool"] == step.tool and call["success"]]
        return shown if step.kind == "map" else shown[-1] if shown else None


def _data_of(call: JsonObject) -> Any:
    """The data that a tool returned: beside the observation where that was cut, else in it."""
    if "data" in call:
        return call["data"]
    try:
        return json.loads(call["observation"]).get("data")
    except ValueError:
        return call["observation"]


def _check_token(token: str) -> None:
    if len(token) < SHORTEST_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"The token must have at least {SHORTEST_TOKEN_CHARS} characters, ASCII without spaces. To make one: "
            'python -c "import secrets; print(secrets.token_urlsafe(32))"'
        )


def _admit(request: Request, token: str | None) -> None:
    if token is None:
        # Any web page may post to a server on its visitor's machine; browsers say so with this header.
        if "origin" in request.headers:
            raise HTTPException(403, "Requests from web pages need a token: start the server with AGENTLAB_TOKEN.")
        return
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), token.encode()):
        raise HTTPException(
            401, "A token is needed: send the header Authorization: Bearer TOKEN.", {"WWW-Authenticate": "Bearer"}
        )


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY_BYTES:
            raise HTTPException(413, f"The body is larger than {LARGEST_BODY_BYTES} bytes.")
    return body


def _read(body: bytes) -> tuple[str, str]:
    """Goal and language of a request."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"The body is no JSON: {error}.") from None
    if not isinstance(data, dict):
        raise HTTPException(400, f'The body must be an object like {{"goal": "..."}}, not {type(data).__name__}.')
    if unknown := [name for name in data if name not in FIELDS]:
        raise HTTPException(400, str(unknown_name("field", unknown[0], FIELDS)))
    goal = data.get("goal")
    if not isinstance(goal, str) or not goal.strip():
        raise HTTPException(400, "goal must say in words what to do; it is empty, missing or no text.")
    language = data.get("language", "en")
    if language not in LANGUAGES:
        raise HTTPException(400, str(unknown_name("language", str(language), LANGUAGES)))
    return goal, language


async def _run(goal: str, suite: Suite, model: Model, language: str, parameters: dict[str, Any]) -> RunResult:
    """The run of a goal that ended in any way of its own; other ends are refusals."""
    try:
        result, _ = await try_task(
            goal, suite=suite, strategy="plan_execute", model=model, language=language, parameters=parameters
        )
    except ConfigError as error:
        raise HTTPException(400, str(error)) from None
    except InfrastructureError as error:
        raise HTTPException(502, f"{type(error).__name__}: {error}") from None
    except Exception as error:
        raise _own_error(f"{type(error).__name__}: {error}", traceback.format_exc()) from None
    if result.end_reason == "infrastructure":
        raise HTTPException(502, result.error or "the model could not be reached")
    if result.end_reason == "error":
        told = [event.data["traceback"] for event in result.events if "traceback" in event.data]
        raise _own_error(result.error or "unknown error", "\n".join(told))
    return result


def _own_error(message: str, details: str) -> HTTPException:
    """What the client is told of an error of ours; the details go to the server's own log."""
    _log.error(scrub(details))
    return HTTPException(500, f"agentlab itself failed ({message}); the server's log has the details.")


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code, error.headers)


def _json(data: JsonObject, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(scrub(dumps(data)), status, headers, "application/json")


@contextlib.contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket, made here and not by uvicorn so that its address is known and its errors are ours."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"Cannot listen on {host} port {port}: {error}. Try another --host or --port.") from error
    with listener:
        yield listener
