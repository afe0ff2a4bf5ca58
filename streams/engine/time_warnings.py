"""Warns once for each topic of an agent whose event times differ by years from Kafka's timestamps."""

import structlog

from sluicegate.streams.agent import Agent
from sluicegate.streams.ownership.owner import Owner
from sluicegate.streams.windows.clock import NEVER
from sluicegate.streams.windows.units import timed_by, warning, years_away


class TimeWarnings:
    """Compares the watermark with the newest record, so it decodes no record."""

    def __init__(self, agent: Agent) -> None:
        self._window = timed_by(agent)
        self._asks, self._warned = self._window is not None and not self._window.origins, set[str]()
        self._log = structlog.get_logger().bind(agent=agent.rekeys or agent.name)

    def look(self, owner: Owner) -> None:
        """Check the owner after records were taken."""
        topic, number = owner.place
        if not self._asks or topic in self._warned or owner.intake.newest is None or self._window is None:
            return
        timed = owner.groups.origin or owner.groups.windows
        time = NEVER if timed is None else timed.event.watermark
        away = None if time == NEVER else years_away(time, owner.intake.newest)
        if away is not None:
            self._warned.add(topic)
            text = warning(self._window, time, away)
            self._log.warning("times.implausible", topic=topic, partition=number, text=text)
