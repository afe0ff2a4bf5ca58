"""`delivery: transactional`: rows of an outbox and the cursor of their shard in one Kafka transaction.

The cursor of a shard says which rows were sent. It is the offset that the group `APP.AGENT/relay` committed for the
shard's input partition: the offset is the highest row number, its metadata has the highest number of each lineage. The
group has no members. The brokers forget the cursor after offsets.retention.minutes (7 days by default) without a
commit. That matters only to a shard that was killed before its rows were recorded, and stayed away for so long.

librdkafka does not support KIP-890: after any doubt about a transaction its producer is closed. The next producer with
the same `transactional.id` makes the brokers end the open transaction, before the cursor is read.

A producer that lost a broker after it added a cursor is closed too. When the group's coordinator is missing from the
metadata for a moment, librdkafka waits for ever for its old connection, whatever the timeout (its issues 5456 and 5511;
seen with 2.16 after each restart of a broker).
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluicegate.connectors.kafka import problems, settings
from sluicegate.streams import failpoints
from sluicegate.streams.contracts.stores import Cursor
from sluicegate.streams.contracts.values import OutboxRow, Partition
from sluicegate.streams.errors import Fenced, SystemNotReady
from sluicegate.streams.topic_names import plain

OPENING = 10.0  # seconds for a coordinator to answer one request
SENDING = settings.TRANSACTION_TIMEOUT
LATE = 5.0  # seconds by which librdkafka may miss a timeout
ProducerCall = tuple[Callable[[], object], "SimpleQueue[Exception | None]"]
RAISED = (KafkaException, SystemError)
"""confluent_kafka raises a fatal error (it was fenced, say) from the next call that serves events. Inside another
callback the fatal error is the cause of a SystemError."""


def open_transactions(kafka: settings.Settings, app: str, agent: str) -> Callable[[Partition], "KafkaTransactions"]:
    """A function that makes the transactions of a shard of this agent. Raises ConfigurationError."""
    cursors = Cursors(kafka, f"{app}.{agent}/relay")
    return lambda partition: KafkaTransactions(kafka, partition, cursors)


class Cursors:
    """The cursors of all shards of an agent; threads may share it."""

    def __init__(self, kafka: settings.Settings, group: str) -> None:
        self._consumer: Any = problems.client(Consumer, settings.offsets(kafka, group))

    @property
    def group(self) -> Any:
        """The group's metadata, which a transaction needs."""
        return self._consumer.consumer_group_metadata()

    def read(self, partition: Partition) -> Cursor:
        """The cursor; empty when there is none. Waits for a transaction that is being ended. Raises KafkaException."""
        [committed] = self._consumer.committed([TopicPartition(plain(partition.topic), partition.number)], OPENING)
        if committed.error is not None:
            raise KafkaException(committed.error)
        try:
            return {str(lineage): int(number) for lineage, number in json.loads(committed.metadata or "{}").items()}
        except (ValueError, AttributeError, TypeError):
            return {}  # not our commit: all rows are sent

    def at(self, partition: Partition, cursor: Cursor) -> TopicPartition:
        """The cursor as an offset to commit."""
        number = max(cursor.values(), default=0)
        metadata = json.dumps(cursor, separators=(",", ":"))
        return TopicPartition(plain(partition.topic), partition.number, number, metadata)


class KafkaTransactions:
    """Satisfies sluicegate.streams.contracts.stores.OutputTransactions."""

    def __init__(self, kafka: settings.Settings, partition: Partition, cursors: Cursors) -> None:
        self._kafka, self._partition, self._cursors = kafka, partition, cursors
        self._identity = "/".join(map(str, partition))
        self._errors: list[KafkaError] = []  # of rows of the transaction under way
        self._lost = ""  # the error of a broker that was lost after a cursor was added
        self._added = False
        self._producer: Any = None
        self._aside = Aside()

    def open(self) -> Cursor:
        self.close()
        reports = {"on_delivery": self._on_delivery, "error_cb": self._on_error}
        self._producer = problems.client(Producer, settings.transactional(self._kafka, self._identity) | reports)
        self._lost, self._added = "", False
        try:
            self._producer.init_transactions(OPENING)
            return self._cursors.read(self._partition)
        except RAISED as error:
            self.close()
            raise problems.not_ready(f"opening transactions of {self._identity} failed", _cause(error)) from error

    def send(self, rows: Sequence[OutboxRow], cursor: Cursor) -> str:
        if self._producer is None:
            raise SystemNotReady(f"Kafka: transactions of {self._identity} are not open")
        self._errors.clear()
        try:
            self._fill(rows, cursor)
            failpoints.hit("txn-produced")
            self._producer.commit_transaction(SENDING)
        except RAISED as error:
            return self._ended(_cause(error))
        failpoints.hit("txn-committed")
        return ""

    def close(self) -> None:
        """The next producer, or the timeout, ends an open transaction."""
        self._aside.end()
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(*RAISED):
                producer.purge()

    def _fill(self, rows: Sequence[OutboxRow], cursor: Cursor) -> None:
        producer = self._producer
        producer.begin_transaction()
        for row in rows:
            topic = plain(row.topic)
            try:
                producer.produce(topic, row.value, row.key, row.partition, headers=list(row.headers))
            except BufferError as error:
                if producer.flush(SENDING):
                    raise SystemNotReady(f"Kafka: the brokers take no rows of {self._identity}") from error
                producer.produce(topic, row.value, row.key, row.partition, headers=list(row.headers))
        # before the cursor: the brokers add no group to a transaction while they still end the last one
        producer.flush(SENDING)
        self._add(cursor)

    def _add(self, cursor: Cursor) -> None:
        """Add the cursor to the transaction. Raises SystemNotReady when the call would not return, or does not return
        in time."""
        if self._lost:
            self.close()
            raise SystemNotReady(f"Kafka: transactions of {self._identity} are opened again: {self._lost}")
        places, group, add = (
            [self._cursors.at(self._partition, cursor)],
            self._cursors.group,
            self._producer.send_offsets_to_transaction,
        )
        if not self._aside.run(lambda: add(places, group, OPENING), OPENING + LATE):
            self._producer = None  # the thread of the call stays: nothing ends the call
            raise SystemNotReady(
                f"Kafka: a transaction of {self._identity} failed: the coordinator of its cursor does not answer"
            )
        self._added = True

    def _ended(self, error: KafkaException) -> str:
        """The broker's text about a row that it will never take, when the transaction was aborted for that row. Raises
        Fenced and SystemNotReady for other errors."""
        inner = error.args[0]
        refusing = [error for error in (inner, *self._errors) if error.code() in problems.REFUSING]
        if refusing and not inner.fatal():
            try:
                self._producer.abort_transaction(OPENING)
                return problems.error_text(refusing[0])
            except RAISED as worse:
                inner = _cause(worse).args[0]
        self.close()
        text = problems.error_text(self._errors[0] if self._errors and not inner.fatal() else inner)
        if inner.code() in problems.FENCED:
            raise Fenced(f"Kafka: {self._identity}: {text}") from error
        raise SystemNotReady(f"Kafka: a transaction of {self._identity} failed: {text}") from error

    def _on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._errors.append(error)

    def _on_error(self, error: KafkaError) -> None:
        if self._added and error.code() in problems.GONE:
            self._lost = problems.error_text(error)


class Aside:
    """A daemon thread for calls that may never return. A call that does not return in time keeps the thread, and the
    next call gets another one."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[ProducerCall | None] | None = None

    def run(self, call: Callable[[], object], seconds: float) -> bool:
        """Whether the call returned within so many seconds. Raises what the call raised."""
        if self._jobs is None:
            self._jobs = SimpleQueue()
            Thread(target=_serve, args=(self._jobs,), daemon=True).start()
        outcome: SimpleQueue[Exception | None] = SimpleQueue()
        self._jobs.put((call, outcome))
        try:
            raised = outcome.get(timeout=seconds)
        except Empty:
            self.end()
            return False
        if raised is not None:
            raise raised
        return True

    def end(self) -> None:
        """The thread ends when its call has returned."""
        if self._jobs is not None:
            self._jobs.put(None)
        self._jobs = None


def _serve(jobs: "SimpleQueue[ProducerCall | None]") -> None:
    while (job := jobs.get()) is not None:
        call, outcome = job
        try:
            call()
            outcome.put(None)
        except Exception as error:
            outcome.put(error)
        del job, call, outcome  # a closed producer must not live until the next call


def _cause(error: Exception) -> KafkaException:
    if isinstance(error, KafkaException):
        return error
    if isinstance(error.__cause__, KafkaException):
        return error.__cause__
    raise error
