"""One request and what comes back, before and after any input or output."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

from .errors import BadAnswer, BadField, BadValue
from .version import __version__

MAX_ANSWER_BYTES = 256 << 20
"""Largest answer that is read into memory."""
MAX_KEY_CHARS = 200

Query = Mapping[str, "str | int | bool | None"]


class Repeat(Enum):
    """Why a request may be sent again where its answer is lost."""

    READ = "it changes nothing"
    KEYED = "the server does a request of this key once"
    NATURAL = "done twice it is as done once"


@dataclass(frozen=True)
class Request:
    """What is sent, each time in the same form."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeat: Repeat = Repeat.READ
    headers: tuple[tuple[str, str], ...] = ()
    idempotency_key: str | None = None

    def asking(self, query: Query) -> Request:
        """With these parameters too; absent ones are left out."""
        more = ((name, _word(value)) for name, value in query.items() if value is not None)
        return replace(self, query=(*self.query, *more))

    def with_header(self, name: str, value: str) -> Request:
        return replace(self, headers=(*self.headers, (name, value)))

    def all_headers(self, key: str | None, as_user: str | None = None) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream, */*", "user-agent": f"tidemill-python/{__version__}"}
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        if as_user is not None:
            headers["x-user"] = as_user
        if self.body is not None:
            headers["content-type"] = "application/json"
        if self.idempotency_key is not None:
            headers["idempotency-key"] = self.idempotency_key
        return headers | dict(self.headers)


def get(path: str, query: Query | None = None) -> Request:
    """A read."""
    return Request("GET", path).asking(query or {})


def write(path: str, body: Any = None, *, method: str = "POST", key: str | None, prefix: str, query: Query | None = None) -> Request:
    """A write under an idempotency key: the caller's, or one drawn here, once for all tries."""
    request = Request(method, path, (), _json(body), Repeat.KEYED, (), idempotency_key(key, prefix))
    return request.asking(query or {})


def natural(path: str, body: Any) -> Request:
    """A write that may be repeated as it is."""
    return Request("POST", path, (), _json(body), Repeat.NATURAL)


def idempotency_key(given: str | None, prefix: str) -> str:
    if given is None:
        return f"{prefix}-{uuid.uuid4().hex}"
    is_one = 1 <= len(given) <= MAX_KEY_CHARS and all(" " <= c <= "~" for c in given) and given == given.strip()
    if not is_one:
        raise BadValue("idempotency_key", given[:MAX_KEY_CHARS], f"must be 1 to {MAX_KEY_CHARS} visible ASCII characters")
    return given


def _json(body: Any) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise BadValue("body", "", f"must be what JSON can hold: {error}") from None


def _word(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Trouble:
    """Why there is no answer."""

    text: str
    is_sent: bool
    """Whether the server may have got the request."""
    passes: bool = True
    """Whether another try may help."""


@dataclass(frozen=True)
class Answer:
    """A status and a body, whatever they say. Of a stream that was opened the body comes piece by piece."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Raises `BadAnswer` where it is none."""
        try:
            return json.loads(self.body) if self.body else None
        except ValueError:
            raise BadAnswer("the answer is not JSON; is this a Tidemill server?", status=self.status) from None

    def problem(self) -> Problem:
        return Problem.of(self)

    def date_s(self) -> float | None:
        """The server's clock, seconds since 1970."""
        try:
            return parsedate_to_datetime(self.headers.get("date", "")).timestamp()
        except (TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Problem:
    """Why a server refuses a call, from a body of any form."""

    status: int
    detail: str
    code: str
    """Empty where something between client and server has answered."""
    fields: tuple[BadField, ...]
    retry_after_s: float | None

    @classmethod
    def of(cls, answer: Answer) -> Problem:
        try:
            body = json.loads(answer.body)
        except ValueError:
            body = None
        body = body if isinstance(body, dict) else {}
        errors = body.get("errors")
        fields = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
        text = _text(body, "detail") or _text(body, "message") or _text(body, "title")
        return cls(
            answer.status,
            text or f"status {answer.status}",
            _text(body, "code"),
            tuple(BadField(*(_text(error, name) for name in ("field", "value", "rule"))) for error in fields),
            _retry_after(body, answer.headers),
        )


def _retry_after(body: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    told = body.get("retry_after_s")
    if isinstance(told, (int, float)) and not isinstance(told, bool) and told >= 0:
        return float(told)
    header = headers.get("retry-after", "").strip()
    return float(header) if header.isascii() and header.isdigit() and len(header) < 10 else None


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


class Body:
    """The body of an answer as it comes, up to its bound."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._bytes = 0

    def add(self, piece: bytes) -> None:
        self._bytes += len(piece)
        if self._bytes > MAX_ANSWER_BYTES:
            raise BadAnswer(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        return b"".join(self._pieces)
