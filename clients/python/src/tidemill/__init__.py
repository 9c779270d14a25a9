"""The client of Tidemill, an event-sourced scheduler for data platforms.

`Client` blocks, `AsyncClient` is for asyncio; both have the same methods. What goes wrong is a `TidemillError`.
"""

from .aio import AsyncClient
from .client import Client
from .errors import BadAnswer, BadField, BadValue, NotInTime, Refused, TidemillError, Unavailable, UnknownOutcome
from .flow import Retry
from .models import Applied, Batch, Change, Condition, Event, Grant, Job, LogEvent, Pulled, Run, Written
from .version import __version__
from .worker import Counts, Stopped, Task

__all__ = [
    "Applied",
    "AsyncClient",
    "BadAnswer",
    "BadField",
    "BadValue",
    "Batch",
    "Change",
    "Client",
    "Condition",
    "Counts",
    "Event",
    "Grant",
    "Job",
    "LogEvent",
    "NotInTime",
    "Pulled",
    "Refused",
    "Retry",
    "Run",
    "Stopped",
    "Task",
    "TidemillError",
    "Unavailable",
    "UnknownOutcome",
    "Written",
    "__version__",
]
