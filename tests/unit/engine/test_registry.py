"""A schema registry that is away, that answers 404 and that comes back, and what a partition's row remembers of it."""

import json
from typing import Any
from uuid import UUID

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import Avro, codec
from sluicegate.schemas import registry as schemas
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import Agent, Aggregation, Deduplication, Destination, Handler, OnError, Reducer
from sluicegate.streams.aggregation import events_read
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.ownership.registered import RegisteredSchemas
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct
from tests.unit.engine.scene import DIES, Killed, dead, deadly, shown

NAME = "http://registry"
PLACE = Partition("app", "sums", "in", 0)
OLD = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]})
NEW = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "by", "type": "string"}, {"name": "amount", "type": "long"}],
    }
)
OUT = json.dumps({"type": "record", "name": "Sum", "namespace": "s", "fields": [{"name": "total", "type": "long"}]})
GUID = UUID(int=9)
COUNT = Aggregation(count=1, compute=(Reducer("total", "sum", "amount"),))


class Server:
    """A registry; `away` while it does not answer."""

    def __init__(self) -> None:
        self.schemas: dict[int | str, str] = {7: OLD}
        self.subjects: dict[tuple[str, str], int] = {}
        self.away, self.asked = False, 0

    def _answer(self) -> None:
        self.asked += 1
        if self.away:
            raise Unavailable(f"the schema registry at {NAME} does not answer")

    def schema(self, id: int | str, kind: str) -> str:
        self._answer()
        if id not in self.schemas:
            raise schemas.UnknownId(f"it has no schema with id {id}")
        return self.schemas[id]

    def id(self, subject: str, schema: str, register: bool, kind: str) -> int:
        self._answer()
        if (subject, schema) not in self.subjects and not register:
            raise schemas.SubjectRefused(f"subject {subject}: not there; register it")
        return self.subjects.setdefault((subject, schema), 40 + len(self.subjects))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def process(server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Begins another process: it knows nothing of the registry."""

    def begin() -> None:
        table = schemas.SchemaTable(lambda: clock.now)
        table.ask = server
        monkeypatch.setattr(schemas, "table", lambda name: table)

    begin()
    return begin


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock=lambda: clock.now + 1_700_000_000)


def counting(rule: Aggregation | None = COUNT, to: Destination | None = None, **more: Any) -> Agent:
    avro = Avro(NEW.replace('"string"', '"string", "default": ""'), None, "confluent", registry=NAME)
    return Agent("sums", ("in",), rule, to or Destination("out"), "dead", format="avro", schema=avro, **more)


def handled() -> Agent:
    return counting(None, handler=Handler(("tests.unit.engine.handlers:forward",)))


AGENTS = pytest.mark.parametrize(
    "make",
    [
        counting,
        handled,
        lambda: counting(dedupe=Deduplication("field", "amount")),
        lambda: counting(where="amount > 0"),
        lambda: counting(on_error=OnError("skip")),
        lambda: counting(on_error=OnError("stop")),
    ],
)


def value(amount: int, id: int) -> bytes:
    order, schema = ({"amount": amount}, OLD) if id == 7 else ({"amount": amount, "by": "ann"}, NEW)
    return codec("avro", Avro(schema, None, "confluent", id)).encode(order)


def given(log: Log, *pairs: tuple[int, int]) -> None:
    """(amount, schema id) of each."""
    for amount, id in pairs:
        log.append("in", 0, b"k", value(amount, id))


def amounts(log: Log) -> list[int]:
    documents = [json.loads(m.v or b"{}") for m in distinct(log, "out")]
    return [document.get("total", document.get("doubled", 0) // 2) for document in documents]


def passing(driver: Driver, seconds: float) -> Driver:
    for _ in range(int(seconds * 2)):
        driver.later(0.5).turns(2)
    return driver


@AGENTS
def test_a_new_id_waits_while_the_registry_is_away_and_is_read_when_it_answers(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    given(log, (1, 7), (2, 7))
    driver = passing(Driver(make(), store, log, clock).give(0), 2)
    server.away, server.schemas[8] = True, NEW
    given(log, (3, 8), (4, 7))
    passing(driver, 30)
    assert (amounts(log), dead(log)) == ([1, 2], [])
    assert shown(driver)[0] == ["waits at in/0 offset 2: the schema registry does not answer"]
    assert "was written with schema id 8, and the schema registry at http://registry does not answer" in str(
        driver.worker.reports.of(clock.now).partitions[0].detail
    )
    server.away = False
    passing(driver, 61)
    assert (amounts(log), dead(log), shown(driver)[0]) == ([1, 2, 3, 4], [], [])


def test_if_an_unanswered_request_were_an_error_of_the_record_it_would_be_a_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: the silence is taken for a 404."""

    def silent(*_: Any) -> str:
        raise schemas.UnknownId("silence")

    monkeypatch.setattr(server, "schema", silent)
    given(log, (1, 7))
    passing(Driver(counting(), store, log, clock).give(0), 3)
    assert dead(log) == [("0", "undecodable")]


def test_an_id_that_the_registry_does_not_know_is_what_on_error_says(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    given(log, (1, 7), (2, 8), (3, 7))
    passing(Driver(counting(), store, log, clock).give(0), 3)
    assert (amounts(log), dead(log)) == ([1, 3], [("1", "undecodable")])
    [letter] = distinct(log, "dead")
    assert dict(letter.h)["sluicegate-dead-error"] == (
        b"was written with schema id 8, which is not known: it has no schema with id 8"
    )


@AGENTS
def test_another_process_reads_on_while_the_registry_is_away(
    make: Any, log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    server.schemas[8] = NEW
    given(log, (1, 7), (2, 8))
    passing(Driver(make(), store, log, clock).give(0), 2)
    asked = server.asked
    assert asked == 2
    process()
    server.away = True
    given(log, (3, 8), (4, 7))
    passing(Driver(make(), store, log, clock).give(0), 3)
    assert (amounts(log), dead(log), server.asked) == ([1, 2, 3, 4], [], asked)


def test_without_the_row_another_process_waits(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: nothing is kept in the row."""
    monkeypatch.setattr(RegisteredSchemas, "noted", lambda self, claim, source: source)
    given(log, (1, 7))
    passing(Driver(counting(), store, log, clock).give(0), 2)
    process()
    server.away = True
    given(log, (2, 7))
    passing(Driver(counting(), store, log, clock).give(0), 3)
    assert amounts(log) == [1]


def test_a_process_that_dies_before_its_first_records_leaves_what_the_row_had(
    log: Log, store: MemoryStore, clock: ManualClock, process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = Aggregation(count=1, compute=(Reducer("total", "sum", "amount"), DIES))
    given(log, (1, 7))
    passing(Driver(counting(rule), store, log, clock).give(0), 2)
    process()
    given(log, (2, 7))
    monkeypatch.setitem(deadly, "now", lambda message: True)
    with pytest.raises(Killed):
        passing(Driver(counting(rule), store, log, clock).give(0), 2)
    claim = store.read(PLACE).claim  # type: ignore[union-attr]
    assert claim.trying is not None
    assert [id for id, _, _ in claim.source.schemas] == [7]  # type: ignore[union-attr]


def written(**more: Any) -> Destination:
    return Destination("out", "avro", Avro(OUT, None, "confluent", registry=NAME, subject="{record}", **more))


def sums(**more: Any) -> Agent:
    return counting(None, written(**more), handler=Handler((f"{__name__}:total",)))


def total(value: dict[str, Any], send: Any) -> None:
    send({"total": value["amount"]})


def test_results_carry_the_id_of_their_subject_also_while_the_registry_is_away(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    given(log, (1, 7))
    passing(Driver(sums(register=True), store, log, clock).give(0), 2)
    assert server.subjects == {("s.Sum", OUT): 40}
    process()
    server.away = True
    given(log, (2, 7))
    passing(Driver(sums(register=True), store, log, clock).give(0), 2)
    read = codec("avro", Avro(OUT, None, "confluent", 40)).decode
    assert [read(m.v or b"") for m in distinct(log, "out")] == [{"total": 1}, {"total": 2}]


def test_a_partition_is_not_taken_until_the_ids_of_the_outputs_are_known(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    given(log, (1, 7))
    driver = passing(Driver(sums(), store, log, clock).give(0), 10)
    assert shown(driver)[0] == ["waiting to claim in/0: subject s.Sum: not there; register it"]
    assert (distinct(log, "out"), dead(log)) == ([], [])
    server.subjects["s.Sum", OUT] = 5
    passing(driver, 5)
    assert [(m.v or b"")[:5] for m in distinct(log, "out")] == [b"\x00\x00\x00\x00\x05"]


def test_a_silent_registry_is_asked_once_a_second_at_most(clock: ManualClock, server: Server) -> None:
    table = schemas.SchemaTable(lambda: clock.now)
    table.ask, server.away = server, True
    for _ in range(5):
        with pytest.raises(Unavailable, match="does not answer"):
            table.schema(7, "AVRO")
    assert server.asked == 1
    clock.now += 1.5
    server.away = False
    assert table.schema(7, "AVRO") == OLD


@pytest.mark.parametrize("id", [b"\0\0\0\0\x08", b"\1" + GUID.bytes])
def test_an_id_in_a_header_is_that_of_the_value(
    id: bytes, log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    server.schemas |= {8: NEW, str(GUID): NEW}
    server.away = True
    log.append("in", 0, b"k", value(3, 8)[5:], ((events_read.HEADER, b"old"), (events_read.HEADER, id)))
    given(log, (4, 7))
    log.append("in", 0, b"k", b"\xff", ((events_read.HEADER, id), ("other", b"1")))
    driver = passing(Driver(counting(where="amount > 1"), store, log, clock).give(0), 5)
    assert shown(driver)[0] == ["waits at in/0 offset 0: the schema registry does not answer"]
    server.away = False
    passing(driver, 61)
    assert amounts(log) == [3, 4]
    [letter] = distinct(log, "dead")
    assert letter.v == id + b"\xff"
    assert [name for name, _ in letter.h if not name.startswith("sluicegate-")] == ["other"]
