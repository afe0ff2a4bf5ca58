"""The records of an agent: duplicates, errors, computed fields and rows that are added."""

from dataclasses import dataclass
from typing import Annotated, Literal

from sluicegate.streams.keys import DUPLICATES, FileKey


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
