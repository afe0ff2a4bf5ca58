"""A reader's schema that is a version of a subject: it is asked for with the first record, and kept with the state."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import SchemaOptions, codec
from sluicegate.schemas import registry as schemas
from sluicegate.schemas.codecs import Unavailable
from sluicegate.streams.agent import Agent, Aggregation, Destination, Reducer
from sluicegate.streams.cli.opening.registry import recall
from sluicegate.streams.ownership.registered import RegisteredSchemas
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import dead, shown
from tests.unit.engine.test_registry import NEW, OLD, Server, amounts, given, passing, process, server, store

__all__ = ["process", "server", "store"]
PINNED = "in-value:3"
WIDER = NEW.replace('"string"', '"string", "default": ""')


def agent(**more: Any) -> Agent:
    options = SchemaOptions("", None, "confluent", registry="r", pinned=PINNED, **more)
    rule = Aggregation(count=1, compute=(Reducer("total", "sum", "amount"),))
    return Agent("sums", ("in",), rule, Destination("out"), "dead", format="avro", schema=options, where="amount > 0")


def test_records_are_read_with_it_and_a_worker_that_starts_while_the_registry_is_down_has_it(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    server.schemas[PINNED] = WIDER
    given(log, (1, 7))
    passing(Driver(agent(), store, log, clock).give(0), 2)
    assert (amounts(log), server.asked) == ([1], 2)
    process()
    server.away = True
    given(log, (2, 7))
    passing(Driver(agent(), store, log, clock).give(0), 2)
    assert (amounts(log), dead(log), server.asked) == ([1, 2], [], 2)


def test_a_command_that_reads_records_again_knows_what_the_rows_keep(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    server.schemas[PINNED] = WIDER
    given(log, (1, 7))
    passing(Driver(agent(), store, log, clock).give(0), 2)
    process()
    server.away = True
    table = schemas.table("r")
    with pytest.raises(Unavailable):
        table.schema(PINNED, "AVRO")
    [app] = {partition.app for partition in store.partitions("a") + store.partitions("app")}
    recall(replace(agent(), name="other"), app, store)
    assert len(table) == 0
    recall(agent(), app, store)
    assert (table.schema(PINNED, "AVRO"), len(table)) == (WIDER, 2)


def test_without_the_row_it_waits(
    log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: nothing is kept in the row."""
    monkeypatch.setattr(RegisteredSchemas, "noted", lambda self, claim, source: source)
    server.schemas[PINNED] = WIDER
    given(log, (1, 7))
    passing(Driver(agent(), store, log, clock).give(0), 2)
    process()
    server.away = True
    given(log, (2, 7))
    passing(Driver(agent(), store, log, clock).give(0), 2)
    assert amounts(log) == [1]


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "the schema registry does not answer"), ("no schema", "the schema of the registry cannot be used")],
)
def test_while_it_is_away_not_known_or_no_schema_records_wait(
    text: str | None, why: str, log: Log, store: MemoryStore, clock: ManualClock, server: Server, process: Any
) -> None:
    if text is not None:
        server.schemas[PINNED] = text
    given(log, (1, 7))
    driver = passing(Driver(agent(), store, log, clock).give(0), 5)
    assert (amounts(log), dead(log)) == ([], [])
    assert shown(driver)[0] == [f"waits at in/0 offset 0: {why}"]
    if text is None:
        server.schemas[PINNED] = WIDER
        passing(driver, 61)
        assert amounts(log) == [1]


def test_a_file_of_writer_schemas_stands_in(tmp_path: Path) -> None:
    (tmp_path / "in-value.3.avsc").write_text(WIDER)
    options = SchemaOptions("", None, "confluent", registry="none", pinned=PINNED, writers=str(tmp_path))
    form = codec("avro", options)
    old = codec("avro", SchemaOptions(OLD, None, "confluent", 0)).encode({"amount": 3})
    (tmp_path / "7.avsc").write_text(OLD)
    assert form.decode(b"\0\0\0\0\7" + old[5:]) == {"amount": 3, "by": ""}
    assert form.only is not None
    assert json.loads(form.only(["amount"])(b"\0\0\0\0\7" + old[5:])) == {"amount": 3}
    with pytest.raises(Unavailable, match="in-value:3 is not known"):
        codec("avro", replace(options, writers=None)).decode(old)
    assert schemas.table("none") is not None
