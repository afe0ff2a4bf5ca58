"""Agents that read and write CloudEvents."""

import json
from dataclasses import replace
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka_event

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    Deduplication,
    Destination,
    EventEnvelope,
    Handler,
    Let,
    OnError,
    Reducer,
    Selected,
)
from sluicegate.streams.contracts.record import Headers
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.answering import record_verdict
from sluicegate.streams.operations.dead.dead_letters import letters, retry
from sluicegate.streams.reading.proof import HeaderProof
from tests.mutation.twins import without
from tests.unit.engine.deployments import deployed
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import dead
from tests.unit.engine.test_dead_letters import InLog

BINARY: Headers = [("ce_specversion", b"1.0"), ("ce_id", b"7"), ("ce_source", b"/shop"), ("ce_type", b"order")]
STRUCTURED: Headers = [("content-type", b"application/cloudevents+json")]
RULE = Aggregation(key="data.by", count=2, compute=(Reducer("total", "sum", "data.n"), Reducer("ids", "collect", "id")))
AGENT = Agent("sums", ("in",), RULE, Destination("out"), "dead", events=("in",), where="type == 'order'")


def put(log: Log, n: int, id: str = "7", mode: str = "binary", type: str = "order", **attributes: str) -> None:
    document = {"specversion": "1.0", "id": id, "source": "/shop", "type": type, **attributes}
    if mode == "binary":
        headers: Headers = [(f"ce_{name}", text.encode()) for name, text in document.items()]
        log.append("in", 0, b"k", json.dumps({"by": "ann", "n": n}).encode(), headers)
    else:
        log.append("in", 0, b"k", json.dumps({**document, "data": {"by": "ann", "n": n}}).encode(), STRUCTURED)


def results(log: Log) -> list[Any]:
    return [json.loads(message.v or b"null") for message in distinct(log, "out")]


def event(message: Any) -> Any:
    """The event, as the official SDK reads it."""
    headers = {name: value or b"" for name, value in message.h if not name.startswith("sluicegate-")}
    return from_kafka_event(KafkaMessage(headers, message.k, message.v or b""))


def test_both_modes_have_one_form_for_key_where_and_compute(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    put(log, 1, "a")
    put(log, 5, "b", type="other")
    put(log, 2, "c", mode="structured")
    Driver(AGENT, store, log, clock).give(0).turns(6)
    [result] = results(log)
    assert {name: result[name] for name in ("key", "count", "total", "ids")} == {
        "key": "ann",
        "count": 2,
        "total": 3,
        "ids": ["a", "c"],
    }
    assert dead(log) == []


def test_the_id_of_an_event_drops_its_repeats(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    for mode in ("binary", "structured", "binary"):
        put(log, 1, "same", mode)
    put(log, 2, "other")
    Driver(replace(AGENT, dedupe=Deduplication("field", "id")), store, log, clock).give(0).turns(6)
    assert [result["total"] for result in results(log)] == [3]


def test_what_is_no_event_is_a_dead_letter_with_its_bytes(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    log.append("in", 0, b"k", b'{"by":"ann","n":1}', BINARY[1:])
    log.append("in", 0, b"k", b"[]", STRUCTURED)
    Driver(AGENT, store, log, clock).give(0).turns(6)
    assert dead(log) == [("0", "undecodable"), ("1", "undecodable")]
    letter = distinct(log, "dead")[0]
    why = "is not a CloudEvent: the mandatory attribute specversion is missing or empty"
    assert header(letter, "sluicegate-dead-error") == why
    assert letter.v == b'{"by":"ann","n":1}'
    assert [header for header in letter.h if header[0].startswith("ce_")] == BINARY[1:]


def test_twin_without_the_check_it_would_be_counted(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    agent = replace(AGENT, aggregation=replace(RULE, count=1, compute=()))
    log.append("in", 0, b"k", b'{"by":"ann","n":1}', BINARY[:1] + BINARY[2:])
    with without("mandatory-attributes"):
        Driver(agent, store, log, clock).give(0).turns(6)
    assert [result["key"] for result in results(log)] == ["ann"]


@pytest.mark.parametrize("policy", ["skip", "stop", "wait"])
def test_on_error_decode_holds_for_it(log: Log, store: MemoryStore, clock: ManualClock, policy: Any) -> None:
    log.append("in", 0, b"k", b"{}", [])
    put(log, 1)
    put(log, 2)
    Driver(replace(AGENT, on_error=OnError(decode=policy)), store, log, clock).give(0).turns(6)
    assert len(results(log)) == (1 if policy == "skip" else 0)
    assert dead(log) == []


def test_a_dead_letter_of_an_event_can_be_read_again(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """In binary mode the attributes are headers: the dead letter is the same event in structured mode."""
    agent = replace(AGENT, where="", let=(Let("twice", "data.m + 1"),), aggregation=replace(RULE, key="twice"))
    put(log, 1, "a", traceid="5")
    driver = Driver(agent, store, log, clock).give(0).turns(6)
    assert dead(log) == [("0", "expression-failed")]
    letter = distinct(log, "dead")[0]
    cloud_event = event(letter)
    assert (cloud_event.get_id(), cloud_event.get_data(), cloud_event.get_extension("traceid")) == (
        "a",
        {"by": "ann", "n": 1},
        "5",
    )
    wanted = list(letters(log.topics["dead"][0], "app", ["sums"]))
    assert retry(store, "app", InLog(log), wanted, Person("me", "why", "token")).sent == 1
    driver.turns(6)
    assert [reason for _, reason in dead(log)] == ["expression-failed"] * 2


def test_a_plain_topic_beside_one_of_events_is_read_as_it_is(clock: ManualClock, store: MemoryStore) -> None:
    log = Log()
    for topic in ("in", "plain", "out", "dead"):
        log.create(topic, 1)
    agent = replace(AGENT, topics=("in", "plain"), where="", aggregation=replace(RULE, compute=(), count=1, key="id"))
    put(log, 1, "a")
    log.append("plain", 0, b"k", b'{"id":"b"}')
    driver = Driver(agent, store, log, clock)
    driver.give(0, topic="in").give(0, topic="plain").turns(8)
    assert sorted(result["key"] for result in results(log)) == ["a", "b"]


def test_evaluating_a_record_sees_the_event() -> None:
    log = Log()
    log.create("in", 1)
    put(log, 1)
    log.append("in", 0, b"k", b"{}")
    one, other = log.topics["in"][0]
    assert record_verdict("app", AGENT, one, HeaderProof()).outcome == "taken"
    verdict = record_verdict("app", AGENT, other, HeaderProof())
    assert (verdict.outcome, verdict.error[:20]) == ("dead-letter", "is not a CloudEvent:")


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_a_result_is_an_event_whose_id_is_that_of_the_result(
    log: Log, store: MemoryStore, clock: ManualClock, mode: Any
) -> None:
    to = Destination("out", envelope=EventEnvelope(mode, "shop.total"))
    put(log, 1)
    put(log, 2)
    Driver(replace(AGENT, to=to), store, log, clock).give(0).turns(6)
    [message] = distinct(log, "out")
    cloud_event = event(message)
    assert cloud_event.get_data()["total"] == 3
    assert cloud_event.get_time().isoformat(timespec="milliseconds")[:23] == cloud_event.get_data()["closed_at"][:23]
    wanted = {
        "id": header(message, "sluicegate-id"),
        "source": "/app/sums",
        "type": "shop.total",
        "partitionkey": "ann",
    }
    assert {name: cloud_event.get_attributes()[name] for name in wanted} == wanted
    assert (cloud_event.get_datacontenttype(), cloud_event.get_specversion()) == ("application/json", "1.0")


def test_each_route_has_its_own_envelope(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    for topic in ("large", "small"):
        log.create(topic, 1)
    event_of = EventEnvelope("structured", "shop.large", "urn:mine")
    routes = (
        Destination("large", select=(Selected("total"),), where="total > 2", goes_on=True, envelope=event_of),
        Destination("small"),
    )
    put(log, 1)
    put(log, 2)
    Driver(replace(AGENT, to=None, routes=routes), store, log, clock).give(0).turns(6)
    [large], [small] = distinct(log, "large"), distinct(log, "small")
    cloud_event = event(large)
    assert (cloud_event.get_data(), cloud_event.get_source(), cloud_event.get_type()) == (
        {"total": 3},
        "urn:mine",
        "shop.large",
    )
    assert json.loads(small.v or b"")["total"] == 3
    assert header(large, "sluicegate-id") != header(small, "sluicegate-id")


def sends(value: Any, send: Any) -> None:
    send({"of": value["id"]})
    send(None)
    send(b"\xff")


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_what_a_handler_sends_is_an_event(log: Log, store: MemoryStore, clock: ManualClock, mode: Any) -> None:
    to = Destination("out", envelope=EventEnvelope(mode, "shop.seen", "/mine"))
    agent = Agent("sums", ("in",), None, to, "dead", handler=Handler((f"{__name__}:sends",)), events=("in",))
    put(log, 1, "a")
    Driver(agent, store, log, clock).give(0).turns(6)
    sent = distinct(log, "out")
    assert [event(message).get_data() for message in sent] == [{"of": "a"}, None, b"\xff"]
    assert [event(message).get_id() for message in sent] == [header(message, "sluicegate-id") for message in sent]


@pytest.mark.parametrize(("select", "envelope"), [((), None), ((Selected("id"),), EventEnvelope("binary", "new"))])
def test_what_is_forwarded_is_an_event(
    log: Log, store: MemoryStore, clock: ManualClock, select: Any, envelope: Any
) -> None:
    agent = Agent("sums", ("in",), None, Destination("out", select=select, envelope=envelope), "dead", events=("in",))
    put(log, 1, "a")
    Driver(agent, store, log, clock).give(0).turns(6)
    [message] = distinct(log, "out")
    cloud_event = event(message)
    if select:
        assert (cloud_event.get_type(), cloud_event.get_data()) == ("new", {"id": "a"})
    else:
        assert (cloud_event.get_id(), cloud_event.get_type(), cloud_event.get_data()) == (
            "a",
            "order",
            {"by": "ann", "n": 1},
        )


def test_a_key_that_is_no_text_is_no_attribute(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    to = Destination("out", envelope=EventEnvelope("binary", "t"))
    agent = Agent("sums", ("in",), Aggregation(count=1), to, "dead")
    log.append("in", 0, b"\xff", b"{}")
    Driver(agent, store, log, clock).give(0).turns(6)
    assert not [name for name, _ in distinct(log, "out")[0].h if name == "ce_partitionkey"]


def test_a_repeat_has_the_same_id(clock: ManualClock) -> None:
    assert len(_ids(clock)) == 1


def test_twin_an_id_of_the_claim_would_make_a_repeat_another_event(clock: ManualClock) -> None:
    with without("event-id"):
        assert len(_ids(clock)) == 2


def _ids(clock: ManualClock) -> set[str]:
    """The event ids of one result that two stores made of the same input."""
    ids = set()
    for _ in range(2):
        log = Log()
        for topic in ("in", "out", "dead"):
            log.create(topic, 1)
        put(log, 1)
        put(log, 2)
        to = Destination("out", envelope=EventEnvelope("binary", "shop.total"))
        driver = Driver(replace(AGENT, to=to), MemoryStore(), log, clock)
        driver.give(0).turns(6)
        ids |= {event(message).get_id() for message in distinct(log, "out")}
    return ids


def _a_deployment(log: Log, store: MemoryStore, clock: ManualClock) -> list[tuple[int, int]]:
    """Counts and totals when a group of version 1, which finishes, gets its last records after the deployment."""
    old = replace(AGENT, aggregation=replace(RULE, count=3))
    new = replace(AGENT, aggregation=replace(RULE, count=2, compute=(Reducer("total", "max", "data.n"),)))
    put(log, 1)
    Driver(old, store, log, clock, deployed=deployed((old, "refuse"))).give(0).turns()
    driver = Driver(new, store, log, clock, deployed=deployed((old, "refuse"), (new, "finish"))).give(0).turns()
    put(log, 2)
    put(log, 4, mode="structured")
    driver.turns()
    return [(result["count"], result["total"]) for result in results(log)]


def test_events_go_to_the_groups_of_an_earlier_rule(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    assert _a_deployment(log, store, clock) == [(3, 7)]


def test_twin_an_event_that_is_read_too_late_leaves_its_group(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    with without("event-before-older"):
        assert _a_deployment(log, store, clock) != [(3, 7)]
