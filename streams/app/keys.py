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

    - `count` (int | None): the number of records that completes a group
    - `timeout` (FileDuration | FileKeys | None): the age of a complete group: '30s', {'after': '30s', 'since': 'last'},
      {'first': '30s', 'last': '5s'}
    - `until` (str | FileKeys | None): an expression, or {'field': NAME, 'equals': VALUE}; the record for which it is
      true completes the group
    - `compute` (Mapping[str, Literal['count', 'collect'] | FileKeys]): the fields of the result by name: 'count',
      'collect', {'sum': FIELD}, {'reduce': FUNCTION} and so on
    - `on_timeout` (Literal['fire', 'discard', 'dead-letter']; 'fire' by default): what happens to a group when its
      timeout has passed
    - `on_missing` (Literal['dead-letter', 'skip', 'ignore']; 'dead-letter' by default): what happens to a record
      without a field that the group needs
    - `on_null` (Literal['dead-letter', 'skip']; 'dead-letter' by default): what happens to a record without a value
    - `on_full` (Literal['fire-oldest', 'dead-letter', 'stop']; 'fire-oldest' by default): what happens when the groups
      of a partition have reached their limits
    - `max_items` (int | None): the most records of a group
    - `max_bytes` (str): the largest group, such as '900kB'
    - `max_groups` (int; 1000000 by default): the most open groups of a partition
    - `max_buffered_bytes` (str): the most bytes of open groups of a partition, such as '512MiB'
    - `window` (FileKeys | None): windows of event time: {'tumbling': '5m', 'time': FIELD, 'grace': '30s'}; `time` is
      Kafka's by default
    """

    count: int | None
    timeout: FileDuration | FileKeys | None
    until: str | FileKeys | None
    compute: Mapping[str, Literal["count", "collect"] | FileKeys]
    on_timeout: Literal["fire", "discard", "dead-letter"]
    on_missing: Literal["dead-letter", "skip", "ignore"]
    on_null: Literal["dead-letter", "skip"]
    on_full: Literal["fire-oldest", "dead-letter", "stop"]
    max_items: int | None
    max_bytes: str
    max_groups: int
    max_buffered_bytes: str
    window: FileKeys | None


class AgentKeys(AggregateKeys, total=False):
    """The other keys of an agent.

    - `from_` (str | FileKeys | Sequence[str | FileKeys]): a topic, a list of topics, or {'topic': NAME, 'dedupe':
      'sluicegate', 'envelope': 'cloudevents'}
    - `format` (Literal['json', 'avro', 'protobuf', 'json-schema', 'raw'] | str | HandlerFunction; 'json' by default):
      the format of the records; 'module:name' is a codec of your own
    - `schema` (str | None): the schema that records are read with, for formats that have one
    - `writer_schema` (str | None): the schema that records were written with
    - `writer_schemas` (str | None): a folder of the schemas that records were written with, by id
    - `framing` (Literal['none', 'confluent'] | None): whether a schema id stands before each record
    - `schema_id` (int | None): the id of the schema, with framing
    - `message` (str | None): the message of a Protobuf schema
    - `validate` (bool | None): whether each value is checked against its JSON Schema
    - `fields` (Mapping[str, str | Sequence[Any] | FileKeys] | None): the fields of the records and their types, which
      expressions are checked against
    - `where` (str | None): an expression; the agent takes the records for which it is true
    - `let` (Mapping[str, str] | None): computed fields by name, each an expression
    - `key` (str | FileKeys): the field whose value names the group; without it, the key of the record does
    - `scope` (Literal['partition', 'shared']; 'partition' by default): 'shared' makes groups over all partitions
    - `repartition` (str | None): the topic through which records are sent under the key of their group
    - `having` (str | None): an expression; only results for which it is true are sent or handled
    - `session` (bool; False by default): whether the function gets the transaction of the store
    - `concurrency` (int; 0 by default): with 1 or more, so many calls run at a time, outside of the commit
    - `retry` (FileKeys): attempts and their pauses, as {'attempts': 5, 'backoff': '1s..60s', 'isolate_after': 2}
    - `then` (Literal['dead-letter', 'stop', 'park']; 'dead-letter' by default): what happens after the last attempt
    - `to` (str | FileKeys | Sequence[FileKeys | Literal['drop']] | None): a topic, a destination as in a file, or a
      list of routes
    - `dead_letters` (str | FileKeys | None): the topic of dead letters; an agent without it uses that of the app
    - `start` (Literal['earliest', 'latest'] | str | datetime; 'earliest' by default): where partitions without a
      committed offset begin
    - `max_record_bytes` (str): the largest record, such as '1MiB'; larger ones become dead letters
    - `dedupe` (FileKeys | None): drops records that a producer wrote twice
    - `on_error` (FileKeys): what happens to records and outputs that fail, by stage
    - `delivery` (Literal['at-least-once', 'transactional']; 'at-least-once' by default): 'transactional' sends in Kafka
      transactions
    - `revision` (str | None): the name of the function's code; another revision is another rule
    - `on_change` (Literal['finish', 'convert', 'flush', 'drop', 'refuse'] | None): what `run` does about open groups of
      a rule that was never deployed
    - `history` (str | None): the topic for a message about each group that ends without a result
    - `lookup` (Mapping[str, FileKeys] | None): rows of the store that are added to messages and results
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
    session: bool
    concurrency: int
    retry: FileKeys
    then: Literal["dead-letter", "stop", "park"]
    to: str | FileKeys | Sequence[FileKeys | Literal["drop"]] | None
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


class AppKeys(TypedDict, total=False):
    """The other keys at the top of the file.

    - `dead_letters` (str | FileKeys | None): the topic of dead letters; an agent without it uses that of the app
    - `accept_level` (Literal['durable', 'lossy', 'volatile']; 'durable' by default): the weakest durability of the
      store that `run` accepts
    - `auto_migrate` (bool | None): whether `run` makes and upgrades the schema of the store
    - `allow_plaintext` (bool; False by default): permits connections to other machines without TLS
    - `start_timeout` (FileDuration): how long `run` waits for each system
    - `http` (Literal[False] | FileKeys): the port for health, metrics and status, as {'port': 9464, 'host':
      '127.0.0.1', 'token': TEXT, 'console': False}
    - `outbox` (Literal[False] | FileKeys): settings of the dispatcher for the outbox; False switches it off
    - `timeouts` (Literal[False] | FileKeys): settings of the dispatcher for timeouts; False switches it off
    - `schema_registry` (FileKeys | None): the address and the credentials of the schema registry
    - `tests` (Mapping[str, Sequence[FileKeys]]): tests of the app, as in a file
    """

    dead_letters: str | FileKeys | None
    accept_level: Literal["durable", "lossy", "volatile"]
    auto_migrate: bool | None
    allow_plaintext: bool
    start_timeout: FileDuration
    http: Literal[False] | FileKeys
    outbox: Literal[False] | FileKeys
    timeouts: Literal[False] | FileKeys
    schema_registry: FileKeys | None
    tests: Mapping[str, Sequence[FileKeys]]
