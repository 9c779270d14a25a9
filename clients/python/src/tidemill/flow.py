"""What is to be done, one step after the other, without doing any of it.

A *flow* is a generator: it yields steps, is sent what came of each, and returns its result. `Client` and `AsyncClient` differ in how
they do a step, and in nothing else. A flow that gives many values yields each as an `Item`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

from .config import Config
from .errors import BadAnswer, BadValue, Refused, TidemillError, Unavailable, UnknownOutcome
from .request import Answer, Problem, Repeat, Request, Trouble

T = TypeVar("T")
U = TypeVar("U")

PASSING = (408, 429)
"""Not done: what was sent did not arrive in time, or there was too much to do."""


@dataclass(frozen=True)
class Ask:
    """Send the request and read its answer: an `Answer` or a `Trouble`."""

    request: Request


@dataclass(frozen=True)
class Open:
    """Send the request, close what was open: an `Answer`, with a body where it is none of 2xx, or a `Trouble`."""

    request: Request


@dataclass(frozen=True)
class Read:
    """The next piece of what is open: bytes, none of them at its end, or a `Trouble`."""


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Rest:
    """Wait, but not where the worker is asked to stop."""

    seconds: float


@dataclass(frozen=True)
class Now:
    """Seconds of a clock that is never set."""


@dataclass(frozen=True)
class Item(Generic[T]):
    """One of many results."""

    value: T


Step = Union[Ask, Open, Read, Pause, Rest, Now]
Flow = Generator[Step, Any, T]
Stream = Generator[Union[Step, Item[T]], Any, None]


def chosen(stream: Stream[T], take: Callable[[T], tuple[U | None, bool]]) -> Stream[U]:
    """What `take` makes of each value, none where that is nothing, and up to the one that it calls the last."""
    got: Any = None
    while True:
        try:
            step = stream.send(got)
        except StopIteration:
            return
        if not isinstance(step, Item):
            got = yield step
            continue
        got = None
        value, is_last = take(step.value)
        if value is not None:
            yield Item(value)
        if is_last:
            return


@dataclass(frozen=True)
class Retry:
    """How often, and when, what may be repeated is repeated."""

    tries: int = 6
    """Of one call, 1 to 100; 1: nothing is repeated."""
    first_pause_s: float = 0.2
    """Before the second try; doubles from one to the next."""
    longest_pause_s: float = 5.0
    """The bound of that."""
    longest_wait_s: float = 30.0
    """A server's `Retry-After` is followed up to this; asked to wait longer, the call gives up."""
    reconnects: int = 100
    """How often in a row a stream that broke may fail to be opened again, 0 to 10,000."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("tries", self.tries, 1, 100),
            ("first_pause_s", self.first_pause_s, 0.001, 3600),
            ("longest_pause_s", self.longest_pause_s, 0.001, 3600),
            ("longest_wait_s", self.longest_wait_s, 0, 3600),
            ("reconnects", self.reconnects, 0, 10_000),
        ):
            if not least <= value <= most:
                raise BadValue(f"retry.{name}", str(value), f"must be {least} to {most}")

    def pause_s(self, failed: int, asked_s: float | None) -> float | None:
        """After so many failures in a row, from 1; none: the server wants more patience than there is. Half to all of it is drawn, so
        that clients that were cut off together do not all come back together; what a server asks for is kept to."""
        if asked_s is not None and asked_s > self.longest_wait_s:
            return None
        longest: float = min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(failed - 1, 30))
        return max(longest * random.uniform(0.5, 1.0), (asked_s or 0.0) * random.uniform(1.0, 1.2))


@dataclass(frozen=True)
class Core:
    """What flows go by."""

    config: Config
    retry: Retry
    prefix: str
    """Begins the idempotency keys that are drawn."""


def exchange(core: Core, request: Request) -> Flow[Answer]:
    """Sends a request until there is an answer that is none of a passing trouble; the answer is of status 2xx.

    A write is sent again only under the same key, or where it may be repeated as it is. What the server says of a try whose answer is
    known is no news of an earlier one whose answer is lost: then only an answer that the server has looked up by the key counts.
    """
    is_in_doubt = False
    for failed in range(1, core.retry.tries + 1):
        got: Answer | Trouble = yield Ask(request)
        if isinstance(got, Answer) and got.is_good:
            return got
        is_in_doubt = is_in_doubt or (request.repeat is not Repeat.READ and _is_lost(got))
        asked_s = got.problem().retry_after_s if isinstance(got, Answer) else None
        pause = core.retry.pause_s(failed, asked_s) if passes(got, request.repeat) else None
        if pause is None or failed == core.retry.tries:
            break
        yield Pause(pause)
    raise failure(core.config, request, got, is_in_doubt)


def passes(got: Answer | Trouble, repeat: Repeat) -> bool:
    """Whether another try may end otherwise."""
    if isinstance(got, Trouble):
        return got.passes
    if got.status == 409:
        # What is on its way between groups arrives. Under a key, the first answer would only come again.
        return repeat is not Repeat.KEYED and got.problem().retry_after_s is not None
    return got.status in PASSING or (got.status >= 500 and got.status not in (501, 505))


def _is_lost(got: Answer | Trouble) -> bool:
    """Whether the request may have been done, as far as this try says."""
    if isinstance(got, Trouble):
        return got.is_sent
    problem = got.problem()
    is_known = got.status == 503 and problem.code not in ("", "stopping")
    return got.status >= 500 and not is_known


def failure(config: Config, request: Request, got: Answer | Trouble, is_in_doubt: bool = False) -> TidemillError:
    """The error that a call ends with."""
    is_answered = isinstance(got, Answer) and got.status in (400, 409, 412, 422)
    if is_in_doubt and not is_answered:
        return _doubt(config, request, got)
    if isinstance(got, Trouble):
        where = f"{config.server} ({config.server_from})"
        return Unavailable(f"no answer from {where}: {got.text}", code="unreachable")
    return refusal(config, got)


def _doubt(config: Config, request: Request, got: Answer | Trouble) -> UnknownOutcome:
    why = got.text if isinstance(got, Trouble) else got.problem().detail
    key = request.idempotency_key
    remedy = "the call may be made again as it is" if key is None else f"look, or make the same call with idempotency_key={key!r}, which does it once"
    return UnknownOutcome(
        f"it may have been done or not: no answer to {request.method} {request.path} came from {config.server}: {why}; {remedy}",
        idempotency_key=key,
        status=got.status if isinstance(got, Answer) else None,
    )


def refusal(config: Config, answer: Answer) -> TidemillError:
    """What an answer of another status than 2xx says."""
    problem = answer.problem()
    if answer.status < 500 and answer.status not in PASSING and not problem.code:
        return BadAnswer(
            f"{config.server} ({config.server_from}) answers with status {answer.status}, but not as Tidemill does; is it another server?",
            status=answer.status,
        )
    sentence = _told(config, problem)
    is_passing = answer.status in PASSING or answer.status >= 500
    kind = Unavailable if is_passing else Refused
    return kind(
        sentence,
        code=problem.code or "unreachable",
        status=problem.status,
        fields=problem.fields,
        retry_after_s=problem.retry_after_s,
    )


def _told(config: Config, problem: Problem) -> str:
    if problem.status != 401:
        return problem.detail
    if config.key is None:
        return f"{config.server} wants an application key, and none was given: name one with key= or TIDEMILL_KEY"
    return f"{config.server} does not know the key {config.app}:… of {config.key_from}: {problem.detail}"
