"""What is explored: small setups that each look at one part, and the mutants that each lack one protection."""

from typing import NamedTuple

from tests.model import (
    changed,
    deploying,
    lanes,
    origins,
    paged,
    paged_windows,
    promises,
    protocol,
    sealed,
    shared,
    silence,
    timeouts,
    transactional,
)
from tests.model.calls import Trouble
from tests.model.explore import Rules
from tests.model.values import Budget, Setup

AnySetup = (
    Setup
    | sealed.Setup
    | timeouts.Setup
    | lanes.Setup
    | shared.Setup
    | transactional.Setup
    | changed.Setup
    | deploying.Setup
    | origins.Setup
    | silence.Setup
    | paged.Setup
    | paged_windows.Setup
)


def rules(setup: AnySetup) -> Rules:
    """The model that this is a setup of."""
    models = {Setup: protocol, sealed.Setup: sealed, timeouts.Setup: timeouts, lanes.Setup: lanes, shared.Setup: shared}
    more = {transactional.Setup: transactional, changed.Setup: changed, deploying.Setup: deploying}
    more |= {origins.Setup: origins, silence.Setup: silence, paged.Setup: paged, paged_windows.Setup: paged_windows}
    return (models | more)[type(setup)].RULES


OWNERSHIP = Setup(
    "ownership",
    "two owners, a crash, two faults of bytes: late, twice, reply lost, a claim by nobody",
    "aba",
    Budget(claims=3, faults=2),
)
CRASH = Setup(
    "crash", "two owners, a crash and a fault of bytes at any point", "aba", Budget(claims=3, crashes=1, faults=1)
)
EXPIRY = Setup(
    "expiry", "any group may expire at any time, and any owner may think so", "ab", Budget(3, 1, 1), expire=True
)
CHANGELOG = Setup("changelog", "rolling compaction while others restore", "abca", Budget(3, 1, 1), compact=2)
RELAY = Setup(
    "relay",
    "two output partitions, reports in any order or lost, errors, late copies, a zombie relay",
    "ab",
    Budget(2, 1, errors=1),
    count=1,
    relay="stepwise",
    partitions=2,
)
ZOMBIE = Setup("zombie", "three claims relay the same key", "aa", Budget(3, errors=1), count=1, relay="stepwise")
LATE = Setup(
    "late", "the relay and a fault of bytes together, with a crash", "aa", Budget(2, 1, 1), count=1, relay="stepwise"
)
WINDOW = Setup(
    "window",
    "receivers that remember two numbers",
    "acac",
    Budget(2, 1, errors=1),
    count=1,
    owners=1,
    relay="stepwise",
    window=2,
    late_copies=False,
)
GAPS = WINDOW._replace(
    name="gaps",
    covers="a broker that writes n + 1 but not n; order is not asked for",
    budget=Budget(2, errors=1),
    gaps=True,
)
REWIND = Setup(
    "rewind", "two owners, the store loses acknowledged commits", "aa", Budget(3, rewinds=1), count=1, relay="at once"
)
REWIND_EXPIRY = Setup(
    "rewind-expiry",
    "one owner after another, a rewind across fires, Kafka's informational commit, a crash",
    "aa",
    Budget(3, 1, rewinds=1),
    owners=1,
    relay="at once",
    expire=True,
    informs=True,
)
REWIND_MARKS = Setup(
    "rewind-marks",
    "a rewind across a fire, while a crash mark stands that a live process takes back",
    "ab",
    Budget(3, rewinds=1),
    expire=True,
    marks=True,
)
DUEL = Setup(
    "duel", "live owners take the partition from each other four times", "a", Budget(4, faults=1), batch=1, marks=True
)
MARKS = Setup("marks", "a crash, and late, lost and doubled bytes of marks", "a", Budget(4, 1, 1), batch=1, marks=True)
CLEARED_MARKS = Setup(
    "cleared marks", "two crashes, and a live process that loses the partition", "a", Budget(5, 2), batch=1, marks=True
)
KILLS = Setup("kills", "crashes from outside, two keys, expiry", "ab", Budget(3, 2), expire=True, marks=True)
IDLE = Setup("idle", "three crashes of processes that may have nothing to read", "a", Budget(5, 3), batch=1, marks=True)
POISON = Setup(
    "poison", "a record in the middle of a batch kills whoever reads it", "aaa", Budget(4, 1), marks=True, poison=1
)

SEALED = sealed.Setup("sealed", "slow handlers of one key, a crash, an overtaken owner", Trouble(crashes=1, overs=1))
SEALED_BYTES = sealed.Setup(
    "sealed-bytes", "late, lost and doubled bytes of seals, attempts and outputs", Trouble(faults=1, overs=1)
)
KILLER = sealed.Setup(
    "killer", "a handler that ends its process whenever it runs, another beside it", Trouble(), keys="ab", killer=0
)
CUT_OFF = sealed.Setup(
    "cut-off", "a live process that twice does not hear of its commit", Trouble(replies=2), keys="ab", owners=1
)

CHANGED = changed.Setup(
    "changed", "two files, a crash, owners that overtake each other twice", Trouble(crashes=1, overs=2)
)
CHANGED_BYTES = CHANGED._replace(
    name="changed-bytes",
    covers="late, lost and doubled bytes of ends, marks and batches",
    trouble=Trouble(faults=1, overs=2),
)
CHANGED_SLICES = CHANGED._replace(
    name="changed-slices",
    covers="slices of two groups, two crashes",
    trouble=Trouble(crashes=2, overs=1),
    keys="abcda",
    most=2,
)

DEPLOYED = deploying.Setup(
    "deployed", "one deployment with finish, a crash, owners that overtake each other", Trouble(crashes=1, overs=1)
)
DEPLOYED_BYTES = DEPLOYED._replace(
    name="deployed-bytes",
    covers="late, lost and doubled bytes of switches, slices, marks and batches",
    trouble=Trouble(faults=1, overs=1),
    policies=("flush",),
)
DEPLOYED_TWICE = DEPLOYED._replace(
    name="deployed-twice",
    covers="two commands at once, two versions, a crash",
    trouble=Trouble(crashes=1, overs=1),
    policies=("finish", "convert"),
    keys=("aba", "aab", "aab"),
)
DEPLOYED_CONVERT = DEPLOYED._replace(
    name="deployed-convert",
    covers="groups that go on under the new version, in slices; two crashes",
    trouble=Trouble(crashes=2),
    policies=("convert",),
    keys=("abca", "abca"),
)
DEPLOYED_REWIND = DEPLOYED._replace(
    name="deployed-rewind",
    covers="records that are read again under the new version, a crash, an owner that overtakes another",
    policies=("rewind",),
    keys=("abbbaa", "aabbab"),
    count=3,
)
DEPLOYED_REWIND_BYTES = DEPLOYED_REWIND._replace(
    name="deployed-rewind-bytes",
    covers="late, lost and doubled bytes while records are read again",
    trouble=Trouble(faults=1),
)
DEPLOYED_REWIND_DROP = DEPLOYED_REWIND._replace(
    name="deployed-rewind-drop",
    covers="what waits to be read again is dropped; two groups of a key, a crash",
    trouble=Trouble(crashes=1),
    policies=("rewind", "drop"),
    keys=("abbba", "aabab", "ababa"),
)
DEPLOYED_REWIND_FLUSH = DEPLOYED_REWIND_DROP._replace(
    name="deployed-rewind-flush", covers="newest groups fire while records are read again", policies=("rewind", "flush")
)
DEPLOYED_REWIND_TWICE = DEPLOYED_REWIND_DROP._replace(
    name="deployed-rewind-twice",
    covers="a second deployment with rewind, which waits until the first one has ended",
    policies=("rewind", "rewind"),
    keys=("abbba", "aabaa", "ababa"),
)

TIMEOUTS = timeouts.Setup(
    "timeouts",
    "two dispatchers, a cancel at any time, leases that run out, the outbox forgets",
    (("insert", 1, 1), ("insert", 2, 1), ("cancel", 1, 0)),
    Trouble(1, 1, 1),
    end=1,
)
MOVES = timeouts.Setup(
    "moves",
    "a timeout is moved while it is due, and its name used again",
    (("insert", 1, 1), ("move", 1, 2), ("insert", 1, 3)),
    Trouble(faults=1, overs=1),
    end=3,
    sweeps=False,
)
REPEATS = timeouts.Setup(
    "repeats",
    "an insert without an answer is made again, when the message may be out already",
    (("insert", 1, 1), ("insert", 2, 1)),
    Trouble(1, 1, 1),
    end=1,
    sweeps=False,
    insists=True,
)

LANES = lanes.Setup("lanes", "two dispatchers, a crash, a lease that runs out, a fault of bytes", Trouble(1, 1, 1))
LANE_ERRORS = lanes.Setup("lane-errors", "errors and late copies, a lease that runs out", Trouble(errors=1, overs=1))
LANE_REFUSALS = lanes.Setup(
    "lane-refusals",
    "a topic that refuses, back-off, dead rows, a person who requeues",
    Trouble(faults=1),
    limit=1,
    refusals=2,
    requeues=1,
    actors=1,
)
LANE_REQUEUE = LANE_REFUSALS._replace(
    name="lane-requeue", covers="a late mark of the time before a row was requeued", attempts=1, rows=1
)
LANE_SEQUENCE = lanes.Setup(
    "lane-sequence",
    "transactions that commit in another order than they began",
    Trouble(crashes=1),
    rows=1,
    beside=1,
    actors=1,
)
LANE_WINDOW = lanes.Setup(
    "lane-window",
    "receivers that remember two numbers",
    Trouble(crashes=1, overs=1),
    rows=3,
    limit=3,
    window=2,
    actors=1,
    copies=False,
)

SHARED = shared.Setup(
    "shared", "a partition in two hands, a crash, a lease that runs out", Trouble(crashes=1, overs=1), ("ab",)
)
SHARED_BYTES = SHARED._replace(
    name="shared-bytes", covers="late, lost and doubled bytes", trouble=Trouble(faults=1, overs=1)
)
SHARED_GROUPS = SHARED._replace(
    name="shared-groups", covers="a full group, and the next one", trouble=Trouble(overs=1), ids=("abc",)
)
SHARED_COUNT = SHARED._replace(name="shared-count", covers="no deadline, only a count", expire=False)
SHARED_PARTITIONS = SHARED._replace(
    name="shared-partitions", covers="two partitions", trouble=Trouble(crashes=1), ids=("a", "b")
)
SHARED_ENDS = SHARED._replace(
    name="shared-ends",
    covers="a record that ends its group, in two partitions",
    trouble=Trouble(crashes=1),
    ids=("ab", "c"),
    count=3,
    ends="a",
)
SHARED_IDS = SHARED._replace(
    name="shared-ids",
    covers="a producer that wrote a record twice",
    trouble=Trouble(crashes=1),
    ids=("a", "a"),
    count=1,
    keeps=True,
)

KAFKA = transactional.Setup(
    "transactions", "two owners, a crash: zombies open, fill and end transactions", transactional.Trouble(crashes=1)
)
KAFKA_TIME = KAFKA._replace(
    name="transactions-time", covers="two owners, a transaction times out", trouble=transactional.Trouble(timeouts=1)
)
KAFKA_LOST = KAFKA._replace(
    name="transactions-lost",
    covers="late and lost bytes of the coordinator and of the store, a transaction times out, a crash",
    trouble=transactional.Trouble(crashes=1, faults=1, timeouts=1),
    owners=1,
)
KAFKA_AWAY = KAFKA._replace(
    name="transactions-away",
    covers="two owners of one row, a call without an answer",
    trouble=transactional.Trouble(faults=1),
    records=1,
)
KAFKA_REFUSED = KAFKA._replace(name="transactions-refused", covers="a row that its topic refuses", owners=1, refused=0)
KAFKA_REWIND = KAFKA._replace(
    name="transactions-rewind",
    covers="a store that goes back",
    trouble=transactional.Trouble(claims=3, rewinds=1),
    owners=1,
)
KAFKA_LINEAGES = KAFKA._replace(
    name="transactions-lineages",
    covers="a cursor that names one lineage",
    trouble=transactional.Trouble(3, crashes=2),
    owners=1,
    most=1,
)

ORIGINS = origins.Setup("origins", "two origins, their marks in every order", ((1, 3), (2,)), origins.Budget(marks=2))
PAGED = paged.Setup("paged", "another owner claims while the first believes", Trouble(overs=1))
PAGED_BYTES = paged.Setup("paged-bytes", "late, lost and doubled bytes of one owner", Trouble(faults=1), owners=1)
PAGED_CRASH = paged.Setup("paged-crash", "a crash, and two keys", Trouble(crashes=1), keys="aba", owners=1)
PAGED_WINDOWS = paged_windows.Setup("paged-windows", "another owner claims while the first believes", Trouble(overs=1))
PAGED_WINDOWS_BYTES = paged_windows.Setup(
    "paged-windows-bytes", "late, lost and doubled bytes of one owner", Trouble(faults=1), owners=1
)
PAGED_WINDOWS_CRASH = paged_windows.Setup(
    "paged-windows-crash",
    "two crashes, two keys, a late record",
    Trouble(crashes=2),
    keys="abaa",
    windows=(0, 0, 1, 0),
    owners=1,
)
PAGED_AMENDED = paged_windows.Setup(
    "paged-amended",
    "a crash, a late record, the watermark ends a group that stays",
    Trouble(crashes=1),
    keys="aaa",
    windows=(0, 1, 0),
    owners=1,
    keep=1,
)
PAGED_AMENDED_EARLY = paged_windows.Setup(
    "paged-amended-early",
    "a late record while the results of its window and of an earlier one wait",
    Trouble(),
    keys="aaba",
    windows=(0, 1, 2, 1),
    owners=1,
    keep=2,
)
SILENCE = silence.Setup("silence", "a connection swallows bytes, another owner claims", silence.Budget(3, 1, 1))
ORIGINS_CRASH = origins.Setup(
    "origins-crash", "the owner crashes anywhere", ((1,), (2,)), origins.Budget(marks=2, crashes=1)
)
ORIGINS_COPY = origins.Setup("origins-copy", "a row is sent again", ((1,), (2,)), origins.Budget(marks=2, copies=1))
ORIGINS_CLAIM = origins.Setup(
    "origins-claim", "a re-keyer claims anew", ((1,), (2,)), origins.Budget(marks=2, claims=1)
)
ORIGINS_REWIND = origins.Setup(
    "origins-rewind", "the owner's store goes back", ((1,), (2,)), origins.Budget(marks=2, rewinds=1)
)
ORIGINS_TIME = origins.Setup(
    "origins-time", "time passes, the owner crashes", ((1,), (2,)), origins.Budget(marks=2, ticks=2, crashes=1)
)

SETUPS: tuple[AnySetup, ...] = (
    OWNERSHIP,
    CRASH,
    EXPIRY,
    CHANGELOG,
    RELAY,
    ZOMBIE,
    LATE,
    WINDOW,
    GAPS,
    REWIND,
    REWIND_EXPIRY,
    REWIND_MARKS,
    DUEL,
    MARKS,
    CLEARED_MARKS,
    KILLS,
    IDLE,
    POISON,
    SEALED,
    SEALED_BYTES,
    KILLER,
    CUT_OFF,
    CHANGED,
    CHANGED_BYTES,
    CHANGED_SLICES,
    DEPLOYED,
    DEPLOYED_BYTES,
    DEPLOYED_TWICE,
    DEPLOYED_CONVERT,
    DEPLOYED_REWIND,
    DEPLOYED_REWIND_BYTES,
    DEPLOYED_REWIND_DROP,
    DEPLOYED_REWIND_FLUSH,
    DEPLOYED_REWIND_TWICE,
    ORIGINS,
    PAGED,
    PAGED_BYTES,
    PAGED_CRASH,
    PAGED_WINDOWS,
    PAGED_WINDOWS_BYTES,
    PAGED_WINDOWS_CRASH,
    PAGED_AMENDED,
    PAGED_AMENDED_EARLY,
    SILENCE,
    ORIGINS_CRASH,
    ORIGINS_COPY,
    ORIGINS_CLAIM,
    ORIGINS_REWIND,
    ORIGINS_TIME,
    TIMEOUTS,
    MOVES,
    REPEATS,
    LANES,
    LANE_ERRORS,
    LANE_REFUSALS,
    LANE_REQUEUE,
    LANE_SEQUENCE,
    LANE_WINDOW,
    SHARED,
    SHARED_BYTES,
    SHARED_GROUPS,
    SHARED_COUNT,
    SHARED_PARTITIONS,
    SHARED_ENDS,
    SHARED_IDS,
    KAFKA,
    KAFKA_TIME,
    KAFKA_LOST,
    KAFKA_AWAY,
    KAFKA_REFUSED,
    KAFKA_REWIND,
    KAFKA_LINEAGES,
)


class Mutant(NamedTuple):
    """`flag` takes a protection away; exploring `setup` must then break `promise`."""

    flag: str
    setup: AnySetup
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
    Mutant("rewind-checked-by-version", REWIND, promises.LOUD),
    Mutant("relays-rows-of-later-claims", REWIND, promises.UNSENT),
    Mutant("claims-counted-as-crashes", DUEL, promises.CRASHES_ONLY),
    Mutant("mark-without-records", IDLE, promises.ONLY_READ),
    Mutant("commit-without-records-clears-the-mark", KILLS, promises.REMEMBERED),
    Mutant("never-clears", CLEARED_MARKS, promises.CRASHES_ONLY),
    Mutant("clear-without-fence", CLEARED_MARKS, promises.CRASHES_ONLY),
    Mutant("clear-without-fence", MARKS, promises.CLEARED),
    Mutant("clear-by-version", REWIND_MARKS, promises.LOUD),
    Mutant("committed-without-comparing", SEALED, sealed.ONCE),
    Mutant("sealed-items-not-restored", SEALED, sealed.DELIVERED),
    Mutant("offset-moves-without-the-seal", SEALED, sealed.DELIVERED),
    Mutant("the-next-of-a-key-begins-too", SEALED, sealed.ALONE),
    Mutant("attempt-not-marked", KILLER, sealed.DELIVERED),
    Mutant("suspects-run-together", KILLER, sealed.INNOCENT),
    Mutant("calls-cut-off-count-as-deaths", CUT_OFF, sealed.INNOCENT),
    Mutant("an-attempt-without-an-answer-counts", CUT_OFF, sealed.INNOCENT),
    Mutant("ended-behind-the-mark", CHANGED, changed.LAYOUT),
    Mutant("named-with-the-first-slice", CHANGED, changed.LAYOUT),
    Mutant("read-by-the-file", CHANGED, changed.LAYOUT),
    Mutant("reads-on-while-groups-end", CHANGED, changed.LAYOUT),
    Mutant("ended-and-still-open", CHANGED, changed.ONCE),
    Mutant("forgotten-before-they-fire", CHANGED, changed.ONCE),
    Mutant("ended-without-comparing", CHANGED_BYTES, changed.ONCE),
    Mutant("all-in-one-commit", CHANGED, changed.BOUNDED),
    Mutant("mark-writes-the-version", DEPLOYED, deploying.LAYOUT),
    Mutant("generation-kept", DEPLOYED, deploying.LAYOUT),
    Mutant("file-decides", DEPLOYED, deploying.FALLS),
    Mutant("switched-without-comparing", DEPLOYED_BYTES, deploying.ONCE),
    Mutant("newest-first", DEPLOYED, deploying.TAKEN),
    Mutant("older-forgotten", DEPLOYED, deploying.LAYOUT),
    Mutant("converted-by-name-only", DEPLOYED_CONVERT, deploying.LAYOUT),
    Mutant("forgotten-before-they-fire", DEPLOYED_BYTES, deploying.ONCE),
    Mutant("all-in-one-commit", DEPLOYED_CONVERT, deploying.BOUNDED),
    Mutant("deployed-without-comparing", DEPLOYED_TWICE, deploying.NUMBERS),
    Mutant("policy-of-the-last-deployment", DEPLOYED_TWICE, deploying.POLICY),
    Mutant("runs-before-it-is-recorded", DEPLOYED, deploying.RECORDED),
    Mutant("switched-with-records", DEPLOYED, deploying.ALONE),
    Mutant("switched-with-records", DEPLOYED_REWIND, deploying.ALONE),
    Mutant("all-records-are-read-again", DEPLOYED_REWIND, deploying.ONCE),
    Mutant("forgotten-at-the-switch", DEPLOYED_REWIND, deploying.ONCE),
    Mutant("read-again-and-still-waiting", DEPLOYED_REWIND, deploying.ONCE),
    Mutant("goes-back-in-a-later-commit", DEPLOYED_REWIND, deploying.BACK),
    Mutant("goes-back-in-a-later-commit", DEPLOYED_REWIND, deploying.DELIVERED),
    Mutant("leaves-with-its-last-group", DEPLOYED_REWIND, deploying.ONCE),
    Mutant("told-more-than-the-row", DEPLOYED_REWIND, deploying.QUIET),
    Mutant("switched-without-comparing", DEPLOYED_REWIND_BYTES, deploying.ONCE),
    Mutant("drop-ends-the-filter", DEPLOYED_REWIND_DROP, deploying.ONCE),
    Mutant("flush-fires-what-is-read-again", DEPLOYED_REWIND_FLUSH, deploying.POLICY),
    Mutant("rewound-while-groups-wait", DEPLOYED_REWIND_TWICE, deploying.DELIVERED),
    Mutant("rewound-before-the-first-claim", DEPLOYED_REWIND_TWICE, deploying.DELIVERED),
    Mutant("rewound-without-reading", DEPLOYED_REWIND_TWICE, deploying.DELIVERED),
    Mutant("rows-without-comparing", PAGED, paged.STATE),
    Mutant("rows-without-comparing", PAGED_BYTES, paged.ONCE),
    Mutant("rows-of-hot-groups-not-restored", PAGED, paged.ONCE),
    Mutant("not-looked-up", PAGED_CRASH, paged.DELIVERED),
    Mutant("the-row-of-a-hot-group-fires", PAGED, paged.ONCE),
    Mutant("the-row-stays-when-its-group-ends", PAGED_CRASH, paged.ONCE),
    Mutant("evicted-and-still-in-the-log", PAGED, paged.COUNT),
    Mutant("evicted-without-a-row", PAGED_BYTES, paged.STATE),
    Mutant("rows-without-comparing", PAGED_WINDOWS, paged_windows.STATE),
    Mutant("the-watermark-is-not-restored", PAGED_WINDOWS_CRASH, paged_windows.LATE),
    Mutant("not-looked-up", PAGED_WINDOWS, paged_windows.STATE),
    Mutant("silence-overlooks-cold-windows", PAGED_WINDOWS_CRASH, paged_windows.DELIVERED),
    Mutant("later-windows-first", PAGED_WINDOWS_CRASH, paged_windows.ORDER),
    Mutant("the-row-stays-when-its-group-ends", PAGED_WINDOWS_CRASH, paged_windows.STATE),
    Mutant("evicted-windows-not-in-the-log", PAGED_WINDOWS_BYTES, paged_windows.COUNT),
    Mutant("ends-before-others-close", PAGED_AMENDED, paged_windows.ORDER),
    Mutant("the-row-lacks-its-results", PAGED_AMENDED, paged_windows.STATE),
    Mutant("evicted-before-its-revision", PAGED_AMENDED_EARLY, paged_windows.DELIVERED),
    Mutant("earlier-windows-are-not-asked-for", PAGED_AMENDED_EARLY, paged_windows.ORDER),
    Mutant("earlier-windows-do-not-close-first", PAGED_AMENDED_EARLY, paged_windows.ORDER),
    Mutant("the-answer-is-old", SILENCE, silence.PRESENT),
    Mutant("a-word-counts-for-ever", SILENCE, silence.PRESENT),
    Mutant("a-predecessor-is-believed", SILENCE, silence.FIRST),
    Mutant("mark-before-its-records", ORIGINS, origins.LATE),
    Mutant("unknown-origin-holds-nothing", ORIGINS, origins.HOLDS),
    Mutant("idle-origin-stays-idle", ORIGINS, origins.HOLDS),
    Mutant("watermark-over-one-leg", ORIGINS, origins.HOLDS),
    Mutant("silence-before-the-end", ORIGINS, origins.HOLDS),
    Mutant("repeated-mark-taken", ORIGINS_COPY, origins.HOLDS),
    Mutant("origins-not-in-the-entry", ORIGINS_CRASH, origins.ENDS),
    Mutant("watermark-not-in-the-entry", ORIGINS_CRASH, origins.BACK),
    Mutant("watermark-not-in-the-entry", ORIGINS_REWIND, origins.ALIKE),
    Mutant("idle-is-never-doubted", ORIGINS_TIME, origins.HOLDS),
    Mutant("doubted-by-its-own-clock", ORIGINS_TIME, origins.ALIKE),
    Mutant("due-by-the-dispatchers-clock", TIMEOUTS, timeouts.EARLY),
    Mutant("removed-before-the-row", TIMEOUTS, timeouts.DELIVERED),
    Mutant("row-before-the-removal", TIMEOUTS, timeouts.ONCE),
    Mutant("emitted-without-its-lease", TIMEOUTS, timeouts.STOPPED),
    Mutant("cancel-that-looks-first", TIMEOUTS, timeouts.STOPPED),
    Mutant("claimed-for-ever", TIMEOUTS, timeouts.DELIVERED),
    Mutant("moved-and-still-claimed", MOVES, timeouts.STOPPED),
    Mutant("message-id-without-the-due-time", MOVES, timeouts.DELIVERED),
    Mutant("message-id-at-random", REPEATS, timeouts.ONCE),
    Mutant("marks-without-the-token", LANES, lanes.FENCE),
    Mutant("numbers-anew-at-each-claim", LANES, lanes.ONCE),
    Mutant("number-from-what-is-left", LANES, lanes.UNSENT),
    Mutant("marked-before-it-is-sent", LANES, lanes.DELIVERED),
    Mutant("sender-named-by-its-process", LANES, lanes.ONCE),
    Mutant("added-without-looking-at-its-id", LANES, lanes.ONCE),
    Mutant("goes-on-past-a-failure", LANE_ERRORS, lanes.ORDER),
    Mutant("a-repeated-mark-counts-again", LANE_REFUSALS, lanes.REFUSALS),
    Mutant("requeued-under-its-number", LANE_REQUEUE, lanes.REFUSALS),
    Mutant("passes-what-waits", LANE_REFUSALS, lanes.ORDER),
    Mutant("reads-on-from-the-highest-place", LANE_SEQUENCE, lanes.DELIVERED),
    Mutant("batches-wider-than-the-window", LANE_WINDOW, lanes.ONCE),
    Mutant("insert-without-the-watermark", SHARED, shared.ONCE),
    Mutant("watermark-before-the-insert", SHARED, shared.DELIVERED),
    Mutant("watermark-after-the-insert", SHARED, shared.ONCE),
    Mutant("removed-before-the-message", SHARED, shared.DELIVERED),
    Mutant("message-before-the-removal", SHARED, shared.ONCE),
    Mutant("made-anew-when-taken-over", SHARED, shared.ONE_CONTENT),
    Mutant("taken-over-without-a-new-token", SHARED, shared.ONE_TOLD),
    Mutant("completed-without-its-lease", SHARED, shared.FENCE),
    Mutant("nobody-looks-for-what-others-left", SHARED, shared.DELIVERED),
    Mutant("sealed-apart-from-the-insert", SHARED_COUNT, shared.DELIVERED),
    Mutant("sealed-apart-from-the-insert", SHARED_ENDS, shared.ENDED),
    Mutant("ids-forgotten-at-the-end-of-their-batch", SHARED_IDS, shared.ONCE),
    Mutant("no-fencing", KAFKA, transactional.ONCE),
    Mutant("no-fencing", KAFKA_TIME, transactional.ONCE),
    Mutant("reads-uncommitted", KAFKA, transactional.ONCE),
    Mutant("sends-without-asking-the-store", KAFKA, transactional.ONCE),
    Mutant("cursor-ignored", KAFKA, transactional.ONCE),
    Mutant("cursor-read-before-the-opening", KAFKA, transactional.ONCE),
    Mutant("opened-while-the-last-one-ends", KAFKA, transactional.ONCE),
    Mutant("cursor-after-the-transaction", KAFKA, transactional.ONCE),
    Mutant("cursor-before-the-transaction", KAFKA, transactional.DELIVERED),
    Mutant("cursor-without-lineages", KAFKA_REWIND, transactional.DELIVERED),
    Mutant("cursor-forgets-the-oldest", KAFKA_LINEAGES, transactional.ONCE),
    Mutant("unknown-taken-as-failed", KAFKA_LOST, transactional.ONCE),
    Mutant("unknown-taken-as-sent", KAFKA_LOST, transactional.UNSENT),
    Mutant("unknown-taken-as-sent", KAFKA_LOST, transactional.DELIVERED),
    Mutant("goes-on-under-its-epoch", KAFKA_AWAY, transactional.ONCE),
    Mutant("passes-what-is-not-yet-dead", KAFKA_REFUSED, transactional.UNSENT),
)

LIMITS = (
    Mutant("", WINDOW._replace(name="a copy older than the window", late_copies=True), promises.RECEIVED_ONCE),
    Mutant("", REWIND_EXPIRY._replace(name="unique id across a rewind", receiver="unique id"), promises.DELIVERED),
    Mutant("", REPEATS._replace(name="an insert repeated when its message is forgotten", sweeps=True), timeouts.ONCE),
    Mutant("", LANE_WINDOW._replace(name="a copy older than the window of a lane", copies=True, limit=2), lanes.ONCE),
)
"""What the protocol does not give, by the model's own word: nothing is mutated and the promise breaks all the same."""
