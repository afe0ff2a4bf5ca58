"""What is explored: small setups that each look at one part, and the mutants that each lack one protection."""

from typing import NamedTuple

from tests.model import promises
from tests.model.values import Budget, Setup

OWNERSHIP = Setup(
    "ownership", "two owners, a crash, two faults of bytes: late, twice, reply lost, a claim by nobody", "aba", Budget(claims=3, faults=2)
)
CRASH = Setup("crash", "two owners, a crash and a fault of bytes at any point", "aba", Budget(claims=3, crashes=1, faults=1))
EXPIRY = Setup("expiry", "any group may expire at any time, and any owner may think so", "ab", Budget(3, 1, 1), expire=True)
CHANGELOG = Setup("changelog", "rolling compaction while others restore", "abca", Budget(3, 1, 1), compact=2)
RELAY = Setup(
    "relay", "two output partitions, reports in any order or lost, errors, late copies, a zombie relay", "ab", Budget(2, 1, errors=1),
    count=1, relay="stepwise", partitions=2,
)  # fmt: skip
ZOMBIE = Setup("zombie", "three claims relay the same key", "aa", Budget(3, errors=1), count=1, relay="stepwise")
LATE = Setup("late", "the relay and a fault of bytes together, with a crash", "aa", Budget(2, 1, 1), count=1, relay="stepwise")
WINDOW = Setup(
    "window", "receivers that remember two numbers", "acac", Budget(2, 1, errors=1),
    count=1, owners=1, relay="stepwise", window=2, late_copies=False,
)  # fmt: skip
GAPS = WINDOW._replace(
    name="gaps", covers="a broker that writes n + 1 but not n; order is not asked for", budget=Budget(2, errors=1), gaps=True
)  # fmt: skip
REWIND = Setup("rewind", "two owners, the store loses acknowledged commits", "aa", Budget(3, rewinds=1), count=1, relay="at once")
REWIND_EXPIRY = Setup(
    "rewind-expiry", "one owner after another, a rewind across fires, Kafka's informational commit, a crash", "aa", Budget(3, 1, rewinds=1),
    owners=1, relay="at once", expire=True, informs=True,
)  # fmt: skip
DUEL = Setup("duel", "live owners take the partition from each other four times", "a", Budget(4, faults=1), batch=1, marks=True)
MARKS = Setup("marks", "a crash, and late, lost and doubled bytes of marks", "a", Budget(4, 1, 1), batch=1, marks=True)
ACQUITTALS = Setup("acquittals", "two crashes, and a live process that loses the partition", "a", Budget(5, 2), batch=1, marks=True)
KILLS = Setup("kills", "crashes from outside, two keys, expiry", "ab", Budget(3, 2), expire=True, marks=True)
IDLE = Setup("idle", "three crashes of processes that may have nothing to read", "a", Budget(5, 3), batch=1, marks=True)
POISON = Setup("poison", "a record in the middle of a batch kills whoever reads it", "aaa", Budget(4, 1), marks=True, poison=1)

SETUPS = (
    OWNERSHIP, CRASH, EXPIRY, CHANGELOG, RELAY, ZOMBIE, LATE, WINDOW, GAPS, REWIND, REWIND_EXPIRY, DUEL, MARKS, ACQUITTALS, KILLS, IDLE,
    POISON,
)  # fmt: skip


class Mutant(NamedTuple):
    """`flag` takes a protection away; exploring `setup` must then break `promise`."""

    flag: str
    setup: Setup
    promise: str


MUTANTS = (
    Mutant("no-compare-and-set", CRASH, promises.ONCE),
    Mutant("token-without-version", CRASH, promises.ONCE),
    Mutant("version-without-token", CRASH, promises.FENCE),
    Mutant("counter-tokens", REWIND, promises.AGREEMENT),
    Mutant("offset-after-state", CRASH, promises.ONCE),
    Mutant("offset-before-state", CRASH, promises.DELIVERED),
    Mutant("memory-kept-after-unknown-result", CRASH, promises.ONCE),
    Mutant("stale-batch", CRASH, promises.AGREEMENT),
    Mutant("fire-id-from-a-counter", EXPIRY, promises.ONE_CONTENT),
    Mutant("keep-from-too-early", CHANGELOG, promises.AGREEMENT),
    Mutant("incomplete-restore-always-halts", CHANGELOG, promises.NO_FALSE_ALARM),
    Mutant("fenced-owner-never-claims-again", CRASH, promises.DELIVERED),
    Mutant("publish-before-commit", RELAY, promises.DURABLE_FIRST),
    Mutant("acknowledged-up-to-the-highest", RELAY, promises.UNSENT),
    Mutant("rows-purged-at-claim", RELAY, promises.UNSENT),
    Mutant("number-from-what-is-left", ZOMBIE, promises.DELIVERED),
    Mutant("goes-on-past-a-failure", ZOMBIE, promises.ORDER),
    Mutant("failed-row-forgotten", ZOMBIE, promises.DELIVERED),
    Mutant("receiver-with-watermark", GAPS, promises.DELIVERED),
    Mutant("limit-counts-what-is-unacknowledged", WINDOW, promises.RECEIVED_ONCE),
    Mutant("limit-counts-from-the-lowest-unacknowledged", WINDOW, promises.RECEIVED_ONCE),
    Mutant("shard-without-lineage", REWIND_EXPIRY, promises.DELIVERED),
    Mutant("rewind-checked-by-offset", REWIND_EXPIRY, promises.LOUD),
    Mutant("relays-rows-of-later-claims", REWIND, promises.UNSENT),
    Mutant("claims-counted-as-crashes", DUEL, promises.CRASHES_ONLY),
    Mutant("mark-without-records", IDLE, promises.ONLY_READ),
    Mutant("commit-without-records-clears-the-mark", KILLS, promises.REMEMBERED),
    Mutant("never-acquits", ACQUITTALS, promises.CRASHES_ONLY),
    Mutant("acquit-without-version", ACQUITTALS, promises.CRASHES_ONLY),
    Mutant("acquit-without-version", MARKS, promises.ACQUITTED),
)

LIMITS = (
    Mutant("", WINDOW._replace(name="a copy older than the window", late_copies=True), promises.RECEIVED_ONCE),
    Mutant("", REWIND_EXPIRY._replace(name="unique id across a rewind", receiver="unique id"), promises.DELIVERED),
)
"""What the protocol does not give, by the model's own word: nothing is mutated and the promise breaks all the same."""
