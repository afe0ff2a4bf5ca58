"""A partition with windows in the hands of its owner: what kind they are, and what they are told."""

from collections.abc import Iterable, Sequence

from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.aggregation.taking import divided
from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.stores import InputFacts
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.reading.dedupe import DuplicateFilter
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.opening import known_ids
from sluicegate.streams.windows.origins import OriginGroups


def windows_of(groups: Groups) -> WindowGroups | None:
    """The groups as windows; None without windows."""
    return groups if isinstance(groups, WindowGroups) else None


def origin_of(groups: Groups) -> OriginGroups | None:
    """The groups, if records are re-keyed for event time; else None."""
    return groups if isinstance(groups, OriginGroups) else None


def awaiting(groups: Groups) -> WindowGroups | CorrelatedGroups | OriginGroups | None:
    """The groups, if they ask where the owner stands in the log; else None."""
    return groups if isinstance(groups, WindowGroups | CorrelatedGroups | OriginGroups) else None


def expect_origins(windows: WindowGroups | None, facts: InputFacts) -> None:
    """Which origins the windows wait for: all partitions that the topics of the re-keying agents have now. Raises
    SystemNotReady."""
    if windows is not None and windows.merged is not None:
        topics = windows.window.origins
        counts = {topic: facts.facts(topic.partition("/")[2], 0).partitions for topic in topics}
        windows.merged.expect([f"{topic}/{n}" for topic in topics for n in range(counts[topic])], topics)


def stamping(origin: OriginGroups, records: Sequence[Record], now: float) -> Sequence[Record]:
    """The records that `where` takes. The others only move the clock of their origin."""
    origin.saw(now)
    kept, left_out = divided(origin, records)
    for record in left_out:
        origin.passed(record)
    return kept


def known(groups: Groups, dedupe: DuplicateFilter | None) -> KnownIds | None:
    """The ids that the changelog keeps beside the groups: ended keys of correlations, or the ids of `dedupe`."""
    return known_ids(groups) or (dedupe.seen if dedupe is not None else None)


def inherit(windows: WindowGroups, earlier: Iterable[Groups]) -> None:
    """Under a changed rule the watermark goes on where it was: what was late stays late."""
    for each in earlier:
        if isinstance(each, WindowGroups):
            windows.event.follow(each.event)
