"""Server-sent events, from the bytes of a connection however they are cut up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import BadAnswer

MAX_MESSAGE_BYTES = 16 << 20
"""Longest message that is held. Events of the feed are far shorter."""


@dataclass(frozen=True)
class Message:
    """One message of a stream."""

    id: str | None
    """The cursor to go on from."""
    event: str | None
    """Its type."""
    data: str
    """Its body."""


class Parser:
    """The messages of one connection. What is not complete at its end is none."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._is_first = True
        self._after_return = False
        self._clear()

    def _clear(self) -> None:
        self._id: str | None = None
        self._event: str | None = None
        self._data: list[str] = []
        self._bytes = 0

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that are complete with these bytes."""
        for line in self._lines(piece):
            self._bytes += len(line)
            if self._bytes > MAX_MESSAGE_BYTES:
                raise BadAnswer(f"an event of the stream is longer than {MAX_MESSAGE_BYTES} bytes; is this a Tidemill server?")
            if line:
                self._take(line.decode("utf-8", "replace"))
                continue
            if self._data:
                yield Message(self._id, self._event, "\n".join(self._data))
            self._clear()

    def _lines(self, piece: bytes) -> Iterator[bytes]:
        """A line ends with `\\r\\n`, `\\n` or `\\r`."""
        if self._after_return and piece:
            piece = piece.removeprefix(b"\n")
            self._after_return = False
        self._rest += piece
        if self._is_first and len(self._rest) >= 3:
            self._is_first = False
            if self._rest.startswith(b"\xef\xbb\xbf"):
                del self._rest[:3]
        if b"\n" not in piece and b"\r" not in piece:
            if len(self._rest) > MAX_MESSAGE_BYTES:
                raise BadAnswer(f"a line of the stream is longer than {MAX_MESSAGE_BYTES} bytes; is this a Tidemill server?")
            return
        text, self._rest = bytes(self._rest), bytearray()
        self._after_return = text.endswith(b"\r")
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest += lines.pop()
        yield from lines

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
