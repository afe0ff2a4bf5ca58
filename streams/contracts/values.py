"""What travels between the engine and the outside: frozen values, no behaviour.

Units: offsets and numbers are counts, times are seconds since 1970 (UTC) as float, sizes are bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from sluicegate.streams.contracts.leased_values import Timeout


class Partition(NamedTuple):
    """The unit of ownership, order and commit: one partition of one input topic, as one agent of one app sees it."""

    app: str
    agent: str
    topic: str
    number: int


class OutboxRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One output, written with the commit that caused it and relayed to Kafka after it.

    `number` grows over all claims of the partition (gaps are normal); `lineage` is the token of the claim that wrote
    the row; `partition` of the output topic was chosen when the row was written and never changes.
    """

    number: int
    lineage: str
    id: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class DeadRow(msgspec.Struct, frozen=True, array_like=True):
    """An unsent row that the broker will never take: it leaves the outbox for the store's list of dead rows."""

    number: int
    reason: str
    attempts: int


class CrashMark(msgspec.Struct, frozen=True, array_like=True):
    """The crash mark: these processes began the batch at `offset` and have not said since that they are well.

    A process that is alive takes its name back (`CrashMarkStore.clear_crash_mark`), so what stays are the crashed ones.
    """

    offset: int
    processes: tuple[str, ...]


class Source(msgspec.Struct, frozen=True, array_like=True):
    """What the claim row remembers of its input: a change of it is a loud gap or a changed rule. `first_count` is the
    topic's partitions when the row was first committed: it tells a partition that was added later from one of a new
    agent. `era` counts the gaps that a person accepted and after which offsets come again: what is decided since has
    other ids. `lineage` is the token of the last claim that committed, `since` the version that its first commit made.
    `rule` is the one that filled the open groups; the commit that ends the last of them writes another one. `idle` is
    the moment since which the time of each group's last record is kept (0: as long as any group is open); None where
    the rule has no timeout since the last record."""

    topic_id: str
    partition_count: int
    rule: str
    first_count: int = 0
    era: int = 0
    since: int = 0
    lineage: str = ""
    idle: float | None = None

    @property
    def name(self) -> str:
        """What ids are made of."""
        return f"{self.topic_id}#{self.era}" if self.era else self.topic_id


NOBODY = ""
"""The member of a claim that no worker made: a person's, who commits once and leaves."""


class Claim(msgspec.Struct, frozen=True):
    """Ownership of a partition as the store granted it, and all that its row held at that moment.

    `token` is random and compared for equality, `version` grows with each commit; both together are the fence.
    `offset` is the next one to read, -1 before the first commit. Changelog entries `first` to `last` are kept
    (`last == first - 1`: none). `number` is the last outbox number given.
    """

    partition: Partition
    token: str
    version: int
    offset: int
    epoch: int
    number: int
    first: int
    last: int
    source: Source | None
    trying: CrashMark | None
    incarnation: str
    member: str
    store_time: float

    @property
    def owner(self) -> str:
        """The worker that owns the partition; empty when nobody does: its last owner let go of it
        (`CrashMarkStore.clear_crash_mark`)."""
        return self.member if self.token else NOBODY


class Changes(msgspec.Struct, frozen=True):
    """Everything that one commit does: all of it or nothing.

    `entries` are appended to the changelog as `last + 1 ...`; then all entries numbered below `keep_from` are dropped.
    `outbox` rows are numbered above the claim's `number`. `dispatched` are exactly the outbox numbers whose delivery
    reports came, ascending. `trying` is written as it is (None clears it); `source` only when it is not None.
    Of the scheduled table `cancels` are deleted first, then `timeouts` inserted but for those whose id is there
    already. `revived` are the numbers of dead rows, ascending, that leave the list of dead ones.
    """

    offset: int
    epoch: int = -1
    entries: Sequence[bytes] = ()
    keep_from: int | None = None
    outbox: Sequence[OutboxRow] = ()
    dispatched: Sequence[int] = ()
    dead: Sequence[DeadRow] = ()
    trying: CrashMark | None = None
    source: Source | None = None
    timeouts: Sequence[Timeout] = ()
    cancels: Sequence[UUID] = ()
    revived: Sequence[int] = ()


class PartitionView(msgspec.Struct, frozen=True):
    """A partition as a reader sees it, without claiming it: one consistent picture."""

    claim: Claim
    entries: Sequence[bytes]
    unsent: int
    dead: int


LEVELS = ("durable", "lossy", "volatile")
"""From the strongest to the weakest."""


class Level(NamedTuple):
    """What durability a store really gives: `name` is one of LEVELS; `reasons` say what was found."""

    name: str
    reasons: tuple[str, ...]


class TopicFacts(NamedTuple):
    """An input partition as Kafka describes it now: `low` and `high` are its first and its next offset.

    `committed` is the group's informational offset (-1: none) and `metadata` the text that came with it.
    """

    topic_id: str
    partitions: int
    low: int
    high: int
    committed: int
    metadata: str
