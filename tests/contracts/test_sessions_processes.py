"""Units of work of two operating-system processes, and of one that is killed or stopped inside its own."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.application import Books
from tests.contracts.given import claimed, picture, seen
from tests.contracts.test_processes import both, worker  # noqa: F401
from tests.contracts.worker import Worker

Start = Callable[[str], Worker]


@pytest.fixture
def books(store_url: str, partition: Partition) -> Books:
    return Books(store_url, partition)


def working(process: Worker, offset: int) -> None:
    assert process.ask(f"claim token-{offset}") == "done"
    assert process.ask(f"work {offset}") == "working"


@both
def test_a_process_killed_inside_its_work_leaves_nothing_of_either_and_the_next_lands_once(
    store: Store,
    store_url: str,
    books: Books,
    partition: Partition,
    worker: Start,  # noqa: F811
) -> None:
    killed, heir = worker(store_url), worker(store_url)
    working(killed, 1)
    killed.kill9()
    working(heir, 2)
    assert (books.lines(), seen(store, partition).claim.offset) == ([], -1)
    assert heir.ask("go on") == "done"
    assert (books.lines(), seen(store, partition).claim.offset) == (["2"], 2)


@both
def test_of_a_process_inside_its_work_and_another_that_claims_the_books_show_what_the_claim_showed(
    store: Store,
    store_url: str,
    books: Books,
    partition: Partition,
    worker: Start,  # noqa: F811
) -> None:
    """The claim waits for the unit, or fences it; the former owner is told to go on in either case."""
    former = worker(store_url)
    working(former, 1)
    with ThreadPoolExecutor() as pool:
        owner = pool.submit(claimed, store, partition)
        wait([owner], 0.5)
        answer = former.ask("go on")
        if answer == "working":  # the transaction was taken from it and is tried again
            answer = former.ask("go on")
        offset = owner.result(30).offset
    assert (answer, offset, books.lines()) in (("done", 1, ["1"]), ("Fenced", -1, []))


@pytest.mark.parametrize("backend", ["postgresql", "mariadb", "mongodb", "redis"], indirect=True)
def test_a_process_stopped_inside_its_work_loses_the_partition_within_seconds_and_lands_nothing_late(
    store: Store,
    store_url: str,
    books: Books,
    partition: Partition,
    worker: Start,  # noqa: F811
) -> None:
    stopped = worker(store_url)
    working(stopped, 1)
    stopped.process.send_signal(signal.SIGSTOP)
    owner = claimed(store, partition)
    owner = store.commit_with(owner, lambda session: (books.enter(session, "owner"), Changes(7))[1])
    before = picture(store, partition)
    stopped.process.send_signal(signal.SIGCONT)
    assert stopped.ask("go on") in ("Fenced", "PersistenceError")
    assert (books.lines(), picture(store, partition)) == (["owner"], before)
    assert store.commit(owner, Changes(8)).offset == 8
