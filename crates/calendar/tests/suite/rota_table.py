#!/usr/bin/env python3
"""Writes rota_table.txt: who is on call over a year, by Python's zoneinfo and a walk along the clock, minute by minute.

It shares nothing with the program that is tested, not even the time-zone data. A rota's line is its JSON, and each line
after it a shift: FROM UNTIL the people. `-` is nobody.

Run it again only to add rotas: python3 rota_table.py > rota_table.txt
"""

import json
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


def shown(at):
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def override(begin, end, *people):
    return {"from": begin, "to": end, "people": list(people)}


# Turns are 14 days from a Sunday 02:30: the clock leaves out that of 29 March, and shows that of 25 October twice.
BERLIN = {
    "zone": "Europe/Berlin", "starts": "2026-01-04T02:30:00", "days": 14,
    "turns": [["ada", "bob"], ["bob", "cleo"], ["cleo", "ada"]],
    "overrides": [
        override("2026-12-20T09:00:00", "2027-01-03T09:00:00", "eve"),      # over the end of a turn, and of the year
        override("2026-03-29T02:15:00", "2026-03-29T12:00:00", "dan", "ada"),  # begins in the gap
        override("2026-02-01T02:30:00", "2026-02-03T00:00:00", "dan"),      # begins with a turn
        override("2026-02-03T00:00:00", "2026-02-04T00:00:00", "eve", "dan"),  # follows at once
        override("2026-10-25T02:30:00", "2026-10-25T02:45:00", "eve"),      # within an overlap: its first pass
        override("2026-03-29T02:10:00", "2026-03-29T02:15:00", "eve"),      # within a gap: never
        override("2025-12-01T00:00:00", "2026-01-04T12:00:00", "eve"),      # from before the first turn
    ],
}
# Turns are 7 days from a Monday 09:00: those with a change of the clock are 167 and 169 hours.
NEW_YORK = {
    "zone": "America/New_York", "starts": "2026-01-05T09:00:00", "days": 7,
    "turns": [["ada", "bob"], ["bob"]],
    "overrides": [override("2026-07-03T17:00:00", "2026-07-06T09:00:00", "cleo", "bob")],
}
# Turns are a day, at a time of day that comes twice on 5 April, and is left out on 4 October, by half an hour.
LORD_HOWE = {
    "zone": "Australia/Lord_Howe", "starts": "2026-04-01T01:45:00", "days": 1, "turns": [["ada"], ["bob"], ["cleo"]],
    "overrides": [],
}


def people_by_the_minute(rota, begin, end):
    zone = ZoneInfo(rota["zone"])
    local = lambda at: at.astimezone(zone).replace(tzinfo=None)
    moments = [(datetime.fromisoformat(o["from"]), datetime.fromisoformat(o["to"]), o["people"]) for o in rota["overrides"]]
    next_turn, turn = datetime.fromisoformat(rota["starts"]), -1
    newest = local(begin - timedelta(days=3))
    at = begin - timedelta(days=3)
    while at < end:
        # What the clock has shown already it does not show for the first time.
        newest = max(newest, local(at))
        while newest >= next_turn:
            turn, next_turn = turn + 1, next_turn + timedelta(days=rota["days"])
        others = [people for first, last, people in moments if first <= newest < last]
        people = [] if turn < 0 else others[0] if others else rota["turns"][turn % len(rota["turns"])]
        if at >= begin:
            yield at, turn if turn < 0 or not others else others[0], people
        at += MINUTE


for rota, begin, end in [
    (BERLIN, datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2027, 1, 5, tzinfo=timezone.utc)),
    (NEW_YORK, datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2027, 1, 5, tzinfo=timezone.utc)),
    (LORD_HOWE, datetime(2026, 4, 2, tzinfo=timezone.utc), datetime(2026, 4, 9, tzinfo=timezone.utc)),
    (LORD_HOWE, datetime(2026, 10, 1, tzinfo=timezone.utc), datetime(2026, 10, 8, tzinfo=timezone.utc)),
]:
    print(json.dumps(rota))
    first = before = None
    for at, what, people in people_by_the_minute(rota, begin, end):
        if what != before:
            if first is not None:
                print(shown(first), shown(at), *(listed or "-"))
            first, before, listed = at, what, people
    print(shown(first), shown(end), *(listed or "-"))
