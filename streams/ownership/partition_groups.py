"""The open groups of a partition: hot and cold groups, of the newest rule and of earlier rules."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from sluicegate.streams.aggregation.durable.paging import RowChanges
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.aggregation.taking import divided
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import InputFacts
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.handlers.processor import Item
from sluicegate.streams.ownership.beginning import endings
from sluicegate.streams.ownership.generations import Generations
from sluicegate.streams.ownership.paged import ColdReads
from sluicegate.streams.reading.dedupe import DuplicateFilter
from sluicegate.streams.topic_names import origins
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.opening import groups_of, known_ids
from sluicegate.streams.windows.origins import OriginGroups

Awaiting = WindowGroups | CorrelatedGroups | OriginGroups
"""Groups that need the owner's position in the log."""
SLICE = 1_000  # groups in memory that one expiry fires at most, beside those of rows


class PartitionGroups:
    """`newest` are the groups of the newest rule, which accepts every key without an open group elsewhere. `older` are
    the groups of earlier rules.

    `windows` and `origin` refer to `newest` if it holds windows, or re-keys records for event time. The take-over sets
    `cold`.
    """

    __slots__ = ("cold", "newest", "older", "origin", "windows")

    def __init__(self, rule: Rule, history: bool, older: Generations) -> None:
        groups = self.newest = groups_of(rule, history)
        self.older = older
        self.windows = groups if isinstance(groups, WindowGroups) else None
        self.origin = groups if isinstance(groups, OriginGroups) else None
        self.cold: ColdReads

    def every(self) -> list[Groups]:
        """The groups of all generations, the newest one first."""
        return [self.newest, *(older.groups for older in self.older)]

    @property
    def awaits(self) -> list[Awaiting]:
        return [groups for groups in self.every() if isinstance(groups, Awaiting)]

    @property
    def open(self) -> int:
        """The number of open groups."""
        return sum(groups.number + groups.cold.count for groups in self.every())

    @property
    def events(self) -> int:
        """The number of events that wait for a commit."""
        return sum(len(groups.events) for groups in self.every()) if self.older else len(self.newest.events)

    @property
    def changed(self) -> bool:
        newest = self.newest
        rows_go = self.cold.paging.gone
        return bool(newest.events or newest.changed or rows_go or (self.older and self.older.changed))

    def drain(self) -> Iterator[Item]:
        """Take the events. The events of earlier rules come first."""
        return chain(self.older.items() if self.older else (), self.newest.drain())

    def next_due(self) -> float:
        """The nearest deadline of a group."""
        due = min(self.newest.next_due(), self.cold.next_due())
        return min(due, self.older.next_due()) if self.older else due

    def behind(self, now: float) -> bool:
        """Whether more groups are due than the last slice fired."""
        return self.newest.behind or self.cold.behind(now) or (len(self.older) > 0 and self.older.behind)

    def expire(self, now: float) -> int:
        """Fire a slice of the groups that are due (docs/protocol.md, Fire). Returns their number."""
        if self.next_due() > now and not self.behind(now):
            return 0
        fired = self.cold.expire(now) if self.cold.next_due() <= now else 0
        fired += self.newest.expire(now, SLICE)
        return fired + self.older.expire(now, SLICE) if self.older and not self.newest.behind else fired

    def moved(self, now: float) -> RowChanges:
        """Evict the groups beyond the number that the rule keeps hot. Returns the rows to write and to delete."""
        paging = self.cold.paging
        keeps_cold = self.newest.rule.agent.pageable and not self.older
        paging.most = self.newest.rule.aggregation.hot_groups if keeps_cold else 0
        return paging.moved(now)

    def end(self, now: float) -> Iterator[None]:
        """End the groups that must end before the first record. Yields after each slice, for its commit."""
        yield from self.older.end(self.newest, now)
        self.cold.warm_requested()
        yield from self.cold.keeping_hot(endings(self.newest, now))
        yield from self.cold.judge(now)

    def set_back(self, now: float) -> None:
        """Move all times back to `now`, because the clock was ahead."""
        for groups in self.every():
            groups.set_back(now)

    def inherit(self, earlier: Iterable[Groups]) -> None:
        """Continue with the watermark of the earlier rules, so late records stay late."""
        if self.windows is not None:
            for groups in earlier:
                if isinstance(groups, WindowGroups):
                    self.windows.event.follow(groups.event)

    def expect_origins(self, facts: InputFacts) -> None:
        """Set the origins whose marks the windows need: all current partitions of the topics of the re-keying agents,
        including topics that match their patterns. Raises SystemNotReady."""
        if self.windows is not None and self.windows.merged is not None:
            topics = origins(self.windows.window.origins, facts.existing() or ())
            counts = {topic: facts.facts(topic.partition("/")[2], 0).partitions for topic in topics}
            self.windows.merged.expect([f"{topic}/{n}" for topic in topics for n in range(counts[topic])], topics)

    def ids(self, dedupe: DuplicateFilter | None) -> KnownIds | None:
        """The ids that the changelog stores beside the groups: ended keys of correlations, or the ids of `dedupe`."""
        return known_ids(self.newest) or (dedupe.seen if dedupe is not None else None)


def stamping(origin: OriginGroups, records: Sequence[Record], now: float) -> Sequence[Record]:
    """The records for which `where` is true. The others only move the clock of their origin."""
    origin.saw(now)
    kept, left_out = divided(origin, records)
    for record in left_out:
        origin.passed(record)
    return kept
