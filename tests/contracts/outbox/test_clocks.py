"""Leases and back-offs of an outbox whose store had a clock that was an hour ahead, and is right again."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.contracts.outbox.given import LANE, Place, Store, added, claimed, ids, marked
from tests.contracts.stepping import Stepped
from tests.mutation.twins import without

HOUR, LEASE, SOON = timedelta(hours=1), timedelta(seconds=30), timedelta(seconds=5)
PAUSE = timedelta(minutes=1)


def lane_is_free_in_time(store: Store, stepped: Stepped) -> None:
    """Its holder died while the clock was ahead."""
    added(store, 1)
    stepped.later(HOUR)
    claimed(store, token="dead", lease=LEASE)
    stepped.later(-HOUR)
    assert store.outbox.claim(LANE, "mine", 10, 0, LEASE) is None
    stepped.later(LEASE - SOON)
    assert store.outbox.claim(LANE, "mine", 10, 0, LEASE) is None
    stepped.later(SOON)
    assert len(claimed(store, token="mine", lease=LEASE).rows) == 1


def rows_are_free_in_time(store: Store, stepped: Stepped) -> None:
    """Whoever claimed them alone died while the clock was ahead."""
    added(store, 1, 2)
    stepped.later(HOUR)
    store.outbox.claim_any(10, LEASE)
    stepped.later(-HOUR)
    assert not store.outbox.claim_any(10, LEASE).rows
    stepped.later(LEASE - SOON)
    assert not store.outbox.claim_any(10, LEASE).rows
    stepped.later(SOON)
    assert sorted(row.id for row in store.outbox.claim_any(10, LEASE).rows) == ["m1", "m2"]


def row_is_tried_again_in_time(store: Store, stepped: Stepped) -> None:
    added(store, 1)
    stepped.later(HOUR)
    marked(store, batch := claimed(store), "failed", "no")
    store.outbox.release(batch)
    stepped.later(-HOUR + PAUSE)
    assert ids(claimed(store).rows) == ["m1"]


def row_without_order_is_tried_again_in_time(store: Store, stepped: Stepped) -> None:
    added(store, 1)
    stepped.later(HOUR)
    marked(store, store.outbox.claim_any(10, LEASE), "failed", "no")
    stepped.later(-HOUR + PAUSE)
    assert len(store.outbox.claim_any(10, LEASE).rows) == 1


each_case = pytest.mark.parametrize(
    "scenario",
    [lane_is_free_in_time, rows_are_free_in_time, row_is_tried_again_in_time, row_without_order_is_tried_again_in_time],
)
Scenario = Callable[[Store, Stepped], None]


@each_case
def test_nothing_waits_for_a_clock_that_was_ahead(place: Place, stepped: Stepped, scenario: Scenario) -> None:
    scenario(place.store(), stepped)


@each_case
def test_without_setting_back_it_waits(place: Place, stepped: Stepped, scenario: Scenario) -> None:
    with without("outbox-set-back"):
        store = place.store()
        with pytest.raises(AssertionError):
            scenario(store, stepped)


def test_a_row_that_was_claimed_alone_ahead_holds_up_its_lane_no_longer_than_its_lease(
    place: Place, stepped: Stepped, backend: str
) -> None:
    store = place.store()
    added(store, 1)
    stepped.later(HOUR)
    store.outbox.claim_any(10, LEASE)
    stepped.later(-HOUR)
    waiting = claimed(store, lease=LEASE)
    if backend != "mongodb":  # where the holder of a lane may send such a row
        assert not waiting.rows
    stepped.later(LEASE)
    assert ids(claimed(store, lease=LEASE).rows) == ["m1"]
