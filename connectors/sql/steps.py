"""The schema of a server, step by step, recorded; one migration at a time."""

from collections.abc import Sequence

from sluicegate.connectors.sql import tables, texts
from sluicegate.connectors.sql.server import Server, Session
from sluicegate.streams.errors import SystemNotReady


def outstanding(server: Server, db: Session) -> Sequence[int]:
    """The steps that this database lacks, from 1. Raises SystemNotReady when it is ahead of this program."""
    exists = db.rows(server.product.steps_exist)[0][0]
    done = {number for (number,) in db.rows(texts.STEPS_DONE)} if exists else set()
    if done and max(done) > len(tables.STEPS):
        raise SystemNotReady(f"the store's schema is at step {max(done)}, this program knows {len(tables.STEPS)}: use a newer one")
    return [number for number in range(1, len(tables.STEPS) + 1) if number not in done]


def names(numbers: Sequence[int]) -> Sequence[str]:
    return [tables.STEPS[number - 1][0] for number in numbers]


def apply(server: Server, new_name: str) -> Sequence[str]:
    """Do what is outstanding; returns the names of the steps done."""

    def work(db: Session) -> Sequence[int]:
        product = server.product
        db.run(tables.created(tables.STEP, product.dialect))
        steps = outstanding(server, db)
        for number in steps:
            for text in tables.texts(number, product.dialect):
                db.run(text)
            db.run(texts.STEP_DONE, (number, tables.STEPS[number - 1][0], db.rows(product.now)[0][0]))
        db.run(product.if_absent(texts.NAME_DATA), (new_name,))
        return steps

    return names(server.run(work, server.product.begin_migrating, server.product.end_migrating))
