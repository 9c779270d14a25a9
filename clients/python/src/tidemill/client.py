"""The client whose calls block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import httpx

from . import calls, streams, wire, worker
from .blocking import Connection, work
from .calls import BatchRef, JobRef, Parameters, Time
from .config import Config
from .flow import Core, Flow, Item, Retry, Stream, T
from .models import Applied, Batch, Condition, Event, Job, Json, LogEvent, Pulled, Run, Written
from .request import Query, idempotency_key
from .worker import Counts, Task


class Client:
    """A server and the right to speak to it. Threads may share it.

    `server`, `key` (`APP:SECRET`), `ca_file` and `as_user` come from TIDEMILL_SERVER, TIDEMILL_KEY, TIDEMILL_CA_FILE and TIDEMILL_AS_USER where
    they are not given; without an address it is http://127.0.0.1:8780. `as_user` is the person in whose name the key calls: the server refuses
    whom it may not speak for. `timeout_s` is how long to wait for an answer, and between two pieces of one; it must be longer than a
    call lets the server wait, 30 s. Nothing is sent before the first call.
    """

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
        self._http = httpx.Client(**wire.options(config, timeout_s))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()

    @property
    def server(self) -> str:
        """Its address."""
        return self._core.config.server

    def _run(self, flow: Flow[T]) -> T:
        return Connection(self._http, self._core.config).run(flow)

    def _stream(self, stream: Stream[T]) -> Iterator[T]:
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
                    got = connection.do(step)
        finally:
            connection.close()

    def submit(
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
        """Submits a job, which runs once and at once where it has neither `cron` (Quartz) nor `after` (ids of jobs), and gives its id.

        `user` is the person who submits it, `group` the worker group's name or number, `priority` 1 (lowest) to 10.
        """
        return self._run(
            calls.submit(self._core, name, command, user, group, type, cron, after, priority, parameters, idempotency_key)
        )

    def run(
        self,
        job: JobRef,
        *,
        logical_time: Time | None = None,
        parameters: Parameters | None = None,
        concurrent: bool = False,
        idempotency_key: str | None = None,
    ) -> Run:
        """Makes one batch of a job by hand: for the current period, or for `logical_time`. `parameters` go over those of the definition;
        `concurrent` runs it even when batches of other logical times are unfinished."""
        return self._run(calls.run(self._core, job, logical_time, parameters, concurrent, idempotency_key))

    def job(self, job: JobRef) -> Job:
        """A job, as it is now."""
        return self._run(calls.job(self._core, job))

    def jobs(
        self,
        *,
        group: str | None = None,
        name: str | None = None,
        type: str | None = None,
        enabled: bool | None = None,
        submitted: bool | None = None,
        page_size: int = 200,
    ) -> Iterator[Job]:
        """Jobs, by group and name. Parts of the list are read as they are needed."""
        query: Query = {"group": group, "name": name, "type": type, "enabled": enabled, "submitted": submitted}
        return self._stream(calls.jobs(self._core, query, page_size))

    def apply(
        self,
        jobs: Iterable[Json],
        *,
        dry_run: bool = False,
        prune: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Applied:
        """Adds and changes jobs, all or none; docs/reference/job-fields.md has the fields. `prune` names groups whose other jobs are deleted,
        `dry_run` only says what would change."""
        return self._run(calls.apply(self._core, jobs, dry_run, prune, idempotency_key))

    def batch(self, batch: BatchRef) -> Batch:
        """A batch, as it is now."""
        return self._run(calls.batch(self._core, batch))

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
    ) -> Iterator[Batch]:
        """Batches, the newest first: of logical times from `begin` on and before `end`. Parts of the list are read as they are needed."""
        query: Query = {
            "group": group,
            "state": state,
            "result": result,
            "blocked": blocked,
            "triggered_by": triggered_by,
            "mine": mine,
        }
        return self._stream(calls.batches(self._core, job, begin, end, query, page_size))

    def wait(self, batch: BatchRef, *, timeout_s: float) -> Batch:
        """Waits until a batch has finished, and gives it. `NotInTime` after `timeout_s` seconds."""
        return self._run(calls.wait(self._core, batch, timeout_s))

    def wait_for_job(self, job: JobRef, *, timeout_s: float) -> Batch:
        """The same of the newest batch of a job, such as one that was submitted."""
        return self._run(calls.wait_for_job(self._core, job, timeout_s))

    def why(self, batch: BatchRef) -> list[Condition]:
        """Every condition that keeps a batch from running."""
        return self._run(calls.why(self._core, batch))

    def kill(self, batch: BatchRef, *, reason: str | None = None, idempotency_key: str | None = None) -> Written:
        """Ends a batch with its whole process tree."""
        return self._run(calls.kill(self._core, batch, reason, idempotency_key))

    def rerun(self, batch: BatchRef, *, idempotency_key: str | None = None) -> Run:
        """Runs the logical time of a batch that has finished once more."""
        return self._run(calls.rerun(self._core, batch, idempotency_key))

    def mark(self, batch: BatchRef, result: str, *, reason: str, idempotency_key: str | None = None) -> Written:
        """Says how a batch ended: `success`, `failed` or `skipped`. What runs of it is ended first."""
        return self._run(calls.mark(self._core, batch, result, reason, idempotency_key))

    def log(
        self, batch: BatchRef, *, attempt: int | None = None, stream: str | None = None, from_end: bool = False
    ) -> Iterator[LogEvent]:
        """Follows the log of a batch over all its attempts until the batch has finished, and goes on where a connection broke. It begins
        with this attempt, else with the newest; `stream` is `stdout`, `stderr` or `worker`, else all, as they came."""
        return self._stream(streams.log(self._core, batch, attempt, stream, from_end))

    def download_log(
        self, batch: BatchRef, *, attempt: int | None = None, stream: str = "stdout", first_byte: int = 0
    ) -> Iterator[bytes]:
        """The bytes of the log of an attempt, of the newest one where none is named, as they come; goes on where a connection broke.
        Of a batch that has finished, it waits up to 10 s until the log is whole; of another one it gives what is there."""
        return self._stream(streams.download(self._core, batch, attempt, stream, first_byte))

    def save_log(self, batch: BatchRef, to: BinaryIO, *, attempt: int | None = None, stream: str = "stdout") -> int:
        """Writes them to a file, and gives how many there were."""
        return sum(to.write(piece) for piece in self.download_log(batch, attempt=attempt, stream=stream))

    def events(
        self,
        *,
        begin: Time = "end",
        cursor: str | None = None,
        type: str | None = None,
        subject: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Event]:
        """The public feed, each event once, without an end where there is no `limit`; goes on where a connection broke.

        It begins with the first event (`start`), the next one (`end`), the first one of a time or later, or behind the event of `cursor`. `type`
        and `subject` are beginnings, as `batch.finished` and `batch/4097`.
        """
        query: Query = {"type": type, "subject": subject, "limit": None}
        return self._stream(streams.events(self._core, begin, cursor, query, limit))

    def call(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None, idempotency_key: str | None = None
    ) -> Any:
        """Any call of schemas/openapi.json that answers with JSON, and its answer. A write is sent under an idempotency key."""
        return self._run(calls.call(self._core, method, path, query, body, idempotency_key))

    def pull(self, user: str, *, wait_s: int = 0) -> Pulled:
        """Asks for the next task of a user, and lets the server wait up to `wait_s` seconds, 0 to 30, for one. A user that has one gets
        that again."""
        return self._run(calls.pull(self._core, user, wait_s))

    def complete(self, user: str, grant: int, result: str) -> str:
        """Says what came of a grant, 1 to 4,096 bytes; gives the position of the record. `Refused` with code `grant_over` where its lease
        is over: throw the result away."""
        return self._run(calls.complete(self._core, user, grant, result))

    def give_back(self, user: str, grant: int, reason: str = "") -> bool:
        """Gives a grant back, so that it can be given again; false where it was over already."""
        return self._run(calls.give_back(self._core, user, grant, reason))

    def work(
        self,
        users: str | Sequence[str],
        function: Callable[[Task], str | None],
        *,
        wait_s: int = 5,
        grace_s: float = 30.0,
        until_empty: bool = False,
        stop: threading.Event | None = None,
    ) -> Counts:
        """Pulls the tasks of these users and does them, one thread for each user: so many tasks are done at once.

        What `function` gives is the result, 1 to 4,096 bytes of text, or `done` for None. Where it raises, the task is given back, and the user
        pauses, 1 s and then longer and longer, up to 30 s. SIGTERM or SIGINT (where this is the main thread) or `stop` end it: no new task is
        begun, tasks have `grace_s` seconds (a second signal: none) to end, and what has not ended is given back. `until_empty` ends when
        nothing is due. A call that is refused, such as one with a wrong key, ends it too, and is raised.
        """
        return work(self._core, self._http, worker.users_of(users), function, wait_s, grace_s, until_empty, stop or threading.Event())
