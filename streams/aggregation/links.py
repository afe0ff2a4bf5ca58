"""The traces of the records of open groups. The span of a result links to them."""

from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.contracts.record import Record, headers

LONGEST_TRACE = 256  # bytes; the standard's has 55
MOST_LINKS = 128  # for one span: OpenTelemetry keeps no more, unless OTEL_SPAN_LINK_COUNT_LIMIT is higher
MOST_TRACES = 50_000  # for the open groups of a partition, about 6 MB


class GroupLinks:
    """The values of `traceparent` of the records of each group, by the offset of its first record. It has only records
    that this process read, and at most MOST_TRACES values. Beyond that the oldest group is removed."""

    __slots__ = ("_count", "_traces")

    def __init__(self) -> None:
        self._traces: dict[int, dict[str, None]] = {}
        self._count = 0

    def note(self, first: int, record: Record) -> None:
        """Note the `traceparent` of another record of the group."""
        trace = traceparent(record)
        if trace is None:
            return
        traces = self._traces.setdefault(first, {})
        if len(traces) < MOST_LINKS and trace not in traces:
            traces[trace] = None
            self._count += 1
        while self._count > MOST_TRACES:
            self._take(next(iter(self._traces)))

    def traces_of(self, fire: Fire) -> list[str]:
        """Return the values for a group that fired, each once, at most MOST_LINKS. A group that ended is removed."""
        shared = fire.goes_on or (fire.window is not None and fire.window.shared)
        traces = self._traces.get(fire.first, {}) if shared else self._take(fire.first)
        first = {} if fire.trace is None else {fire.trace: None}
        return list(first | traces)[:MOST_LINKS]

    def _take(self, first: int) -> dict[str, None]:
        traces = self._traces.pop(first, {})
        self._count -= len(traces)
        return traces


def traceparent(record: Record) -> str | None:
    for name, value in headers(record):
        if name == "traceparent" and value is not None and len(value) <= LONGEST_TRACE:
            return value.decode("ascii", "replace")
    return None
