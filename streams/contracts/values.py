"""The frozen values that travel between the engine and its surroundings. They have no behaviour.

Units: offsets and numbers are counts, times are seconds since 1970 (UTC) as float, sizes are bytes.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec

from sluicegate.streams.contracts.leased_values import Timeout

GroupNumber = int | tuple[int, ...]
"""The number from which the id of a result is derived, together with the partition. It is the offset of the group's
first record. For a window that shares its records with others, it is this offset and the start of the window in
milliseconds since 1970. From the second revision of a result on, it is both and the revision. The number of a message
is its offset."""


class Partition(NamedTuple):
    """The unit of ownership, order and commit: one partition of one input topic, as one agent of one app sees it."""

    app: str
    agent: str
    topic: str
    number: int


class OutboxRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One output, written with the commit that caused it and sent to Kafka after it.

    `number` grows over all claims of the partition (gaps are normal). `lineage` is the token of the claim that wrote
    the row. `partition`, of the output topic, was chosen when the row was written and never changes.
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
    """An unsent row that the broker will never accept. It moves from the outbox to the store's list of dead rows."""

    number: int
    reason: str
    attempts: int


class ColdGroup(NamedTuple):
    """An open group that is only in the store, not in the changelog. `due` is its deadline on the owner's clock; None
    without one. Only the engine reads `state`."""

    key: bytes
    due: float | None
    state: bytes


COLD_KEY = 512
"""The maximum length in bytes of the key of a cold group: servers limit the length of index keys."""


class CrashMark(msgspec.Struct, frozen=True, array_like=True):
    """The crash mark: these processes began the batch at `offset` and have not yet reported that they are alive.

    A process that is alive removes its name (`CrashMarkStore.clear_crash_mark`), so the remaining names belong to
    crashed processes. The name UNFETCHABLE is no process: it means that the batch of records at `offset` cannot be
    unpacked.
    """

    offset: int
    processes: tuple[str, ...]


UNFETCHABLE = "unfetchable"


class Generation(msgspec.Struct, frozen=True, array_like=True):
    """Open groups of a partition that were filled under an earlier version of the rule, and the `policy` that decides
    what happens to them. Their changelog entries have `number`. `version` 0: they were filled before versions were
    recorded. `agent` is the JSON of the agent with that rule. `idle` is as in Source. `until` is used only for groups
    whose records are read again: the offset at which the partition changed; -1: it changes with the next commit. `last`
    is used only for windows that begin at fixed times and finish: the start of the last one, in milliseconds since
    1970; None: it is not known before the next commit."""

    number: int
    version: int
    policy: str
    agent: str
    idle: float | None = None
    until: int = -1
    last: int | None = None


class Source(msgspec.Struct, frozen=True, array_like=True):
    """What the claim row remembers of its input. A change of it halts the partition as a gap, or shows a changed rule.
    `first_count` is the topic's partitions when the row was first committed: it distinguishes a partition that was
    added later from one of a new agent. `era` counts the gaps that an operator accepted and after which offsets come
    again; ids contain it, so later decisions have other ids. `lineage` is the token of the last claim that committed,
    `since` the version that its first commit made. `rule` is the rule that filled the open groups; the commit that ends
    the last of them writes the next one. `idle` is the moment since which the time of each group's last record is kept
    (0: as long as any group is open); None where the rule has no timeout since the last record.
    `schemas` are the schemas of the registry that were needed so far: (id, schema, subject). The subject is empty for
    a schema that was only read.
    `version` is the version of the rule that takes the records; 0: none was recorded. `generation` is the number of the
    changelog entries of its groups, `older` the generations that still have open groups, oldest first. `began` is the
    first offset that was read under `version`; -1: it is not known. `proof_from` is the first offset whose record needs
    a MAC; -1: none does yet. `claimed` is the next offset at the first commit of `lineage`."""

    topic_id: str
    partition_count: int
    rule: str
    first_count: int = 0
    era: int = 0
    since: int = 0
    lineage: str = ""
    idle: float | None = None
    schemas: tuple[tuple[int | str, str, str], ...] = ()
    version: int = 0
    generation: int = 0
    older: tuple[Generation, ...] = ()
    began: int = -1
    proof_from: int = -1
    claimed: int = -1

    @property
    def reached(self) -> int:
        """All offsets below it were read once, even if the row has a lower next offset."""
        return max((generation.until for generation in self.older), default=-1)

    @property
    def name(self) -> str:
        """The topic id from which ids are made."""
        return f"{self.topic_id}#{self.era}" if self.era else self.topic_id


NOBODY = ""
"""The member of a claim by an operator's command, which commits once and ends. No worker has it."""


class Claim(msgspec.Struct, frozen=True):
    """Ownership of a partition as the store granted it, with the content of the claim row at that moment.

    `token` is random and compared for equality. `version` grows with each commit. Both together are the fence. `offset`
    is the next one to read, -1 before the first commit. Changelog entries `first` to `last` are kept (`last == first -
    1`: none). `number` is the last outbox number given. `previous` is the token of the claim before, if a worker made
    it and did not let go of the partition; else it is empty.
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
    previous: str = ""

    @property
    def owner(self) -> str:
        """The worker that owns the partition. Empty if it has no owner, because the last owner released it
        (`CrashMarkStore.clear_crash_mark`)."""
        return self.member if self.token else NOBODY


class Changes(msgspec.Struct, frozen=True):
    """All changes of one commit; they are applied together or not at all.

    `entries` are appended to the changelog as `last + 1 ...`; then all entries numbered below `keep_from` are dropped.
    `outbox` rows are numbered above the claim's `number`. `dispatched` are exactly the outbox numbers with delivery
    reports, ascending. `trying` is written as given (None clears the mark); `source` only when it is not None. In the
    table of scheduled timeouts, `cancels` are deleted first; then `timeouts` are inserted, except those whose id exists
    already. `revived` are the numbers of dead rows, ascending, that leave the list of dead rows. `drop_cold` are
    keys of cold groups that are removed. `drop_due` are removed, too: they are those with the nearest deadlines, as
    `ColdGroups.due` returned them, so no group stays that comes before the last of them. Then `put_cold` are added,
    each in place of one of the same key.
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
    put_cold: Sequence[ColdGroup] = ()
    drop_cold: Sequence[bytes] = ()
    drop_due: Sequence[ColdGroup] = ()


class PartitionView(msgspec.Struct, frozen=True):
    """A partition as a reader sees it without a claim: one consistent view."""

    claim: Claim
    entries: Sequence[bytes]
    unsent: int
    dead: int


LEVELS = ("durable", "lossy", "volatile")
"""From the strongest to the weakest."""


class Level(NamedTuple):
    """The durability that a store really provides. `name` is one of LEVELS; `reasons` are the findings."""

    name: str
    reasons: tuple[str, ...]


class TopicFacts(NamedTuple):
    """An input partition as Kafka reports it now. `low` and `high` are its first and its next offset. `committed` is
    the group's informational offset (-1: none) and `metadata` the text that was committed with it."""

    topic_id: str
    partitions: int
    low: int
    high: int
    committed: int
    metadata: str


class Fetchable(NamedTuple):
    """The result of a probe of a partition. Records below `until` can be fetched one batch at a time; -1: all can be
    fetched as usual. `why` is the reason why the batch at `until` cannot be fetched; empty: it was not tried. `failure`
    is the error of the probe itself; then the probe has no result."""

    until: int = -1
    why: str = ""
    failure: str = ""
