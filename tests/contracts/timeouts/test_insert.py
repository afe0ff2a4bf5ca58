"""What a timeout is, and what an insert takes (behaviours 87 to 90, 117 to 119, 125)."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest

from sluicegate.streams.contracts.leased import TimeoutStore
from sluicegate.streams.contracts.leased_values import Timeout
from sluicegate.streams.contracts.options import LeasedOptions, TimeoutOptions
from sluicegate.streams.errors import PersistenceError
from tests.contracts.timeouts.given import Place, ids


def test_087_a_timeout_carries_its_id_destination_time_headers_and_owner(place: Place, timeouts: TimeoutStore) -> None:
    headers = (("a", b"\0\xff"), ("a", None), ("b", b""))
    full = place.due(key=b"\0key\xff", value=b"\0value\xff", headers=headers, owner="saga ü")
    bare = place.due(key=None, value=None)
    timeouts.insert(full, bare)
    assert sorted(timeouts.get_batch(10), key=lambda timeout: timeout.owner is None) == [full, bare]


def test_088_headers_are_fixed_when_the_timeout_is_made(place: Place, timeouts: TimeoutStore) -> None:
    headers = [("a", b"1")]
    timeout = place.due(headers=headers)
    headers.append(("b", b"2"))
    timeouts.insert(timeout)
    headers.append(("c", b"3"))
    [stored_timeout] = timeouts.find(destination=timeout.destination)
    assert stored_timeout.headers == (("a", b"1"),)
    with pytest.raises(FrozenInstanceError):
        stored_timeout.headers = ()  # type: ignore[misc]


def test_089_a_nil_id_is_refused(place: Place, timeouts: TimeoutStore) -> None:
    with pytest.raises(ValueError, match="not nil"):
        timeouts.insert(place.due(id=UUID(int=0)))
    assert timeouts.count() == 0


def test_090_an_id_that_is_there_is_refused_and_nothing_is_inserted(place: Place, timeouts: TimeoutStore) -> None:
    first = place.due(value=b"first")
    timeouts.insert(first)
    with pytest.raises(PersistenceError, match="already exists"):
        timeouts.insert(replace(first, value=b"second"))
    with pytest.raises(PersistenceError, match="already exists"):
        timeouts.insert(place.due(), replace(first, value=b"third"), place.due())
    assert list(timeouts.get_batch(10)) == [first]


def test_one_id_twice_in_one_insert_is_refused(place: Place, timeouts: TimeoutStore) -> None:
    one = place.due()
    with pytest.raises(PersistenceError, match="already exists"):
        timeouts.insert(one, one)
    assert timeouts.count() == 0


def test_nothing_to_insert_is_no_error(timeouts: TimeoutStore) -> None:
    timeouts.insert()
    assert timeouts.count() == 0


def test_117_the_lease_is_five_minutes_unless_said_otherwise(place: Place) -> None:
    assert LeasedOptions().timeouts.lease == timedelta(minutes=5)
    timeouts = place.timeouts(lease=LeasedOptions().timeouts.lease)
    timeouts.insert(place.due())
    before = place.now()
    expires_at = timeouts.get_batch().expires_at
    assert expires_at is not None
    assert timedelta(minutes=4, seconds=58) < expires_at - before < timedelta(minutes=5, seconds=20)


@pytest.mark.parametrize("lease", [timedelta(0), timedelta(seconds=-1)])
def test_118_a_lease_that_is_not_positive_is_refused(place: Place, lease: timedelta) -> None:
    with pytest.raises(ValueError, match="longer than zero"):
        place.store(lease=lease)


def test_119_an_option_that_is_none_is_an_argument_error(place: Place) -> None:
    with pytest.raises(ValueError, match="timedelta"):
        place.store(lease=None)  # type: ignore[arg-type]


def test_125_a_timeout_without_destination_is_refused_when_it_is_made(place: Place, timeouts: TimeoutStore) -> None:
    for nowhere in ("", "  ", None):
        with pytest.raises(ValueError, match="destination"):
            timeouts.insert(place.due(destination=nowhere))
    assert timeouts.count() == 0


def test_a_due_time_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Timeout(uuid4(), "t", datetime(2026, 1, 1))


def test_a_due_time_of_another_zone_is_the_same_moment(place: Place, timeouts: TimeoutStore) -> None:
    at = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    timeouts.insert(place.due(due_at=at))
    [stored_timeout] = timeouts.find()
    assert stored_timeout.due_at == datetime(2026, 1, 1, 7, tzinfo=UTC)
    assert ids(timeouts.get_batch()) == [stored_timeout.id]


def test_a_batch_of_no_rows_is_no_option() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TimeoutOptions(batch_size=0)
