"""Streams that go on where they broke, as flows: the public feed, the tail of a log, and its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from .calls import BatchRef, Time, batch, batch_of, bounded, done, of_batch
from .errors import BadAnswer, Refused, Unavailable
from .flow import Core, Flow, Item, Now, Open, Pause, Read, Stream, chosen, failure, passes
from .models import Event, LogEvent, instant, read, rfc3339
from .request import Answer, Query, Request, Trouble, get
from .sse import Message, Parser

# Until the log of a batch that has finished is whole, and between two looks whether it is.
WHOLE_WITHIN_S, LOOK_S = 10.0, 0.1


@dataclass(frozen=True)
class Place:
    """Where a stream is opened next."""

    begin: Request
    """While nothing of it was seen."""
    again: Callable[[Request, str], Request]
    """Behind the last thing seen."""
    last: str | None = None

    def request(self) -> Request:
        return self.begin if self.last is None else self.again(self.begin, self.last)


def opened(core: Core, place: Place, is_begun: bool) -> Flow[Answer]:
    """Opens a stream. What is there for the first time fails as soon as a call would; one that broke gets more
    patience, for its server may be restarting."""
    tries = 1 + core.retry.reconnects if is_begun else core.retry.tries
    request = place.request()
    for failed in range(1, tries + 1):
        got: Answer | Trouble = yield Open(request)
        if isinstance(got, Answer) and got.is_good:
            return got
        asked_s = got.problem().retry_after_s if isinstance(got, Answer) else None
        pause = core.retry.pause_s(failed, asked_s) if passes(got, request.repeat) else None
        if pause is None or failed == tries:
            break
        yield Pause(pause)
    raise failure(core.config, request, got)


def messages(core: Core, place: Place) -> Stream[Message]:
    """The messages of a stream over all its connections, each once, without an end."""
    is_begun = False
    while True:
        answer = yield from opened(core, place, is_begun)
        is_begun = True
        if place.last is None:
            place = _from_now(place, answer)
        parser = Parser()
        while True:
            piece: bytes | Trouble = yield Read()
            if isinstance(piece, Trouble) or not piece:
                break
            for message in parser.feed(piece):
                if message.id:
                    place = replace(place, last=message.id)
                yield Item(message)
        # The server has ended it, or it broke.
        yield Pause(core.retry.pause_s(1, None) or core.retry.first_pause_s)


def _from_now(place: Place, answer: Answer) -> Place:
    """A stream from the end on that breaks before its first event is opened again from the time when it was opened first, by the server's
    clock: what happened meanwhile is in it."""
    date_s = answer.date_s()
    query = dict(place.begin.query)
    if query.get("from") != "end" or place.begin.path != "/api/events" or date_s is None:
        return place
    query["from"] = rfc3339(datetime.fromtimestamp(date_s, timezone.utc))
    return replace(place, begin=replace(place.begin, query=tuple(query.items())))


def events(core: Core, begin: Time, cursor: str | None, query: Query, limit: int | None) -> Stream[Event]:
    if limit is not None:
        bounded("limit", limit, 1, 2**53)
    asked = get("/api/events", query)
    first = asked.asking({"from": rfc3339(begin)}) if cursor is None else asked.asking({"cursor": cursor})
    place = Place(first, lambda _, last: asked.asking({"cursor": last}))
    seen = 0

    def take(message: Message) -> tuple[Event | None, bool]:
        nonlocal seen
        seen += 1
        return _event(message), seen == limit

    yield from chosen(messages(core, place), take)


def _event(message: Message) -> Event:
    raw = _json(message)
    kind = message.event or ""
    return read(
        lambda raw: Event(message.id or "", kind, raw["subject"], instant(raw["time"]), raw.get("data") or {}, raw), raw
    )


def log(core: Core, of: BatchRef, attempt: int | None, stream: str | None, from_end: bool) -> Stream[LogEvent]:
    """Until the batch has finished."""
    _, position = batch_of(of)
    query = {"attempt": attempt, "type": stream, "from": "end" if from_end else None, "at_least": position}
    place = Place(get(of_batch(of, "/log/tail"), query), lambda begin, last: begin.with_header("last-event-id", last))

    def take(message: Message) -> tuple[LogEvent | None, bool]:
        kind = message.event or ""
        # Other kinds, as `progress`, have nothing to tell but their id.
        is_told = kind in ("attempt", "chunk", "cut", "gone", "end")
        return read(lambda body: LogEvent.of(kind, body), _json(message)) if is_told else None, kind == "end"

    yield from chosen(messages(core, place), take)


def _json(message: Message) -> Any:
    try:
        return json.loads(message.data)
    except ValueError:
        raise BadAnswer("an event of the stream is not JSON; is this a Tidemill server?") from None


def _whole(core: Core, of: BatchRef, attempt: int | None) -> Flow[None]:
    """Until the log of a batch that has finished is whole: the rest of it may come a moment later than the batch's end."""
    hasty = replace(core, retry=replace(core.retry, tries=1))
    end = (yield Now()) + WHOLE_WITHIN_S
    while (yield Now()) < end:
        try:
            kept = yield from done(hasty, get(of_batch(of, "/log/summary"), {"attempt": attempt}), dict)
            if kept.get("is_end"):
                return
        except Unavailable as error:
            # Without a store, the worker has it whole.
            if error.code == "no_log_store":
                return
        except Refused:
            # The download says why.
            return
        yield Pause(LOOK_S)


def download(core: Core, of: BatchRef, attempt: int | None, stream: str, first: int) -> Stream[bytes]:
    """The bytes of a log as they come. A connection that breaks is made again at the byte where it broke."""
    bounded("first_byte", first, 0, 2**53)
    found = yield from batch(core, of)
    # A later attempt does not go on with the bytes of this one.
    attempt = attempt or found.raw.get("attempt") or None
    if found.is_finished:
        yield from _whole(core, of, attempt)
    _, position = batch_of(of)
    whole = get(of_batch(of, "/log/download"), {"type": stream, "attempt": attempt, "at_least": position})
    at, failures = first, 0
    while failures <= core.retry.reconnects:
        request = whole.with_header("range", f"bytes={at}-") if at else whole
        try:
            answer = yield from opened(core, Place(request, lambda begin, _: begin), at > first)
        except Refused as refused:
            # It broke between its last byte and its end.
            if refused.status == 416 and at > first:
                return
            raise
        # Whoever has the log may know no ranges.
        skip = at if answer.status == 200 else 0
        failures += 1
        while True:
            piece: bytes | Trouble = yield Read()
            if isinstance(piece, Trouble):
                break
            if not piece:
                return
            fresh = piece[skip:]
            skip -= min(skip, len(piece))
            if fresh:
                at += len(fresh)
                failures = 0
                yield Item(fresh)
        yield Pause(core.retry.pause_s(1, None) or core.retry.first_pause_s)
    raise Unavailable(
        f"the log of batch {batch_of(of)[0]} broke off at byte {at} {failures} times; go on with first_byte={at}", code="unreachable"
    )
