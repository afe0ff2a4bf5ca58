"""`on_error: {decode: wait}`: a record that cannot be decoded yet holds its partition's intake, and nothing else, until
it can be."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import Avro, codecs
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Handler, OnError, Reducer
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.formats import reads
from sluicegate.streams.handlers.forwarding import Forwarding
from sluicegate.streams.ownership.intake_pauses import IntakePauses
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import a_log, dead, shown

known: set[int] = set()
"""Schemas that the codec below knows."""


class Registry:
    """JSON with a field `schema`; what was written with a schema that is not `known` cannot be decoded."""

    def decode(self, value: bytes) -> Any:
        read = json.loads(value)
        if read.get("schema", 1) not in known:
            raise LookupError("schema")
        return read

    def encode(self, value: Any) -> bytes:
        return json.dumps(value).encode()


codec = Registry()
FORMAT = f"{__name__}:codec"
COUNT = Aggregation(count=1, compute=(Reducer("total", "sum", "amount"),))
PLACE = Partition("app", "sums", "in", 0)


@pytest.fixture(autouse=True)
def _one_schema() -> None:
    known.clear()
    known.add(1)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=lambda: clock.now + 1_700_000_000)


def counting(rule: Aggregation | None = COUNT, **more: Any) -> Agent:
    return Agent("sums", ("in",), rule, Destination("out"), "dead", format=FORMAT, on_error=OnError("wait"), **more)


def handled() -> Agent:
    return counting(None, handler=Handler(("tests.unit.engine.handlers:forward",)))


def forwarding(where: str = "", route: str = "") -> Agent:
    return replace(counting(None, where=where), to=None, routes=(Destination("out", where=route),))


AGENTS = pytest.mark.parametrize(
    "make",
    [
        counting,
        handled,
        lambda: counting(dedupe=Deduplication("field", "amount")),
        lambda: forwarding(where="amount > 0"),
        lambda: forwarding(route="amount > 0"),
    ],
)


def given(log: Log, *pairs: tuple[int, int], number: int = 0) -> None:
    """(amount, schema) of each."""
    for amount, schema in pairs:
        log.append("in", number, b"k", json.dumps({"amount": amount, "schema": schema}).encode())


def amounts(log: Log) -> list[int]:
    return [
        value["amount"] if "schema" in value else value.get("total", value.get("doubled", 0) // 2)
        for m in distinct(log, "out")
        if (value := json.loads(m.v or b"{}"))
    ]


def passing(driver: Driver, seconds: float) -> Driver:
    for _ in range(int(seconds * 2)):
        driver.later(0.5).turns(2)
    return driver


@AGENTS
def test_it_waits_with_what_follows_and_goes_on_when_its_schema_is_known(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    given(log, (1, 1), (2, 1), (3, 2), (4, 1))
    driver = passing(Driver(make(), store, log, clock).give(0), 30)
    assert (amounts(log), dead(log)) == ([1, 2], [])
    assert store.read(PLACE).claim.offset == 2  # type: ignore[union-attr]
    given(log, (5, 1))
    assert amounts(passing(driver, 30) and log) == [1, 2]
    known.add(2)
    passing(driver, 61)
    assert (amounts(log), dead(log)) == ([1, 2, 3, 4, 5], [])
    assert store.read(PLACE).claim.offset == 5  # type: ignore[union-attr]


def test_the_quick_look_of_a_forwarder_decodes_for_where_too(log: Log) -> None:
    given(log, (3, 2), (3, 1))
    agent = forwarding(where="amount > 0")
    rule = Rule(agent, reads(agent))
    forwarder = Forwarding(agent, rule, reads(agent), 1_000)
    waiting, readable = log.topics["in"][0]
    with pytest.raises(LookupError):
        forwarder.decoded(rule, waiting)
    forwarder.decoded(rule, readable)


def test_without_the_wait_the_same_records_come_out_without_it(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: intake goes on behind the record."""
    leaving = lambda self, place, records: [record for record in records if record.offset() != 2]  # noqa: E731
    monkeypatch.setattr(IntakePauses, "passed", leaving)
    given(log, (1, 1), (2, 1), (3, 2), (4, 1))
    driver = passing(Driver(counting(), store, log, clock).give(0), 5)
    known.add(2)
    assert amounts(passing(driver, 61) and log) == [1, 2, 4]


def test_the_lag_of_a_partition_that_waits_grows_at_each_try(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log()
    given(log, (3, 2))
    at = round((clock.now + 1_700_000_000) * 1000)
    log.topics["in"][0][0] = replace(log.topics["in"][0][0], at=at)
    driver, moments = passing(Driver(counting(), store, log, clock).give(0), 1), []
    for _ in range(3):
        passing(driver, 61)
        [partition] = driver.worker.reports.of(clock.now).partitions
        moments.append(partition.lag_seconds or 0.0)
    assert moments == sorted(moments)
    assert moments[0] > 60
    assert moments[2] > 180


def test_it_is_loud_and_only_its_partition_waits(store: MemoryStore, clock: ManualClock) -> None:
    log = a_log(partitions=2)
    given(log, (3, 2))
    given(log, (7, 1), number=1)
    driver = passing(Driver(counting(), store, log, clock).give(0, 1), 3)
    given(log, (8, 1), number=1)
    assert amounts(passing(driver, 3) and log) == [7, 8]
    reasons, states = shown(driver)
    assert reasons == ["waits at in/0 offset 0: undecodable"]
    assert states == {("in", 0): ("paused", "decode-waits"), ("in", 1): ("running", None)}
    known.add(2)
    passing(driver, 61)
    assert shown(driver) == ([], {("in", 0): ("running", None), ("in", 1): ("running", None)})


def test_deadlines_go_on_while_it_waits(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rule = Aggregation(count=10, since_first=5.0, compute=(Reducer("total", "sum", "amount"),))
    given(log, (1, 1), (2, 1), (3, 2))
    driver = passing(Driver(counting(rule), store, log, clock).give(0), 8)
    assert amounts(log) == [3]
    known.add(2)
    assert amounts(passing(driver, 70) and log) == [3, 3]


def test_another_process_waits_at_the_same_record(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    given(log, (1, 1), (3, 2), (4, 1))
    passing(Driver(counting(), store, log, clock).give(0), 5)
    second = passing(Driver(counting(), store, log, clock).give(0), 5)
    assert (amounts(log), shown(second)[0]) == ([1], ["waits at in/0 offset 1: undecodable"])
    known.add(2)
    passing(second, 10)
    assert amounts(log) == [1, 3, 4]


def test_several_wait_one_after_the_other(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    given(log, (1, 1), (2, 2), (3, 3), (4, 1))
    driver = passing(Driver(counting(), store, log, clock).give(0), 5)
    known.add(2)
    assert amounts(passing(driver, 20) and log) == [1, 2]
    known.add(3)
    assert amounts(passing(driver, 61) and log) == [1, 2, 3, 4]


def test_it_is_looked_at_again_after_a_second_and_then_ever_later(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    looks: list[float] = []
    given(log, (3, 2))
    driver = Driver(counting(), store, log, clock).give(0)
    begin = driver.input.start

    def start(*place: Any) -> None:
        looks.append(clock.now)
        begin(*place)

    driver.input.start = start  # type: ignore[method-assign]
    passing(driver, 200)
    pauses = [round(later - earlier) for earlier, later in pairwise(looks[1:])]
    assert pauses == sorted(pauses)
    assert (min(pauses) <= 2, max(pauses)) == (True, 45)


def test_a_broker_that_is_away_when_it_is_looked_at_again_changes_nothing(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    given(log, (1, 1), (3, 2))
    driver = passing(Driver(counting(), store, log, clock).give(0), 5)
    begin, failures = driver.input.start, [SystemNotReady("away")] * 2

    def start(*place: Any) -> None:
        if failures:
            raise failures.pop()
        begin(*place)

    driver.input.start = start  # type: ignore[method-assign]
    known.add(2)
    assert amounts(passing(driver, 30) and log) == [1, 3]
    assert not failures


def test_what_can_never_be_decoded_for_another_reason_is_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"k", None)
    given(log, (3, 1))
    log.append("in", 0, b"k", b'{"amount": "' + b"x" * 3000 + b'"}')
    passing(Driver(counting(max_record_bytes=2000), store, log, clock).give(0), 3)
    assert (amounts(log), [reason for _, reason in dead(log)]) == ([3], ["null-value", "too-large"])


def test_a_record_that_only_seems_to_be_readable_waits_on(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IntakePauses, "_decodes", lambda self, record: True)
    given(log, (1, 1), (3, 2), (4, 1))
    driver = passing(Driver(counting(), store, log, clock).give(0), 60)
    assert (amounts(log), dead(log), shown(driver)[0]) == ([1], [], ["waits at in/0 offset 1: undecodable"])
    known.add(2)
    assert amounts(passing(driver, 61) and log) == [1, 3, 4]


def test_a_record_waits_for_the_file_of_its_writers_schema(
    log: Log, store: MemoryStore, clock: ManualClock, tmp_path: Path
) -> None:
    older = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]})
    newer = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "long"}]})
    for id, (schema, amount) in enumerate([(newer, 1), (older, 2), (newer, 3)]):
        log.append(
            "in", 0, b"k", codecs.codec("avro", Avro(schema, None, "confluent", id % 2)).encode({"amount": amount})
        )
    agent = replace(counting(), format="avro", schema=Avro(newer, None, "confluent", 0, str(tmp_path)))
    driver = passing(Driver(agent, store, log, clock).give(0), 10)
    assert (amounts(log), dead(log)) == ([1], [])
    assert "there is no 1.avsc" in str(driver.worker.reports.of(clock.now).partitions[0].detail)
    (tmp_path / "1.avsc").write_text(older)
    assert amounts(passing(driver, 61) and log) == [1, 2, 3]


def test_a_revoked_partition_is_waited_for_no_more(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    given(log, (3, 2))
    driver = passing(Driver(counting(), store, log, clock).give(0), 3)
    driver.input.take(("in", 0))
    assert shown(driver.turns(2)) == ([], {})
