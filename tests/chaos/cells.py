"""Which failpoint meets which fault in which store, and which of these a short run takes."""

import os
from typing import NamedTuple

STORES = ("redis", "sqlite")
"""What every scenario runs with."""
SERVERS = ("postgresql", "mariadb", "mongodb")
"""What the cells run with besides. The memory store is in no cell: it ends with its process."""
KINDS = ("kill", "stop", "raise", "lost")
BATCH = ("after-poll", "after-decode", "before-commit", "commit-sent", "after-commit")
CLAIM = ("after-claim", "in-restore", "after-restore")
RELAY = ("produced-not-acked", "acked-not-recorded")
TIMER = ("expire-selected", "expire-committed")
POINTS = (*BATCH, *CLAIM, *RELAY, *TIMER)

NTH = {**dict.fromkeys(BATCH, 6), **dict.fromkeys(CLAIM, 1), **dict.fromkeys(RELAY, 40), **dict.fromkeys(TIMER, 1)}
"""At which time a point acts: under load, with results under way."""

OMITTED = {
    ("after-poll", "lost"): "nothing was asked of the store or the broker there",
    ("after-decode", "lost"): "nothing was asked of the store or the broker there",
    ("after-restore", "lost"): "nothing was asked there since in-restore",
    ("expire-selected", "lost"): "groups are selected in memory",
    (
        "produced-not-acked",
        "lost",
    ): "no call to the store; a lost delivery report is test_relay's, and a dead broker test_servers'",
    ("acked-not-recorded", "lost"): "no call to the store; the report that is not recorded is kill's",
}


class Cell(NamedTuple):
    point: str
    kind: str
    store: str
    nth: int = 0  # 0: NTH

    @property
    def fault(self) -> str:
        return f"{self.point}={self.kind}@{self.nth or NTH[self.point]}"

    def __str__(self) -> str:
        return f"{self.point}-{self.kind}-{self.store}"


ALL = [
    Cell(point, kind, store)
    for point in POINTS
    for kind in KINDS
    for store in (*STORES, *SERVERS)
    if (point, kind) not in OMITTED
]

# One store each, in turn; the most telling: state ahead of the store, the store ahead of the state, rows under way,
# timers.
TELLING = [
    ("before-commit", "stop"),
    ("before-commit", "lost"),
    ("commit-sent", "lost"),
    ("after-commit", "kill"),
    ("after-poll", "stop"),
    ("after-decode", "raise"),
    ("in-restore", "kill"),
    ("after-claim", "stop"),
    ("produced-not-acked", "kill"),
    ("acked-not-recorded", "stop"),
    ("expire-selected", "stop"),
    ("expire-committed", "kill"),
]

# The same for each server: a commit it does not hear of or does not answer, a restore, rows under way.
ELSEWHERE = [
    ("before-commit", "stop"),
    ("commit-sent", "lost"),
    ("after-commit", "kill"),
    ("in-restore", "kill"),
    ("before-commit", "lost"),
    ("acked-not-recorded", "stop"),
]

# With the newer group protocol: a member that is killed, and one that is overtaken while it stands still.
CONSUMER_PROTOCOL = [("before-commit", "kill"), ("commit-sent", "stop")]

# Handlers with a session, on the stores of an application's own data: before, in and after the commit that both share,
# a claim, messages under way.
BOOKS_STORES = ("postgresql", "mongodb", "redis")
BOOKS = [
    ("before-commit", "kill", "postgresql"),
    ("before-commit", "stop", "mongodb"),
    ("before-commit", "stop", "redis"),
    ("before-commit", "lost", "mongodb"),
    ("commit-sent", "lost", "postgresql"),
    ("commit-sent", "raise", "redis"),
    ("after-commit", "kill", "redis"),
    ("after-claim", "kill", "mongodb"),
    ("acked-not-recorded", "stop", "postgresql"),
]
BOOKED_GROUPS = [
    ("expire-selected", "kill", "postgresql"),
    ("in-restore", "kill", "mongodb"),
    ("expire-committed", "stop", "redis"),
]
BOOKS_NTH = dict.fromkeys(BATCH, 2)  # a commit of handlers takes long where others use the machine
NO_BOOKS = {
    (
        "before-commit",
        "stop",
        "sqlite",
    ): "the handlers work under the lock of the whole file: nobody takes over while it is held"
}

WHOLE = os.environ.get("SLUICEGATE_CHAOS") == "whole"


def chosen(whole: bool = WHOLE) -> list[Cell]:
    """What this run takes: all of them under SLUICEGATE_CHAOS=whole."""
    if whole:
        return ALL
    here = [Cell(*cell, STORES[number % 2]) for number, cell in enumerate(TELLING)]
    return here + [Cell(*cell, SERVERS[number % 3]) for number, cell in enumerate(ELSEWHERE)]


def newer(whole: bool = WHOLE) -> list[Cell]:
    """What runs with `group.protocol: consumer`: in a whole run the batch's cells, whose faults meet the group."""
    if whole:
        return [cell for cell in ALL if cell.point in BATCH and cell.store in STORES]
    return [Cell(*cell, STORES[number % 2]) for number, cell in enumerate(CONSUMER_PROTOCOL)]


# Cold groups: two groups of a partition stay in memory, so commits evict groups and delete rows, records and deadlines
# make them hot, and a takeover finds rows of hot groups. Before, in and after such a commit; in a restore; a deadline.
PAGED_POINTS = ("before-commit", "commit-sent", "after-commit", "in-restore", *TIMER)
PAGED = [
    ("before-commit", "kill", "postgresql"),
    ("commit-sent", "lost", "sqlite"),
    ("after-commit", "kill", "mongodb"),
    ("before-commit", "stop", "redis"),
    ("in-restore", "kill", "mariadb"),
    ("expire-committed", "kill", "postgresql"),
]


def paged(whole: bool = WHOLE) -> list[Cell]:
    """For `hot_groups`: in a whole run with every store."""
    if not whole:
        return [Cell(*cell) for cell in PAGED]
    return [cell for cell in ALL if cell.point in PAGED_POINTS]


# The same with windows, which close while groups of theirs are rows.
WINDOWED = [
    ("before-commit", "kill", "sqlite"),
    ("commit-sent", "lost", "postgresql"),
    ("after-commit", "kill", "redis"),
    ("before-commit", "stop", "mariadb"),
    ("in-restore", "kill", "mongodb"),
]


def windowed(whole: bool = WHOLE) -> list[Cell]:
    """For `hot_groups` of windows: in a whole run with every store."""
    if not whole:
        return [Cell(*cell) for cell in WINDOWED]
    return [cell for cell in ALL if cell.point in PAGED_POINTS and cell.point not in TIMER]


# Slow handlers: what is sealed, an attempt that is noted, a call, its end, and the commit of what it came to.
SLOW_NTH = 20
SLOW = [
    ("sealed", "kill", "redis"),
    ("attempt-marked", "stop", "postgresql"),
    ("handler-running", "kill", "mongodb"),
    ("handler-done", "stop", "redis"),
    ("complete-sent", "lost", "sqlite"),
]
SEALING = [
    ("sealed", KINDS),
    ("attempt-marked", KINDS),
    ("handler-running", KINDS[:2]),
    ("handler-done", KINDS[:2]),
    ("complete-sent", KINDS),
]


# The dispatcher: a lane that is claimed, its rows with numbers and not sent, sent and not marked, marked; timeouts
# likewise.
DISPATCHER_POINTS = [
    ("timeout-claimed", KINDS),
    ("timeout-emitted", KINDS),
    ("lane-claimed", KINDS),
    ("lane-numbered", KINDS[:3]),
    ("lane-sent", KINDS[:3]),
    ("lane-marked", KINDS[:3]),
]
DISPATCHER_NTH = 3
DISPATCHER = [
    ("timeout-claimed", "kill", "postgresql"),
    ("timeout-emitted", "stop", "mongodb"),
    ("lane-claimed", "stop", "redis"),
    ("lane-numbered", "kill", "sqlite"),
    ("lane-sent", "stop", "postgresql"),
    ("lane-marked", "kill", "mongodb"),
    ("lane-sent", "kill", "redis"),
]


def dispatcher(whole: bool = WHOLE) -> list[Cell]:
    """For the process that sends the outbox's rows. What is asked in a thread may get no reply; between two calls
    nothing is asked."""
    if not whole:
        return [Cell(*cell, DISPATCHER_NTH) for cell in DISPATCHER]
    stores = (*STORES, *SERVERS)
    return [
        Cell(point, kind, store, DISPATCHER_NTH)
        for point, kinds in DISPATCHER_POINTS
        for kind in kinds
        for store in stores
    ]


# The shared buffer: records in it before their offset is, a batch in hand, a batch that is done.
SHARED_NTH = 6
SHARED = [
    ("shared-inserted", "kill", "redis"),
    ("shared-inserted", "stop", "postgresql"),
    ("shared-inserted", "lost", "mongodb"),
    ("shared-sealed", "kill", "mariadb"),
    ("shared-sealed", "stop", "redis"),
    ("shared-completed", "kill", "sqlite"),
    ("shared-completed", "lost", "mongodb"),
    ("shared-completed", "stop", "redis"),
]
SHARED_POINTS = [("shared-inserted", KINDS), ("shared-sealed", KINDS[:3]), ("shared-completed", KINDS)]
NO_SHARED = {
    (
        point,
        "stop",
        "sqlite",
    ): "another thread of it may stand in a transaction: nobody takes over while it holds the whole file"
    for point, _ in SHARED_POINTS
}


def shared(whole: bool = WHOLE) -> list[Cell]:
    """For `scope: shared`. Nothing is asked of the store between a batch's seal and its first call."""
    if not whole:
        return [Cell(*cell, SHARED_NTH) for cell in SHARED]
    stores = (*STORES, *SERVERS)
    all_of_them = [
        Cell(point, kind, store, SHARED_NTH) for point, kinds in SHARED_POINTS for kind in kinds for store in stores
    ]
    return [cell for cell in all_of_them if cell[:3] not in NO_SHARED]


# Transactions: one that is open with all its rows, one that has ended and that the store does not know of; kill -9, or
# a zombie.
TRANSACTION_POINTS = ("produced-not-acked", "txn-produced", "txn-committed", "acked-not-recorded")
TRANSACTION_NTH = {**dict.fromkeys(("txn-produced", "txn-committed", "coordinator"), 4), **dict.fromkeys(RELAY, 40)}
TRANSACTIONAL = [
    ("txn-produced", "kill", "redis"),
    ("txn-committed", "stop", "postgresql"),
    ("txn-produced", "stop", "sqlite"),
    ("txn-committed", "kill", "mongodb"),
    ("produced-not-acked", "kill", "mariadb"),
    ("acked-not-recorded", "kill", "redis"),
]
COORDINATOR = ("coordinator", "kill", "sqlite")  # the broker, while a transaction is open
WITHOUT_CURSOR = [("txn-committed", "kill", "redis"), ("acked-not-recorded", "kill", "sqlite")]
"""Where its absence shows. That of the fence shows in tests/integration/test_late_transaction_ends.py, on the real
broker: here it would race a SIGSTOP."""


def transactional(whole: bool = WHOLE) -> list[Cell]:
    """For `delivery: transactional`."""
    if not whole:
        return [Cell(*cell, TRANSACTION_NTH[cell[0]]) for cell in TRANSACTIONAL]
    stores = (*STORES, *SERVERS)
    every = [(point, kind, store) for point in TRANSACTION_POINTS for kind in KINDS[:2] for store in stores]
    return [Cell(*cell, TRANSACTION_NTH[cell[0]]) for cell in (*every, COORDINATOR)]


def without_cursor() -> list[Cell]:
    """The twins."""
    return [Cell(*cell, TRANSACTION_NTH[cell[0]]) for cell in WITHOUT_CURSOR]


def slow(whole: bool = WHOLE) -> list[Cell]:
    """For slow handlers: in a whole run with every store. What raises inside a call is its handler's failure, no fault
    of the engine."""
    if not whole:
        return [Cell(*cell) for cell in SLOW]
    return [Cell(point, kind, store) for point, kinds in SEALING for kind in kinds for store in (*STORES, *SERVERS)]


def books(whole: bool = WHOLE) -> list[Cell]:
    """For handlers of messages: in a whole run everything, with every store, but the timers and a restore, which is one
    of groups."""
    if not whole:
        return [Cell(*cell, BOOKS_NTH.get(cell[0], 0)) for cell in BOOKS]
    taken = [cell for cell in ALL if cell.point not in ("in-restore", *TIMER) and cell[:3] not in NO_BOOKS]
    return [cell._replace(nth=BOOKS_NTH.get(cell.point, 0)) for cell in taken]


def booked_groups(whole: bool = WHOLE) -> list[Cell]:
    """For handlers of groups: in a whole run the commit, a restore and the timers."""
    if not whole:
        return [Cell(*cell) for cell in BOOKED_GROUPS]
    return [cell for cell in ALL if cell.point in ("before-commit", "in-restore", *TIMER) and cell[:3] not in NO_BOOKS]


def left_out(whole: bool = WHOLE) -> list[Cell]:
    """The first commit of a partition, which holds only records that `where` left out."""
    points, stores = ("before-commit", "commit-sent", "after-commit"), (*STORES, *SERVERS)
    every = [Cell(point, "kill", store, 1) for store in stores for point in points]
    return every if whole else [every[3 * n + n % 3] for n in range(len(stores))]


# A change of the rule: before and after the commit of a worker that switches a partition to another version, and before
# and after its commits while the row names groups of an earlier one: slices that end them, records that are read again.
SWITCH_POINTS = ("switch-decided", "switch-sent", "earlier-decided", "earlier-committed")
POLICIES = ("finish", "convert", "flush", "rewind", "drop")


def changes(whole: bool = WHOLE) -> list[tuple[str, Cell]]:
    """For `sluicegate deploy` under load, of a worker: the policy for open groups, and the cell. A short run takes
    three policies for each store, at places in turn."""
    places = [(point, kind) for kind in KINDS for point in SWITCH_POINTS]
    stores = (*STORES, *SERVERS)
    if whole:
        return [(policy, Cell(*place, store, 1)) for store in stores for policy in POLICIES for place in places]
    turns = [(POLICIES[turn % 5], places[7 * turn % len(places)], stores[turn // 3]) for turn in range(15)]
    return [(policy, Cell(*place, store, 1)) for policy, place, store in turns]


def switches(whole: bool = WHOLE) -> list[Cell]:
    """The cells of `changes`."""
    return list(dict.fromkeys(cell for _, cell in changes(whole)))


def commands(whole: bool = WHOLE) -> list[Cell]:
    """For the command itself, after its commit. It holds nothing: a command that is stopped is not overtaken."""
    kinds, taken = ("kill", "raise", "lost"), STORES
    every = [Cell("rules-written", kind, store, 1) for store in taken for kind in kinds]
    return every if whole else every[::2]


def stores() -> tuple[str, ...]:
    """The stores of a scenario that is no cell: both in a whole run, else the one without a server."""
    return STORES if WHOLE else ("redis",)
