"""The keywords of `App` and `Agent`. Generated from the models of the file by `python -m tests.keywords`.

A keyword has the name, the meaning and the values of the key in the file. `from` is a word of Python, so the keyword
is `from_`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict

HandlerFunction = Callable[..., Any]
FileDuration = str | timedelta
FileKeys = Mapping[str, Any]
"""A part of the file: keys and values as YAML has them."""


class AggregateKeys(TypedDict, total=False):
    """The keys of groups: those below `aggregate`.

    - `count` (int | None): The number of records that completes a group.
    - `timeout` (FileDuration | FileKeys | None): The age at which a group is complete: one time since its first record,
      `{after, since}`, or `{first, last}`; or a deadline from the data, `{at: due_at}` or `{after: EXPRESSION}`.
    - `debounce` (FileDuration | FileKeys | None): The time without a record of the key after which the group is
      complete: another word for `timeout: {last, first}`.
    - `until` (str | FileKeys | None): An expression, or `{field, equals}`. The record for which it is true completes
      the group.
    - `compute` (Mapping[str, Literal['count', 'collect'] | FileKeys]): The fields of the result by name, each with a
      reducer.
    - `on_timeout` (Literal['fire', 'discard', 'dead-letter']; 'fire' by default): What happens to a group when its
      timeout has passed. With `discard` and `dead-letter` it has no result, and no handler gets it.
    - `on_missing` (Literal['dead-letter', 'skip', 'ignore']; 'dead-letter' by default): What happens to a record
      without a field that the group needs.
    - `on_null` (Literal['dead-letter', 'skip']; 'dead-letter' by default): What happens to a record without a value.
    - `on_full` (Literal['fire-oldest', 'dead-letter', 'stop']; 'fire-oldest' by default): What happens when the groups
      of a partition have reached `max_groups` or `max_buffered_bytes`.
    - `max_items` (int | None): The most records of a group.
    - `max_bytes` (str; '900kB' by default): The largest group.
    - `max_groups` (int; 1000000 by default): The most open groups of a partition.
    - `hot_groups` (int; 1000000 by default): The most open groups of a partition in memory. Beyond it, the least
      recently used are rows of the store.
    - `max_buffered_bytes` (str; '512MiB' by default): The most bytes that open groups of a partition keep in memory.
    - `window` (FileKeys | None): Windows of event time. Each key has one group for each window.
    """

    count: int | None
    timeout: FileDuration | FileKeys | None
    debounce: FileDuration | FileKeys | None
    until: str | FileKeys | None
    compute: Mapping[str, Literal["count", "collect"] | FileKeys]
    on_timeout: Literal["fire", "discard", "dead-letter"]
    on_missing: Literal["dead-letter", "skip", "ignore"]
    on_null: Literal["dead-letter", "skip"]
    on_full: Literal["fire-oldest", "dead-letter", "stop"]
    max_items: int | None
    max_bytes: str
    max_groups: int
    hot_groups: int
    max_buffered_bytes: str
    window: FileKeys | None


class AgentKeys(AggregateKeys, total=False):
    """The other keys of an agent.

    - `from_` (str | FileKeys | Sequence[str | FileKeys]): The topics that the agent reads: one, a list, or `{topic,
      dedupe, envelope}`.
    - `format` (Literal['json', 'avro', 'protobuf', 'json-schema', 'raw'] | str | HandlerFunction; 'json' by default):
      The format of the records. `module:name` is a codec of your own.
    - `schema` (str | None): The schema that records are read with: a file, or `SUBJECT:VERSION` of the schema registry.
    - `writer_schema` (str | None): The file of the schema that records were written with, if it is another one.
    - `writer_schemas` (str | None): A folder. A record with another schema id than `schema_id` is read with the schema
      in the file of its id.
    - `framing` (Literal['none', 'confluent'] | None): `confluent`: a schema id stands before each record.
    - `schema_id` (int | None): The schema id of the records, with `framing: confluent`. Records with any other id
      become dead letters.
    - `message` (str | None): The message of a Protobuf schema that records hold.
    - `validate` (bool | None): Whether each value is checked against its JSON Schema.
    - `fields` (Mapping[str, str | Sequence[Any] | FileKeys] | None): The fields of the records and their types, which
      `check` compares expressions with.
    - `where` (str | None): An expression. The agent takes the records for which it is true.
    - `let` (Mapping[str, str] | None): Computed fields by name, each an expression.
    - `key` (str | FileKeys): The field whose value names the group, or is the new key of a forwarded record. Without
      it, or with `message`, it is the key of the record.
    - `scope` (Literal['partition', 'shared']; 'partition' by default): `shared` makes groups over all partitions;
      `partition` makes them in each.
    - `repartition` (str | None): The topic through which records are sent under the key of their group.
    - `having` (str | None): An expression. Only results for which it is true are sent or handled.
    - `emit` (FileKeys | None): When a group has results before it ends: `every`, `count` or `on: change`.
    - `session` (bool; False by default): Whether the handler gets the transaction of the store, in which it may write
      rows of its own.
    - `concurrency` (int; 0 by default): With 1 or more, so many calls of the handler run at a time, outside of the
      commit. 0: within the commit.
    - `priority` (str | None): An expression that gives a number. Of the calls that wait, those with the highest number
      begin first.
    - `singleton` (str | None): An expression. For each value of it one call runs at a time, over all workers of the
      agent.
    - `retry` (FileKeys): How often, and with which pauses, a failed call of the handler is tried again.
    - `then` (Literal['dead-letter', 'stop', 'park']; 'dead-letter' by default): What happens after the last attempt:
      `dead-letter`, `stop` halts the partition, `park` sets the record aside for `parked retry`.
    - `outage` (Sequence[str | type[Exception]]): Errors that the handler raises while a system does not answer, as
      `package.Name`: the call counts no attempt, and is made again until the system answers. Those of well-known
      libraries need not be named.
    - `throttle` (FileKeys | None): How many calls of the handler begin in a time, over all workers. The others wait.
    - `rate_limit` (FileKeys | None): How many messages or groups are handled in a time, over all workers. The others
      never are.
    - `to` (str | FileKeys | Sequence[str | FileKeys] | None): The destination of results: a topic, `{topic, ...}`, or a
      list of routes whose last entry may be `drop`.
    - `dead_letters` (str | FileKeys | None): The topic of the agent's dead letters. Without it, the app's topic.
    - `start` (Literal['earliest', 'latest'] | str | datetime; 'earliest' by default): Where partitions without a
      committed offset begin: `earliest`, `latest` or a time.
    - `max_record_bytes` (str; '1MiB' by default): The largest record. Larger ones become dead letters.
    - `dedupe` (FileKeys | None): Drops records that a producer wrote twice, by an id in them.
    - `on_error` (FileKeys): What happens to records and outputs that fail, by stage.
    - `delivery` (Literal['at-least-once', 'transactional']; 'at-least-once' by default): How outputs are sent.
      `transactional` sends them in Kafka transactions.
    - `revision` (str | None): The name of the handler's code. Another revision is another rule.
    - `on_change` (Literal['finish', 'convert', 'flush', 'drop', 'refuse'] | None): What `run` does about open groups
      under a rule that was never deployed. Without it, groups are converted if the change permits it; otherwise `run`
      refuses.
    - `history` (str | None): The topic for a message about each group that ends without a result.
    - `lookup` (Mapping[str, FileKeys] | None): Rows of the store or of a compacted topic that are added to messages and
      results, by name.
    - `correlate` (FileKeys | None): One result of the records of several topics with the same key, or of those that
      came in time.
    """

    from_: Required[str | FileKeys | Sequence[str | FileKeys]]
    format: Literal["json", "avro", "protobuf", "json-schema", "raw"] | str | HandlerFunction
    schema: str | None
    writer_schema: str | None
    writer_schemas: str | None
    framing: Literal["none", "confluent"] | None
    schema_id: int | None
    message: str | None
    validate: bool | None
    fields: Mapping[str, str | Sequence[Any] | FileKeys] | None
    where: str | None
    let: Mapping[str, str] | None
    key: str | FileKeys
    scope: Literal["partition", "shared"]
    repartition: str | None
    having: str | None
    emit: FileKeys | None
    session: bool
    concurrency: int
    priority: str | None
    singleton: str | None
    retry: FileKeys
    then: Literal["dead-letter", "stop", "park"]
    outage: Sequence[str | type[Exception]]
    throttle: FileKeys | None
    rate_limit: FileKeys | None
    to: str | FileKeys | Sequence[str | FileKeys] | None
    dead_letters: str | FileKeys | None
    start: Literal["earliest", "latest"] | str | datetime
    max_record_bytes: str
    dedupe: FileKeys | None
    on_error: FileKeys
    delivery: Literal["at-least-once", "transactional"]
    revision: str | None
    on_change: Literal["finish", "convert", "flush", "drop", "refuse"] | None
    history: str | None
    lookup: Mapping[str, FileKeys] | None
    correlate: FileKeys | None


class AppKeys(TypedDict, total=False):
    """The other keys at the top of the file.

    - `dead_letters` (str | FileKeys | None): The topic of the dead letters of all agents that name none themselves.
    - `accept_level` (Literal['durable', 'lossy', 'volatile']; 'durable' by default): The weakest durability of the
      store that `run` accepts.
    - `auto_migrate` (bool | None): Whether `run` makes and upgrades the schema of the store. Unless it is written, it
      does in SQLite, Redis and memory, and `sluicegate migrate` does in the others.
    - `allow_plaintext` (bool; False by default): Permits connections to other machines without TLS.
    - `start_timeout` (FileDuration; '30s' by default): How long `run` waits for the store and the brokers.
    - `http` (Literal[False] | FileKeys): The port for health, metrics and status. `false` opens none.
    - `outbox` (Literal[False] | FileKeys): The dispatcher that sends the rows of the outbox. `false` switches it off.
    - `timeouts` (Literal[False] | FileKeys): The dispatcher that sends due timeouts. `false` switches it off.
    - `schedules` (Mapping[str, FileKeys]): Messages that are sent again and again, by name.
    - `schema_registry` (FileKeys | None): The schema registry that schemas are read from and registered at.
    - `tests` (Mapping[str, Sequence[FileKeys]]): Tests of the file by name: each is a list of steps for `sluicegate
      test`.
    """

    dead_letters: str | FileKeys | None
    accept_level: Literal["durable", "lossy", "volatile"]
    auto_migrate: bool | None
    allow_plaintext: bool
    start_timeout: FileDuration
    http: Literal[False] | FileKeys
    outbox: Literal[False] | FileKeys
    timeouts: Literal[False] | FileKeys
    schedules: Mapping[str, FileKeys]
    schema_registry: FileKeys | None
    tests: Mapping[str, Sequence[FileKeys]]
