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
import datetime
import json
import pathlib
import re
import signal
import tempfile
import time

import confluent_kafka
import jsonschema
import times

from cluster import PARTITIONS, Cluster
from running import ROOT, fail, until

SCHEMAS = ROOT / "schemas"
BEFORE, AFTER = 30, 30
JOBS = """
jobs:
- {name: first, group: demo, type: anchor}
- {name: second, group: demo, type: anchor, parents: [first]}
"""


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
