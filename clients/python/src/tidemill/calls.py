"""The calls of the server, as flows: what each sends, and what its answer means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Union
from urllib.parse import quote

from . import request
from .errors import BadAnswer, BadValue, NotInTime, Refused, TidemillError
from .flow import Core, Flow, Item, Now, Pause, Stream, T, exchange
from .models import Applied, Batch, Condition, Job, Json, Pulled, Run, Written, read, rfc3339
from .request import Query, Request

JobRef = Union[int, str, Job]
"""A job: its id, `group/name`, or as it was read."""
BatchRef = Union[int, Run, Batch]
"""A batch: its id, what made it, or as it was read."""
Time = Union[datetime, str]
"""A time with a zone, or its text as RFC 3339 has it."""
Parameters = Mapping[str, str]

MAX_WAIT_S = 31_622_400.0
RESULT_BYTES = 4096
REASON_BYTES = 500
# Between two looks at a batch: begins short, for short jobs.
FIRST_LOOK_S, LONGEST_LOOK_S = 0.05, 2.0
# Until lists show what was written a moment ago.
SHOWN_WITHIN_S = 5.0


def done(core: Core, asked: Request, form: Callable[[Any], T]) -> Flow[T]:
    """Makes a call and reads its answer."""
    answer = yield from exchange(core, asked)
    return read(form, answer.json())


def listed(core: Core, path: str, query: Query, form: Callable[[Any], T], page: int) -> Stream[T]:
    """The items of a list, part by part."""
    bounded("page_size", page, 1, 1000)
    cursor: str | None = None
    while True:
        body = yield from done(core, request.get(path, {**query, "limit": page, "cursor": cursor}), dict)
        for item in read(lambda body: list(body["items"]), body):
            yield Item(read(form, item))
        last, cursor = cursor, body.get("next")
        if cursor is None:
            return
        if cursor == last:
            raise BadAnswer(f"{path} goes on with the cursor that it was given, {cursor!r}: the list would have no end")


def bounded(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise BadValue(name, str(value), f"must be {least:g} to {most:g}")


def batch_of(batch: BatchRef) -> tuple[int, str | None]:
    """Its id, and the position of the write that made it, where that is new."""
    if isinstance(batch, Run):
        return batch.batch, batch.position
    found = batch.id if isinstance(batch, Batch) else batch
    if isinstance(found, bool) or not isinstance(found, int):
        raise BadValue("batch", str(found), "must be the id of a batch, or what `run` gave")
    return found, None


def of_batch(batch: BatchRef, call: str = "") -> str:
    return f"/api/batches/{batch_of(batch)[0]}{call}"


def job(core: Core, of: JobRef) -> Flow[Job]:
    if isinstance(of, str):
        group, slash, name = of.partition("/")
        if not (group and slash and name):
            raise BadValue("job", of, "must be a job as `group/name`, or its id as a number")
        path = f"/api/groups/{quote(group, safe='')}/jobs/{quote(name, safe='')}"
    else:
        path = f"/api/jobs/{job_number(of)}"
    return (yield from done(core, request.get(path), Job.of))


def job_number(of: int | Job) -> int:
    found = of.id if isinstance(of, Job) else of
    if isinstance(found, bool) or not isinstance(found, int):
        raise BadValue("job", str(found), "must be a job as `group/name`, or its id as a number")
    return found


def job_id(core: Core, of: JobRef) -> Flow[int]:
    """A name is looked up; an id is taken as it is."""
    if isinstance(of, str):
        return (yield from job(core, of)).id
    return job_number(of)


def group_id(core: Core, group: int | str) -> Flow[int]:
    """The number of a group."""
    if isinstance(group, int):
        return group
    body = yield from done(core, request.get("/api/groups"), dict)
    numbers = read(lambda body: {item["name"]: int(item["id"]) for item in body["items"]}, body)
    if group not in numbers:
        raise BadValue("group", group, "must be the name or number of a group that this key reaches")
    return numbers[group]


def submit(
    core: Core,
    name: str,
    command: str,
    user: str,
    group: int | str,
    type: str,
    cron: str | None,
    after: Sequence[int],
    priority: int | None,
    parameters: Mapping[str, str | int | float | bool] | None,
    idempotency_key: str | None,
) -> Flow[int]:
    body: dict[str, Any] = {
        "job_name": name,
        "command": command,
        "user": user,
        "group_id": (yield from group_id(core, group)),
        "job_type": type,
    }
    more = {"cron_expression": cron, "dependency_jobids": list(after) or None, "priority": priority, "parameters": parameters}
    body.update((field, value) for field, value in more.items() if value is not None)
    asked = request.write("/api/job/submit", body, key=idempotency_key, prefix=core.prefix)
    answer = yield from exchange(core, asked)
    told = read(dict, answer.json())
    if told.get("accept") is not True:
        # A refusal of this call is of status 200.
        problem = answer.problem()
        raise Refused(problem.detail, code=problem.code or "invalid", status=answer.status, fields=problem.fields)
    return read(int, told["job_id"])


def run(
    core: Core, of: JobRef, logical_time: Time | None, parameters: Parameters | None, concurrent: bool, idempotency_key: str | None
) -> Flow[Run]:
    body: dict[str, Any] = {"parameters": dict(parameters or {}), "concurrent": concurrent}
    if logical_time is not None:
        body["logical_time"] = rfc3339(logical_time)
    job = yield from job_id(core, of)
    asked = request.write(f"/api/jobs/{job}/run", body, key=idempotency_key, prefix=core.prefix)
    return (yield from done(core, asked, Run.of))


def jobs(core: Core, query: Query, page: int) -> Stream[Job]:
    return listed(core, "/api/jobs", query, Job.of, page)


def batches(core: Core, of: JobRef | None, begin: Time | None, end: Time | None, query: Query, page: int) -> Stream[Batch]:
    times = {"from": None if begin is None else rfc3339(begin), "to": None if end is None else rfc3339(end)}
    number = None if of is None else (yield from job_id(core, of))
    yield from listed(core, "/api/batches", {"job": number, **times, **query}, Batch.of, page)


def batch(core: Core, of: BatchRef, at_least: str | None = None) -> Flow[Batch]:
    number, position = batch_of(of)
    asked = request.get(f"/api/batches/{number}", {"at_least": at_least or position})
    return (yield from done(core, asked, Batch.of))


def why(core: Core, of: BatchRef) -> Flow[list[Condition]]:
    asked = request.get(of_batch(of, "/why"))
    return (yield from done(core, asked, lambda body: [Condition.of(condition) for condition in body["conditions"]]))


def looked_at(timeout_s: float, what: str, look: Callable[[], Flow[T | None]]) -> Flow[T]:
    """Looks until there is something to see, less and less often."""
    bounded("timeout_s", timeout_s, 0, MAX_WAIT_S)
    end = (yield Now()) + timeout_s
    pause = FIRST_LOOK_S
    while True:
        found = yield from look()
        if found is not None:
            return found
        left: float = end - (yield Now())
        if left <= 0:
            raise NotInTime(f"{what} within {timeout_s:g} s; it may still be, so wait longer or look why it does not run")
        yield Pause(min(pause, left))
        pause = min(2 * pause, LONGEST_LOOK_S)


def wait(core: Core, of: BatchRef, timeout_s: float) -> Flow[Batch]:
    def look() -> Flow[Batch | None]:
        found = yield from batch(core, of)
        return found if found.is_finished else None

    number, _ = batch_of(of)
    return (yield from looked_at(timeout_s, f"batch {number} has not finished", look))


def wait_for_job(core: Core, of: JobRef, timeout_s: float) -> Flow[Batch]:
    """Until the newest batch of a job has finished. A job that was submitted a moment ago may not be in the lists yet."""
    begun = yield Now()

    def look() -> Flow[Batch | None]:
        try:
            found = yield from job(core, of)
        except Refused as error:
            is_new = error.status == 404 and (yield Now()) - begun < SHOWN_WITHIN_S
            if not is_new:
                raise
            return None
        newest = found.raw.get("newest_batch")
        done = None if newest is None else read(Batch.of, newest)
        return done if done is not None and done.is_finished else None

    name = of.name if isinstance(of, Job) else of
    return (yield from looked_at(timeout_s, f"the newest batch of job {name} has not finished", look))


def kill(core: Core, of: BatchRef, reason: str | None, idempotency_key: str | None) -> Flow[Written]:
    asked = request.write(of_batch(of, "/kill"), {"reason": reason}, key=idempotency_key, prefix=core.prefix)
    return (yield from done(core, asked, Written.of))


def rerun(core: Core, of: BatchRef, idempotency_key: str | None) -> Flow[Run]:
    asked = request.write(of_batch(of, "/rerun"), key=idempotency_key, prefix=core.prefix)
    return (yield from done(core, asked, Run.of))


def mark(core: Core, of: BatchRef, result: str, reason: str, idempotency_key: str | None) -> Flow[Written]:
    body = {"result": result, "reason": reason}
    asked = request.write(of_batch(of, "/mark"), body, key=idempotency_key, prefix=core.prefix)
    return (yield from done(core, asked, Written.of))


def apply(core: Core, jobs: Iterable[Json], dry_run: bool, prune: Sequence[str], idempotency_key: str | None) -> Flow[Applied]:
    body = {"jobs": list(jobs), "prune": list(prune)}
    query = {"dry_run": True if dry_run else None}
    asked = request.write("/api/jobs/apply", body, key=idempotency_key, prefix=core.prefix, query=query)
    applied = yield from done(core, asked, Applied.of)
    if applied.position is not None:
        try:
            yield from exchange(core, request.get("/api/jobs", {"limit": 1, "at_least": applied.position}))
        except TidemillError:
            # It is done, whether lists show it or not.
            pass
    return applied


def call(core: Core, method: str, path: str, query: Query | None, body: Any, idempotency_key: str | None) -> Flow[Any]:
    """Any call: a read, or a write under a key."""
    method = method.upper()
    if method not in ("GET", "POST", "PUT", "DELETE"):
        raise BadValue("method", method, "must be GET, POST, PUT or DELETE")
    if not path.startswith("/") or any(c in path for c in "?# \r\n"):
        raise BadValue("path", path, "must be the path of a call as /api/jobs; what goes with it is query=")
    if method == "GET":
        if body is not None:
            raise BadValue("body", "", "must be absent with GET")
        asked = request.get(path, query)
    else:
        asked = request.write(path, body, method=method, key=idempotency_key, prefix=core.prefix, query=query)
    return (yield from exchange(core, asked)).json()


def pull(core: Core, user: str, wait_s: int) -> Flow[Pulled]:
    bounded("wait_s", wait_s, 0, 30)
    return (yield from done(core, request.natural("/api/pull", {"user": user, "wait_s": wait_s}), Pulled.of))


def complete(core: Core, user: str, grant: int, result: str) -> Flow[str]:
    """The position of its record."""
    length = len(result.encode())
    if not 1 <= length <= RESULT_BYTES:
        raise BadValue("result", f"{length} bytes", f"must be text of 1 to {RESULT_BYTES} bytes")
    body = {"user": user, "grant": grant, "result": result}
    return (yield from done(core, request.natural("/api/pull/complete", body), lambda body: str(body["position"])))


def give_back(core: Core, user: str, grant: int, reason: str) -> Flow[bool]:
    """Whether it was given back by this call; else it was over already: by its lease, or because this was said before."""
    short = reason.encode()[:REASON_BYTES].decode(errors="ignore")
    asked = request.natural("/api/pull/return", {"user": user, "grant": grant, "reason": short})
    try:
        yield from exchange(core, asked)
    except Refused as refused:
        if refused.code not in ("grant_over", "not_returned"):
            raise
        return False
    return True
