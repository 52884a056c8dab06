"""Keep secrets out of traces, notebooks, stores, logs and messages: by value, wherever they turn up."""

import os
import re
from urllib.parse import unquote, urlsplit, urlunsplit

KEY_VARIABLES = ("LLM_API_KEY", "OPENAI_API_KEY")
SHORTEST_SECRET_CHARS = 6
_SECRET_PARAMETER = re.compile(
    r"([?&;](?:[\w.-]*(?:password|passwd|pwd)|(?:[\w.-]*[_.-])?(?:token|key|apikey|secret))=)([^&;#\s]+)", re.IGNORECASE
)
"""A parameter of an address (`?password=...`) that is named like a secret."""
_known: set[str] = set()


def remember(secret: str | None) -> None:
    """Register a value that must never be written anywhere; values too short to be a secret are ignored."""
    if secret and len(secret) >= SHORTEST_SECRET_CHARS:
        _known.add(secret)


def scrub(text: str) -> str:
    """Return `text` with every known secret replaced by `***`."""
    for secret in _secrets():
        if secret in text:
            text = text.replace(secret, "***")
    return text


def without_password(address: str) -> str:
    """Return an address (URL) with its password replaced by `***`; other text unchanged.

    A password may stand before the host, or in a parameter whose name says so (`?password=...`, `&api_key=...`).
    """
    if "://" not in address:
        return scrub(address)
    for _, value in _SECRET_PARAMETER.findall(address):
        remember(value)
        remember(unquote(value))
    address = _SECRET_PARAMETER.sub(r"\1***", address)
    parts = urlsplit(address)
    if parts.password is None:
        return scrub(address)
    remember(parts.password)
    netloc = re.sub(r":[^:@]*@", ":***@", parts.netloc)
    return scrub(urlunsplit(parts._replace(netloc=netloc)))


def _secrets() -> set[str]:
    from_environment = {os.environ.get(name, "") for name in KEY_VARIABLES}
    return _known | {value for value in from_environment if len(value) >= SHORTEST_SECRET_CHARS}
