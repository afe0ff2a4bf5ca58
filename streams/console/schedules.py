"""The schedules of the file, each with its next time."""

from typing import Any

from sluicegate.streams.agent import App
from sluicegate.streams.contracts.ids import schedule_id
from sluicegate.streams.contracts.leased import TimeoutReading
from sluicegate.streams.operations.stored_messages import time_text
from sluicegate.streams.outbox.schedules import MOST, owner_of

SHOWN = 100  # schedules of one answer


def schedule_documents(app: App, timeouts: TimeoutReading) -> list[dict[str, Any]]:
    """The schedules in the order of the file. `due_at` None: the store has no row, because no process has started with
    the schedule."""
    if not app.schedules:
        return []
    due = {row.id: row.due_at for row in timeouts.find(owner=owner_of(app.name), limit=MOST)}
    return [
        {
            "name": schedule.name,
            "every": schedule.every,
            "topic": schedule.topic,
            "key": schedule.key,
            "due_at": time_text(
                due.get(
                    schedule_id(app.name, schedule.name, schedule.every, schedule.topic, schedule.value, schedule.key)
                )
            ),
        }
        for schedule in app.schedules[:SHOWN]
    ]
