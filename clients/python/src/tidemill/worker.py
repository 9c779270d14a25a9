"""Who pulls tasks and does them, as a flow: one for each user, for a user has one task at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Union

from . import calls
from .errors import BadValue, Refused, Unavailable, UnknownOutcome
from .flow import Core, Flow, Now, Pause, Rest, Step
from .models import Grant, Json, Pulled

LOG = logging.getLogger("tidemill")
MAX_USERS = 200
# Between two tries of a call that got no answer, after all tries of the call itself; doubles up to the second one.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
# The same of a completion once the worker is asked to stop: what is not told in time is given back, and done again by somebody else.
STOPPING_PAUSE_S = 0.5


@dataclass(frozen=True)
class Task:
    """A task to do."""

    user: str
    grant: Grant
    ends_s: float | None = field(repr=False)
    """When its lease ends, on the clock of `left_s`."""
    team: Team = field(repr=False)

    @property
    def parameters(self) -> Json:
        return self.grant.parameters

    @property
    def name(self) -> str:
        return self.grant.name

    @property
    def start(self) -> datetime:
        """Which occurrence of the task it is."""
        return self.grant.start

    def left_s(self) -> float | None:
        """How long the lease still lasts, seconds, 0 once it is over; none: it does not end. A lease cannot be made longer: who does not
        make it in time should end, for the result will be refused, and somebody else has the task."""
        return None if self.ends_s is None else max(0.0, self.ends_s - time.monotonic())

    @property
    def is_stopping(self) -> bool:
        """Whether the worker is asked to stop: what takes longer should raise `Stopped`."""
        return self.team.is_stopping


class Stopped(Exception):
    """Raise this in a task that ends because the worker stops: it is given back, and does not count as failed."""


@dataclass(frozen=True)
class Do:
    """Call the user's function: a `Done`."""

    task: Task


@dataclass(frozen=True)
class Done:
    """What came of a task."""

    result: Any
    error: BaseException | None


Work = Generator[Union[Step, Do], Any, None]


@dataclass
class Counts:
    """What a worker has done."""

    completed: int = 0
    failed: int = 0
    """The function raised an exception; the task was given back."""
    late: int = 0
    """The lease was over; the result was thrown away."""
    returned: int = 0
    """Given back because the worker stopped."""


class Team:
    """What the users of one worker share."""

    def __init__(self, is_stopped: Callable[[], bool], wait_s: int, until_empty: bool) -> None:
        self._is_stopped = is_stopped
        self.wait_s = wait_s
        self.until_empty = until_empty
        self.in_hand: dict[str, Task] = {}
        """What is being done, by user."""
        self.given_up: set[str] = set()
        """Users whose task was given back while their function still runs."""
        self.counts = Counts()

    @property
    def is_stopping(self) -> bool:
        """Whether no new task is begun."""
        return self._is_stopped()


def users_of(users: str | Sequence[str]) -> list[str]:
    found = [users] if isinstance(users, str) else list(users)
    if not 1 <= len(found) <= MAX_USERS or len(set(found)) != len(found):
        raise BadValue("users", f"{len(found)} names", f"must be 1 to {MAX_USERS} different names; each has one task at a time")
    return found


def bounds(wait_s: int, grace_s: float) -> None:
    calls.bounded("wait_s", wait_s, 0, 30)
    calls.bounded("grace_s", grace_s, 0, 3600)


def work(core: Core, team: Team, user: str) -> Work:
    """Pulls, does and completes, until the worker stops or a call is refused. Whatever does not answer is asked again."""
    failed = unanswered = 0
    while not team.is_stopping:
        begun: float = yield Now()
        try:
            pulled: Pulled = yield from calls.pull(core, user, team.wait_s)
        except (Unavailable, UnknownOutcome) as error:
            unanswered += 1
            yield Rest(_told_s(user, "pull", error, unanswered))
            continue
        unanswered = 0
        if pulled.grant is None:
            if team.until_empty:
                return
            yield Rest(_idle_s(team, pulled, (yield Now()) - begun))
            continue
        is_done = yield from _do(core, team, user, pulled.grant)
        failed = 0 if is_done else failed + 1
        if failed:
            # What was given back is in stock again at once, for this user, too.
            yield Rest(_pause_s(failed))


def _do(core: Core, team: Team, user: str, grant: Grant) -> Generator[Union[Step, Do], Any, bool]:
    """Whether the function has not failed."""
    task = Task(user, grant, _ends_s(grant, (yield Now())), team)
    if team.is_stopping:
        yield from _stopped(core, task)
        return True
    team.in_hand[user] = task
    done: Done = yield Do(task)
    is_done = True
    if user not in team.given_up:
        is_done = yield from _end(core, task, done)
    del team.in_hand[user]
    return is_done


def _end(core: Core, task: Task, done: Done) -> Flow[bool]:
    """Says what came of a task."""
    if isinstance(done.error, Stopped):
        yield from _stopped(core, task)
        return True
    result = "done" if done.result is None else done.result
    error = done.error or _bad_result(result)
    if error is None:
        yield from _complete(core, task, result)
        return True
    task.team.counts.failed += 1
    LOG.error("%s: grant %s has failed and is given back", task.user, task.grant.grant, exc_info=error)
    yield from _give_back(core, task, f"{type(error).__name__}: {error}")
    return False


def _bad_result(result: Any) -> Exception | None:
    if not isinstance(result, str):
        return TypeError(f"the result is {type(result).__name__}; it must be text, or None for `done`")
    length = len(result.encode(errors="replace"))
    if not 1 <= length <= calls.RESULT_BYTES:
        return ValueError(f"the result has {length} bytes; it must have 1 to {calls.RESULT_BYTES}")
    return None


def _complete(core: Core, task: Task, result: str) -> Flow[None]:
    """Until the server has said whether it counts."""
    counts, unanswered = task.team.counts, 0
    while task.user not in task.team.given_up:
        try:
            yield from calls.complete(core, task.user, task.grant.grant, result)
            counts.completed += 1
            return
        except Refused as refused:
            if refused.code != "grant_over":
                raise
            counts.late += 1
            LOG.warning("%s: too late with grant %s: %s", task.user, task.grant.grant, refused)
            return
        except (Unavailable, UnknownOutcome) as error:
            unanswered += 1
            if task.team.is_stopping:
                yield Pause(STOPPING_PAUSE_S)
            else:
                yield Rest(_told_s(task.user, "complete", error, unanswered))


def _give_back(core: Core, task: Task, reason: str) -> Flow[bool]:
    """As far as the server can be reached: what is not given back comes again with the next pull."""
    try:
        return (yield from calls.give_back(core, task.user, task.grant.grant, reason))
    except (Unavailable, UnknownOutcome) as error:
        LOG.warning("%s: grant %s could not be given back: %s", task.user, task.grant.grant, error)
        return False


def _stopped(core: Core, task: Task) -> Flow[None]:
    if (yield from _give_back(core, task, "the worker was stopped")):
        task.team.counts.returned += 1


def give_up(core: Core, task: Task) -> Flow[None]:
    """Gives back what takes too long, while its function still runs."""
    task.team.given_up.add(task.user)
    yield from _stopped(core, task)


def _told_s(user: str, what: str, error: Exception, unanswered: int) -> float:
    """How long to wait, which the log says too."""
    pause = _pause_s(unanswered)
    LOG.warning("%s: %s: %s; again in %.0f s", user, what, error, pause)
    return pause


def _pause_s(failed: int) -> float:
    longest: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failed - 1, 10))
    return longest


def _idle_s(team: Team, pulled: Pulled, waited_s: float) -> float:
    """Until the next pull: none where the server has waited already."""
    if waited_s >= 0.9 * team.wait_s > 0:
        return 0.0
    return float(min(pulled.retry_after_s or 1, 30))


def _ends_s(grant: Grant, received_s: float) -> float | None:
    """On the client's clock that is never set. What was given just now has its whole lease."""
    if grant.expires_at is None:
        return None
    begins = datetime.now(timezone.utc) if grant.redo else grant.granted_at
    return received_s + (grant.expires_at - begins).total_seconds()
