"""Groups that stay after their result and are rows of the store: what a limit refuses, and what stays in memory."""

from dataclasses import replace

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.windows import closed
from tests.unit.windows.oracle import Step
from tests.unit.windows.test_same_cold import PagedTurned
from tests.unit.windows.turning import Turned

AMEND = Window(5.0, grace=0.0, idle=None, at_most=None, late="amend", keep=100.0, gather=1.0)
FULL = 2
LOG = (
    *((b"a", time) for time in range(FULL + 1)),
    *((b"b", 3), (b"b", 3), (b"c", 4), (b"c", 4)),  # now the other key is cold
    *((b"a", 5), (b"b", 3), (b"c", 6_000), (b"c", 6_000), (b"c", 6_000)),  # the first window has closed
    (b"a", 7),
)


def played(groups: Turned) -> list[tuple[int, str]]:
    """The records of the key that were refused."""
    for offset, (key, time) in enumerate(LOG):
        groups.take(offset, [Step(10.0, key, time, 1)])
        for _ in range(2):  # before and after what is due
            groups.commit(10.0, offset + 1)
            groups.expire(10.0)
    groups.expire(15.0)
    groups.commit(15.0, len(LOG))
    assert [(result.count, result.revision) for result in groups.results if result.key == b"a"] == [(FULL, 1)]
    return [refused for refused in groups.refused if LOG[refused[0]][0] == b"a"]


@pytest.mark.parametrize("groups", [Turned, PagedTurned])
def test_a_full_group_takes_no_more_records_after_it_was_cold(groups: type[Turned]) -> None:
    paged = {"hot": 1} if groups is PagedTurned else {}
    refused = played(groups(AMEND, **paged, max_items=FULL, on_full="dead-letter"))
    assert refused == [(2, "limit"), (7, "limit"), (12, "limit")]


def test_the_ends_of_cold_groups_leave_the_memory_behind_a_group_that_stays_hot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(closed, "STALE", 10)
    groups, offset = PagedTurned(replace(AMEND, keep=1e6, max_ahead=1e9), 2), 1
    groups.take(0, [Step(10.0, b"x" * 600, 10, 1)])  # too long a key for a row
    for window in range(20):
        steps = [Step(10.0, b"k%d" % key, 5_000 * window + 10, 1) for key in range(5)]
        groups.take(offset, steps)
        offset += len(steps)
        groups.commit(10.0, offset)
        groups.expire(10.0)
    assert groups.groups.cold.count > 50
    assert len(groups.groups.after._ends) <= 2 * len(groups.groups.closed) + 10
