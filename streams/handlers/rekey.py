"""`repartition:` writes each record, unchanged, to the outbox under another key.

The legs of a correlation do the same, but write the message as the only field of an object.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.schemas import Codec
from sluicegate.schemas.codecs import json_text
from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.events import Event, Refused, Sent, TimeMark
from sluicegate.streams.aggregation.groups import LONGEST_KEY, Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.headers import passed_on
from sluicegate.streams.contracts.ids import Identify
from sluicegate.streams.contracts.origin import of_record, origin
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import ConfigurationError, ProduceStopped
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.values import OVERHEAD, Message
from sluicegate.streams.windows.origins import OriginGroups

Wrap = Callable[[bytes], bytes]


def wrapped(leg: str, codec: Codec) -> Wrap:
    """A function that converts a message of any format to `{"LEG": MESSAGE}` as JSON. The text of a JSON message is not
    changed."""
    begin, text = b'{"%s":' % leg.encode(), json_text(codec)
    return lambda value: begin + text(value) + b"}"


def _refused(groups: Groups) -> list[Item]:
    """The refused records. A time mark is kept for its commit."""
    refusals: list[Item] = [event for event in groups.events if isinstance(event, Refused)]
    groups.events = [event for event in groups.events if not isinstance(event, Refused)]
    return refusals


def _stands_last(item: object) -> bool:
    """Whether the item is a time mark. It covers all records of its commit, so its row must be the last one."""
    return isinstance(item, TimeMark)


def rekeying(agent: Agent, rule: Rule, reads: Codec, most: int) -> "Repartitioning":
    """The processor of an agent with `repartition`, or of a leg. A message may have at most `most` bytes. Raises
    ConfigurationError."""
    wrap = wrapped(agent.leg, reads) if agent.leg else None
    return Repartitioning(rule, agent.outputs[0].topic, most, wrap, bool(wrap) and reads.name != "json")


class Repartitioning(RecordProcessor):
    """Each message may have at most `max_bytes`, the limit of `topic`. `wrap` makes the value to write and raises the
    errors of decoders; without it the value is unchanged. `apart`: the result of `wrap` does not contain the bytes of
    the message."""

    batches = False

    def __init__(self, rule: Rule, topic: str, max_bytes: int, wrap: Wrap | None = None, apart: bool = False) -> None:
        if rule.key_of is None and wrap is None:
            raise ConfigurationError(f"topic {topic}: records can only be re-keyed by a field")
        self._rule, self._topic, self._max_bytes, self._wrap = rule, topic, max_bytes, wrap
        self._apart = apart

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with their new key as `value`, or refused records."""
        items: list[Item] = []
        read, key_of, largest, wrap = self._rule.reader.read, self._rule.key_of, self._rule.max_record_bytes, self._wrap
        for record in records:
            try:
                content = read(record)
                key, value = record.key() if key_of is None else key_of(content), record.value()
                if len(value or b"") > largest:
                    raise OverflowError
                if key is None:
                    groups.refuse_key(record, key, LONGEST_KEY)
                    items += _refused(groups)
                    continue
                wrapped_value = value if wrap is None else wrap(value or b"")
                stamp = groups.stamped(record) if isinstance(groups, OriginGroups) else ()
                if stamp is None:
                    items += _refused(groups)
                else:
                    items.append(Message((key, wrapped_value, stamp), record))
            except Exception as error:
                refuse(groups, record, error)
                items += _refused(groups)
        return items

    def run(self, items: Sequence[Item], identify: Identify, session: Any, place: TopicPartition) -> list[Event]:
        ordered = sorted(items, key=_stands_last)
        return [self._sent(item, identify) if isinstance(item, Message) else item for item in ordered]

    def _sent(self, message: Message, identify: Identify) -> Event:
        record, (key, value, stamp) = message.record, message.value
        kept = [*passed_on(record), *(stamp or (origin(record),)), *of_record(record, key, self._apart)]
        size = len(value or b"") + len(key) + sum(len(name) + len(value or b"") for name, value in kept)
        if size + OVERHEAD <= self._max_bytes:
            return Sent(identify(record.offset()), 0, self._topic, key, value, kept, None)
        if self._rule.on_error.produce == "stop":
            where = f"{record.topic()}/{record.partition()}/{record.offset()}"
            raise ProduceStopped(
                f"{where}: {size} bytes are more than a message may have, and on_error.produce is stop"
            )
        text = f"{size} bytes are more than a message may have ({self._max_bytes - OVERHEAD})"
        return Refused(record, "produce", "too-large", text)
