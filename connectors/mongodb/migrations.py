"""The collections, step by step. A step that was released never changes: a new one is added. Each may be run again and again, and by
two at once: a step that was killed half-way is finished by the next run."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pymongo.database import Database
from pymongo.errors import CollectionInvalid, DuplicateKeyError, OperationFailure

from streams.errors import SystemNotReady

META, CLAIM, CHANGELOG = "sluicegate_meta", "sluicegate_claim", "sluicegate_changelog"
OUTBOX, DEAD, STEP = "sluicegate_outbox", "sluicegate_dead", "sluicegate_step"
NAMESPACE_EXISTS = 48

Data = Database[dict[str, Any]]


def _collections(data: Data) -> None:
    for name in (META, CLAIM, CHANGELOG, OUTBOX, DEAD):
        _create(data, name)


STEPS: tuple[tuple[str, Callable[[Data], None]], ...] = (("collections for claims, changelog, outbox and dead rows", _collections),)


def _create(data: Data, name: str) -> None:
    try:
        data.create_collection(name, check_exists=False)
    except CollectionInvalid:
        return
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:
            raise


def outstanding(data: Data) -> Sequence[tuple[int, str, Callable[[Data], None]]]:
    """The steps that these data lack, numbered from 1. Raises SystemNotReady when they are ahead of this program."""
    done = {step["_id"] for step in data[STEP].find({}, {"_id": 1})}
    if done and max(done) > len(STEPS):
        raise SystemNotReady(f"the store's schema is at step {max(done)}, this program knows {len(STEPS)}: use a newer one")
    return [(number, name, work) for number, (name, work) in enumerate(STEPS, 1) if number not in done]


def apply(data: Data, new_name: str) -> Sequence[str]:
    """Do what is outstanding and name the data if they have no name; returns the steps that nobody else did meanwhile."""
    done = []
    for number, name, work in outstanding(data):
        work(data)
        with suppress(DuplicateKeyError):
            data[STEP].insert_one({"_id": number, "name": name})
            data[STEP].update_one({"_id": number}, {"$currentDate": {"done_at": True}})
            done.append(name)
    name_data(data, new_name)
    return done


def name_data(data: Data, new_name: str) -> str:
    """The name of the data: the one they have, else the new one. Raises SystemNotReady before the first `migrate`."""
    found = incarnation(data)
    if found is None:
        if data[STEP].find_one() is None:
            raise SystemNotReady("the store has no collections yet: run `sluicegate migrate`")
        with suppress(DuplicateKeyError):
            data[META].insert_one({"_id": "incarnation", "value": new_name})
        found = incarnation(data)
    return str(found)


def incarnation(data: Data) -> str | None:
    found = data[META].find_one({"_id": "incarnation"})
    return str(found["value"]) if found else None
