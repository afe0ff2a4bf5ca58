"""An owner ends while its process lives: what was handed to the producer is not handed over again under the next
claim."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from sluicegate.streams.contracts.values import DeadRow, OutboxRow
from sluicegate.streams.outbox import relay as relay_module
from sluicegate.streams.outbox.relay import Relay, Shard
from tests.unit.engine.test_relay import Broker, Outbox, a_relay, row


class Scene:
    """One partition, its outbox in the store, and the shards of its claims in this process, one after the other."""

    def __init__(self, *numbers: int) -> None:
        self.outbox, self.broker = Outbox(*numbers), Broker()
        self.relay: Relay = a_relay(self.broker)
        self.now, self.claims = 0.0, 0
        self.shard: Shard | None = None
        self.claim()

    def claim(self, lineage: str | None = None) -> "Scene":
        self.claims += 1
        self.shard = Shard(self.outbox.read, max(self.outbox.rows, default=0), lineage or f"t{self.claims}")
        return self

    def lose(self) -> "Scene":
        self.shard = None
        return self.turn()

    def turn(self, times: int = 1) -> "Scene":
        for _ in range(times):
            self.now += 1.0
            self.relay.turn([self.shard] if self.shard else [], self.now)
        return self

    def record(self) -> list[int]:
        assert self.shard is not None
        return self.outbox.record(self.shard)


@contextmanager
def forgotten() -> Iterator[None]:
    """The next claim knows nothing of what was handed over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Shard, "follow", lambda self, last: None)
        yield


def under_way() -> list[int]:
    """The owner ends while 1 and 2 are under way; the first is reported before the next claim, the second after it."""
    scene = Scene(1, 2).turn().lose()
    scene.broker.report(1)
    scene.turn().claim().turn()
    scene.broker.report(2)
    assert scene.turn().record() == [1, 2]
    assert scene.outbox.rows == {}
    return scene.broker.sent


def reported() -> list[int]:
    """The owner ends between the report of 1 and its commit."""
    scene = Scene(1).turn()
    scene.broker.report(1)
    scene.lose().claim().turn()
    assert scene.record() == [1]
    return scene.broker.sent


def failed_commit() -> list[int]:
    """The owner ends since the commit that was to record 1 failed."""
    scene = Scene(1).turn()
    scene.broker.report(1)
    assert scene.shard is not None
    assert scene.shard.take_reports() == ([1], [])
    scene.lose().claim().turn()
    assert scene.record() == [1]
    return scene.broker.sent


def declared_dead() -> list[int]:
    scene = Scene(1).turn()
    scene.broker.report(1, "rejected", "too large")
    scene.lose().claim().turn()
    assert scene.shard is not None
    assert scene.shard.take_reports() == ([], [DeadRow(1, "too large", 1)])
    return scene.broker.sent


def lost_often() -> list[int]:
    """Three claims end before the first page of the store could be read."""
    scene = Scene(1, 2).turn()
    scene.broker.report(2)
    scene.outbox.failing = True
    for _ in range(3):
        scene.lose().claim().turn()
    scene.outbox.failing = False
    scene.lose().claim().turn(20)
    assert scene.record() == [2]
    return scene.broker.sent


CASES: list[Callable[[], list[int]]] = [under_way, reported, failed_commit, declared_dead, lost_often]


@pytest.mark.parametrize("case", CASES)
def test_each_row_is_handed_over_once_whatever_ends_its_owner(case: Callable[[], list[int]]) -> None:
    sent = case()
    assert len(sent) == len(set(sent))


@pytest.mark.parametrize("case", CASES)
def test_without_what_is_remembered_they_are_handed_over_again(case: Callable[[], list[int]]) -> None:
    sent: list[int] = []
    produce = Broker.produce

    def noted(self: Broker, row: OutboxRow, report: Any) -> bool:
        sent.append(row.number)
        return produce(self, row, report)

    with pytest.MonkeyPatch.context() as patch, forgotten():
        patch.setattr(Broker, "produce", noted)
        with suppress(AssertionError, KeyError):
            case()
    assert len(sent) > len(set(sent))


def test_nothing_is_handed_over_while_nobody_owns_the_partition() -> None:
    scene = Scene(1)
    scene.outbox.rows[2] = row(2)
    scene.broker.room = 1
    scene.turn().lose()
    scene.broker.report(1)
    scene.turn(3)
    assert scene.broker.sent == [1]
    scene.claim().turn()
    assert scene.broker.sent == [1, 2]


def test_a_number_that_another_claim_gave_again_is_another_row() -> None:
    """The store lost its last writes, or another process was there in between: the row under this number was never
    handed over."""
    scene = Scene(1, 2, 3).turn()
    scene.broker.report(1)
    scene.broker.report(2, "rejected", "too large")
    late = scene.broker.open[3]
    scene.lose()
    scene.outbox.rows = {n: row(n, "other") for n in (1, 2, 3)}
    scene.claim().turn()
    assert scene.broker.sent == [1, 2, 3, 1, 2, 3]
    late("delivered", "")
    assert scene.shard is not None
    assert scene.shard.take_reports() == ([], [])


def test_what_the_store_no_longer_holds_is_forgotten() -> None:
    """The commit that recorded it had landed, and its reply was lost."""
    scene = Scene(1, 2).turn()
    scene.broker.report(1)
    assert scene.shard is not None
    scene.shard.take_reports()
    del scene.outbox.rows[1]
    scene.lose().claim().turn()
    assert scene.record() == []
    assert scene.shard._before == ({}, scene.shard._before.reports)
    assert not scene.shard._before.reports
    assert scene.broker.sent == [1, 2]


def test_pages_of_the_store_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "FIRST_PAGE", 2)
    monkeypatch.setattr(relay_module, "PAGE", 3)
    scene = Scene(*range(1, 11)).turn(10)
    assert scene.broker.sent == list(range(1, 11))
    for number in (1, 4, 9, 10):
        scene.broker.report(number)
    scene.lose().claim().turn(10)
    assert scene.broker.sent == list(range(1, 11))
    for number in list(scene.broker.open):
        scene.broker.report(number)
    assert scene.turn().record() == list(range(1, 11))


def test_a_producer_that_is_replaced_gives_back_what_was_under_way() -> None:
    """A broker that did not answer: the next claim sends it again, lowest first, and what is newer follows."""
    scene = Scene(1, 2, 3).turn()
    scene.broker.report(1)
    scene.broker.report(2, "failed", "broker away")
    scene.lose()
    scene.now += 10
    scene.turn()
    assert scene.broker.replaced == 1
    scene.outbox.rows[4] = row(4)
    scene.now += 10
    scene.claim().turn(3)
    assert scene.broker.sent == [1, 2, 3, 2, 3, 4]


def test_after_a_failed_report_nothing_overtakes_across_the_claim() -> None:
    """2 failed while nobody owned the partition: until the producer is replaced, the next owner hands over nothing."""
    scene = Scene(1, 2).turn().lose()
    scene.broker.report(1, "failed", "broker away")
    scene.outbox.rows[3] = row(3)
    scene.claim().turn()
    assert scene.broker.sent == [1, 2]
    scene.now += 10
    scene.turn(10)
    assert scene.broker.sent == [1, 2, 1, 2, 3]


def test_the_window_counts_from_the_lowest_row_that_the_store_still_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "SPREAD", 10)
    scene = Scene(1, *range(5, 20)).turn()
    for number in range(5, 11):
        scene.broker.report(number)
    scene.lose().claim().turn(3)
    assert scene.record() == [5, 6, 7, 8, 9, 10]
    scene.turn(3)
    assert scene.broker.sent == [1, 5, 6, 7, 8, 9, 10]
    scene.broker.report(1)
    scene.record()
    scene.turn(3)
    assert scene.broker.sent == [1, *range(5, 20)]
