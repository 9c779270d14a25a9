"""All input and output of `Client`: one step after the other, and the threads of a worker."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from . import wire, worker
from .config import Config
from .flow import Ask, Core, Flow, Now, Open, Pause, Read, Rest, Step, T
from .request import Answer, Body, Trouble
from .worker import Counts, Done, Task, Team

# Between two looks of the thread that waits for the users of a worker.
LOOK_S = 0.2
# Until a call has ended that lets the server wait no longer.
CALL_S = 5.0


class Connection:
    """Does one step after the other: what a flow asks for, of the network and of the clock."""

    def __init__(self, http: httpx.Client, config: Config, rest: Callable[[float], object] = time.sleep) -> None:
        self.http = http
        self.config = config
        self.rest = rest
        self.response: httpx.Response | None = None
        self.pieces: Iterator[bytes] = iter(())

    def do(self, step: Step) -> Any:
        match step:
            case Ask(request):
                return self.ask(wire.sending(request, self.config))
            case Open(request):
                return self.open(wire.sending(request, self.config, is_stream=True))
            case Read():
                return self.read()
            case Pause(seconds):
                return time.sleep(seconds)
            case Rest(seconds):
                return self.rest(seconds)
            case Now():
                return time.monotonic()

    def ask(self, sending: dict[str, Any]) -> Answer | Trouble:
        try:
            with self.http.stream(**sending) as response:
                return self.whole(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return wire.trouble(error)

    def whole(self, response: httpx.Response) -> Answer:
        body = Body()
        for piece in response.iter_bytes():
            body.add(piece)
        return Answer(response.status_code, response.headers, body.whole())

    def open(self, sending: dict[str, Any]) -> Answer | Trouble:
        self.close()
        try:
            response = self.http.send(self.http.build_request(**sending), stream=True)
            self.response = response
            if not response.is_success:
                answer = self.whole(response)
                self.close()
                return answer
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            self.close()
            return wire.trouble(error)
        self.pieces = response.iter_bytes()
        return Answer(response.status_code, response.headers)

    def read(self) -> bytes | Trouble:
        try:
            return next((piece for piece in self.pieces if piece), b"")
        except httpx.HTTPError as error:
            self.close()
            return wire.trouble(error)

    def close(self) -> None:
        self.pieces = iter(())
        if self.response is not None:
            self.response.close()
            self.response = None

    def run(self, flow: Flow[T]) -> T:
        got: Any = None
        while True:
            try:
                step = flow.send(got)
            except StopIteration as end:
                result: T = end.value
                return result
            got = self.do(step)


def work(
    core: Core,
    http: httpx.Client,
    users: Sequence[str],
    function: Callable[[Task], str | None],
    wait_s: int,
    grace_s: float,
    until_empty: bool,
    stop: threading.Event,
) -> Counts:
    worker.bounds(wait_s, grace_s)
    team = Team(stop.is_set, wait_s, until_empty)
    errors: list[BaseException] = []
    hurry = threading.Event()
    threads = {
        user: threading.Thread(target=_user, args=(core, http, team, user, function, stop, errors), name=f"tidemill {user}", daemon=True)
        for user in users
    }
    with _signals(stop, hurry):
        for thread in threads.values():
            thread.start()
        while not stop.is_set() and any(thread.is_alive() for thread in threads.values()):
            stop.wait(LOOK_S)
        begun = time.monotonic()

        def is_awaited(user: str) -> bool:
            """Who has no task in hand is in a call, which may still give one."""
            patience_s = grace_s if user in team.in_hand else max(grace_s, wait_s + CALL_S)
            return threads[user].is_alive() and time.monotonic() < begun + patience_s

        while not hurry.is_set() and any(is_awaited(user) for user in users):
            hurry.wait(LOOK_S / 4)
        for task in list(team.in_hand.values()):
            Connection(http, core.config).run(worker.give_up(core, task))
    if errors:
        raise errors[0]
    return team.counts


def _user(
    core: Core,
    http: httpx.Client,
    team: Team,
    user: str,
    function: Callable[[Task], str | None],
    stop: threading.Event,
    errors: list[BaseException],
) -> None:
    connection = Connection(http, core.config, rest=stop.wait)
    flow = worker.work(core, team, user)
    got: Any = None
    try:
        while True:
            step = flow.send(got)
            got = _done(function, step.task) if isinstance(step, worker.Do) else connection.do(step)
    except StopIteration:
        pass
    except BaseException as error:
        # The worker ends with it, for the others would go on without this one.
        errors.append(error)
        stop.set()


def _done(function: Callable[[Task], str | None], task: Task) -> Done:
    try:
        return Done(function(task), None)
    except BaseException as error:
        # `sys.exit` of a task ends the task.
        return Done(None, error)


@contextmanager
def _signals(stop: threading.Event, hurry: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask to stop, and the second one to do so at once. Only the main thread can hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(_number: int, _frame: Any) -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
