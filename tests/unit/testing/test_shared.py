"""`scope: shared` on the test driver: several workers and partitions fill one buffer; what completes is fired once."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import (
    Agent,
    Aggregation,
    App,
    Deduplication,
    Destination,
    Handler,
    Let,
    Outbox,
    Reducer,
    Until,
)
from sluicegate.streams.contracts.values import Changes, Partition
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.rules import rule_of
from sluicegate.streams.testing.deaths import SHARED, Deaths
from sluicegate.streams.testing.driver import TestDriver
from tests.mutation.twins import without
from tests.unit.testing import sharing

COMPUTE = (Reducer("total", "sum", "v"), Reducer("all", "collect"))
RULE = Aggregation(count=3, since_first=30.0, compute=COMPUTE)
LEASE = 10.0


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    sharing.reset()
    yield
    sharing.reset()


def an_app(rule: Aggregation = RULE, **more: Any) -> App:
    agent = Agent("a", ("in",), rule, Destination("out"), "dead", scope="shared", **more)
    return App("app", "memory://", (agent,), outbox=Outbox())


def handled(function: str = "total", **how: Any) -> App:
    return an_app(handler=Handler((f"tests.unit.testing.sharing:{function}",), **how))


def feed(driver: TestDriver, *values: int, key: str = "k") -> None:
    for value in values:
        driver.send("in", {"v": value}, key=key, partition=value % 4)


def members(driver: TestDriver) -> list[list[int]]:
    return [[item["v"] for item in output.value["all"]] for output in driver.read("out")]


def test_a_record_that_a_user_reducer_refuses_has_counted() -> None:
    """docs/shared.md: the store counts records, and the reducer runs when the group fires."""
    refuses = Reducer("total", "reduce", function="tests.unit.testing.sharing:without_ones")
    with TestDriver(an_app(replace(RULE, compute=(refuses,)))) as driver:
        feed(driver, 0, 1, 2)
        [output] = driver.read("out")
        assert (output.reason, output.value["count"], output.value["total"]) == ("count", 2, 2)
        assert [letter.reason for letter in driver.dead_letters()] == ["reducer"]


def test_a_step_of_the_clock_stops_at_the_deadline_of_a_group() -> None:
    with TestDriver(an_app()) as driver:
        feed(driver, 1)
        driver.advance(45.0)
        [output] = driver.read("out")
        assert (output.reason, output.value["closed_at"]) == ("timeout", "2026-01-01T00:00:30.000Z")


def test_partitions_and_workers_fill_one_group_of_a_key() -> None:
    with TestDriver(an_app(), workers=3) as driver:
        feed(driver, *range(7))
        first, second = driver.read("out")
    assert ([item["v"] for item in first.value["all"]], [item["v"] for item in second.value["all"]]) == (
        [0, 1, 2],
        [3, 4, 5],
    )
    assert (first.key, first.value["total"], first.value["reason"], first.value["count"]) == ("k", 3, "count", 3)
    assert (first.headers["sluicegate-first"], first.headers["sluicegate-last"]) == ("in/0/0", "in/2/0")
    assert (second.headers["sluicegate-first"], second.headers["sluicegate-last"]) == ("in/3/0", "in/1/1")
    assert {entry.headers["sluicegate-rule"] for entry in (first, second)} == {rule_of(an_app().agents[0]).short}


def test_what_came_within_the_time_fires_without_another_record() -> None:
    with TestDriver(an_app(), workers=2) as driver:
        feed(driver, 1, 2)
        driver.advance(29.0)
        assert driver.read("out") == []
        driver.advance(2.0)
        [output] = driver.read("out")
    assert (output.value["count"], output.value["reason"], output.value["opened_at"]) == (
        2,
        "timeout",
        "2026-01-01T00:00:00.000Z",
    )


ENDS = Until("v", 4)


@pytest.mark.parametrize("until", [ENDS, "v == 4.0", "last == 4.0"])
@pytest.mark.parametrize("dedupe", [None, Deduplication("field", "v", horizon=60.0)], ids=["packs", "ids"])
def test_a_record_that_until_names_ends_its_group(until: Any, dedupe: Deduplication | None) -> None:
    rule = replace(RULE, count=None, until=until)
    let = (Let("last", "v"),)
    with TestDriver(an_app(rule, dedupe=dedupe, let=let), workers=2) as driver:
        feed(driver, 1, 3, 4, 5, 6)
        [output] = driver.read("out")
        assert [item["v"] for item in output.value["all"]] == [1, 3, 4]
        assert (output.value["count"], output.value["reason"]) == (3, "until")
        driver.advance(31.0)
        [output] = driver.read("out")
        assert (output.value["count"], output.value["reason"]) == (2, "timeout")


def test_a_group_that_reaches_its_count_with_the_record_that_ends_it_ends_by_its_count() -> None:
    with TestDriver(an_app(replace(RULE, until=ENDS))) as driver:
        feed(driver, 1, 3, 4, 4, 5)
        assert [output.value["reason"] for output in driver.read("out")] == ["count", "until"]


def test_a_record_that_until_cannot_judge_is_in_no_group() -> None:
    with TestDriver(an_app(replace(RULE, until="w > 1.0"))) as driver:
        feed(driver, 1)
        driver.send("in", {"v": 2, "w": 2}, key="k")
        [letter] = driver.dead_letters()
        assert letter.headers["sluicegate-dead-clause"] == "until"
        assert members(driver) == [[2]]


@pytest.mark.parametrize("until", [ENDS, "v == 4.0"])
@pytest.mark.parametrize("dedupe", [None, Deduplication("field", "v", horizon=600.0)], ids=["packs", "ids"])
def test_wherever_a_worker_dies_the_record_that_ends_a_group_is_its_last(
    until: Any, dedupe: Deduplication | None
) -> None:
    app = an_app(replace(RULE, count=None, until=until), dedupe=dedupe)
    places = 0
    for at in range(1, 200):
        with TestDriver(app, workers=2, deaths=(deaths := Deaths(at))) as driver:
            feed(driver, 2, 6, 4, 7, 9)
            for _ in range(4):
                driver.advance(LEASE + 25.0)
            groups = members(driver)
        assert sorted(chain(*groups)) == [2, 4, 6, 7, 9]
        assert [group[-1] for group in groups if 4 in group] == [4]
        if not deaths.done:
            break
        places = at
    assert places > 10


@pytest.mark.parametrize(("policy", "topic"), [("discard", None), ("dead-letter", "dead")])
def test_a_group_that_times_out_goes_where_the_file_says(policy: Any, topic: str | None) -> None:
    with TestDriver(an_app(replace(RULE, on_timeout=policy))) as driver:
        feed(driver, 1)
        driver.advance(31.0)
        letters = driver.dead_letters()
        assert ([output.topic for output in letters], driver.read("out")) == ([topic] if topic else [], [])


def test_without_a_count_the_limit_ends_a_group() -> None:
    with TestDriver(an_app(replace(RULE, count=None, max_items=2))) as driver:
        feed(driver, 1, 2, 3)
        [output] = driver.read("out")
    assert (output.value["count"], output.value["reason"]) == (2, "limit")


def test_what_cannot_be_used_is_a_dead_letter_and_no_member() -> None:
    with TestDriver(an_app(), workers=2) as driver:
        feed(driver, 0, 1)
        driver.send("in", b"{nonsense", key="k")
        driver.send("in", {"v": 9})
        driver.send("in", {"v": 9}, key=b"\x00" * 400)
        feed(driver, 2)
        assert members(driver) == [[0, 1, 2]]
        reasons = [letter.headers["sluicegate-dead-reason"] for letter in driver.dead_letters()]
    assert reasons == ["undecodable", "no-key", "too-large"]


@pytest.mark.parametrize("key", [b"\x00\xff%41", "Ähre".encode(), b"a b%20"])
def test_any_bytes_are_a_key(key: bytes) -> None:
    with TestDriver(an_app()) as driver:
        for value in range(3):
            driver.send("in", {"v": value}, key=key, partition=value)
        [output] = driver.read("out")
    assert output.raw is not None
    assert (output.value["count"], output.value.get("key", "").encode() or key) == (3, key)


def test_an_id_counts_once_in_all_partitions_until_its_horizon_is_over() -> None:
    rule = Deduplication("field", "v", horizon=60.0)
    with TestDriver(an_app(dedupe=rule), workers=2) as driver:
        for partition in range(4):
            driver.send("in", {"v": 1}, key="k", partition=partition)
        feed(driver, 2, 3)
        assert members(driver) == [[1, 2, 3]]
        feed(driver, 1)
        driver.advance(61.0)
        assert members(driver) == []
        feed(driver, 1)
        driver.advance(31.0)
        assert members(driver) == [[1]]


def test_a_handler_gets_each_group_with_the_id_of_its_result() -> None:
    with TestDriver(handled()) as driver:
        feed(driver, 1, 2, 3)
        [output] = driver.read("out")
    assert (output.value, sharing.calls) == ({"total": 6}, [(output.headers["sluicegate-fire"], 1)])


def test_a_handler_that_fails_is_called_again_and_then_its_group_is_a_dead_letter() -> None:
    with TestDriver(handled(attempts=2, backoff_first=5.0, backoff_most=5.0)) as driver:
        sharing.failing[:] = ["no", "no"]
        feed(driver, 1, 2, 3)
        assert len(sharing.calls) == 1
        driver.advance(5.0)
        [letter] = driver.dead_letters()
        assert (letter.headers["sluicegate-dead-reason"], letter.headers["sluicegate-dead-attempts"]) == (
            "handler-failed",
            "2",
        )
        assert [attempt for _, attempt in sharing.calls] == [1, 2]
        feed(driver, 4, 5, 6)
        assert [output.value for output in driver.read("out")] == [{"total": 15}]


def test_an_outage_is_no_attempt_and_a_bad_item_leaves_the_others() -> None:
    with TestDriver(handled(attempts=1)) as driver:
        sharing.failing[:] = ["outage", "bad"]
        feed(driver, 1, 2, 3)
        for _ in range(4):
            driver.advance(1.0)
        assert [output.value for output in driver.read("out")] == [{"total": 4}]
        assert [(letter.value, letter.headers["sluicegate-dead-reason"]) for letter in driver.dead_letters()] == [
            ({"v": 2}, "bad-item")
        ]


@pytest.mark.parametrize(
    ("app", "text"),
    [(handled(attempts=1, then="stop"), "`then` is stop"), (handled("remind"), "cancel() need scope partition")],
)
def test_what_cannot_go_on_halts_its_partitions(app: App, text: str) -> None:
    with TestDriver(app) as driver:
        sharing.failing[:] = ["no"]
        feed(driver, 1, 2, 3)
        driver.advance(12.0)
        troubles = driver.troubles()
    assert troubles
    assert all(text in trouble for trouble in troubles)


@pytest.mark.parametrize("app", [handled(session=True), handled(then="park", concurrency=1)], ids=["session", "park"])
def test_what_needs_a_partition_of_ones_own_is_refused(app: App) -> None:
    with pytest.raises(ConfigurationError, match="scope partition"):
        TestDriver(app)


VALUES = range(10)


def played(driver: TestDriver) -> list[list[int]]:
    """All records, and time enough for what a dead process held to be taken over, twice."""
    for value in VALUES:
        feed(driver, value, key=f"k{value % 2}")
    for _ in range(4):
        driver.advance(LEASE + 25.0)
    return members(driver)


@pytest.mark.parametrize("place", SHARED)
def test_whatever_dies_where_a_record_is_in_one_group_and_in_no_other(place: str) -> None:
    with TestDriver(an_app(), workers=2) as driver:
        driver.crash(place)
        groups = played(driver)
    assert sorted(chain(*groups)) == list(VALUES)
    assert all(len(group) <= 3 for group in groups)


KNOWN_FOR_A_MINUTE = Deduplication("field", "id", horizon=60.0, on_missing="accept")


@pytest.mark.parametrize("dedupe", [None, KNOWN_FOR_A_MINUTE], ids=["packs", "ids"])
@pytest.mark.parametrize(("protection", "times"), [("", 0), ("watermark", 1)], ids=["", "twin"])
def test_without_the_watermark_what_is_read_again_counts_twice(
    protection: str, times: int, dedupe: Deduplication | None
) -> None:
    """Its group was fired, and its offset not committed: no key of it is left. (The same group again would be dropped
    by its id.)"""
    time = [1_700_000_000.0]
    store = MemoryStore(lambda: time[0])
    with without(protection), TestDriver(an_app(replace(RULE, count=2), dedupe=dedupe), store=store) as driver:
        feed(driver, 0, 4)
        assert members(driver) == [[0, 4]]
        time[0] += 3600.0
        claim = store.claim(Partition("app", "a", "in", 0), "dead", "dead")
        store.commit(claim, Changes(1, source=claim.source))
        driver.crash()
        feed(driver, 8)
        assert members(driver) == [[4, 8]] * times


@settings(max_examples=40, deadline=None)
@given(at=st.integers(1, 60), workers=st.integers(1, 3), count=st.integers(1, 4))
def test_at_any_place_of_any_run(at: int, workers: int, count: int) -> None:
    with TestDriver(an_app(replace(RULE, count=count)), workers=workers, deaths=Deaths(at)) as driver:
        groups = played(driver)
    assert sorted(chain(*groups)) == list(VALUES)
    assert all(len(group) <= count for group in groups)
