"""What schemathesis is told of the fixture that contract_test.py has set up: loaded by schemathesis itself.

Where a generated value is a valid one, the name of something that exists often stands in its place, so that calls get further
than to *unknown*. Which one follows from the generated value, so the same seed makes the same requests.
"""

import atexit
import collections
import json
import os
import random
import re

import schemathesis
import times

FIXTURE = json.load(open(os.environ["CONTRACT_FIXTURE"], encoding="utf-8"))
POSITION = re.compile(r"\d{1,10}:\d{1,20}", re.ASCII)
# Beyond these bounds nothing is looked for.
MAX_DEPTH = 6

# By the beginning of the path and the parameter; the first that fits.
IN_PATHS = [
    ("/api/jobs/", "id", "jobs"),
    ("/api/groups/", "group", "groups"),
    ("/api/groups/", "job", "job_names"),
    ("/api/freezes/", "scope", "groups"),
    ("/api/batches/", "id", "batches"),
    ("/api/reruns/", "id", "reruns"),
    ("/api/bulk/", "id", "bulks"),
    ("/api/workers/", "id", "workers"),
    ("/api/keys/", "app", "keys"),
    ("/api/calendars/", "name", "calendars"),
    ("/api/pools/", "name", "pools"),
    ("/api/pull/templates/", "name", "templates"),
    ("/api/pull/users/", "user", "users"),
    ("/api/pull/tasks/", "id", "tasks"),
    ("/api/", "version", "versions"),
    ("/api/", "other", "versions"),
    ("/api/admin/", "partition", "partitions"),
]
IN_QUERIES = {
    "job": "jobs",
    "job_id": "jobs",
    "batch": "batches",
    "group": "groups",
    "worker": "workers",
    "user": "users",
    "task": "tasks",
}
IN_BODIES = {
    **IN_QUERIES,
    "grant": "grants",
    "group_id": "group_ids",
    "jobs": "job_lists",
    "users": "user_lists",
    "template": "templates",
    "worker_key": "worker_keys",
    "from": "times",
    "to": "times",
    "type": "job_types",
    "job_type": "job_types",
    "dependency_jobids": "jobs",
    "zone": "zones",
}


def instead(kind, given, say):
    """Mostly one of what exists, else what was generated."""
    drawn = random.Random(f"{kind} {given!r} {say}")
    return drawn.choice(FIXTURE[kind]) if FIXTURE.get(kind) and drawn.random() < 0.7 else given


def known_in(value, depth=0):
    """The same with names of what exists."""
    if isinstance(value, list) and depth < MAX_DEPTH:
        return [known_in(item, depth + 1) for item in value]
    if not isinstance(value, dict) or depth >= MAX_DEPTH:
        return value
    found = {name: known_in(item, depth + 1) for name, item in value.items()}
    for name, item in found.items():
        kind = IN_BODIES.get(name)
        fits = kind and FIXTURE.get(kind) and isinstance(item, type(FIXTURE[kind][0]))
        if fits and not (kind == "job_lists" and any(isinstance(it, dict) for it in item)):
            found[name] = instead(kind, item, depth)
    return found


@schemathesis.hook
def before_call(context, case, kwargs):
    # A position that no journal is at yet is waited for in vain, which is 504; what is to be seen is whether it is read.
    for name in ("at_least", "as_of"):
        given = case.query.get(name)
        if isinstance(given, str) and POSITION.fullmatch(given):
            case.query[name] = FIXTURE["position"]
    if not case.meta or not case.meta.generation.mode.is_positive:
        return
    for name, given in list(case.path_parameters.items()):
        kinds = (kind for begin, of, kind in IN_PATHS if case.path.startswith(begin) and of == name)
        kind = next(kinds, None)
        if kind:
            case.path_parameters[name] = instead(kind, given, case.path)
    for name, given in list(case.query.items()):
        if name in IN_QUERIES and isinstance(given, (str, int)):
            case.query[name] = instead(IN_QUERIES[name], given, case.path)
    if isinstance(case.body, dict):
        body = known_in(case.body)
        if isinstance(body.get("wait_s"), int):
            body["wait_s"] %= 2  # a pull may wait for half a minute
        case.body = body


# Calls with a form of their own say 200 and whether it was done; that they refuse so is given from outside (API-1, API-2).
REFUSAL = {"/api/job/submit": "accept", "/api/job/kill": "success", "/api/worker/status": "success"}


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if type(failure).__name__ != "AcceptedNegativeData" or case.path not in REFUSAL:
        return True
    body = json.loads(response.content)
    return not (isinstance(body, dict) and body.get(REFUSAL[case.path]) is False)


answers = collections.defaultdict(collections.Counter)


@schemathesis.hook
def after_call(context, case, response):
    answers[case.operation.label][response.status_code] += 1


# A preview shows what a job would run, with its times on the clock of the job's zone, as its document says.
BY_ZONE = re.compile(r"/api/jobs/.+/preview")
# The detail of an action quotes texts of definitions as people wrote them.
QUOTED = re.compile(r"/api/audit(/.+)?")
# Of each call, how many times were looked at.
times_in = collections.Counter()


@schemathesis.check
def times_have_three_digits(ctx, response, case):
    """Every time in every answer, whatever its status and schema."""
    try:
        value = json.loads(response.content)
    except ValueError:
        return
    if BY_ZONE.fullmatch(case.path) and isinstance(value, dict):
        value.pop("fires", None)
    if QUOTED.fullmatch(case.path) and isinstance(value, dict):
        for row in value.get("items", [value]):
            row.pop("detail", None)
    count, wrong = times.looked_at(value)
    times_in[case.operation.label] += count
    assert not wrong, f"times without three digits after the second and Z: {'; '.join(wrong[:20])}"


@atexit.register
def tell():
    with open(os.environ["CONTRACT_ANSWERS"], "w", encoding="utf-8") as told:
        json.dump({"answers": answers, "times": times_in}, told)
