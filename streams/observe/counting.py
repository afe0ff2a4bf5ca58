"""Counts the events that a commit made durable."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sluicegate.streams.aggregation.events import WINDOW, Event, Fire, GroupEnded
from sluicegate.streams.observe.metrics import Meter


def count_events(events: Sequence[Event], latency: float, meter: Meter) -> None:
    """Counts the events of a commit. `latency` is the number of seconds since the records or the deadline that
    completed the groups."""
    for (kind, reason), times in Counter((type(event), event.reason) for event in events).items():
        if kind is GroupEnded:
            continue
        meter.count("fires" if kind is Fire else "records_dead", times, reason=reason)
        if reason == WINDOW:
            closings = (event.window.by for event in events if isinstance(event, Fire) and event.window is not None)
            for by, closed in Counter(filter(None, closings)).items():
                meter.count("windows_closed", closed, closed_by=by)
        if kind is Fire:
            meter.observe("fire_latency_seconds", latency, times)


def count_answers(answers: Mapping[tuple[str, str], int], meter: Meter) -> None:
    """Counts the answers of expressions, by clause and outcome."""
    for (clause, outcome), times in answers.items():
        if times:
            meter.count("expressions", times, clause=clause, outcome=outcome)
