"""The leased contracts, as Protocols of at most three methods: AggregatorBuffer, TimeoutStore, Outbox.

Whoever calls need not be a worker. Every call is a transaction of its own unless it is given a session. All clocks are
the store's; every lease carries a random token that each later write compares. All raise PersistenceError (the driver's
error as its cause; unknown result) and SystemNotReady before `migrate`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from sluicegate.streams.contracts.leased_values import (
    Entry,
    Filled,
    Gate,
    InsertResult,
    Pack,
    SealedBatch,
    Snapshot,
    Timeout,
    TimeoutBatch,
    WatermarkMove,
)
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage

LEASE = timedelta(minutes=5)
LANE_LEASE = timedelta(seconds=30)
NOT_KEPT = timedelta(0)


class BufferIntake(Protocol):
    """What fills a buffer. `name` is the configured aggregation id; every call touches only its rows."""

    def insert(
        self,
        name: str,
        entries: Sequence[Entry],
        progress: WatermarkMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> InsertResult:
        """All of `entries`, those whose idempotency key is known left out silently (the first payload stays). A key is
        known while its row is buffered, and `keep_keys` after its removal. With `progress` the watermark moves in the
        same transaction, or WatermarkMoved is raised (with where it stands) and nothing was stored."""

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate,
        progress: WatermarkMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        """`insert`, and in the same transaction: while a group that was touched has `gate.count` resolved unsealed
        entries, its oldest so many are sealed. Groups' deadlines are set by the gate's times."""

    def watermark(self, name: str, topic_id: str, partition: int) -> int:
        """The next offset, 0 when none was set."""


class BufferPacks(Protocol):
    """Many records at once, for whoever reads Kafka."""

    @property
    def at_once(self) -> int:
        """How many records it takes well in one insert: where each is a row, more would hold up all others."""

    def insert_packs(
        self, name: str, packs: Sequence[Pack], gate: Gate, progress: WatermarkMove
    ) -> Sequence[SealedBatch]:
        """As `insert_and_seal` of each record, which needs no idempotency key, since `progress` says what is new. Gates
        and counts count records; what is read of them are entries of type PACK, each a pack of one record or more."""

    def complete_all(self, name: str, ends: Sequence[tuple[SealedBatch, Sequence[OutboxMessage]]]) -> Sequence[bool]:
        """`complete` of each, by itself; False where that raises ConcurrencyError."""


class BufferSnapshots(Protocol):
    """Leases and completes the rows of a whole buffer, or the oldest of them."""

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        """Lease the oldest `limit` (None: all) rows that nobody has, unresolved ones too (they are only counted).
        Raises ValueError for a lease that is not positive and a limit below 1."""

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        """Delete exactly the snapshot's resolved rows that are still leased by its token; returns how many. Whatever
        else the token has is free: unresolved rows, and those that the caller left out of `ids`. With `outbox`: all of
        `ids` and the messages, in one transaction, or ConcurrencyError and nothing. Without any of `ids` nothing is
        written; returns 0."""

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        """Everything that the token has leased, unresolved rows too, is free at once; returns how many rows."""


class BufferSealing(Protocol):
    """Seals batches for `scope: shared`. A crash changes neither a sealed batch nor its id."""

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        """Up to `limit` batches that nobody works on: sealed ones whose lease ran out (unchanged, with a new token),
        and groups whose deadline passed, sealed now with reason `timeout`."""

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        """The oldest `gate.count` entries (or fewer) that the group has now, with reason `manual`: a person ends it.
        None: nothing is open of it."""


class BufferBatches(Protocol):
    """The end of a batch."""

    def complete(self, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage] = ()) -> int:
        """The batch is done: its rows go, the messages are written, in one transaction; returns the rows removed. Rows
        that could not be decoded go back to the buffer, marked, and count towards no gate. Raises ConcurrencyError
        (nothing changed) when the lease is somebody else's, or over and taken, or the batch is gone."""

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        """Let `due` hand it out at once. False: it was not ours any more. `attempts`: what it counts from now on; its
        own less one, say, when nobody tried it."""


class BufferLeases(Protocol):
    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        """Of a snapshot or a batch: all that the token has, until the time returned; `attempts` is what a batch counts
        from now on. Raises ConcurrencyError when it has nothing, or its lease is over."""


class BufferReading(Protocol):
    """Never leases, changes or orders anything."""

    def get_data(self, name: str) -> Sequence[Entry]:
        """Every record that decodes, in insertion order, whoever has it leased; [] of an unknown name."""

    def count(self, name: str) -> int:
        """All rows held, without loading them."""

    def count_resolved(self, name: str) -> int:
        """Rows whose type has a decoder now; `count` without a registry, 0 without a round trip for an empty one."""


class BufferCare(Protocol):
    """For people and programs that mend."""

    def iter_raw(self, name: str) -> Iterator[Entry]:
        """Every row, decodable or not, in insertion order; `value` is None."""

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        """The oldest row of this correlation id. Raises AggregationNotFound on an empty name, ConcurrencyError naming
        the count of rows when others exist, and for a live lease unless `force`."""

    def remove_all(self, name: str) -> int:
        """Everything of the name, resolved or not, leased or not; returns how many rows."""


class AggregatorBuffer(
    BufferIntake,
    BufferPacks,
    BufferSnapshots,
    BufferSealing,
    BufferBatches,
    BufferLeases,
    BufferReading,
    BufferCare,
    Protocol,
):
    """`store.buffer`."""


class DueTimeouts(Protocol):
    """A caller polls, then removes a timeout (sent) or releases it (failed)."""

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        """Up to `batch_size` (None: the options' cap; memory: all) due timeouts that nobody has, by (due_at, id),
        locked to a fresh owner. Never one that is not due by the store's clock. Raises ValueError for less than 1."""

    def remove(self, id: UUID, owner: str | None = None) -> None:
        """Without `owner` no lease is checked and a missing timeout is no error. With one, raises ConcurrencyError when
        the timeout is gone or `owner` has no live lease on it."""

    def release(self, id: UUID, owner: str | None = None) -> None:
        """Free at once. Raises ConcurrencyError for another's lease; a missing one is no error without an owner."""


class TimeoutEmission(Protocol):
    def emit(self, batch: TimeoutBatch) -> int:
        """Those that `batch.owner` still has become outbox messages (sluicegate.streams.contracts.messages.emitted:
        each is sent once) and are removed, in one transaction; returns how many. The others were cancelled, moved or
        taken over."""

    def reap_stale_leases(self) -> int:
        """Clear the locks whose time is over; returns how many. `get_batch` does not need it."""

    def next_due(self) -> datetime | None:
        """When the soonest one that nobody has is due."""


class Scheduling(Protocol):
    def insert(self, *timeouts: Timeout) -> None:
        """All or none. Raises PersistenceError ("already exists") when one of the ids is there."""

    def cancel(self, id: UUID) -> bool:
        """Whether it was there: then it will not be sent."""

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        """Whether it was there; frees it."""


class TimeoutReading(Protocol):
    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        """By (due_at, id); all conditions hold. Leases nothing."""

    def count(self) -> int: ...


class TimeoutStore(DueTimeouts, TimeoutEmission, Scheduling, TimeoutReading, Protocol):
    """`store.timeouts`."""


class OutboxWriting(Protocol):
    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        """Join the transaction of `session` (of `store.transaction()` or of a handler): both or neither. An id that is
        there is left out silently. Without a session: ConfigurationError, unless `require_transaction=False`."""

    def lanes(self) -> int:
        """How many sequences there are side by side; a message's lane follows from its key
        (streams/contracts/lanes.py)."""

    def set_lanes(self, count: int) -> None:
        """Raises ConcurrencyError while rows are pending."""


class LaneClaims(Protocol):
    """One holder per lane at a time (leader election); each write compares its token."""

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        """Take or renew the lane's lease for `token` (random, the caller's) and read up to `limit` pending rows
        numbered above `after`, in commit order as far as the store knows it; rows without a number are given theirs
        first, durably. None: another holds it."""

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        """For `order: none`: free rows of any lane, each leased by itself. A row is found first, then leased if it is
        still free."""

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        """Durably: sent, dead, or to be tried again after the options' back-off; `outcomes` None: all of its rows were
        sent. Raises ConcurrencyError, nothing changed, when the lane is another's now; of `claim_any`, rows that are
        another's are left alone."""


class LaneEnding(Protocol):
    def release(self, batch: LaneBatch) -> None:
        """Others may have the lane, or the rows, at once."""

    def wait(self, seconds: float) -> bool:
        """Until a row was added (the store tells: LISTEN/NOTIFY, pub/sub, change stream), at most so long; True: told.
        Stores that cannot tell return at once with False: the caller polls."""


class OutboxHealth(Protocol):
    def pending_age(self) -> timedelta | None:
        """Of the oldest pending row."""

    def count(self, state: str = "pending") -> int:
        """Rows that are pending, dispatched or dead."""

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        """Delete up to `limit` rows dispatched longer ago than that, oldest first, with their attempts; returns how
        many."""


class OutboxReading(Protocol):
    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        """Oldest first."""

    def get(self, id: str) -> StoredMessage | None:
        """The row of this id."""

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        """Failed ones, and the one that succeeded."""


class OutboxCare(Protocol):
    def requeue(self, ids: Sequence[str] | None = None) -> int:
        """Dead rows (None: all) are pending again, with no attempts; returns how many."""

    def drop(self, ids: Sequence[str]) -> int:
        """Delete rows that are pending or dead; returns how many."""


class OutboxStore(OutboxWriting, LaneClaims, LaneEnding, OutboxHealth, OutboxReading, OutboxCare, Protocol):
    """`store.outbox`: rows of applications and of the leased contracts; the engine's own lie with their partitions."""


class Leased(Protocol):
    """What every store offers to whoever is no worker."""

    @property
    def buffer(self) -> AggregatorBuffer: ...

    @property
    def timeouts(self) -> TimeoutStore: ...

    @property
    def outbox(self) -> OutboxStore: ...


class Transactions(Protocol):
    def transaction(self) -> AbstractContextManager[Any]:
        """A transaction of the application's own: the session is one of sluicegate.connectors.sessions
        (`connection`, `client_session`, `pipeline`). Commit at the end of the block, nothing of it after an
        exception. What happens in it is not repeated: a deadlock is a
        PersistenceError."""
