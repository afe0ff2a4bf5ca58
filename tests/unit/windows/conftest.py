"""What the tests of windows share."""

from collections.abc import Iterator

import pytest

from sluicegate.streams.aggregation.durable import changelog
from sluicegate.streams.windows import closing, groups, sessions


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A log that compacts all the time, and closings that are cut into small slices."""
    monkeypatch.setattr(changelog, "SLACK", 150)
    monkeypatch.setattr(changelog, "SLICE", 60)
    monkeypatch.setattr(changelog, "GROWTH", 1)
    monkeypatch.setattr(changelog, "ENTRY_LIMIT", 1500)
    monkeypatch.setattr(closing, "STALE", 3)
    monkeypatch.setattr(sessions, "STALE", 3)
    monkeypatch.setattr(groups, "SLICE", 2)
    return iter([None])
