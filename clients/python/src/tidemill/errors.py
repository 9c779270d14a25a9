"""What goes wrong, as one family of exceptions: which of them it is says what became of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BadField:
    """A field that cannot be accepted."""

    field: str
    """Its path, as `jobs[0].priority`."""
    value: str
    """What it was; may be empty."""
    rule: str
    """What it has to be."""

    def __str__(self) -> str:
        return f'{self.field}: "{self.value}": {self.rule}' if self.value else f"{self.field}: {self.rule}"


class TidemillError(Exception):
    """Why a call gave no answer, or another one than was asked for. `str` of it is a sentence for people."""

    def __init__(
        self,
        sentence: str,
        *,
        code: str,
        status: int | None = None,
        fields: Sequence[BadField] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        """What happened, and what to do."""
        self.code = code
        """For programs; stable. That of the server's problem, or one of this client's own."""
        self.status = status
        """The HTTP status, where a server has answered."""
        self.fields = tuple(fields)
        """The fields that cannot be accepted."""
        self.retry_after_s = retry_after_s
        """When to try again, seconds, where the server says it."""

    def __str__(self) -> str:
        untold = [str(field) for field in self.fields if field.rule not in self.sentence]
        return "; ".join([self.sentence, *untold])


class BadValue(TidemillError, ValueError):
    """An argument or a setting cannot be used. Nothing was sent."""

    def __init__(self, field: str, value: str, rule: str) -> None:
        bad = BadField(field, value, rule)
        super().__init__(str(bad), code="bad_value", fields=[bad])


class Refused(TidemillError):
    """The server understood, says no, and has changed nothing. The same call is refused again."""


class Unavailable(TidemillError):
    """The server, or a part of it that the call needs, cannot be reached or has too much to do. Nothing was changed; the same call
    may succeed later."""


class UnknownOutcome(TidemillError):
    """A write was sent and its answer is lost: it may have been done or not. It is not refused."""

    def __init__(self, sentence: str, *, idempotency_key: str | None, status: int | None = None) -> None:
        super().__init__(sentence, code="outcome_unknown", status=status)
        self.idempotency_key = idempotency_key
        """The same call with this key gives the first answer, or is done once. None: the call may be repeated as it is."""


class BadAnswer(TidemillError):
    """Something answers there, but not as Tidemill does."""

    def __init__(self, sentence: str, *, status: int | None = None) -> None:
        super().__init__(sentence, code="bad_answer", status=status)


class NotInTime(TidemillError, TimeoutError):
    """What was waited for did not happen in time; it may still happen."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, code="not_in_time")
