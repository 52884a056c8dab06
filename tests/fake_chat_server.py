"""A scripted chat-completions server on loopback, in a process of its own. Standard library only.

`python tests/fake_chat_server.py --script FILE` prints its port and serves until it is ended.
The script is a JSON list of responses, served in order to every POST; the last one is repeated. A response has

    status (200), headers, body (sent as JSON) or body_text (sent as UTF-8)
    delay_s         wait before the response
    drip_s          send the body byte by byte with this pause
    truncate_bytes  promise the whole body, send this many bytes, close
    close           close without a response
    needs, forbids  text that the request body must / must not contain, else `otherwise` (a response) is served

`GET /requests` returns what was received (`method`, `target`, `headers`, `body`), `PUT /script` replaces the script
and forgets the requests.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any


class ChatServer:
    """The server as a child process; use as a context manager."""

    def __init__(self, responses: list[dict[str, Any]] | None = None) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--with-parent"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.address = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.address}/v1"
        # Proxy variables of a test must not catch these calls.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        if responses:
            self.script(responses)

    def __enter__(self) -> "ChatServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def script(self, responses: list[dict[str, Any]]) -> None:
        """Serve these responses from now on; the requests so far are forgotten."""
        data = json.dumps(responses).encode()
        request = urllib.request.Request(f"{self.address}/script", data=data, method="PUT")
        self._opener.open(request, timeout=10).close()

    def requests(self) -> list[dict[str, Any]]:
        """Return the POST requests received since the last `script`."""
        with self._opener.open(f"{self.address}/requests", timeout=10) as response:
            return json.load(response)

    def bodies(self) -> list[dict[str, Any]]:
        """Return the parsed bodies of those requests."""
        return [json.loads(request["body"]) for request in self.requests()]

    def stop(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


class _Script:
    def __init__(self, responses: list[dict[str, Any]]) -> None:
        self.responses = responses
        self.requests: list[dict[str, Any]] = []

    def next(self, request: dict[str, Any]) -> dict[str, Any]:
        index = min(len(self.requests), len(self.responses) - 1)
        self.requests.append(request)
        response = self.responses[index] if self.responses else {"status": 500, "body_text": "no script"}
        unmet = response.get("needs", "") not in request["body"]
        if "forbids" in response:
            unmet = unmet or response["forbids"] in request["body"]
        return response["otherwise"] if unmet else response


async def _serve(script: _Script, *, with_parent: bool) -> None:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await _exchange(script, reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    parent_is_gone = asyncio.Event()

    def watch() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(parent_is_gone.set)

    if with_parent:
        threading.Thread(target=watch, daemon=True).start()
    await parent_is_gone.wait()
    server.close()


async def _exchange(script: _Script, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Serve one request; False when the connection is to be closed."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
    if method == "GET":
        return await _answer(writer, {"body": script.requests if target == "/requests" else {}})
    if method == "PUT":
        script.responses, script.requests = json.loads(body), []
        return await _answer(writer, {"body": {}})
    request = {"method": method, "target": target, "headers": headers, "body": body}
    return await _answer(writer, script.next(request))


async def _answer(writer: asyncio.StreamWriter, response: dict[str, Any]) -> bool:
    await asyncio.sleep(response.get("delay_s", 0))
    if response.get("close"):
        return False
    text = response["body_text"] if "body_text" in response else json.dumps(response.get("body", {}))
    body = text.encode("utf-8", errors="surrogatepass")
    headers = {"content-type": "application/json", **response.get("headers", {}), "content-length": str(len(body))}
    lines = [f"HTTP/1.1 {response.get('status', 200)} Scripted", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    cut = response.get("truncate_bytes")
    body = body if cut is None else body[:cut]
    if "drip_s" in response:
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(response["drip_s"])
    else:
        writer.write(body)
    await writer.drain()
    return cut is None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=Path, help="JSON file with the list of responses")
    parser.add_argument("--with-parent", action="store_true", help="end when standard input closes")
    arguments = parser.parse_args()
    responses = json.loads(arguments.script.read_text(encoding="utf-8")) if arguments.script else []
    asyncio.run(_serve(_Script(responses), with_parent=arguments.with_parent))


if __name__ == "__main__":
    main()
