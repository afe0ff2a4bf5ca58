"""A span for each row that the dispatcher hands to Kafka, from the hand-over to its delivery report."""

from collections.abc import Sequence

from sluicegate.streams.contracts.stores import BatchReports, Output
from sluicegate.streams.contracts.values import OutboxRow
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.outbox.lane_rows import lane_of


class TracedOutput:
    """`output` with a span for each report; a row that is sent again has a span each time. Satisfies
    sluicegate.streams.contracts.stores.Output."""

    def __init__(self, output: Output, spans: Spans) -> None:
        self._output, self._spans = output, spans
        self.poll, self.replace, self.send_now = output.poll, output.replace, output.send_now

    def produce_all(self, rows: Sequence[OutboxRow], reports: BatchReports) -> int:
        return self._output.produce_all(rows, TracedReports(rows, reports, self._spans))


class TracedReports:
    """Satisfies sluicegate.streams.contracts.stores.BatchReports."""

    def __init__(self, rows: Sequence[OutboxRow], reports: BatchReports, spans: Spans) -> None:
        self._rows, self._reports, self._spans = {row.number: row for row in rows}, reports, spans
        self._began = spans.time()

    def delivered(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._span(number, "delivered", None)
        self._reports.delivered(numbers)

    def refused(self, number: int, outcome: str, text: str) -> None:
        self._span(number, outcome, text)
        self._reports.refused(number, outcome, text)

    def _span(self, number: int, outcome: str, text: str | None) -> None:
        row = self._rows[number]
        attributes: dict[str, str | int] = {
            "messaging.message.id": row.id,
            "sluicegate.lane": lane_of(row),
            "sluicegate.outcome": outcome,
            **({} if text is None else {"error.type": outcome}),
        }
        self._spans.dispatched((row.topic, row.partition), attributes, self._began, traceparent(row), text)


def traceparent(row: OutboxRow) -> str | None:
    return next(
        (
            value.decode("ascii", "replace")
            for name, value in row.headers
            if name == "traceparent" and value is not None
        ),
        None,
    )
