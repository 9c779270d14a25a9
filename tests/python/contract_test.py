#!/usr/bin/env python3
"""The interface keeps to its own document: schemathesis finds nothing.

    contract_test.py [--cluster] [--seed N] [--examples N] [--only REGEX] [--keep DIR]

API-3: a whole service with data of its own, and in it a little of everything that has an id; with --cluster its roles are
processes, on the Kafka, MariaDB and Redis of `deploy/dev/services`. From the document it serves, schemathesis makes requests that
fit and requests that do not (a fixed seed, a bounded number for each call), sends them, and looks at every answer: no 5xx, a
documented status, media type and schema, the documented methods in `Allow`, what does not fit refused, what needs a key refused
without one, every time with exactly three digits after the second and `Z`. One finding fails the test; the report says the request
and what is wrong with its answer.

Left out:
- `positive_data_acceptance`: what fits the document may still be refused, for a rule between fields, or what does not exist.
- `/api/events` and the tail of a log: they are streams, which end when something ends.
- `/api/openapi.json`: schemathesis reads it, and does not try it.
contract_hooks.py has what is no finding of single calls. Cold starts, and what is done to partitions, change what the other calls
would find: they are tried when those have been.

First a document with a fault in it is tried, and an answer with a time of another form, which have to be found.

--only tries the calls whose path fits. --keep leaves data, logs and what schemathesis said in a new directory.

Wants the Python of `deploy/dev/services`. TIDEMILL_BIN names the program to test; without it, it is built with what the tests
build.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import times
from running import fail
from service import Service

HOOKS = pathlib.Path(__file__).with_name("contract_hooks.py")
# Of one run of schemathesis with the usual examples, which takes some minutes where nothing else runs.
MOST_S = 1800
EXAMPLES = 20
# To see whether a planted fault is found.
FEW = 6
EXCLUDED = r"^/api/(openapi.json|events|batches/.*/log/tail)$"
LAST = r"^/api/(cold-starts|admin/partitions/.*)$"
ALL = "^/"
JOBS = [
    {"name": "first", "group": "default", "type": "shell", "command": "echo ${logical_time}", "owner": "ann",
     "schedule": {"period": "day"}, "outputs": ["/tmp/none/${yyyyMMdd}"]},
    {"name": "second", "group": "default", "type": "noop", "parents": ["first"]},
    # Named like calls on jobs.
    *({"name": name, "group": "default", "type": "noop"} for name in
      ("run", "enable", "disable", "rename", "move", "preview", "skipped", "versions", "children")),
]  # fmt: skip


def furnish(service):
    """A little of everything that has an id, and which ids they have."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    time_of = lambda days: (now - datetime.timedelta(days=days)).strftime("%Y-%m-%dT00:00:00Z")
    post = lambda path, body=None: service.done("POST", path, body)
    [worker] = service.until("a worker is there", lambda: service.items("/api/workers"))
    post("/api/calendars", {"name": "work", "holidays": ["2026-01-01"]})
    post("/api/pools", {"name": "few", "slots": 2})
    post("/api/jobs/apply", {"jobs": JOBS})
    listed = lambda: service.items("/api/jobs")
    jobs = service.until("the jobs are listed", lambda: len(listed()) == len(JOBS) and listed())
    batch = post(f"/api/jobs/{jobs[0]['id']}/run", {})["batch"]
    detail = f"/api/batches/{batch}"
    service.until("a batch has ended", lambda: service.call("GET", detail)[1].get("state") in (3, "finished"))
    post("/api/pull/templates", {"name": "copy", "fields": {"path": {"type": "string"}}})
    post("/api/pull/users", {"group": "default", "users": ["ann", "bob"]})
    start = (now - datetime.timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    task = {"executor": {"group": "default"}, "when": {"once": {"start": start}}, "dispatch_times": 1000}
    task = post("/api/pull/tasks", {**task, "template": "copy", "parameters": {"path": "/a"}})["task"]
    # Until the tables have the user, the answer is that it has no group.
    pulled = lambda: service.call("POST", "/api/pull", {"user": "ann"})[1].get("grant")
    grant = service.until("a task is given", pulled)["grant"]
    span = {"from": time_of(3), "to": time_of(2)}
    rerun = post("/api/reruns", {"jobs": ["default/first"], **span, "reason": "to see it"})
    bulk = {"action": "disable", "filter": {"group": "default", "job": "second"}, "reason": "to see it"}
    bulk = post("/api/bulk", bulk)["bulk"]
    post("/api/third-party", {"code": "rates", "logical_time": time_of(1)})
    position = post("/api/keys", {"app": "guest", "role": "viewer", "groups": ["default"]})["position"]
    [group] = service.items("/api/groups")
    service.done("GET", f"/api/keys?at_least={position}")
    return {
        "position": position,
        "jobs": [job["id"] for job in jobs],
        "job_names": [job["name"] for job in jobs],
        "job_lists": [["default/first"], [jobs[0]["id"]]],
        "batches": [batch],
        "reruns": [rerun["rerun"]],
        "bulks": [bulk],
        "workers": [worker["id"]],
        "keys": ["guest"],
        "calendars": ["work"],
        "pools": ["few"],
        "templates": ["copy"],
        "users": ["ann", "bob"],
        "user_lists": [["ann"], ["cid"]],
        "tasks": [task],
        "grants": [grant],
        "versions": [1],
        "partitions": [0],
        "groups": [group["name"]],
        "group_ids": [group["id"]],
        "worker_keys": [group["worker_key"]],
        "job_types": ["noop", "shell"],
        "times": [time_of(2), time_of(1)],
        "zones": ["Europe/Berlin"],
    }


def schemathesis(service, document, options, examples, more):
    """What it says, and whether it found nothing."""
    directory = service.directory
    config = directory / "schemathesis.toml"
    config.write_text(f'hooks = "{HOOKS.stem}"\n')
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", document,
        "--url", service.url, "--header", f"Authorization: Bearer {service.key}",
        "--checks", "all", "--exclude-checks", "positive_data_acceptance",
        "--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--no-shrink",
        "--seed", str(options.seed), "--max-examples", str(examples),
        "--generation-database", "none", "--request-timeout", "40", "--workers", "1", "--no-color", *more,
    ]  # fmt: skip
    environment = {
        **os.environ,
        "PYTHONPATH": str(HOOKS.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "CONTRACT_FIXTURE": str(directory / "fixture.json"),
        "CONTRACT_ANSWERS": str(directory / "answers.json"),
        "COLUMNS": "160",
    }
    said = directory / "schemathesis.log"
    most_s = max(MOST_S, MOST_S * examples // EXAMPLES)
    with open(said, "w", encoding="utf-8") as lines:
        try:
            run = subprocess.run(
                command, cwd=directory, env=environment, stdout=lines, stderr=lines, timeout=most_s, check=False
            )
        except subprocess.TimeoutExpired:
            fail(f"schemathesis has not ended within {most_s} s:\n{said.read_text()}")
    service.goes_on()
    return said.read_text(), run.returncode


def a_fault_is_found(service, document, options):
    """A document that says of a list's items that they are numbers."""
    wrong = json.loads(json.dumps(document))
    answer = wrong["paths"]["/api/groups"]["get"]["responses"]["200"]["content"]["application/json"]
    answer["schema"] = {"type": "object", "properties": {"items": {"items": {"type": "integer"}}}}
    path = service.directory / "wrong.json"
    path.write_text(json.dumps(wrong))
    said, code = schemathesis(service, path, options, FEW, ["--include-path", "/api/groups"])
    if code != 1 or "Response violates schema" not in said:
        fail(f"a fault in the document is not found:\n{said}")


def a_time_is_found(service, options):
    """An answer with comments that are times, in each of the forms that no time of the service's own has."""
    path, names = "/api/pull/templates", [f"timed-{index}" for index in range(len(times.BAD))]
    for name, bad in zip(names, times.BAD):
        service.done("POST", path, {"name": name, "fields": {}, "comment": bad})
    listed = lambda: {item["name"]: item.get("comment") for item in service.items(path)}
    service.until("the templates are listed", lambda: set(names) <= set(listed()))
    more = ["--include-path", path, "--exclude-method", "POST"]
    said, code = schemathesis(service, f"{service.url}/api/openapi.json", options, FEW, more)
    # Lines are folded where they are long.
    flat = re.sub(r"\s+", "", said)
    missing = [bad for bad in times.BAD if f".comment:{bad}".replace(" ", "") not in flat]
    if code != 1 or missing:
        fail(f"times of other forms in an answer are not found: {missing}\n{said}")
    for name in names:
        service.done("DELETE", f"{path}/{name}")
    service.until("the templates are gone", lambda: not set(names) & set(listed()))


def calls_of(document, paths):
    of_path = ((path, methods) for path, methods in document["paths"].items() if re.search(paths, path))
    return {f"{method.upper()} {path}" for path, methods in of_path for method in methods}


def look(service, options):
    """What a whole run finds."""
    (service.directory / "fixture.json").write_text(json.dumps(furnish(service)))
    document = service.done("GET", "/api/openapi.json")
    a_fault_is_found(service, document, options)
    a_time_is_found(service, options)
    calls, answers, timed = set(), {}, {}
    wanted = f"(?=.*?(?:{options.only}))"
    for paths in (f"^(?!{EXCLUDED}|{LAST}){wanted}", f"^(?={LAST}){wanted}"):
        if not calls_of(document, paths):
            continue
        calls |= calls_of(document, paths)
        more = ["--include-path-regex", paths]
        said, code = schemathesis(service, f"{service.url}/api/openapi.json", options, options.examples, more)
        if code != 0:
            print(said)
            fail(f"schemathesis has findings, see above; again: make contract SEED={options.seed}")
        told = json.loads((service.directory / "answers.json").read_text())
        answers |= told["answers"]
        timed |= told["times"]
    if not calls:
        fail(f"no call fits --only {options.only}")
    untried = sorted(calls - set(answers))
    undone = sorted(call for call in calls & set(answers) if not {"200", "202"} & set(answers[call]))
    if untried:
        fail(f"not tried: {', '.join(untried)}\n{said}")
    if not sum(timed.values()) and options.only == ALL:
        fail("no time was looked at")
    sent = sum(sum(of.values()) for of in answers.values())
    print(f"{sent} requests to {len(calls)} calls, seed {options.seed}: nothing found")
    print(f"{sum(timed.values())} times in answers to {sum(1 for it in timed.values() if it)} calls have three digits")
    print(f"never 200: {', '.join(undone) or 'none'}")


def begun(options, directory):
    """One process, or one for each role."""
    if not options.cluster:
        return Service(directory)
    # It wants the client of Kafka, which one process does not.
    from cluster import WholeCluster

    return WholeCluster(directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--only", default=ALL, metavar="REGEX")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    if times.itself():
        fail(times.itself())
    if options.keep:
        options.keep.mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        directory = options.keep or stack.enter_context(tempfile.TemporaryDirectory())
        look(stack.enter_context(begun(options, pathlib.Path(directory).resolve())), options)


if __name__ == "__main__":
    main()
