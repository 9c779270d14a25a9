#!/usr/bin/env python3
"""Writes rotation_table.txt: rotating tasks by Python's zoneinfo and a walk along the clock, minute by minute.

It shares nothing with the program that is tested, not even the time-zone data. Each line of the table:

    minutes N START | days N HH:MM ZONE START ; FROM UNTIL ; why = occurrences in [FROM, UNTIL], or -

Run it again only to add lines: python3 rotation_table.py > rotation_table.txt
"""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def shown(at):
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def by_minutes(space, start, until):
    at = start
    while at <= until:
        yield at
        at += space * MINUTE


def by_days(space, time, zone, start, until):
    """The first minute at which the local clock has reached the time on each n-th date."""
    zone = ZoneInfo(zone)
    local = lambda at: at.astimezone(zone).replace(tzinfo=None)
    hour, minute = map(int, time.split(":"))
    date = local(start).date()
    at = start - timedelta(days=3)
    while at <= until:
        reached = lambda: local(at) >= datetime(date.year, date.month, date.day, hour, minute)
        while reached():
            if at >= start:
                yield at
            date += timedelta(days=space)
        at += MINUTE


CASES = [
    # Every so many minutes.
    ("minutes 1 2025-06-01T00:00:00", "2025-06-01T00:00:00", "2025-06-01T00:03:00", "each minute, the start among them"),
    ("minutes 45 2025-06-01T10:20:00", "2025-06-01T09:00:00", "2025-06-01T12:00:00", "nothing before the start"),
    ("minutes 45 2025-06-01T10:20:00", "2025-06-01T13:20:00", "2025-06-01T14:50:00", "a window that begins and ends on the grid"),
    ("minutes 45 2025-06-01T10:20:00", "2025-06-01T13:21:00", "2025-06-01T14:04:00", "a window between two"),
    ("minutes 1440 2025-03-28T23:30:00", "2025-03-28T00:00:00", "2025-04-01T00:00:00", "a day of minutes is not moved by clocks"),
    ("minutes 10081 2024-02-01T00:00:00", "2024-02-20T00:00:00", "2024-03-10T00:00:00", "over a leap day"),
    ("minutes 527040 2023-01-01T00:00:00", "2023-01-02T00:00:00", "2026-01-10T00:00:00", "the longest space"),
    ("minutes 7 2024-12-31T23:55:00", "2024-12-31T23:58:00", "2025-01-01T00:20:00", "over a year's end"),
    # Every so many days.
    ("days 1 08:00 UTC 2025-06-01T08:00:00", "2025-05-30T00:00:00", "2025-06-03T12:00:00", "a start on the time of day"),
    ("days 1 08:00 UTC 2025-06-01T08:01:00", "2025-05-30T00:00:00", "2025-06-03T12:00:00", "a start just after it"),
    ("days 3 08:00 UTC 2025-06-01T08:01:00", "2025-06-01T00:00:00", "2025-06-11T00:00:00", "the third day counts from the start's"),
    ("days 3 07:00 Asia/Shanghai 2025-05-31T16:30:00", "2025-05-31T00:00:00", "2025-06-08T00:00:00", "the start's day is the zone's"),
    ("days 2 23:59 Pacific/Kiritimati 2025-12-30T09:00:00", "2025-12-29T00:00:00", "2026-01-05T00:00:00", "fourteen hours ahead, over a year's end"),
    ("days 2 00:00 Etc/GMT+12 2025-12-30T13:00:00", "2025-12-30T00:00:00", "2026-01-06T00:00:00", "twelve hours behind, at midnight"),
    ("days 10 12:00 UTC 2025-01-25T00:00:00", "2025-01-25T00:00:00", "2025-03-31T00:00:00", "over a short February"),
    ("days 10 12:00 UTC 2024-01-25T00:00:00", "2024-01-25T00:00:00", "2024-03-31T00:00:00", "over a leap day"),
    ("days 1 12:00 Asia/Shanghai 2024-02-28T00:00:00", "2024-02-28T00:00:00", "2024-03-02T00:00:00", "on a leap day"),
    ("days 31 09:00 Europe/Berlin 2025-01-31T00:00:00", "2025-01-01T00:00:00", "2025-07-01T00:00:00", "31 days are no month"),
    ("days 366 06:00 Europe/London 2023-03-01T00:00:00", "2023-01-01T00:00:00", "2026-04-01T00:00:00", "the longest space"),
    ("days 1 02:30 Europe/Berlin 2025-03-28T00:00:00", "2025-03-28T00:00:00", "2025-04-01T00:00:00", "left out by a gap: right after it"),
    ("days 1 02:00 Europe/Berlin 2025-03-28T00:00:00", "2025-03-29T02:00:00", "2025-03-31T12:00:00", "the first minute of a gap"),
    ("days 1 03:00 Europe/Berlin 2025-03-28T00:00:00", "2025-03-29T02:00:00", "2025-03-31T12:00:00", "the first minute after a gap"),
    ("days 1 02:30 Europe/Berlin 2025-10-25T00:00:00", "2025-10-25T00:00:00", "2025-10-28T00:00:00", "shown twice: the first"),
    ("days 1 02:30 Europe/Berlin 2025-10-26T01:00:00", "2025-10-25T00:00:00", "2025-10-28T00:00:00", "a start between the two"),
    ("days 2 02:30 Europe/Berlin 2025-03-29T00:00:00", "2025-03-29T00:00:00", "2025-04-04T00:00:00", "every second day steps over the gap"),
    ("days 1 01:30 America/New_York 2025-11-01T00:00:00", "2025-11-01T05:30:00", "2025-11-03T06:30:00", "shown twice, west"),
    ("days 7 02:15 America/New_York 2025-02-23T12:00:00", "2025-02-20T00:00:00", "2025-03-24T00:00:00", "weekly on the Sunday of the gap"),
    ("days 1 02:15 Australia/Lord_Howe 2025-10-04T00:00:00", "2025-10-03T00:00:00", "2025-10-06T12:00:00", "a gap of half an hour"),
    ("days 1 01:45 Australia/Lord_Howe 2025-04-04T00:00:00", "2025-04-03T00:00:00", "2025-04-07T12:00:00", "half an hour shown twice"),
    ("days 1 00:00 America/Havana 2025-03-07T00:00:00", "2025-03-07T00:00:00", "2025-03-11T00:00:00", "a gap at midnight"),
    ("days 1 00:30 America/Havana 2025-10-31T12:00:00", "2025-10-31T00:00:00", "2025-11-04T00:00:00", "the hour after midnight shown twice"),
    ("days 1 23:30 America/Sao_Paulo 2018-02-15T12:00:00", "2018-02-15T00:00:00", "2018-02-20T00:00:00", "the hour before midnight shown twice"),
    ("days 1 09:00 Pacific/Apia 2011-12-28T00:00:00", "2011-12-28T00:00:00", "2012-01-02T00:00:00", "a date left out counts, and comes right after it"),
    ("days 2 09:00 Pacific/Apia 2011-12-29T00:00:00", "2011-12-28T00:00:00", "2012-01-05T00:00:00", "the date left out is passed by"),
    ("days 1 00:00 Pacific/Apia 2011-12-29T00:00:00", "2011-12-28T00:00:00", "2012-01-02T00:00:00", "two midnights that are one instant"),
    ("days 1 04:15 Asia/Kathmandu 2025-04-29T00:00:00", "2025-04-29T00:00:00", "2025-05-02T00:00:00", "an offset of 5:45"),
    ("days 4 12:00 Africa/Casablanca 2025-02-20T00:00:00", "2025-02-20T00:00:00", "2025-04-12T00:00:00", "clocks back and forth for a month"),
]

for rule, begin, end, why in CASES:
    kind, number, *rest = rule.split()
    begin, end = utc(begin), utc(end)
    if kind == "minutes":
        found = by_minutes(int(number), utc(rest[0]), end)
    else:
        found = by_days(int(number), rest[0], rest[1], utc(rest[2]), end)
    found = [at for at in found if at >= begin]
    # Two dates of one instant are one occurrence.
    found = [at for k, at in enumerate(found) if k == 0 or at != found[k - 1]]
    listed = " ".join(map(shown, found)) or "-"
    print(f"{rule}Z ; {shown(begin)} {shown(end)} ; {why} = {listed}")
