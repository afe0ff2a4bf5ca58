"""Pollers are processes, and a crash is a kill -9."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from tests.contracts.conftest import SHARED_BETWEEN_PROCESSES
from tests.contracts.timeouts.given import MINUTES, SHORT, Place, ids
from tests.contracts.timeouts.poller import Poller

pytestmark = pytest.mark.parametrize("backend", SHARED_BETWEEN_PROCESSES, indirect=True)


@pytest.fixture
def poller(place: Place) -> Iterator[Callable[..., Poller]]:
    """Pollers have the machine's clock: so the file, too, is given that one."""
    made: list[Poller] = []
    place.clock.now = time.time()

    def start(lease: timedelta = MINUTES) -> Poller:
        made.append(Poller(place.url, lease))
        return made[-1]

    yield start
    for process in made:
        process.kill9()


def test_two_processes_that_poll_at_once_never_share_a_timeout(place: Place, poller: Callable[..., Poller]) -> None:
    timeouts = place.timeouts()
    topic = place.due().destination
    due = [place.due(destination=topic) for _ in range(600)]
    two = poller(), poller()
    timeouts.insert(*due)
    for worker in two:
        worker.tell("drain 10")
    first, second = (worker.heard() for worker in two)
    assert sorted(first + second) == sorted(map(str, ids(due)))
    assert timeouts.count() == 0
    assert len(place.opened[0].outbox.find(topic=topic, limit=5000)) == 600


def test_what_a_killed_poller_had_comes_back_when_its_lease_is_over(
    place: Place, poller: Callable[..., Poller]
) -> None:
    timeouts = place.timeouts()
    topic = place.due().destination
    due = [place.due(destination=topic) for _ in range(5)]
    timeouts.insert(*due)
    dies = poller(SHORT)
    dies.tell("take 2")
    taken = dies.heard()
    dies.kill9()
    assert len(taken) == 2
    place.clock.now = time.time()
    place.until(place.now() + SHORT)
    batch = timeouts.get_batch()
    assert sorted(map(str, ids(batch))) == sorted(map(str, ids(due)))
    assert timeouts.emit(batch) == 5
    assert len(place.opened[0].outbox.find(topic=topic)) == 5
