"""Which server, with which key, and whom to trust: arguments, then the environment, as the command line reads it."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import BadValue

DEFAULT_SERVER = "http://127.0.0.1:8780"
MAX_PERSON_CHARS = 200


@dataclass(frozen=True)
class Config:
    """A server and the right to speak to it."""

    server: str
    """Without a slash at the end."""
    server_from: str
    """Where that came from, for messages."""
    key: str | None = field(repr=False)
    """`APP:SECRET`."""
    key_from: str
    ca_file: str | None
    as_user: str | None = None
    """The person in whose name the key calls."""

    @classmethod
    def find(
        cls,
        server: str | None,
        key: str | None,
        ca_file: str | Path | None,
        as_user: str | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Config:
        """Raises `BadValue` where an address, a key or a file cannot be used."""
        server, server_from = _first(server, "server", environment, "TIDEMILL_SERVER")
        key, key_from = _first(key, "key", environment, "TIDEMILL_KEY")
        ca, ca_from = _first(None if ca_file is None else str(ca_file), "ca_file", environment, "TIDEMILL_CA_FILE")
        person, person_from = _first(as_user, "as_user", environment, "TIDEMILL_AS_USER")
        found = cls(
            _address(server or DEFAULT_SERVER, server_from),
            _told(server_from) if server else "the default address; server= or TIDEMILL_SERVER names another",
            _key(key, key_from),
            _told(key_from),
            ca,
            _person(person, person_from),
        )
        if ca is not None and not Path(ca).is_file():
            raise BadValue(ca_from, ca, "must name a file with the certificates of the server's authorities in PEM")
        return found

    def trust(self) -> ssl.SSLContext | bool:
        """Whom to trust: the authorities of the file, or those that the machine trusts. A plain server needs neither."""
        if self.server.startswith("http://"):
            return False
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:
            rule = f"must hold the certificates of the server's authorities in PEM: {error}"
            raise BadValue("ca_file", str(self.ca_file), rule) from None

    @property
    def app(self) -> str | None:
        """The key's name, which is no secret."""
        return self.key.split(":", 1)[0] if self.key else None


def _first(
    given: str | None, argument: str, environment: Mapping[str, str], variable: str
) -> tuple[str | None, str]:
    if given is not None:
        return given, argument
    return environment.get(variable) or None, variable


def _told(name: str) -> str:
    """The place as messages name it."""
    return name if name.isupper() else f"{name}="


def _address(server: str, name: str) -> str:
    server = server.strip()
    whole = (server if "://" in server else f"http://{server}").rstrip("/")
    rule = "must be an address as https://tidemill.example:8780"
    try:
        parts = urlsplit(whole)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_one = False
    if not is_one or parts.query or parts.fragment or parts.username is not None or any(c.isspace() for c in whole):
        raise BadValue(name, server, rule)
    return whole


def _person(name: str | None, place: str) -> str | None:
    if name is None:
        return None
    if not 1 <= len(name) <= MAX_PERSON_CHARS or name != name.strip() or not name.isprintable():
        raise BadValue(place, name[:MAX_PERSON_CHARS], f"must be the name of a person, 1 to {MAX_PERSON_CHARS} visible letters")
    return name


def _key(key: str | None, name: str) -> str | None:
    """The value of a key is in no message."""
    if key is None:
        return None
    key = key.strip()
    app, colon, secret = key.partition(":")
    if not (app and colon and secret) or not key.isascii() or not key.isprintable():
        raise BadValue(name, "", "must be a key as APP:SECRET, the name of the application key and its secret")
    return key
