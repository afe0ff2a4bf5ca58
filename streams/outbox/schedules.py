"""The schedules of the file as recurring timeouts: one row of the store for each.

The row exists as long as the file has the schedule: when a time is emitted, the next time replaces it in the same
transaction. A changed schedule is another row, because its id is derived from all of its settings. So a starting
process inserts rows only for new schedules, and never inserts the time of an existing row again.
"""

from datetime import datetime
from typing import Protocol

from sluicegate.streams.agent import App, RecurringMessage
from sluicegate.streams.contracts.ids import schedule_id
from sluicegate.streams.contracts.leased import Scheduling, TimeoutReading
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.recurring import recurrence

MOST = 10_000  # rows of an app, including rows of earlier files


class ScheduleRows(Scheduling, TimeoutReading, Protocol):
    """The methods of the timeout store that this file uses."""


def owner_of(app: str) -> str:
    """The owner name of the rows."""
    return f"{app}/schedules"


def arranged(timeouts: ScheduleRows, app: App, now: datetime) -> None:
    """Cancel rows of schedules that the file no longer has, and insert rows for new ones. Their first time is the next
    one after `now`. Raises PersistenceError, also if another process inserted the same row at the same time: the next
    call then finds it."""
    stored = {timeout.id for timeout in timeouts.find(owner=owner_of(app.name), limit=MOST)}
    wanted = [_row(app.name, schedule, now) for schedule in app.schedules]
    for id in stored - {timeout.id for timeout in wanted}:
        timeouts.cancel(id)
    timeouts.insert(*(timeout for timeout in wanted if timeout.id not in stored))


def _row(app: str, schedule: RecurringMessage, now: datetime) -> Timeout:
    parts = schedule.name, schedule.every, schedule.topic, schedule.value, schedule.key
    key = None if schedule.key is None else schedule.key.encode()
    due = recurrence(schedule.every).following(now, now)
    value, owner = schedule.value.encode(), owner_of(app)
    return Timeout(schedule_id(app, *parts), schedule.topic, due, key, value, owner=owner, every=schedule.every)
