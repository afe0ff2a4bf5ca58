"""`repartition:`: records go on under another key, then their groups are exact whatever partition they came from."""

import json
from contextlib import suppress

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import a_log, dead

FIRST = Agent("a.repartition", ("in",), Aggregation(key="customer.id"), Destination("keyed", "raw"), "dead", rekeys="a")
RULE = Aggregation(count=3, compute=(Reducer("total", "sum", "amount"),))
SECOND = Agent("a", ("keyed",), RULE, Destination("out"), "dead", receive=("keyed",))


def orders(log: Log, count: int = 60) -> None:
    """Three of each customer, under keys that have nothing to do with them."""
    for n in range(count):
        value = json.dumps({"customer": {"id": n // 3}, "amount": n}).encode()
        log.append("in", n % 2, b"%d" % n, value, [("h", b"x"), ("sluicegate-id", b"other")])


def test_records_go_on_unchanged_under_their_new_key(clock: ManualClock, store: MemoryStore) -> None:
    log = a_log("in", "keyed", "dead")
    log.append("in", 0, b"old", b'{"customer": {"id": "c1"}}', [("h", b"x"), ("sluicegate-id", b"of another")])
    Driver(FIRST, store, log, clock).give(0).turns()
    [message] = distinct(log, "keyed")
    assert (message.k, message.v, header(message, "h")) == (b"c1", b'{"customer": {"id": "c1"}}', "x")
    assert [value for name, value in message.h or () if name == "sluicegate-id"] != [b"of another"]
    assert header(message, "sluicegate-shard") is not None


def test_a_record_without_the_field_is_a_dead_letter(clock: ManualClock, store: MemoryStore) -> None:
    log = a_log("in", "keyed", "dead")
    log.append("in", 0, b"k", b'{"customer": {}}')
    Driver(FIRST, store, log, clock).give(0).turns()
    assert dead(log) == [("0", "missing-field")]


def grouped(log: Log, store: MemoryStore, clock: ManualClock, protection: str = "") -> list[int]:
    """The counts of all groups, the first stage dying on the way."""
    failpoints.arm({"SLUICEGATE_FAILPOINTS": "acked-not-recorded=raise@5"})
    first = Driver(FIRST, store, log, clock).give(0, 1)
    with suppress(failpoints.Failpoint):
        first.turns(10)
    failpoints.arm({})
    with without(protection):
        Driver(FIRST, store, log, clock).give(0, 1).turns(10)
        Driver(SECOND, store, log, clock).give(0, 1, 2).turns(10)
    return [json.loads(message.v or b"")["count"] for message in distinct(log, "out")]


def test_groups_are_exact_across_the_partitions_of_the_input_and_a_death(
    clock: ManualClock, store: MemoryStore
) -> None:
    log = a_log("in", "keyed", "out", "dead", partitions=3)
    orders(log)
    assert grouped(log, store, clock) == [3] * 20
    copies = sum(len(partition) for partition in log.topics["keyed"])
    assert copies > 60, "the death should have made repeats"


def test_without_the_receivers_memory_repeats_count_twice(clock: ManualClock, store: MemoryStore) -> None:
    log = a_log("in", "keyed", "out", "dead", partitions=3)
    orders(log)
    assert grouped(log, store, clock, "receive") != [3] * 20
