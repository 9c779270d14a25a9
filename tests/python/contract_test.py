#!/usr/bin/env python3
"""The interface keeps to its own document: schemathesis finds nothing.

    contract_test.py [--seed N] [--examples N]

API-3: a whole service with data of its own, and in it a little of everything that has an id. From the document it serves,
schemathesis makes requests that fit and requests that do not (a fixed seed, a bounded number for each call), sends them, and
looks at every answer: no 5xx, a documented status, media type and schema, the documented methods in `Allow`, what does not fit
refused, what needs a key refused without one, every time with exactly three digits after the second and `Z`. One finding fails
the test; the report says the request and what is wrong with its answer.

Left out:
- `positive_data_acceptance`: what fits the document may still be refused, for a rule between fields, or what does not exist.
- `/api/events` and downloads and tails of logs are streams; cold starts and `set-time` change what the other calls would find.
- `/api/openapi.json`: schemathesis reads it, and does not try it.

First a document with a fault in it is tried, and an answer with a time of another form, which have to be found.

Wants the Python of `deploy/dev/services`. TIDEMILL_BIN names the program to test; without it, it is built with what the tests
build.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import times
from running import PATIENCE_S, fail, program, until

HOOKS = pathlib.Path(__file__).with_name("contract_hooks.py")
# Of one run of schemathesis with few examples, which takes about a minute where nothing else runs.
MOST_S = 900
EXCLUDED = r"^/api/(openapi.json|events|cold-starts|log/download|admin/partitions/.*|batches/.*/log/(download|tail))$"
JOBS = [
    {"name": "first", "group": "default", "type": "shell", "command": "echo ${logical_time}", "owner": "ann",
     "schedule": {"period": "day"}, "outputs": ["/tmp/none/${yyyyMMdd}"]},
    {"name": "second", "group": "default", "type": "noop", "parents": ["first"]},
    # Named like calls on jobs.
    *({"name": name, "group": "default", "type": "noop"} for name in
      ("run", "enable", "disable", "rename", "move", "preview", "skipped", "versions", "children")),
]  # fmt: skip


class Service:
    """One process with everything in it, and its data in a directory of its own."""

    def __init__(self, directory):
        self.directory = directory
        self.log = directory / "log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")}
        built = program()
        command = [built, "standalone", "--listen", "127.0.0.1:0", "--data", directory / "data"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment)
        files = [directory / "data" / name for name in ("api.address", "admin.key")]
        self.until("the service listens", lambda: all(it.is_file() and it.read_text().strip() for it in files))
        address, self.key = (it.read_text().strip() for it in files)
        self.url = f"http://{address}"
        self.until("the service is ready", lambda: self.call("GET", "/readyz")[0] == 200)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def until(self, what, look):
        return until(what, look, self.goes_on)

    def goes_on(self):
        if self.process.poll() is not None:
            fail(f"the service has ended: {self.log.read_text()[-2000:]}")

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text[:1] in (b"{", b"[") else text

    def done(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        if status not in (200, 202):
            fail(f"{method} {path}: {status} {answer}")
        return answer

    def items(self, path):
        return self.done("GET", path)["items"]


def furnish(service):
    """A little of everything that has an id, and which ids they have."""
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    time_of = lambda days: (now - datetime.timedelta(days=days)).strftime("%Y-%m-%dT00:00:00Z")
    post = lambda path, body=None: service.done("POST", path, body)
    post("/api/calendars", {"name": "work", "holidays": ["2026-01-01"]})
    post("/api/pools", {"name": "few", "slots": 2})
    post("/api/jobs/apply", {"jobs": JOBS})
    jobs = service.items("/api/jobs")
    [worker] = service.until("a worker is there", lambda: service.items("/api/workers"))
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


def schemathesis(service, document, options, more):
    """What it says, and whether it found nothing."""
    directory = service.directory
    config = directory / "schemathesis.toml"
    config.write_text(f'hooks = "{HOOKS.stem}"\n')
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", config, "run", document,
        "--url", service.url, "--header", f"Authorization: Bearer {service.key}",
        "--checks", "all", "--exclude-checks", "positive_data_acceptance",
        "--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--no-shrink",
        "--seed", str(options.seed), "--max-examples", str(options.examples),
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
    run = subprocess.run(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=max(MOST_S, MOST_S * options.examples // 20), check=False,
    )  # fmt: skip
    return run.stdout, run.returncode


def a_fault_is_found(service, document, options):
    """A document that says of a list's items that they are numbers."""
    wrong = json.loads(json.dumps(document))
    answer = wrong["paths"]["/api/groups"]["get"]["responses"]["200"]["content"]["application/json"]
    answer["schema"] = {"type": "object", "properties": {"items": {"items": {"type": "integer"}}}}
    path = service.directory / "wrong.json"
    path.write_text(json.dumps(wrong))
    said, code = schemathesis(service, path, options, ["--include-path", "/api/groups"])
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
    said, code = schemathesis(service, f"{service.url}/api/openapi.json", options, more)
    # Lines are folded where they are long.
    flat = re.sub(r"\s+", "", said)
    missing = [bad for bad in times.BAD if f".comment:{bad}".replace(" ", "") not in flat]
    if code != 1 or missing:
        fail(f"times of other forms in an answer are not found: {missing}\n{said}")
    for name in names:
        service.done("DELETE", f"{path}/{name}")
    service.until("the templates are gone", lambda: not set(names) & set(listed()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=6)
    options = parser.parse_args()
    if times.itself():
        fail(times.itself())
    with tempfile.TemporaryDirectory() as directory, Service(pathlib.Path(directory)) as service:
        (service.directory / "fixture.json").write_text(json.dumps(furnish(service)))
        document = service.done("GET", "/api/openapi.json")
        a_fault_is_found(service, document, options)
        a_time_is_found(service, options)
        said, code = schemathesis(
            service, f"{service.url}/api/openapi.json", options, ["--exclude-path-regex", EXCLUDED]
        )
        calls = [
            f"{method.upper()} {path}"
            for path, methods in document["paths"].items()
            for method in methods
            if not re.search(EXCLUDED, path)
        ]
        told = json.loads((service.directory / "answers.json").read_text())
        answers, timed = told["answers"], told["times"]
        untried = sorted(set(calls) - set(answers))
        undone = sorted(call for call in set(calls) & set(answers) if not {"200", "202"} & set(answers[call]))
        if code != 0:
            print(said)
            fail(f"schemathesis has findings, see above; again: make contract SEED={options.seed}")
        if untried:
            fail(f"not tried: {', '.join(untried)}\n{said}")
        sent = sum(sum(of.values()) for of in answers.values())
        if not sum(timed.values()):
            fail("no time was looked at")
        print(f"{sent} requests to {len(calls)} calls, seed {options.seed}: nothing found")
        print(f"{sum(timed.values())} times in answers to {sum(1 for it in timed.values() if it)} calls have three digits")
        print(f"never 200: {', '.join(undone) or 'none'}")


if __name__ == "__main__":
    main()
