"""Records that are forwarded with the rows that were looked up for them, in the real engine."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Deduplication, Destination, Let, Lookup, OnError, Selected
from sluicegate.streams.errors import LookupFailed
from sluicegate.streams.lookups.records import with_fields
from sluicegate.streams.operations.sampling import sampled
from sluicegate.streams.reading.proof import HeaderProof
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.lookups.scene import CUSTOMER, CUSTOMERS, enriching, give, letters, out, put, run

NAMES = [b'"customer"']


@pytest.fixture(autouse=True)
def _customers(store: MemoryStore) -> None:
    put(store, "customers", CUSTOMERS)


def test_the_row_is_a_field_of_the_message(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"id": 1, "customer_id": "c-1"}, {"id": 2, "customer_id": 7}, {"id": 3, "customer_id": "c-1"})
    run(enriching(), store, log, clock)
    assert out(log) == [
        {"id": 1, "customer_id": "c-1", "customer": {"name": "Ann", "tier": 1}},
        {"id": 2, "customer_id": 7, "customer": {"name": "Eve", "tier": 3}},
        {"id": 3, "customer_id": "c-1", "customer": {"name": "Ann", "tier": 1}},
    ]


@pytest.mark.parametrize("value", [{"customer_id": "c-9"}, {"customer_id": None}, {"id": 1}, {"customer_id": True}])
def test_without_a_row_the_field_is_null(log: Log, store: MemoryStore, clock: ManualClock, value: Any) -> None:
    give(log, value)
    run(enriching(), store, log, clock)
    assert out(log) == [value | {"customer": None}]


def test_a_missing_row_is_a_dead_letter_of_the_record_as_it_came(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"customer_id": "c-9"}, {"customer_id": "c-1"})
    run(enriching(replace(CUSTOMER, missing="dead-letter")), store, log, clock)
    assert letters(log) == [("0", "lookup", "lookup-missing")]
    assert distinct(log, "dead")[0].v == b'{"customer_id": "c-9"}'
    assert [document["customer"]["name"] for document in out(log)] == ["Ann"]


def test_a_record_that_its_row_makes_too_large_is_a_dead_letter_as_it_came(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    give(log, {"customer_id": "c-1", "pad": "x" * 60}, {"customer_id": "c-1"})
    run(enriching(max_record_bytes=100), store, log, clock)
    assert [where for where, *_ in letters(log)] == ["0"]
    assert letters(log)[0][-1] == "too-large"
    assert distinct(log, "dead")[0].v == b'{"customer_id": "c-1", "pad": "%s"}' % (b"x" * 60)
    assert [document["customer"]["name"] for document in out(log)] == ["Ann"]


def test_the_message_key_is_a_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"id": 1}, key=b"c-2")
    run(enriching(replace(CUSTOMER, key="key")), store, log, clock)
    assert out(log)[0]["customer"]["name"] == "Bob"


def test_a_computed_field_is_a_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"n": 2})
    lets = (Let("customer_id", '"c-" + string(n)'),)
    run(enriching(let=lets), store, log, clock)
    assert out(log) == [{"n": 2, "customer": {"name": "Bob", "tier": 2}}]


def test_a_field_of_the_row_is_the_new_key(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"customer_id": "c-2"}, {"customer_id": "c-9"}, {"customer_id": 7})
    run(enriching(key="customer.name"), store, log, clock)
    assert [message.k for message in distinct(log, "out")] == [b"Bob", b"Eve"]
    assert (letters(log)[0][0], letters(log)[0][-1]) == ("1", "missing-field")
    assert distinct(log, "dead")[0].v == b'{"customer_id": "c-9"}'


def test_routes_and_select_may_name_the_row(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.create("vip", 1)
    give(log, *[{"id": n, "customer_id": name} for n, name in enumerate(("c-1", "c-2", "c-9"))])
    vip = Destination("vip", where="customer.tier == 2", select=(Selected("id"), Selected("who", "customer.name")))
    rest = Destination("out", where="customer == null || customer.tier < 2")
    run(replace(enriching(), to=None, routes=(vip, rest)), store, log, clock)
    assert out(log, "vip") == [{"id": 1, "who": "Bob"}]
    assert letters(log) == [("2", "expression", "expression-failed")]  # null has no tier: the first route fails
    assert distinct(log, "dead")[0].v == b'{"id": 2, "customer_id": "c-9"}'
    assert [document["id"] for document in out(log)] == [0]


def test_two_lookups_of_one_message(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(store, "shops", {"s": {"city": "Ulm"}})
    give(log, {"customer_id": "c-1", "shop": "s"})
    shop = Lookup("at", "table", "shops", "shop", ("city",), "id")
    run(enriching(CUSTOMER, shop), store, log, clock)
    assert out(log)[0]["customer"]["tier"] == 1
    assert out(log)[0]["at"] == {"city": "Ulm"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"{}", b'{"customer":1}'),
        (b' {"a": 1.10} ', b' {"a": 1.10,"customer":1}'),
        (b'{"customer": 2, "a": 12345678901234567890123}', b'{"a":12345678901234567890123,"customer":1}'),
        (b'{"\\u0063ustomer": 2, "a": "x"}', b'{"a":"x","customer":1}'),
        (b'{"a": "customer"}', b'{"a":"customer","customer":1}'),
        (b"[1]", b"[1]"),
        (b"7", b"7"),
    ],
)
def test_members_are_added_once(value: bytes, expected: bytes) -> None:
    assert with_fields(value, b'"customer":1', NAMES) == expected


def test_what_cannot_be_read_is_a_dead_letter(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, b"no json", {"customer_id": "c-1"})
    log.append("in", 0, b"k", None)
    run(enriching(), store, log, clock)
    assert letters(log) == [("0", "decode", "undecodable"), ("2", "decode", "null-value")]
    assert len(out(log)) == 1


def test_the_answers_of_routes_are_counted_once(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, *[{"customer_id": "c-1"}] * 3, {"customer_id": "c-2"})
    to = Destination("out", where="customer.tier == 1")
    agent = replace(enriching(on_error=OnError(expression="skip")), to=None, routes=(to,), unrouted="drop")
    driver = run(agent, store, log, clock)
    counted = str(driver.worker._parts.meter.snapshot())
    assert len(out(log)) == 3
    assert "to.out" in counted


def test_dropped_duplicates_are_not_looked_up(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, *[{"id": n // 2, "customer_id": "c-1"} for n in range(6)])
    run(enriching(dedupe=Deduplication("field", "id")), store, log, clock)
    assert [document["id"] for document in out(log)] == [0, 1, 2]


def test_the_id_of_a_record_that_was_refused_after_its_lookup_may_come_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    lookup, dedupe = replace(CUSTOMER, missing="dead-letter"), Deduplication("field", "id")
    to = Destination("out", where="customer.tier > 1")
    agent = replace(enriching(lookup, dedupe=dedupe), to=None, routes=(to,))
    give(log, {"id": 1, "customer_id": "c-8"}, {"id": 2, "customer_id": "c-1"}, {"id": 3, "customer_id": "c-2"})
    driver = run(agent, store, log, clock)
    assert letters(log) == [("0", "lookup", "lookup-missing"), ("1", "expression", "unrouted")]
    put(store, "customers", {name: {"name": "New", "tier": 5} for name in ("c-1", "c-2", "c-8")})
    give(log, *[{"id": n, "customer_id": name} for n, name in ((1, "c-8"), (2, "c-1"), (3, "c-2"))])
    driver.turns()
    assert [document["id"] for document in out(log)] == [3, 1, 2]


# -- rows of the commit itself -----------------------------------------------------------------------------------------


def test_rows_are_read_after_the_fence_was_taken(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that changes between intake and commit is written as it is at the commit."""
    begin = store.commit_with

    def changed(claim: Any, work: Any) -> Any:
        put(store, "customers", {"c-1": {"name": "Ann", "tier": 9}})
        return begin(claim, work)

    monkeypatch.setattr(store, "commit_with", changed)
    give(log, {"customer_id": "c-1"})
    run(enriching(), store, log, clock)
    assert out(log)[0]["customer"]["tier"] == 9


def test_nothing_of_the_first_try_is_kept(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = store.commit_with

    def twice(claim: Any, work: Any) -> Any:
        def again(session: Any) -> Any:
            work(session)
            session.values["customers"] = {"c-1": {"name": "Ann", "tier": 8}}
            return work(session)

        return begin(claim, again)

    monkeypatch.setattr(store, "commit_with", twice)
    give(log, {"customer_id": "c-1"}, {"customer_id": "c-9"})
    run(enriching(), store, log, clock)
    assert [document["customer"] for document in out(log)] == [{"name": "Ann", "tier": 8}, None]


def test_a_lookup_that_fails_stands_still_and_goes_on(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise LookupFailed("lookup-failed: customer (table customers): 42P01 no such table")

    give(log, {"customer_id": "c-1"})
    driver = Driver(enriching(), store, log, clock).give(0)
    with monkeypatch.context() as patch:
        patch.setattr(store, "look_up", broken)
        driver.turns()
        assert any("lookup-failed" in reason for reason in driver.worker.reports.of(clock.now).reasons)
        assert (out(log), letters(log)) == ([], [])
    driver.later(5).turns()
    assert len(out(log)) == 1


# -- waiting for a row -------------------------------------------------------------------------------------------------

WAITS = replace(CUSTOMER, missing="wait", wait=30.0)


def ids(log: Log) -> list[int]:
    return [document["id"] for document in out(log)]


def test_a_record_waits_for_its_row_and_nothing_passes_it(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, {"id": -1, "customer_id": "c-1"})
    driver = run(enriching(WAITS), store, log, clock)
    give(log, *[{"id": n, "customer_id": name} for n, name in enumerate(("c-1", "c-9", "c-2"))])
    driver.turns()
    assert ids(log) == [-1, 0]  # what lies before it is committed
    assert driver.worker._owners["in", 0].claim.offset == 2
    assert any("found no row" in reason for reason in driver.worker.reports.of(clock.now).reasons)
    for _ in range(10):
        driver.later(2).turns()
    assert ids(log) == [-1, 0]
    put(store, "customers", CUSTOMERS | {"c-9": {"name": "Late", "tier": 0}})
    driver.later(20).turns(10)
    assert ids(log) == [-1, 0, 1, 2]
    assert letters(log) == []


def test_after_the_time_it_is_a_dead_letter(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    give(log, *[{"id": n, "customer_id": name} for n, name in enumerate(("c-9", "c-2", "c-8", "c-1"))])
    driver = run(enriching(WAITS), store, log, clock)
    for _ in range(15):
        driver.later(2.1).turns()
    assert (ids(log), letters(log)) == ([1], [("0", "lookup", "lookup-missing")])
    for _ in range(20):
        driver.later(2.1).turns()
    assert ids(log) == [1, 3]
    assert [offset for offset, *_ in letters(log)] == ["0", "2"]


def test_the_looks_become_rarer(log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: Any) -> None:
    looks, look_up = [], store.look_up
    monkeypatch.setattr(store, "look_up", lambda *asked: looks.append(clock.now) or look_up(*asked))
    give(log, {"id": 0, "customer_id": "c-1"})
    driver = run(enriching(replace(WAITS, wait=300.0)), store, log, clock)
    looks.clear()
    begin = clock.now
    give(log, {"id": 1, "customer_id": "c-9"})
    driver.turns(2)
    for _ in range(200):
        driver.later(0.5).turns(2)
    assert [round(at - begin) for at in looks] == [0, 1, 3, 7, 15, 31, 63]


@pytest.mark.parametrize("more", [{"receive": ("in",)}, {"dedupe": Deduplication("field", "id")}])
def test_a_record_waits_where_a_commit_takes_all_or_nothing(
    log: Log, store: MemoryStore, clock: ManualClock, more: Any
) -> None:
    give(log, *[{"id": n, "customer_id": name} for n, name in enumerate(("c-1", "c-9", "c-2"))])
    driver = run(enriching(WAITS, **more), store, log, clock)
    for _ in range(5):
        driver.later(2).turns()
    assert ids(log) == [0]
    put(store, "customers", CUSTOMERS | {"c-9": {"name": "Late", "tier": 0}})
    driver.later(20).turns(10)
    assert ids(log) == [0, 1, 2]


def test_a_sample_asks_nothing_of_rows_that_it_does_not_read(log: Log) -> None:
    agent = replace(enriching(), to=None, routes=(Destination("out", where="customer.tier > 1"),), where="id > 1")
    give(log, {"id": 1}, {"id": 2})
    number, samples = sampled("app", agent, log.topics["in"][0], lambda partition: HeaderProof())
    assert (number, [(sample.clause, dict(sample.outcomes)) for sample in samples]) == (
        2,
        [("where", {"false": 1, "true": 1})],
    )
