"""Correlations in the engine against a program that shares no code with it: random legs, pauses, and ends of the
process."""

import json
import random
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Correlation, Destination, Reducer
from sluicegate.streams.correlation.ended import EndedKeys
from sluicegate.streams.correlation.groups import CorrelatedGroups
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory

AFTER, REMEMBER = 60.0, 200.0
LEGS = ("order", "payment", "note")
KEYS = ("a", "b", "c", "d", "k" * 100)
AGENT = Agent(
    "settle",
    ("in",),
    Aggregation(
        since_first=AFTER,
        until="has(group.order) && has(group.payment) && size(group.note) >= 2",
        compute=(
            Reducer("order", "first", "order"),
            Reducer("payment", "last", "payment"),
            Reducer("note", "collect", "note"),
        ),
        on_missing="ignore",
        correlation=Correlation(REMEMBER),
    ),
    Destination("out"),
    "dead",
)


class Judged(NamedTuple):
    """Results as (key, reason, order, payment, notes), and the offsets of late records."""

    results: list[tuple[str, str, Any, Any, list[Any]]]
    late: list[int]


class Oracle:
    """What the guide says, in plain Python."""

    def __init__(self) -> None:
        self.open: dict[str, dict[str, Any]] = {}
        self.ended: dict[str, float] = {}
        self.judged = Judged([], [])

    def record(self, offset: int, key: str, leg: str, value: int, now: float) -> None:
        if key not in self.open and now - self.ended.get(key, -1e9) < REMEMBER:
            self.judged.late.append(offset)
            return
        group = self.open.setdefault(key, {"since": now, "order": None, "payment": None, "note": []})
        if leg == "note":
            group["note"].append(value)
        elif leg == "payment" or group["order"] is None:
            group[leg] = value
        if group["order"] is not None and group["payment"] is not None and len(group["note"]) >= 2:
            self._end(key, "until", now)

    def pause(self, now: float) -> None:
        for key in [key for key, group in self.open.items() if group["since"] + AFTER <= now]:
            self._end(key, "timeout", now)

    def _end(self, key: str, reason: str, now: float) -> None:
        group = self.open.pop(key)
        self.ended[key] = now
        self.judged.results.append((key, reason, group["order"], group["payment"], group["note"]))


def told(log: Log) -> Judged:
    documents = [json.loads(message.v or b"null") for message in distinct(log, "out")]
    rows = [(r["key"], r["reason"], r.get("order"), r.get("payment"), r.get("note") or []) for r in documents]
    letters = distinct(log, "dead")
    assert {header(message, "sluicegate-dead-reason") for message in letters} <= {"late"}
    return Judged(rows, sorted(int(str(header(message, "sluicegate-dead-offset"))) for message in letters))


def history(seed: int, agent: Agent = AGENT) -> tuple[Judged, Judged]:
    """What the oracle and the engine say of one history."""
    rnd, clock, oracle, log = random.Random(seed), ManualClock(), Oracle(), Log()
    for topic in ("in", "out", "dead"):
        log.create(topic, 1)
    store = memory(clock)
    driver = Driver(agent, store, log, clock).give(0).turns()
    offset = 0
    for _ in range(rnd.randrange(5, 60)):
        restarts = rnd.random() < 0.15
        if restarts or rnd.random() < 0.3:
            clock.now += rnd.choice((1.0, 20.0, 59.0, 61.0, 150.0, 250.0))
            if not restarts:
                driver.turns()
                oracle.pause(clock.now)
        for _ in range(rnd.randrange(4)):
            key, leg = rnd.choice(KEYS), rnd.choice(LEGS)
            log.append("in", 0, key.encode(), json.dumps({leg: offset}).encode())
            oracle.record(offset, key, leg, offset, clock.now)
            offset += 1
        if restarts:
            driver = Driver(agent, store, log, clock).give(0)
        driver.turns()
        oracle.pause(clock.now)
    return oracle.judged, told(log)


def normal(judged: Judged) -> Judged:
    """Groups that time out at one moment have no order among themselves."""
    return Judged(sorted(judged.results, key=repr), sorted(judged.late))


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_correlations_are_those_of_the_oracle(first: int) -> None:
    for seed in range(first, first + 50):
        wanted, results = history(seed)
        assert normal(results) == normal(wanted), seed


def differs() -> bool:
    return any(normal(one) != normal(other) for one, other in map(history, range(60)))


def test_twin_a_key_that_is_not_remembered_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndedKeys, "refuses", lambda self, groups, key, record, now: False)
    assert differs()


def test_twin_an_absence_before_what_waits_was_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CorrelatedGroups, "caught_up", property(lambda self: True, lambda self, value: None))
    assert differs()


def test_late_legs_may_be_skipped_and_are_counted(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    rule = Aggregation(
        since_first=AFTER,
        until="has(group.order)",
        compute=(Reducer("order", "first", "order"),),
        on_missing="ignore",
        correlation=Correlation(REMEMBER, "skip"),
    )
    driver = Driver(Agent("settle", ("in",), rule, Destination("out"), "dead"), store, log, clock).give(0)
    for _ in range(3):
        log.append("in", 0, b"a", b'{"order": 1}')
    driver.turns().later(1).turns()
    assert len(distinct(log, "out")) == 1
    assert distinct(log, "dead") == []
    assert {name: value for name, _, value in driver.reports[-1].metrics}["legs_late"] == 2


def test_beyond_the_limit_the_oldest_ended_keys_are_forgotten_loudly(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The leg of a forgotten key has a second result."""
    rule = Aggregation(
        since_first=AFTER,
        until="has(group.order)",
        compute=(Reducer("order", "first", "order"),),
        on_missing="ignore",
        correlation=Correlation(REMEMBER, max_keys=2),
    )
    driver = Driver(Agent("settle", ("in",), rule, Destination("out"), "dead"), store, log, clock).give(0)
    with capture_logs() as logs:
        for key in (b"a", b"b", b"c", b"c", b"a"):
            log.append("in", 0, key, b'{"order": 1}')
            driver.turns(2)
    driver.later(1).turns()
    assert [message.key() for message in distinct(log, "out")] == [b"a", b"b", b"c", b"a"]
    assert {name: value for name, _, value in driver.reports[-1].metrics}["ids_forgotten"] == 2
    assert [(line["topic"], line["max_keys"]) for line in logs if line["event"] == "correlate.full"] == [("in", 2)]
