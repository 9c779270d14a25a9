"""A cluster as tests start it: its roles are processes, with topics, a database and directories of their own."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import uuid

import confluent_kafka
import confluent_kafka.admin

from running import fail, program, until
from service import Calls

PARTITIONS = 3


def service(variable):
    value = os.environ.get(variable)
    if not value:
        fail(f'{variable} names a service: run `deploy/dev/services start`, then `eval "$(deploy/dev/services env)"`')
    return value


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


class Cluster:
    """Two dispatchers, a projector and an interface, with topics and tables of their own."""

    def __init__(self, directory, group="demo"):
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
            "TIDEMILL__EXECUTOR__GROUP": group,
            "TIDEMILL__API__LISTEN": "127.0.0.1:0",
        }

    def __enter__(self):
        self.sql(f"CREATE DATABASE {self.database}")
        self.run("topics", "create")
        for name in ("dispatcher-1", "dispatcher-2"):
            address = free_address()
            self.addresses[address] = name
            self.start(name, "dispatcher", TIDEMILL__DISPATCHER__ADDRESS=address)
        self.start("projector", "projector")
        self.start("api", "api")
        self.run("bootstrap")
        listens = until("the interface listens", lambda: re.search(r"listens on (\S+)", self.lines("api")))
        self.url = f"http://{listens[1]}"
        self.environment["TIDEMILL_SERVER"] = self.url
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


class WholeCluster(Cluster, Calls):
    """The same with Redis, an executor, a store of logs and what looks outside, which is called as one process would be."""

    GROUP = "default"

    def __init__(self, directory):
        super().__init__(directory, self.GROUP)
        self.logs = free_address()
        self.environment |= {
            "TIDEMILL__LOGS_KEY": uuid.uuid4().hex,
            "TIDEMILL__REDIS__URL": service("TIDEMILL_TEST_REDIS"),
            "TIDEMILL__LOGS__LISTEN": self.logs,
            "TIDEMILL__API__LOG_STORES": self.logs,
            "TIDEMILL__EXECUTOR__HOST": "executor",
            "TIDEMILL__EXECUTOR__SLOTS": "shell=4,python=4,noop=100",
        }

    def __enter__(self):
        super().__enter__()
        self.key = (self.directory / "admin/admin.key").read_text().strip()
        self.until("the cluster is ready", lambda: self.call("GET", "/readyz")[0] == 200)
        key = f"group-{self.GROUP}.key"
        (self.directory / "executor").mkdir()
        shutil.copy2(self.directory / "admin" / key, self.directory / "executor" / key)
        self.start("executor", "executor")
        self.start("producers", "producers")
        self.start("logs", "logs")
        return self

    def until(self, what, look):
        return until(what, look, self.goes_on)

    def goes_on(self):
        for name, role in self.roles.items():
            if role.poll() is not None:
                fail(f"{name} has ended: {self.lines(name)[-2000:]}")
