"""From the commit to Kafka through the whole worker: nothing before its commit, exact acknowledgements, drain,
back-pressure; chains."""

import json
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Reducer
from sluicegate.streams.contracts.values import Changes, CrashMark, OutboxRow, Partition
from sluicegate.streams.errors import PersistenceError
from sluicegate.streams.outbox import relay as relay_module
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import a_log, an_agent, dead, feed, hooked, shown, totals

PLACE = Partition("app", "sums", "in", 0)


def unsent(store: MemoryStore) -> list[int]:
    return [row.number for row in store.pending(PLACE, 0, 10_000)]


def sent_without_a_commit(log: Log, store: MemoryStore, clock: ManualClock) -> int:
    """The commit that holds the rows never lands; how many are in Kafka all the same."""

    def refuse(claim: Any, changes: Any) -> None:
        if changes.outbox:
            raise PersistenceError("did not land")

    feed(log, *[("a", 1)] * 9)
    driver = Driver(an_agent(), hooked(store, before=refuse), log, clock).give(0)
    for _ in range(10):
        driver.later(1).turns(2)
    return len(log.topics["out"][0])


def test_nothing_is_sent_before_its_commit(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    assert sent_without_a_commit(log, store, clock) == 0


def test_without_waiting_for_the_commit_rows_go_out_that_never_were(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    with without("output-commit"):
        assert sent_without_a_commit(log, store, clock) > 0


def test_an_idle_partition_records_its_reports_and_exactly_those(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    driver.producer.fate = lambda row: "ack-lost" if row.number == 2 else "delivered"
    feed(log, ("a", 1), ("b", 2), ("c", 3))
    driver.turns(2)
    assert unsent(store) == [1, 2, 3]
    driver.later(1).turns(2).later(1).turns(2)
    assert unsent(store) == [2]
    Driver(an_agent(count=1), store, log, clock).give(0).turns()
    assert [header(m, "sluicegate-seq") for m in log.topics["out"][0]] == ["1", "2", "3", "2"]
    copies = [m for m in log.topics["out"][0] if header(m, "sluicegate-seq") == "2"]
    assert (copies[0].v, copies[0].h) == (copies[1].v, copies[1].h)


def test_a_rejected_row_is_listed_as_dead_and_what_follows_goes_out(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    driver.producer.fate = lambda row: "rejected" if row.key == b"bad" else "delivered"
    feed(log, ("bad", 1), ("good", 2))
    driver.later(1).turns().later(1).turns()
    view = store.read(PLACE)
    assert view is not None
    assert (view.unsent, view.dead) == (0, 1)
    assert totals(log) == [("good", "count", 1, 2)]


def test_output_that_is_down_loses_nothing_and_keeps_the_order(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    driver.producer.fate = lambda row: "failed"
    for n in range(30):
        feed(log, ("a", n))
        driver.later(0.5).turns(2)
    assert totals(log) == []
    driver.producer.fate = lambda row: "delivered"
    for _ in range(5):
        driver.later(3).turns()
    assert [total for *_, total in totals(log)] == list(range(30))
    driver.later(1).turns()
    assert unsent(store) == []


@pytest.fixture
def _tight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "IN_MEMORY", 20)
    monkeypatch.setattr(relay_module, "PAGE", 10)
    monkeypatch.setattr(relay_module, "RESUME_BELOW", 5)


@pytest.mark.usefixtures("_tight")
def test_too_many_unsent_rows_pause_intake_and_never_deadlines(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("slow", 1))
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    driver.producer.room = 0
    for n in range(100):
        feed(log, *[(f"k{n}", 1)] * 2)
        driver.later(0.1).turns(1)
    assert shown(driver)[1]["in", 0][0] == "paused"
    assert driver.input.positions["in", 0] < 120
    driver.later(31).turns()
    assert any(json.loads(row.value or b"")["reason"] == "timeout" for row in store.pending(PLACE, 0, 1000))
    driver.producer.room = 1000
    for _ in range(60):
        driver.later(0.6).turns(2)
    assert shown(driver)[1]["in", 0][0] == "running"
    assert sorted(totals(log)) == sorted([("slow", "timeout", 1, 1), *[(f"k{n}", "count", 2, 2) for n in range(100)]])


@pytest.mark.usefixtures("_tight")
def test_a_paused_partition_that_is_claimed_again_is_paused_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=2), store, log, clock).give(0).turns()
    driver.producer.room = 0
    feed(log, ("slow", 1), *[(f"k{n}", 1) for n in range(30)] * 2)
    driver.turns()
    assert ("in", 0) in driver.input.paused
    store.claim(PLACE, "zombie", "m")
    feed(log, *[(f"late{n}", 1) for n in range(60)])
    for _ in range(8):
        driver.later(10).turns(2)
    assert store._rows[PLACE].claim.token != "zombie"
    assert ("in", 0) in driver.input.paused
    assert driver.input.positions["in", 0] < 121


def test_a_drain_commits_what_was_read_and_records_what_was_sent(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    feed(log, *[(f"k{n}", n) for n in range(40)])
    turns = iter([False, True])
    assert driver.worker.run(lambda: next(turns)) == 0
    assert len(totals(log)) == 40
    assert unsent(store) == []
    assert driver.input.closed
    assert any(report.reasons == ["draining"] and not report.ready for report in driver.reports)


def test_a_drain_ends_in_time_when_kafka_does_not_answer(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    driver.producer.hold = True

    def flush(timeout: float) -> int:
        clock.now += timeout
        return 1

    driver.producer.flush = flush  # type: ignore[method-assign]
    feed(log, ("a", 1))
    started = clock.now
    turns = iter([False, True])
    assert driver.worker.run(lambda: next(turns), drain=3.0) == 0
    assert clock.now - started == pytest.approx(3.0, abs=0.2)
    assert unsent(store) == [1]


def test_a_drain_with_a_store_that_is_away_ends_and_loses_nothing(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    feed(log, ("a", 1))
    commit = store.commit

    def away(claim: Any, changes: Any) -> Any:
        raise PersistenceError("away")

    store.commit = away  # type: ignore[method-assign]
    turns = iter([False, True])
    assert driver.worker.run(lambda: next(turns)) == 0
    store.commit = commit  # type: ignore[method-assign]
    Driver(an_agent(count=1), store, log, clock).give(0).turns()
    assert totals(log) == [("a", "count", 1, 1)]


DOWN = (Reducer("sum", "sum", "total"),)


def chain(log: Log, store: MemoryStore, clock: ManualClock, repeats: int) -> list[Any]:
    """A sends 20 results, crashing before it records them; B counts what it receives, crashing too. B's results."""
    log.create("down")
    for n in range(20):
        feed(log, (f"k{n % 2}", 1))
    lower = an_agent("down", ("out",), "down", count=5, compute=DOWN, receive=("out",))
    for _ in range(repeats + 1):
        clock.now += 5
        upper = Driver(an_agent(count=1), store, log, clock).give(0)
        upper.producer.fate = lambda row: "ack-lost"
        upper.turns()
        Driver(lower, store, log, clock).give(0, topic="out").turns()
    return [(d["key"], d["count"], d["sum"]) for d in (json.loads(m.v or b"") for m in log.topics["down"][0])]


def test_an_agent_that_receives_another_ones_results_counts_each_once_whatever_is_sent_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    outcome = chain(log, store, clock, repeats=3)
    assert len(log.topics["out"][0]) == 80
    assert sorted(set(outcome)) == [("k0", 5, 5), ("k1", 5, 5)]
    assert dead(log) == []
    lower = store.read(Partition("app", "down", "out", 0))
    assert lower is not None
    assert lower.claim.offset == 80
    assert len({header(m, "sluicegate-id") for m in log.topics["down"][0]}) == 4


def test_without_dropping_repeats_the_lower_agent_counts_them_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    with without("receive"):
        chain(log, store, clock, repeats=3)
    assert len({header(m, "sluicegate-id") for m in log.topics["down"][0]}) > 4


def test_a_delivery_that_fails_while_another_partition_goes_in_careful_steps_is_sent_again(
    clock: ManualClock, store: MemoryStore
) -> None:
    log = a_log(partitions=2)
    claim = store.claim(PLACE, "of one that died", "member")
    store.commit(claim, Changes(0, trying=CrashMark(0, ("died",))))
    driver = Driver(an_agent(count=1), store, log, clock).give(0, 1)
    driver.producer.fate = lambda row: "delivered" if driver.producer.replaced or row.key != b"b" else "failed"
    driver.turns()
    feed(log, ("b", 1), number=1)
    driver.worker.turn()
    driver.worker.turn()
    assert [row.key for row, _ in driver.producer.waiting] == [b"b"]
    feed(log, ("a", 1))
    driver.worker.turn()  # the report comes in the middle of it
    feed(log, ("b", 2), number=1)
    driver.later(1.0).turns().later(1.0).turns()
    assert [total for key, _, _, total in totals(log) if key == "b"] == [1, 2]


def resumed(driver: Driver, clock: ManualClock, seconds: float) -> list[tuple[object, ...]]:
    """How the partition was resumed, when its outbox is full three times and each pause lasts so long."""
    calls: list[tuple[object, ...]] = []
    driver.input.resume = lambda places: calls.append(("shared",))  # type: ignore[method-assign]
    driver.input.resume_alone = lambda *at: calls.append(at)  # type: ignore[method-assign]
    intake, owner = driver.worker._claims.intake, driver.worker._owners["in", 0]
    for _ in range(3):
        owner.shard.more = True
        intake.balance({("in", 0): owner})
        owner.shard.more = False
        intake.balance({("in", 0): owner})
        clock.now += seconds
    return calls


def test_a_partition_whose_rows_are_large_is_read_on_alone_after_its_first_pause(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """What was fetched of it may be a batch that takes seconds to unpack again."""
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    shard = driver.worker._owners["in", 0].shard
    for size, large in ((relay_module.LARGE_ROW - 1, False), (relay_module.LARGE_ROW, True)):
        shard.add([OutboxRow(1, "", "", "out", 0, b"k", b"x" * size, [])] * 600, 0.0)
        assert (shard.more, shard.large) == (True, large)
    assert resumed(driver, clock, 31.0) == [("in", 0, 0, -1)] * 3


def test_a_partition_that_is_paused_again_soon_is_read_on_alone_at_its_next_record(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, ("k", 1), ("k", 2), ("k", 3))
    driver = Driver(an_agent(count=1), store, log, clock).give(0).turns()
    assert resumed(driver, clock, 29.0) == [("shared",), ("in", 0, 3, 0), ("in", 0, 3, 0)]
    driver.worker._claims.intake.begins(("in", 0))
    assert resumed(driver, clock, 31.0) == [("shared",)] * 3
