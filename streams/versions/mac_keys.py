"""The keys with which the processes of an app sign records, as one entry of a partition that no agent can have.

The first process of the app creates the key under a claim, so every process has the same one. The key is never logged
and never shown: a program that has it can write records that every agent of the app trusts.

`sluicegate keys rotate` adds a key. It signs from SIGNS_AFTER later on. By then every verifying process knows it: it
reads the keys again before it refuses a record (streams/versions/live_keys.py).
"""

import random
import secrets
import time
from collections.abc import Callable
from math import inf

import msgspec
from msgspec.structs import replace

from sluicegate.streams.aggregation.durable.entry import body_of, framed
from sluicegate.streams.contracts.leased import OutboxStore
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.single_entry import claim_entry, write_entry
from sluicegate.streams.contracts.stores import Reader, Store
from sluicegate.streams.contracts.values import NOBODY, Claim, Partition
from sluicegate.streams.errors import ChangelogIncomplete, Fenced, PersistenceError

KEYS = b"\x06"
"""The first byte of the content of the entry."""
FORMAT = 2
FORMER = 1
"""Keys of this form signed less of a record than is read now, so they prove nothing and are replaced."""
KEY_SIZE = 32
GRACE = 3600.0  # seconds in which processes of an earlier release, which sign nothing, are replaced
ATTEMPTS = 20
PAUSE = 0.05  # seconds between two attempts at the most
OWN = "~"  # the agent in partitions that belong to no agent
SIGNS_AFTER = 60.0  # seconds from the creation of a key to its first signature
READ_EVERY = 5.0  # seconds between two reads of the keys by a process
SWITCHED = 60.0  # seconds in which every process signs with the new key, whatever its loop waits for
KEEP = 14 * 24 * 3600.0  # Kafka's default retention, and the age that a segment has before it counts


class SigningKey(msgspec.Struct, frozen=True):
    """A key signs from the store's time `signs` until `ends`, when a later key signs. It verifies until `until`."""

    key: bytes
    made: float
    signs: float
    ends: float = inf
    until: float = inf

    def __repr__(self) -> str:
        return f"SigningKey(made={self.made})"


class SigningKeys(msgspec.Struct, frozen=True):
    """All keys of an app, newest first. `since` is as in Mac, but for keys that no longer verify."""

    format: int
    keys: tuple[SigningKey, ...]
    since: float

    def mac(self, app: str, now: float) -> Mac:
        """The keys that verify at `now`, the store's time."""
        proving = [key for key in self.keys if key.until > now]
        signing = next((key for key in proving if key.signs <= now), proving[0])
        keys = [signing, *(key for key in proving if key is not signing)]
        ended = (key.ends + SWITCHED for key in self.keys if key.until <= now)
        return Mac(app, [key.key for key in keys], max(self.since, *ended, 0.0))


class _Form(msgspec.Struct):
    format: int


def place(app: str) -> Partition:
    return Partition(app, OWN, "keys", 0)


def read(store: Reader, app: str) -> Mac | None:
    """The keys of the app. None: no process has created one. Raises PersistenceError and ChangelogIncomplete."""
    entry = listed(store, app)
    return None if entry is None else entry[0].mac(app, entry[1])


def listed(store: Reader, app: str) -> tuple[SigningKeys, float] | None:
    """All keys, and the store's time. Raises the errors of `read`."""
    view = store.read(place(app))
    keys = None if view is None or not view.entries else _unpacked(view.entries[-1])
    return None if view is None or keys is None else (keys, view.claim.store_time)


def read_or_make(store: Store, app: str, token: Callable[[], str]) -> Mac:
    """The keys of the app. Raises PersistenceError and ChangelogIncomplete."""
    for _ in range(ATTEMPTS):
        mac = read(store, app)
        if mac is not None:
            return mac
        try:
            _make(store, app, token())
        except (Fenced, PersistenceError):  # another process creates it; a failing store makes `read` raise
            time.sleep(random.uniform(0.0, PAUSE))  # at random: else processes would fence each other repeatedly
    raise Fenced("other processes keep claiming the keys of the app; start this one again")


def rotate(store: Store, app: str, token: str, keep: float = KEEP) -> SigningKeys:
    """Add a new key. The current signing key verifies for `keep` seconds longer. Keys that no longer verify are
    removed. Raises Fenced, PersistenceError and ChangelogIncomplete."""
    claim, known = _claimed(store, app, token)
    now = claim.store_time
    if known is None:
        keys = _first(store, app, now)
    else:
        begins = now + SIGNS_AFTER
        older_keys = [_ending(key, begins, begins + SWITCHED + keep) for key in known.keys if key.until > now]
        keys = SigningKeys(FORMAT, (_new(now, begins), *older_keys), known.mac(app, now).since)
    _write(store, claim, keys)
    return keys


def begin_anew(store: Store, app: str, token: str) -> None:
    """Replace the lost keys of the app. The new keys verify nothing that was written before. Raises the errors of
    `rotate`."""
    claim, known = _claimed(store, app, token)
    now = claim.store_time
    _write(store, claim, SigningKeys(FORMAT, known.keys if known else (_new(now, now),), now))


def _ending(key: SigningKey, ends: float, until: float) -> SigningKey:
    return replace(key, ends=min(key.ends, ends), until=min(key.until, until))


def _new(created: float, signs: float) -> SigningKey:
    return SigningKey(secrets.token_bytes(KEY_SIZE), created, signs)


def _claimed(store: Store, app: str, token: str) -> tuple[Claim, SigningKeys | None]:
    busy = "another command changes the keys of the app; nothing was changed, run this one again"
    claim, entry = claim_entry(store, place(app), token, NOBODY, busy)
    return claim, None if entry is None else _unpacked(entry)


def _make(store: Store, app: str, token: str) -> None:
    claim, known = _claimed(store, app, token)
    if known is None:
        _write(store, claim, _first(store, app, claim.store_time))


def _first(store: Store, app: str, now: float) -> SigningKeys:
    """The first key of an app, at the store's time `now`."""
    return SigningKeys(FORMAT, (_new(now, now),), now + GRACE if _used(store, app) else 0.0)


def _write(store: Store, claim: Claim, keys: SigningKeys) -> None:
    write_entry(store, claim, framed(KEYS + msgspec.msgpack.encode(keys)))


def _used(store: Store, app: str) -> bool:
    """Whether a process of an earlier release may have used this store, and may still use it."""
    if any(OWN not in partition.agent for partition in store.partitions(app)):
        return True
    outbox: OutboxStore = store.outbox
    return any(outbox.count(state) for state in ("pending", "dispatched", "dead"))


def _unpacked(blob: bytes) -> SigningKeys | None:
    """Decode the keys. None: keys of the form FORMER."""
    try:
        body = body_of(blob, KEYS)
        if msgspec.msgpack.decode(body, type=_Form).format == FORMER:
            return None
        document = msgspec.msgpack.decode(body, type=SigningKeys)
        if document.format != FORMAT or not document.keys or any(len(key.key) != KEY_SIZE for key in document.keys):
            raise ValueError(f"format {document.format}, this program knows {FORMAT}")
        return document
    except (msgspec.MsgspecError, ValueError) as error:
        # The message of a decoder might contain bytes of the key.
        raise ChangelogIncomplete("the keys of the app in the store cannot be read") from error
