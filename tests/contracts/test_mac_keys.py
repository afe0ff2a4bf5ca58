"""The keys of an app are in its store: every process has the same ones, whichever made them."""

from collections.abc import Callable
from itertools import count
from threading import Thread
from typing import Any

import msgspec
import pytest

from sluicegate.streams.aggregation.durable.entry import framed
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.stores import Store
from sluicegate.streams.contracts.values import Changes, OutboxRow, Partition
from sluicegate.streams.errors import ChangelogIncomplete, Fenced
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.versions import mac_keys
from tests.contracts.given import claimed

ROW = OutboxRow(1, "t", "i", "in", 0, b"k", b"v", [("sluicegate-id", b"i")])


def names(who: str) -> Callable[[], str]:
    numbers = count()
    return lambda: f"{who}-{next(numbers)}"


def believes(one: Mac, other: Mac) -> bool:
    [row] = other.signed([ROW])
    return one.proves(LogRecord(row.topic, row.partition, 0, row.key, row.value, list(row.headers)))


def test_every_process_has_the_key_that_the_first_one_made(store: Store, partition: Partition) -> None:
    app = partition.app
    assert mac_keys.read(store, app) is None
    made: list[Mac] = []
    threads = [
        Thread(target=lambda who=who: made.append(mac_keys.read_or_make(store, app, names(who)))) for who in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = mac_keys.read(store, app)
    assert keys is not None
    assert len(made) == 3
    assert all(believes(keys, case) for case in made)
    other = mac_keys.read_or_make(store, f"{app}-2", names("d"))
    assert not believes(keys, other)


def test_a_store_that_no_earlier_release_used_needs_proof_at_once(
    store: Store, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox: Any = store.outbox
    monkeypatch.setattr(type(outbox), "count", lambda *_: 0)  # other tests leave rows of no app on these servers
    store.claim(Partition(partition.app, "~", "rules", 0), "deployed", "me")
    assert mac_keys.read_or_make(store, partition.app, names("a")).since == 0.0


def test_the_processes_of_an_earlier_release_have_an_hour(store: Store, partition: Partition) -> None:
    at = claimed(store, partition).store_time
    since = mac_keys.read_or_make(store, partition.app, names("a")).since
    assert mac_keys.GRACE <= since - at < mac_keys.GRACE + 60


def test_keys_that_cannot_be_read_are_no_keys_and_are_not_shown(store: Store, partition: Partition) -> None:
    mac_keys.read_or_make(store, partition.app, names("a"))
    claim = store.claim(mac_keys.place(partition.app), "b", "")
    [entry] = store.restore(claim)
    store.commit(claim, Changes(0, entries=[entry[:-1]], keep_from=claim.last + 1))
    with pytest.raises(ChangelogIncomplete, match=r"^the keys of the app in the store cannot be read$"):
        mac_keys.read_or_make(store, partition.app, names("c"))


def test_a_process_that_never_gets_the_claim_says_so(
    store: Store, partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fenced(*more: Any) -> None:
        raise Fenced("another claim")

    monkeypatch.setattr(mac_keys, "_make", fenced)
    with pytest.raises(Fenced, match="keep claiming the keys"):
        mac_keys.read_or_make(store, partition.app, names("a"))


def test_a_process_that_looked_before_the_first_one_had_committed_keeps_its_key(
    store: Store, partition: Partition
) -> None:
    first = mac_keys.read_or_make(store, partition.app, names("a"))
    mac_keys._make(store, partition.app, "late")
    assert believes(mac_keys.read_or_make(store, partition.app, names("b")), first)


def test_keys_that_signed_less_of_a_record_are_replaced(store: Store, partition: Partition) -> None:
    """The build before `keys rotate` wrote them. What it signed is believed for an hour, as what a release wrote that
    signed nothing."""
    app = partition.app
    claimed(store, partition)
    claim = store.claim(mac_keys.place(app), "former", "")
    former = msgspec.msgpack.encode({"format": mac_keys.FORMER, "keys": [b"k" * mac_keys.KEY_SIZE], "since": 0.0})
    entry = framed(mac_keys.KEYS + former)
    store.commit(claim, Changes(0, entries=[entry], keep_from=claim.last + 1))
    assert mac_keys.read(store, app) is None
    made = mac_keys.read_or_make(store, app, names("a"))
    assert made.since > claim.store_time
    assert not believes(made, Mac(app, [b"k" * mac_keys.KEY_SIZE]))
    keys = mac_keys.read(store, app)
    assert keys is not None
    assert believes(keys, made)
