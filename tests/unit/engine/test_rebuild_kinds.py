"""Rebuilding agents that remember more than groups: ids of producers, numbers of our senders; and one that remembers
nothing."""

import json
from dataclasses import replace

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Lookup, Reducer
from sluicegate.streams.errors import ConfigurationError
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory
from tests.unit.engine.rebuilding import amounts, emitted_twice, feed_at, rebuild, state, worked
from tests.unit.engine.scene import a_log, an_agent, totals

COMPUTE = (Reducer("total", "sum", "amount"), Reducer("all", "collect", "amount"))


def test_what_a_producer_wrote_twice_is_dropped_again_and_later(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(
        count=5, since_first=None, compute=COMPUTE, dedupe=Deduplication("field", "amount", horizon=3600.0)
    )
    amounts(log, clock, "aaa")
    amounts(log, clock, "aaa")
    amounts(log, clock, "aaaa", first=3)
    amounts(log, clock, "aa", first=3)
    worked(agent, store, log, clock)
    before = state(agent, store)
    assert before[1][b"a"][0] == 2
    lost = memory(clock)
    rebuild(agent, lost, log, clock)
    assert state(agent, lost) == before
    amounts(log, clock, "aaaaa", first=5)
    Driver(agent, lost, log, clock).give(0).turns()
    assert [total for _, _, _, total in totals(log)] == [10, 35]


def test_repeats_of_our_own_senders_are_dropped_again_and_later(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(count=3, since_first=None, compute=COMPUTE, receive=("in",))

    def sent(number: int) -> None:
        headers: list[tuple[str, bytes | None]] = [
            ("sluicegate-shard", b"app/up/src/0>in#t"),
            ("sluicegate-seq", b"%d" % number),
        ]
        log.append(
            "in", 0, b"a", json.dumps({"amount": number}).encode(), headers, int((clock.now + 1_700_000_000) * 1000)
        )

    for number in (1, 2, 1, 3, 2, 4, 4):
        sent(number)
    worked(agent, store, log, clock)
    before = state(agent, store)
    lost = memory(clock)
    rebuild(agent, lost, log, clock)
    assert state(agent, lost) == before
    for number in (3, 4, 5, 6):
        sent(number)
    Driver(agent, lost, log, clock).give(0).turns()
    assert [total for _, _, _, total in totals(log)] == [6, 15]


def test_an_agent_of_repartition_sends_on_what_never_went_on(clock: ManualClock, store: MemoryStore) -> None:
    agent = Agent("a.repartition", ("in",), Aggregation(key="to"), Destination("out", "raw"), "dead", rekeys="a")
    log = a_log()
    for n in range(6):
        feed_at(log, clock, "k", json.dumps({"to": f"k{n}"}).encode() if n != 4 else b"{")
    driver = Driver(agent, store, log, clock).give(0)
    driver.producer.fate = lambda row: "delivered" if row.number <= 2 else "lost"
    driver.turns().later(0.5).turns()
    assert [m.k for m in distinct(log, "out")] == [b"k0", b"k1"]
    positions = dict(log.committed)
    log.committed.update({key: (1, metadata) for key, (_, metadata) in positions.items()})
    [planned] = rebuild(agent, memory(clock), log, clock)
    assert (planned.built.offset, planned.built.results, planned.built.decided) == (2, 2, {})
    log.committed.update(positions)
    lost = memory(clock)
    [planned] = rebuild(agent, lost, log, clock)
    assert (planned.built.offset, planned.built.results, len(planned.built.decided)) == (6, 2, 4)
    Driver(agent, lost, log, clock).give(0).turns()
    assert [m.k for m in distinct(log, "out")] == [b"k0", b"k1", b"k2", b"k3", b"k5"]
    assert emitted_twice(log.topics["out"][0] + log.topics["dead"][0]) == []
    assert [header(m, "sluicegate-dead-reason") for m in distinct(log, "dead")] == ["undecodable"]


def test_a_forwarder_sends_what_never_went_to_a_route(clock: ManualClock, store: MemoryStore) -> None:
    routes = (Destination("large", where="n > 3", goes_on=True), Destination("out", where="n != 5"))
    agent = Agent("a", ("in",), None, None, "dead", routes=routes, unrouted="drop")
    log = a_log("in", "out", "large", "dead")
    for n in range(8):
        feed_at(log, clock, "k", json.dumps({"n": n}).encode())
    driver = Driver(agent, store, log, clock).give(0)
    driver.producer.fate = lambda row: "delivered" if row.number <= 6 else "lost"
    driver.turns().later(0.5).turns()
    numbers = [json.loads(m.v or b"")["n"] for topic in ("out", "large") for m in distinct(log, topic)]
    assert sorted(numbers) == [0, 1, 2, 3, 4, 4]
    lost = memory(clock)
    [planned] = rebuild(agent, lost, log, clock)
    assert (planned.built.offset, planned.built.results) == (8, 6)
    Driver(agent, lost, log, clock).give(0).turns()
    assert [json.loads(m.v or b"")["n"] for m in distinct(log, "out")] == [0, 1, 2, 3, 4, 6, 7]
    assert [json.loads(m.v or b"")["n"] for m in distinct(log, "large")] == [4, 5, 6, 7]
    assert emitted_twice([*log.topics["out"][0], *log.topics["large"][0]]) == []


def test_results_with_rows_are_rebuilt_where_all_were_sent(clock: ManualClock, store: MemoryStore) -> None:
    """The row of the last result is not known, so the rebuild is refused without it."""
    rule = an_agent(count=2, since_first=None)
    lookup = Lookup("customer", "table", "customers", "key", ("name",), "id")
    log = a_log()
    amounts(log, clock, "aabbc")
    worked(rule, store, log, clock)
    with_rows = replace(rule, lookups=(lookup,))
    rebuilt = memory(clock)
    [planned] = rebuild(with_rows, rebuilt, log, clock)
    assert (planned.built.results, state(with_rows, rebuilt)) == (2, state(rule, store))
    del log.topics["out"][0][-1]
    with pytest.raises(ConfigurationError, match="1 results, the first at offset 2, were never sent"):
        rebuild(with_rows, memory(clock), log, clock)
