"""`dead_letters: {headers: connect}`: dead letters carry the headers of Kafka Connect beside ours, and go back as they
came."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.schemas import codec
from sluicegate.streams.agent import Agent, Handler, Reducer
from sluicegate.streams.aggregation.events import timed_out
from sluicegate.streams.contracts.record import Headers
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead.dead_letters import letters, retry
from sluicegate.streams.outbox.connect_headers import STAGES, connect_headers
from sluicegate.streams.outbox.rows import Rows
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import an_agent, feed
from tests.unit.engine.test_dead_letters import InLog
from tests.unit.engine.test_rows import PLACE, TOPIC_ID, Facts, fire

OWN: Headers = [("h", b"\xff"), ("__connect.errors.topic", b"their own"), ("h", None)]


def fails(message: Any, context: Any) -> None:
    raise LookupError("no row for ünal")


def handled() -> Agent:
    return Agent("sums", ("in",), None, None, "dead", handler=Handler((f"{__name__}:fails",), attempts=1))


def folds(total: Any, message: Any) -> Any:
    raise ArithmeticError("of my own")


def reduced() -> Agent:
    return an_agent(compute=(Reducer("n", "reduce", None, f"{__name__}:folds"),))


def connect(agent: Agent) -> Agent:
    return replace(agent, dead_headers="connect")


def errors(message: Any) -> dict[str, bytes]:
    """The headers of Kafka Connect; the last of a name counts."""
    return {
        name.removeprefix("__connect.errors."): value
        for name, value in message.h
        if name.startswith("__connect.errors.")
    }


def test_a_record_that_cannot_be_decoded(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"k", b"{bad", list(OWN))
    Driver(connect(an_agent()), store, log, clock).give(0).turns(4)
    [letter] = log.topics["dead"][0]
    error = dict(letter.h)["sluicegate-dead-error"]
    assert errors(letter) == {
        "topic": b"in",
        "partition": b"0",
        "offset": b"0",
        "connector.name": b"app.sums",
        "task.id": b"0",
        "stage": b"VALUE_CONVERTER",
        "class.name": b"sluicegate.decode",
        "exception.class.name": b"sluicegate.undecodable",
        "exception.message": error,
        "exception.stacktrace": b"sluicegate.undecodable: " + error + b"\n",
    }


def test_without_the_option_there_is_none(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"k", b"{bad")
    Driver(an_agent(), store, log, clock).give(0).turns(4)
    assert errors(log.topics["dead"][0][0]) == {}


@pytest.mark.parametrize(
    ("agent", "stage", "kind", "text"),
    [
        (handled(), "TASK_PUT", "LookupError", "LookupError: no row for ünal"),
        (reduced(), "TRANSFORMATION", "ArithmeticError", "ArithmeticError: of my own"),
    ],
    ids=["a handler", "a reducer"],
)
def test_an_error_of_the_users_code_has_its_type_and_its_line(
    log: Log, store: MemoryStore, clock: ManualClock, agent: Agent, stage: str, kind: str, text: str
) -> None:
    feed(log, ("k", 1))
    Driver(connect(agent), store, log, clock).give(0).turns(6)
    texts = {name: value.decode() for name, value in errors(log.topics["dead"][0][0]).items()}
    assert (texts["stage"], texts["exception.class.name"]) == (stage, kind)
    assert text in texts["exception.message"]
    trace = texts["exception.stacktrace"].splitlines()
    assert trace[0] == f"{kind}: {texts['exception.message']}"
    assert trace[1].startswith("\tat tests/unit/engine/test_connect_headers.py:")


def test_a_group_that_cannot_be_written_has_each_header_once() -> None:
    rows = Rows(PLACE, connect(an_agent()), codec("json"), Facts(), 5_000)
    rows.begin("lineage-1", 41, TOPIC_ID)
    [letter] = rows.make([timed_out(fire(reason="timeout", long="x" * 5_000))])
    assert dict(letter.headers)["__connect.errors.stage"] == b"TRANSFORMATION"
    assert b"; the result has " in (dict(letter.headers)["__connect.errors.exception.message"] or b"")
    names = [name for name, _ in letter.headers]
    assert len(names) == len({*names})


def test_each_stage_of_ours_is_a_stage_of_kafka_connect() -> None:
    for stage in STAGES:
        headers = dict(connect_headers(Partition("a", "b", "t", 3), 7, stage, "limit", "why", ""))
        assert headers["__connect.errors.stage"] == STAGES[stage].encode()
    assert {*STAGES.values()} <= {"KEY_CONVERTER", "VALUE_CONVERTER", "TRANSFORMATION", "TASK_PUT", "KAFKA_PRODUCE"}


@pytest.mark.parametrize("headers", ["sluicegate", "connect"])
def test_the_record_goes_back_with_its_own_headers_alone(
    log: Log, store: MemoryStore, clock: ManualClock, headers: Any
) -> None:
    log.append("in", 0, b"k", b"{bad", list(OWN))
    Driver(replace(an_agent(), dead_headers=headers), store, log, clock).give(0).turns(4)
    assert again(log, store) == OWN


def test_twin_without_the_cut_the_headers_of_kafka_connect_go_back_too(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    log.append("in", 0, b"k", b"{bad", list(OWN))
    Driver(connect(an_agent()), store, log, clock).give(0).turns(4)
    with without("own-headers"):
        assert ("__connect.errors.stage", b"VALUE_CONVERTER") in again(log, store)


def again(log: Log, store: MemoryStore) -> Headers:
    """The headers of the record that is sent back, without those of the retry."""
    wanted = list(letters(log.topics["dead"][0], "app", ["sums"]))
    assert retry(store, "app", InLog(log), wanted, Person("me", "why", "token")).sent == 1
    return [header for header in log.topics["in"][0][-1].h if not header[0].startswith("sluicegate-")]
