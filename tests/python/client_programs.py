"""Programs that client_test.py runs as they stand in the documentation, and how they stop and speak encrypted."""

import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time

import tidemill
from client_test import Server, blocks, environment, run

from running import ROOT, fail, program, until

SERVER, KEY = os.environ["TIDEMILL_SERVER"], os.environ["TIDEMILL_KEY"]
NAMES = {"TIDEMILL_SERVER": SERVER, "TIDEMILL_KEY": KEY}
UTC = datetime.timezone.utc


def task(client, user, **fields):
    start = (datetime.datetime.now(UTC) - datetime.timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"executor": {"user": user}, "when": {"once": {"start": start}}, **fields}
    return client.call("POST", "/api/pull/tasks", body=body)["task"]


def grants(client, user):
    return client.call("GET", "/api/pull/grants", query={"user": user})["items"]


def begin(directory, text):
    """A program as its user would start it."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": directory}
    return subprocess.Popen([sys.executable, "-u", "-c", text], env=environment(**NAMES), **options)


def ended(process, what):
    # What was read ahead of a line is in this buffer, and `communicate` would not find it.
    killer = threading.Timer(60, process.kill)
    killer.start()
    told = process.stdout.read()
    killer.cancel()
    if process.wait():
        fail(f"{what} ended with {process.returncode}, or not within 60 s: {told}")
    return told


def programs_of_the_page_run(client, directory):
    """What each prints, in its order."""
    client.apply([{"name": "daily-report", "group": "default", "type": "shell", "command": 'echo "report of ${yyyy-MM-dd}"'}])
    client.call("POST", "/api/pull/users", body={"group": "default", "users": ["ann", "bob"]})
    patterns = [
        r"success 1\nreport of 2026-03-01\n$",
        r"report of 2026-03-02\nsuccess\n$",
        r"success\n$",
        r"(batch/\d+ \w+\n){2}$",
        r"Counts\(completed=3, failed=0, late=0, returned=0\)\n$",
        r"unknown - there is no job default/no-such-job",
    ]
    programs = blocks(ROOT / "docs/python.md", "python")
    if len(programs) != len(patterns):
        fail(f"docs/python.md has {len(programs)} programs, and {len(patterns)} are known here")
    for text, pattern in zip(programs, patterns):
        process = begin(directory, text)
        if ".work(" in text:
            if len(text.strip().splitlines()) > 15:
                fail("the worker of docs/python.md has more than 15 lines")
            for user, words in (("ann", "to be or not"), ("bob", "a b"), ("ann", "one")):
                task(client, user, parameters={"text": words})
            results = lambda: sorted(grant["result"] or "" for user in ("ann", "bob") for grant in grants(client, user))
            until("the worker has done it", lambda: results() == ["1 words", "2 words", "4 words"])
            process.send_signal(signal.SIGTERM)
        told = ended(process, f"a program of docs/python.md ({text[:200]})")
        if not re.search(pattern, told):
            fail(f"a program of docs/python.md prints {told!r}, which is not {pattern!r}: {text}")
    # The feed is read on behind the cursor that the program has kept.
    first = (directory / "cursor").read_text()
    ended(begin(directory, programs[3]), "the reader of events")
    if (directory / "cursor").read_text() == first:
        fail("the second run of the reader of events did not go on")


WORKER = """
import {module}, os, signal, time, tidemill

{definition} function(task):
    print("begun", flush=True)
    while not task.is_stopping:
        {pause}
    print("stopping", flush=True)
    while {hangs}:
        {pause}
    return "in time"

{main}
"""
SYNC = {
    "module": "sys",
    "definition": "def",
    "pause": "time.sleep(0.01)",
    "main": "print(tidemill.Client().work('{user}', function, grace_s={grace}))",
}
ASYNC = {
    "module": "asyncio",
    "definition": "async def",
    "pause": "await asyncio.sleep(0.01)",
    "main": "print(asyncio.run(tidemill.AsyncClient().work('{user}', function, grace_s={grace})))",
}


def signal_lets_tasks_end_and_gives_back_what_does_not(client, directory):
    """API-8: SIGTERM and SIGINT let what runs end in time, and give back what does not; nothing new is begun."""
    cases = [
        (kind, form, *case)
        for kind, form in (("sync", SYNC), ("async", ASYNC))
        for case in (
            ("ends", signal.SIGTERM, False, False, 30, "completed"),
            ("hangs", signal.SIGINT, False, True, 0.3, "returned"),
            ("hurried", signal.SIGTERM, True, True, 60, "returned"),
        )
    ]
    users = [f"{kind}-{name}" for kind, _, name, *_ in cases]
    client.call("POST", "/api/pull/users", body={"group": "default", "users": users})
    running = []
    for user, (_, form, _, number, is_hurried, hangs, grace, becomes) in zip(users, cases):
        task(client, user, name="first")
        task(client, user, name="second")
        text = WORKER.format(hangs="{hangs}", **form).format(hangs=hangs, user=user, grace=grace)
        running.append((user, begin(directory, text), number, is_hurried, becomes))
    for user, process, number, *_ in running:
        if process.stdout.readline() != "begun\n":
            fail(f"{user}: {ended(process, user)}")
        process.send_signal(number)
    for user, process, number, is_hurried, _ in running:
        # A second one hurries only where the first one was heard.
        if process.stdout.readline() != "stopping\n":
            fail(f"{user}: {ended(process, user)}")
        if is_hurried:
            process.send_signal(number)
    for user, process, _, _, becomes in running:
        told = ended(process, user)
        states = [grant["state"] for grant in grants(client, user)]
        if states != [becomes] or f"{becomes}=1" not in told or "begun" in told:
            fail(f"{user}: {states} instead of {becomes}: {told}")


def jobs_of_the_pages_can_be_applied_and_run(client, directory):
    """The jobs of docs/from-*.md, with the commands of those pages."""
    ran = {
        "from-cron.md": {"cron-load": "load 2026-02-28\n", "cron-report": "report 2026-02-28\n"},
        "from-airflow.md": {"sales-extract": "extract 2026-03-01\n", "sales-report": "report 2026-03-01 EUR\n", "sales-alert": None},
        "from-xxl-job.md": {"load-orders-0": "load eu 20260301 0/2\n", "load-orders-1": "load eu 20260301 1/2\n", "sum-orders": "sum 20260301\n"},
    }
    if sorted(ran) != sorted(page.name for page in (ROOT / "docs").glob("from-*.md")):
        fail("there is another page docs/from-*.md: say here what comes of its jobs")
    server = ("--server", SERVER, "--key", KEY)
    for name, jobs in ran.items():
        page = ROOT / "docs" / name
        (jobs_file,) = blocks(page, "yaml")
        (directory / "jobs.yaml").write_text(jobs_file)
        (commands,) = blocks(page, "sh")
        run(program(), "job", "apply", "-f", "jobs.yaml", "--dry-run", *server, cwd=directory)
        script = f'set -e\ntidemill() {{ command "{program()}" "$@"; }}\n{commands}'
        run("bash", "-c", script, cwd=directory, env=environment(**NAMES))
        for job, output in jobs.items():
            batch = client.wait_for_job(f"default/{job}", timeout_s=30)
            found = b"".join(client.download_log(batch)).decode() if output else None
            if (batch.result, found) != ("success" if output else "skipped", output):
                fail(f"{name}: {job}: {batch.result}, {found!r}")


def encrypted_server_is_trusted_by_its_authority_alone(_, directory):
    tls = directory / "tls"
    tls.mkdir()
    new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    script = f"""
    {new} -subj /CN=Tidemill -keyout ca.key -out ca.pem
    {new} -subj /CN=tidemill -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
      -addext extendedKeyUsage=serverAuth,clientAuth -CA ca.pem -CAkey ca.key -keyout own.key -out own.pem
    """
    run("bash", "-ec", textwrap.dedent(script), cwd=tls)
    names = {"CA_FILE": tls / "ca.pem", "API__CERTIFICATE_FILE": tls / "own.pem", "API__KEY_FILE": tls / "own.key", "API__HOST": "localhost"}
    with Server(directory / "encrypted", **{f"TIDEMILL__TLS__{name}": str(value) for name, value in names.items()}) as server:
        url = f"https://localhost:{server.address.rsplit(':', 1)[1]}"
        with tidemill.Client(url, server.key, ca_file=tls / "ca.pem") as client:
            until("the server has its group", lambda: client.call("GET", "/api/groups")["items"])
        try:
            tidemill.Client(url, server.key).job(1)
        except tidemill.Unavailable as error:
            if "ca_file=" not in str(error):
                fail(f"nobody says whom to trust: {error}")
        else:
            fail("a certificate of an unknown authority is trusted")


def run_all(directory):
    with tidemill.Client() as client:
        for case in (
            programs_of_the_page_run,
            signal_lets_tasks_end_and_gives_back_what_does_not,
            jobs_of_the_pages_can_be_applied_and_run,
            encrypted_server_is_trusted_by_its_authority_alone,
        ):
            begun = time.monotonic()
            case(client, pathlib.Path(directory))
            print(f"ok  {case.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
