#!/usr/bin/env python3
"""Writes the bundled extract to standard output: an invented project's history.

Always the same: a seed of its own, and no more than `random()` of the generator.
    bundled/generate.py | gzip -9n > bundled/history.tsv.gz
"""

import datetime
import hashlib
import random
import sys

COMMITS = 600
AUTHORS = ["Ada Marsh", "Bo Lindqvist", "Chen Wei", "Dora Klein", "Emeka Obi", "Fay Ríos"]
AREAS = ["intake", "parser", "store", "report", "web", "cli", "deploy"]
FILES = ["mod.rs", "table.rs", "error.rs", "tests.rs", "config.rs", "README.md"]
VERBS = ["fix", "add", "simplify", "speed up", "test", "rename", "document", "remove", "guard"]
EXTERNAL_DEPENDENCIES = [
    "empty input", "retry after a timeout", "the date filter", "column order", "the hourly summary",
    "duplicate rows", "a slow query", "the log line", "time zone handling", "the error message",
    "unused options", "paging", "the nightly check", "a race at shutdown", "UTF-8 names",
]  # fmt: skip


def main():
    source = random.Random(20140101)

    def below(bound):
        return int(source.random() * bound)

    def skewed(items):
        return items[int(len(items) * source.random() ** 2)]

    zone = datetime.timezone(datetime.timedelta(hours=1))
    now = datetime.datetime(2024, 1, 8, 9, 0, tzinfo=zone)
    history = []
    for number in range(COMMITS):
        now += datetime.timedelta(minutes=20 + below(900))
        while now.weekday() >= 5 and below(10) > 0:
            now += datetime.timedelta(days=1)
        area = skewed(AREAS)
        subject = f"{area}: {skewed(VERBS)} {skewed(EXTERNAL_DEPENDENCIES)}"
        digest = hashlib.sha1(f"{number} {subject} {now}".encode()).hexdigest()
        entry = [f"C\t{digest}\t{now.isoformat()}\t{skewed(AUTHORS)}\t{subject}"]
        paths = {f"src/{area}/{skewed(FILES)}" for _ in range(1 + below(4))}
        if below(8) == 0:
            paths.add("CHANGELOG.md")
        for path in sorted(paths):
            entry.append(f"F\t{digest}\t{1 + int(120 * source.random() ** 3)}\t{int(60 * source.random() ** 3)}\t{path}")
        history.append(entry)
    sys.stdout.reconfigure(encoding="utf-8")
    for entry in reversed(history):
        print("\n".join(entry))


if __name__ == "__main__":
    main()
