"""A chat-completions server that costs almost nothing: for measuring clients, in a process of its own.

The address says what it plays: `/steps-20/latency-200/v1` makes runs of 20 model calls, each answered after 200 ms.
The step of a run is the number of assistant messages in the request, so the server keeps no state. A request with
`tools` gets native calls, one without gets turns of text. `GET /stats` gives the requests since the last look.
"""

import asyncio
import json
import re
import sys
import threading
from typing import Any

_TARGET = re.compile(rb"/steps-(\d+)/latency-(\d+)/")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ASSISTANT = (b'"role":"assistant"', b'"role": "assistant"')
_BACKLOG = 2048
USAGE = {"input_tokens": 900, "output_tokens": 25}


def answer(evidence: str = "check_box passed") -> dict[str, Any]:
    """Return the arguments of `submit` that answer the task of the suite `boxes`."""
    finding = {"criterion": "box_valid", "subject": "BOX-1", "status": "passed", "evidence": evidence}
    return {"findings": [finding], "verdict": "passed", "summary": "The box holds a number that is not negative."}


def turns(steps: int, *, native: bool) -> list[dict[str, Any]]:
    """Return the replies of a run of `steps` model calls, in the form of a scripted model.

    Every call but the last checks another box; the last hands in the answer.
    """
    replies: list[dict[str, Any]] = []
    for step in range(1, steps):
        name, arguments = "check_box", {"name": f"BOX-{step}"}
        text = f"I check whether the number in BOX-{step} is valid."
        if native:
            replies.append({"text": text, "tool_calls": [{"name": name, "arguments": arguments}], "usage": USAGE})
        else:
            text = f"Thought: {text}\nAction: {name}\nAction Input: {json.dumps(arguments)}"
            replies.append({"text": text, "usage": USAGE})
    if native:
        replies.append({"text": "", "tool_calls": [{"name": "submit", "arguments": answer()}], "usage": USAGE})
    else:
        text = f"Thought: All is checked.\nFinal Answer: {json.dumps(answer())}"
        replies.append({"text": text, "usage": USAGE})
    return replies


def _response(turn: dict[str, Any], step: int) -> bytes:
    """The whole HTTP response of one turn."""
    message: dict[str, Any] = {"role": "assistant", "content": turn["text"] or None, "refusal": None}
    if "tool_calls" in turn:
        message["tool_calls"] = [
            {
                "id": f"call_{step:04d}Xw3kQ9",
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for call in turn["tool_calls"]
        ]
    used, made = turn["usage"]["input_tokens"], turn["usage"]["output_tokens"]
    body = {
        "id": "chatcmpl-BqW2s8c1kJ0fY5r3N7uTzVxA4",
        "object": "chat.completion",
        "created": 1754400000,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": "tool_calls" if "tool_calls" in turn else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": used,
            "completion_tokens": made,
            "total_tokens": used + made,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": "fp_34a54ae93c",
    }
    return _http(json.dumps(body).encode())


def _http(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Play:
    """What all connections share: the prepared responses and the counts."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, tuple[float, list[bytes], list[bytes]]] = {}
        self.requests = self.in_flight = self.most_in_flight = 0

    def response(self, target: bytes, body: bytes) -> tuple[float, bytes]:
        """Return the latency in seconds and the response to a request."""
        if target == b"/stats":
            return 0.0, self._stats()
        prepared = self._prepared.get(target)
        if prepared is None:
            prepared = self._prepared[target] = _prepare(target)
        latency_s, native, text = prepared
        responses = native if b'"tools":' in body else text
        step = sum(body.count(mark) for mark in _ASSISTANT)
        self.requests += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return latency_s, responses[min(step, len(responses) - 1)]

    def _stats(self) -> bytes:
        data = {"requests": self.requests, "most_in_flight": self.most_in_flight}
        self.requests = self.most_in_flight = 0
        return _http(json.dumps(data).encode())


def _prepare(target: bytes) -> tuple[float, list[bytes], list[bytes]]:
    found = _TARGET.search(target)
    if found is None:
        raise ValueError(f"{target!r} does not say what to play: /steps-20/latency-200/v1/chat/completions")
    steps, latency_ms = int(found[1]), int(found[2])
    native, text = (
        [_response(turn, step) for step, turn in enumerate(turns(steps, native=is_native))]
        for is_native in (True, False)
    )
    return latency_ms / 1000, native, text


class Connection(asyncio.Protocol):
    """One keep-alive connection."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while (head_end := received.find(b"\r\n\r\n")) != -1:
            head = bytes(received[:head_end])
            length = _LENGTH.search(head)
            end = head_end + 4 + (int(length[1]) if length else 0)
            if len(received) < end:
                return
            body = bytes(received[head_end + 4 : end])
            del received[:end]
            self._answer(head.split(b" ", 2)[1], body)

    def _answer(self, target: bytes, body: bytes) -> None:
        latency_s, response = self._play.response(target, body)
        if latency_s:
            asyncio.get_running_loop().call_later(latency_s, self._write, target, response)
        else:
            self._write(target, response)

    def _write(self, target: bytes, response: bytes) -> None:
        self._play.in_flight -= target != b"/stats"
        if not self._transport.is_closing():
            self._transport.write(response)


async def serve() -> None:
    """Serve on a free port of this machine, which is printed, until standard input closes."""
    loop = asyncio.get_running_loop()
    play = Play()
    server = await loop.create_server(lambda: Connection(play), "127.0.0.1", 0, backlog=_BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()

    def watch() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=watch, daemon=True).start()
    await ended.wait()
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
