"""Mails of the sales suite: through a real SMTP exchange with a small server on the loopback, and into an outbox."""

import asyncio
import email
import email.policy
import socket
import socketserver
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from agentlab.budget import Budget
from agentlab.environments.base import load_suite
from agentlab.environments.sales.environment import SalesEnvironment
from agentlab.environments.sales.mail import SENDER, Mail, Mailer
from agentlab.errors import ConfigError, EnvironmentUnavailable
from agentlab.models.base import build_model
from agentlab.records import ToolResult
from agentlab.runner.run_one import RunResult, run_one
from agentlab.session import SessionSettings
from agentlab.strategies.base import build_strategy

SUITE = load_suite("sales")
MAIL = Mail("k", "a@shop.example", "s", "c")
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
    Mailer(server.url).send(Mail("k", "a@shop.example", "报告", "第一名：P008\n.\n完"))
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
        Mailer(server.url.replace("//", "//user:topsecret1@")).send(MAIL)
        assert LOGIN in server.lines
        assert len(server.messages) == 1
        with pytest.raises(EnvironmentUnavailable, match="wrong password") as caught:
            Mailer(server.url.replace("//", "//user:another@")).send(MAIL)
        assert "another" not in str(caught.value)


def test_a_password_is_not_sent_in_the_open_to_another_machine() -> None:
    try:
        server = MailServer("127.0.0.2", extensions=("AUTH PLAIN",))
    except OSError:
        pytest.skip("this system has one loopback address only")
    with server:
        with pytest.raises(EnvironmentUnavailable, match="readable on the way"):
            Mailer(server.url.replace("//", "//user:topsecret1@")).send(MAIL)
        assert not any(line.startswith("AUTH") for line in server.lines)


def test_tls_is_used_where_it_is_offered_and_never_left_out() -> None:
    with MailServer(extensions=("STARTTLS",)) as server:
        with pytest.raises(EnvironmentUnavailable, match="no TLS today"):
            Mailer(server.url).send(MAIL)
        assert "STARTTLS" in server.lines
        assert server.messages == []


@pytest.mark.parametrize(
    "url", ["localhost:25", "http://localhost", "smtp://", "smtp://host:port", "smtp://user:topsecret1@host:99999", 25]
)
def test_an_address_that_cannot_be_used_is_refused_at_once(url: object) -> None:
    with pytest.raises(ConfigError, match=r"smtp://host:port") as caught:
        SalesEnvironment({"smtp_url": url})
    assert "topsecret1" not in str(caught.value)


# The outbox on disk.

TO = "operations@shop.example"
REPORT = {"to": TO, "content": "1. P008 Lamp\n2. P001 灯: 3.00"}


def _started(**settings: Any) -> SalesEnvironment:
    environment = SalesEnvironment(settings)
    environment.reset(SUITE.task("top5-last-month"), 0)
    return environment


def _call(environment: SalesEnvironment, name: str, **arguments: Any) -> ToolResult:
    (function,) = [tool.function for tool in environment.tools() if tool.name == name]
    assert function is not None
    result: ToolResult = function(**arguments)
    return result


def _order(environment: SalesEnvironment, request_id: str) -> str:
    ordered = _call(
        environment, "create_order", request_id=request_id, customer_id="C001", product_id="P015", quantity=4
    )
    return str(ordered.data["order_id"])


def _files(folder: Path) -> list[EmailMessage]:
    messages = []
    for file in sorted(folder.glob("*.eml")):
        message = email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        messages.append(message)
    return messages


def test_a_mail_is_one_file_and_one_fact_however_often_it_is_sent(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "outbox"
    environment = _started(outbox=str(folder))
    first, second = (_call(environment, "send_email", **REPORT) for _ in range(2))
    assert first == second
    (message,) = _files(folder)
    assert (message["From"], message["To"], message["Subject"]) == (SENDER, TO, "Sales report")
    assert message.get_content().splitlines() == REPORT["content"].splitlines()
    assert message["Date"].datetime.tzinfo is not None
    assert message.defects == []
    facts = environment.facts()
    assert (facts["mails"], facts["report_top_ids"]) == (1, ["P008", "P001"])
    _call(environment, "send_email", to=TO, content="P002")
    assert len(_files(folder)) == environment.facts()["mails"] == 2
    assert [name.name for name in folder.iterdir() if name.name.startswith(".")] == []


def test_without_a_setting_nothing_is_written_and_a_mail_died_with_its_process(tmp_path: Path) -> None:
    environment = _started()
    _call(environment, "send_email", **REPORT)
    assert "run" not in environment.snapshot()
    known = SalesEnvironment().happened("send_email", REPORT)
    assert known is not None
    assert (known.success, known.error_kind) == (False, "not_happened")
    assert list(tmp_path.iterdir()) == []


def test_a_fresh_environment_knows_which_mails_of_the_outbox_were_sent(tmp_path: Path) -> None:
    environment = _started(outbox=str(tmp_path))
    order_id = _order(environment, "REQ 7/é\n=?x?=")
    results = {
        "send_email": _call(environment, "send_email", **REPORT),
        "send_confirmation": _call(environment, "send_confirmation", order_id=order_id),
    }
    fresh = SalesEnvironment({"outbox": str(tmp_path)})
    assert fresh.happened("send_email", REPORT) == results["send_email"]
    assert fresh.happened("send_confirmation", {"order_id": order_id}) == results["send_confirmation"]
    assert results["send_confirmation"].visible == {"confirmation_sent@REQ 7/é\n=?x?=": "passed"}
    for tool, arguments in [
        ("send_email", {**REPORT, "content": "another"}),
        ("send_confirmation", {"order_id": "ORDER9999"}),
        ("create_order", {"request_id": "REQ-1"}),
        ("deduct_stock", {"order_id": order_id, "product_id": "P015", "quantity": 4}),
    ]:
        known = fresh.happened(tool, arguments)
        assert known is not None
        assert not known.success


def test_mails_sent_after_a_snapshot_are_there_after_its_restore_once_each(tmp_path: Path) -> None:
    environment = _started(outbox=str(tmp_path))
    order_id = _order(environment, "REQ-7")
    _call(environment, "send_email", to=TO, content="P003")
    before = environment.snapshot()
    _call(environment, "send_email", **REPORT)
    _call(environment, "send_confirmation", order_id=order_id)
    facts = environment.facts()
    environment.close()
    again = _started(outbox=str(tmp_path))
    again.restore(before)
    assert again.facts() == facts
    assert (facts["mails"], facts["report_top_ids"], facts["confirmations"]) == (2, ["P003", "P008", "P001"], ["REQ-7"])
    assert _call(again, "check_confirmation", request_id="REQ-7").passed
    assert again.snapshot()["run"] == before["run"]


def test_an_outbox_belongs_to_one_run(tmp_path: Path) -> None:
    first, second, third = (_started(outbox=str(tmp_path)) for _ in range(3))
    third_before = third.snapshot()
    assert (first.facts()["mails"], second.facts()["mails"]) == (0, 0)
    _call(first, "send_email", **REPORT)
    with pytest.raises(EnvironmentUnavailable, match="belongs to another run"):
        _call(second, "send_email", **REPORT)
    with pytest.raises(ConfigError, match="belongs to another run"):
        second.facts()
    with pytest.raises(ConfigError, match="belongs to another run"):
        third.restore(third_before)
    assert first.facts()["mails"] == len(_files(tmp_path)) == 1


def test_a_folder_with_something_else_in_it_is_no_outbox(tmp_path: Path) -> None:
    (tmp_path / "letter.eml").write_text("mine")
    environment = _started(outbox=str(tmp_path))
    with pytest.raises(ConfigError, match=r"holds other files.*empty folder"):
        environment.facts()
    with pytest.raises(EnvironmentUnavailable, match="holds other files"):
        _call(environment, "send_email", **REPORT)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.eml"]


def test_half_written_files_of_a_dead_process_count_for_nothing(tmp_path: Path) -> None:
    (tmp_path / ".abc").write_text("From: ")
    environment = _started(outbox=str(tmp_path))
    known = environment.happened("send_email", REPORT)
    assert known is not None
    assert not known.success
    assert _call(environment, "send_email", **REPORT).success
    assert environment.facts()["mails"] == 1


def test_an_outbox_that_cannot_be_used_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for outbox, words in [
        (str(tmp_path / "file"), "cannot be used: .*leave `outbox` out"),
        (str(tmp_path / "file" / "below"), "cannot be used"),
        ("mails", "must be an absolute path .*resumed from another working directory"),
        ("", "must name a folder"),
        (7, "must name a folder, not 7"),
    ]:
        with pytest.raises(ConfigError, match=words):
            SalesEnvironment({"outbox": outbox})
    assert not Path("mails").exists()


def test_an_outbox_that_vanishes_is_infrastructure_and_no_mail(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    environment = _started(outbox=str(folder))
    folder.rmdir()
    with pytest.raises(EnvironmentUnavailable, match="cannot be read"):
        _call(environment, "send_email", **REPORT)


def test_server_and_outbox_get_the_same_mail_once(server: MailServer, tmp_path: Path) -> None:
    environment = _started(smtp_url=server.url, outbox=str(tmp_path))
    for _ in range(2):
        assert _call(environment, "send_email", **REPORT).success
    (delivered,), (kept,) = server.messages, _files(tmp_path)
    assert delivered["Message-ID"] == kept["Message-ID"]
    assert (delivered["Date"], delivered.get_content()) == (kept["Date"], kept.get_content().replace("\r\n", "\n"))
    fresh = SalesEnvironment({"smtp_url": server.url, "outbox": str(tmp_path)})
    known = fresh.happened("send_email", REPORT)
    assert known is not None
    assert known.success
    assert fresh.happened("send_email", {**REPORT, "content": "another"}) is None
    created = fresh.happened("create_order", {})
    assert created is not None
    assert not created.success


def test_the_outbox_keeps_nothing_that_the_server_refused(tmp_path: Path) -> None:
    with MailServer(refused=TO) as server:
        environment = _started(smtp_url=server.url, outbox=str(tmp_path))
        assert _call(environment, "send_email", **REPORT).error_kind == "recipient_refused"
    assert _files(tmp_path) == []
    assert environment.facts()["mails"] == 0


def test_a_server_alone_leaves_it_unknown_whether_a_mail_was_sent(server: MailServer) -> None:
    assert SalesEnvironment({"smtp_url": server.url}).happened("send_email", REPORT) is None


def test_the_message_id_is_that_of_the_mail_in_the_run(server: MailServer) -> None:
    first, other = _started(smtp_url=server.url), _started(smtp_url=server.url)
    _call(first, "send_email", **REPORT)
    resumed = _started(smtp_url=server.url)
    resumed.restore(first.snapshot())
    _call(resumed, "send_email", **REPORT)
    _call(resumed, "send_email", to=TO, content="another")
    _call(other, "send_email", **REPORT)
    same, again, different, others = (message["Message-ID"] for message in server.messages)
    assert same == again
    assert len({same, different, others}) == 3
    assert same.startswith("<")
    assert same.endswith("@shop.example>")
