"""The steps that make the collections. A released step never changes: a new one is added. Each step may run several
times, and in two processes at once. A step that was killed half-way is finished by the next run."""

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from pymongo import IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from sluicegate.connectors.mongodb.connection import MongoDatabase
from sluicegate.streams.contracts.lanes import LANES
from sluicegate.streams.errors import SystemNotReady

META, CLAIM, CHANGELOG = "sluicegate_meta", "sluicegate_claim", "sluicegate_changelog"
OUTBOX, DEAD, STEP = "sluicegate_outbox", "sluicegate_dead", "sluicegate_step"
COLD = "sluicegate_cold"
LOCK, BUFFER, KEY, GROUP = "sluicegate_lock", "sluicegate_buffer", "sluicegate_buffer_key", "sluicegate_buffer_group"
SEALED, POSITION, EARLY = "sluicegate_buffer_sealed", "sluicegate_watermark", "sluicegate_buffer_early"
TIMEOUT, MESSAGE = "sluicegate_timeout", "sluicegate_message"
LEASED = 2
"""The step that the leased contracts need."""
NAMESPACE_EXISTS = 48
SAME_INDEX = (85, 86)
"""An index with these fields, or of this name, exists with other options. It is kept: an operator may have made it.
Correctness depends only on the unique index of the outbox's ids."""


def _collections(data: MongoDatabase) -> None:
    for name in (META, CLAIM, CHANGELOG, OUTBOX, DEAD):
        _create(data, name)


def _leased(data: MongoDatabase) -> None:
    for name in (LOCK, POSITION):
        _create(data, name)
    # Each index costs the server a quarter of an update, whether the update changes it or not. So there are few.
    _create(
        data,
        BUFFER,
        IndexModel([("name", 1), ("key", 1)], unique=True),
        IndexModel([("name", 1), ("correlation", 1)]),
        IndexModel([("name", 1), ("group", 1), ("batch", 1), ("_id", 1), ("type", 1)]),
        IndexModel([("token", 1)], sparse=True),
    )
    _create(data, KEY, IndexModel([("until", 1)], expireAfterSeconds=0))
    _create(data, GROUP, IndexModel([("name", 1), ("deadline", 1)]))
    _create(data, SEALED, IndexModel([("name", 1), ("expires_at", 1)]), IndexModel([("token", 1)]))
    _create(data, TIMEOUT, IndexModel([("due", 1), ("_id", 1)]), IndexModel([("owner", 1)], sparse=True))
    _create(
        data,
        MESSAGE,
        IndexModel([("ids", 1)], unique=True),
        IndexModel([("token", 1)], sparse=True),
        IndexModel([("state", 1), ("lane", 1), ("numbered", 1), ("first", 1)]),
        IndexModel([("state", 1), ("oldest", 1)]),
        IndexModel([("state", 1), ("dispatched_at", 1)]),
        IndexModel([("state", 1), ("lanes", 1)]),
    )
    with suppress(DuplicateKeyError):
        data[META].insert_one({"_id": "outbox", "lanes": LANES, "last": 0})


def _timeouts(data: MongoDatabase) -> None:
    due = IndexModel([("app", 1), ("due", 1), ("_id", 1)])
    scheduled = IndexModel([("app", 1), ("scheduled", 1)], partialFilterExpression={"scheduled": {"$exists": True}})
    _create(data, TIMEOUT, due, scheduled)


def _kept_keys(data: MongoDatabase) -> None:
    _create(data, KEY, IndexModel([("_id.name", 1), ("until", 1)]))


def _cold(data: MongoDatabase) -> None:
    _create(data, COLD, IndexModel([("_id.partition", 1), ("due", 1), ("_id.key", 1)]))


def _given_deadlines(data: MongoDatabase) -> None:
    counted = IndexModel([("name", 1), ("since", 1)], partialFilterExpression={"since": {"$exists": True}})
    _create(data, GROUP, counted)


def _early(data: MongoDatabase) -> None:
    _create(data, EARLY, IndexModel([("name", 1), ("due", 1)]))


STEPS: tuple[tuple[str, Callable[[MongoDatabase], None]], ...] = (
    ("collections for claims, changelog, outbox and dead rows", _collections),
    ("collections and indexes for buffers, timeouts and the outbox of applications", _leased),
    ("indexes for the app of a timeout, and for when it was scheduled", _timeouts),
    ("index for how long the keys of a buffer are kept", _kept_keys),
    ("collection for cold groups", _cold),
    ("index for deadlines that the records of a buffer give", _given_deadlines),
    ("collection for early results of the groups of a buffer", _early),
)


def _create(data: MongoDatabase, name: str, *indexes: IndexModel) -> None:
    try:
        data.create_collection(name, check_exists=False)
    except OperationFailure as error:
        if error.code != NAMESPACE_EXISTS:
            raise
    if indexes:
        _index(data, name, list(indexes))


def _index(data: MongoDatabase, name: str, indexes: list[IndexModel]) -> None:
    try:
        data[name].create_indexes(indexes)
    except OperationFailure as error:
        alone = len(indexes) == 1
        if error.code not in SAME_INDEX or (alone and name == MESSAGE and indexes[0].document.get("unique")):
            raise
        for index in () if alone else indexes:
            _index(data, name, [index])


def outstanding(data: MongoDatabase) -> Sequence[tuple[int, str, Callable[[MongoDatabase], None]]]:
    """The steps that are still to be done, numbered from 1. Raises SystemNotReady when the data are newer than this
    program."""
    done = {step["_id"] for step in data[STEP].find({}, {"_id": 1})}
    if done and max(done) > len(STEPS):
        raise SystemNotReady(
            f"the store's schema is at step {max(done)}, this program knows {len(STEPS)}: use a newer one"
        )
    return [(number, name, work) for number, (name, work) in enumerate(STEPS, 1) if number not in done]


def apply(data: MongoDatabase) -> Sequence[str]:
    """Does the outstanding steps, and names the data if they have no name. Returns the steps that no other process did
    meanwhile."""
    done = []
    for number, name, work in outstanding(data):
        work(data)
        with suppress(DuplicateKeyError):
            data[STEP].insert_one({"_id": number, "name": name})
            data[STEP].update_one({"_id": number}, {"$currentDate": {"done_at": True}})
            done.append(name)
    name_data(data)
    return done


def name_data(data: MongoDatabase) -> str:
    """Returns the data's name, after giving them the new one if they have none. Raises SystemNotReady before the first
    `migrate`."""
    name = incarnation(data)
    if name is None:
        if data[STEP].find_one() is None:
            raise SystemNotReady("the store has no collections yet: run `sluicegate migrate`")
        with suppress(DuplicateKeyError):
            data[META].insert_one({"_id": "incarnation", "value": uuid.uuid4().hex})
        name = incarnation(data)
    return str(name)


def incarnation(data: MongoDatabase) -> str | None:
    document = data[META].find_one({"_id": "incarnation"})
    return str(document["value"]) if document else None
