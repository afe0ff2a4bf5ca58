"""The schedules of the file as timeouts that recur: one row of the store for each.

The row is there as long as the file has the schedule: the next time takes the place of the one that is emitted, in one
transaction. A changed schedule is another row, because its id is made of all that the file says of it. So a process
that starts inserts a row only for what is new, and no time of a row can be inserted again.
"""

from datetime import datetime
from typing import Protocol

from sluicegate.streams.agent import App, RecurringMessage
from sluicegate.streams.contracts.ids import schedule_id
from sluicegate.streams.contracts.leased import Scheduling, TimeoutReading
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.recurring import recurrence

MOST = 10_000  # rows of an app, those of earlier files among them


class ScheduleRows(Scheduling, TimeoutReading, Protocol):
    """The methods of the timeout store that this file uses."""


def owner_of(app: str) -> str:
    """The owner of the rows."""
    return f"{app}/schedules"


def arranged(timeouts: ScheduleRows, app: App, now: datetime) -> None:
    """Cancel the rows that the file has no more, and insert those that are new: their first time is the next one after
    `now`. Raises PersistenceError, also when another process inserted the same row meanwhile: then it is there at the
    next call."""
    stored = {each.id for each in timeouts.find(owner=owner_of(app.name), limit=MOST)}
    wanted = [_row(app.name, schedule, now) for schedule in app.schedules]
    for id in stored - {each.id for each in wanted}:
        timeouts.cancel(id)
    timeouts.insert(*(each for each in wanted if each.id not in stored))


def _row(app: str, schedule: RecurringMessage, now: datetime) -> Timeout:
    parts = schedule.name, schedule.every, schedule.topic, schedule.value, schedule.key
    key = None if schedule.key is None else schedule.key.encode()
    due = recurrence(schedule.every).following(now, now)
    value, owner = schedule.value.encode(), owner_of(app)
    return Timeout(schedule_id(app, *parts), schedule.topic, due, key, value, owner=owner, every=schedule.every)
