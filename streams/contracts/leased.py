"""The leased contracts, as Protocols of at most three methods: AggregatorBuffer, TimeoutStore, Outbox.

The caller need not be a worker. Every call is a transaction of its own unless it is given a session. All times are
times of the store's clock. If that clock was ahead and is set right, nothing waits for the time that it showed: leases,
deadlines and kept keys last as long as they were asked for. Every lease has a random token that each later write
compares. All calls raise PersistenceError (the driver's error is its cause; the result is unknown), and SystemNotReady
before `migrate`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

from sluicegate.streams.contracts.leased_values import (
    EarlyState,
    Entry,
    Filled,
    Gate,
    InsertResult,
    OpenBatch,
    Pack,
    PositionMove,
    SealedBatch,
    Snapshot,
    Timeout,
    TimeoutBatch,
)
from sluicegate.streams.contracts.messages import Attempt, LaneBatch, OutboxMessage, Outcome, StoredMessage

LEASE = timedelta(minutes=5)
LANE_LEASE = timedelta(seconds=30)
NOT_KEPT = timedelta(0)


class BufferIntake(Protocol):
    """Inserts into a buffer. `name` is the configured aggregation id. Every call touches only the rows of that name."""

    def insert(
        self, name: str, entries: Sequence[Entry], progress: PositionMove | None = None, keep_keys: timedelta = NOT_KEPT
    ) -> InsertResult:
        """Insert all `entries`, except those whose idempotency key is known: they are left out silently, and the first
        payload stays. A key is known while its row is buffered, and for `keep_keys` after its removal. With `progress`
        the position moves in the same transaction. If it cannot, WatermarkMoved is raised with its value and nothing
        was stored."""

    def insert_and_seal(
        self,
        name: str,
        entries: Sequence[Entry],
        gate: Gate,
        progress: PositionMove | None = None,
        keep_keys: timedelta = NOT_KEPT,
    ) -> Filled:
        """As `insert`. In the same transaction the resolved unsealed entries of each touched group are sealed in their
        order: a batch ends with the entry that makes it `gate.count`, with a new one that `ends` its group, and with a
        new one whose `due` has passed. The gate's times set the deadlines of the entries that are left, and with
        `gate.dues` the newest of them that has a `due`."""

    def position(self, name: str, topic_id: str, partition: int) -> int:
        """The next offset of the source partition. 0 when none was set."""


class BufferPacks(Protocol):
    """Many records at once, for a worker that reads Kafka."""

    @property
    def at_once(self) -> int:
        """How many records one insert takes well. Where each record is a row, more would block all other callers."""

    def insert_packs(
        self, name: str, packs: Sequence[Pack], gate: Gate, progress: PositionMove
    ) -> Sequence[SealedBatch]:
        """As `insert_and_seal` of each record. Records need no idempotency key, since `progress` shows which are new.
        Gates and counts count records. They are read as entries of type PACK, each a pack of one or more records."""

    def complete_all(self, name: str, ends: Sequence[tuple[SealedBatch, Sequence[OutboxMessage]]]) -> Sequence[bool]:
        """`complete` of each batch by itself. False for a batch for which it raises ConcurrencyError."""


class BufferSnapshots(Protocol):
    """Leases and removes the rows of a whole buffer, or the oldest of them."""

    def get_snapshot(self, name: str, limit: int | None = None, lease: timedelta = LEASE) -> Snapshot:
        """Lease the oldest `limit` (None: all) rows that are not leased. Unresolved rows are leased too, but only
        counted. Raises ValueError for a lease that is not positive and a limit below 1."""

    def remove_snapshot(self, name: str, snapshot: Snapshot, outbox: Sequence[OutboxMessage] = ()) -> int:
        """Delete exactly the snapshot's resolved rows that its token still leases. Returns how many. Other rows of the
        token are released: unresolved rows, and those that the caller left out of `ids`. With `outbox`: remove all of
        `ids` and write the messages in one transaction, or raise ConcurrencyError and change nothing. Without any of
        `ids` nothing is written; returns 0."""

    def release_snapshot(self, name: str, snapshot: Snapshot) -> int:
        """Release all rows that the token leases, also unresolved ones. Returns how many."""


class BufferSealing(Protocol):
    """Seals batches for `scope: shared`. A crash changes neither a sealed batch nor its id."""

    def due(self, name: str, gate: Gate, limit: int = 100) -> Sequence[SealedBatch]:
        """Lease up to `limit` batches that no worker holds. They are sealed batches whose lease ended (unchanged, with
        a new token), and groups whose deadline passed, which are sealed now with reason `timeout`."""

    def seal(self, name: str, group: str, gate: Gate) -> SealedBatch | None:
        """Seal the oldest `gate.count` entries (or fewer) of the group, with reason `manual`, for an operator. None:
        the group has no open entries."""


class BufferBatches(Protocol):
    """Ends the lease of a batch."""

    def complete(self, name: str, batch: SealedBatch, outbox: Sequence[OutboxMessage] = ()) -> int:
        """Complete the batch: remove its rows and write the messages in one transaction. Returns the number of rows
        removed. Rows that could not be decoded go back to the buffer, marked, and count for no gate. Raises
        ConcurrencyError (nothing changed) when another token has the lease, or when the batch is gone."""

    def release(self, name: str, batch: SealedBatch, attempts: int | None = None) -> bool:
        """Let `due` return the batch at once. False: this token no longer has the lease. `attempts` is its new count;
        for example one less than now, when the batch was not tried."""


class BufferEarly(Protocol):
    """Early results of open groups (`Gate.every`). A group counts its results, and each is written once."""

    def early(self, name: str, gate: Gate, limit: int = 100) -> Sequence[OpenBatch]:
        """Lease up to `limit` open groups whose early result is due, the longest due first. A group that was leased is
        due again when its lease has ended. Nothing is sealed."""

    def complete_early(
        self, name: str, gate: Gate, ends: Sequence[tuple[OpenBatch, Sequence[OutboxMessage]]]
    ) -> Sequence[bool]:
        """For each batch: count one more result of its group, which covers the entries of the batch, and write the
        messages, in one transaction. False (nothing changed): another token has the lease, or the group was sealed or
        removed meanwhile. The next result is due one period from now if there are newer entries, else one period after
        the next insert."""

    def early_states(self, name: str) -> Mapping[str, EarlyState]:
        """The open groups that had an early result or wait for one, by group."""


class BufferLeases(Protocol):
    def renew(self, name: str, token: str, lease: timedelta = LEASE, attempts: int | None = None) -> datetime:
        """Renew the lease of a snapshot or a batch: all rows of the token, until the time returned. `attempts` is the
        new count of a batch. Raises ConcurrencyError when the token has no rows, or its lease has ended."""

    def renew_all(self, name: str, tokens: Sequence[str], lease: timedelta = LEASE) -> Sequence[bool]:
        """As `renew` of batches, together: a store may lock the buffer once for all of them. False: the lease has
        ended, or the batch is gone."""


class BufferReading(Protocol):
    """Reads a buffer. Never leases or changes rows."""

    def get_data(self, name: str) -> Sequence[Entry]:
        """Every record that can be decoded, in insertion order, leased or not; [] for an unknown name."""

    def count(self, name: str) -> int:
        """The number of all rows, without loading them."""

    def count_resolved(self, name: str) -> int:
        """The number of rows whose type has a decoder now. Without a registry it equals `count`; with an empty one it
        is 0 without a round trip."""


class BufferCare(Protocol):
    """For operators and repair programs."""

    def iter_raw(self, name: str) -> Iterator[Entry]:
        """Every row, decodable or not, in insertion order. `value` is None."""

    def remove_one(self, name: str, correlation_id: str, force: bool = False) -> None:
        """Remove the oldest row of this correlation id. Raises AggregationNotFound for an empty name, ConcurrencyError
        with the number of rows when only others exist, and ConcurrencyError for a row with a live lease unless `force`.
        """

    def remove_all(self, name: str) -> int:
        """Remove all rows of the name, resolved or not, leased or not. Returns how many."""


class AggregatorBuffer(
    BufferIntake,
    BufferPacks,
    BufferSnapshots,
    BufferSealing,
    BufferBatches,
    BufferEarly,
    BufferLeases,
    BufferReading,
    BufferCare,
    Protocol,
):
    """`store.buffer`."""


class DueTimeouts(Protocol):
    """A caller polls for due timeouts, and then removes each one (sent) or releases it (failed)."""

    def get_batch(self, batch_size: int | None = None) -> TimeoutBatch:
        """Lock up to `batch_size` (None: the limit of the options; memory: all) due timeouts that are not locked, by
        (due_at, id), for a new owner. Never returns one that is not due by the store's clock. Raises ValueError for a
        size below 1."""

    def remove(self, id: UUID, owner: str | None = None) -> None:
        """Remove a timeout. Without `owner` no lease is checked and a missing timeout is no error. With `owner`, raises
        ConcurrencyError when the timeout is gone or `owner` has no live lease on it."""

    def release(self, id: UUID, owner: str | None = None) -> None:
        """Unlock the timeout at once. Raises ConcurrencyError when another owner has the lease. Without `owner` a
        missing timeout is no error."""


class TimeoutEmission(Protocol):
    def emit(self, batch: TimeoutBatch) -> int:
        """Turn the timeouts that `batch.owner` still holds into outbox messages
        (sluicegate.streams.contracts.messages.emitted: each is sent once) and remove them, in one transaction. Returns
        how many. The others were cancelled, moved or taken over."""

    def reap_stale_leases(self) -> int:
        """Clear the locks that have ended. Returns how many. `get_batch` does not need it."""

    def next_due(self) -> datetime | None:
        """The due time of the first timeout that is not locked."""


class Scheduling(Protocol):
    def insert(self, *timeouts: Timeout) -> None:
        """Insert all or none. Raises PersistenceError ("already exists") when one of the ids exists."""

    def cancel(self, id: UUID) -> bool:
        """Whether the timeout existed: then it will not be sent."""

    def reschedule(self, id: UUID, due_at: datetime) -> bool:
        """Whether the timeout existed. It is also unlocked."""


class TimeoutReading(Protocol):
    def find(
        self, destination: str | None = None, owner: str | None = None, key: bytes | None = None, limit: int = 1000
    ) -> Sequence[Timeout]:
        """The timeouts for which all conditions hold, by (due_at, id). Leases nothing."""

    def count(self) -> int: ...


class TimeoutStore(DueTimeouts, TimeoutEmission, Scheduling, TimeoutReading, Protocol):
    """`store.timeouts`."""


class OutboxWriting(Protocol):
    def add(self, session: Any, messages: Sequence[OutboxMessage], require_transaction: bool = True) -> None:
        """Add messages in the transaction of `session` (of `store.transaction()` or of a handler): both are committed
        or neither. An id that exists already is left out silently. Raises ConfigurationError without a session, unless
        `require_transaction=False`."""

    def lanes(self) -> int:
        """The number of lanes. A message's lane follows from its key (streams/contracts/lanes.py)."""

    def lane_numbers(self) -> Sequence[int]:
        """The numbers by which lanes are claimed: first the numbers of the app for which the store was opened, then the
        numbers of no app."""

    def set_lanes(self, count: int) -> None:
        """Raises ConcurrencyError while rows are pending."""


class LaneClaims(Protocol):
    """A lane has one holder at a time (leader election). Each write compares the holder's token."""

    def claim(
        self, lane: int, token: str, limit: int, after: int = 0, lease: timedelta = LANE_LEASE
    ) -> LaneBatch | None:
        """Take or renew the lane's lease for `token`, a random text that the caller makes. Read up to `limit` pending
        rows numbered above `after`, in commit order as far as the store knows it. Rows without a number receive theirs
        first, durably. None: another holder has the lane."""

    def claim_any(self, limit: int, lease: timedelta = LANE_LEASE) -> LaneBatch:
        """For `order: none`: read free rows of any lane, and lease each one by itself. A row is found first, then
        leased if it is still free."""

    def mark(self, batch: LaneBatch, outcomes: Sequence[Outcome] | None) -> None:
        """Record durably that rows were sent, are dead, or are to be tried again after the options' back-off.
        `outcomes` None: all rows were sent. Raises ConcurrencyError (nothing changed) when another holder has the lane.
        After `claim_any`, rows that another holder has are left unchanged."""


class LaneEnding(Protocol):
    def release(self, batch: LaneBatch) -> None:
        """Release the lane, or the rows, at once."""

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds at most until a row is added. True: the store notified the caller (LISTEN/NOTIFY,
        pub/sub, change stream). Stores that cannot notify return False at once: the caller polls."""


class OutboxHealth(Protocol):
    def pending_age(self) -> timedelta | None:
        """The age of the oldest pending row."""

    def count(self, state: str = "pending") -> int:
        """The number of rows that are pending, dispatched or dead."""

    def sweep(self, older_than: timedelta, limit: int = 10_000) -> int:
        """Delete up to `limit` rows that were dispatched longer ago than `older_than`, oldest first, with their
        attempts. Returns how many."""


class OutboxReading(Protocol):
    def find(self, state: str | None = None, topic: str | None = None, limit: int = 1000) -> Sequence[StoredMessage]:
        """The rows, oldest first."""

    def get(self, id: str) -> StoredMessage | None:
        """The row with this id."""

    def attempts_of(self, id: str) -> Sequence[Attempt]:
        """The failed attempts, and the one that succeeded."""


class OutboxCare(Protocol):
    def requeue(self, ids: Sequence[str] | None = None) -> int:
        """Make dead rows (None: all) pending again, with no attempts. Returns how many."""

    def drop(self, ids: Sequence[str]) -> int:
        """Delete rows that are pending or dead. Returns how many."""


class OutboxStore(OutboxWriting, LaneClaims, LaneEnding, OutboxHealth, OutboxReading, OutboxCare, Protocol):
    """`store.outbox`: rows of applications and of the leased contracts. The engine's own rows lie with their
    partitions."""


class Leased(Protocol):
    """The contracts that every store offers to programs other than workers."""

    @property
    def buffer(self) -> AggregatorBuffer: ...

    @property
    def timeouts(self) -> TimeoutStore: ...

    @property
    def outbox(self) -> OutboxStore: ...


class Transactions(Protocol):
    def transaction(self) -> AbstractContextManager[Any]:
        """A transaction of the application. The session is one of sluicegate.connectors.sessions (`connection`,
        `client_session`, `pipeline`). It commits at the end of the block, and rolls back after an exception. The store
        does not repeat it: a deadlock raises PersistenceError."""
