"""A span for each row that the dispatcher hands to Kafka, from the hand-over to its delivery report."""

from collections.abc import Sequence
from functools import partial

from sluicegate.streams.contracts import Report, Reports
from sluicegate.streams.leased.lane_rows import lane_of
from sluicegate.streams.leased.lane_sender import SenderOutput, one_by_one
from sluicegate.streams.observe.tracing import Spans
from sluicegate.streams.values import OutboxRow


class TracedOutput:
    """Satisfies lane_sender.SenderOutput: `output`, and a span of each report. A row that is sent again has a span each time."""

    def __init__(self, output: SenderOutput, spans: Spans) -> None:
        self._output, self._spans = output, spans
        self.poll, self.replace, self.send_now = output.poll, output.replace, output.send_now

    def produce(self, row: OutboxRow, report: Report) -> bool:
        return self._output.produce(row, partial(self._reported, row, report, self._spans.time()))

    def produce_all(self, rows: Sequence[OutboxRow], reports: Reports) -> int:
        return one_by_one(self, rows, reports)

    def _reported(self, row: OutboxRow, report: Report, began: int, outcome: str, text: str) -> None:
        attributes: dict[str, str | int] = {
            "sluicegate.id": row.id,
            "sluicegate.topic": row.topic,
            "sluicegate.lane": lane_of(row),
            "sluicegate.outcome": outcome,
        }
        self._spans.dispatched(attributes, began, traceparent(row), None if outcome == "delivered" else text)
        report(outcome, text)


def traceparent(row: OutboxRow) -> str | None:
    return next((value.decode("ascii", "replace") for name, value in row.headers if name == "traceparent" and value is not None), None)
