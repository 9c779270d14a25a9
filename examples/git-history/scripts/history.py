"""The extract (history.tsv) and the outputs of the analyses.

The extract has one line per commit and one per file that it touched:

    C  hash  author date (RFC 3339)  author  subject
    F  hash  lines added  lines deleted  path
"""

import collections
import os

from attempt import EXIT_INPUT, fail, logical_time_name, setting, work_dir

Commit = collections.namedtuple("Commit", "hash date author subject")
Touch = collections.namedtuple("Touch", "hash added deleted path")


def lines():
    """Every line of the extract as a Commit or a Touch."""
    path = os.path.join(work_dir(), "history.tsv")
    with open(path, encoding="utf-8", errors="replace", newline="\n") as extract:
        for number, line in enumerate(extract, start=1):
            fields = line.rstrip("\n").split("\t")
            if len(fields) != 5 or fields[0] not in ("C", "F"):
                fail(EXIT_INPUT, f"{path}:{number}: neither a commit nor a file line")
            if fields[0] == "C":
                yield Commit(*fields[1:])
            else:
                yield Touch(fields[1], int(fields[2]), int(fields[3]), fields[4])


def commits():
    return (line for line in lines() if isinstance(line, Commit))


def output_path(job):
    """Where a job's result for this logical time is."""
    return os.path.join(work_dir(), "out", job, f"{logical_time_name()}.tsv")


def write_output(rows):
    """Writes this job's result: whole or not at all, also when two write."""
    path = output_path(setting("TIDEMILL_JOB"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = f"{path}.{os.getpid()}.partial"
    count = 0
    with open(partial, "w", encoding="utf-8", newline="\n") as output:
        for row in rows:
            output.write("\t".join(str(field) for field in row) + "\n")
            count += 1
        output.flush()
        os.fsync(output.fileno())
    os.replace(partial, path)
    print(f"{count} rows written to {path}")


def read_output(job):
    """The rows that a parent wrote for this logical time."""
    path = output_path(job)
    try:
        with open(path, encoding="utf-8", newline="\n") as output:
            return [line.rstrip("\n").split("\t") for line in output]
    except FileNotFoundError:
        fail(EXIT_INPUT, f"the parent {job} left no {path}")
