"""Migrates the schema step by step and records each step. A lock keeps other migrations out."""

import uuid
from collections.abc import Sequence

from sluicegate.connectors.sql import statements, tables
from sluicegate.connectors.sql.database import Database, Product, StoreSession
from sluicegate.streams.errors import SystemNotReady


def outstanding(product: Product, db: StoreSession) -> Sequence[int]:
    """The numbers, from 1, of the steps that this database lacks. Raises SystemNotReady when it is newer than this
    program."""
    exists = db.rows(product.steps_exist)[0][0]
    done = {number for (number,) in db.rows(statements.STEPS_DONE)} if exists else set()
    if done and max(done) > len(tables.STEPS):
        raise SystemNotReady(
            f"the store's schema is at step {max(done)}, this program knows {len(tables.STEPS)}: use a newer one"
        )
    return [number for number in range(1, len(tables.STEPS) + 1) if number not in done]


def planned(database: Database) -> Sequence[str]:
    """The names of the steps that `apply` would run."""
    product = database.product
    if not product.exists():
        return [step.name for step in tables.STEPS]
    return _names(database.run(lambda db: outstanding(product, db)))


def _add(product: Product, db: StoreSession, addition: tables.Addition) -> None:
    if not db.rows(product.column_exists, (addition.table, addition.columns[0].name)):
        for text in tables.added(addition, product.dialect):
            db.run(text)


def _names(numbers: Sequence[int]) -> Sequence[str]:
    return [tables.STEPS[number - 1].name for number in numbers]


def apply(database: Database) -> Sequence[str]:
    """Run the outstanding steps; returns their names."""
    product = database.product

    def work(db: StoreSession) -> Sequence[int]:
        db.run(tables.created(tables.STEP, product.dialect))
        steps = outstanding(product, db)
        for number in steps:
            for text in tables.texts(number, product.dialect):
                db.run(text)
            for addition in tables.STEPS[number - 1].additions:
                _add(product, db, addition)
            db.run(statements.STEP_DONE, (number, tables.STEPS[number - 1].name, product.now(db.rows)))
        db.run(product.if_absent(statements.NAME_DATA), (uuid.uuid4().hex,))
        return steps

    with database.translated():
        product.create()
    return _names(database.run(work, product.begin_migrating, product.end_migrating))
