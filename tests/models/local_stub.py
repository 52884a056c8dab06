"""Stands in for the engine's process: the same life and death, but a chat server of a few lines instead of a model.

Its weights are a text: `GGUF late` never gets ready, `GGUF broken` fails with words in the log. It answers a request
with the request's own body as text, and dies when the last message says so.
"""

import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentlab.models.local_process import serve


def start(settings: dict[str, Any]) -> str:
    weights = Path(settings["model"]).read_text()
    print("noise on standard output")
    if "late" in weights:
        time.sleep(60)
    if "broken" in weights:
        print("cannot load this", file=sys.stderr, flush=True)
        raise SystemExit(3)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers["Authorization"] != f"Bearer {settings['api_key']}":
                return self._answer(401, {"error": {"message": "no key", "code": 401}})
            text = body["messages"][-1]["content"]
            if text == "die":
                print("killed by a request", file=sys.stderr, flush=True)
                os._exit(7)
            if text == "slow":
                time.sleep(0.3)
            shown = {name: value for name, value in settings.items() if name != "api_key"}
            message = {"role": "assistant", "content": json.dumps({"body": body, "settings": shown})}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
            return self._answer(200, {"model": settings["alias"], "choices": [choice], "usage": usage})

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


if __name__ == "__main__":
    serve(start)
