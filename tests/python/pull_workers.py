#!/usr/bin/env python3
"""Pull workers for `make chaos` (API-8, PUL-7, PUL-13): the client of Python (clients/python) does tasks while interfaces, owners and
Redis are struck.

    pull_workers.py install DIR                   builds the wheel and installs it in DIR; prints the Python that has it
    pull_workers.py threads|asyncio DIR USER…     works for these users until SIGTERM; prints what `work` gives, as JSON

The second form runs with that Python. TIDEMILL_SERVER and TIDEMILL_KEY say where. Nothing here repeats a call or waits for a server: that is
the client's. What the workers do is in DIR/witness, a line for each step, in one write: task, grant, user, milliseconds since 1970, and
`begun`, `done` or `failed`. tests/chaos/src/doings.rs judges them.
"""

import asyncio
import dataclasses
import json
import logging
import os
import pathlib
import sys
import time


class Witness:
    """What is done, on disk before it is told to anybody."""

    def __init__(self, directory):
        self.directory = directory
        self.file = os.open(directory / "witness", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step(self, task, word):
        line = f"{task.grant.task} {task.grant.grant} {task.user} {time.time_ns() // 1_000_000} {word}\n".encode()
        if os.write(self.file, line) != len(line):
            raise OSError(f"the witness took a part of {line}")

    def is_first(self, task):
        """Whether nobody has begun this task before, in any process."""
        try:
            os.close(os.open(self.directory / "begun" / str(task.grant.task), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def doing(witness, task):
    """A task as a generator, which yields the seconds to work; whoever drives it waits in its own way."""
    witness.step(task, "begun")
    manner, work_s = task.parameters["manner"], task.parameters["work_ms"] / 1000
    is_first = witness.is_first(task)
    if manner == "overtime" and is_first:
        # A careless worker: it goes on behind the end of its lease, and says that it is done.
        work_s += task.left_s() or 0
    yield work_s
    if manner == "fails" and is_first:
        witness.step(task, "failed")
        raise RuntimeError("this task fails the first time")
    witness.step(task, "done")
    return f"task {task.grant.task} by grant {task.grant.grant}"


def with_threads(witness, users):
    import tidemill

    def function(task):
        steps = doing(witness, task)
        while True:
            try:
                time.sleep(next(steps))
            except StopIteration as end:
                return end.value

    with tidemill.Client() as client:
        return client.work(users, function)


async def with_asyncio(witness, users):
    import tidemill

    async def function(task):
        steps = doing(witness, task)
        while True:
            try:
                seconds = next(steps)
            except StopIteration as end:
                return end.value
            await asyncio.sleep(seconds)

    async with tidemill.AsyncClient() as client:
        return await client.work(users, function)


def main():
    form, directory, *users = sys.argv[1:]
    directory = pathlib.Path(directory)
    if form == "install":
        from client_test import install

        print(install(directory))
        return
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    (directory / "begun").mkdir(exist_ok=True)
    witness = Witness(directory)
    counts = with_threads(witness, users) if form == "threads" else asyncio.run(with_asyncio(witness, users))
    print(json.dumps(dataclasses.asdict(counts)))


if __name__ == "__main__":
    main()
