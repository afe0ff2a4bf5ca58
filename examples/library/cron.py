"""A cron job: whoever has not paid gets a reminder tomorrow at nine. Run twice, each reminder is sent once.

    python -m examples.library.cron sqlite:///shop.db 2026-11-30 o-1 o-2

`sluicegate run` on the same store sends a reminder to the topic `reminders` when it is due.
"""

import sys
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from sluicegate import PersistenceError, Timeout, open_store


def remind(store: Any, day: str, orders: list[str]) -> int:
    """How many reminders are new."""
    due_at = datetime.combine(datetime.fromisoformat(day).date() + timedelta(days=1), time(9), UTC)
    new = 0
    for order in orders:
        reminder = Timeout(
            uuid5(NAMESPACE_OID, f"reminder/{order}/{day}"), "reminders", due_at, key=order.encode(), owner=order
        )
        try:
            store.timeouts.insert(reminder)
            new += 1
        except PersistenceError as error:
            if "already exists" not in str(error):
                raise
    return new


if __name__ == "__main__":
    url, day, *orders = sys.argv[1:]
    store = open_store(url)
    store.migrate()
    print(remind(store, day, orders))
    store.close()
