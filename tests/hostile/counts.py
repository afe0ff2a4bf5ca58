"""What the worker counted: its metric of headers that were not believed, over the ends of its processes."""

import re
from dataclasses import dataclass, field

REFUSED = re.compile(r'^sluicegate_headers_refused_total\{agent="([\w.]+)",\S*\} ([\d.]+)$', re.MULTILINE)
DELAY = 3.0
"""Seconds in which a record that was sent is counted, and its count is read."""


@dataclass
class Counts:
    """`refused` has what was counted by agent. `unseen` are the times (from, to) in which a process may have counted
    what nobody read, because it ended."""

    refused: dict[str, float] = field(default_factory=dict)
    unseen: list[tuple[float, float]] = field(default_factory=list)
    _last: dict[str, float] = field(default_factory=dict)
    _read_at: float = 0.0

    def read(self, text: str, now: float) -> None:
        """The metrics of the worker at this time, in seconds."""
        numbers: dict[str, float] = {}
        for agent, number in REFUSED.findall(text):
            numbers[agent] = numbers.get(agent, 0.0) + float(number)
        if any(numbers.get(agent, 0.0) < last for agent, last in self._last.items()):
            self.unseen.append((self._read_at - DELAY, now))
            self._last = {}
        for agent, number in numbers.items():
            self.refused[agent] = self.refused.get(agent, 0.0) + number - self._last.get(agent, 0.0)
        self._last, self._read_at = numbers, now

    def seen(self, at: float) -> bool:
        return not any(begin <= at <= end for begin, end in self.unseen)
