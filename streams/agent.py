"""The configuration as frozen values: an app, its agents and their aggregations.

`sluicegate.streams.config` loads a YAML file into these values; an application may also build them. All of them can be
written as JSON and read back: the supervisor passes them to its child processes as JSON. Durations are in seconds,
sizes in bytes.
"""

from dataclasses import dataclass, field
from typing import Literal

from sluicegate.schemas.options import SchemaOptions

Scalar = str | int | float | bool | None
CORRELATION: Literal["correlation"] = "correlation"
"""The kind of the window of a correlation."""
AMEND: Literal["amend"] = "amend"
"""The `late` of a window whose results are revised."""


@dataclass(frozen=True, slots=True)
class Until:
    """A group is complete with the record whose `field` equals `equals` (same JSON type and value)."""

    field: str
    equals: Scalar


@dataclass(frozen=True, slots=True)
class Reducer:
    """One computed field of the result.

    `kind` is the name of an entry in streams/reducers.py. `field` is a path (`a.b`). It is None for count, for reduce,
    and for a collect of whole messages. `function` is the `module:function` of reduce.
    """

    name: str
    kind: str
    field: str | None = None
    function: str | None = None

    @property
    def argument(self) -> str | None:
        """As the file has it behind the name of the reducer."""
        return self.field if self.function is None else self.function


@dataclass(frozen=True, slots=True)
class Window:
    """Windows over the records' own time. Durations are in seconds.

    Tumbling windows begin at multiples of `size` since 1970 UTC, plus `offset`; hopping windows of this size begin at
    multiples of `every`, which divides the size. A session ends `size` after its last record.

    The time of a record is its Kafka timestamp, or the field at the path `time`: a number in `unit`, or RFC 3339 text.
    A window closes when the watermark is `grace` past its end. A record of a closed window is late, and `late` is the
    action. `idle` is the silence after which the owner's clock closes windows, and `at_most` the longest time that a
    group may be open by that clock since its first record, of a session since its last one; None means never. A record
    more than `max_ahead` ahead of that clock is refused.

    With `late` new, late records of a key and a window gather for `gather` seconds of the owner's clock, and make a
    further result. With `late` amend, a window stays for `keep` seconds of event time after its result. Late records
    change it, and the result is sent again, with the next revision, `gather` seconds after the first one of them.

    `origins` are the agents that re-key for the windows, and the topics that they read, as AGENT/TOPIC.

    The window of a correlation is the time within which its legs must come: `size` since the leg that
    `Correlation.since` names.
    """

    size: float
    offset: float = 0.0
    time: str | None = None
    unit: Literal["s", "ms", "us", "rfc3339"] = "rfc3339"
    grace: float = 0.0
    idle: float | None = 60.0
    at_most: float | None = None
    late: Literal["dead-letter", "skip", "new", "amend"] = "dead-letter"
    max_ahead: float = 3600.0
    origins: tuple[str, ...] = ()
    kind: Literal["tumbling", "hopping", "session", "correlation"] = "tumbling"
    every: float = 0.0
    gather: float = 0.0
    keep: float = 0.0


@dataclass(frozen=True, slots=True)
class Correlation:
    """The groups are correlations: each record is an object with one field, the leg's name, and the leg's message.

    The key of a group that ended is remembered for `remember` seconds, at most `max_keys` keys in each partition. A
    record of such a key is late, and `late` is the action.

    With `Aggregation.window`, the time of the records decides when a group times out: `size` after its earliest record,
    with `since` last after its latest one.
    """

    remember: float = 3600.0
    late: Literal["dead-letter", "skip"] = "dead-letter"
    max_keys: int = 1_000_000
    since: Literal["first", "last"] = "first"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The conditions that complete a group, and the fields of its result. At one record, count precedes until, and
    until precedes timeout.

    `key` is a field path; None means the message key. `until` is a field's value, or an expression. `since_first` and
    `since_last` are timeouts in seconds; both may be set. `max_items` and `max_bytes` limit one group; the bytes are
    those of the collected values. `max_groups` and `max_buffered_bytes` limit one partition, and `on_full` is the
    action at these limits.
    """

    key: str | None = None
    count: int | None = None
    since_first: float | None = None
    since_last: float | None = None
    until: Until | str | None = None
    compute: tuple[Reducer, ...] = ()
    on_timeout: Literal["fire", "discard", "dead-letter"] = "fire"
    on_missing: Literal["dead-letter", "skip", "ignore"] = "dead-letter"
    on_null: Literal["dead-letter", "skip"] = "dead-letter"
    on_full: Literal["fire-oldest", "dead-letter", "stop"] = "fire-oldest"
    max_items: int = 100_000
    max_bytes: int = 900_000
    max_groups: int = 1_000_000
    max_buffered_bytes: int = 512 * 1024 * 1024
    window: Window | None = None
    correlation: Correlation | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """A field of an output's value. An empty `expression` copies the field of the same name of the result, or of the
    forwarded record, if it exists."""

    name: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class EventEnvelope:
    """An output whose messages are CloudEvents of this `type` and `source`. Without a source it is `/APP/AGENT`."""

    mode: Literal["binary", "structured"]
    type: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class Destination:
    """An output topic. `format` is the name of a codec of `sluicegate.schemas`. For the format `avro` without `avro`,
    the schema is derived from the computed fields (sluicegate.streams.formats). `select` lists the fields of the value;
    empty means the whole result, or the unchanged value of a forwarded record.

    A route (an element of `Agent.routes`) takes the results, or the forwarded records, for which `where` is true. With
    `goes_on`, the routes after it are tried as well.
    """

    topic: str
    format: str = "json"
    avro: SchemaOptions | None = None
    select: tuple[Selected, ...] = ()
    where: str = ""
    goes_on: bool = False
    envelope: EventEnvelope | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """The application's own code. The `functions` (`module:function`) are called in order for each message, or for each
    completed group of an aggregation.

    With `session`, they get the store's transaction. With `concurrency` 0, they run inside the commit. Otherwise at
    most `concurrency` calls run at a time in threads of the worker, outside the commit, after the message or group was
    sealed in the store.

    A failed call is repeated up to `attempts` calls in all, with a back-off from `backoff_first` to `backoff_most`
    seconds. Meanwhile its partition waits; with `concurrency`, only its key waits. After `isolate_after` failures of a
    completed group, its messages are tried one by one to find those that fail; 0 turns this off. `then` is the action
    after the last attempt. `park` keeps the item and its key until an operator acts.

    A call that raises one of the `outages` (classes of errors, `package.Name`) counts no attempt: a system does not
    answer.
    """

    functions: tuple[str, ...]
    session: bool = False
    concurrency: int = 0
    attempts: int = 5
    backoff_first: float = 1.0
    backoff_most: float = 60.0
    then: Literal["dead-letter", "stop", "park"] = "dead-letter"
    isolate_after: int = 0
    outages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deduplication:
    """Drops records that a producer wrote twice: records of one partition with the same id.

    The id is the header `name`, the field at the path `name`, or the key. An id is kept for `horizon` seconds after it
    was first accepted. A partition keeps at most `max_ids` ids and forgets the oldest ones. `on_missing` is the action
    for a record without an id.
    """

    by: Literal["header", "field", "key"]
    name: str | None = None
    horizon: float = 24 * 3600.0
    on_missing: Literal["dead-letter", "accept"] = "dead-letter"
    max_ids: int = 1_000_000


@dataclass(frozen=True, slots=True)
class OnError:
    """The actions for records and outputs that fail. `Handler.then` is the action for handlers that fail.

    `decode` applies to records that cannot be decoded or are too large. Without an aggregation, which has `on_null` and
    `on_missing`, it also applies to records without a value and to records that are not of the handler's type. `wait`
    stops the intake before a record that cannot be decoded until it can be decoded; all other such records become dead
    letters.

    `produce` applies to outputs that cannot be encoded or that the broker rejects for good: `dead` makes a dead letter,
    or a dead row if the output is in the outbox already.

    `expression` applies to records for which an expression of the agent cannot be evaluated, for example because it
    compares a missing field. `stop` halts the partition.
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
class Lookup:
    """A row that is added, as the field `name`, to what is written.

    `kind` and `source` say where it is: in the store, which is read in the transaction of the commit, a table, a
    collection, or a Redis hash whose name is `source` with the key in place of `{key}`; or a topic, whose newest record
    with that key is the row. It is the row whose `column` equals `key`, an expression of the message or of the
    result; the text `key` alone is the key of the message or of the group. `fields` are the fields of the row that are
    added. A process keeps at most `max_rows` rows and `max_table_bytes` bytes of a topic.

    `missing` is the action without such a row: null in its place, a dead letter, or `wait`: the partition waits for it
    up to `wait` seconds, and then it is a dead letter. With `lock`, a row that was found cannot change before the
    commit.
    """

    name: str
    kind: Literal["table", "collection", "hash", "topic"]
    source: str
    key: str
    fields: tuple[str, ...]
    column: str = ""
    missing: Literal["null", "dead-letter", "wait"] = "null"
    wait: float = 0.0
    lock: bool = False
    max_rows: int = 1_000_000
    max_table_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Agent:
    """One consumer group and its processing: an aggregation, a handler, or both. With both, the handler gets the
    completed groups. With neither, the agent forwards each record to its outputs. With a handler and `to` None, the
    only outputs are those that the handler sends to topics that it names.

    - `start`: earliest, latest, or a time in seconds since 1970; for partitions without a committed offset.
    - `receive`: the input topics that Sluicegate agents write. Their repeats are dropped by shard and number.
    - `rekeys`: the name of the agent whose `repartition` this agent performs. It forwards each record to `to` under the
      key of `aggregation`, and does nothing else.
    - `times`: the windows for which this agent re-keys. It writes the time of each record, and time marks.
    - `leg`: the leg of a correlation that this agent re-keys. It writes each message as the field of this name.
    - `avro`: the schemas of a format that has them.
    - `scope`: with `shared`, the groups of all partitions are in one buffer of the store. All workers fill and fire it.
    - `delivery`: with `transactional`, rows are sent in Kafka transactions. Consumers with `read_committed` read each
      row once.
    - `where`: an expression; the agent takes the records for which it is true.
    - `let`: computed fields. An expression may use the record and the fields before it. `where`, key, `dedupe`,
      reducers and `until` may name them.
    - `having`: an expression; only results for which it is true are sent or handled.
    - `routes`: replaces `to`. A result, or a forwarded record, goes to the first route that takes it; `unrouted` is the
      action if none does.
    - `on_change`: what becomes of open groups when `run` finds a rule that was never deployed: finish, convert, flush,
      drop or refuse. Empty: convert where the change permits it, else refuse.
    - `history`: the topic of a message for each group that ends without a result. Empty: there is none.
    - `revision`: names the code of the agent's functions. Another revision is another rule.
    - `lookups`: rows of the store that are added to messages that are forwarded or handled, or to results.
    - `events`: the input topics whose records are CloudEvents.
    - `dead_headers`: with `connect`, dead letters have the headers of Kafka Connect as well.
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
    leg: str = ""
    times: Window | None = None
    dedupe: Deduplication | None = None
    on_error: OnError = OnError()
    avro: SchemaOptions | None = None
    scope: Literal["partition", "shared"] = "partition"
    delivery: Literal["at-least-once", "transactional"] = "at-least-once"
    where: str = ""
    let: tuple[Let, ...] = ()
    having: str = ""
    routes: tuple[Destination, ...] = ()
    unrouted: Literal["dead-letter", "drop"] = "dead-letter"
    revision: str = ""
    on_change: str = ""
    history: str = ""
    lookups: tuple[Lookup, ...] = ()
    dead_headers: Literal["sluicegate", "connect"] = "sluicegate"
    events: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[Destination, ...]:
        """The outputs of the file: all topics it writes except dead letters and those that a handler names."""
        return self.routes if self.to is None else (self.to, *self.routes)

    @property
    def tables(self) -> tuple[str, ...]:
        """The topics that are looked up."""
        return tuple(dict.fromkeys(each.source for each in self.lookups if each.kind == "topic"))

    @property
    def grouped(self) -> bool:
        """Whether the agent can have open groups."""
        return self.aggregation is not None and not self.rekeys

    @property
    def windowed(self) -> bool:
        """Whether the agent has event-time windows."""
        return self.aggregation is not None and self.aggregation.window is not None

    @property
    def correlates(self) -> bool:
        """Whether the groups of the agent are correlations."""
        return self.aggregation is not None and self.aggregation.correlation is not None

    @property
    def awaits_end(self) -> bool:
        """Whether the agent asks where a partition ends: its clock ends no group before what waits has been read."""
        return self.windowed or self.correlates or self.times is not None

    @property
    def forwards(self) -> bool:
        """Whether the agent forwards each record under its own key."""
        return self.aggregation is None and self.handler is None

    @property
    def passes_values(self) -> bool:
        """Whether values that no clause reads go on without being decoded. A schema that each value must be valid for,
        or have been written with, is a clause."""
        return self.forwards and not (self.avro is not None and self.avro.refuses)

    def forwards_unchanged(self, to: Destination) -> bool:
        """Whether the values of this output are the unchanged values of the records. Then its format is the format of
        the agent."""
        return self.forwards and not to.select


@dataclass(frozen=True, slots=True)
class Http:
    """The HTTP port of the supervisor. With `port` 0, the system chooses a free port. With `console` it also serves the
    console, which shows keys and payloads and makes changes."""

    port: int = 9464
    host: str = "127.0.0.1"
    token: str | None = field(default=None, repr=False)
    console: bool = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """Exceeded when the oldest pending row is `age` seconds old, or when `dead` rows are dead."""

    age: float
    dead: int


@dataclass(frozen=True, slots=True)
class Outbox:
    """Settings of the dispatcher, which sends the rows that applications and the leased contracts write.

    With `lanes` None, the store's number of lanes holds. With `order` none, rows have no order and no lanes. A row is
    dead after `attempts` failed attempts, with a back-off between them. Sent rows are kept for `retention` seconds. The
    store is polled every `poll` seconds unless it notifies. A lane's lease lasts `lease` seconds and is renewed. At the
    threshold `degraded`, health reports it; at `unhealthy`, the worker is not ready.
    """

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
    """Settings for due timeouts: `batch` timeouts are locked together for `lease` seconds and sent. The store is polled
    at least every `poll` seconds."""

    lease: float = 300.0
    batch: int = 500
    poll: float = 1.0


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """OAuth 2.0 client credentials: bearer tokens are asked for at `token_url`. `logical_cluster` and `identity_pool`
    go to the registry in headers, as Confluent Cloud wants them."""

    token_url: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str = ""
    logical_cluster: str = ""
    identity_pool: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """The schema registry: it is asked by the first of `urls` that answers within `timeout` seconds. `ca`,
    `certificate` and `key` are files of TLS. `token` is a bearer token, and `oauth` gets such tokens, in place of a
    user name and a password."""

    urls: tuple[str, ...] = field(repr=False)
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    timeout: float = 3.0
    token: str | None = field(default=None, repr=False)
    oauth: OAuthClient | None = None


@dataclass(frozen=True, slots=True)
class App:
    """A whole file. `kafka` holds librdkafka settings; `bootstrap.servers` may be `embedded`. Relative SQLite paths
    start at `folder`. With `outbox` None, `run` sends no rows of the outbox; with `timeouts` None, no timeouts.
    `allow_plaintext` permits connections to other machines without TLS. `repr` leaves out the fields that may hold
    secrets."""

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
    registry: Registry | None = None
