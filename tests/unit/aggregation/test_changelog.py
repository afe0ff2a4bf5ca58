"""What a changelog must not be restored from."""

import pytest

from sluicegate.streams.agent import Aggregation, Reducer
from sluicegate.streams.errors import ChangelogIncomplete
from tests.unit.aggregation.turning import Turned, an_agent, record


def after_three_commits() -> Turned:
    """Of one group that keeps its messages; it can be restored."""
    turned = Turned(an_agent(Aggregation(count=9, compute=(Reducer("rows", "collect"),))))
    for offset in range(3):
        turned.accept([record(offset, b"k", b"{}")], 0.0)
        turned.commit(0.0)
    assert turned.last == 3
    turned.restore()
    return turned


def test_an_entry_in_the_place_of_another_is_loud() -> None:
    turned = after_three_commits()
    turned.log[2] = turned.log[1]
    with pytest.raises(ChangelogIncomplete, match="changelog entry 2 is missing, 1 stands in its place"):
        turned.restore()


def test_a_group_that_kept_less_than_it_counted_is_loud() -> None:
    """The log begins too late for it, and yet without a gap in the numbers."""
    turned = after_three_commits()
    turned.first = 2
    with pytest.raises(ChangelogIncomplete, match="fewer items than it counted"):
        turned.restore()
