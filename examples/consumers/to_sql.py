#!/usr/bin/env python3
"""Loads the public feed of Tidemill from Kafka into SQL, each event exactly once in effect.

    to_sql.py --brokers HOST:PORT --database sqlite:///feed.db
    to_sql.py --brokers HOST:PORT --database mysql://user:password@host:3306/warehouse

What makes it so:

- The events of a poll and the offset behind them are one transaction. There is no moment at which one is there without
  the other, so it may be killed at any time.
- The offset in the table is the position; what Kafka knows of the group only shows the lag. A transaction moves it from where
  this consumer left it, and from nowhere else: whoever lost a partition and does not know it yet writes nothing.
- Delivery is at least once: a repeat has the `source` and `id` of the event that is there, and is dropped by them.
- After a lost acknowledgement an event may stand behind its successors. A row is changed only by an event that is later
  than the one that made it, by `time` and `id`, so the tables come out the same.
- Between partitions there is no order: jobs are defined in one, their batches run in another. The two are joined when they are
  read (view `batch_results`), not when they are written.

Where the position is no longer in the topic (retention was shorter than this consumer was away), it stops and says so.
It stops, too, on a lost database or a record that is no event: run it under something that starts it again.
"""

import argparse
import json
import pathlib
import re
import signal
import sqlite3
import sys
import time
import urllib.parse

import confluent_kafka

SCHEMA = pathlib.Path(__file__).with_name("schema.sql")
KIND = re.compile(r"tidemill\.(.+)\.v1")
END_OF_WATCH_S = 0.5


class Stop(Exception):
    """It cannot go on; says why, and what to do."""


class Database:
    """SQLite or MariaDB, with the same statements."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.name = parts.path[1:]
        if not self.name or parts.scheme not in ("sqlite", "mysql"):
            raise Stop(f"--database is {url}: it has to be sqlite:///PATH or mysql://USER:PASSWORD@HOST:PORT/NAME")
        self.is_sqlite = parts.scheme == "sqlite"
        if self.is_sqlite:
            self.repeated = sqlite3.IntegrityError
            self.connection = sqlite3.connect(self.name, timeout=30, isolation_level=None)
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
        else:
            import pymysql

            self.repeated = pymysql.err.IntegrityError
            self.connection = pymysql.connect(
                host=parts.hostname, port=parts.port or 3306, user=urllib.parse.unquote(parts.username or ""),
                password=urllib.parse.unquote(parts.password or ""), database=self.name, charset="utf8mb4",
                connect_timeout=10, read_timeout=60, write_timeout=60, autocommit=False,
            )  # fmt: skip
        self.cursor = self.connection.cursor()
        self.create_tables()

    def create_tables(self):
        lines = [line for line in SCHEMA.read_text().splitlines() if not line.startswith("--")]
        for statement in "\n".join(lines).split(";"):
            if statement.strip():
                self.run(statement)
        if not self.is_sqlite:
            self.connection.commit()

    def run(self, statement, *values):
        """How many rows it changed."""
        self.cursor.execute(statement if self.is_sqlite else statement.replace("?", "%s"), values)
        return self.cursor.rowcount

    def row(self, statement, *values):
        self.run(statement, *values)
        return self.cursor.fetchone()

    def begin(self):
        # SQLite: nobody else begins to write from here on. MariaDB: the row of the position is the lock.
        self.run("BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN")

    def commit(self):
        self.connection.commit()

    def roll_back(self):
        self.connection.rollback()


class Event:
    """A record of the topic, as schemas/asyncapi.json describes it."""

    def __init__(self, message):
        where = f"partition {message.partition()}, offset {message.offset()}"
        try:
            event = json.loads(message.value())
            self.source, self.id, self.type = event["source"], event["id"], event["type"]
            self.subject, self.time, self.data = event["subject"], event["time"], event["data"]
            record, place = map(int, self.id.split("-"))
        except (TypeError, ValueError, KeyError) as error:
            raise Stop(f"{where}: this is no event of Tidemill, {error!r}; read another topic, or take it out") from error
        kind = KIND.fullmatch(self.type)
        self.kind = kind[1] if kind else None
        # Sorts as the feed does. `time` never goes back within a source, and goes on when a restored log begins another one.
        self.order = f"{self.time} {record:020}-{place:06}"


def changes(event):
    """Of which rows the event changes which columns: table, key, columns, and by what a later one is known."""
    data = event.data
    match event.kind:
        case "job.defined" | "job.moved" | "job.submitted":
            spec = data["definition"]["spec"]
            yield "feed_jobs", data["definition"]["id"], {"group_name": spec["group"], "name": spec["name"]}, "defined_by"
        case "batch.generated":
            columns = {"job": data["job"], "logical_time": data["logical_time"], "run": data.get("run", 0)}
            yield "feed_batches", data["batch"], {**columns, "generated_at": event.time}, "generated_by"
        case "batch.finished":
            yield "feed_batches", data["batch"], {"ended_at": event.time}, "ended_by"
            yield "feed_batches", data["batch"], {"result": data["result"]}, "result_by"
        case "batch.result_overridden":
            yield "feed_batches", data["batch"], {"result": data["result"]}, "result_by"
        # All others, and kinds of later versions, are kept as events, and change no other row.


def write(database, event):
    """False: it is there already."""
    if database.row("SELECT 1 FROM feed_events WHERE source = ? AND id = ?", event.source, event.id):
        return False
    values = (event.source, event.id, event.type, event.subject, event.time, json.dumps(event.data))
    database.run("INSERT INTO feed_events (source, id, type, subject, time, data) VALUES (?, ?, ?, ?, ?, ?)", *values)
    for table, key, columns, by in changes(event):
        if not database.row(f"SELECT 1 FROM {table} WHERE id = ?", key):
            database.run(f"INSERT INTO {table} (id) VALUES (?)", key)
        names = ", ".join(f"{name} = ?" for name in columns)
        change = f"UPDATE {table} SET {names}, {by} = ? WHERE id = ? AND {by} < ?"
        database.run(change, *columns.values(), event.order, key, event.order)
    return True


class Loader:
    def __init__(self, options):
        self.options = options
        self.database = Database(options.database)
        # By partition, of those that this consumer has: the offset in the table, None before there is one.
        self.positions = {}
        # By partition: where `--until-end` ends.
        self.ends = {}
        self.stopped = False
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": options.brokers,
                "group.id": options.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **dict(setting.split("=", 1) for setting in options.setting),
            }
        )
        self.consumer.subscribe([options.topic], on_assign=self.take_over, on_revoke=self.hand_over)

    def take_over(self, consumer, partitions):
        for partition in partitions:
            position = self.database.row(
                "SELECT next_offset FROM feed_positions WHERE topic = ? AND partition_number = ?",
                partition.topic, partition.partition,
            )  # fmt: skip
            self.database.roll_back()
            self.positions[partition.partition] = position[0] if position else None
            low, high = consumer.get_watermark_offsets(partition, timeout=30)
            self.ends[partition.partition] = high if low < high else 0
            partition.offset = position[0] if position else confluent_kafka.OFFSET_BEGINNING
        consumer.assign(partitions)

    def hand_over(self, _, partitions):
        for partition in partitions:
            self.positions.pop(partition.partition, None)

    def move(self, partition, before, after):
        """First of all, so that the row is locked: nobody else writes this partition until the transaction ends."""
        topic = self.options.topic
        try:
            if before is None:
                insert = "INSERT INTO feed_positions (topic, partition_number, next_offset) VALUES (?, ?, ?)"
                moved = self.database.run(insert, topic, partition, after)
            else:
                move = "UPDATE feed_positions SET next_offset = ? WHERE topic = ? AND partition_number = ? AND next_offset = ?"
                moved = self.database.run(move, after, topic, partition, before)
        except self.database.repeated:
            moved = 0
        if moved != 1:
            raise Stop(
                f"partition {partition}: its position is not {before} any more, so another consumer has it; "
                "nothing was written. Start this one again, and it gets its share"
            )

    def load(self, messages):
        """One transaction: positions, events, rows."""
        parts = {}
        for message in messages:
            if message.error():
                raise Stop(explain(message.error()))
            parts.setdefault(message.partition(), []).append(message)
        after = {partition: part[-1].offset() + 1 for partition, part in parts.items()}
        self.database.begin()
        try:
            repeats = 0
            # In one order everywhere, so that two consumers cannot wait for each other.
            for partition in sorted(parts):
                self.move(partition, self.positions.get(partition), after[partition])
                repeats += sum(not write(self.database, Event(message)) for message in parts[partition])
            if self.options.pause_s:
                say(f"holds {len(messages)} records that are not committed")
                time.sleep(self.options.pause_s)
            self.database.commit()
        except BaseException:
            self.database.roll_back()
            raise
        self.positions.update(after)
        say(f"committed {len(messages)} records, {repeats} of them repeats, up to {after}")
        places = [confluent_kafka.TopicPartition(self.options.topic, *place) for place in after.items()]
        # For tools that show the lag; nothing is read from there.
        self.consumer.commit(offsets=places, asynchronous=True)

    def at_end(self):
        return bool(self.positions) and all(
            (position or 0) >= self.ends[partition] for partition, position in self.positions.items()
        )

    def run(self):
        while not self.stopped:
            messages = self.consumer.consume(self.options.batch, timeout=END_OF_WATCH_S)
            if messages:
                self.load(messages)
            if self.options.until_end and self.at_end():
                return

    def stop(self, *_):
        self.stopped = True


def explain(error):
    if error.code() in (confluent_kafka.KafkaError._AUTO_OFFSET_RESET, confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE):
        return (
            f"the topic no longer has the position ({error.str()}): events are missing. Load them from `GET /api/events`, "
            "or begin anew with empty tables"
        )
    return f"the feed cannot be read: {error}"


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="tidemill.events")
    parser.add_argument("--group", default="to-sql", help="several with one group share the partitions")
    parser.add_argument("--database", required=True, help="sqlite:///PATH or mysql://USER:PASSWORD@HOST:PORT/NAME")
    parser.add_argument("--batch", type=int, default=500, help="records of a transaction, at most")
    parser.add_argument("--until-end", action="store_true", help="end at what was the end of the topic at the start")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="of librdkafka: TLS, SASL")
    parser.add_argument("--pause-s", type=float, default=0, help="before each commit, to try what a kill does there")
    options = parser.parse_args()
    try:
        loader = Loader(options)
        signal.signal(signal.SIGTERM, loader.stop)
        signal.signal(signal.SIGINT, loader.stop)
        try:
            loader.run()
        finally:
            loader.consumer.close()
    except Stop as stop:
        sys.exit(f"to_sql: {stop}")


if __name__ == "__main__":
    main()
