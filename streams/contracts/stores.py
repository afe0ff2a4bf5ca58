"""The contracts between the engine and the outside, as Protocols of at most three methods.

One class per backend satisfies all store contracts; the Kafka connector satisfies the input and output ones.
Nothing here retries: whoever calls decides.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from sluicegate.streams.contracts.leased import Leased, Transactions
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import (
    Changes,
    Claim,
    DeadRow,
    Level,
    OutboxRow,
    Partition,
    PartitionView,
    TopicFacts,
)
from sluicegate.streams.errors import SluicegateError


class StateStore(Protocol):
    """Ownership, state, offset and outbox of partitions: compare-and-set in one store."""

    def claim(self, partition: Partition, token: str, member: str) -> Claim:
        """Own the partition from now on: every older claim is fenced. Makes the row when there is none (offset -1).

        Everything in the result is read in the same transaction that wrote the token. Raises PersistenceError.
        """

    def restore(self, claim: Claim) -> Iterator[bytes]:
        """The changelog entries `claim.first` to `claim.last`, in order. Raises PersistenceError; never says Fenced:
        whoever reads under an old claim gets what is there, and the engine checks the numbers inside the entries."""

    def commit(self, claim: Claim, changes: Changes) -> Claim:
        """Apply all of `changes` durably, or nothing, if (token, version) are still the row's; returns the next claim
        with the store's time. Raises Fenced (nothing changed) or PersistenceError (the result is unknown)."""


class CommitTogether(Protocol):
    """One wait for the disk for several partitions."""

    def commit_all(self, commits: Sequence[tuple[Claim, Changes]]) -> Sequence[Claim | SluicegateError]:
        """`commit` of each, of different partitions, with its claim or its error in the same order. A fenced one
        changes nothing of the others; what makes the store fail may fail them all."""


class UnitOfWork(Protocol):
    """The application's own writes in the engine's commit."""

    def commit_with(self, claim: Claim, work: Callable[[Any], Changes]) -> Claim:
        """`commit` of the changes that `work(session)` returns: what it writes through the session (one of
        `sluicegate.connectors.sessions`) is part of the same transaction, all or nothing.

        The fence is checked, and held, before `work` is called: a fenced owner's work never is. It may be called more
        than once (after a deadlock, a serialization failure, a TransientTransactionError), and each call begins anew.
        What it raises rolls everything back and comes out unchanged, but for the driver's own retryable errors and
        those of a store that failed. Raises Fenced, PersistenceError (unknown), NotCommitted (certainly nothing
        remains), ConfigurationError (`work` ended the transaction by itself). Redis takes nothing back: see
        `sluicegate.connectors.sessions.RedisSession`."""


class UnsentRows(Protocol):
    """The outbox as the relay reads it."""

    def pending(self, partition: Partition, after: int, limit: int) -> Sequence[OutboxRow]:
        """Up to `limit` unsent rows numbered above `after`, ascending. Raises PersistenceError."""


class DeadRows(Protocol):
    """The rows that the broker never took, for people; `Changes.revived` takes them out."""

    def dead(self, partition: Partition, limit: int) -> Sequence[tuple[OutboxRow, DeadRow]]:
        """Up to `limit` of them, by number. Raises PersistenceError."""


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
    """For people: never claims, never writes."""

    def read(self, partition: Partition) -> PartitionView | None:
        """The partition in one consistent picture, or None when it was never claimed. Raises PersistenceError."""

    def partitions(self, app: str) -> Sequence[Partition]:
        """Every partition of the app that has a row, sorted. Raises PersistenceError."""


class Durability(Protocol):
    """What the store really is."""

    @property
    def incarnation(self) -> str:
        """A random name given to the store's data when they were made; other data, other name. May ask the store:
        raises PersistenceError, or SystemNotReady before `migrate`."""

    def level(self) -> Level:
        """Probe the settings that durability rests on; what cannot be read counts as weaker. Makes nothing. Raises
        PersistenceError, or SystemNotReady where there is no store and none can be made."""

    def migrate(self, dry_run: bool = False) -> Sequence[str]:
        """Make or upgrade the schema, stepwise and idempotent; returns the steps done (or to do). Empty: up to date."""


class Store(
    StateStore,
    CommitTogether,
    UnitOfWork,
    UnsentRows,
    DeadRows,
    CrashMarkStore,
    Reader,
    Durability,
    Leased,
    Transactions,
    Protocol,
):
    """What `sluicegate.connectors.open_store` returns: for the engine, and (sluicegate.streams.contracts.leased) for
    whoever is no worker."""

    def close(self) -> None:
        """Give back connections; the store object is not used again."""


TopicPartition = tuple[str, int]


class Records(Protocol):
    """The records of one consumer. Rebalance callbacks run inside `poll`, and only there."""

    def poll(self, timeout: float) -> Record | None:
        """One record, or None after `timeout` seconds. Errors of single partitions come through `failures`; raises
        SystemNotReady for one of the whole client."""

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        """Up to `most` records: what is fetched already, and what comes within `timeout` seconds while they are
        fewer."""

    def close(self) -> None:
        """Leave the group."""


class Assignments(Protocol):
    """What the group gave and took since the last call. Partitions arrive assigned and paused, at no offset yet."""

    def assigned(self) -> list[TopicPartition]:
        """Newly assigned since the last call; drains the list. A partition lost and given back is in both lists."""

    def revoked(self) -> list[TopicPartition]:
        """Revoked or lost since the last call; drains the list."""

    def failures(self) -> list[tuple[TopicPartition, str, str]]:
        """Errors of single partitions since the last call: (partition, code, text), code one of `out-of-range`,
        `truncated`, `unread` (what came is damaged; going on would pass it over), `unknown-topic`, `unauthorized`;
        drains the list. A fatal error of the client raises SystemNotReady from poll."""


class HandOver(Protocol):
    """The last moment in which no other member can have a partition."""

    def before_revoke(self, finish: "Callable[[Sequence[TopicPartition]], object]") -> None:
        """From now on call `finish` with the partitions that the group takes from this member, inside `poll` or
        `consume`. The group assigns them to other members only after the call has returned. It is not called for
        partitions that are lost already (another member may have them), nor by `close`."""


class Positions(Protocol):
    """Where reading goes on."""

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        """Seek to `offset` (records fetched before are never returned) and resume. Raises SystemNotReady when it
        cannot."""

    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...
    def resume(self, partitions: Sequence[TopicPartition]) -> None: ...


class InputFacts(Protocol):
    """What Kafka says of the input; every call is bounded to a few seconds and raises SystemNotReady."""

    def facts(self, topic: str, number: int) -> TopicFacts:
        """Topic id, partition count, low and high offset, and the group's informational commit."""

    def offset_at(self, topic: str, number: int, start: float) -> int:
        """The first offset whose record is at or after `start` (seconds since 1970); the high offset when there is
        none."""

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        """Commit an informational offset asynchronously (a lag gauge); failures are dropped."""


class Gauge(Protocol):
    """Looks that cost no request."""

    def high(self, topic: str, number: int) -> int:
        """The next offset of the partition as the last fetch said it, -1 when unknown."""

    def joined(self) -> bool:
        """Whether the group has given this member an assignment, be it an empty one, that was not lost since. Always
        true where the brokers assign (KIP-848): a member without partitions is told nothing there."""


class Input(Records, Assignments, HandOver, Positions, InputFacts, Gauge, Protocol):
    """One Kafka consumer of one agent's group."""


DeliveryReport = Callable[[str, str], None]
"""Called with (outcome, text) once per row that was handed over: outcome `delivered`, `rejected` (the broker will never
take this row: definite and permanent), `denied` (it is the row's topic: not there, or not ours to write; others are
taken) or `failed` (anything else)."""


class BatchReports(Protocol):
    """Called inside `poll` for rows that were handed over together: once for each, by its number."""

    def delivered(self, numbers: Sequence[int]) -> None: ...

    def refused(self, number: int, outcome: str, text: str) -> None:
        """With one of the other outcomes of a Report."""


class Output(Protocol):
    """One Kafka producer. Rows are handed over many at a time: a report for each by itself costs five times as much."""

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        """Hand the rows over to their partitions, in order, as far as there is room; returns how many were taken. They
        wait for others as long as linger.ms says."""

    def send_now(self) -> None:
        """What was handed over waits for no more."""

    def poll(self) -> int:
        """Serve delivery reports; returns how many rows are handed over and unreported."""

    def replace(self) -> None:
        """Give up this producer and make a new one; reports of the old one no longer come."""


class OutputFacts(Protocol):
    """What the relay must know of output topics, and the way out."""

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has now (cached for a minute). Raises TopicMissing when there is no such topic,
        SystemNotReady when Kafka does not say."""

    def partition_of(self, key: bytes, count: int) -> int:
        """The partition of a key: murmur2, as Java clients choose it."""

    def flush(self, timeout: float) -> int:
        """Wait for outstanding reports; returns how many are still out."""


class Producer(Output, OutputFacts, Protocol):
    """The Kafka producer of one worker."""

    def close(self) -> None: ...


Cursor = Mapping[str, int]
"""How far the rows of a shard were sent: the highest number of each lineage."""


class OutputTransactions(Protocol):
    """The producer of one shard whose rows, and how far they reach, become visible together or not at all (`delivery:
    transactional`). Calls block, for half a minute at most, and come one after the other."""

    def open(self) -> Cursor:
        """Fence every producer that was opened for this shard before, end what it left open, and say how far it had
        come. Raises SystemNotReady."""

    def send(self, rows: Sequence[OutboxRow], cursor: Cursor) -> str:
        """All of these rows and the cursor, or nothing. Returns what the broker says when it will never take one of
        them (nothing was sent, the next call may follow), else nothing. Raises Fenced (somebody opened it anew, or the
        transaction timed out) and SystemNotReady (unknown): then `open` follows, whose cursor tells."""

    def close(self) -> None:
        """Give it up; it may be opened again."""


class Clock(Protocol):
    """Time as an argument."""

    def monotonic(self) -> float:
        """Seconds that never go back."""
