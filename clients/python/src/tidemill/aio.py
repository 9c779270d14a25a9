"""The client for asyncio: the same methods as `Client`, to be awaited or iterated with `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import httpx

from . import calls, streams, wire, worker
from .calls import BatchRef, JobRef, Parameters, Time
from .config import Config
from .flow import Core, Flow, Item, Retry, Stream, T
from .loop import Connection, Crew
from .models import Applied, Batch, Condition, Event, Job, Json, LogEvent, Pulled, Run, Written
from .request import Query, idempotency_key
from .worker import Counts, Task


class AsyncClient:
    """As `Client`, for the tasks of one event loop."""

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        ca_file: str | Path | None = None,
        as_user: str | None = None,
        timeout_s: float = 60.0,
        retry: Retry = Retry(),
        idempotency_prefix: str = "python",
    ) -> None:
        config = Config.find(server, key, ca_file, as_user)
        idempotency_key(idempotency_prefix + "-" + 32 * "0", "")
        self._core = Core(config, retry, idempotency_prefix)
        self._http = httpx.AsyncClient(**wire.options(config, timeout_s))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    @property
    def server(self) -> str:
        """Its address."""
        return self._core.config.server

    async def _run(self, flow: Flow[T]) -> T:
        return await Connection(self._http, self._core.config).run(flow)

    async def _stream(self, stream: Stream[T]) -> AsyncIterator[T]:
        connection = Connection(self._http, self._core.config)
        got: Any = None
        try:
            while True:
                try:
                    step = stream.send(got)
                except StopIteration:
                    return
                got = None
                if isinstance(step, Item):
                    yield step.value
                else:
                    got = await connection.do(step)
        finally:
            await connection.close()

    async def submit(
        self,
        name: str,
        command: str,
        *,
        user: str,
        group: int | str,
        type: str = "shell",
        cron: str | None = None,
        after: Sequence[int] = (),
        priority: int | None = None,
        parameters: Mapping[str, str | int | float | bool] | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """As `Client.submit`."""
        return await self._run(
            calls.submit(self._core, name, command, user, group, type, cron, after, priority, parameters, idempotency_key)
        )

    async def run(
        self,
        job: JobRef,
        *,
        logical_time: Time | None = None,
        parameters: Parameters | None = None,
        concurrent: bool = False,
        idempotency_key: str | None = None,
    ) -> Run:
        """As `Client.run`."""
        return await self._run(calls.run(self._core, job, logical_time, parameters, concurrent, idempotency_key))

    async def job(self, job: JobRef) -> Job:
        """As `Client.job`."""
        return await self._run(calls.job(self._core, job))

    def jobs(
        self,
        *,
        group: str | None = None,
        name: str | None = None,
        type: str | None = None,
        enabled: bool | None = None,
        submitted: bool | None = None,
        page_size: int = 200,
    ) -> AsyncIterator[Job]:
        """As `Client.jobs`."""
        query: Query = {"group": group, "name": name, "type": type, "enabled": enabled, "submitted": submitted}
        return self._stream(calls.jobs(self._core, query, page_size))

    async def apply(
        self,
        jobs: Iterable[Json],
        *,
        dry_run: bool = False,
        prune: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Applied:
        """As `Client.apply`."""
        return await self._run(calls.apply(self._core, jobs, dry_run, prune, idempotency_key))

    async def batch(self, batch: BatchRef) -> Batch:
        """As `Client.batch`."""
        return await self._run(calls.batch(self._core, batch))

    def batches(
        self,
        *,
        job: JobRef | None = None,
        group: str | None = None,
        state: str | None = None,
        result: str | None = None,
        blocked: bool | None = None,
        triggered_by: str | None = None,
        mine: bool | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        page_size: int = 200,
    ) -> AsyncIterator[Batch]:
        """As `Client.batches`."""
        query: Query = {
            "group": group,
            "state": state,
            "result": result,
            "blocked": blocked,
            "triggered_by": triggered_by,
            "mine": mine,
        }
        return self._stream(calls.batches(self._core, job, begin, end, query, page_size))

    async def wait(self, batch: BatchRef, *, timeout_s: float) -> Batch:
        """As `Client.wait`."""
        return await self._run(calls.wait(self._core, batch, timeout_s))

    async def wait_for_job(self, job: JobRef, *, timeout_s: float) -> Batch:
        """As `Client.wait_for_job`."""
        return await self._run(calls.wait_for_job(self._core, job, timeout_s))

    async def why(self, batch: BatchRef) -> list[Condition]:
        """As `Client.why`."""
        return await self._run(calls.why(self._core, batch))

    async def kill(self, batch: BatchRef, *, reason: str | None = None, idempotency_key: str | None = None) -> Written:
        """As `Client.kill`."""
        return await self._run(calls.kill(self._core, batch, reason, idempotency_key))

    async def rerun(self, batch: BatchRef, *, idempotency_key: str | None = None) -> Run:
        """As `Client.rerun`."""
        return await self._run(calls.rerun(self._core, batch, idempotency_key))

    async def mark(self, batch: BatchRef, result: str, *, reason: str, idempotency_key: str | None = None) -> Written:
        """As `Client.mark`."""
        return await self._run(calls.mark(self._core, batch, result, reason, idempotency_key))

    def log(
        self, batch: BatchRef, *, attempt: int | None = None, stream: str | None = None, from_end: bool = False
    ) -> AsyncIterator[LogEvent]:
        """As `Client.log`."""
        return self._stream(streams.log(self._core, batch, attempt, stream, from_end))

    def download_log(
        self, batch: BatchRef, *, attempt: int | None = None, stream: str = "stdout", first_byte: int = 0
    ) -> AsyncIterator[bytes]:
        """As `Client.download_log`."""
        return self._stream(streams.download(self._core, batch, attempt, stream, first_byte))

    async def save_log(self, batch: BatchRef, to: BinaryIO, *, attempt: int | None = None, stream: str = "stdout") -> int:
        """As `Client.save_log`. The file's writes block."""
        written = 0
        async for piece in self.download_log(batch, attempt=attempt, stream=stream):
            written += to.write(piece)
        return written

    def events(
        self,
        *,
        begin: Time = "end",
        cursor: str | None = None,
        type: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Event]:
        """As `Client.events`."""
        query: Query = {"type": type, "subject": subject, "limit": None}
        return self._stream(streams.events(self._core, begin, cursor, query, limit))

    async def call(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None, idempotency_key: str | None = None
    ) -> Any:
        """As `Client.call`."""
        return await self._run(calls.call(self._core, method, path, query, body, idempotency_key))

    async def pull(self, user: str, *, wait_s: int = 0) -> Pulled:
        """As `Client.pull`."""
        return await self._run(calls.pull(self._core, user, wait_s))

    async def complete(self, user: str, grant: int, result: str) -> str:
        """As `Client.complete`."""
        return await self._run(calls.complete(self._core, user, grant, result))

    async def give_back(self, user: str, grant: int, reason: str = "") -> bool:
        """As `Client.give_back`."""
        return await self._run(calls.give_back(self._core, user, grant, reason))

    async def work(
        self,
        users: str | Sequence[str],
        function: Callable[[Task], Awaitable[str | None]],
        *,
        wait_s: int = 5,
        grace_s: float = 30.0,
        until_empty: bool = False,
        stop: asyncio.Event | None = None,
    ) -> Counts:
        """As `Client.work`, with one asyncio task for each user and a coroutine function. What has not ended in time is cancelled, then given
        back; so is everything where this call is cancelled."""
        worker.bounds(wait_s, grace_s)
        crew = Crew(self._core, self._http, worker.users_of(users), function, stop or asyncio.Event())
        return await crew.work(wait_s, grace_s, until_empty)
