#!/usr/bin/env python3
"""A consumer of the public feed, written from schemas/ alone, follows it while an owner is killed.

A7: it starts a small cluster of its own (two dispatchers, a projector, an interface), works it, kills the
dispatcher that owns the work, goes on, and reads the topic `<prefix>.events` from its start as schemas/asyncapi.json
describes it. Every record has to be a CloudEvents 1.0 event that one of schemas/events/*.json accepts; a repeat
has to be the same event; every time in it has exactly three digits after the second and `Z`; sorted by id, within a
partition time must not go back; the interface, which reads the journal itself, knows no other event, and what was asked for is
there, once. Internal events are in the journal only: their kinds have no schema, so that one in the topic fails the test.

Wants TIDEMILL_TEST_KAFKA and TIDEMILL_TEST_MYSQL (see deploy/dev/services) and MariaDB's client program.
TIDEMILL_BIN names the program to test; without it, it is built with what it needs.
"""

import collections
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import confluent_kafka
import confluent_kafka.admin
import jsonschema
import times

from running import ROOT, fail, program, until

SCHEMAS = ROOT / "schemas"
PARTITIONS = 3
BEFORE, AFTER = 30, 30
JOBS = """
jobs:
- {name: first, group: demo, type: anchor}
- {name: second, group: demo, type: anchor, parents: [first]}
"""


def service(variable):
    value = os.environ.get(variable)
    if not value:
        fail(f'{variable} names a service: run `deploy/dev/services start`, then `eval "$(deploy/dev/services env)"`')
    return value


class Cluster:
    """Two dispatchers, a projector and an interface, with topics and tables of their own."""

    def __init__(self, directory):
        self.directory = directory
        self.program = directory / "tidemill"
        shutil.copy2(program(), self.program)  # a build beside the test does not replace it
        self.brokers = service("TIDEMILL_TEST_KAFKA")
        self.prefix = f"tidemill-test-{uuid.uuid4().hex[:12]}"
        self.database = f"tidemill_test_{uuid.uuid4().hex[:16]}"
        self.mysql = service("TIDEMILL_TEST_MYSQL")
        self.roles = {}
        self.addresses = {}
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDEMILL_")},
            "TIDEMILL__LOG__BACKEND": "kafka",
            "TIDEMILL__LOG__BROKERS": self.brokers,
            "TIDEMILL__LOG__PREFIX": self.prefix,
            "TIDEMILL__LOG__PARTITIONS": str(PARTITIONS),
            "TIDEMILL__LOG__SINGLE_BROKER": "true",
            "TIDEMILL__STORE__URL": self.mysql.rsplit("/", 1)[0] + "/" + self.database,
            "TIDEMILL__INTERNAL_KEY": uuid.uuid4().hex,
            "TIDEMILL__EXECUTOR__GROUP": "demo",
            "TIDEMILL__API__LISTEN": "127.0.0.1:0",
        }

    def __enter__(self):
        self.sql(f"CREATE DATABASE {self.database}")
        self.run("topics", "create")
        for name in ("dispatcher-1", "dispatcher-2"):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                address = f"127.0.0.1:{free.getsockname()[1]}"
            self.addresses[address] = name
            self.start(name, "dispatcher", TIDEMILL__DISPATCHER__ADDRESS=address)
        self.start("projector", "projector")
        self.start("api", "api")
        self.run("bootstrap")
        listens = until("the interface listens", lambda: re.search(r"listens on (\S+)", self.lines("api")))
        self.environment["TIDEMILL_SERVER"] = f"http://{listens[1]}"
        return self

    def __exit__(self, kind, *_):
        for name, role in self.roles.items():
            role.kill()
            role.wait()
            if kind:
                print(f"---- {name}\n" + "\n".join(self.lines(name).splitlines()[-20:]), file=sys.stderr)
        with contextlib.suppress(subprocess.CalledProcessError):
            self.sql(f"DROP DATABASE {self.database}")
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.brokers})
        names = ("commands", "journal", "events", "work", "replies", "dead-letters")
        for future in admin.delete_topics([f"{self.prefix}.{name}" for name in names]).values():
            with contextlib.suppress(confluent_kafka.KafkaException):
                future.result()

    def sql(self, statement):
        user, password, host, port = re.match(r"mysql://(.+?):(.*)@(.+?):(\d+)/", self.mysql).groups()
        client = shutil.which("mariadb") or shutil.which("mysql")
        if not client:
            fail("neither mariadb nor mysql is on the path: the package mariadb-client has it")
        command = [client, f"--user={user}", f"--host={host}", f"--port={port}", "--protocol=TCP", "-e", statement]
        subprocess.run(command, env={**os.environ, "MYSQL_PWD": password}, check=True)

    def start(self, name, role, **settings):
        environment = {**self.environment, **settings, "TIDEMILL_DATA": str(self.directory / name)}
        with open(self.directory / f"{name}.log", "wb") as lines:
            self.roles[name] = subprocess.Popen(
                [self.program, role], env=environment, cwd=self.directory, stdout=lines, stderr=lines
            )

    def lines(self, name):
        return (self.directory / f"{name}.log").read_text()

    def ask(self, *arguments):
        environment = {**self.environment, "TIDEMILL_DATA": str(self.directory / "admin")}
        command = [self.program, *arguments]
        return subprocess.run(command, env=environment, cwd=self.directory, capture_output=True, text=True)

    def run(self, *arguments):
        done = self.ask(*arguments)
        if done.returncode:
            fail(f"tidemill {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *arguments):
        return json.loads(self.run(*arguments, "-o", "json"))

    def owner(self, partition):
        """The dispatcher that owns a partition, as the status shows it."""
        answer = self.ask("status", "-o", "json")
        if answer.returncode:
            return None
        return self.addresses.get(json.loads(answer.stdout)["partitions"][partition]["owner"])


class Feed:
    """The topic, read as asyncapi.json describes it."""

    def __init__(self, cluster):
        description = json.loads((SCHEMAS / "asyncapi.json").read_text())
        channel = description["channels"]["events"]
        # Topic names carry the installation's prefix.
        topic = channel["address"].replace("tidemill.", f"{cluster.prefix}.", 1)
        self.validators, self.keys = {}, {}
        for message in channel["messages"].values():
            schema = json.loads((SCHEMAS / message["payload"]["$ref"]).read_text())
            jsonschema.Draft202012Validator.check_schema(schema)
            form = jsonschema.Draft202012Validator.FORMAT_CHECKER
            validator = jsonschema.Draft202012Validator(schema, format_checker=form)
            self.validators[message["name"]] = validator
            self.keys[message["name"]] = re.compile(message["bindings"]["kafka"]["key"]["pattern"])
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.brokers,
                "group.id": f"{cluster.prefix}-consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        start = confluent_kafka.OFFSET_BEGINNING
        partitions = [confluent_kafka.TopicPartition(topic, number, start) for number in range(PARTITIONS)]
        self.consumer.assign(partitions)
        # By partition: id to event.
        self.events = collections.defaultdict(dict)
        self.sources = {}
        self.records = self.repeats = self.times = 0

    def read(self):
        """Takes what there is for a moment, and checks it."""
        for message in self.consumer.consume(500, timeout=0.2):
            if message.error():
                fail(f"the feed cannot be read: {message.error()}")
            self.take(message)

    def take(self, message):
        self.records += 1
        event = json.loads(message.value())
        where = f"partition {message.partition()}, offset {message.offset()}"
        check_envelope(event, where)
        kind = event["type"]
        if kind not in self.validators:
            fail(f"{where}: the type {kind} is not in asyncapi.json")
        errors = [f"{error.json_path}: {error.message}" for error in self.validators[kind].iter_errors(event)]
        if errors:
            fail(f"{where}: {kind} {event['id']}: {errors}")
        self.times += check_times(event, where)
        key = message.key().decode()
        if not self.keys[kind].search(key) or key != event["partitionkey"]:
            fail(f"{where}: the key is {key!r}, the partition key {event['partitionkey']!r}")
        source = self.sources.setdefault(message.partition(), event["source"])
        if event["source"] != source or not source.endswith(f"/{message.partition()}"):
            fail(f"{where}: the source is {event['source']}, not {source}")
        number = tuple(map(int, event["id"].split("-")))
        known = self.events[message.partition()].setdefault(number, event)
        if known is not event:
            self.repeats += 1
            if known != event:
                fail(f"{where}: {event['id']} is there twice and differs")

    def all(self, kind):
        events = (event for partition in self.events.values() for event in partition.values())
        return [event for event in events if event["type"] == f"tidemill.{kind}.v1"]

    def check_order(self):
        """By id, within a partition: time does not go back."""
        if len(set(self.sources.values())) != len(self.sources):
            fail(f"two partitions have one source: {self.sources}")
        for partition, events in self.events.items():
            last = None
            for number in sorted(events):
                at = instant(events[number]["time"])
                if last and at < last:
                    fail(f"partition {partition}: time goes back at {number}")
                last = at


def check_envelope(event, where):
    """CloudEvents 1.0 itself: required attributes, their types, and names of extensions."""
    for name in ("specversion", "id", "source", "type"):
        if not isinstance(event.get(name), str) or not event[name]:
            fail(f"{where}: the attribute {name} is missing: {event}")
    if event["specversion"] != "1.0":
        fail(f"{where}: specversion is {event['specversion']}")
    for name, value in event.items():
        if not re.fullmatch(r"[a-z0-9]{1,20}", name):
            fail(f"{where}: {name} cannot be the name of an attribute")
        if name != "data" and not isinstance(value, (str, int, bool)):
            fail(f"{where}: the attribute {name} is {value!r}")
    instant(event["time"])


def check_times(event, where):
    """How many times it has, all with exactly three digits after the second and `Z`."""
    count, wrong = times.looked_at(event)
    if wrong:
        fail(f"{where}: {event['type']} {event['id']}: times without three digits after the second and Z: {wrong}")
    return count


def bad_times_are_found(feed):
    """In an event of each type, as it came but for one of its times."""
    planted = 0
    for kind in sorted(feed.validators):
        for event in feed.all(kind.removeprefix("tidemill.").removesuffix(".v1"))[:1]:
            for bad in times.BAD:
                for place in [place for place, text in times.texts(event) if times.THREE_DIGITS.fullmatch(text)]:
                    changed = json.loads(json.dumps(event))
                    *way, last = re.findall(r"\.([^.\[]+)|\[(\d+)\]", place)
                    inner = changed
                    for name, index in way:
                        inner = inner[name or int(index)]
                    inner[last[0] or int(last[1])] = bad
                    count, wrong = times.looked_at(changed)
                    if wrong != [f"{place}: {bad}"] or count != times.looked_at(event)[0]:
                        fail(f"{bad} at {place} of {kind} is not found: {wrong}")
                    planted += 1
    return planted


def instant(text):
    """RFC 3339."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def work(cluster, first, count):
    """So many batches of the first job; the second follows each."""
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
    for number in range(first, first + count):
        at = (start + datetime.timedelta(seconds=number)).isoformat()
        request = f"feed-{number}"
        run = ("job", "run", "demo/first", "--logical-time", at, "--concurrent", "--idempotency-key", request)
        # Repeated until it is done, which it is once.
        until(f"batch {number} is granted", lambda: cluster.ask(*run).returncode == 0)


def finished(feed, count):
    def look():
        feed.read()
        return len(feed.all("batch.finished")) >= count

    until(f"{count} batches are finished on the feed", look)


def check_content(feed, count):
    """What was asked for is there, once, and in its order."""
    jobs = {event["data"]["definition"]["id"]: event["data"]["definition"]["spec"]["name"] for event in feed.all("job.defined")}
    generated = {event["data"]["batch"]: event for event in feed.all("batch.generated")}
    ended = {event["data"]["batch"]: event for event in feed.all("batch.finished")}
    runs = [(jobs[event["data"]["job"]], event["data"]["logical_time"]) for event in generated.values()]
    if len(runs) != 2 * count or len(set(runs)) != len(runs):
        fail(f"{2 * count} batches were wanted, {len(runs)} generated, {len(set(runs))} of them different")
    if len(feed.all("batch.generated")) != len(generated) or len(feed.all("batch.finished")) != len(ended):
        fail("a batch is generated or finished twice")
    for batch, event in ended.items():
        begun = tuple(map(int, generated[batch]["id"].split("-")))
        if tuple(map(int, event["id"].split("-"))) <= begun or event["data"]["result"] != "success":
            fail(f"batch {batch}: {event}")


def compare_with_journal(cluster, feed):
    """The interface gives the same feed straight from the journal: what the topic lacked would be there."""
    topic = {(event["source"], event["id"]): event for events in feed.events.values() for event in events.values()}
    told = cluster.run("events", "tail", "--from", "start", "--limit", str(len(topic)), "-o", "json")
    journal = {(event["source"], event["id"]): event for event in map(json.loads, told.splitlines())}
    if journal != topic:
        differ = sorted(name for name in topic.keys() | journal.keys() if topic.get(name) != journal.get(name))
        fail(f"topic and journal differ in {len(differ)} events, the first is {differ[0]}")


def main():
    with tempfile.TemporaryDirectory() as directory, Cluster(pathlib.Path(directory)) as cluster:
        feed = Feed(cluster)
        jobs = cluster.directory / "jobs.yaml"
        jobs.write_text(JOBS)
        until("the tables have the key", lambda: cluster.ask("group", "ls").returncode == 0)
        cluster.run("job", "apply", "-f", str(jobs))
        until("the jobs are there", lambda: cluster.ask("job", "show", "demo/second").returncode == 0)
        work(cluster, 0, BEFORE)
        finished(feed, 2 * BEFORE)
        shard = int(feed.all("group.defined")[0]["data"]["shard"])
        partition = 1 + (shard - 1) % (PARTITIONS - 1)
        owner = until("the work has an owner", lambda: cluster.owner(partition))
        cluster.roles[owner].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        work(cluster, BEFORE, 1)
        print(f"killed {owner}; the other one took the next request after {time.monotonic() - killed:.1f} s", flush=True)
        work(cluster, BEFORE + 1, AFTER - 1)
        finished(feed, 2 * (BEFORE + AFTER))
        # The rest of the last journal record.
        feed.read()
        if cluster.owner(partition) == owner:
            fail(f"{owner} still owns partition {partition}")
        feed.check_order()
        check_content(feed, BEFORE + AFTER)
        compare_with_journal(cluster, feed)
        planted = bad_times_are_found(feed)
        if not feed.times or not planted:
            fail(f"{feed.times} times were looked at, and {planted} with another form")
        kinds = {event["type"] for events in feed.events.values() for event in events.values()}
        print(f"ok  {feed.records} records, {feed.repeats} repeats, {len(kinds)} types, {len(feed.sources)} sources")
        print(f"ok  {feed.times} times have three digits, {planted} that have not were found")


if __name__ == "__main__":
    main()
