"""The groups of a rule in a replay. The published results determine the times of the owner's clock.

The records alone end groups by their number, by `until`, and by event time. The caller reports all other ends: silence,
`at_most`, timeouts, limits of a whole partition, and results of late records.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import inf
from sys import maxsize

from sluicegate.schemas import Codec
from sluicegate.streams.agent import Agent, Aggregation
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.taking import Duplicates, taken
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import TopicFacts
from sluicegate.streams.windows.closing import SLICE
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.intake import take
from sluicegate.streams.windows.opening import groups_of


class ReplayedGroups:
    """`groups` are the groups of one partition. `windows` is the same object if they are windows, else None."""

    def __init__(self, agent: Agent, reads: Codec, now: float, origins: Collection[str]) -> None:
        """`now` is the moment of the replay: all records were taken before it. `origins` are the origins whose marks
        the windows need."""
        self.groups: Groups = groups_of(Rule(unclocked(agent), reads))
        self.windows = self.groups if isinstance(self.groups, WindowGroups) else None
        if self.windows is not None and now < inf:
            self.windows.believed = now
        if self.windows is not None and self.windows.merged is not None:
            self.windows.merged.expect(origins, self.windows.window.origins)

    @property
    def merges(self) -> bool:
        """Whether the records come from several origins."""
        return self.windows is not None and self.windows.merged is not None

    def take(self, records: Sequence[Record], now: float, dedupe: Duplicates | None, timed: Collection[int]) -> None:
        """Add records to windows. `timed` is as in `intake.take`. Raises Halt."""
        if self.windows is not None:
            take(self.windows, records, now, dedupe, timed)
            self.close(now)

    def runs(self, records: Sequence[Record], now: float, dedupe: Duplicates | None) -> Sequence[Sequence[Record]]:
        """The records that count in groups without windows, in runs."""
        kept = taken(self.groups, records)
        return [*dedupe.runs(kept, now, self.groups)] if dedupe is not None else [kept]

    def silence(self, to: int, at: int, now: float) -> None:
        """Silence moved the watermark to `to` before the record at the offset `at`."""
        if self.windows is not None:
            self.windows.event.silent(to, at)
            self.close(now)

    def close(self, now: float) -> None:
        """Close the windows that the watermark has passed."""
        windows = self.windows
        while windows is not None and windows.next_end() <= windows.event.watermark:
            windows.expire(now, SLICE)


def origins_of(agent: Agent, facts: Callable[[str, int], TopicFacts]) -> list[str]:
    """The origins whose marks windows over a re-keyed topic need, as their owner expects them. `facts` describes a
    partition."""
    window = agent.aggregation.window if agent.aggregation is not None else None
    counts = {topic: facts(topic.partition("/")[2], 0).partitions for topic in (window.origins if window else ())}
    return [f"{topic}/{number}" for topic, count in counts.items() for number in range(count)]


def unclocked(agent: Agent) -> Agent:
    """The same rule, with groups that only their records and the limits of one group end, and without a clause that
    omits results."""
    rule = agent.aggregation or Aggregation()
    window = rule.window
    if window is not None:  # no owner reports its position: neither silence nor age ends windows
        window = replace(window, gather=inf if window.gather else 0.0)
    return replace(
        agent,
        having="",
        routes=(),
        to=None,
        lookups=(),
        aggregation=replace(
            rule,
            since_first=None,
            since_last=None,
            on_timeout="fire",
            window=window,
            emit=None if rule.emit is None else replace(rule.emit, every=inf if rule.emit.every else None),
            max_groups=maxsize,
            max_bytes=min(rule.max_bytes, rule.max_buffered_bytes),
            max_buffered_bytes=maxsize,
        ),
    )
