"""Deadlines from the data in the engine: cold groups, other rules, a clock that was ahead, and what a person sees."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate.schemas import codec
from sluicegate.streams.agent import Aggregation, Correlation, DataDeadline, Reducer
from sluicegate.streams.aggregation.accept import accept
from sluicegate.streams.aggregation.events import Fire, Refused
from sluicegate.streams.aggregation.groups import Groups
from sluicegate.streams.aggregation.layout import DEADLINE, DEADLINE_SINCE
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.correlation.groups import CorrelatedGroups
from sluicegate.streams.operations.groups.open_groups import open_groups, why
from sluicegate.streams.testing.driver import TestDriver
from tests.unit.aggregation.turning import Turned, an_agent, record

HEAD = """
app: shop
kafka: {bootstrap.servers: "localhost:9092"}
store: memory://
accept_level: volatile
dead_letters: dead
http: false
agents:
  a:
    from: in
    to: {topic: out}
    aggregate: {compute: {n: count}, RULE}
"""
BEGIN = 1_767_225_600  # where the driver's clock begins


def driver(folder: Path, rule: str) -> TestDriver:
    (folder / "app.yaml").write_text(HEAD.replace("RULE", rule))
    return TestDriver(folder / "app.yaml", partitions=1)


def fired(shop: TestDriver) -> list[tuple[Any, ...]]:
    return [(output.key, output.value["reason"], output.value["n"]) for output in shop.read("out")]


def rule_of(deadline: DataDeadline | None, **more: Any) -> Rule:
    aggregation = Aggregation(**{"compute": (Reducer("n", "count"),), "deadline": deadline} | more)
    return Rule(an_agent(aggregation), codec("json"))


AT = DataDeadline(at="due", unit="s")


def taken(groups: Groups, *values: bytes, now: float = 100.0, first: int = 0) -> list[tuple[str, int]]:
    accept(groups, [record(first + number, b"k", value) for number, value in enumerate(values)], now)
    return [(event.reason, event.count) for event in groups.drain() if isinstance(event, Fire)]


def test_cold_groups_end_at_their_own_deadlines(tmp_path: Path) -> None:
    with driver(tmp_path, "hot_groups: 1, timeout: {at: due, unit: s}") as shop:
        for number, key in enumerate("abcd"):
            shop.send("in", {"due": BEGIN + 400 - 100 * number}, key)
            shop.advance(1)
        shop.send("in", {}, "e")
        shop.advance(1)
        for expected in ("d", "c", "b", "a"):
            shop.advance(100)
            assert [key for key, *_ in fired(shop)] == [expected]


def test_a_cold_group_gets_an_earlier_deadline(tmp_path: Path) -> None:
    with driver(tmp_path, "hot_groups: 1, timeout: {at: due, unit: s}") as shop:
        for key in "abc":
            shop.send("in", {"due": BEGIN + 4000}, key)
            shop.advance(1)
        shop.send("in", {"due": BEGIN + 60}, "a")
        shop.advance(60)
        assert fired(shop) == [("a", "timeout", 2)]


def test_room_is_made_among_cold_groups_of_which_none_has_a_deadline(tmp_path: Path) -> None:
    with driver(tmp_path, "hot_groups: 1, max_groups: 4, timeout: {at: due, unit: s}") as shop:
        for number, key in enumerate("abcd"):
            shop.send("in", {"due": BEGIN + 4000} if number == 3 else {}, key)
            shop.advance(1)
        shop.send("in", {}, "e")
        shop.send("in", {}, "f")
        shop.advance(1)
        assert [reason for _, reason, _ in fired(shop)] == ["limit", "limit"]


def test_what_is_no_deadline_is_a_dead_letter() -> None:
    for deadline, value in (
        (AT, b'{"due": "soon"}'),
        (AT, b'{"due": 253402300800}'),
        (AT, b'{"due": -1}'),
        (AT, b'{"due": 1e308}'),
        (DataDeadline(at="due"), b'{"due": 5}'),
        (DataDeadline(after="due"), b'{"due": "1 hour"}'),
        (DataDeadline(after="due", unit="us"), b'{"due": 1e308}'),
        (DataDeadline(at="timestamp(due)"), b"{}"),
        (DataDeadline(at="due", unit="s", cancel="due"), b'{"due": 5}'),
    ):
        groups = Groups(rule_of(deadline))
        accept(groups, [record(0, b"k", value)], 100.0)
        [event] = groups.drain()
        assert isinstance(event, Refused)
        assert event.reason == "expression-failed"
        assert groups.states == {}


def test_a_deadline_that_passed_ends_the_group_with_its_record_in_order() -> None:
    groups = Groups(rule_of(AT))
    assert taken(groups, b"{}", b'{"due": 99}', b"{}", b'{"due": 100}') == [("timeout", 2), ("timeout", 2)]
    assert groups.states == {}


def test_open_groups_get_a_deadline_when_their_rule_has_one_and_lose_it_without() -> None:
    plain = Turned(an_agent(Aggregation(since_first=50.0, compute=(Reducer("n", "count"),))))
    plain.accept([record(0, b"k", b"{}"), record(1, b"l", b"{}")], 100.0)
    plain.commit(100.0)
    before = {key: [*state] for key, state in plain.groups.states.items()}
    plain.rule = rule_of(AT, since_first=50.0)
    plain.restore()
    plain.accept([record(2, b"k", b'{"due": 120}')], 101.0)
    plain.commit(101.0)
    assert {key: plain.groups.due(state) for key, state in plain.groups.states.items()} == {b"k": 120.0, b"l": 150.0}
    plain.rule = rule_of(None, since_first=50.0)
    plain.restore()
    assert {key: plain.groups.due(state) for key, state in plain.groups.states.items()} == {b"k": 150.0, b"l": 150.0}
    assert plain.groups.states[b"l"] == before[b"l"]


def test_an_instant_stays_and_a_time_counts_anew_when_the_clock_was_ahead() -> None:
    for deadline, due in ((AT, 700.0), (DataDeadline(after="due", unit="s", since="last"), 800.0)):
        groups = Groups(rule_of(deadline))
        taken(groups, b'{"due": 700}', now=600.0)
        groups.set_back(100.0)
        assert groups.due(groups.states[b"k"]) == due
        assert groups.next_due() <= due


def test_a_correlation_waits_until_its_owner_has_read_what_waited() -> None:
    compute = tuple(Reducer(leg, "last", leg) for leg in "ab")
    aggregation = Aggregation(
        compute=compute, until="has(group.a) && has(group.b)", deadline=DataDeadline(at="a.due", unit="s")
    )
    agent = an_agent(replace(aggregation, on_missing="ignore", correlation=Correlation()))
    groups = CorrelatedGroups(Rule(agent, codec("json")), Correlation())
    groups.begin(2, 100.0)
    assert taken(groups, b'{"a": {"due": 50}}') == []
    groups.stands(2, False, 100.0, 100.0)
    assert groups.next_due() == 50.0
    groups.expire(100.0, 10)
    assert [event.reason for event in groups.drain() if isinstance(event, Fire)] == ["timeout"]


@pytest.mark.parametrize(
    ("value", "text"), [({"due": BEGIN + 90}, "fires in 90 s"), ({}, "no record gives it a deadline")]
)
def test_groups_show_when_they_end(tmp_path: Path, value: Any, text: str) -> None:
    with driver(tmp_path, "timeout: {at: due, unit: s}") as shop:
        shop.send("in", value, "k")
        agent = shop.app.agents[0]
        [group] = open_groups(shop._store, "shop", agent)
        assert text in why(group, agent)
        [shown] = shop.groups("a")
        assert shown.due_in == (90 if value else None)


def test_the_deadline_is_at_the_end_of_the_state() -> None:
    groups = Groups(rule_of(DataDeadline(after="due", unit="s")))
    taken(groups, b'{"due": 5}')
    state = groups.states[b"k"]
    assert (state[DEADLINE], state[DEADLINE_SINCE]) == (5.0, 100.0)
    assert len(state) == Groups(rule_of(None)).width + 2
