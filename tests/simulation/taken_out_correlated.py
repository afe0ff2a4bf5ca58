"""What patches protections of correlations away, for `mutants.py`."""

import pytest

from sluicegate.streams.aggregation.seen import KnownIds
from sluicegate.streams.correlation.groups import CorrelatedGroups

Patch = pytest.MonkeyPatch


def not_remembered(patch: Patch) -> None:
    """A record of a key that has ended opens another group."""
    patch.setattr(CorrelatedGroups, "_refuses", lambda self, key, record, now: False)


def ends_not_kept(patch: Patch) -> None:
    """A restore knows no ended keys."""
    patch.setattr(KnownIds, "replay", lambda self, *rest: None)


def called_absent(patch: Patch) -> None:
    """Groups time out before the owner has read what waited at its claim."""
    patch.setattr(CorrelatedGroups, "caught_up", property(lambda self: True, lambda self, value: None))
