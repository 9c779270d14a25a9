"""What the server tells, with types. Each has `raw`: the whole JSON, which may have more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar

from .errors import BadAnswer, BadValue

T = TypeVar("T")
Json = Mapping[str, Any]


def read(form: Callable[[Any], T], body: Any) -> T:
    """Raises `BadAnswer` where the body is of another form."""
    try:
        return form(body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        raise BadAnswer(f"the answer is of another form than this client's: {why}; have client and server the same version?") from None


def instant(text: str) -> datetime:
    """RFC 3339."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    return found


def optional_instant(text: str | None) -> datetime | None:
    return None if text is None else instant(text)


def rfc3339(time: datetime | str) -> str:
    """A time as requests have it. Raises `BadValue` for a time without a zone, which may be meant on any clock."""
    if isinstance(time, str):
        return time
    if time.tzinfo is None:
        raise BadValue("time", str(time), "must have a zone, as datetime(2026, 3, 1, tzinfo=timezone.utc)")
    return time.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Job:
    """A job: the definition."""

    id: int
    """For ever the same."""
    group: str
    """The group whose workers run it."""
    name: str
    """Unique in its group."""
    type: str
    """What kind of program it is."""
    version: int
    """Counts the accepted changes, from 1."""
    enabled: bool
    """Whether it generates batches."""
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, body: Json) -> Job:
        is_on = bool(body.get("enabled", True))
        return cls(body["id"], body["group"], body["name"], body["type"], body["version"], is_on, body)


@dataclass(frozen=True)
class Batch:
    """A batch: one run of a job for one logical time."""

    id: int
    job: int
    job_name: str
    group: str
    logical_time: datetime
    run: int
    """0 for the first run of the logical time, then + 1."""
    state: str
    """`waiting`, `assigned`, `running` or `finished`."""
    result: str | None
    """Once finished: `success`, `failed`, `killed` or `skipped`."""
    attempt_count: int
    """How many attempts were granted."""
    message: str
    """For people: why it ended as it did, or why it came back."""
    started_at: datetime | None
    finished_at: datetime | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, body: Json) -> Batch:
        return cls(
            body["id"],
            body["job"],
            body["job_name"],
            body["group"],
            instant(body["logical_time"]),
            body["run"],
            body["state"],
            body.get("result"),
            body["attempt_count"],
            body.get("message", ""),
            optional_instant(body.get("started_at")),
            optional_instant(body.get("finished_at")),
            body,
        )

    @property
    def is_finished(self) -> bool:
        return self.state == "finished"


@dataclass(frozen=True)
class Run:
    """A batch that a request has made. Calls about batches take it for the batch's id."""

    batch: int
    position: str
    """Reads with `at_least` this wait until they show the write."""
    warnings: tuple[str, ...]
    """For people, such as that the job is disabled."""

    @classmethod
    def of(cls, body: Json) -> Run:
        return cls(body["batch"], body["position"], tuple(body.get("warnings", ())))


@dataclass(frozen=True)
class Written:
    """A write that is on record."""

    position: str
    pending_groups: tuple[str, ...]
    """Groups in which it is not in effect yet, though on record."""

    @classmethod
    def of(cls, body: Json) -> Written:
        return cls(body["position"], tuple(body.get("pending_groups", ())))


@dataclass(frozen=True)
class Change:
    """What becomes of a job with an apply."""

    name: str
    """Its group and name."""
    change: str
    """`added`, `changed`, `unchanged` or `deleted`."""
    version: int

    @classmethod
    def of(cls, body: Json) -> Change:
        return cls(body["name"], body["change"], body["version"])


@dataclass(frozen=True)
class Applied:
    """What an apply has changed, or would change."""

    changes: tuple[Change, ...]
    warnings: tuple[str, ...]
    position: str | None
    """None after a dry run."""
    pending_groups: tuple[str, ...]

    @classmethod
    def of(cls, body: Json) -> Applied:
        changes = tuple(Change.of(change) for change in body["changes"])
        return cls(changes, tuple(body.get("warnings", ())), body.get("position"), tuple(body.get("pending_groups", ())))


@dataclass(frozen=True)
class Condition:
    """What keeps a batch from running."""

    kind: str
    message: str
    since: datetime | None
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, body: Json) -> Condition:
        return cls(body["kind"], body["message"], optional_instant(body.get("since")), body)


@dataclass(frozen=True)
class Event:
    """An event of the public feed; docs/reference/events.md has all."""

    cursor: str
    """The stream goes on behind this."""
    type: str
    """As `batch.finished`."""
    subject: str
    """As `batch/4097`."""
    time: datetime
    data: Json
    raw: Json = field(repr=False, compare=False)
    """The CloudEvents event."""


@dataclass(frozen=True)
class LogEvent:
    """What a tail of a log tells."""

    kind: str
    """`attempt`: the output of one begins; `chunk`: whole lines of it; `cut`: that of an attempt is not complete; `gone`: nothing is kept
    of it; `end`: the batch has finished, and nothing follows."""
    attempt: int | None
    """Number of the attempt, from 1; none of `end`."""
    stream: str | None
    """Of a chunk: `stdout`, `stderr` or `worker`."""
    offset: int | None
    """Of a chunk: bytes of its stream and attempt before it."""
    at: datetime | None
    """Of a chunk: when it was read from the job."""
    content: str
    """Of a chunk: its text, else empty. Bytes that are not UTF-8 are U+FFFD."""
    result: str | None
    """Of `end`: as of the batch."""

    @classmethod
    def of(cls, kind: str, body: Json) -> LogEvent:
        return cls(
            kind,
            body.get("attempt"),
            body.get("stream"),
            body.get("offset"),
            optional_instant(body.get("at")),
            body.get("content", ""),
            body.get("result"),
        )


@dataclass(frozen=True)
class Grant:
    """A task that is given to a user."""

    grant: int
    """Its number, with which it is completed or returned."""
    task: int
    name: str
    """For people; may be empty."""
    start: datetime
    """Which occurrence of the task it is."""
    parameters: Json
    granted_at: datetime
    expires_at: datetime | None
    """When the lease ends: a result that comes later is refused. None: it does not end."""
    redo: bool
    """Whether the user had it already."""
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, body: Json) -> Grant:
        return cls(
            body["grant"],
            body["task"],
            body.get("name") or "",
            instant(body["start"]),
            body.get("parameters") or {},
            instant(body["granted_at"]),
            optional_instant(body.get("expires_at")),
            bool(body.get("redo", False)),
            body,
        )


@dataclass(frozen=True)
class Pulled:
    """What a user is to do, or when to ask again."""

    grant: Grant | None
    """None: nothing is due."""
    next_at: datetime | None
    """Where nothing is due: when the next task begins for the user, as far as is known."""
    retry_after_s: int | None
    """Where nothing is due: after how many seconds to pull again."""

    @classmethod
    def of(cls, body: Json) -> Pulled:
        grant = body.get("grant")
        next_at = optional_instant(body.get("next_at"))
        return cls(None if grant is None else Grant.of(grant), next_at, body.get("retry_after_s"))
