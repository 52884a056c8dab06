"""Mails of the sales suite through a real SMTP exchange, with a small server on the loopback."""

import asyncio
import email
import email.policy
import socket
import socketserver
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from types import TracebackType

import pytest

from agentlab.budget import Budget
from agentlab.environments.base import load_suite
from agentlab.environments.sales.environment import SalesEnvironment
from agentlab.environments.sales.mail import SENDER, Mailer
from agentlab.errors import ConfigError, EnvironmentUnavailable
from agentlab.models.base import build_model
from agentlab.runner.run_one import RunResult, run_one
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy

SUITE = load_suite("sales")
LOGIN = "AUTH PLAIN AHVzZXIAdG9wc2VjcmV0MQ=="  # user, topsecret1


class MailServer(socketserver.ThreadingTCPServer):
    """Speaks as much SMTP (RFC 5321) as a client needs, and keeps what it was sent."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str = "127.0.0.1", extensions: tuple[str, ...] = (), refused: str = "") -> None:
        super().__init__((host, 0), _Conversation)
        self.extensions = extensions
        self.refused = refused
        self.lines: list[str] = []
        self.recipients: list[str] = []
        self.messages: list[EmailMessage] = []
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"smtp://{self.server_address[0]}:{self.server_address[1]}"

    def __enter__(self) -> "MailServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 test")
        for raw in self.rfile:
            line = raw.decode().strip()
            self.server.lines.append(line)
            verb = line.split(" ")[0].split(":")[0].upper()
            if verb == "QUIT":
                self._say("221 bye")
                return
            if verb == "DATA":
                self._say("354 go on")
                self._receive()
            elif verb == "RCPT" and self.server.refused and self.server.refused in line:
                self._say("550 no such mailbox")
            else:
                self._answer(verb, line)

    def _answer(self, verb: str, line: str) -> None:
        if verb == "EHLO":
            self._say("250-test")
            for extension in self.server.extensions:
                self._say(f"250-{extension}")
        if verb == "RCPT":
            self.server.recipients.append(line.partition("<")[2].partition(">")[0])
        accepted = {"AUTH": "235 welcome" if line == LOGIN else "535 wrong password", "STARTTLS": "454 no TLS today"}
        self._say(accepted.get(verb, "250 ok"))

    def _receive(self) -> None:
        lines = []
        while (raw := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(raw.removeprefix(b".").replace(b"\r\n", b"\n"))
        message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.server.messages.append(message)
        self._say("250 stored")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def _run(task_id: str, url: str, strategy: str = "tool_loop") -> RunResult:
    task = SUITE.task(task_id)
    approved = frozenset((SUITE.approved_tools or {})[task_id])
    return asyncio.run(
        run_one(
            task,
            SUITE.make_environment({"smtp_url": url}),
            build_strategy(strategy),
            build_model("simulated:perfect"),
            SessionSettings(approved_tools=approved),
            Budget(),
            debug=True,
        )
    )


@pytest.mark.parametrize("strategy", ["tool_loop", "react"])
def test_the_report_reaches_the_mail_server_once(server: MailServer, strategy: str) -> None:
    result = _run("top5-last-month", server.url, strategy)
    assert result.score.success == 1
    assert server.recipients == ["operations@shop.example"]
    (message,) = server.messages
    assert (message["From"], message["To"], message["Subject"]) == (SENDER, "operations@shop.example", "Sales report")
    lines = message.get_content().splitlines()
    assert lines[0] == "Sales report: the 5 products with the highest sales"
    assert [line.split()[1] for line in lines[1:]] == SUITE.task("top5-last-month").end_state["report_top_ids"]


@pytest.mark.parametrize(
    "task_id", [task.id for task in SUITE.tasks if task.cluster == "top5-last-month" and task.is_defective]
)
def test_no_mail_reaches_the_server_when_there_is_a_defect(server: MailServer, task_id: str) -> None:
    assert _run(task_id, server.url).score.success == 1
    assert (server.lines, server.messages) == ([], [])


def test_confirmations_go_to_the_customer(server: MailServer) -> None:
    assert _run("fulfil-both-or-none", server.url).score.success == 1
    assert server.recipients == ["orders@grove.example"] * 2
    assert "REQ-304 is confirmed as ORDER5001: 4 x P015" in server.messages[0].get_content()


def test_chinese_text_arrives_as_it_was_sent(server: MailServer) -> None:
    Mailer(server.url).send("a@shop.example", "报告", "第一名：P008\n.\n完")
    (message,) = server.messages
    assert (message["Subject"], message.get_content()) == ("报告", "第一名：P008\n.\n完\n")


def test_a_refused_recipient_is_an_observation_and_no_mail() -> None:
    with MailServer(refused="operations@shop.example") as server:
        environment = SalesEnvironment({"smtp_url": server.url})
        environment.reset(SUITE.task("top5-last-month"), 0)
        (send,) = [tool.function for tool in environment.tools() if tool.name == "send_email"]
        assert send is not None
        result = send(to="operations@shop.example", content="P001")
        assert (result.success, result.error_kind) == (False, "recipient_refused")
        assert "550 no such mailbox" in result.message
        assert environment.facts()["mails"] == 0
        environment.close()
    assert server.messages == []


def test_a_server_that_does_not_answer_is_infrastructure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"smtp://user:topsecret1@127.0.0.1:{unused.getsockname()[1]}"
        result = _run("top5-last-month", url)
    assert (result.end_reason, result.score.success) == ("infrastructure", None)
    assert "smtp_url" in (result.error or "")
    assert "topsecret1" not in (result.error or "")


def test_a_login_is_sent_to_this_machine_without_tls() -> None:
    with MailServer(extensions=("AUTH PLAIN",)) as server:
        Mailer(server.url.replace("//", "//user:topsecret1@")).send("a@shop.example", "s", "c")
        assert LOGIN in server.lines
        assert len(server.messages) == 1
        with pytest.raises(EnvironmentUnavailable, match="wrong password") as caught:
            Mailer(server.url.replace("//", "//user:another@")).send("a@shop.example", "s", "c")
        assert "another" not in str(caught.value)


def test_a_password_is_not_sent_in_the_open_to_another_machine() -> None:
    try:
        server = MailServer("127.0.0.2", extensions=("AUTH PLAIN",))
    except OSError:
        pytest.skip("this system has one loopback address only")
    with server:
        with pytest.raises(EnvironmentUnavailable, match="readable on the way"):
            Mailer(server.url.replace("//", "//user:topsecret1@")).send("a@shop.example", "s", "c")
        assert not any(line.startswith("AUTH") for line in server.lines)


def test_tls_is_used_where_it_is_offered_and_never_left_out() -> None:
    with MailServer(extensions=("STARTTLS",)) as server:
        with pytest.raises(EnvironmentUnavailable, match="no TLS today"):
            Mailer(server.url).send("a@shop.example", "s", "c")
        assert "STARTTLS" in server.lines
        assert server.messages == []


@pytest.mark.parametrize(
    "url", ["localhost:25", "http://localhost", "smtp://", "smtp://host:port", "smtp://user:topsecret1@host:99999", 25]
)
def test_an_address_that_cannot_be_used_is_refused_at_once(url: object) -> None:
    with pytest.raises(ConfigError, match=r"smtp://host:port") as caught:
        SalesEnvironment({"smtp_url": url})
    assert "topsecret1" not in str(caught.value)
