import json
import subprocess
import sys
import urllib.request
from pathlib import Path

from fake_chat_server import ChatServer

SCRIPT = [{"body": {"n": 1}}, {"needs": "x", "body": {"n": 2}, "otherwise": {"body": {"n": 3}}}]


def post(url: str, body: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, data=body.encode()), timeout=10) as response:
        return json.load(response)["n"]


def test_responses_come_in_order_and_the_last_is_repeated() -> None:
    with ChatServer(SCRIPT) as server:
        assert [post(server.base_url, body) for body in ("a", "x", "b")] == [1, 2, 3]
        assert [request["body"] for request in server.requests()] == ["a", "x", "b"]
        server.script(SCRIPT)
        assert server.requests() == []


def test_a_script_file_on_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    program = Path(__file__).with_name("fake_chat_server.py")
    with subprocess.Popen(
        [sys.executable, str(program), "--script", str(script)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert post(f"http://127.0.0.1:{port}/v1/chat/completions", "a") == 1
        process.kill()
