"""What client_test.py runs with the wheel: each case for `Client` and for `AsyncClient`, against one server."""

import asyncio
import datetime
import inspect
import io
import logging
import os
import pathlib
import sys
import threading
import time
import traceback

import client_programs
import tidemill
from client_proxy import Proxy, answer

from running import fail, until

UTC = datetime.timezone.utc
SERVER, KEY = os.environ["TIDEMILL_SERVER"], os.environ["TIDEMILL_KEY"]
FAST = tidemill.Retry(first_pause_s=0.01, longest_pause_s=0.05)
CALLED = {"Client": set(), "AsyncClient": set()}


class Side:
    """A client of one kind, whose calls block: what a case says once is tried with both."""

    def __init__(self, kind, server=SERVER, key=KEY, retry=FAST, **options):
        self.kind = kind
        self.client = getattr(tidemill, kind)(server, key, retry=retry, **options)
        self.loop = asyncio.new_event_loop() if kind == "AsyncClient" else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wait_for(self.client.close())
        if self.loop:
            # As `asyncio.run` ends: generators inside httpx that were left are closed.
            self.wait_for(asyncio.sleep(0))
            self.wait_for(self.loop.shutdown_asyncgens())
            self.loop.close()

    def wait_for(self, result):
        return self.loop.run_until_complete(result) if inspect.isawaitable(result) else result

    def items(self, stream):
        try:
            while True:
                try:
                    item = self.loop.run_until_complete(stream.__anext__())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.loop.run_until_complete(stream.aclose())

    def __getattr__(self, name):
        method = getattr(self.client, name)
        CALLED[self.kind].add(name)

        def call(*arguments, **named):
            result = method(*arguments, **named)
            return self.items(result) if hasattr(result, "__aiter__") else self.wait_for(result)

        return call

    def work(self, users, function, **named):
        """In threads of either kind, for the functions of cases block."""
        CALLED[self.kind].add("work")

        async def awaited(task):
            return await asyncio.to_thread(function, task)

        return self.wait_for(self.client.work(users, awaited if self.loop else function, **named))


def equal(what, expected, found):
    if expected != found:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def refused(kind, call, code=None):
    """The error of this kind that a call ends with."""
    try:
        result = call()
        if inspect.isgenerator(result):
            result = next(result)
    except kind as error:
        if type(error) is not kind:
            raise AssertionError(f"{type(error).__name__} instead of {kind.__name__}: {error}") from error
        if code is not None:
            equal("the code", code, error.code)
        return error
    raise AssertionError(f"not refused: {result!r}")


def shell(side, name, command, **fields):
    """The id of a job of this kind of client's own."""
    name = f"{side.kind.lower()}-{name}"
    side.apply([{"name": name, "group": "default", "type": "shell", "command": command, **fields}])
    return f"default/{name}"


def pull_task(side, executor, **fields):
    start = (datetime.datetime.now(UTC) - datetime.timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"executor": executor, "when": {"once": {"start": start}}, **fields}
    return until_done(lambda: side.call("POST", "/api/pull/tasks", body=body), tidemill.Refused)["task"]


def own_group(side, name, users):
    """A group for one case, whose tasks nobody else gets, with users of its own; their names."""
    group = f"{side.kind.lower()}-{name}"
    # No worker of it will ever register.
    key = side.call("GET", "/api/groups")["items"][0]["worker_key"]
    side.call("POST", "/api/groups", body={"name": group, "worker_key": key})
    names = [f"{group}-{number}" for number in range(users)]
    until_done(lambda: side.call("POST", "/api/pull/users", body={"group": group, "users": names}))
    return group, names


def until_done(call, refused_with=tidemill.TidemillError):
    """What a call answers once it is not refused any more: a new group is known to the catalogue first, and its users to interfaces later."""
    answers = []

    def look():
        try:
            answers.append(call())
            return True
        except refused_with:
            return False

    until("the group has users", look)
    return answers[0]


# API-8: every call, and the types of what it gives.
def job_is_submitted_run_and_read(kind):
    with Side(kind) as side:
        submitted = side.submit(f"{kind}-once", "echo $TIDEMILL_PARAM_N", user="ann", group="default", parameters={"n": 7}, priority=3)
        first = side.wait_for_job(submitted, timeout_s=30)
        equal("result", ("success", 0, f"{kind}-once"), (first.result, first.run, first.job_name))
        again = side.wait(side.rerun(first), timeout_s=30)
        equal("the next run", (1, first.logical_time), (again.run, again.logical_time))
        equal("the job", (submitted, "shell"), (side.job(submitted).id, side.job(submitted).type))
        name = shell(side, "echo", 'echo "$TIDEMILL_PARAM_WORD ${yyyy-MM-dd}"; echo bad >&2', parameters={"word": "no"})
        day = datetime.datetime(2026, 3, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        run = side.run(name, logical_time=day, parameters={"word": "hello"})
        batch = side.wait(run, timeout_s=30)
        equal("the logical time", (day, "finished"), (batch.logical_time, batch.state))
        told = [(event.kind, event.stream, event.content) for event in side.log(run) if event.kind == "chunk"]
        equal("the log", {("chunk", "stdout", "hello 2026-03-01\n"), ("chunk", "stderr", "bad\n")}, set(told))
        equal("one stream", ["bad\n"], [event.content for event in side.log(run, stream="stderr") if event.content])
        equal("bytes", b"hello 2026-03-01\n", b"".join(side.download_log(batch)))
        file = io.BytesIO()
        equal("saved", 4, side.save_log(batch, file, stream="stderr", attempt=1))
        equal("the file", b"bad\n", file.getvalue())
        equal("other calls", batch.id, side.call("GET", f"/api/batches/{batch.id}")["id"])
        equal("dry run", ["unchanged"], [it.change for it in side.apply([side.call("GET", f"/api/jobs/{batch.job}/definition")], dry_run=True).changes])


def lists_are_read_in_parts(kind):
    with Side(kind) as side:
        name = shell(side, "listed", "exit 0")
        runs = [side.run(name, logical_time=f"2026-04-0{day}T00:00:00Z", concurrent=True) for day in range(1, 6)]
        for run in runs:
            side.wait(run, timeout_s=30)
        listed = [batch.id for batch in side.batches(job=name, page_size=2)]
        equal("all, the newest first", [run.batch for run in reversed(runs)], listed)
        some = side.batches(job=name, begin="2026-04-02T00:00:00Z", end=datetime.datetime(2026, 4, 4, tzinfo=UTC), result="success")
        equal("of two days", [runs[2].batch, runs[1].batch], [batch.id for batch in some])
        names = [job.name for job in side.jobs(page_size=1)]
        equal("jobs", (sorted(names), True), (names, name.removeprefix("default/") in names))
        equal("one job", [side.job(name)], list(side.jobs(name=name.removeprefix("default/"), group="default", enabled=True)))


def batch_is_killed_marked_and_explained(kind):
    with Side(kind) as side:
        parent = shell(side, "slow", "sleep 60")
        child = shell(side, "child", "exit 0", parents=[parent.removeprefix("default/")])
        run = side.run(parent, logical_time="2026-05-01T00:00:00Z")
        until("it runs", lambda: side.batch(run).state == "running")
        refused(tidemill.NotInTime, lambda: side.wait(run, timeout_s=0.2), "not_in_time")
        waiting = until("the child is there", lambda: list(side.batches(job=child)))[0]
        (condition,) = side.why(waiting)
        equal("the condition", ("dependency", True), (condition.kind, str(run.batch) in condition.message))
        side.kill(run, reason="for a test")
        equal("killed", "killed", side.wait(run, timeout_s=30).result)
        side.mark(run, "success", reason="done by hand")
        equal("the child goes on", "success", side.wait(waiting, timeout_s=30).result)
        refused(tidemill.Refused, lambda: side.kill(waiting), "batch_already_finished")


# API-8: a lost answer is no second submission, and the caller gets the first one's answer.
def lost_answer_is_no_second_submission(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url) as side:
        proxy.breaks("POST /api/job/submit", times=3)
        job = side.submit(f"{kind}-lost", "exit 0", user="ann", group="default")
        sent = proxy.requests("POST /api/job/submit")
        equal("tries under one key", (4, 1), (len(sent), len({it["idempotency-key"] for it in sent})))
        equal("the key is drawn", True, sent[0]["idempotency-key"].startswith("python-"))
        side.wait_for_job(job, timeout_s=30)
        equal("batches", 1, len(list(side.batches(job=job))))
        equal("jobs", [job], [it.id for it in side.jobs(name=f"{kind}-lost")])


def unknown_outcome_is_told_from_a_refusal(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url, retry=tidemill.Retry(tries=2, first_pause_s=0.01)) as side:
        name = shell(side, "unknown", "exit 0")
        call = lambda **more: side.run(name, logical_time="2026-06-01T00:00:00Z", **more)
        proxy.breaks("/run ", times=2)
        lost = refused(tidemill.UnknownOutcome, call, "outcome_unknown")
        equal("the sentence has the key", True, lost.idempotency_key in str(lost))
        repeated = call(idempotency_key=lost.idempotency_key)
        equal("it was done once", [repeated.batch], [it.id for it in side.batches(job=name)])
        side.wait(repeated, timeout_s=30)
        # The server did it, and then somebody else says no: that is no news of the first try.
        for status in ("401 No", "404 Not Found", "429 Full", "503 Away"):
            proxy.breaks("/rerun ")
            proxy.breaks("/rerun ", forwards=False, times=1, answer=answer(status, b'{"code":"x"}'))
            doubtful = refused(tidemill.UnknownOutcome, lambda: side.rerun(repeated))
            run = side.rerun(repeated, idempotency_key=doubtful.idempotency_key)
            side.wait(run, timeout_s=30)
        equal("one run for each key", 5, len(list(side.batches(job=name))))
        # A gateway in between may have passed it on, and a server that says that it is away has not done it.
        proxy.breaks("/run ", forwards=False, times=2, answer=answer("502 Bad Gateway"))
        refused(tidemill.UnknownOutcome, call)
        body = b'{"code":"log_unavailable","detail":"the log is away"}'
        proxy.breaks("/run ", forwards=False, times=2, answer=answer("503 Away", body))
        refused(tidemill.Unavailable, call, "log_unavailable")
        again = refused(tidemill.Refused, lambda: side.run(name, logical_time="2026-06-02T00:00:00Z", idempotency_key=lost.idempotency_key))
        equal("another request under the key", (409, "idempotency_key_reused"), (again.status, again.code))


def retry_after_is_kept_to_and_bounded(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url) as side:
        proxy.breaks("GET /api/jobs", forwards=False, answer=answer("429 Full", Retry_After=1))
        begun = time.monotonic()
        list(side.jobs())
        equal("it waited", True, time.monotonic() - begun >= 1)
        proxy.breaks("GET /api/jobs", forwards=False, answer=answer("503 Away", b'{"code":"overloaded","retry_after_s":900}'))
        begun = time.monotonic()
        away = refused(tidemill.Unavailable, lambda: list(side.jobs()), "overloaded")
        equal("it gave up at once", (900, True), (away.retry_after_s, time.monotonic() - begun < 1))
        asked = len(proxy.requests("GET /api/jobs"))
        proxy.breaks("GET /api/jobs", forwards=False, times=100)
        refused(tidemill.Unavailable, lambda: list(side.jobs()), "unreachable")
        equal("tries are bounded", FAST.tries, len(proxy.requests("GET /api/jobs")) - asked)


def feed_goes_on_where_it_broke(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url) as side, Side(kind) as straight:
        # Events of one object have an order; those of a server, which others use meanwhile, may come in another one each time.
        job = side.job(shell(side, "fed", "exit 0")).id
        for change in ("disable", "enable") * 6:
            side.call("POST", f"/api/jobs/{job}/{change}")
        of = {"subject": f"job/{job}"}
        ids = lambda events: [event.raw["id"] for event in events]
        whole = ids(straight.events(begin="start", limit=12, **of))
        equal("different events", 12, len(set(whole)))
        for cut in (3, 1, 4):
            proxy.breaks("GET /api/events", events=cut)
        broken = list(side.events(begin="start", limit=12, **of))
        equal("each event once, in order", whole, ids(broken))
        sent = proxy.requests("GET /api/events")
        equal("connections", 4, len(sent))
        equal("it goes on behind the last one", [True] * 3, [f"cursor={broken[last].cursor} " in it["line"] for last, it in zip((1, 1, 4), sent[1:])])
        equal("from a cursor", whole[5:8], ids(side.events(cursor=broken[4].cursor, limit=3, **of)))
        side.wait(side.run(f"default/{kind.lower()}-fed", logical_time="2026-07-01T00:00:00Z"), timeout_s=30)
        event = next(iter(side.events(begin="start", type="batch.finished", limit=1)))
        equal("an event", ("batch.finished", True, UTC), (event.type, "result" in event.data, event.time.tzinfo))


def feed_from_the_end_loses_nothing_where_it_breaks_first(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url) as side, Side(kind) as other:
        name = shell(other, "ended", "exit 0")
        proxy.breaks("GET /api/events", length=1)
        proxy.breaks("GET /api/events", forwards=False, times=3)
        # The first connection is cut with its first bytes; then nobody is there for a moment, in which it happens.
        seen = []
        subject = f"job/{other.job(name).id}"
        reader = threading.Thread(target=lambda: seen.extend(side.events(type="job.disabled", subject=subject, limit=1)), daemon=True)
        reader.start()
        until("it is cut off", lambda: len(proxy.requests("GET /api/events")) >= 1)
        other.call("POST", f"/api/jobs/{other.job(name).id}/disable")
        reader.join(30)
        equal("the event", [subject], [event.subject for event in seen])


def log_goes_on_where_it_broke(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url) as side:
        name = shell(side, "talks", "for n in 1 2 3 4 5 6; do echo line $n; sleep 0.15; done")
        run = side.run(name, logical_time="2026-08-01T00:00:00Z")
        proxy.breaks("/log/tail", events=3)
        proxy.breaks("/log/tail", forwards=False, times=2, answer=answer("503 Away"))
        events = list(side.log(run))
        text = "".join(event.content for event in events)
        equal("each line once", "".join(f"line {n}\n" for n in range(1, 7)), text)
        equal("the ends", ("attempt", 1, "end", "success"), (events[0].kind, events[0].attempt, events[-1].kind, events[-1].result))
        sent = proxy.requests("/log/tail")
        equal("it goes on behind an id", (4, True), (len(sent), all("last-event-id" in it for it in sent[1:])))
        proxy.breaks("/log/download", length=10)
        proxy.breaks("/log/download", length=5)
        equal("bytes", text.encode(), b"".join(side.download_log(run)))
        equal("ranges", [None, "bytes=10-", "bytes=15-"], [it.get("range") for it in proxy.requests("/log/download")])


def pulls_are_repeated_without_a_key(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url) as side:
        group, (user,) = own_group(side, "by-hand", 1)
        task = pull_task(side, {"group": group}, parameters={"text": "a b"}, dispatch_times=2)
        proxy.breaks("POST /api/pull ")
        grant = side.pull(user, wait_s=5).grant
        equal("the grant", (task, "a b", None), (grant.task, grant.parameters["text"], grant.expires_at))
        for path in ("return", "complete"):
            proxy.breaks(f"POST /api/pull/{path}")
        equal("given back, and its repeat is as good", False, side.give_back(user, grant.grant, "not mine"))
        second = side.pull(user, wait_s=5).grant
        side.complete(user, second.grant, "2 words")
        refused(tidemill.Refused, lambda: side.complete(user, second.grant, "3 words"), "already_completed")
        refused(tidemill.Refused, lambda: side.complete(user, grant.grant, "2 words"), "grant_over")
        equal("nothing is due", None, side.pull(user).grant)
        equal("no key", [None] * 10, [it.get("idempotency-key") for it in proxy.requests("POST /api/pull")][-10:])


def worker_does_as_many_at_once_as_it_has_users(kind):
    with Side(kind) as side:
        group, users = own_group(side, "crew", 3)
        task = pull_task(side, {"group": group}, parameters={"n": 1}, dispatch_times=9, repeat=True)
        together = threading.Barrier(3, timeout=20)
        stop = asyncio.Event() if side.loop else threading.Event()

        def function(_):
            """Ends once all three users have a task: one after the other, none would."""
            try:
                together.wait()
            except threading.BrokenBarrierError:
                (side.loop.call_soon_threadsafe if side.loop else lambda call: call())(stop.set)
                raise

        counts = side.work(users, function, until_empty=True, wait_s=0, stop=stop)
        equal("counts", (9, 0, 0, 0), (counts.completed, counts.failed, counts.late, counts.returned))
        ledger = side.call("GET", f"/api/pull/tasks/{task}/ledger", query={"live": True})["totals"]
        equal("the ledger", (9, 9, 0), (ledger["taken"], ledger["completed"], ledger["live"]))


def failed_task_is_given_back_and_comes_again(kind):
    with Side(kind) as side:
        group, users = own_group(side, "fails", 1)
        pull_task(side, {"user": users[0]}, name="to fail")
        tries = []

        def function(task):
            tries.append(task.name)
            if len(tries) == 1:
                raise ValueError("no such file")
            return 7 if len(tries) == 2 else "at last"

        counts = side.work(users[0], function, until_empty=True, wait_s=0)
        equal("counts", (1, 2), (counts.completed, counts.failed))
        told = lambda: [grant["result"] or grant["reason"] for grant in side.call("GET", "/api/pull/grants", query={"user": users[0]})["items"]]
        expected = ["at last", "TypeError: the result is int; it must be text, or None for `done`", "ValueError: no such file"]
        # Lists show a write a moment later.
        until("all three are on record", lambda: told() == expected)


def lease_is_watched_and_a_late_result_is_thrown_away(kind):
    with Side(kind) as side:
        _, (user,) = own_group(side, "lease", 1)
        pull_task(side, {"user": user}, lease_s=5)
        task_left = []
        expires = []

        def function(task):
            if task.grant.redo or expires:
                return "in time"
            expires.append(task.grant.expires_at)
            with Side(kind) as other:
                # Asked again, it is the same lease.
                expires.append(other.pull(user).grant.expires_at)
                while task.left_s():
                    task_left.append(task.left_s())
                    time.sleep(0.05)
                state = lambda: other.call("GET", "/api/pull/grants", query={"user": user})["items"][0]["state"]
                until("the lease is over", lambda: state() == "expired")
            return "too late"

        counts = side.work([user], function, until_empty=True, wait_s=0)
        equal("counts", (1, 1), (counts.late, counts.completed))
        equal("one lease", expires[0], expires[1])
        equal("left", True, 4 < task_left[0] <= 5 and task_left == sorted(task_left, reverse=True))


def worker_stops_at_an_event_and_gives_back(kind):
    with Side(kind) as side:
        _, users = own_group(side, "stops", 2)
        task = pull_task(side, {"user": users[0]})
        stop = asyncio.Event() if side.loop else threading.Event()

        def function(task):
            (side.loop.call_soon_threadsafe if side.loop else lambda call: call())(stop.set)
            until("it hears of it", lambda: task.is_stopping)
            raise tidemill.Stopped

        counts = side.work(users, function, wait_s=1, stop=stop)
        equal("counts", (1, 0, 0), (counts.returned, counts.failed, counts.completed))
        equal("in stock", 1, side.call("GET", f"/api/pull/tasks/{task}/ledger", query={"live": True})["totals"]["returned"])


def worker_survives_lost_answers_and_ends_when_it_is_refused(kind):
    with Proxy(SERVER) as proxy, Side(kind, proxy.url, retry=tidemill.Retry(tries=1)) as side:
        _, users = own_group(side, "lossy", 1)
        pull_task(side, {"user": users[0]})
        proxy.breaks("POST /api/pull ")
        proxy.breaks("POST /api/pull/complete")
        counts = side.work(users, lambda task: "done", until_empty=True, wait_s=0)
        equal("counts", 1, counts.completed)
        refused(tidemill.Refused, lambda: side.work([*users, "nobody"], lambda task: None, wait_s=0), "user_unknown")
        refused(tidemill.BadValue, lambda: side.work([], lambda task: None))


def late_body_is_sent_again(kind):
    """API-8: a request whose body was lost on the way is answered 408, and nothing of it was done."""
    late = {"forwards": False, "answer": answer("408 Late", b'{"code":"body_timeout","detail":"the body has not come in time"}')}
    with Proxy(SERVER) as proxy, Side(kind, proxy.url, retry=tidemill.Retry(tries=2, first_pause_s=0.01)) as side:
        name = shell(side, "late", "exit 0")
        call = lambda: side.run(name, logical_time="2026-09-01T00:00:00Z")
        proxy.breaks("/run ", **late)
        run = call()
        equal("one key", 1, len({it["idempotency-key"] for it in proxy.requests("/run ")}))
        side.wait(run, timeout_s=30)
        equal("it was done once", [run.batch], [it.id for it in side.batches(job=name)])
        proxy.breaks("/run ", times=2, **late)
        equal("nothing was changed", 408, refused(tidemill.Unavailable, call, "body_timeout").status)
        _, users = own_group(side, "late", 1)
        pull_task(side, {"user": users[0]})
        for path in ("pull ", "pull/complete"):
            proxy.breaks(f"POST /api/{path}", times=3, **late)
        equal("the worker goes on", 1, side.work(users, lambda task: "done", until_empty=True, wait_s=0).completed)


def result_is_told_before_a_worker_stops(kind):
    """API-8: what is done while the server is away is completed as soon as the server is there, and is not given back for a long pause."""
    with Proxy(SERVER) as proxy, Side(kind, proxy.url, retry=tidemill.Retry(tries=1)) as side:
        _, users = own_group(side, "told", 1)
        task = pull_task(side, {"user": users[0]})
        proxy.breaks("POST /api/pull/complete", times=3, forwards=False)
        stop = asyncio.Event() if side.loop else threading.Event()

        def stopper():
            # Behind pauses of 1 and 2 s it is in one of 4 s.
            until("it has been lost three times", lambda: len(proxy.requests("POST /api/pull/complete")) == 3)
            (side.loop.call_soon_threadsafe if side.loop else lambda call: call())(stop.set)

        threading.Thread(target=stopper, daemon=True).start()
        begun = time.monotonic()
        counts = side.work(users, lambda task: "done", wait_s=0, grace_s=2.5, stop=stop)
        equal("counts", (1, 0), (counts.completed, counts.returned))
        equal("it did not sit the pause out", True, time.monotonic() - begun < 6.5)
        totals = side.call("GET", f"/api/pull/tasks/{task}/ledger", query={"live": True})["totals"]
        equal("the ledger", (1, 0), (totals["completed"], totals["returned"]))


def errors_say_what_to_do(kind):
    with Side(kind) as side:
        unknown = refused(tidemill.Refused, lambda: side.job("default/none"), "unknown")
        equal("fields", ("job", "default/none", 404), (unknown.fields[0].field, unknown.fields[0].value, unknown.status))
        bad = refused(tidemill.Refused, lambda: side.submit("x", "exit 0", user="ann", group=99), "invalid")
        equal("the S4 call", "group_id", bad.fields[0].field)
        refused(tidemill.BadValue, lambda: side.submit("x", "exit 0", user="ann", group="none"))
        refused(tidemill.BadValue, lambda: side.job("none"))
        refused(tidemill.BadValue, lambda: side.run("default/none", logical_time=datetime.datetime(2026, 1, 1)))
        refused(tidemill.BadValue, lambda: side.kill(1, idempotency_key="é"))
        refused(tidemill.BadValue, lambda: side.call("GET", "api/jobs"))
        refused(tidemill.BadValue, lambda: side.complete("ann", 1, ""))
        refused(tidemill.Refused, lambda: side.events(type="bogus"), "invalid")
        refused(tidemill.Refused, lambda: side.log(10**15))
    make = lambda server=SERVER, key=KEY, **more: (lambda: Side(kind, server, key, **more).job(1))
    for key, words in (("admin:wrong", "does not know the key admin:… of key="), ("", None)):
        error = refused(tidemill.Refused if words else tidemill.BadValue, make(key=key))
        equal("the message", True, (words or "APP:SECRET") in str(error) and "wrong" not in str(error).split("…")[0])
    away = refused(tidemill.Unavailable, make("http://127.0.0.1:1"), "unreachable")
    equal("where", True, "http://127.0.0.1:1 (server=)" in str(away))
    refused(tidemill.Unavailable, make(SERVER.replace("http:", "https:")), "unreachable")
    for server in ("ftp://h", "http://", "http://h:x", "http://a b", "http://u:p@h"):
        refused(tidemill.BadValue, make(server))
    refused(tidemill.BadValue, make("https://h", ca_file="/none"))
    refused(tidemill.BadValue, make(timeout_s=0))
    refused(tidemill.BadValue, lambda: tidemill.Retry(tries=0))
    with Proxy(SERVER) as proxy:
        proxy.breaks("GET /api/jobs", forwards=False, times=1, answer=answer("404 Not Found", b"<html>nginx</html>"))
        refused(tidemill.BadAnswer, make(proxy.url), "bad_answer")
        proxy.breaks("GET /api/jobs", forwards=False, times=1, answer=answer("200 OK", b"<html>welcome</html>"))
        refused(tidemill.BadAnswer, make(proxy.url), "bad_answer")


def key_calls_in_the_name_of_a_person(kind):
    """API-5, API-8: the record names the person, whatever letters the name has; what can be nobody's name is not sent."""
    with Side(kind, as_user="安娜") as side:
        run = side.run(shell(side, "in-the-name", "true"))
        side.wait(run, timeout_s=60)
        shown = side.call("GET", f"/api/batches/{run.batch}")
        equal("who asked for it", True, "安娜" in str(shown["triggered_by"]))
    for name in ("", " ann", "a\nb", 201 * "x"):
        equal("the field", "as_user", refused(tidemill.BadValue, lambda: Side(kind, as_user=name)).fields[0].field)


CASES = [value for value in list(globals().values()) if inspect.isfunction(value) and list(inspect.signature(value).parameters) == ["kind"]]


def both_clients_have_the_same_methods():
    public = lambda kind: {name for name in vars(getattr(tidemill, kind)) if not name.startswith("_")}
    equal("names", public("Client"), public("AsyncClient"))
    for name in sorted(public("Client") - {"server"}):
        one, other = (inspect.signature(getattr(getattr(tidemill, kind), name)) for kind in CALLED)
        equal(f"parameters of {name}", list(one.parameters), list(other.parameters))
        defaults = [[it.default for it in signature.parameters.values()] for signature in (one, other)]
        equal(f"defaults of {name}", *defaults)
    for kind, called in CALLED.items():
        equal(f"methods of {kind} that no case calls", set(), public(kind) - called - {"close", "server"})


def settings_come_from_arguments_then_the_environment():
    with tidemill.Client() as client:
        equal("the variables", SERVER, client.server)
        equal("the key is in no text", False, KEY.split(":")[1] in repr(client) + repr(vars(client)) + repr(client._core))
        client.job(next(client.jobs()).id)
    equal("a bare address", "http://h:1", tidemill.Client("h:1/", KEY).server)


def parts_without_input_or_output_are_right():
    from tidemill.sse import Message, Parser

    text = "\ufeff: hello\r\n\r\nid: a1\nevent: batch.finished\ndata: {\ndata: }é\n\nretry: 5\n\ndata:x\r\rdata: half\n".encode()
    expected = [Message("a1", "batch.finished", "{\n}é"), Message(None, None, "x")]
    for size in (1, 2, 3, 7, len(text)):
        parser = Parser()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        equal(f"in pieces of {size}", expected, [message for piece in pieces for message in parser.feed(piece)])
    retry = tidemill.Retry(first_pause_s=1, longest_pause_s=4, longest_wait_s=10)
    for failed, most in ((1, 1), (2, 2), (3, 4), (50, 4)):
        drawn = [retry.pause_s(failed, None) for _ in range(200)]
        equal(f"pause {failed}", (True, True, True), (min(drawn) >= most / 2, max(drawn) <= most, len(set(drawn)) > 100))
    equal("asked for", (True, None), (7 <= retry.pause_s(1, 7) <= 8.4, retry.pause_s(1, 11)))


def one_kind(kind, failures):
    for case in CASES:
        begun = time.monotonic()
        try:
            case(kind)
            print(f"ok  {kind}: {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
        except (Exception, SystemExit):
            failures.append(f"{kind}: {case.__name__}: {traceback.format_exc(limit=-4)}")


def main():
    logging.getLogger("tidemill").setLevel(logging.CRITICAL)
    if not pathlib.Path(tidemill.__file__).is_relative_to(sys.prefix):
        fail(f"{tidemill.__file__} is not the wheel's")
    failures = []
    # All at once: most cases wait for the server.
    threads = [threading.Thread(target=one_kind, args=(kind, failures), daemon=True) for kind in CALLED]
    for thread in threads:
        thread.start()
    client_programs.run_all(sys.argv[1])
    for thread in threads:
        thread.join()
    if failures:
        fail("\n".join(failures))
    for case in (both_clients_have_the_same_methods, settings_come_from_arguments_then_the_environment, parts_without_input_or_output_are_right):
        case()
        print(f"ok  {case.__name__}", flush=True)


if __name__ == "__main__":
    main()
