"""Readers see one consistent picture, claim nothing and write nothing."""

import itertools
import threading
import time

from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, Partition
from tests.contracts.given import claimed, opened, rows, seen


def test_a_partition_that_was_never_claimed_is_none(store: Store, partition: Partition) -> None:
    assert store.read(partition) is None
    assert store.partitions(partition.app) == []
    assert store.read(partition) is None


def test_reading_fences_nobody(store: Store, partition: Partition) -> None:
    claim = store.commit(claimed(store, partition), Changes(1, entries=[b"a"], outbox=rows(1, 2)))
    view = seen(store, partition)
    assert (view.claim.token, view.claim.version, view.entries, view.unsent, view.dead) == (
        claim.token,
        1,
        [b"a"],
        2,
        0,
    )
    assert store.commit(claim, Changes(2)).offset == 2


def test_the_partitions_of_an_app_are_listed_in_order_of_number_not_of_text(store: Store, ns: str) -> None:
    known = [
        Partition(ns, agent, topic, number) for agent in ("a", "b.c") for topic in ("t", "t-2") for number in (2, 10, 1)
    ]
    for partition in known:
        claimed(store, partition)
    claimed(store, Partition(f"{ns}x", "a", "t", 1))
    assert store.partitions(ns) == sorted(known)
    assert store.partitions(f"{ns}x") == [Partition(f"{ns}x", "a", "t", 1)]


def test_apps_are_those_with_a_partition(store: Store, ns: str) -> None:
    names = [f"{ns}.b", f"{ns}.a"]
    assert not {*names} & {*store.apps()}
    for name in names:
        claimed(store, Partition(name, "agent", "topic", 0))
    gone = claimed(store, Partition(f"{ns}.c", "agent", "topic", 0))
    store.forget(gone)
    assert [name for name in store.apps() if name.startswith(ns)] == [f"{ns}.a", f"{ns}.b"]


def test_a_reader_never_sees_half_a_commit(store: Store, store_url: str, partition: Partition) -> None:
    """Each commit leaves one entry, which says its offset, and one unsent row: a picture that differs is a torn one."""
    reader, enough = opened(store_url), threading.Event()

    def write() -> None:
        claim, deadline = claimed(store, partition), time.monotonic() + 20
        for offset in itertools.count(1):
            claim = store.commit(
                claim,
                Changes(
                    offset, entries=[b"%d" % offset], keep_from=offset, outbox=rows(offset), dispatched=[offset - 1]
                ),
            )
            if enough.is_set() or time.monotonic() > deadline:
                return

    writer = threading.Thread(target=write)
    writer.start()
    offsets = set()
    while writer.is_alive() and len(offsets) < 20:
        view = reader.read(partition)
        if view is not None and view.claim.offset > 0:
            assert (view.entries, view.unsent) == ([b"%d" % view.claim.offset], 1)
            offsets.add(view.claim.offset)
    enough.set()
    writer.join(30)
    assert len(offsets) == 20
