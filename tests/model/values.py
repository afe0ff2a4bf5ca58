"""The model's world: frozen values only, so that a world is its own key in the set of visited ones.

Tokens, versions, numbers and offsets are small integers, 0 is no token. A record is its offset; `Setup.records` gives
its key.
"""

from typing import NamedTuple

IDLE, CLAIMED, READY, GONE = range(4)
WAITING, HANDED, WRITTEN, FAILED = range(4)
ABSENT, STANDS, CLEARED = range(3)


class Row(NamedTuple):
    """An outbox row: `id` is the first record of the fire, `-1 - offset` for the dead letter of a record."""

    number: int
    lineage: int
    id: int
    members: tuple[int, ...]


class Changes(NamedTuple):
    """One commit. `ops` is one changelog entry; `keep_from` 0 leaves the changelog's start where it is."""

    offset: int
    ops: tuple = ()
    keep_from: int = 0
    rows: tuple[Row, ...] = ()
    dispatched: tuple[int, ...] = ()
    trying: tuple = ()


class Packet(NamedTuple):
    """The bytes of a commit on their way."""

    token: int
    version: int
    changes: Changes


class Store(NamedTuple):
    """The durable row, changelog and outbox of the partition; `fires` is history: every row ever committed. `lineage`
    is the token of the claim that committed last, `since` the version of that claim's first commit (where the store may
    go back)."""

    token: int = 0
    version: int = 0
    offset: int = 0
    number: int = 0
    first: int = 1
    entries: tuple = ()
    rows: tuple[Row, ...] = ()
    trying: tuple = ()
    member: int = 0
    fires: tuple[Row, ...] = ()
    since: int = 0
    lineage: int = 0


class Known(NamedTuple):
    """What was seen of the row; only the judge looks at `number`, the last outbox number then."""

    version: int = 0
    offset: int = 0
    lineage: int = 0
    number: int = 0


class Owner(NamedTuple):
    """A process that believes it owns the partition. All but `process`, `owes` and `known` are dropped with the claim.

    `process` is its name in crash marks (negative there: it crashed); `groups` holds (key, members, number of the entry
    that begins its description); `queue` (row, how far its sending is). `names` are the other processes in the crash
    mark; `owes` says that our own name may stand in it; `known` is the highest that the store ever told
    us; `rest` and `fired` serve mutants only.
    """

    process: int
    phase: int = IDLE
    token: int = 0
    version: int = 0
    offset: int = 0
    position: int = 0
    number: int = 0
    first: int = 1
    last: int = 0
    groups: tuple = ()
    queue: tuple = ()
    acked: tuple[int, ...] = ()
    names: tuple[int, ...] = ()
    marked: int = ABSENT
    single: int = 0
    owes: bool = False
    known: Known = Known()
    rest: tuple = ()
    fired: int = 0


class Budget(NamedTuple):
    """How much may still go wrong: this alone makes the space finite."""

    claims: int
    crashes: int = 0
    faults: int = 0
    errors: int = 0
    rewinds: int = 0


class World(NamedTuple):
    """Everything. `wire`: commits whose sender gave up; `limbo`: produced rows whose sender is gone, a sequence per
    output partition; `received`: what each output partition's receiver accepted; `saved`: the state that a rewind goes
    back to; `lost`: rows that a rewind took away; `informed`: what Kafka's informational commit says."""

    store: Store
    owners: tuple[Owner, ...]
    budget: Budget
    wire: tuple[Packet, ...] = ()
    limbo: tuple = ()
    received: tuple = ()
    tokens: int = 0
    saved: tuple = ()
    lost: tuple[Row, ...] = ()
    informed: Known = Known()
    rewound: bool = False
    loud: bool = False
    halted: bool = False


class Setup(NamedTuple):
    """One configuration: what comes in, which parts take part, what may go wrong, and which protection is taken
    away."""

    name: str
    covers: str
    records: str
    budget: Budget
    count: int = 2
    batch: int = 2
    owners: int = 2
    expire: bool = False
    compact: int = 0
    relay: str = ""
    partitions: int = 1
    window: int = 100
    gaps: bool = False
    late_copies: bool = True
    informs: bool = False
    marks: bool = False
    poison: int = -1
    receiver: str = "window"
    mutant: str = ""

    def partition(self, row: Row) -> int:
        """The output partition of a row: that of its key."""
        return ord(self.key(row.members[0])) % self.partitions

    def key(self, offset: int) -> str:
        """The key of a record; a mutant may ask for one that was never written."""
        return self.records[offset : offset + 1] or "?"

    def start(self) -> World:
        """Nothing read, nothing owned."""
        processes = tuple(Owner(n if self.marks else 0) for n in range(1, self.owners + 1))
        return World(Store(), processes, self.budget, received=((),) * self.partitions)
