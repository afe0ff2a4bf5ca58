"""`delivery: transactional` through the whole worker: whoever dies, sleeps or fails, each row is committed in Kafka
once."""

from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, OnError
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.outbox import transactional
from sluicegate.streams.testing.deaths import TRANSACTIONS
from sluicegate.streams.testing.transactions import LogTransactions
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import Killed, an_agent, feed, shown

PLACE = Partition("app", "sums", "in", 0)
SUMS = an_agent(count=1, delivery="transactional")
Place = tuple[Log, MemoryStore, ManualClock]


@pytest.fixture
def place(log: Log, store: MemoryStore, clock: ManualClock) -> Place:
    return log, store, clock


def a_driver(place: Place, agent: Agent = SUMS) -> Driver:
    log, store, clock = place
    return Driver(agent, store, log, clock).give(0)


def on(driver: Driver) -> Driver:
    """Reports are recorded, what waits is tried again."""
    for _ in range(8):
        driver.later(1).turns(3)
    return driver


def numbers(log: Log, topic: str = "out") -> list[str | None]:
    """Of all that was committed, as often as it is there."""
    return [header(message, "sluicegate-seq") for message in log.order.get(topic, [])]


def unsent(place: Place) -> list[int]:
    return [row.number for row in place[1].pending(PLACE, 0, 10_000)]


def at(name: str, times: int, what: Callable[[], object]) -> Any:
    """While this lasts `what` is called when the place is reached for the so-manieth time."""
    reached: list[str] = []

    def watch(here: str) -> None:
        if here == name:
            reached.append(here)
            if len(reached) == times:
                what()

    return failpoints.watched(watch)


def dies() -> None:
    raise Killed


def test_rows_are_committed_once_in_their_order_and_recorded(place: Place) -> None:
    log, _, _ = place
    driver = a_driver(place).turns()
    feed(log, *((f"k{n}", n) for n in range(20)))
    on(driver)
    assert numbers(log) == [str(n) for n in range(1, 21)]
    assert unsent(place) == []
    assert driver.producer.waiting == []
    assert list(log.cursors[PLACE].values()) == [20]


def died_at(place: Place, name: str) -> list[str | None]:
    """Three rows, the process dies at the place, another one goes on; what is in the log then."""
    log, _, _ = place
    feed(log, ("a", 1), ("b", 2), ("c", 3))
    with at(name, 1, dies), pytest.raises(Killed):
        on(a_driver(place))
    on(a_driver(place))
    assert unsent(place) == []
    return numbers(log)


@pytest.mark.parametrize(
    "name", ["before-commit", "after-commit", "produced-not-acked", *TRANSACTIONS, "acked-not-recorded"]
)
def test_wherever_the_process_dies_nothing_is_there_twice(place: Place, name: str) -> None:
    assert died_at(place, name) == ["1", "2", "3"]


@pytest.mark.parametrize("name", ["txn-committed", "acked-not-recorded"])
def test_without_the_cursor_what_was_committed_and_not_recorded_comes_again(place: Place, name: str) -> None:
    with without("relay-cursor"):
        assert died_at(place, name) == ["1", "2", "3"] * 2


def overtaken_in_a_transaction(place: Place) -> list[str | None]:
    """A worker stands still with its rows in an open transaction; another one takes over and sends them; it wakes
    up."""
    log, _, _ = place
    first, second = a_driver(place).turns(), a_driver(place)
    feed(log, ("a", 1), ("b", 2))
    with at("txn-produced", 1, lambda: on(second)):
        on(first)
    on(second)
    on(first)
    return numbers(log)


def test_a_zombie_commits_nothing(place: Place) -> None:
    assert overtaken_in_a_transaction(place) == ["1", "2"]


def test_a_zombie_that_nobody_fences_commits_what_the_next_one_sent(place: Place) -> None:
    with without("relay-fence"):
        assert overtaken_in_a_transaction(place) == ["1", "2"] * 2


def late_opening(place: Place) -> list[str | None]:
    """A worker that was overtaken opens its producer again, and so fences the owner, whose cursor has long forgotten
    its rows."""
    log, _, _ = place
    first, second = a_driver(place).turns(), a_driver(place)
    first.shard(PLACE).fate = lambda rows: "failed"
    feed(log, ("a", 1), ("b", 2))
    first.turns(2)
    opened = first.shard(PLACE).open

    def late() -> Any:
        on(second)
        feed(log, ("c", 3))
        on(second)
        first.shard(PLACE).open = opened  # type: ignore[method-assign]
        first.shard(PLACE).fate = lambda rows: "sent"
        return opened()

    first.shard(PLACE).open = late  # type: ignore[method-assign]
    first.input.paused.add(("in", 0))
    first.later(2).turns(1)
    assert numbers(log) == ["1", "2", "3"]
    assert list(log.cursors[PLACE].values()) == [3], "the cursor names what the store has recorded"
    on(first)
    feed(log, ("d", 4))
    on(second)
    return numbers(log)[:4]


def test_who_opens_late_asks_the_store_before_it_sends(place: Place) -> None:
    assert late_opening(place) == ["1", "2", "3", "4"]


def test_without_asking_it_sends_what_the_owner_sent(place: Place) -> None:
    with without("relay-doubt"):
        assert late_opening(place)[3] in ("1", "2")


@pytest.mark.parametrize("fate", ["failed", "lost"])
def test_a_transaction_of_unknown_end_is_told_by_the_next_cursor(place: Place, fate: str) -> None:
    log, _, _ = place
    driver = a_driver(place).turns()
    fates = iter([fate])
    driver.shard(PLACE).fate = lambda rows: next(fates, "sent")
    feed(log, ("a", 1), ("b", 2))
    driver.turns(3)
    feed(log, ("c", 3))
    on(driver)
    assert numbers(log) == ["1", "2", "3"]
    assert unsent(place) == []


def test_a_row_that_no_broker_takes_is_found_among_many_and_the_others_go_out(place: Place) -> None:
    log, store, _ = place
    driver = a_driver(place).turns()
    driver.shard(PLACE).fate = lambda rows: "rejected" if any(row.key == b"bad" for row in rows) else "sent"
    feed(log, *(("bad" if n == 11 else f"k{n}", n) for n in range(1, 31)))
    on(driver)
    assert numbers(log) == [str(n) for n in range(1, 31) if n != 11]
    view = store.read(PLACE)
    assert view is not None
    assert (view.unsent, view.dead) == (0, 1)


def test_no_cursor_passes_a_refused_row_before_the_store_knows_that_it_is_dead(place: Place) -> None:
    log, store, _ = place
    feed(log, ("bad", 1), ("good", 2))
    first = a_driver(place)
    first.shard(PLACE).fate = lambda rows: "rejected" if any(row.key == b"bad" for row in rows) else "sent"
    first.turns(6)
    while not any(shard.dead for shard in first.worker._shards()):
        first.turns(1)
    assert numbers(log) == []
    on(a_driver(place))
    assert numbers(log) == ["1", "2"]
    view = store.read(PLACE)
    assert view is not None
    assert (view.unsent, view.dead) == (0, 0)


def test_with_produce_stop_nothing_follows_a_refused_row(place: Place) -> None:
    log, _, _ = place
    agent = an_agent(count=1, delivery="transactional", on_error=OnError(produce="stop"))
    driver = a_driver(place, agent).turns()
    driver.shard(PLACE).fate = lambda rows: "rejected" if any(row.key == b"bad" for row in rows) else "sent"
    feed(log, ("a", 1), ("bad", 2), ("c", 3))
    on(driver)
    assert "produce-stopped" in shown(driver)[0][0]
    assert numbers(log) == ["1"]
    on(a_driver(place, agent))
    assert numbers(log) == ["1", "2", "3"]


def test_a_cursor_says_nothing_of_rows_that_were_numbered_again_after_the_store_went_back(place: Place) -> None:
    log, _, _ = place
    log.cursors[PLACE] = {"a claim that the store forgot": 50}
    feed(log, ("a", 1), ("b", 2))
    on(a_driver(place))
    assert numbers(log) == ["1", "2"]


def test_a_cursor_names_only_so_many_claims(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    log, _, _ = place
    monkeypatch.setattr(transactional, "MOST_LINEAGES", 2)
    for n in range(5):
        feed(log, (f"k{n}", n))
        waits = a_driver(place)
        waits.shard(PLACE).fate = lambda rows: "failed"
        on(waits)
    assert len({row.lineage for row in place[1].pending(PLACE, 0, 10)}) == 5
    driver, sizes = a_driver(place), []
    send = driver.shard(PLACE).send
    driver.shard(PLACE).send = lambda rows, cursor: sizes.append(len(cursor)) or send(rows, cursor)  # type: ignore
    on(driver)
    assert numbers(log) == ["1", "2", "3", "4", "5"]
    assert sizes
    assert max(sizes) == 2


def test_a_worker_that_ends_sends_and_records_what_waits(place: Place) -> None:
    log, _, _ = place
    driver = a_driver(place).turns()
    feed(log, ("a", 1), ("b", 2))
    driver.turns(1)
    assert driver.worker.run(lambda: True, drain=5.0) == 0
    assert numbers(log) == ["1", "2"]
    assert unsent(place) == []


def test_a_partition_that_is_gone_is_closed_and_may_come_back(place: Place) -> None:
    log, _, _ = place
    driver = a_driver(place).turns()
    feed(log, ("a", 1))
    on(driver)
    closed: list[bool] = []
    driver.shard(PLACE).close = lambda: closed.append(True)  # type: ignore[method-assign]
    driver.input.take(("in", 0))
    driver.turns(2)
    assert closed == [True]
    driver.give(0)
    feed(log, ("b", 2))
    on(driver)
    assert numbers(log) == ["1", "2"]


def test_while_no_transactions_can_be_opened_intake_goes_on_and_what_is_unsent_shows(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _, _ = place
    feed(log, ("a", 1), ("b", 2))
    with at("txn-produced", 1, dies), pytest.raises(Killed):
        on(a_driver(place))
    assert unsent(place) == [1, 2]
    opens = LogTransactions.open
    monkeypatch.setattr(LogTransactions, "open", away)
    driver = on(a_driver(place))
    feed(log, ("c", 3))
    on(driver)
    [report] = driver.worker.reports.of(driver.clock.now).partitions
    assert (report.state, report.offset, report.unsent) == ("running", 3, 3)
    monkeypatch.setattr(LogTransactions, "open", opens)
    on(driver)
    assert (numbers(log), unsent(place)) == (["1", "2", "3"], [])


def away(_: LogTransactions) -> Any:
    raise SystemNotReady("no coordinator: by the test")
