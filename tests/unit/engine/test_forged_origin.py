"""Headers of a re-keyed record that another program wrote."""

import pytest

from sluicegate.streams.contracts.headers import AGENT, ORIGIN, ORIGIN_TIME
from sluicegate.streams.contracts.origin import original
from sluicegate.streams.contracts.record import Header
from sluicegate.streams.testing.log import LogRecord


@pytest.mark.parametrize("place", [b"", b"in", b"in/0", b"in/zero/1", b"in/0/one", b"\xff"])
def test_a_place_that_is_none_makes_it_a_record_like_any_other(place: bytes) -> None:
    headers: list[Header] = [(AGENT, b"a.order"), (ORIGIN, place)]
    assert original(LogRecord("legs", 0, 5, b"k", b"{}", headers), "a", False) is None


def test_so_does_a_time_that_is_none() -> None:
    headers: list[Header] = [(AGENT, b"a.order"), (ORIGIN, b"in/0/1"), (ORIGIN_TIME, b"now")]
    assert original(LogRecord("legs", 0, 5, b"k", b"{}", headers), "a", False) is None
