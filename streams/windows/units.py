"""Detects event times that differ by years from Kafka's timestamps. The file probably names the wrong unit."""

from sluicegate.streams.agent import Agent, Window
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.windows.times import NO_TIMESTAMP

YEAR = 365.25 * 86_400_000
"""Milliseconds."""
IMPLAUSIBLE = 10.0
"""In years. A wrong unit makes today's times 56 years old. Data of recent years may still be read again."""


def timed_by(agent: Agent) -> Window | None:
    """The window whose time is a field of the records; None if the agent has none."""
    window = agent.times or (agent.aggregation.window if agent.aggregation is not None else None)
    return window if window is not None and window.time is not None else None


def years_away(time: int, record: Record) -> str | None:
    """The distance of the event time from Kafka's timestamp of the record, in words. None: it is plausible."""
    kind, timestamp = record.timestamp()
    years = (time - timestamp) / YEAR
    if kind == NO_TIMESTAMP or timestamp <= 0 or abs(years) < IMPLAUSIBLE:
        return None
    return f"{abs(years):.0f} years {'after' if years > 0 else 'before'} Kafka's timestamps"


def warning(window: Window, time: int, away: str) -> str:
    return (
        f"the times in the field {window.time} (unit: {window.unit}) are {away}, such as {rfc3339(time / 1000)}; "
        f"correct the `unit` of the time, if they have another one"
    )
