"""The first half of `repartition:`: each record goes on, unchanged, under another key. The outbox does the rest."""

from collections.abc import Callable, Sequence

from sluicegate.streams.aggregation.accept import refuse
from sluicegate.streams.aggregation.events import Event, Refused, Sent
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.record import Record, headers
from sluicegate.streams.errors import ConfigurationError, ProduceStopped
from sluicegate.streams.handlers.handling import Item
from sluicegate.streams.handlers.values import OVERHEAD, Message


class Repartitioning:
    """Takes the place of Handling. `most` bytes fit into a message of `topic`."""

    batches = session = parts = False

    def __init__(self, rule: Rule, topic: str, most: int) -> None:
        if rule.key_of is None:
            raise ConfigurationError(f"topic {topic}: records can only be re-keyed by a field")
        self._rule, self._key_of, self._topic, self._most = rule, rule.key_of, topic, most

    def step(self, place: tuple[str, int], offset: int) -> int:
        """As Failures.step: nothing here may fail."""
        return 0

    def read(self, groups: Groups, records: Sequence[Record]) -> list[Item]:
        """The records with their new key as `value`, or refused ones."""
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
        self, items: Sequence[Item], identify: Callable[[int], str], session: None, place: tuple[str, int]
    ) -> list[Event]:
        return [self._sent(item, identify) if isinstance(item, Message) else item for item in items]

    def _sent(self, message: Message, identify: Callable[[int], str]) -> Event:
        record, key = message.record, message.value
        kept = [(name, value) for name, value in headers(record) if not name.startswith("sluicegate-")]
        size = len(record.value() or b"") + len(key) + sum(len(name) + len(value or b"") for name, value in kept)
        if size + OVERHEAD > self._most and self._rule.on_error.produce == "stop":
            where = f"{record.topic()}/{record.partition()}/{record.offset()}"
            raise ProduceStopped(
                f"{where}: {size} bytes are more than a message may have, and on_error.produce is stop"
            )
        if size + OVERHEAD > self._most:
            return Refused(
                record,
                "produce",
                "too-large",
                f"{size} bytes are more than a message may have ({self._most - OVERHEAD})",
            )
        return Sent(identify(record.offset()), 0, self._topic, key, record.value(), kept, None)

    def committed(self, items: Sequence[Item], identify: Callable[[int], str], place: tuple[str, int]) -> None:
        """Nothing is remembered."""

    def forget(self, place: tuple[str, int]) -> None:
        """Nothing is remembered."""
