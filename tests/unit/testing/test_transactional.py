"""`delivery: transactional` in the test driver: a death anywhere, and not even a copy is in the topic."""

from dataclasses import replace

import pytest

from sluicegate.streams.testing.deaths import AROUND, ENGINE, REPLIES, TRANSACTIONS, DeathKind
from tests.unit.testing.apps import an_app, sums
from tests.unit.testing.test_driver import crashed_at

APP = an_app(replace(sums(), delivery="transactional"))
# of the other delivery
PLACES = [place for place in (*ENGINE, *AROUND, *TRANSACTIONS) if place not in ("row-offered", "report-arrived")]


@pytest.mark.parametrize(
    ("place", "kind"), [*((place, "kill") for place in PLACES), *((place, "lost") for place in REPLIES)]
)
def test_whatever_fails_wherever_each_result_is_there_once(place: str, kind: DeathKind) -> None:
    results, driver = crashed_at(place, kind, APP)
    assert results == [("a", "count", 3, 3), ("b", "timeout", 1, 7)]
    assert driver.deaths.done == [place]
    assert len(driver.sent("out")) == 2
    driver.close()
