#!/usr/bin/env python3
"""Events on standard input, one a line; on standard output each of them once, by `source`, and in the order of its `id`.

For what is delivered at least once and keeps no state to tell repeats by, such as the file that Kafka Connect writes.
"""

import json
import sys


def place(event):
    return event["source"], *map(int, event["id"].split("-"))


def main():
    events = {}
    for line in sys.stdin:
        event = json.loads(line)
        events.setdefault(place(event), line)
    for key in sorted(events):
        sys.stdout.write(events[key])


if __name__ == "__main__":
    main()
