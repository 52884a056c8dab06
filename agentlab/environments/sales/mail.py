"""Send the mails of a run to an SMTP server; without one they stay in the run's outbox, a table of its database."""

import smtplib
import ssl
from email.message import EmailMessage
from urllib.parse import SplitResult, unquote, urlsplit

from agentlab.errors import ConfigError, EnvironmentUnavailable
from agentlab.secrets import scrub, without_password

SENDER = "reports@shop.example"
TIMEOUT_S = 10.0
"""For one exchange with the server; a mail takes about five."""
_PORTS = {"smtp": 25, "smtps": 465}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Mailer:
    """Delivers mails to the server of an address.

    Args:
        smtp_url: `smtp://user:password@host:port` (TLS where the server offers it) or `smtps://...`; None delivers
            nothing, and every mail counts as accepted.

    Raises:
        ConfigError: the address cannot be used.
    """

    def __init__(self, smtp_url: str | None = None) -> None:
        self._url = smtp_url
        self._server = _server_of(smtp_url) if smtp_url is not None else None

    def send(self, to: str, subject: str, content: str) -> str:
        """Deliver one mail; return why the server refuses the recipient, empty when it took the mail.

        Raises:
            EnvironmentUnavailable: the server does not answer, or wants something else than this mail.
        """
        if self._server is None:
            return ""
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = SENDER, to, subject
        message.set_content(content)
        try:
            with _connected(self._server) as client:
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
