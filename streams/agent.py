"""The configuration as frozen values: an app, its agents and their aggregations.

`sluicegate.streams.config` loads a YAML file into these values; an application may also build them. All of them can be
written as JSON and read back: the supervisor passes them to its child processes as JSON. Durations are in seconds,
sizes in bytes.

Classes whose names end with Settings, and OnError, Http and Timeouts, are tables of the keys of the file
(sluicegate.streams.keys). A new key that the file and the code have in one form is one entry there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams.keys import DUPLICATES, END, INPUT, OUTPUT, REVISION, TAKEN, FileKey
from sluicegate.streams.windowers import WINDOWERS, Weekday, Windower

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Until:
    """A group is complete with the record whose `field` equals `equals` (same JSON type and value)."""

    field: str
    equals: Scalar


@dataclass(frozen=True, slots=True)
class DataDeadline:
    """The deadline of a group that its records contain, by expressions on the record. One of `at` and `after` is set.

    `at` gives an instant. `after` gives the time since the first record of the group, or, with `since` last, since the
    record that gives it. A number is in `unit`; an instant counts from 1970. The last record that gives a deadline
    wins. A record for which the expression is null gives none. A record for which `cancel` is true removes the
    deadline.
    """

    at: str = ""
    after: str = ""
    since: Literal["first", "last"] = "first"
    unit: Literal["s", "ms", "us", "rfc3339"] = "rfc3339"
    cancel: str = ""

    @property
    def name(self) -> str:
        """The key of the file with the expression."""
        return "at" if self.at else "after"

    @property
    def begin(self) -> Literal["epoch", "first", "last"]:
        """Where the time of `after` begins; `epoch` for an instant, which counts from 1970."""
        return "epoch" if self.at else self.since


@dataclass(frozen=True, slots=True)
class Reducer:
    """One computed field of the result.

    `kind` is the name of an entry in streams/reducers.py. `field` is a path (`a.b`). It is None for count, for reduce,
    and for a collect of whole messages. `function` is the `module:function` of reduce: `(accumulator or None, message)
    -> accumulator`. It must be pure, because it may be called more than once for a record. `option` is the number that
    a few reducers need beside the field.
    """

    name: str
    kind: str
    field: str | None = None
    function: str | None = None
    option: float | None = None

    @property
    def argument(self) -> str | None:
        """The field, function or messages from which it is computed."""
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

    `kind` is the name of an entry in streams/windowers.py. Hopping windows are kept in panes, the parts that they have
    in common, or with the kind `overlapping` one by one.

    With `calendar`, a window is a day, week, month or year of the time zone `zone`, and `size` is the size of the
    longest one. A week begins with the day `week_starts`.

    A sliding window has at most the `last` records of its key, if that is not 0. A `size` of 0 is no limit for these
    windows.

    The window of a correlation is the time within which its legs must arrive: `size` since the leg that
    `Correlation.since` selects.
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
    kind: str = "tumbling"
    every: float = 0.0
    gather: float = 0.0
    keep: float = 0.0
    calendar: Literal["", "day", "week", "month", "year"] = ""
    zone: str = ""
    week_starts: Literal[""] | Weekday = ""
    last: int = 0

    @property
    def extent(self) -> float | str:
        """The text of the file after the name of its kind."""
        return self.calendar or self.size

    @property
    def windower(self) -> Windower:
        """The entry of its kind. The entry of an unknown kind has no keys, and a check refuses its name."""
        return WINDOWERS.get(self.kind) or Windower(self.kind, "")


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


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class GroupSettings:
    """Keys of `aggregate`."""

    count: Annotated[int | None, FileKey("The number of records that completes a group.", 100, END)] = None
    on_timeout: Annotated[
        Literal["fire", "discard", "dead-letter"],
        FileKey(
            "What happens to a group when its timeout has passed. With `discard` and `dead-letter` it has no result, "
            "and no handler gets it.",
            "discard",
            END,
            after="compute",
        ),
    ] = "fire"
    on_missing: Annotated[
        Literal["dead-letter", "skip", "ignore"],
        FileKey("What happens to a record without a field that the group needs.", "skip", END),
    ] = "dead-letter"
    on_null: Annotated[
        Literal["dead-letter", "skip"], FileKey("What happens to a record without a value.", "skip", END)
    ] = "dead-letter"
    on_full: Annotated[
        Literal["fire-oldest", "dead-letter", "stop"],
        FileKey(
            "What happens when the groups of a partition have reached `max_groups` or `max_buffered_bytes`.",
            "stop",
            END,
        ),
    ] = "fire-oldest"
    max_bytes: Annotated[int, FileKey("The largest group.", "900kB", END, "size", after="max_items")] = 900_000
    max_groups: Annotated[int, FileKey("The most open groups of a partition.", 1_000_000, END)] = 1_000_000
    hot_groups: Annotated[
        int,
        FileKey(
            "The most open groups of a partition in memory. Beyond it, the least recently used are rows of the store.",
            50_000,
        ),
    ] = 1_000_000
    max_buffered_bytes: Annotated[
        int, FileKey("The most bytes that open groups of a partition keep in memory.", "512MiB", END, "size")
    ] = 512 * 1024 * 1024


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class EmitSettings:
    """Keys of `emit`."""

    every: Annotated[
        float | None,
        FileKey("The time from a record to an early result that has it, by the worker's clock.", "10s", OUTPUT),
    ] = None
    count: Annotated[
        int | None, FileKey("An early result each time the group has this many more records.", 100, OUTPUT)
    ] = None
    on: Annotated[
        Literal["", "change"],
        FileKey("With `change`, an early result behind each record that changes a computed field.", "change", OUTPUT),
    ] = ""
    final: Annotated[
        bool,
        FileKey(
            "Whether a group that ends has a result if all of its records are in an early one already.", False, OUTPUT
        ),
    ] = True


@dataclass(frozen=True, slots=True)
class Emit(EmitSettings):
    """Groups have results before they end. One of `every`, `count` and `on` sets the time of the early results."""


@dataclass(frozen=True, slots=True)
class Aggregation(GroupSettings):
    """The conditions that complete a group, and the fields of its result. At one record, count precedes until, and
    until precedes timeout.

    `key` is a field path; None means the message key. `until` is a field's value, or an expression. `since_first` and
    `since_last` are timeouts in seconds; both may be set, and `deadline` beside them: the nearest one counts.
    `max_items` and `max_bytes` limit one group; the bytes are the size of the collected values.

    The records of a `table` are changes of its rows: a change subtracts one row and adds another. A group is complete
    when it has no rows left.
    """

    key: str | None = None
    since_first: float | None = None
    since_last: float | None = None
    deadline: DataDeadline | None = None
    until: Until | str | None = None
    compute: tuple[Reducer, ...] = ()
    max_items: int = 100_000
    window: Window | None = None
    correlation: Correlation | None = None
    emit: Emit | None = None
    table: bool = False

    @property
    def timed(self) -> bool:
        """Whether groups may time out by the owner's clock."""
        return any(end is not None for end in (self.since_first, self.since_last, self.deadline))


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
    """An output topic. `format` is the name of a codec of `sluicegate.schemas`. For the format `avro` without `schema`,
    the schema is derived from the computed fields (sluicegate.streams.formats). `select` lists the fields of the value;
    empty means the whole result, or the whole value of a forwarded record, which is as it came unless `converts`: then
    it is written anew, in `format`.

    A route (an element of `Agent.routes`) takes the results, or the forwarded records, for which `where` is true. With
    `goes_on`, the routes after it are tried as well.
    """

    topic: str
    format: str = "json"
    schema: SchemaOptions | None = None
    select: tuple[Selected, ...] = ()
    where: str = ""
    goes_on: bool = False
    envelope: EventEnvelope | None = None
    converts: bool = False


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class LimitSettings:
    """Keys of `throttle` and of `rate_limit`."""

    limit: Annotated[int, FileKey("The number of calls, over all workers of the agent.", 100)] = 0
    per: Annotated[float, FileKey("The time in which they may begin, by the store's clock.", "1s")] = 1.0
    key: Annotated[
        str,
        FileKey(
            "An expression over the message, or over the result of a group. Each value of it has a limit of its own.",
            "tenant",
            kind="expression",
        ),
    ] = ""


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class ThrottleSettings(LimitSettings):
    """Keys of `throttle`."""

    burst: Annotated[
        int,
        FileKey(
            "The number of further calls that may begin at once, of a key that was idle.", 20, least=0, most=1_000_000
        ),
    ] = 0


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class RateLimitSettings(LimitSettings):
    """Keys of `rate_limit`."""

    over: Annotated[
        Literal["dead-letter", "drop"], FileKey("What happens to a message or a group beyond the limit.", "drop")
    ] = "dead-letter"


@dataclass(frozen=True, slots=True)
class Throttle(ThrottleSettings):
    """At most `limit + burst` calls begin in any `per` seconds. The others wait."""


@dataclass(frozen=True, slots=True)
class RateLimit(RateLimitSettings):
    """At most `limit` messages or groups are taken for calls in any `per` seconds."""


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class HandlerSettings:
    """Keys of an agent with a handler."""

    session: Annotated[
        bool,
        FileKey(
            "Whether the handler gets the transaction of the store, in which it may write rows of its own.",
            True,
            after="handler",
        ),
    ] = False
    concurrency: Annotated[
        int,
        FileKey(
            "With 1 or more, so many calls of the handler run at a time, outside of the commit. 0: within the commit.",
            8,
            least=0,
            most=1000,
        ),
    ] = 0
    priority: Annotated[
        str,
        FileKey(
            "An expression that gives a number. Of the calls that wait, those with the highest number begin first.",
            "int(plan == 'gold')",
            kind="expression",
        ),
    ] = ""
    singleton: Annotated[
        str,
        FileKey(
            "An expression. For each value of it one call runs at a time, over all workers of the agent.",
            "account",
            kind="expression",
        ),
    ] = ""
    then: Annotated[
        Literal["dead-letter", "stop", "park"],
        FileKey(
            "What happens after the last attempt: `dead-letter`, `stop` halts the partition, `park` sets the record "
            "aside for `parked retry`.",
            "park",
            after="retry",
        ),
    ] = "dead-letter"


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class RetrySettings:
    """Keys of `retry`."""

    attempts: Annotated[int, FileKey("How often the handler is called, with the first attempt.", 5)] = 5
    isolate_after: Annotated[
        int, FileKey("After this many failures the messages of a group are tried alone.", 2, after="backoff")
    ] = 0


@dataclass(frozen=True, slots=True)
class Handler(HandlerSettings, RetrySettings):
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

    `throttle`, `rate_limit`, `priority` and `singleton` need `concurrency`.
    """

    functions: tuple[str, ...]
    backoff_first: float = 1.0
    backoff_most: float = 60.0
    outages: tuple[str, ...] = ()
    throttle: Throttle | None = None
    rate_limit: RateLimit | None = None


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class DedupeSettings:
    """Keys of `dedupe`."""

    horizon: Annotated[float, FileKey("How long an id is remembered.", "24h", DUPLICATES, after="id")] = 24 * 3600.0
    on_missing: Annotated[
        Literal["dead-letter", "accept"], FileKey("What happens to a record without an id.", "accept", DUPLICATES)
    ] = "dead-letter"
    max_ids: Annotated[int, FileKey("The most ids that are remembered for a partition.", 1_000_000, DUPLICATES)] = (
        1_000_000
    )


@dataclass(frozen=True, slots=True)
class Deduplication(DedupeSettings):
    """Drops records that a producer wrote twice: records of one partition with the same id. The id is the header
    `name`, the field at the path `name`, or the key. An id is kept for `horizon` after it was first accepted. A
    partition with `max_ids` ids forgets the oldest ones."""

    by: Literal["header", "field", "key"]
    name: str | None = None


@dataclass(frozen=True)
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

    `stop_above` halts the partition when more of the records that it took within a time became dead letters: a share
    (`5% of 1m`) or a number (`100 of 1m`).
    """

    decode: Annotated[
        Literal["dead-letter", "skip", "stop", "wait"],
        FileKey(
            "What happens to a record that cannot be decoded. `wait` is for a schema registry that does not answer.",
            "skip",
        ),
    ] = "dead-letter"
    produce: Annotated[
        Literal["dead", "stop"],
        FileKey(
            "What happens to an output that Kafka refuses for good: it becomes a dead row, or the partition halts.",
            "stop",
        ),
    ] = "dead"
    expression: Annotated[
        Literal["dead-letter", "skip", "stop"],
        FileKey("What happens to a record for which an expression has no answer.", "skip"),
    ] = "dead-letter"
    stop_above: Annotated[
        str,
        FileKey(
            "The partition halts when more of its records than this share or number became dead letters in this time.",
            "5% of 1m",
            kind="limit",
        ),
    ] = ""


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


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class AgentSettings:
    """Keys of an agent."""

    where: Annotated[
        str,
        FileKey(
            "An expression. The agent takes the records for which it is true.",
            'status == "paid"',
            TAKEN,
            "expression",
            after="fields",
        ),
    ] = ""
    scope: Annotated[
        Literal["partition", "shared"],
        FileKey(
            "`shared` makes groups over all partitions; `partition` makes them in each.",
            "partition",
            INPUT,
            after="key",
        ),
    ] = "partition"
    having: Annotated[
        str,
        FileKey(
            "An expression. Only results for which it is true are sent or handled.",
            "spent >= 100",
            OUTPUT,
            "expression",
            after="repartition",
        ),
    ] = ""
    max_record_bytes: Annotated[
        int, FileKey("The largest record. Larger ones become dead letters.", "1MiB", kind="size", after="start")
    ] = 1024 * 1024
    delivery: Annotated[
        Literal["at-least-once", "transactional"],
        FileKey(
            "How outputs are sent. `transactional` sends them in Kafka transactions.", "transactional", after="on_error"
        ),
    ] = "at-least-once"
    revision: Annotated[
        str, FileKey("The name of the handler's code. Another revision is another rule.", "2", REVISION)
    ] = ""
    on_change: Annotated[
        Literal["", "finish", "convert", "flush", "drop", "refuse"],
        FileKey(
            "What `run` does about open groups under a rule that was never deployed. Without it, groups are "
            "converted if the change permits it; otherwise `run` refuses.",
            "finish",
        ),
    ] = ""
    history: Annotated[
        str,
        FileKey(
            "The topic for a message about each group that ends without a result.", "baskets.history", kind="topic"
        ),
    ] = ""


@dataclass(frozen=True, slots=True)
class Agent(AgentSettings):
    """One consumer group and its processing: an aggregation, a handler, or both. With both, the handler gets the
    completed groups. With neither, the agent forwards each record to its outputs. With a handler and `to` None, the
    only outputs are those that the handler sends to topics that it names.

    - `start`: earliest, latest, or a time in seconds since 1970; for partitions without a committed offset.
    - `receive`: the input topics that Sluicegate agents write. Their repeats are dropped by shard and number.
    - `rekeys`: the name of the agent whose `repartition` this agent performs. It forwards each record to `to` under the
      key of `aggregation`, and does nothing else.
    - `times`: the windows for which this agent re-keys. It writes the time of each record, and time marks.
    - `leg`: the leg of a correlation that this agent re-keys. It writes each message as the field of this name.
    - `schema`: the schemas of a format that has them.
    - `let`: computed fields. An expression may use the record and the fields before it. `where`, key, `dedupe`,
      reducers and `until` may name them.
    - `routes`: replaces `to`. A result, a forwarded record, or what a handler sends goes to the first route that takes
      it; `unrouted` is the action if none does.
    - `lookups`: rows of the store that are added to messages that are forwarded or handled, or to results.
    - `events`: the input topics whose records are CloudEvents.
    - `changes`: the input topics whose records are change events of Debezium. An agent that re-keys them keeps the row
      of each key, and writes how the groups of its table change. `key` is the field of the row that names the group.
    - `dead_headers`: with `connect`, dead letters have the headers of Kafka Connect as well.
    - `key`: the field path of the key that a forwarded record gets. Empty: the record keeps its own.
    """

    name: str
    topics: tuple[str, ...]
    aggregation: Aggregation | None
    to: Destination | None
    dead_letters: str
    format: str = "json"
    start: Literal["earliest", "latest"] | float = "earliest"
    receive: tuple[str, ...] = ()
    handler: Handler | None = None
    rekeys: str = ""
    leg: str = ""
    times: Window | None = None
    dedupe: Deduplication | None = None
    on_error: OnError = OnError()
    schema: SchemaOptions | None = None
    let: tuple[Let, ...] = ()
    routes: tuple[Destination, ...] = ()
    unrouted: Literal["dead-letter", "drop"] = "dead-letter"
    lookups: tuple[Lookup, ...] = ()
    dead_headers: Literal["sluicegate", "connect"] = "sluicegate"
    events: tuple[str, ...] = ()
    key: str = ""
    changes: tuple[str, ...] = ()

    @property
    def outputs(self) -> tuple[Destination, ...]:
        """The outputs of the file: all topics that the agent writes, except dead letters and topics that a handler
        names."""
        return self.routes if self.to is None else (self.to, *self.routes)

    @property
    def chooses(self) -> bool:
        """Whether clauses under `to` select outputs or fields."""
        return bool(self.routes or any(output.select for output in self.outputs))

    @property
    def tables(self) -> tuple[str, ...]:
        """The topics that are looked up."""
        return tuple(dict.fromkeys(lookup.source for lookup in self.lookups if lookup.kind == "topic"))

    @property
    def grouped(self) -> bool:
        """Whether the agent can have open groups."""
        return self.aggregation is not None and (not self.rekeys or self.keeps_rows)

    @property
    def pageable(self) -> bool:
        """Whether open groups of the agent may be rows of the store. They belong to one partition, and end with their
        window."""
        rule = self.aggregation
        if rule is None or rule.correlation is not None or self.times is not None or self.scope == "shared":
            return False
        window, periodic = rule.window, rule.emit is not None and rule.emit.every is not None
        if window is None:
            return True
        alarmed = periodic and window.windower.extends  # the deadline of its row is a watermark
        return window.windower.pageable and window.late in ("dead-letter", "skip") and not alarmed

    @property
    def keeps_rows(self) -> bool:
        """Whether the agent stores the rows of a table, and re-keys them."""
        return bool(self.changes and self.rekeys)

    @property
    def over_table(self) -> bool:
        """Whether the agent stores the rows of a table, or its groups have such rows."""
        return self.keeps_rows or (self.aggregation is not None and self.aggregation.table)

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
        """Whether the agent needs the end of a partition: its clock ends no group before the waiting records are
        read."""
        return self.windowed or self.correlates or self.times is not None

    @property
    def forwards(self) -> bool:
        """Whether the agent forwards each record."""
        return self.aggregation is None and self.handler is None

    @property
    def sends_on(self) -> bool:
        """Whether what the agent writes are messages of its records, and not results of groups."""
        return bool(self.rekeys) or self.forwards

    @property
    def passes_values(self) -> bool:
        """Whether values that no clause reads are forwarded without being decoded. A schema that each value must match,
        or must have been written with, counts as a clause."""
        return self.forwards and not (self.schema is not None and self.schema.refuses)

    def format_of(self, to: Destination) -> str:
        """The format of the values of this output."""
        return self.format if self.forwards_unchanged(to) else to.format

    def forwards_unchanged(self, to: Destination) -> bool:
        """Whether the values of this output are the unchanged values of the records. Then its format is the format of
        the agent."""
        return self.forwards and not (to.select or to.converts)


@dataclass(frozen=True)
class Http:
    """The HTTP port of the supervisor."""

    port: Annotated[int, FileKey("The TCP port. 0 lets the system choose one.", 9464, least=0, most=65535)] = 9464
    host: Annotated[str, FileKey("The address to listen on. Any other than loopback needs a `token`.", "127.0.0.1")] = (
        "127.0.0.1"
    )
    token: Annotated[
        str | None,
        FileKey(
            "The bearer token that all but the probes and metrics ask for, of at least 16 characters.",
            "${STATUS_TOKEN}",
        ),
    ] = field(default=None, repr=False)
    console: Annotated[
        bool, FileKey("Whether `/` serves the console, a page to look at and to act on groups.", True)
    ] = False
    state: Annotated[
        bool, FileKey("Whether `/agents/AGENT/groups/KEY` serves the committed state of each key, as JSON.", True)
    ] = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """Exceeded when the oldest pending row is `age` seconds old, or when `dead` rows are dead."""

    age: float
    dead: int


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class OutboxSettings:
    """Keys of `outbox`."""

    lanes: Annotated[
        int | None,
        FileKey(
            "The number of lanes that rows are spread over. Unless it is written, the number that the store has "
            "(16 in a new one).",
            16,
            most=1024,
        ),
    ] = None
    order: Annotated[
        Literal["key", "none"],
        FileKey("`key` sends the rows of a key in the order of their commits; `none` promises no order.", "key"),
    ] = "key"
    attempts: Annotated[int, FileKey("How often a row is sent before it is dead, with the first attempt.", 10)] = 10
    retention: Annotated[float, FileKey("How long rows that were sent are kept.", "1h", after="backoff")] = 3600.0
    poll: Annotated[float, FileKey("How often an idle dispatcher looks for rows.", "1s")] = 1.0
    lease: Annotated[float, FileKey("How long a dispatcher owns a lane without renewing it.", "30s")] = 30.0


@dataclass(frozen=True, slots=True)
class Outbox(OutboxSettings):
    """Settings of the dispatcher, which sends the rows that applications and the leased contracts write. Between the
    attempts to send a row is a back-off. At the threshold `degraded`, health reports it; at `unhealthy`, the worker is
    not ready."""

    backoff_first: float = 1.0
    backoff_most: float = 60.0
    degraded: Threshold = Threshold(60.0, 1)
    unhealthy: Threshold = Threshold(600.0, 1000)


@dataclass(frozen=True)
class Timeouts:
    """Settings for due timeouts: a batch of them is locked and sent."""

    lease: Annotated[
        float,
        FileKey("How long a dispatcher may take to send a batch of due timeouts before another takes them.", "5m"),
    ] = 300.0
    batch: Annotated[int, FileKey("The most timeouts in a batch.", 500, most=10_000)] = 500
    poll: Annotated[float, FileKey("How often an idle dispatcher looks for due timeouts.", "1s")] = 1.0


@dataclass(frozen=True, slots=True)
class RecurringMessage:
    """A message that is sent to `topic` at each time of `every` (sluicegate.streams.contracts.recurring). `value` is
    JSON text."""

    name: str
    every: str
    topic: str
    value: str = "{}"
    key: str | None = None


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """OAuth 2.0 client credentials: bearer tokens are requested at `token_url`. `logical_cluster` and `identity_pool`
    are sent to the registry in headers, as Confluent Cloud requires."""

    token_url: str
    client_id: str = field(repr=False)
    client_secret: str = field(repr=False)
    scope: str = ""
    logical_cluster: str = ""
    identity_pool: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """The schema registry: requests go to the first of `urls` that answers within `timeout` seconds. `ca`,
    `certificate` and `key` are TLS files. `token` is a bearer token, and `oauth` requests such tokens, instead of a
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


@dataclass(frozen=True, init=False, repr=False, eq=False, kw_only=True)
class AppSettings:
    """Keys at the top of the file."""

    accept_level: Annotated[
        Literal["durable", "lossy", "volatile"],
        FileKey("The weakest durability of the store that `run` accepts.", "durable", after="dead_letters"),
    ] = "durable"
    auto_migrate: Annotated[
        bool | None,
        FileKey(
            "Whether `run` makes and upgrades the schema of the store. Unless it is written, it does in SQLite, Redis "
            "and memory, and `sluicegate migrate` does in the others.",
            True,
        ),
    ] = None
    allow_plaintext: Annotated[bool, FileKey("Permits connections to other machines without TLS.", True)] = False
    start_timeout: Annotated[float, FileKey("How long `run` waits for the store and the brokers.", "30s")] = 30.0


ClusterSettings = dict[str, str | int | float | bool]
"""Settings of librdkafka; `bootstrap.servers` may be `embedded`."""
EMBEDDED = "embedded"


class Clusters(ClusterSettings):
    """The settings of the default cluster, whose name is `name`, and in `others` the settings of the other clusters by
    name. A file with one cluster has no others, and may have no name for it."""

    def __init__(
        self, settings: Mapping[str, Any], others: Mapping[str, ClusterSettings] | None = None, name: str = ""
    ) -> None:
        super().__init__(settings)
        self.name = name
        self.others = {other: dict(of) for other, of in (others or {}).items()}

    def of(self, cluster: str) -> "Clusters":
        """The settings of one cluster only, by the name that its topics use (empty: the default cluster)."""
        return Clusters(self.others[cluster] if cluster else self, None, cluster or self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that topics use for the clusters. The first one is empty: the default cluster."""
        return ("", *self.others)


@dataclass(frozen=True, slots=True)
class App(AppSettings):
    """A whole file. `kafka` has the settings of the default cluster, whose name is `cluster`. `clusters` has the
    settings of the other clusters by name. Relative SQLite paths start at `folder`. With `outbox` None, `run` sends no
    rows of the outbox; with `timeouts` None, no timeouts. `repr` omits the fields that may hold secrets."""

    name: str
    store: str = field(repr=False)
    agents: tuple[Agent, ...]
    kafka: ClusterSettings = field(default_factory=dict, repr=False)
    http: Http | None = field(default_factory=Http)
    folder: str = "."
    outbox: Outbox | None = None
    timeouts: Timeouts | None = None
    registry: Registry | None = None
    schedules: tuple[RecurringMessage, ...] = ()
    clusters: dict[str, ClusterSettings] = field(default_factory=dict, repr=False)
    cluster: str = ""

    @property
    def brokers(self) -> Clusters:
        """The settings of all clusters, for connectors."""
        return Clusters(self.kafka, self.clusters, self.cluster)

    @property
    def embedded(self) -> bool:
        """Whether a broker runs inside `run` and serves only this run."""
        return any(settings.get("bootstrap.servers") == EMBEDDED for settings in (self.kafka, *self.clusters.values()))
