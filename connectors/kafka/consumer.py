"""The consumer of one worker in its agent's group.

Rebalance callbacks answer the group and note the partitions. The worker is called before a revoked partition is
released (`before_revoke`). librdkafka's fetcher gets an assigned partition when the worker starts it, not before. So
nothing is fetched too early, nothing has to be paused, and no late answer to a query for an offset moves the position.
In an eager group an assignment is always complete: there, partitions begin paused at the end of the log, and are then
sought.
"""

import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sluicegate.connectors.kafka import facts, problems, settings
from sluicegate.connectors.kafka.admin import described, open_admin
from sluicegate.connectors.kafka.alone import MOST, AloneRecords, high
from sluicegate.connectors.kafka.probe import ApartRecords, ApartSource, KafkaProbe
from sluicegate.connectors.kafka.seeking import position, seek
from sluicegate.connectors.kafka.subscription import Subscription
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.errors import SluicegateError, SystemNotReady
from sluicegate.streams.topic_names import patterns

_error = Message.error
LEAVING = 3.0  # seconds that a member may take to leave its group
APART_PAUSE = 0.01  # seconds that a poll waits for this consumer's records while another process fetches a partition


class KafkaInput:
    """A subscribed consumer. Callbacks may also run inside `consume`, so callers drain `assigned` and `revoked` after
    it. Satisfies sluicegate.streams.contracts.stores.Input."""

    def __init__(
        self,
        kafka: settings.Settings,
        group: str,
        topics: Sequence[str],
        member: str,
        ends: bool = False,
        looks: bool = False,
        instance: str = "",
    ) -> None:
        """`topics` are names and patterns (sluicegate.streams.topic_names). Without topics it joins no group, and only
        answers questions about facts. `ends`: it notes the ends of its partitions. `looks`: it looks for the names of
        all topics. `instance` is as in settings.consumer. Raises ConfigurationError for settings that librdkafka
        refuses."""
        self._kafka, self._group = kafka, group
        self._incremental = settings.incremental(kafka)
        self._joined = self._always_joined = settings.by_the_broker(kafka)
        self._assigned: list[TopicPartition] = []
        self._revoked: list[TopicPartition] = []
        self._failures: list[tuple[TopicPartition, str, str]] = []
        self._fetching: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}
        self._finish: Callable[[Sequence[TopicPartition]], object] | None = None
        self._fatal: SystemNotReady | None = None
        self._complaints = settings.Complaints()
        self._admin: Any = None
        self._bounds: dict[TopicPartition, int] = {}
        self._apart: dict[TopicPartition, ApartRecords | AloneRecords] = {}
        self._turn: ApartRecords | AloneRecords | None = None  # the last record that was polled is one of these
        if instance:
            instance = self._instance(instance, topics)
        self._wanted = settings.consumer(kafka, group, member, self._on_error, ends, instance)
        self._consumer = problems.client(Consumer, dict(self._wanted))
        self._subscription = Subscription(kafka, topics, self._subscribe, looks)

    # Records

    def poll(self, timeout: float) -> Record | None:
        """The next record; None: no record came, or a transient error. Raises SystemNotReady for a fatal error."""
        self._subscription.follow()
        if self._apart and (record := self._poll_apart()) is not None:
            return record
        try:
            message = self._consumer.poll(min(timeout, APART_PAUSE) if self._apart else timeout)
        except KafkaException as error:
            raise problems.not_ready("reading failed", error) from error
        if self._fatal is not None:
            raise self._fatal
        if message is None or message.error() is None:
            return cast(Record | None, message)
        self._sort(message)
        return None

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        """Records that were fetched or come in time, without errors. To look at the error of each message costs 1 to 2
        % of reading it. After a record that another process fetched, all are of that kind."""
        if self._turn is not None:
            return cast(list[Record], self._turn.take(most))
        try:
            batch: list[Any] = self._consumer.consume(most, timeout)
        except KafkaException as error:
            raise problems.not_ready("reading failed", error) from error
        if any(map(_error, batch)):
            for message in batch:
                if message.error() is not None:
                    self._sort(message)
            return [message for message in batch if message.error() is None]
        return batch

    def close(self) -> None:
        """Leave the group. Its records must not be used afterwards. If the brokers do not answer within LEAVING
        seconds, a thread goes on waiting for them, which does not hold up the end of the process."""
        self._finish = None
        self._subscription.close()
        for place in list(self._apart):
            self._end_apart(place)
        deadline = time.monotonic() + LEAVING
        if settings.INSTANCE in self._wanted:
            # a static member leaves its group when it unsubscribes, and not when it is closed (KIP-345)
            with contextlib.suppress(KafkaException):  # after a fatal error there is nothing to leave
                self._consumer.unsubscribe()
                while self._consumer.memberid() and time.monotonic() < deadline:
                    self._consumer.poll(0.01)
        closing = threading.Thread(target=self._consumer.close, name="kafka-close", daemon=True)
        closing.start()
        closing.join(max(0.0, deadline - time.monotonic()))

    # Assignments

    def assigned(self) -> list[TopicPartition]:
        noted, self._assigned = self._assigned, []
        return noted

    def revoked(self) -> list[TopicPartition]:
        noted, self._revoked = self._revoked, []
        return noted

    def before_revoke(self, finish: Callable[[Sequence[TopicPartition]], object]) -> None:
        self._finish = finish

    def topics(self) -> Sequence[str] | None:
        return self._subscription.topics

    def failures(self) -> list[tuple[TopicPartition, str, str]]:
        noted, self._failures = self._failures, []
        return noted

    # Positions

    def start(self, topic: str, number: int, offset: int, epoch: int) -> None:
        """Starts fetching at `offset`. Given an epoch, librdkafka asks the broker whether the log was truncated; only a
        seek does that."""
        self._end_apart((topic, number))
        if (topic, number) in self._bounds:
            source = ApartSource(self._kafka, self._group, (topic, number))
            self._apart[topic, number] = ApartRecords(source, offset, self._bounds[topic, number])
            return
        target = position(topic, number, offset, epoch)
        fresh = (topic, number) not in self._fetching
        self._ends.pop((topic, number), None)
        try:
            if fresh:
                self._consumer.incremental_assign([target])
                self._fetching.add((topic, number))
            if not fresh or epoch >= 0:
                seek(self._consumer, target, self._incremental)
            self._consumer.resume([target])  # a pause outlives an assignment
        except KafkaException as error:
            raise problems.not_ready(f"starting {topic}/{number} at {offset} failed", error) from error

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetched records that were not read are fetched again after `resume`."""
        for place in partitions:
            if place in self._apart:
                self._apart[place].paused = True
        self._consumer.pause([Position(topic, number) for topic, number in partitions])

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        for place in partitions:
            self._ends.pop(place, None)
            if place in self._apart:
                self._apart[place].paused = False
        wanted = [Position(*place) for place in partitions if place not in self._apart]
        self._consumer.resume(wanted)

    def resume_alone(self, topic: str, number: int, offset: int, epoch: int) -> None:
        """Reads the partition with a consumer of its own. At most MOST partitions have one at once."""
        place = topic, number
        if place not in self._apart and self.spare():
            with contextlib.suppress(SystemNotReady):  # then the consumer itself goes on
                self._apart[place] = AloneRecords(self._wanted, place, offset, epoch, self._sort)
        self.resume([place])

    def spare(self) -> bool:
        return sum(isinstance(reader, AloneRecords) for reader in self._apart.values()) < MOST

    def alone(self, topic: str, number: int) -> bool:
        return (topic, number) in self._apart

    def ended(self, topic: str, number: int) -> int:
        """Whether the partition was read to its end. librdkafka reports an end once."""
        return self._ends.get((topic, number), -1)

    def look_again(self, topic: str, number: int) -> None:
        """Ends the fetch that is under way with a pause. The next fetch begins with the first answer of a broker."""
        if isinstance(alone := self._apart.get((topic, number)), AloneRecords):
            alone.look_again()
        self.pause([(topic, number)])
        self.resume([(topic, number)])

    # Other processes

    def probe(self, topic: str, number: int, offset: int) -> KafkaProbe:
        return KafkaProbe(ApartSource(self._kafka, self._group, (topic, number)), offset)

    def bound(self, topic: str, number: int, until: int) -> None:
        """Lets another process fetch the partition up to `until`. This consumer keeps it paused, or does not fetch it
        yet."""
        self._end_apart((topic, number))
        if until < 0:
            self._bounds.pop((topic, number), None)
        else:
            self._bounds[topic, number] = until

    def bound_reached(self, topic: str, number: int) -> bool:
        apart = self._apart.get((topic, number))
        return apart is not None and apart.ended

    def _poll_apart(self) -> Record | None:
        """A record that another process fetched. The next turn belongs to this consumer."""
        if self._turn is None:
            for place, apart in list(self._apart.items()):
                if records := apart.take(1):
                    self._turn = apart
                    self._apart[place] = self._apart.pop(place)  # the others have the next turns
                    return records[0]
                if isinstance(apart, AloneRecords) and apart.calm:
                    # from here on this consumer reads the partition again
                    try:
                        self.start(*apart.place, apart.next, apart.epoch)
                    except SystemNotReady as error:
                        self._failures.append((apart.place, "unread", str(error)))
        self._turn = None
        return None

    def _end_apart(self, place: TopicPartition) -> None:
        if (apart := self._apart.pop(place, None)) is not None:
            self._turn = None
            apart.close()

    # Facts

    def facts(self, topic: str, number: int) -> TopicFacts:
        return facts.facts(self._asking(), self._consumer, topic, number)

    def existing(self) -> Sequence[str] | None:
        return self._subscription.existing

    def offset_at(self, topic: str, number: int, start: float) -> int:
        return facts.offset_at(self._asking(), topic, number, start)

    def _asking(self) -> Any:
        """The admin client; it is opened when it is first needed."""
        if self._admin is None:
            self._admin = open_admin(self._kafka)
        return self._admin

    def _instance(self, instance: str, topics: Sequence[str]) -> str:
        """The id of the static member, with a checksum of its topics and their numbers of partitions. The group gives
        the next member of an instance its old partitions without a rebalance, so other topics, and partitions that were
        added in between, would have no owner. Empty for a dynamic member: a pattern may match other topics by then, or
        the brokers do not answer."""
        try:
            descriptions = {} if patterns(topics) else described(self._asking(), topics)
        except SluicegateError as error:
            settings.log.warning("group %s: this process is no static member of it: %s", self._group, error)
            return ""
        counts = [f"{name} {topic.partitions}" for name, topic in sorted(descriptions.items()) if topic is not None]
        if not counts or len(counts) < len(descriptions):
            return ""
        return f"{instance}-{zlib.crc32(' '.join(counts).encode()):08x}"

    def inform(self, topic: str, number: int, offset: int, metadata: str) -> None:
        try:
            self._consumer.commit(offsets=[Position(topic, number, offset, metadata=metadata)], asynchronous=True)
        except KafkaException as error:
            settings.log.info("informational commit dropped: %s", problems.error_text(error))

    def high(self, topic: str, number: int) -> int:
        alone = self._apart.get((topic, number))
        return alone.high() if isinstance(alone, AloneRecords) else high(self._consumer, (topic, number))

    def joined(self) -> bool:
        return self._joined or self._subscription.empty

    # Callbacks

    def _subscribe(self, topics: Sequence[str]) -> None:
        if not topics:
            self._consumer.unsubscribe()
            return
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        places = [(partition.topic, partition.partition) for partition in partitions]
        if self._incremental:
            consumer.incremental_assign([])
        else:
            ends = [Position(topic, number, OFFSET_END) for topic, number in places]
            consumer.assign(ends)
            consumer.pause(ends)
            self._fetching.update(places)
        self._assigned.extend(places)
        self._joined = True

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        if self._finish is not None:
            self._finish([(partition.topic, partition.partition) for partition in partitions])
        self._let_go(consumer, partitions)

    def _let_go(self, consumer: Any, partitions: list[Any]) -> None:
        places = [(partition.topic, partition.partition) for partition in partitions]
        if self._incremental:
            consumer.incremental_unassign(
                [partition for partition, place in zip(partitions, places, strict=True) if place in self._fetching]
            )
            self._fetching.difference_update(places)
        else:
            consumer.unassign()
            self._fetching.clear()
        for place in places:
            self._ends.pop(place, None)
            self._end_apart(place)
        # assigned and revoked within one poll: not ours
        self._assigned = [place for place in self._assigned if place not in places]
        self._revoked.extend(places)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._joined = self._always_joined
        self._let_go(consumer, partitions)

    def _on_error(self, error: Any) -> None:
        """Errors of the client itself. librdkafka connects again by itself."""
        if error.fatal() or error.code() in problems.HOPELESS:
            self._fatal = problems.not_ready(f"group {self._group} failed", error)
        elif (refusal := problems.turned_away(error, self._kafka)) is not None:
            self._fatal = refusal
        self._complaints.say(error, problems.error_text(error))

    def _sort(self, message: Any) -> None:
        """Handles an error that came instead of a record: it halts a partition, is ignored, or ends the process."""
        error, topic, number = message.error(), message.topic(), message.partition()
        if error.code() == KafkaError._PARTITION_EOF:
            self._ends[topic, number] = message.offset()
            return
        code = problems.halting(error)
        if code is not None and topic is not None:
            place, code = (topic, -1 if number is None else number), self._subscription.judged(code)
            self._failures.append((place, code, problems.error_text(error)))
        elif error.fatal() or error.code() in problems.HOPELESS:
            raise problems.not_ready(
                f"reading {topic}/{number} failed" if topic else f"group {self._group} failed", error
            )
        elif problems.is_transient(error) or topic is None:
            self._complaints.say(error, problems.error_text(error))
        else:  # a wrong checksum, say: librdkafka skips the record
            self._failures.append(((topic, -1 if number is None else number), "unread", problems.error_text(error)))
