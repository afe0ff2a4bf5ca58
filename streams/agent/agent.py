"""An agent: one consumer group and its processing."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from sluicegate.schemas.options import SchemaOptions
from sluicegate.streams.agent.groups import Aggregation
from sluicegate.streams.agent.handler import Handler
from sluicegate.streams.agent.outputs import Destination
from sluicegate.streams.agent.records import Deduplication, Let, Lookup, OnError
from sluicegate.streams.agent.windows import Window
from sluicegate.streams.keys import INPUT, OUTPUT, REVISION, TAKEN, FileKey


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
    on_error: OnError = field(default_factory=OnError)
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
        if rule is None or self.times is not None or self.scope == "shared":
            return False
        return rule.window is None or rule.window.windower.pageable

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
