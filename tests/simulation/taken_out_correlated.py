"""What patches protections of correlations away, for `mutants.py`."""

from typing import Any

import pytest
from msgspec.structs import replace

from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.correlation.ended import EndedKeys
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.windows.correlated import CorrelatedByTime
from sluicegate.streams.windows.merged import MergedClock

Patch = pytest.MonkeyPatch


def not_remembered(patch: Patch) -> None:
    """A record of a key that has ended opens another group."""
    patch.setattr(EndedKeys, "refuses", lambda self, groups, key, record, now: False)


def ends_not_kept(patch: Patch) -> None:
    """A restore knows no ended keys."""
    patch.setattr(KnownIds, "replay", lambda self, *rest: None)


def called_absent(patch: Patch) -> None:
    """Groups time out before the owner has read what waited at its claim."""
    patch.setattr(CorrelatedGroups, "caught_up", property(lambda self: True, lambda self, value: None))


def one_leg(patch: Patch) -> None:
    """The watermark is that of the orders alone."""
    expect, hear, read = MergedClock.expect, MergedClock.hear, MergedClock.read

    def expects(self: Any, names: Any, topics: Any) -> None:
        expect(self, [name for name in names if name.startswith("order/")], topics)

    patch.setattr(MergedClock, "expect", expects)
    patch.setattr(MergedClock, "hear", lambda self, moment: moment.origin.startswith("order/") and hear(self, moment))
    patch.setattr(MergedClock, "read", lambda self, time: self.reading.startswith("order/") and read(self, time))


def any_distance(patch: Patch) -> None:
    """A record joins an open group whatever its time is."""
    patch.setattr(CorrelatedByTime, "_times", lambda self, state: (0, 10**15))


def ends_itself(patch: Patch) -> None:
    """A group ends with the watermark at its end, where a record is still in time."""
    span = CorrelatedByTime.span
    patch.setattr(
        CorrelatedByTime, "span", lambda self, *rest: replace(span(self, *rest), closes=span(self, *rest).end)
    )
