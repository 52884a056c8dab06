"""Send the mails of a run: to an SMTP server, into a folder, both, or neither; the run's database has them anyway."""

import datetime
import email.utils
import hashlib
import smtplib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from agentlab.environments.base import did_not_happen
from agentlab.environments.sales.outbox import Outbox
from agentlab.errors import ConfigError, EnvironmentUnavailable
from agentlab.json_values import canonical
from agentlab.records import ToolResult
from agentlab.secrets import scrub, without_password

SENDER = "reports@shop.example"
TIMEOUT_S = 10.0
"""For one exchange with the server; a mail takes about five."""
IDENTITY = {"send_email": ("to", "content"), "send_confirmation": ("order_id",)}
"""Tool -> the arguments that make two of its mails the same mail."""
_REQUEST = "X-Agentlab-Request"
"""Header with the id of the request that a mail confirms, percent-encoded."""
_KEY_CHARS = 32
_PORTS = {"smtp": 25, "smtps": 465}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail."""

    key: str
    """Of `mail_key`: equal for the same mail of the same run."""
    to: str
    subject: str
    content: str
    request_id: str = ""
    """The request that it confirms; empty for a report."""


def mail_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the idempotency key of the mail that a call sends: equal for calls that mean the same mail."""
    identity = [tool, *(arguments.get(name) for name in IDENTITY[tool])]
    return hashlib.sha256(canonical(identity).encode()).hexdigest()[:_KEY_CHARS]


def sent(to: str, request_id: str) -> ToolResult:
    """Return what a tool says about a mail that was sent."""
    visible = {f"confirmation_sent@{request_id}": "passed"} if request_id else {}
    message = f"Sent to {to}."
    return ToolResult(True, subject=request_id or to, data={"to": to}, message=message, visible=visible)


class Mailer:
    """Delivers mails to a server, to a folder, or to both; without either nothing is delivered, and all are accepted.

    Args:
        smtp_url: `smtp://user:password@host:port` (TLS where the server offers it) or `smtps://...`.
        outbox: where each mail is kept as a file, once the server (if there is one) took it.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, smtp_url: str | None = None, outbox: Outbox | None = None) -> None:
        self._url = smtp_url
        self._server = _server_of(smtp_url) if smtp_url is not None else None
        self.outbox = outbox
        self.run = ""
        """Identity of the run: the same after a restart, different in every other run."""

    @property
    def delivers(self) -> bool:
        """True when mails leave the process."""
        return self._server is not None or self.outbox is not None

    def send(self, mail: Mail) -> str:
        """Deliver one mail, unless the outbox has it; return why the server refuses the recipient, empty if sent.

        Raises:
            EnvironmentUnavailable: the server does not answer or wants something else than this mail, or the outbox
                cannot be used.
        """
        if self.outbox is not None:
            self.outbox.take(self.run)
            if self.outbox.find(mail.key) is not None:
                return ""
        message = self._message(mail)
        if self._server is not None and (refusal := self._deliver(self._server, message, mail.to)):
            return refusal
        if self.outbox is not None:
            self.outbox.keep(mail.key, message)
        return ""

    def happened(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult | None:
        """Return the result of a mail that was sent before, a failed one when it was not; None when nobody knows."""
        if not self.delivers:
            return did_not_happen(tool)
        mail = self.kept(mail_key(tool, arguments))
        if mail is not None:
            return sent(mail.to, mail.request_id)
        # The server may have taken a mail that the process did not live to write down.
        return None if self._server is not None else did_not_happen(tool)

    def kept(self, key: str) -> Mail | None:
        """Return the mail that the outbox has under a key."""
        message = self.outbox.find(key) if self.outbox is not None else None
        if message is None:
            return None
        # A mail has CRLF line ends, and always one at its end.
        content = message.get_content().replace("\r\n", "\n").removesuffix("\n")
        request_id = unquote(str(message.get(_REQUEST, "")))
        return Mail(key, str(message["To"]), str(message["Subject"]), content, request_id)

    def all_kept(self) -> list[Mail]:
        """Return the mails of the outbox, in the order in which they were sent."""
        kept = [self.kept(key) for key in self.outbox.sent_keys()] if self.outbox is not None else []
        return [mail for mail in kept if mail is not None]

    def _message(self, mail: Mail) -> EmailMessage:
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = SENDER, mail.to, mail.subject
        message["Date"] = email.utils.format_datetime(datetime.datetime.now(datetime.UTC))
        # The same mail of the same run keeps its id, so a server can drop a second copy; another run's has another.
        message["Message-ID"] = f"<{mail.key}.{self.run or 'run'}@{SENDER.partition('@')[2]}>"
        if mail.request_id:
            message[_REQUEST] = quote(mail.request_id, safe="")
        message.set_content(mail.content)
        return message

    def _deliver(self, server: SplitResult, message: EmailMessage, to: str) -> str:
        try:
            with _connected(server) as client:
                client.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            code, words = error.recipients[to]
            return f"The mail server refuses {to}: {code} {words.decode(errors='replace')}"
        except (OSError, smtplib.SMTPException) as error:
            raise EnvironmentUnavailable(
                f"The mail server {without_password(self._url or '')} could not be used: "
                f"{type(error).__name__}: {scrub(str(error)).rstrip('.')}. "
                "Check `smtp_url` in the experiment's environment settings, and whether the server runs."
            ) from error
        return ""


def _server_of(url: str) -> SplitResult:
    expected = "Expected smtp://host:port or smtps://user:password@host:port."
    try:
        server = urlsplit(url)
        is_usable = server.scheme in _PORTS and bool(server.hostname) and server.port != 0
    except (ValueError, TypeError, AttributeError):
        is_usable = False
    if not is_usable:
        shown = without_password(url) if isinstance(url, str) else type(url).__name__
        raise ConfigError(f"smtp_url {shown!r} cannot be used. {expected}")
    return server


def _connected(server: SplitResult) -> smtplib.SMTP:
    host, port = server.hostname or "", server.port or _PORTS[server.scheme]
    is_private = server.scheme == "smtps"
    client: smtplib.SMTP
    if is_private:
        client = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=ssl.create_default_context())
    else:
        client = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
    try:
        client.ehlo_or_helo_if_needed()
        if not is_private and client.has_extn("starttls"):
            client.starttls(context=ssl.create_default_context())
            is_private = True
        if server.username is not None:
            if not is_private and host not in _LOOPBACK:
                raise smtplib.SMTPNotSupportedError("it offers no TLS, so the password would be readable on the way")
            client.login(unquote(server.username), unquote(server.password or ""))
    except BaseException:
        client.close()
        raise
    return client
