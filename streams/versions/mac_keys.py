"""The keys with which the processes of an app sign records, as one entry of a partition that no agent can have.

The first process of the app makes the key under a claim, so every process has the same one. The key is never logged
and never shown: whoever has it can write records that every agent of the app believes.
"""

import secrets
from collections.abc import Callable

import msgspec

from sluicegate.streams.aggregation.entry import CHECKED, framed
from sluicegate.streams.contracts.leased import OutboxStore
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Reader, Store
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ChangelogIncomplete, Fenced, PersistenceError

KEYS = b"\x06"
"""Begins the content of the entry."""
FORMAT = 1
KEY_SIZE = 32
GRACE = 3600.0  # seconds in which processes of an earlier release, which sign nothing, are replaced
ATTEMPTS = 20
OWN = "~"  # in the names of partitions that belong to no agent


class _Keys(msgspec.Struct):
    format: int
    keys: tuple[bytes, ...]
    since: float


def place(app: str) -> Partition:
    return Partition(app, OWN, "keys", 0)


def read(store: Reader, app: str) -> Mac | None:
    """The keys of the app; None: no process has made one. Raises PersistenceError and ChangelogIncomplete."""
    view = store.read(place(app))
    return None if view is None or not view.entries else _unpacked(app, view.entries[-1])


def read_or_make(store: Store, app: str, token: Callable[[], str]) -> Mac:
    """The keys of the app. Raises PersistenceError and ChangelogIncomplete."""
    for _ in range(ATTEMPTS):
        found = read(store, app)
        if found is not None:
            return found
        try:
            _make(store, app, token())
        except (Fenced, PersistenceError):  # another process makes it, or the store is away and `read` says so
            continue
    raise Fenced("other processes keep claiming the keys of the app; start this one again")


def _make(store: Store, app: str, token: str) -> None:
    claim = store.claim(place(app), token, "")
    if claim.last >= claim.first:
        return
    since = claim.store_time + GRACE if _used(store, app) else 0.0
    keys = (secrets.token_bytes(KEY_SIZE),)
    store.commit(claim, Changes(0, entries=[_packed(keys, since)], keep_from=claim.last + 1))


def _used(store: Store, app: str) -> bool:
    """Whether a process of an earlier release may have worked with this store, and may work still."""
    if any(OWN not in each.agent for each in store.partitions(app)):
        return True
    outbox: OutboxStore = store.outbox
    return any(outbox.count(state) for state in ("pending", "dispatched", "dead"))


def _packed(keys: tuple[bytes, ...], since: float) -> bytes:
    return framed(KEYS + msgspec.msgpack.encode(_Keys(FORMAT, keys, since)))


def _unpacked(app: str, blob: bytes) -> Mac:
    content = blob[5:]
    try:
        if blob[:1] != CHECKED or content[:1] != KEYS or framed(content) != blob:
            raise ValueError("another entry, or a damaged one")
        document = msgspec.msgpack.decode(content[1:], type=_Keys)
        if document.format != FORMAT or not document.keys or any(len(each) != KEY_SIZE for each in document.keys):
            raise ValueError(f"format {document.format}, this program knows {FORMAT}")
    except (msgspec.MsgspecError, ValueError) as error:
        # The text of a decoder might hold bytes of the key.
        raise ChangelogIncomplete("the keys of the app in the store cannot be read") from error
    return Mac(app, document.keys, document.since)
