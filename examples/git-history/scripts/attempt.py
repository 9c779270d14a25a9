"""What every job of this example does around its work.

An attempt holds an exclusive lock named by (job, logical time) for as long as
it lives; the kernel drops the lock however the process ends. An attempt that
finds the lock taken has a live sibling: it says so and fails. Beside that it
appends one line when it starts and one when it ends to attempts.log, so what
really ran can be read from files that the scheduler never touches:

    what  job  logical_time  run  batch  attempt  token  pid  wall_ns  boot_ns  exit

`what` is start, end or overlap; `exit` is the exit code of an `end`, else `-`.
A start without an end was killed. Fields are separated by tabs.
"""

import contextlib
import fcntl
import os
import re
import signal
import sys
import time

EXIT_INPUT = 2
EXIT_BROKEN_ON_PURPOSE = 3
EXIT_OVERLAP = 4


def setting(name):
    """A variable that Tidemill sets for every attempt."""
    value = os.environ.get(name, "")
    if not value:
        fail(EXIT_INPUT, f"{name} is not set: this script runs as a Tidemill job (see selftest.sh)")
    return value


def fail(code, message):
    """Ends the attempt: the message on standard error, then this exit code."""
    print(f"{os.environ.get('TIDEMILL_JOB', '?')}: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def work_dir():
    """The directory of input, outputs and logs: parameter `dir`, else DEMO_DIR."""
    return os.environ.get("TIDEMILL_PARAM_DIR") or setting("DEMO_DIR")


def logical_time_name():
    """The logical time as part of a file name."""
    return re.sub(r"[^0-9A-Za-z+-]", "", setting("TIDEMILL_LOGICAL_TIME"))


def append_line(what, exit_code="-"):
    fields = [
        what,
        setting("TIDEMILL_JOB"),
        setting("TIDEMILL_LOGICAL_TIME"),
        setting("TIDEMILL_RUN"),
        setting("TIDEMILL_BATCH"),
        setting("TIDEMILL_ATTEMPT"),
        setting("TIDEMILL_TOKEN"),
        os.getpid(),
        time.time_ns(),
        time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        exit_code,
    ]
    line = "\t".join(str(field) for field in fields) + "\n"
    log = os.open(os.path.join(work_dir(), "attempts.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(log, line.encode())  # one write: lines of two attempts never mix
    finally:
        os.close(log)


def take_lock():
    directory = os.path.join(work_dir(), "live")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"{setting('TIDEMILL_JOB')}.{logical_time_name()}")
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        append_line("overlap")
        fail(EXIT_OVERLAP, f"another attempt of this job and logical time is alive ({path})")
    return lock


def hold():
    """Waits while the file hold-<job> exists: a way to catch a job in the middle."""
    path = os.path.join(work_dir(), f"hold-{setting('TIDEMILL_JOB')}")
    while os.path.exists(path):
        time.sleep(0.02)


@contextlib.contextmanager
def attempt():
    """The frame of an attempt: lock, start line, the work, end line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    lock = take_lock()
    append_line("start")
    code = 1
    try:
        hold()
        yield
        code = 0
    except SystemExit as end:
        code = end.code
        raise
    finally:
        append_line("end", code)
        os.close(lock)
