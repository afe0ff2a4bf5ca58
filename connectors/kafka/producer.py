"""The idempotent producer of one worker: it sends rows to explicit partitions, and reports each exactly once."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from confluent_kafka import KafkaException, Producer, murmur2

from sluicegate.connectors.kafka import problems, settings
from sluicegate.connectors.kafka.admin import TIMEOUT, described, open_admin
from sluicegate.streams.contracts.stores import BatchReports, DeliveryReport
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.errors import SystemNotReady, TopicMissing

CACHED = 60.0  # seconds for which the number of partitions of a topic is cached
KNOWN_TIMEOUT = 1.0  # seconds for an answer about a topic whose partitions are known
ALONE = 60.0  # seconds for which rows are sent one by one after a batch was refused
PROMPT = 0.001  # seconds for librdkafka's threads to see that waiting rows are to be sent now


def open_producer(
    kafka: settings.Settings, defaults: settings.Settings = settings.PRODUCER_DEFAULTS
) -> "KafkaProducer":
    """A producer with these settings of librdkafka; it connects when first used. Raises ConfigurationError."""
    return KafkaProducer(kafka, defaults=defaults)


class RowCallback(msgspec.Struct, gc=False):
    """librdkafka calls it with the report of one row. A `partial` instead would cost 2 us a row."""

    number: int
    delivered: list[int]
    failed: list[tuple[int, Any]]

    def __call__(self, error: Any, _message: Any) -> None:
        if error is None:
            self.delivered.append(self.number)
        else:
            self.failed.append((self.number, error))


class SingleReport:
    """The report of one row. Satisfies sluicegate.streams.contracts.stores.BatchReports."""

    def __init__(self, report: DeliveryReport) -> None:
        self._report = report

    def delivered(self, numbers: Sequence[int]) -> None:
        self._report("delivered", "")

    def refused(self, number: int, outcome: str, text: str) -> None:
        self._report(outcome, text)


class _Together:
    """The reports of rows that were handed over together, until `poll` passes them on."""

    def __init__(self) -> None:
        self.out = 0
        self.delivered: list[int] = []
        self.failed: list[tuple[int, Any]] = []  # with librdkafka's error
        self.refused: list[tuple[int, str, str]] = []  # by librdkafka itself, with outcome and text


class KafkaProducer:
    """Satisfies sluicegate.streams.contracts.stores.Producer.

    A broker refuses whole batches: when one row is too large, every row of its batch fails. So the error is reported as
    `failed` at first. The producer that `replace` makes then sends each row alone, where the same error is definite:
    `rejected`. After ALONE seconds, when nothing is under way, rows are sent in batches again.
    """

    def __init__(
        self,
        kafka: settings.Settings,
        clock: Callable[[], float] = time.monotonic,
        defaults: settings.Settings = settings.PRODUCER_DEFAULTS,
    ) -> None:
        self._kafka, self._clock, self._defaults = kafka, clock, defaults
        self._out = 0
        self._together: dict[BatchReports, _Together] = {}
        self._suspicion = False
        self._alone_since: float | None = None
        self._counts: dict[str, tuple[float, int]] = {}
        self._admin: Any = None
        self._complaints = settings.Complaints()
        self._refusal: SystemNotReady | None = None
        self._producer = self._new_client()

    def produce(self, row: OutboxRow, report: DeliveryReport) -> bool:
        """Hand over one row. False: the queue is full, and the row was not taken."""
        return self.produce_all((row,), SingleReport(report)) == 1

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        """A row that librdkafka itself refuses is reported by the next `poll`, like every other report."""
        together = self._together.setdefault(reports, _Together())
        produce, delivered, failed = self._producer.produce, together.delivered, together.failed
        taken = 0
        for row in rows:
            done = RowCallback(row.number, delivered, failed)
            try:
                produce(row.topic, row.value, row.key, row.partition, done, headers=list(row.headers))
            except BufferError:
                break
            except KafkaException as error:
                definite = error.args[0].code() in problems.REFUSING
                together.refused.append((row.number, "rejected" if definite else "failed", problems.error_text(error)))
            taken += 1
        together.out += taken
        self._out += taken
        return taken

    def send_now(self) -> None:
        self._producer.flush(PROMPT)

    def poll(self) -> int:
        self._producer.poll(0)
        if self._refusal is not None:
            raise self._refusal
        self._report()
        if self._alone_since is not None and not self._out and self._clock() - self._alone_since > ALONE:
            self._renew(alone=False)
        return self._out

    def replace(self) -> None:
        """Rows that are under way may still arrive as late copies, which receivers drop."""
        self._renew(alone=self._suspicion)

    def partitions(self, topic: str) -> int:
        now = self._clock()
        known = self._counts.get(topic)
        if known is not None and now - known[0] < CACHED:
            return known[1]
        if self._admin is None:
            self._admin = open_admin(self._kafka)
        try:
            description = described(self._admin, [topic], TIMEOUT if known is None else KNOWN_TIMEOUT)[topic]
        except SystemNotReady:
            if known is None:
                raise
            # all stay cached for another minute: each request would hold up the loop
            self._counts = {name: (now, count) for name, (_, count) in self._counts.items()}
            return known[1]
        if description is None:
            raise TopicMissing(f"Kafka: there is no topic {topic}")
        self._counts[topic] = now, description.partitions
        return description.partitions

    def partition_of(self, key: bytes, count: int) -> int:
        return int(murmur2(key, count))

    def flush(self, timeout: float) -> int:
        self._producer.flush(timeout)
        self._report()
        return self._out

    def close(self) -> None:
        """Drops rows without a report: call `flush` before."""
        self._dismiss()

    def _renew(self, alone: bool) -> None:
        self._dismiss()
        self._suspicion = False
        self._alone_since = self._clock() if alone else None
        self._producer = self._new_client()

    def _dismiss(self) -> None:
        """Drops all rows without passing on their reports. Serving the reports frees their memory."""
        self._out = 0
        self._together.clear()
        self._producer.purge()
        self._producer.poll(0)

    def _new_client(self) -> Any:
        wanted = settings.producer(self._kafka, self._on_error, self._defaults)
        if self._alone_since is not None:
            wanted["batch.num.messages"] = 1
        return problems.client(Producer, wanted)

    def _outcome(self, error: Any) -> str:
        if error.code() in problems.DENYING:
            return "denied"
        if error.code() not in problems.REFUSING:
            return "failed"
        if self._alone_since is not None:
            return "rejected"
        self._suspicion = True
        return "failed"

    def _report(self) -> None:
        for reports, together in list(self._together.items()):  # a hundred when the queue is full: most have no report
            if together.delivered or together.failed or together.refused:
                self._tell(reports, together)

    def _tell(self, reports: BatchReports, together: _Together) -> None:
        delivered, failed, refused = together.delivered[:], together.failed[:], together.refused[:]
        for known in (together.delivered, together.failed, together.refused):
            known.clear()
        reports_ = len(delivered) + len(failed) + len(refused)
        self._out -= reports_
        together.out -= reports_
        if not together.out:
            del self._together[reports]
        if delivered:
            reports.delivered(delivered)
        for number, error in failed:
            reports.refused(number, self._outcome(error), problems.error_text(error))
        for number, outcome, text in refused:
            reports.refused(number, outcome, text)

    def _on_error(self, error: Any) -> None:
        """Rows report fatal errors. A broker that refuses the client leaves the rows without a report, so that error is
        kept."""
        self._refusal = self._refusal or problems.turned_away(error, self._kafka)
        self._complaints.say(error, problems.error_text(error))
