"""What people and recovery do with a buffer, and that Redis keeps its keys and leases (220)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sluicegate.streams.errors import ConcurrencyError
from tests.contracts.buffer.given import HOUR, all_keys, entries, entry, keys


@pytest.mark.parametrize("backend", ["redis", "redis-cluster"], indirect=True)
def test_220_redis_keeps_idempotency_keys_and_leases(buffer: Any, another: Callable[[], Any], ns: str) -> None:
    buffer.insert(ns, entries(1))
    assert buffer.insert(ns, entries(1, 2)) == (1, 1)
    mine = buffer.get_snapshot(ns, lease=HOUR)
    theirs = another().buffer.get_snapshot(ns, lease=HOUR)
    assert (keys(mine.entries), keys(theirs.entries), theirs.leased_elsewhere) == (["m1", "m2"], [], 2)
    assert buffer.remove_snapshot(ns, mine) == 2


def test_228_every_store_has_the_buffer_and_which_one_is_the_urls_business(
    store: Any, another: Callable[[], Any], ns: str
) -> None:
    store.buffer.insert(ns, entries(1))
    assert store.buffer is store.buffer
    assert keys(another().buffer.get_data(ns)) == ["m1"]


def test_229_looking_and_clearing_lease_nothing_and_stop_nobody(
    buffer: Any, another: Callable[[], Any], ns: str
) -> None:
    buffer.insert(ns, entries(1, 2, 3))
    admin = another().buffer
    assert (admin.count(ns), keys(admin.get_data(ns)), all_keys(admin, ns)) == (
        3,
        ["m1", "m2", "m3"],
        ["m1", "m2", "m3"],
    )
    taken = buffer.get_snapshot(ns, lease=HOUR)
    assert keys(taken.entries) == ["m1", "m2", "m3"]
    assert (admin.remove_all(ns), buffer.count(ns)) == (3, 0)


def test_230_a_row_that_is_absent_may_be_asked_for_again_or_taken_for_done(buffer: Any, ns: str) -> None:
    buffer.insert(ns, entries(1, 2))
    buffer.remove_one(ns, "c1")
    for _ in range(2):
        with pytest.raises(ConcurrencyError):
            buffer.remove_one(ns, "c1")
    assert all_keys(buffer, ns) == ["m2"]


def test_231_what_cannot_be_decoded_now_stays_for_a_later_snapshot(buffer: Any, types: dict[str, Any], ns: str) -> None:
    buffer.insert(ns, [entry(1), entry(2, type="later")])
    now = buffer.get_snapshot(ns, lease=HOUR)
    assert (keys(now.entries), now.unresolved) == (["m1"], 1)
    buffer.remove_snapshot(ns, now)
    types["later"] = types["json"]
    again = buffer.get_snapshot(ns, lease=timedelta(minutes=1))
    assert (keys(again.entries), again.unresolved) == (["m2"], 0)
