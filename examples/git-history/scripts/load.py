"""Loads what two analyses wrote into the tables of history.db.

One transaction replaces the rows of one logical time, so a load that is
repeated, by a retry or a rerun, leaves the same tables.
"""

import os
import sqlite3

import history
from attempt import EXIT_INPUT, attempt, fail, setting, work_dir

TABLES = {
    "commits-per-day": ("commits_per_day", "day TEXT, commits INTEGER, authors INTEGER"),
    "churn-per-file": ("churn_per_file", "path TEXT, commits INTEGER, added INTEGER, deleted INTEGER"),
    "authors": (
        "authors",
        "author TEXT, commits INTEGER, added INTEGER, deleted INTEGER, first_day TEXT, last_day TEXT",
    ),
    "message-words": ("message_words", "word TEXT, uses INTEGER"),
}
LOADS = {
    "load-1": ("commits-per-day", "churn-per-file"),
    "load-2": ("authors", "message-words"),
}


def replace_rows(database, analysis, logical_time, rows):
    table, columns = TABLES[analysis]
    key = columns.split()[0]
    database.execute(
        f"CREATE TABLE IF NOT EXISTS {table} "
        f"(logical_time TEXT NOT NULL, {columns}, PRIMARY KEY (logical_time, {key})) WITHOUT ROWID"
    )
    database.execute(f"DELETE FROM {table} WHERE logical_time = ?", (logical_time,))
    marks = ", ".join("?" * (1 + columns.count(",") + 1))
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", ([logical_time, *row] for row in rows))


def note_load(database, job, logical_time, rows):
    database.execute(
        "CREATE TABLE IF NOT EXISTS loads "
        "(logical_time TEXT NOT NULL, job TEXT NOT NULL, run INTEGER, token TEXT, rows INTEGER, "
        "PRIMARY KEY (logical_time, job)) WITHOUT ROWID"
    )
    database.execute(
        "INSERT OR REPLACE INTO loads VALUES (?, ?, ?, ?, ?)",
        (logical_time, job, int(setting("TIDEMILL_RUN")), setting("TIDEMILL_TOKEN"), rows),
    )


def load(job):
    logical_time = setting("TIDEMILL_LOGICAL_TIME")
    results = {analysis: history.read_output(analysis) for analysis in LOADS[job]}
    path = os.path.join(work_dir(), "history.db")
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        database.execute("BEGIN IMMEDIATE")
        for analysis, rows in results.items():
            replace_rows(database, analysis, logical_time, rows)
        count = sum(len(rows) for rows in results.values())
        note_load(database, job, logical_time, count)
        database.execute("COMMIT")
    finally:
        database.close()
    print(f"{count} rows loaded into {path}")


def main():
    with attempt():
        job = setting("TIDEMILL_JOB")
        if job not in LOADS:
            fail(EXIT_INPUT, f"no load of this name; there are: {', '.join(LOADS)}")
        load(job)


if __name__ == "__main__":
    main()
