"""The boundaries of the windows of an agent: multiples of a duration, or midnights of a calendar."""

from sluicegate.streams.agent import Window
from sluicegate.streams.windows.calendar_days import CalendarDays
from sluicegate.streams.windows.calendars import CalendarTumbling
from sluicegate.streams.windows.tumbling import Tumbling
from sluicegate.streams.zones import zone_of


def tumbling(window: Window) -> Tumbling:
    """Raises ConfigurationError for a zone that this machine does not know."""
    seconds = (window.every or window.size, window.offset, window.grace, window.size)
    every, offset, grace, size = (round(1_000 * duration) for duration in seconds)
    if not window.calendar:
        return Tumbling(every, offset, grace, size)
    days = CalendarDays(window.calendar, zone_of(window.zone), window.week_starts)
    return CalendarTumbling(every, offset, grace, size, days)
