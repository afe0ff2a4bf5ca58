"""Everything that stands in some topics, read as any consumer would."""

from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from tests.chaos.record import Seen
from tests.waiting import wait_until

LEADERLESS = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)


class Tap:
    """Reads all partitions of its topics from their beginning, further at every `draw`."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "tap",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
        self._consumer: Any = Consumer(settings | {"enable.partition.eof": True})
        self._topics = list(topics)
        self._next: dict[tuple[str, int], int] = {}
        self._seen: dict[str, list[Seen]] = {topic: [] for topic in topics}
        self.look_again()

    def follow(self, topic: str) -> None:
        """This one, too, which was made later."""
        self._topics.append(topic)
        self._seen[topic] = []
        self.look_again()

    def look_again(self) -> None:
        """Partitions may have been added."""
        topics = self._consumer.list_topics(timeout=20).topics
        for topic in self._topics:
            for number in topics[topic].partitions:
                self._next.setdefault((topic, number), 0)
        self._consumer.assign([TopicPartition(*place, at or OFFSET_BEGINNING) for place, at in self._next.items()])

    def draw(self, wait: float = 0.05) -> list[Seen]:
        """What has come since the last call."""
        fresh = []
        for message in self._consumer.consume(1000, wait):
            place = message.topic(), message.partition()
            if message.error() is None:
                self._next[place] = message.offset() + 1
                fresh.append(_seen(message))
            # behind what ends a transaction, which is no record
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._next[place] = message.offset()
        for record in fresh:
            self._seen[record.topic].append(record)
        return fresh

    def seen(self, topic: str) -> list[Seen]:
        return sorted(self._seen[topic], key=lambda record: record.place)

    def next(self, topic: str, number: int) -> int:
        """The offset behind what was read of this partition."""
        return self._next[topic, number]

    def ends(self, topic: str) -> dict[int, int]:
        """The next offset of each partition, as the broker says now."""
        return {number: self._end(topic, number) for name, number in self._next if name == topic}

    def finish(self) -> list[Seen]:
        """Read up to where the logs end now."""
        fresh: list[Seen] = []
        ends = {place: self._end(*place) for place in self._next}
        while any(self._next[place] < end for place, end in ends.items()):
            fresh += self.draw(0.2)
        return fresh

    def close(self) -> None:
        self._consumer.close()

    def _end(self, topic: str, number: int) -> int:
        low, high = wait_until(
            lambda: self._watermarks(TopicPartition(topic, number)), 60, f"the leader of {topic}/{number}"
        )
        return high if high > low else self._next[topic, number]

    def _watermarks(self, place: TopicPartition) -> tuple[int, int] | None:
        """None from a broker that was started anew and does not lead it yet."""
        try:
            low, high = self._consumer.get_watermark_offsets(place, timeout=20)
        except KafkaException as error:
            if error.args[0].code() not in LEADERLESS:
                raise
            return None
        return int(low), int(high)


def _seen(message: Any) -> Seen:
    headers = {name: (value or b"").decode("ascii", "replace") for name, value in message.headers() or ()}
    return Seen(message.topic(), message.partition(), message.offset(), message.key(), message.value(), headers)
