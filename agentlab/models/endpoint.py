"""Where the model server is and which key opens it: read from the environment, in every usual spelling.

`LLM_API_KEY`, `LLM_BASE_URL`, `LLM_MODEL` come first, then `OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_MODEL`.
Key and address are taken from the same family, so that a key is never sent to a server it was not made for.
"""

import ipaddress
import os
import re
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agentlab import secrets
from agentlab.errors import ConfigError

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-4o-mini"
FAMILIES = ("LLM", "OPENAI")
NO_KEY = "no-key"
"""What is sent to a server on this machine that needs no key."""

_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A chat-completions server and how we came to it."""

    base_url: str
    """Address without the final `/chat/completions`."""
    api_key: str = field(repr=False)
    url_setting: str = "the default address"
    """The variable that the address came from."""
    key_setting: str = "LLM_API_KEY"
    """The variable that the key came from, or should come from."""

    @property
    def request_url(self) -> str:
        """The full address that requests go to, without a password."""
        return secrets.without_password(self.base_url + _PATH)

    @property
    def host(self) -> str:
        """Host name of the server."""
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_loopback(self) -> bool:
        """True when the server is on this machine."""
        return is_loopback(self.host)

    def proxy(self) -> str | None:
        """Return the proxy from the environment that requests go through, without a password; None without one.

        A server on this machine is never reached through a proxy.
        """
        if self.is_loopback or urllib.request.proxy_bypass(self.host):
            return None
        proxies = urllib.request.getproxies()
        address = proxies.get(urlsplit(self.base_url).scheme) or proxies.get("all")
        return secrets.without_password(address) if address else None


def endpoint_from_environment() -> Endpoint:
    """Return the endpoint that the environment variables describe; its key is registered as a secret.

    Raises:
        ConfigError: no key for a server elsewhere, a key that no header can carry, or an address that is none.
    """
    family = next(
        (name for name in FAMILIES if os.environ.get(f"{name}_API_KEY") or os.environ.get(f"{name}_BASE_URL")), "LLM"
    )
    url_setting, key_setting = f"{family}_BASE_URL", f"{family}_API_KEY"
    address = os.environ.get(url_setting, "").strip()
    base_url = base_url_of(address or DEFAULT_BASE_URL, url_setting)
    key = os.environ.get(key_setting, "").strip()
    endpoint = Endpoint(base_url, key or NO_KEY, url_setting if address else "the default address", key_setting)
    if not key and not endpoint.is_loopback:
        raise ConfigError(_missing_key(endpoint))
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{key_setting} holds characters that no key has; was something else pasted into it?")
    secrets.remember(key)
    return endpoint


def model_from_environment() -> str:
    """Return the model name of `LLM_MODEL` or `OPENAI_MODEL`, or the default."""
    names = (os.environ.get(f"{family}_MODEL", "").strip() for family in FAMILIES)
    return next(filter(None, names), DEFAULT_MODEL)


def base_url_of(address: str, setting: str) -> str:
    """Return the address that `/chat/completions` is appended to.

    Accepted are the base (with or without `/v1`) and the full address, each with or without a final slash. Where
    there is no path at all, `/v1` is added.

    Raises:
        ConfigError: not an http(s) address with a host, a bad port, or one with a user, a password or a query.
    """
    address = address.strip().rstrip("/").removesuffix(_PATH).rstrip("/")
    if problem := _problem(address):
        raise ConfigError(
            f"{setting}={_shown(address)!r} is not the address of a model server: {problem}. "
            f"Set it like {DEFAULT_BASE_URL} or http://127.0.0.1:8000/v1 (with or without {_PATH})."
        )
    return address if urlsplit(address).path else f"{address}/v1"


def _problem(address: str) -> str | None:
    """What is wrong with an address, in words that hold nothing of it that may be secret; None for a good one."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "its host cannot be read (an IPv6 address stands in square brackets)"
    if parts.scheme not in ("http", "https") or "://" not in address:
        return "it must begin with http:// or https://"
    if "@" in parts.netloc:
        return "a user or password does not belong into it; a key is given in LLM_API_KEY or OPENAI_API_KEY"
    if not parts.hostname or any(character.isspace() for character in parts.netloc):
        return "it names no host"
    try:
        is_port = parts.port is None or parts.port > 0
    except ValueError:
        is_port = False
    if not is_port:
        return "its port must be a number from 1 to 65535"
    if parts.query or parts.fragment:
        return "nothing may follow the path (no ? and no #); a key is given in LLM_API_KEY or OPENAI_API_KEY"
    return None


def _shown(address: str) -> str:
    """The address without what may be secret: user and password, and all that follows a ? or #."""
    main = re.split(r"[?#]", address, maxsplit=1)
    scheme, separator, rest = main[0].rpartition("://")
    # The last @ ends user and password, and a password may hold a slash.
    _, at, host = rest.rpartition("@")
    shown = f"{scheme}{separator}{'***@' if at else ''}{host if at else rest}{'?***' if len(main) > 1 else ''}"
    return secrets.scrub(shown)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine itself."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _missing_key(endpoint: Endpoint) -> str:
    other = next((name for name in FAMILIES if f"{name}_API_KEY" != endpoint.key_setting), "")
    unused = os.environ.get(f"{other}_API_KEY")
    kept = f" ({other}_API_KEY is set, but is not sent to the server of {endpoint.url_setting}.)" if unused else ""
    return (
        f"No key for the model server {endpoint.request_url}: {endpoint.key_setting} is not set.{kept} "
        f"Set LLM_API_KEY (and LLM_BASE_URL, LLM_MODEL for another server) or OPENAI_API_KEY; a server on this "
        f"machine needs none. Without a server, use a model like simulated:perfect or scripted:..."
    )
