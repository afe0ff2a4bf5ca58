"""The schema, step by step. A step that was released never changes: a new one is added."""

import sqlite3
from collections.abc import Sequence

from sluicegate.connectors.sql import leased_ddl, statements
from sluicegate.streams.errors import SystemNotReady

STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "tables for claims, changelog, outbox and dead rows",
        (statements.META, statements.CLAIMS, statements.CHANGELOG, statements.OUTBOX, statements.DEAD),
    ),
    ("tables for buffers, timeouts and messages of applications", (*leased_ddl.BUFFER, *leased_ddl.TIMEOUTS, *leased_ddl.OUTBOX)),
)


def outstanding(db: sqlite3.Connection) -> Sequence[tuple[int, str, tuple[str, ...]]]:
    """The steps that this database lacks, numbered from 1. Raises SystemNotReady when it is ahead of this program."""
    exists = db.execute(statements.STEPS_EXIST).fetchone()[0]
    done = {number for (number,) in db.execute(statements.STEPS_DONE)} if exists else set()
    if done and max(done) > len(STEPS):
        raise SystemNotReady(f"the store's schema is at step {max(done)}, this program knows {len(STEPS)}: use a newer one")
    return [(number, name, texts) for number, (name, texts) in enumerate(STEPS, 1) if number not in done]


def apply(db: sqlite3.Connection, now: float) -> Sequence[str]:
    """Do what is outstanding, inside the caller's transaction; returns the names of the steps done."""
    db.execute(statements.STEPS)
    done = []
    for number, name, texts in outstanding(db):
        for text in texts:
            db.execute(text)
        db.execute(statements.STEP_DONE, (number, name, now))
        done.append(name)
    return done
