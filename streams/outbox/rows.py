"""Converts events to outbox rows: result documents and dead letters with their ids, headers and output partitions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sluicegate.schemas import Codec, cloud_events, json
from sluicegate.schemas import codec as named_codec
from sluicegate.schemas.codecs import Unwritable
from sluicegate.streams import formats
from sluicegate.streams.agent import Agent, EventEnvelope
from sluicegate.streams.aggregation.events import (
    WHOLE,
    BadItem,
    Closing,
    Event,
    Fire,
    GroupEnded,
    Refused,
    Sent,
    TimeMark,
    Unhandled,
)
from sluicegate.streams.aggregation.group_faults import fault
from sluicegate.streams.aggregation.results import document, rfc3339, window_times
from sluicegate.streams.causes import cause
from sluicegate.streams.contracts.headers import (
    AGENT,
    COUNT,
    DEAD_ERROR,
    DEAD_ITEM,
    DEAD_READ,
    DEAD_REKEYED_BY,
    DEAD_RETRIES,
    FIRE,
    FIRST,
    ID,
    LAST,
    NUMBER,
    REASON,
    REMOVED,
    RULE,
    SHARD,
    DeadReason,
    explaining,
    renamed,
    revision_headers,
    window_headers,
)
from sluicegate.streams.contracts.ids import Identify, dead_ids, fire_hash, fire_ids, history_id, output_id, retry_id
from sluicegate.streams.contracts.origin import OriginalRecord, original
from sluicegate.streams.contracts.record import Header, Headers, Record
from sluicegate.streams.contracts.record import headers as headers_of
from sluicegate.streams.contracts.stores import OutputFacts
from sluicegate.streams.contracts.values import GroupNumber, OutboxRow, Partition
from sluicegate.streams.errors import ProduceStopped, SluicegateError
from sluicegate.streams.observe.release import version
from sluicegate.streams.outbox.connect_headers import connect_headers
from sluicegate.streams.outbox.history import unreported
from sluicegate.streams.outbox.row_loop import RowValues, fixed_partition, form_of, row_loop
from sluicegate.streams.outbox.sizes import cut
from sluicegate.streams.rules import rule_of
from sluicegate.streams.topic_names import plain, reads
from sluicegate.streams.windows.marks import of_mark

LONGEST_WHERE = 300  # characters of a position in the user's code
LONGEST_ERROR = 1000  # characters of an error text
OVERHEAD = 1024  # bytes that headers and framing may add to a message
OF_CONNECT = "__connect.errors.exception.message"
WhyDead = tuple[str, str, str, int, str, str]
"""Stage, reason, error, attempts, the place in the user's code, and the clause."""
NO_DESTINATION: WhyDead = ("produce", "no-destination", "the agent has no `to`", 1, "", "")


class _LeftOut(Exception):
    """An early result cannot be encoded."""


class AnyPartition:
    """Satisfies OutputFacts for rows whose partition is chosen later, or never."""

    def partitions(self, topic: str) -> int:
        return 1

    def partition_of(self, key: bytes, count: int) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        return 0


class Target(NamedTuple):
    """A topic, the encoder of results for it, and the event envelope of the message."""

    topic: str
    encode: Callable[[Any], bytes]
    format: str
    envelope: EventEnvelope | None = None


class RowsOfClaim(NamedTuple):
    """The values of one claim from which the ids of its rows and their shards are made."""

    lineage: str
    hash: Callable[[], Any]
    dead_id: Identify


class Rows:
    """Makes the rows of one claim of a partition. `number` is the last number that was used. If `under_rule` is False,
    the groups were filled under an earlier rule, whose digest is unknown."""

    __slots__ = (
        "_agent",
        "_claim",
        "_envelopes",
        "_facts",
        "_history",
        "_letters",
        "_loop",
        "_most",
        "_partition",
        "_place",
        "_rule",
        "_sender",
        "_targets",
        "_to",
        "_topics",
        "fire_id",
        "number",
        "under_rule",
    )

    def __init__(self, partition: Partition, agent: Agent, codec: Codec, facts: OutputFacts, most: int) -> None:
        self._partition, self._agent, self._facts, self._most = partition, agent, facts, most
        outputs = agent.outputs if chooses(agent) else ()
        self._targets = [
            target(output.topic, formats.writes(replace(agent, to=output)), output.envelope) for output in outputs
        ]
        events = [(output.envelope, agent.format_of(output)) for output in agent.outputs]
        self._envelopes = [*events, (None, "")]  # the last one is for topics that a handler names
        self._letters = target(agent.dead_letters, letters_codec(agent, codec))
        self._history = target(agent.history, named_codec("json"))
        self._to = target(agent.to.topic, codec, agent.to.envelope) if agent.to else None
        form, plain = form_of(agent, bool(self._targets)), self._to is not None and self._to.envelope is None
        self._loop = row_loop(form).call if form is None or form.routed or plain else None
        self._sender: Header = (AGENT, agent.name.encode())
        self._place = b"%s/%d/" % (partition.topic.encode(), partition.number)
        self._rule: Header = (RULE, rule_of(agent).short.encode())
        self.under_rule = True
        self.begin("", 0, "")

    def begin(self, lineage: str, number: int, topic_id: str) -> None:
        """Set the claim of the next rows. `topic_id` is as in sluicegate.streams.contracts.values.Source.name."""
        self.number = number
        self.fire_id: Identify = fire_ids(self._partition, topic_id)
        self._claim = RowsOfClaim(lineage, fire_hash(self._partition, topic_id), dead_ids(self._partition, topic_id))
        self._topics: dict[str, tuple[Header, int]] = {}

    def make(self, events: Sequence[Event]) -> list[OutboxRow]:
        """The rows of these events, in order. Timeouts make no rows. The end of a group makes one only if no other
        event reports it. Raises SystemNotReady if an output topic cannot be described, and EngineFault."""
        self._topics.clear()
        exactly = partial(self._exactly, unreported(self._agent, events))
        if self._loop is None:
            return [row for event in events for row in exactly(event, self.number)[0]]
        to = self._to or self._letters  # routes and messages need neither
        values = RowValues(
            self._claim.lineage,
            self._place,
            self._sender,
            self._rule if self.under_rule else None,
            self._claim.hash,
            to.topic,
            to.encode,
            self._targets,
            self._envelopes,
            self._most - OVERHEAD,
            self._topics,
            self._shard,
            self._facts.partition_of,
            _of_window,
        )
        rows: list[OutboxRow]
        rows, self.number = self._loop(events, self.number, exactly, *values)
        return rows

    def _exactly(self, unreported_ends: set[GroupNumber], event: Event, number: int) -> tuple[Sequence[OutboxRow], int]:
        """The rows of one event, the first of them with the number after `number`, and the last number."""
        self.number = number
        try:
            return self._rows(event, unreported_ends), self.number
        except SluicegateError:
            raise
        except Exception as error:
            raise fault(error, event) from error

    def _rows(self, event: Event, unreported_ends: set[GroupNumber]) -> Sequence[OutboxRow]:
        if isinstance(event, Fire):
            try:
                return (self._fire(event, None),) if event.outputs is None else self._routed(event)
            except _LeftOut:  # the last result will report the error
                return ()
        if isinstance(event, Sent):
            return (self._sent(event),)
        if isinstance(event, Unhandled):
            why = (event.stage, event.reason, event.error, event.attempts, event.where, event.clause)
            return (self._fire(event.fire, why),)
        if isinstance(event, BadItem):
            return (self._bad_item(event),)
        if isinstance(event, TimeMark):
            topic, identify = self._agent.outputs[0].topic, self.fire_id
            headers: list[Header] = [*of_mark(event, *self._partition[2:]), self._sender]
            return [
                self._row(output_id(identify(event.offset), -1 - self.number), topic, None, None, headers, place)
                for place in range(self._facts.partitions(topic))
            ]
        if isinstance(event, Refused):
            return (self._dead(event),)
        if isinstance(event, GroupEnded) and event.fire.number in unreported_ends:
            return (self._ended(event),)
        return ()

    def _routed(self, fire: Fire) -> list[OutboxRow]:
        """One row for each output. Raises _LeftOut."""
        its = self.fire_id(fire.number)
        return [
            self._encoded(output_id(its, index), fire, self._targets[number], content, self._of_group(fire, its))
            for index, (number, content) in enumerate(fire.outputs or ())
            if fire.again in (None, WHOLE, index)
        ]

    def _sent(self, sent: Sent) -> OutboxRow:
        headers: list[Header] = [*sent.headers, (FIRE, sent.fire.encode()), self._sender]
        if sent.trace is not None and not any(name == "traceparent" for name, _ in headers):
            headers.append(("traceparent", sent.trace.encode("ascii", "replace")))
        identity, value = output_id(sent.fire, sent.index), sent.value
        envelope, form = self._envelopes[sent.output]
        if envelope is not None:
            value, headers = self._event(envelope, form, identity, sent.key, value, headers)
        return self._row(identity, sent.topic, sent.key, value, headers)

    def _event(
        self,
        envelope: EventEnvelope,
        form: str,
        identity: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
        time: str = "",
    ) -> tuple[bytes | None, list[Header]]:
        """The value and the headers of the message as a CloudEvent with the id of the output. `form` is the format of
        the value."""
        source = envelope.source or f"/{self._partition.app}/{self._partition.agent}"
        attributes = {"specversion": "1.0", "id": identity, "source": source, "type": envelope.type}
        attributes |= {"time": time} if time else {}
        attributes |= {"partitionkey": text} if (text := _attribute(key)) else {}
        written, ours = cloud_events.written(envelope.mode, attributes, value, form)
        return written, [*cloud_events.others(headers), *ours]

    def _fire(self, fire: Fire, dead: WhyDead | None) -> OutboxRow:
        """The row of the whole result document, for the agent's destination or as a dead letter."""
        its, to = self.fire_id(fire.number), self._to
        headers = self._of_group(fire, its)
        if dead is not None or to is None:
            if fire.goes_on and dead is None:
                raise _LeftOut
            to, why = self._letters, dead or NO_DESTINATION
            headers += self._explained(*why[:3], fire.first, fire.opened, *why[3:]) + _mended(fire)
        if dead is not None and fire.retries:
            return self._encoded(retry_id(output_id(its, 0), fire.retries), fire, to, document(fire), headers)
        return self._encoded(output_id(its, 0), fire, to, document(fire), headers)

    def _ended(self, ended: GroupEnded) -> OutboxRow:
        """The row of the history."""
        fire, its = ended.fire, self.fire_id(ended.fire.number)
        return self._encoded(
            history_id(its), fire, self._history, document(fire), self._of_group(fire, its, ended.rule)
        )

    def _encoded(
        self, identity: str, fire: Fire, to: Target, content: dict[str, Any], headers: list[Header]
    ) -> OutboxRow:
        try:
            value = to.encode(content)
        except Exception as error:
            raised = cause(error, *contents(fire))
            why = f"the result cannot be written as {to.format}"
            if isinstance(error, Unwritable):
                return self._unsendable(identity, fire, "unencodable", f"{why} ({error})", headers)
            text, shown = f"{why} ({raised.text})", raised.placed(f"{why} ({raised.shown})")
            return self._unsendable(identity, fire, "unencodable", text, headers, raised.where, shown)
        if len(value) + len(fire.key) + OVERHEAD > self._most:
            why = f"the result has {len(value)} bytes, more than a message may have"
            return self._unsendable(identity, fire, "too-large", why, headers)
        if to.envelope is None:
            return self._row(identity, to.topic, fire.key, value, headers)
        event = self._event(to.envelope, to.format, identity, fire.key, value, headers, rfc3339(fire.closed))
        return self._row(identity, to.topic, fire.key, *event)

    def _of_group(self, fire: Fire, its: str, rule: str | None = None) -> list[Header]:
        """`its` is the id of the fire, `rule` as in GroupEnded."""
        place = self._place
        headers: list[Header] = [
            (FIRE, its.encode()),
            (REASON, fire.reason.encode()),
            (COUNT, b"%d" % fire.count),
            (FIRST, b"%s%d" % (place, fire.first)),
            (LAST, b"%s%d" % (place, fire.last)),
            self._sender,
        ]
        if rule is None and self.under_rule:
            headers.append(self._rule)
        elif rule:
            headers.append((self._rule[0], rule.encode()))
        if fire.window is not None:
            headers += _of_window(fire.window)
        if fire.final is not None or fire.revision > 1:
            headers += revision_headers(fire.revision, fire.final, fire.window is not None)
        if fire.trace is not None:
            headers.append(("traceparent", fire.trace.encode("ascii", "replace")))
        return headers

    def _bad_item(self, bad: BadItem) -> OutboxRow:
        """The dead letter of a message in a group. The key and offset of the message are unknown, so the row has the
        key and offset of the group, and the index of the message."""
        fire, stage = bad.fire, "handler" if bad.reason == "bad-item" else "decode"
        its = self.fire_id(fire.number)
        headers = self._of_group(fire, its) + self._explained(stage, bad.reason, bad.error, fire.first, fire.opened)
        headers.append((DEAD_ITEM, b"%d" % bad.index))
        identity = output_id(its, -1 - bad.index)  # outputs of the fire count from 0
        return self._row(identity, self._agent.dead_letters, *cut(fire.key, bad.value, (), headers, self._most))

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
        """The dead letter of a result that no broker would accept. It names the records of the result. Raises
        ProduceStopped. The text of that error is logged, so it has `shown` instead of `why`."""
        if fire.goes_on and DEAD_ERROR not in dict(headers):
            raise _LeftOut
        if self._agent.on_error.produce == "stop":
            records = f"its records are {fire.first} to {fire.last}, and on_error.produce is stop"
            raise ProduceStopped(f"{self._partition.topic}/{self._partition.number}: {shown or why}; {records}")
        error = f"{why}; its records are {fire.first} to {fire.last}"
        if DEAD_ERROR in dict(headers):  # it is already a dead letter: its reason stays
            headers = [
                (name, _and(text, error) if name in (DEAD_ERROR, OF_CONNECT) else text) for name, text in headers
            ]
        else:
            headers += self._explained("produce", reason, error, fire.first, fire.opened, where=raised_at) + _mended(
                fire
            )
            identity = retry_id(identity, fire.retries) if fire.retries else identity
        return self._row(identity, self._agent.dead_letters, fire.key, None, headers)

    def _dead(self, refused: Refused) -> OutboxRow:
        read, rekeyed = refused.record, self._original(refused.record)
        record: Record = rekeyed or read
        its = renamed(headers_of(record))
        ours = self._explained(
            refused.stage,
            refused.reason,
            refused.error,
            record.offset(),
            timestamp(record),
            refused.attempts,
            refused.where,
            refused.clause,
            rekeyed,
        )
        if rekeyed is not None:
            ours += [(DEAD_REKEYED_BY, rekeyed.agent.encode()), (DEAD_READ, b"%s%d" % (self._place, read.offset()))]
        letter = cut(record.key(), record.value(), its, ours, self._most)
        return self._row(self._claim.dead_id(read.offset()), self._agent.dead_letters, *letter)

    def _original(self, record: Record) -> OriginalRecord | None:
        """The original of a record that was re-keyed for this agent; None for any other record."""
        if not reads(self._agent.receive, self._partition.topic):
            return None
        return original(record, self._agent.name, self._agent.correlates)

    def _explained(
        self,
        stage: str,
        reason: str,
        error: str,
        offset: int,
        at: float,
        attempts: int = 1,
        where: str = "",
        clause: str = "",
        rekeyed: OriginalRecord | None = None,
    ) -> list[Header]:
        """The headers that explain a dead letter. `rekeyed` is the original of a re-keyed record; the letter names the
        original."""
        place = self._partition if rekeyed is None else Partition(*self._partition[:2], *rekeyed.place[:2])
        tries = "3" if reason == "crash" else str(attempts)
        what = reason, error[:LONGEST_ERROR].replace("\n", " "), where[:LONGEST_WHERE], clause, stage, tries
        record = place.topic, str(place.number), str(offset), rfc3339(at)
        ours = explaining(DeadReason(*what, *record, self._partition.app, self._partition.agent, version()))
        if self._agent.dead_headers == "connect":
            texts = error[:LONGEST_ERROR], where[:LONGEST_WHERE]
            ours += connect_headers(place, offset, stage, reason, *texts)
        return ours

    def _row(
        self,
        identity: str,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
        place: int | None = None,
    ) -> OutboxRow:
        """A row with the next number. `place` None: the partition of the key; without a key, a fixed partition."""
        self.number = number = self.number + 1
        shard, count = self._shard(topic)
        if place is None:
            if key is not None:
                place = self._facts.partition_of(key, count)
            else:
                place = fixed_partition(shard, count)
        ours: list[Header] = [(ID, identity.encode()), shard, (NUMBER, b"%d" % number)]
        return OutboxRow(number, self._claim.lineage, identity, topic, place, key, value, ours + headers)

    def _shard(self, topic: str) -> tuple[Header, int]:
        """The header with the shard of rows to the topic, and its number of partitions, which `make` requests once."""
        known = self._topics.get(topic)
        if known is None:
            shard = SHARD, shard_name(self._partition, topic, self._claim.lineage)
            known = self._topics[topic] = shard, self._facts.partitions(topic)
        return known


def _and(text: bytes | None, error: str) -> bytes:
    """Append a second error to the text of a header."""
    return (text or b"")[: LONGEST_ERROR // 2] + f"; {error}".encode("ascii", "replace")[: LONGEST_ERROR // 2]


def chooses(agent: Agent) -> bool:
    """Whether the outputs have the fields that its routes select, or rows of lookups."""
    return bool(agent.routes or agent.lookups or any(output.select for output in agent.outputs))


def letters_codec(agent: Agent, codec: Codec) -> Codec:
    """The codec for dead letters of completed groups. `codec` is the codec of the agent's results."""
    return named_codec("json") if chooses(agent) else codec


def shard_name(partition: Partition, topic: str, lineage: str) -> bytes:
    """The name of a sequence of numbers for receivers. It has the topic's plain name, because another app may use
    another name for its cluster."""
    app, agent, source, number = partition
    return f"{app}/{agent}/{source}/{number}>{plain(topic)}#{lineage}".encode()


def renumbered(row: OutboxRow, partition: Partition, number: int, lineage: str) -> OutboxRow:
    """The same output as a new row, written under the claim `lineage`."""
    ours = {SHARD: shard_name(partition, row.topic, lineage), NUMBER: b"%d" % number}
    headers = [(name, ours.get(name, value)) for name, value in row.headers]
    return OutboxRow(number, lineage, row.id, row.topic, row.partition, row.key, row.value, headers)


def contents(fire: Fire) -> Iterator[object]:
    """The payload in the group, for sluicegate.streams.causes."""
    yield fire.key
    for value in fire.values.values():
        try:
            yield json.decode_any(json.encode(value))
        except Exception:
            yield value


def _mended(fire: Fire) -> list[Header]:
    """The headers of a dead letter for a group that lost messages or was retried. `dead retry` rebuilds the group from
    them."""
    removed = [(REMOVED, ",".join(map(str, fire.removed)).encode())] if fire.removed else []
    retries = [(DEAD_RETRIES, b"%d" % fire.retries)] if fire.retries else []
    return [*removed, *retries]


def _of_window(window: Closing) -> Headers:
    """The headers with the reason why the window closed. If the owner's clock closed it, they include the offset of the
    next record; for silence also the watermark."""
    start, end = window_times(window.start, window.end)
    rests = (window.next, window.watermark) if window.by == "idle" else (window.next,) if window.by == "at_most" else ()
    return window_headers(f"{start}/{end}", window.revision, window.by, rests)


def _attribute(key: bytes | None) -> str:
    """The key as the value of an attribute. Empty if it is not text or has control characters."""
    try:
        text = (key or b"").decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""


def target(topic: str, codec: Codec, envelope: EventEnvelope | None = None) -> Target:
    """The encoding of documents for a topic. A user codec gets plain values."""
    own = ":" in codec.name
    return Target(topic, partial(_written, codec.encode) if own else codec.encode, codec.name, envelope)


def _written(encode: Callable[[Any], bytes], values: dict[str, object]) -> bytes:
    """Encode with the user's codec. It gets plain values and must return bytes."""
    written = encode(json.decode_any(json.encode(values)))
    if not isinstance(written, bytes):
        raise TypeError("encode gave no bytes")
    return written


def timestamp(record: Record) -> float:
    """The record's timestamp in seconds; 0 when it has none."""
    kind, milliseconds = record.timestamp()
    return milliseconds / 1000 if kind else 0.0
