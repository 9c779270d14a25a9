"""Times in what the service says have exactly three digits after the second, and `Z`: what everybody who reads JSON looks for.

A text that is a date and a time of RFC 3339 is taken for a time, wherever it stands, as a member's name too. Of a refusal
the `value` beside `field` and `rule` is left out: it is what was given, as it was given.
"""

import re

DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
THREE_DIGITS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
QUOTES = {"field", "value", "rule"}
# Each is the same time, and each has to be found.
BAD = [
    "2026-01-02T03:04:05Z",
    "2026-01-02T03:04:05.0Z",
    "2026-01-02T03:04:05.000000Z",
    "2026-01-02T03:04:05.000000000Z",
    "2026-01-02T03:04:05.000+00:00",
    "2026-01-02T04:04:05.000+01:00",
    "2026-01-02t03:04:05.000z",
    "2026-01-02 03:04:05.000Z",
]


def texts(value, place="$"):
    """All texts in it, names of members too, each with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, f"{place}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield f"{place}.{name} (its name)", name
            if not (name == "value" and value.keys() == QUOTES):
                yield from texts(item, f"{place}.{name}")


def looked_at(value):
    """How many times are in it, and which of them are not as they should be, each with its place."""
    times = [(place, text) for place, text in texts(value) if DATE_TIME.fullmatch(text)]
    return len(times), [f"{place}: {text}" for place, text in times if not THREE_DIGITS.fullmatch(text)]


def itself():
    """What is said above, of values whose every time is known; nothing: it is so."""
    good = "2026-01-02T03:04:05.006Z"
    for bad in BAD:
        for value in (bad, [good, bad], {"a": {"b": [{"c": bad}]}}, {bad: 1}, {"field": "f", "value": 1, "rule": bad}):
            if len(looked_at(value)[1]) != 1:
                return f"{bad} is not found in {value}"
        if looked_at({"field": "f", "value": bad, "rule": "r"}) != (0, []):
            return f"{bad} is found where it is quoted"
    if looked_at([good, {"at": good}, "2026-01-02", "03:04:05Z", "at 2026-01-02T03:04:05Z", 5, None]) != (2, []):
        return "times that are as they should be are not counted right"
    return None
