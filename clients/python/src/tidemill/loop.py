"""All input and output of `AsyncClient`: one step after the other, and the asyncio tasks of a worker."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from . import wire, worker
from .config import Config
from .flow import Ask, Core, Flow, Now, Open, Pause, Read, Rest, Step, T
from .request import Answer, Body, Trouble
from .worker import Counts, Done, Stopped, Task, Team

# Until a call has ended that lets the server wait no longer.
CALL_S = 5.0


class Connection:
    """Does one step after the other: what a flow asks for, of the network and of the clock."""

    def __init__(self, http: httpx.AsyncClient, config: Config, stop: asyncio.Event | None = None) -> None:
        self.http = http
        self.config = config
        self.stop = stop
        self.response: httpx.Response | None = None
        self.pieces: AsyncIterator[bytes] | None = None

    async def do(self, step: Step) -> Any:
        match step:
            case Ask(request):
                return await self.ask(wire.sending(request, self.config))
            case Open(request):
                return await self.open(wire.sending(request, self.config, is_stream=True))
            case Read():
                return await self.read()
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Rest(seconds):
                return await self.rest(seconds)
            case Now():
                return time.monotonic()

    async def rest(self, seconds: float) -> None:
        if self.stop is None:
            return await asyncio.sleep(seconds)
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    async def ask(self, sending: dict[str, Any]) -> Answer | Trouble:
        try:
            async with self.http.stream(**sending) as response:
                return await self.whole(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return wire.trouble(error)

    async def whole(self, response: httpx.Response) -> Answer:
        body = Body()
        async for piece in response.aiter_bytes():
            body.add(piece)
        return Answer(response.status_code, response.headers, body.whole())

    async def open(self, sending: dict[str, Any]) -> Answer | Trouble:
        await self.close()
        try:
            response = await self.http.send(self.http.build_request(**sending), stream=True)
            self.response = response
            if not response.is_success:
                answer = await self.whole(response)
                await self.close()
                return answer
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            await self.close()
            return wire.trouble(error)
        self.pieces = response.aiter_bytes()
        return Answer(response.status_code, response.headers)

    async def read(self) -> bytes | Trouble:
        if self.pieces is None:
            return b""
        try:
            async for piece in self.pieces:
                if piece:
                    return piece
            return b""
        except httpx.HTTPError as error:
            await self.close()
            return wire.trouble(error)

    async def close(self) -> None:
        pieces, self.pieces = self.pieces, None
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
        if self.response is not None:
            response, self.response = self.response, None
            await response.aclose()

    async def run(self, flow: Flow[T]) -> T:
        got: Any = None
        while True:
            try:
                step = flow.send(got)
            except StopIteration as end:
                result: T = end.value
                return result
            got = await self.do(step)


class Crew:
    """The asyncio tasks of a worker: one for each user, and one for what each user does."""

    def __init__(
        self,
        core: Core,
        http: httpx.AsyncClient,
        users: Sequence[str],
        function: Callable[[Task], Awaitable[str | None]],
        stop: asyncio.Event,
    ) -> None:
        self.core = core
        self.http = http
        self.users = users
        self.function = function
        self.stop = stop
        self.hurry = asyncio.Event()
        self.hands: dict[str, asyncio.Future[str | None]] = {}

    async def work(self, wait_s: int, grace_s: float, until_empty: bool) -> Counts:
        team = Team(self.stop.is_set, wait_s, until_empty)
        users = {asyncio.create_task(self.user(team, user), name=f"tidemill {user}") for user in self.users}
        cancelled: asyncio.CancelledError | None = None
        with _signals(self.stop, self.hurry):
            try:
                await self.until(users, self.stop, None)
                await self.until(users, self.hurry, grace_s)
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop.set()
            for hand in self.hands.values():
                hand.cancel()
            _, late = await asyncio.wait(users, timeout=wait_s + CALL_S)
            for user in late:
                user.cancel()
            ended = await asyncio.gather(*users, return_exceptions=True)
        if cancelled is not None:
            raise cancelled
        for outcome in ended:
            if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
        return team.counts

    async def until(self, users: set[asyncio.Task[None]], event: asyncio.Event, within_s: float | None) -> None:
        """All users have ended, or the event is there."""
        waiting = [asyncio.create_task(self.heard(event)), asyncio.create_task(self.ended(users))]
        try:
            await asyncio.wait(waiting, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def heard(self, event: asyncio.Event) -> None:
        await event.wait()

    async def ended(self, users: set[asyncio.Task[None]]) -> None:
        await asyncio.wait(users)

    async def user(self, team: Team, user: str) -> None:
        connection = Connection(self.http, self.core.config, self.stop)
        flow = worker.work(self.core, team, user)
        got: Any = None
        try:
            while True:
                step = flow.send(got)
                got = await self.done(step.task) if isinstance(step, worker.Do) else await connection.do(step)
        except StopIteration:
            pass
        except BaseException:
            # The worker ends with it, for the others would go on without this one.
            self.stop.set()
            raise

    async def done(self, task: Task) -> Done:
        hand = asyncio.ensure_future(self.function(task))
        self.hands[task.user] = hand
        try:
            await asyncio.wait({hand})
        finally:
            hand.cancel()
            del self.hands[task.user]
        if hand.cancelled():
            return Done(None, Stopped() if self.stop.is_set() else RuntimeError("the task was cancelled"))
        error = hand.exception()
        return Done(None, error) if error is not None else Done(hand.result(), None)


@contextmanager
def _signals(stop: asyncio.Event, hurry: asyncio.Event) -> Iterator[None]:
    """SIGTERM and SIGINT ask to stop, and the second one to do so at once. Only the loop of the main thread can hear them."""
    loop = asyncio.get_running_loop()

    def heard() -> None:
        if stop.is_set():
            hurry.set()
        stop.set()

    heard_of = []
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, heard)
            heard_of.append(number)
    except (NotImplementedError, RuntimeError, ValueError):
        pass
    try:
        yield
    finally:
        for number in heard_of:
            loop.remove_signal_handler(number)
