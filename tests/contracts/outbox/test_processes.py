"""Claimers that are operating-system processes, and one that is killed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contracts.conftest import SHARED_BETWEEN_PROCESSES
from tests.contracts.outbox.claimer import started
from tests.contracts.outbox.given import LANE, Place, Store, added, claimed, counts, ids, marked, message, numbers
from tests.waiting import wait_until

shared = pytest.mark.parametrize("backend", SHARED_BETWEEN_PROCESSES, indirect=True)
Start = Callable[..., Any]


@pytest.fixture
def start(store: Store, store_url: str) -> Iterator[Start]:
    """A claimer that is ready; `go` lets it begin."""
    made: list[Any] = []

    def begin(*words: str) -> Any:
        made.append(started(store_url, *words))
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.communicate()


def go(*processes: Any) -> None:
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        print(file=process.stdin, flush=True)


def said(process: Any) -> list[tuple[str, int]]:
    """What it sent: ids and numbers, in its order."""
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return [(id, int(number)) for id, number in (word.split(":") for word in out.split())]


@shared
def test_139_two_processes_never_share_a_row(store: Store, start: Start) -> None:
    added(store, *range(120), key=None)
    two = start("any"), start("any")
    go(*two)
    first, second = said(two[0]), said(two[1])
    assert sorted(id for id, _ in first + second) == sorted(f"m{number}" for number in range(120))
    assert counts(store) == (0, 120, 0)


@shared
def test_of_two_processes_one_at_a_time_has_a_lane_and_its_order_is_kept(store: Store, start: Start) -> None:
    added(store, *range(60))
    two = start(str(LANE)), start(str(LANE))
    go(*two)
    sent = said(two[0]) + said(two[1])
    assert [id for id, _ in sorted(sent, key=lambda row: row[1])] == [f"m{number}" for number in range(60)]
    assert sorted(number for _, number in sent) == list(range(1, 61))


@shared
def test_what_a_killed_holder_had_is_handed_on_with_the_same_numbers(store: Store, start: Start) -> None:
    """So a receiver that got them already can tell."""
    added(store, 1, 2, 3)
    killed = start(str(LANE), "hold")
    go(killed)
    assert killed.stdout.readline() == "m1:1 m2:2 m3:3\n"
    killed.kill()
    added(store, 4)
    heir = wait_until(lambda: store.outbox.claim(LANE, "heir", 10), what="the lane of a killed holder")
    assert (ids(heir.rows), numbers(heir)) == (["m1", "m2", "m3", "m4"], [1, 2, 3, 4])
    marked(store, heir)
    assert counts(store) == (0, 4, 0)


@shared
def test_writers_that_add_the_same_ids_at_once_add_each_once(store: Store, place: Place) -> None:
    handles = [place.store() for _ in range(4)]
    messages = [message(number) for number in range(50)]

    def add(handle: Store) -> None:
        for at in range(0, 50, 10):
            handle.outbox.add(None, messages[at : at + 10], require_transaction=False)

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(add, handle) for handle in handles]:
            done.result(60)
    assert counts(store) == (50, 0, 0)
    assert sorted(ids(claimed(store).rows)) == sorted(message.id for message in messages)
