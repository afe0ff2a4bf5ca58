"""What is to be run, as plain values: an app, its agents, their aggregations.

The declarative file is loaded into these (sluicegate.streams.config); an application may build them itself. All of them
survive a trip through JSON (the supervisor hands them to its children that way). Durations are seconds, sizes are
bytes.
"""

from dataclasses import dataclass, field
from typing import Literal

from sluicegate.schemas.options import Avro

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Until:
    """A group is complete with the record whose `field` equals `equals` (same JSON type and value)."""

    field: str
    equals: Scalar


@dataclass(frozen=True, slots=True)
class Reducer:
    """One computed field of the result.

    `kind` is count, sum, min, max, mean, first, last, distinct, collect or reduce; `field` is a path (`a.b`), None for
    count, reduce and for collect of the whole message; `function` is the `module:function` of reduce.
    """

    name: str
    kind: str
    field: str | None = None
    function: str | None = None


@dataclass(frozen=True, slots=True)
class Aggregation:
    """When a group is complete and what its result carries. Precedence at one record: count, until, timeout.

    `key` None is the message key, else a field path. `since_first` and `since_last` are timeouts in seconds, either or
    both. `max_items` and `max_bytes` bound one group (bytes of what it collects), `max_groups` and
    `max_buffered_bytes` one partition; `on_full` says what happens there.
    """

    key: str | None = None
    count: int | None = None
    since_first: float | None = None
    since_last: float | None = None
    until: Until | None = None
    compute: tuple[Reducer, ...] = ()
    on_timeout: Literal["fire", "discard", "dead-letter"] = "fire"
    on_missing: Literal["dead-letter", "skip", "ignore"] = "dead-letter"
    on_null: Literal["dead-letter", "skip"] = "dead-letter"
    on_full: Literal["fire-oldest", "dead-letter", "stop"] = "fire-oldest"
    max_items: int = 100_000
    max_bytes: int = 900_000
    max_groups: int = 1_000_000
    max_buffered_bytes: int = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Selected:
    """A field of an output's value. Without an `expression` it is the field of that name, where there is one."""

    name: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where results go. `format` is a codec name of `schemas`; for `avro` without `avro` the schema is made of what is
    computed (sluicegate.streams.formats). `select` is all that the value holds; empty: the whole result.

    One of several (`Agent.routes`) takes the results for which `where` is true. With `goes_on` those after it are
    asked, too.
    """

    topic: str
    format: str = "json"
    avro: Avro | None = None
    select: tuple[Selected, ...] = ()
    where: str = ""
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class Handler:
    """The application's own code: `functions` (`module:function`) are called one after the other for each message, or
    for each completed group of an aggregation.

    `session` gives them the transaction of the store. `concurrency` 0 runs them inside the commit; more: so many at a
    time in threads of the worker, outside of it, after what they are called for was sealed in the store. A failed call
    is tried again `attempts` times in all, with back-off from `backoff_first` to `backoff_most` seconds and the
    partition (with `concurrency`: the key) waiting; `isolate_after` so many failures of a completed group its messages
    are tried alone (0: never), to find out the bad ones. `then` says what follows; `park` (with `concurrency` only): it
    waits for a person, and so does its key.
    """

    functions: tuple[str, ...]
    session: bool = False
    concurrency: int = 0
    attempts: int = 5
    backoff_first: float = 1.0
    backoff_most: float = 60.0
    then: Literal["dead-letter", "stop", "park"] = "dead-letter"
    isolate_after: int = 0


@dataclass(frozen=True, slots=True)
class Deduplication:
    """Which records are the same one, written twice by its producer: those of one partition with the same id.

    The id is the header `name`, the field at the path `name`, or the key. It is known for `horizon` seconds from when
    it was first accepted; beyond `max_ids` per partition the oldest are forgotten. `on_missing` is about records
    without an id.
    """

    by: Literal["header", "field", "key"]
    name: str | None = None
    horizon: float = 24 * 3600.0
    on_missing: Literal["dead-letter", "accept"] = "dead-letter"
    max_ids: int = 1_000_000


@dataclass(frozen=True, slots=True)
class OnError:
    """What becomes of what cannot be decoded, and of outputs that cannot be written or that the broker will never take.
    (Of handlers that fail: `Handler.then`.) `dead`: a dead letter, or once it is in the outbox a dead row of the store;
    `stop`: the partition halts.

    `decode` means records that are undecodable or too large; without an aggregation (which has `on_null` and
    `on_missing`) also those that have no value or that are not of the handler's type. `wait` holds the intake before an
    undecodable one until it can be decoded; the others are dead letters then. `expression` means records for which an
    expression of the agent has no answer, such as a comparison of a field that is missing.
    """

    decode: Literal["dead-letter", "skip", "stop", "wait"] = "dead-letter"
    produce: Literal["dead", "stop"] = "dead"
    expression: Literal["dead-letter", "skip", "stop"] = "dead-letter"


@dataclass(frozen=True, slots=True)
class Let:
    """A computed field of each record."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Agent:
    """One consumer group and what it does with its records: an aggregation, a handler, or both (the handler then gets
    the completed groups). `to` None: nothing is written but what a handler sends to topics it names.

    `start` is earliest, latest, or seconds since 1970 for partitions that were never committed. `receive` names the
    input topics whose records come from Sluicegate agents: repeats of those are dropped by their shard and number.
    `rekeys` names the agent of the file whose `repartition:` this one does: its records go to `to` under the key of
    `aggregation`, nothing else. `avro` is for the format `avro`. `scope` shared: the groups of all partitions lie in
    one buffer of the store, which all workers fill and fire. `delivery` transactional: its rows are sent in Kafka
    transactions, so that who reads committed records only never reads one twice. `where` is an expression: the agent
    takes the records for which it is true. `let` computes fields, each from the record and from those before it; key,
    reducers, `until`, `dedupe` and `where` may name them. Of the results only those for which `having` is true are sent
    or handled. `routes` take the place of `to`: a result goes to the first that takes it; `unrouted` says what
    becomes of one that none takes.
    """

    name: str
    topics: tuple[str, ...]
    aggregation: Aggregation | None
    to: Destination | None
    dead_letters: str
    format: str = "json"
    start: Literal["earliest", "latest"] | float = "earliest"
    receive: tuple[str, ...] = ()
    max_record_bytes: int = 1024 * 1024
    handler: Handler | None = None
    rekeys: str = ""
    dedupe: Deduplication | None = None
    on_error: OnError = OnError()
    avro: Avro | None = None
    scope: Literal["partition", "shared"] = "partition"
    delivery: Literal["at-least-once", "transactional"] = "at-least-once"
    where: str = ""
    let: tuple[Let, ...] = ()
    having: str = ""
    routes: tuple[Destination, ...] = ()
    unrouted: Literal["dead-letter", "drop"] = "dead-letter"

    @property
    def outputs(self) -> tuple[Destination, ...]:
        """Where it writes, besides dead letters and what a handler sends to topics it names."""
        return self.routes if self.to is None else (self.to, *self.routes)

    @property
    def grouped(self) -> bool:
        """Can it have open groups?"""
        return self.aggregation is not None and not self.rekeys


@dataclass(frozen=True, slots=True)
class Http:
    """The supervisor's port; `port` 0 takes a free one."""

    port: int = 9464
    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Reached when the oldest pending row is `age` seconds old, or when so many rows are `dead`."""

    age: float
    dead: int


@dataclass(frozen=True, slots=True)
class Outbox:
    """How the rows that applications and the leased contracts write are sent. `lanes` None: as many as the store has;
    `order` none: no order, and no lanes. After `attempts` failed ones a row is dead, with back-off between them; what
    was sent is kept for `retention` seconds. `poll` seconds pass between two looks unless the store tells; a lane is
    had for `lease` seconds and renewed. `degraded` is said in health, `unhealthy` is not ready."""

    lanes: int | None = None
    order: Literal["key", "none"] = "key"
    attempts: int = 10
    backoff_first: float = 1.0
    backoff_most: float = 60.0
    retention: float = 3600.0
    poll: float = 1.0
    lease: float = 30.0
    degraded: Threshold = Threshold(60.0, 1)
    unhealthy: Threshold = Threshold(600.0, 1000)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How due timeouts are sent: `batch` at a time, locked for `lease` seconds; `poll` seconds pass between two looks
    at most."""

    lease: float = 300.0
    batch: int = 500
    poll: float = 1.0


@dataclass(frozen=True, slots=True)
class App:
    """A whole file. `kafka` holds librdkafka settings (`bootstrap.servers` may be `embedded`); relative SQLite paths
    are relative to `folder`. `outbox` and `timeouts` None: `run` sends neither rows of the outbox nor timeouts. What
    may hold a secret is in no representation of it. `allow_plaintext`: brokers and store on other machines may be
    reached without TLS."""

    name: str
    store: str = field(repr=False)
    agents: tuple[Agent, ...]
    kafka: dict[str, str | int | float | bool] = field(default_factory=dict, repr=False)
    accept_level: Literal["durable", "lossy", "volatile"] = "durable"
    auto_migrate: bool | None = None
    start_timeout: float = 30.0
    http: Http | None = field(default_factory=Http)
    folder: str = "."
    outbox: Outbox | None = None
    timeouts: Timeouts | None = None
    allow_plaintext: bool = False
