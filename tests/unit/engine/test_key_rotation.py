"""A new key of the app: every process follows it without a restart, and no genuine record is refused."""

import random
from collections.abc import Callable
from itertools import count

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.contracts.mac import Mac
from sluicegate.streams.contracts.values import Partition, PartitionView
from sluicegate.streams.errors import Fenced, PersistenceError
from sluicegate.streams.versions import live_keys, mac_keys
from sluicegate.streams.versions.live_keys import LiveKeys
from sluicegate.streams.versions.mac_keys import KEEP, READ_EVERY, SIGNS_AFTER, SWITCHED, SigningKeys
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import a_log, an_agent
from tests.unit.engine.test_mac import a_record, a_row, signed

tokens = (f"token {number}" for number in count())


@pytest.fixture
def log() -> Log:
    return a_log("in", "out", "dead")


@pytest.fixture
def process(store: MemoryStore, clock: ManualClock) -> Callable[[], LiveKeys]:
    return lambda: live_keys.opened(store, "app", lambda: next(tokens), clock.monotonic)


def rotate(store: MemoryStore, keep: float = KEEP) -> SigningKeys:
    return mac_keys.rotate(store, "app", next(tokens), keep)


def proves(one: Mac, other: Mac, number: int = 7) -> bool:
    return one.proves(a_record(signed(other, a_row(number))))


def now_of(store: MemoryStore) -> Mac:
    keys = mac_keys.read(store, "app")
    assert keys is not None
    return keys


def test_the_first_rotation_makes_the_first_key(store: MemoryStore) -> None:
    [only] = rotate(store).keys
    assert (only.signs, now_of(store).since) == (only.made, 0.0)


def test_a_new_key_signs_a_minute_later_and_the_earlier_one_proves_on(
    store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys]
) -> None:
    first = process()
    rotate(store)
    clock.now += SIGNS_AFTER - 1
    assert proves(first, now_of(store))
    assert proves(Mac("app", first._keys), now_of(store))  # the earlier key signs still
    clock.now += 1
    late = now_of(store)
    assert not proves(Mac("app", first._keys), late)
    assert (proves(late, first), proves(first, late)) == (True, True)


@pytest.mark.parametrize("seed", range(6))
def test_whenever_processes_look_no_genuine_record_is_refused(
    store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys], seed: int
) -> None:
    chance, processes = random.Random(seed), [process() for _ in range(4)]
    refused = rotations = 0
    for number in range(1500):
        clock.now += chance.choice([0.1, 1.0, 4.0, 30.0])
        signer, reader = chance.choice(processes), chance.choice(processes)
        if chance.random() < 0.9:  # one that sends is in its loop
            signer.renew()
        if chance.random() < 0.01:
            rotations += 1
            rotate(store)
        refused += not proves(reader, signer, number)
    assert (refused, rotations > 3) == (0, True)


def test_forged_macs_ask_the_store_only_now_and_then(
    store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, reader, forger = list[Partition](), process(), Mac("app", (b"f" * 32,))
    read = store.read

    def counted(partition: Partition) -> PartitionView | None:
        asked.append(partition)
        return read(partition)

    monkeypatch.setattr(store, "read", counted)
    for number in range(100):
        clock.now += READ_EVERY / 10
        assert not proves(reader, forger, number)
        assert not reader.proves(a_record(a_row(number)))
    assert 9 <= len(asked) <= 10


def test_an_earlier_key_proves_for_as_long_as_it_is_kept(
    store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys]
) -> None:
    first = Mac("app", process()._keys)
    begins = rotate(store, 100.0).keys[0].signs
    clock.now += SIGNS_AFTER + SWITCHED + 99
    assert proves(now_of(store), first)
    assert now_of(store).since == 0.0
    clock.now += 2
    assert not proves(now_of(store), first)
    assert now_of(store).since == begins + SWITCHED
    rotate(store)
    assert [len(keys.keys) for keys, _ in [mac_keys.listed(store, "app") or (SigningKeys(0, (), 0.0), 0.0)]] == [2]
    assert now_of(store).since == begins + SWITCHED


def test_of_a_key_that_others_know_nothing_is_believed_two_minutes_later(
    store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys]
) -> None:
    worker, leaked = process(), Mac("app", process()._keys)
    rotate(store)
    clock.now += 1000
    worker.renew()
    second = Mac("app", worker._keys[:1])
    rotate(store, 0.0)
    clock.now += SIGNS_AFTER + SWITCHED
    worker.renew()
    assert [proves(worker, keys) for keys in (leaked, second, now_of(store))] == [False, False, True]


def test_while_the_store_is_away_the_keys_stay_and_a_refusal_waits(
    store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(partition: Partition) -> PartitionView | None:
        raise PersistenceError("the store is away")

    reader, first = process(), Mac("app", process()._keys)
    rotate(store)
    clock.now += SIGNS_AFTER
    second = now_of(store)
    monkeypatch.setattr(store, "read", away)
    reader.renew()
    assert proves(reader, first)
    with pytest.raises(PersistenceError):
        proves(reader, second)
    monkeypatch.undo()
    assert proves(reader, second)


def test_two_rotations_at_once_lose_no_key(store: MemoryStore, process: Callable[[], LiveKeys]) -> None:
    process()
    claim, known = mac_keys._claimed(store, "app", "slow")
    assert known is not None
    rotate(store)
    with pytest.raises(Fenced):
        mac_keys._write(store, claim, known)
    assert [len(keys.keys) for keys, _ in [mac_keys.listed(store, "app") or (known, 0.0)]] == [2]


def test_a_running_worker_drops_each_repeat_and_refuses_no_record_across_a_rotation(
    log: Log, store: MemoryStore, clock: ManualClock, process: Callable[[], LiveKeys]
) -> None:
    agent, sender = an_agent(count=1, receive=("in",)), process()
    driver = Driver(agent, store, log, clock, mac=process()).give(0).turns()
    for number in range(40):
        if number == 10:
            rotate(store)
        sender.renew()
        for _ in range(2):  # each is sent twice
            row = signed(sender, a_row(number, value=b'{"amount": 1}'))
            log.append("in", 0, row.key, row.value, list(row.headers))
        driver.later(7.0).turns(3)
    driver.later(1.0).turns(6)
    assert len(log.topics["out"][0]) == 40
    metrics = driver.worker.reports.of(0.0).metrics
    assert not [metric for metric in metrics if metric[0] == "headers_refused"]
    assert len({keys._keys[0] for keys in (sender, now_of(store))}) == 1
