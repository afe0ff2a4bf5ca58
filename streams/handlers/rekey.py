"""`repartition:` writes each record, unchanged, to the outbox under another key."""

from collections.abc import Callable, Sequence
from typing import Any

from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.events import Event, Refused, Sent
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record, passed_on
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.errors import ConfigurationError, ProduceStopped
from sluicegate.streams.handlers.processor import Item, RecordProcessor
from sluicegate.streams.handlers.values import OVERHEAD, Message


class Repartitioning(RecordProcessor):
    """Each message may have at most `max_bytes`, the limit of `topic`."""

    batches = False

    def __init__(self, rule: Rule, topic: str, max_bytes: int) -> None:
        if rule.key_of is None:
            raise ConfigurationError(f"topic {topic}: records can only be re-keyed by a field")
        self._rule, self._key_of, self._topic, self._max_bytes = rule, rule.key_of, topic, max_bytes

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with their new key as `value`, or refused records."""
        items: list[Item] = []
        read, key_of, largest = self._rule.read, self._key_of, self._rule.max_record_bytes
        for record in records:
            try:
                key = key_of(read(record))
                if len(record.value() or b"") > largest:
                    raise OverflowError
                items.append(Message(key, record))
            except Exception as error:
                refuse(groups, record, error)
                items += [event for event in groups.drain() if isinstance(event, Refused)]
        return items

    def run(
        self, items: Sequence[Item], identify: Callable[[int], str], session: Any, place: TopicPartition
    ) -> list[Event]:
        return [self._sent(item, identify) if isinstance(item, Message) else item for item in items]

    def _sent(self, message: Message, identify: Callable[[int], str]) -> Event:
        record, key = message.record, message.value
        kept = passed_on(record)
        size = len(record.value() or b"") + len(key) + sum(len(name) + len(value or b"") for name, value in kept)
        if size + OVERHEAD <= self._max_bytes:
            return Sent(identify(record.offset()), 0, self._topic, key, record.value(), kept, None)
        if self._rule.on_error.produce == "stop":
            where = f"{record.topic()}/{record.partition()}/{record.offset()}"
            raise ProduceStopped(
                f"{where}: {size} bytes are more than a message may have, and on_error.produce is stop"
            )
        text = f"{size} bytes are more than a message may have ({self._max_bytes - OVERHEAD})"
        return Refused(record, "produce", "too-large", text)
