"""Makes outbox rows of decisions: result documents and dead letters with their ids, headers and output partitions."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from sluicegate.schemas import Codec, json
from sluicegate.schemas.codecs import Unwritable, base64_text
from sluicegate.streams import __version__
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.events import BadItem, Event, Fire, Refused, Sent, Unhandled
from sluicegate.streams.causes import cause
from sluicegate.streams.contracts.ids import dead_ids, fire_ids, output_id
from sluicegate.streams.contracts.record import Header, Record
from sluicegate.streams.contracts.record import headers as headers_of
from sluicegate.streams.contracts.stores import OutputFacts
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import ProduceStopped

LONGEST_WHERE = 300  # characters of a position in the user's code
OVERHEAD = 1024  # bytes that headers and framing may add to a message
TIMED_OUT = "aggregate", "timeout", "the group timed out and on_timeout is dead-letter", 1, ""
LAST_MOMENT = 253_402_300_799.0  # of the year 9999, in seconds since 1970: a record may claim any time


class Rows:
    """Makes the rows of one claim of a partition. `number` is the last number that was given."""

    __slots__ = (
        "_agent",
        "_dead_id",
        "_encode",
        "_facts",
        "_lineage",
        "_most",
        "_name",
        "_partition",
        "_shards",
        "_to",
        "fire_id",
        "number",
    )

    def __init__(self, partition: Partition, agent: Agent, codec: Codec, facts: OutputFacts, most: int) -> None:
        self._partition, self._agent, self._facts, self._most = partition, agent, facts, most
        self._encode = codec.encode if codec.name in ("json", "raw", "avro") else partial(_written, codec.encode)
        self._to = agent.to.topic if agent.to else None
        self._name = agent.name.encode()
        self.begin("", 0, "")

    def begin(self, lineage: str, number: int, topic_id: str) -> None:
        """Rows from now on belong to this claim; `topic_id` as sluicegate.streams.contracts.values.Source.name."""
        self._lineage, self.number = lineage, number
        self.fire_id, self._dead_id = fire_ids(self._partition, topic_id), dead_ids(self._partition, topic_id)
        self._shards: dict[str, bytes] = {}

    def make(self, events: Iterable[Event], on_timeout: str) -> list[OutboxRow]:
        """The rows of these events, in order; timeouts make none. Raises SystemNotReady when an output topic cannot be
        described."""
        rows = []
        for event in events:
            if isinstance(event, Fire):
                rows.append(
                    self._fire(event, TIMED_OUT if event.reason == "timeout" and on_timeout == "dead-letter" else None)
                )
            elif isinstance(event, Sent):
                rows.append(self._sent(event))
            elif isinstance(event, Unhandled):
                rows.append(self._fire(event.fire, ("handler", event.reason, event.error, event.attempts, event.where)))
            elif isinstance(event, BadItem):
                rows.append(self._bad_item(event))
            elif isinstance(event, Refused):
                rows.append(self._dead(event))
        return rows

    def _sent(self, sent: Sent) -> OutboxRow:
        headers: list[Header] = [
            *sent.headers,
            ("sluicegate-fire", sent.fire.encode()),
            ("sluicegate-agent", self._name),
        ]
        if sent.trace is not None and not any(name == "traceparent" for name, _ in headers):
            headers.append(("traceparent", sent.trace.encode("ascii", "replace")))
        return self._row(output_id(sent.fire, sent.index), sent.topic, sent.key, sent.value, headers)

    def _fire(self, fire: Fire, dead: tuple[str, str, str, int, str] | None) -> OutboxRow:
        identity, headers = self.fire_id(fire.first), self._of_group(fire)
        try:
            value = self._encode(document(fire))
        except Exception as error:
            raised = cause(error, *contents(fire))
            why = f"the result cannot be written as {self._agent.to.format if self._agent.to else 'json'}"
            if isinstance(error, Unwritable):
                return self._unsendable(identity, fire, "unencodable", f"{why} ({error})", headers)
            said, shown = f"{why} ({raised.text})", raised.placed(f"{why} ({raised.shown})")
            return self._unsendable(identity, fire, "unencodable", said, headers, raised.where, shown)
        topic = self._to
        if dead is not None or topic is None:
            topic = self._agent.dead_letters
            stage, reason, text, attempts, where = dead or ("produce", "no-destination", "the agent has no `to`", 1, "")
            headers += self._explained(stage, reason, text, fire.first, fire.opened, attempts, where)
        if len(value) + len(fire.key) + OVERHEAD > self._most:
            why = f"the result has {len(value)} bytes, more than a message may have"
            return self._unsendable(identity, fire, "too-large", why, headers)
        return self._row(output_id(identity, 0), topic, fire.key, value, headers)

    def _of_group(self, fire: Fire) -> list[Header]:
        where = b"%s/%d/" % (self._partition.topic.encode(), self._partition.number)
        headers: list[Header] = [
            ("sluicegate-fire", self.fire_id(fire.first).encode()),
            ("sluicegate-reason", fire.reason.encode()),
            ("sluicegate-count", b"%d" % fire.count),
            ("sluicegate-first", b"%s%d" % (where, fire.first)),
            ("sluicegate-last", b"%s%d" % (where, fire.last)),
            ("sluicegate-agent", self._name),
        ]
        if fire.trace is not None:
            headers.append(("traceparent", fire.trace.encode("ascii", "replace")))
        return headers

    def _bad_item(self, bad: BadItem) -> OutboxRow:
        """A message of a group, whose key and offset are unknown: the row has those of the group, and the message's
        index."""
        fire = bad.fire
        headers = self._of_group(fire) + self._explained("handler", bad.reason, bad.error, fire.first, fire.opened)
        headers.append(("sluicegate-dead-item", b"%d" % bad.index))
        identity = output_id(self.fire_id(fire.first), -1 - bad.index)  # outputs of the fire count from 0
        return self._row(identity, self._agent.dead_letters, fire.key, bad.value, headers)

    def _unsendable(
        self,
        identity: str,
        fire: Fire,
        reason: str,
        why: str,
        headers: list[Header],
        raised_at: str = "",
        shown: str = "",
    ) -> OutboxRow:
        """A dead letter for a result that no broker would take; it names the records of the result. Raises
        ProduceStopped, whose text is logged: with `shown` in place of `why`."""
        if self._agent.on_error.produce == "stop":
            records = f"its records are {fire.first} to {fire.last}, and on_error.produce is stop"
            raise ProduceStopped(f"{self._partition.topic}/{self._partition.number}: {shown or why}; {records}")
        headers = [header for header in headers if not header[0].startswith("sluicegate-dead-")]
        error = f"{why}; its records are {fire.first} to {fire.last}"
        headers += self._explained("produce", reason, error, fire.first, fire.opened, where=raised_at)
        return self._row(output_id(identity, 0), self._agent.dead_letters, fire.key, None, headers)

    def _dead(self, refused: Refused) -> OutboxRow:
        record, offset = refused.record, refused.record.offset()
        headers: list[Header] = [
            (f"dead-{name}" if name.startswith("sluicegate-") else name, value) for name, value in headers_of(record)
        ]
        headers += self._explained(
            refused.stage, refused.reason, refused.error, offset, timestamp(record), refused.attempts, refused.where
        )
        return self._row(self._dead_id(offset), self._agent.dead_letters, record.key(), record.value(), headers)

    def _explained(
        self, stage: str, reason: str, error: str, offset: int, at: float, attempts: int = 1, where: str = ""
    ) -> list[Header]:
        says = {
            "reason": reason,
            "error": error[:1000].encode("ascii", "replace").decode().replace("\n", " "),
            **({"where": where[:LONGEST_WHERE]} if where else {}),
            "stage": stage,
            "attempts": "3" if reason == "crash" else str(attempts),
            "topic": self._partition.topic,
            "partition": str(self._partition.number),
            "offset": str(offset),
            "timestamp": rfc3339(at),
            "app": self._partition.app,
            "agent": self._partition.agent,
            "version": __version__,
        }
        return [(f"sluicegate-dead-{name}", text.encode("ascii", "replace")) for name, text in says.items()]

    def _row(
        self, identity: str, topic: str, key: bytes | None, value: bytes | None, headers: list[Header]
    ) -> OutboxRow:
        self.number += 1
        shard = self._shards.get(topic) or self._shard(topic)
        count = self._facts.partitions(topic)
        place = (
            self._facts.partition_of(key, count) if key is not None else zlib.crc32(shard.partition(b">")[0]) % count
        )
        ours: list[Header] = [
            ("sluicegate-id", identity.encode()),
            ("sluicegate-shard", shard),
            ("sluicegate-seq", b"%d" % self.number),
        ]
        return OutboxRow(self.number, self._lineage, identity, topic, place, key, value, ours + headers)

    def _shard(self, topic: str) -> bytes:
        shard = self._shards[topic] = shard_name(self._partition, topic, self._lineage)
        return shard


def shard_name(partition: Partition, topic: str, lineage: str) -> bytes:
    """The name of a sequence of numbers, as receivers know it."""
    app, agent, source, number = partition
    return f"{app}/{agent}/{source}/{number}>{topic}#{lineage}".encode()


def renumbered(row: OutboxRow, partition: Partition, number: int, lineage: str) -> OutboxRow:
    """The same output as a new row, written under the claim `lineage`."""
    ours = {"sluicegate-shard": shard_name(partition, row.topic, lineage), "sluicegate-seq": b"%d" % number}
    headers = [(name, ours.get(name, value)) for name, value in row.headers]
    return OutboxRow(number, lineage, row.id, row.topic, row.partition, row.key, row.value, headers)


def contents(fire: Fire) -> Iterator[object]:
    """The payload that the group holds, for sluicegate.streams.causes."""
    yield fire.key
    for value in fire.values.values():
        try:
            yield json.decode_any(json.encode(value))
        except Exception:
            yield value


def document(fire: Fire) -> dict[str, object]:
    """The result document: fixed fields, then computed ones (README.md shows one)."""
    fixed: dict[str, object] = {
        "key": None,
        "count": fire.count,
        "reason": fire.reason,
        "opened_at": rfc3339(fire.opened),
        "closed_at": rfc3339(fire.closed),
    }
    try:
        fixed["key"] = fire.key.decode()
    except UnicodeDecodeError:
        del fixed["key"]
        fixed = {"key_base64": base64_text(fire.key), **fixed}
    fixed.update(fire.values)
    return fixed


def _written(encode: Callable[[Any], bytes], values: dict[str, object]) -> bytes:
    """Encode with the user's codec, which gets plain values and must return bytes."""
    written = encode(json.decode_any(json.encode(values)))
    if not isinstance(written, bytes):
        raise TypeError("encode gave no bytes")
    return written


@lru_cache(1024)
def rfc3339(at: float) -> str:
    """Seconds since 1970 as `2026-11-21T07:42:08.123Z`. Groups of one batch share their times."""
    return datetime.fromtimestamp(min(max(at, 0.0), LAST_MOMENT), UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def timestamp(record: Record) -> float:
    """The record's timestamp in seconds; 0 when it has none."""
    kind, milliseconds = record.timestamp()
    return milliseconds / 1000 if kind else 0.0
