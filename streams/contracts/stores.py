"""The contracts between the engine and its surroundings, as Protocols of at most three methods.

One class per backend satisfies all store contracts. The Kafka connector satisfies the input and output contracts.
Nothing here retries: the caller decides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from sluicegate.streams.agent import Lookup
from sluicegate.streams.contracts.leased import Leased, Transactions
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    ColdGroup,
    DeadRow,
    Fetchable,
    Level,
    OutboxRow,
    Partition,
    PartitionView,
    TopicFacts,
)
from sluicegate.streams.errors import SluicegateError


class StateStore(Protocol):
    """Ownership, state, offset and outbox of partitions, with compare-and-set in one store."""

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        """Own the partition from now on: every older claim is fenced. Makes the claim row when there is none (offset
        -1).

        Everything in the result is read in the transaction that wrote the token. Raises PersistenceError.
        """

    def restore(self, claim: Claim) -> Iterator[bytes]:
        """The changelog entries `claim.first` to `claim.last`, in order. Raises PersistenceError, never Fenced: a
        reader with an old claim receives what is stored, and the engine checks the numbers inside the entries."""

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        """Apply all of `changes` durably if (token, version) are still the row's, and else nothing. Returns the next
        claim with the store's time. Raises Fenced (nothing changed) or PersistenceError (the result is unknown)."""


class CommitTogether(Protocol):
    """Commits several partitions with one wait for the disk."""

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        """`commit` of each, for different partitions. Returns a claim or an error for each, in the same order. A fenced
        commit does not change the others. A failure of the store may fail them all."""


class UnitOfWork(Protocol):
    """The application's own writes in the engine's commit."""

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        """`commit` the changes that `work(session)` returns. Its writes through the session (one of
        `sluicegate.connectors.sessions`) are part of the same transaction.

        The fence is checked, and held, before `work` is called, so the work of a fenced owner never runs. `work` may be
        called more than once (after a deadlock, a serialization failure, a TransientTransactionError); each call begins
        anew. An error of `work` rolls everything back and is raised unchanged, except the driver's own retryable errors
        and errors of a failed store. Raises Fenced, PersistenceError (result unknown), NotCommitted (certainly nothing
        remains), ConfigurationError (`work` ended the transaction by itself). Redis cannot roll back: see
        `sluicegate.connectors.sessions.RedisSession`.
        """


LookupKey = str | int
RowFields = Mapping[str, Any]
"""The fields of a row, as JSON can write them."""


class RowLookups(Protocol):
    """Rows of the application's own data, for `lookup:`."""

    def look_up(self, session: Any, lookup: Lookup, keys: Sequence[LookupKey]) -> Mapping[LookupKey, RowFields]:
        """The rows with these distinct keys, by key. A key without a row is not in the result.

        They are read in the transaction of `session`, which `commit_with` or `transaction` gave: after the fence, and
        with every try anew. With `lookup.lock` the rows cannot change before it ends. Raises LookupFailed for a table
        that is not there, a missing right, two rows with one key; and errors that `commit_with` repeats or
        translates."""


class TableFeed(Protocol):
    """One topic from its first record on, in all its partitions, without a group."""

    @property
    def complete(self) -> bool:
        """Whether `take` has returned all records that each partition had when reading began."""

    def take(self) -> Sequence[Record]:
        """The records since the last call, in order within a partition. Does not wait. Raises SystemNotReady if records
        were missed, for example after the topic was recreated: open another feed."""

    def lag(self) -> int:
        """The number of records in the topic that were not taken, as far as Kafka has reported it."""

    def close(self) -> None: ...


class UnsentRows(Protocol):
    """The outbox as the relay reads it."""

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        """Up to `limit` unsent rows numbered above `after`, ascending. Raises PersistenceError."""


class DeadRows(Protocol):
    """The dead rows, for operators. `Changes.revived` removes rows from the list."""

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        """Up to `limit` dead rows, by number. Raises PersistenceError."""


class ColdGroups(Protocol):
    """The cold groups of a partition. `Changes.put_cold`, `drop_cold` and `drop_due` change them. These calls are not
    fenced: a reader with an old claim reads the stored rows, and commits nothing."""

    def cold(self, partition: Partition, keys: Sequence[bytes]) -> Sequence[ColdGroup]:
        """The groups with these distinct keys, in any order. A key without a cold group is not in the result. Raises
        PersistenceError."""

    def due(self, partition: Partition, until: float, limit: int) -> Sequence[ColdGroup]:
        """Up to `limit` groups whose deadline is not after `until`, the nearest one first. `until` is finite. Raises
        PersistenceError."""

    def keys(self, partition: Partition, after: bytes | None, limit: int) -> Sequence[ColdGroup]:
        """Up to `limit` groups with keys after this one, by key, in an order of the store's own. None: from the first
        one on. Raises PersistenceError."""

    def before(self, partition: Partition, key: bytes, limit: int) -> Sequence[ColdGroup]:
        """Up to `limit` groups with keys before this one, in the order of the bytes of their keys. Raises
        PersistenceError."""


class CrashMarkStore(Protocol):
    """A process that is alive clears its names from the crash marks."""

    def clear_crash_mark(self, partition: Partition, token: str, processes: Sequence[str]) -> None:
        """Remove the names `processes` from the partition's crash mark, whoever owns it. `token` is of the caller's
        last claim.

        The call is not fenced. It empties the token of the row in two cases (both found by tests/model): a name was
        removed, so an owner that read the old mark must claim again; or the row is still the caller's, so a late commit
        of its mark is fenced. The version stays, because only commits raise it: a rewound store would otherwise reach
        the version that Kafka was told (found by tests/simulation). Raises PersistenceError."""


class Reader(Protocol):
    """For operators: never claims, never writes."""

    def read(self, partition: Partition) -> PartitionView | None:
        """One consistent view of the partition, or None when it was never claimed. Raises PersistenceError."""

    def partitions(self, app: str) -> Sequence[Partition]:
        """Every partition of the app that has a row, sorted. Raises PersistenceError."""

    def apps(self) -> Sequence[str]:
        """Every app that has a partition, sorted. Raises PersistenceError."""


class Retirement(Protocol):
    """Removes partitions that are no longer needed."""

    def forget(self, claim: Claim) -> None:
        """Remove the row of the partition, its entries, cold groups, and unsent and dead rows, if (token, version) are
        still the row's, and else nothing. Only for a partition that no worker claims: a later claim would begin a new
        row at version 0. Raises Fenced (nothing changed) or PersistenceError (the result is unknown)."""


class Durability(Protocol):
    """The store's real durability and schema."""

    @property
    def incarnation(self) -> str:
        """A random name that the store's data receive when they are made. Another name means other data. May ask the
        store. Raises PersistenceError, or SystemNotReady before `migrate`."""

    def level(self) -> Level:
        """Read the settings that durability depends on. A setting that cannot be read counts as weaker. Makes nothing.
        Raises PersistenceError, or SystemNotReady when the store does not exist and cannot be made."""

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        """Make or upgrade the schema, in steps and idempotently. Returns the steps done (or to do). Empty: up to
        date."""


class Store(
    StateStore,
    CommitTogether,
    UnitOfWork,
    RowLookups,
    UnsentRows,
    DeadRows,
    ColdGroups,
    CrashMarkStore,
    Reader,
    Retirement,
    Durability,
    Leased,
    Transactions,
    Protocol,
):
    """The type of `sluicegate.connectors.open_store`: the contracts of the engine and the contracts of other programs
    (sluicegate.streams.contracts.leased)."""

    def close(self) -> None:
        """Close the connections. The store object is not used again."""


TopicPartition = tuple[str, int]


class Records(Protocol):
    """The records of one consumer. Rebalance callbacks run inside `poll`, and only there."""

    def poll(self, timeout: float) -> Record | None:
        """One record, or None after `timeout` seconds. `failures` returns the errors of single partitions. Raises
        SystemNotReady for an error of the whole client."""

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        """Up to `most` records: those fetched already, and, while they are fewer, those that arrive within `timeout`
        seconds."""

    def close(self) -> None:
        """Leave the group."""


class Assignments(Protocol):
    """The partitions that the group assigned and revoked since the last call. New partitions are paused and have no
    offset yet."""

    def assigned(self) -> list[TopicPartition]:
        """The partitions assigned since the last call; empties the list. A partition lost and assigned again is in both
        lists."""

    def revoked(self) -> list[TopicPartition]:
        """The partitions revoked or lost since the last call; empties the list."""

    def topics(self) -> Sequence[str] | None:
        """The topics that the member subscribes to: first the named topics, then the topics that its patterns match.
        None: no broker has answered yet."""

    def failures(self) -> list[tuple[TopicPartition, str, str]]:
        """Errors of single partitions since the last call, as (partition, code, text); empties the list. The code is
        `out-of-range`, `truncated`, `unread` (the data are damaged, and reading on would skip them), `unknown-topic` or
        `unauthorized`. A fatal error of the client raises SystemNotReady from `poll`."""


class HandOver(Protocol):
    """The last moment at which no other member can have a partition."""

    def before_revoke(self, finish: "Callable[[Sequence[TopicPartition]], object]") -> None:
        """From now on call `finish` with the partitions that the group revokes from this member, inside `poll` or
        `consume`. The group assigns them to other members only after the call has returned. `finish` is not called for
        partitions that are lost already (another member may have them), nor by `close`."""


class Positions(Protocol):
    """The position at which reading continues."""

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        """Seek to `offset` and resume. Records that were fetched before are never returned. Raises SystemNotReady when
        it cannot."""

    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...
    def resume(self, partitions: Sequence[TopicPartition]) -> None: ...

    def resume_alone(self, topic: str, number: int, offset: int, epoch: int) -> None:
        """Resume at `offset`, which is the next record, for a partition that is paused again and again: records that
        are fetched from now on may be kept across the next pauses."""

    def spare(self) -> bool:
        """Whether `resume_alone` could now keep the records of one more partition."""

    def alone(self, topic: str, number: int) -> bool:
        """Whether the records of this partition come in separate batches."""


class InputFacts(Protocol):
    """Facts about the input from Kafka. Every call takes a few seconds at most, and raises SystemNotReady."""

    def facts(self, topic: str, number: int) -> TopicFacts:
        """The topic id, partition count, low and high offset, and the group's informational commit."""

    def existing(self) -> Sequence[str] | None:
        """The names of all topics at the last query. None: no broker has answered yet, or topics are not queried."""

    def offset_at(self, topic: str, number: int, start: float) -> int:
        """The first offset whose record is at or after `start` (seconds since 1970). The high offset when there is no
        such record."""

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        """Commit an informational offset asynchronously, to show the lag. Failures are dropped."""


class Gauge(Protocol):
    """Values that need no request."""

    def high(self, topic: str, number: int) -> int:
        """The partition's next offset as of the last fetch; -1 when unknown."""

    def ended(self, topic: str, number: int) -> int:
        """The offset at which the partition was read to its end, since the last `start`, `resume` or `look_again`. -1
        if the end was not reached since then, or is not tracked. The value stays while no broker can be reached."""

    def look_again(self, topic: str, number: int) -> None:
        """Request the end of the partition again, without waiting: until a broker answers, `ended` returns -1. Records
        that were fetched and not read yet are fetched again."""

    def joined(self) -> bool:
        """Whether the group has given this member an assignment, even an empty one, that was not lost since then.
        Always true if the brokers assign (KIP-848), because then a member without partitions receives no assignment."""


class Probe(Protocol):
    """A process that fetches a partition instead of this one."""

    def result(self) -> Fetchable | None:
        """The result; None while the process runs."""

    def close(self) -> None:
        """End the process, finished or not."""


class FetchesApart(Protocol):
    """Fetches in separate processes: a batch that exceeds the memory when decompressed ends only such a process."""

    def probe(self, topic: str, number: int, offset: int) -> Probe:
        """Find out whether the records from `offset` on can be fetched."""

    def bound(self, topic: str, number: int, until: int) -> None:
        """From now on, `start` lets another process fetch the records below `until`, and no record from there on is
        fetched. -1: no bound."""

    def bound_reached(self, topic: str, number: int) -> bool:
        """Whether all records below the bound were returned, or no more can be fetched. False without a bound."""


class Input(Records, Assignments, HandOver, Positions, InputFacts, Gauge, FetchesApart, Protocol):
    """One Kafka consumer of one agent's group."""


DeliveryReport = Callable[[str, str], None]
"""Called with (outcome, text) once per row that was handed over: outcome `delivered`, `rejected` (the broker will never
take this row: definite and permanent), `denied` (it is the row's topic: not there, or not ours to write; others are
taken) or `failed` (anything else)."""


class BatchReports(Protocol):
    """Called inside `poll` for rows that were produced together: once for each row, by its number."""

    def delivered(self, numbers: Sequence[int]) -> None: ...

    def refused(self, number: int, outcome: str, text: str) -> None:
        """The row has one of the other outcomes of a Report."""


class Output(Protocol):
    """One Kafka producer. It takes many rows at a time: a report object for each row costs five times as much."""

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        """Produce the rows to their partitions, in order, as far as the queue has room. Returns how many were taken.
        They wait for other rows as long as linger.ms says."""

    def send_now(self) -> None:
        """Send the produced rows without waiting for others."""

    def poll(self) -> int:
        """Serve delivery reports. Returns how many rows are produced and have no report yet."""

    def replace(self) -> None:
        """Replace this producer with a new one. Reports of the old one are dropped."""


class OutputFacts(Protocol):
    """Facts about output topics that the relay needs, and `flush`."""

    def partitions(self, topic: str) -> int:
        """The current number of partitions of the topic (cached for a minute). Raises TopicMissing when there is no
        such topic, SystemNotReady when Kafka does not answer."""

    def partition_of(self, key: bytes, count: int) -> int:
        """The partition of a key: murmur2, as Java clients choose it."""

    def flush(self, timeout: float) -> int:
        """Wait for outstanding reports. Returns how many are still outstanding."""


class Producer(Output, OutputFacts, Protocol):
    """The Kafka producer of one worker."""

    def close(self) -> None: ...


Cursor = Mapping[str, int]
"""The progress of a shard's rows: the highest number that was sent for each lineage."""


class OutputTransactions(Protocol):
    """The producer of one shard for `delivery: transactional`: the rows and the cursor become visible together or not
    at all. Calls block, for half a minute at most. They are made one after the other."""

    def open(self) -> Cursor:
        """Fence every older producer of this shard, end its open transaction, and return the cursor. Raises
        SystemNotReady."""

    def send(self, rows: Sequence[OutboxRow], cursor: Cursor) -> str:
        """Send all of these rows and the cursor, or nothing. Returns the broker's error when it will never take one of
        them (nothing was sent, and the next call may follow); otherwise nothing. Raises Fenced (another producer opened
        the shard, or the transaction timed out) and SystemNotReady (the result is unknown). After an error call `open`,
        whose cursor shows the result."""

    def close(self) -> None:
        """Close the producer. It may be opened again."""


class Clock(Protocol):
    """The clock as a parameter."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
