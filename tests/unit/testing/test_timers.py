"""What handlers schedule and cancel, on the test driver: part of their commit, and once, whatever dies wherever."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluicegate.streams.agent import Agent, Aggregation, App, Destination, Handler
from sluicegate.streams.testing.deaths import DISPATCHER, Deaths
from sluicegate.streams.testing.driver import TestDriver
from tests.mutation.twins import without
from tests.unit.testing import reminders
from tests.unit.testing.apps import sums

WAYS: dict[str, dict[str, Any]] = {
    "inline": {"function": "remind"},
    "session": {"function": "remind_in_session", "session": True},
    "slow": {"function": "remind", "concurrency": 2},
}


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    reminders.reset()
    yield
    reminders.reset()


def an_app(function: str = "remind", rule: Aggregation | None = None, **how: Any) -> App:
    handler = Handler((f"tests.unit.testing.reminders:{function}",), **how)
    return App("app", "memory://", (Agent("a", ("in",), rule, Destination("out"), "dead", handler=handler),))


@pytest.fixture(params=WAYS)
def driver(request: pytest.FixtureRequest) -> Iterator[TestDriver]:
    with TestDriver(an_app(**WAYS[request.param]), partitions=2) as made:
        yield made


def ask(driver: TestDriver, do: str, n: int = 1, **more: Any) -> None:
    driver.send("in", {"do": do, "n": n, **more}, key=f"k{n}")


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def enter(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield enter
    monkeypatch.undo()
    time.tzset()


def told(driver: TestDriver) -> list[int]:
    return [output.value["n"] for output in driver.read("out")]


def test_what_is_scheduled_comes_back_to_the_agent_when_it_is_due_and_not_before(driver: TestDriver) -> None:
    ask(driver, "remind", 7)
    driver.advance(59.99)
    assert driver.read("out") == []
    driver.advance(0.01)
    [output] = driver.read("out")
    assert output.value == {"n": 7, "h": "x", "id": str(reminders.ids[0])}
    assert output.key == "k7"
    [message] = driver.read("in")
    assert (message.key, message.headers["sluicegate-timeout-id"]) == ("k7", str(reminders.ids[0]))
    driver.advance("1h")
    assert (driver.read("out"), driver.dead_letters()) == ([], [])


def test_the_clocks_of_a_country_move_no_deadline(in_zone: Callable[[str], None]) -> None:
    """Around the night of 29 March 2026, when an hour is left out in Berlin, and in Apia, which is a day ahead."""
    shown = []
    for zone in ("UTC", "Europe/Berlin", "Pacific/Apia"):
        in_zone(zone)
        with TestDriver(App("app", "memory://", (sums(since_first=5400.0),)), partitions=1) as driver:
            driver.advance("87d")
            driver.send("in", {"amount": 2}, key="a")
            driver.advance(5399.0)
            assert driver.read("out") == []
            driver.advance(1.0)
            shown += [driver.read("out")]
    assert len(shown[0]) == 1
    assert shown[0] == shown[1] == shown[2]


def test_another_topic_and_key_may_be_named(driver: TestDriver) -> None:
    ask(driver, "elsewhere", 3)
    driver.advance(60)
    [output] = driver.read("else")
    assert (output.key, output.raw) == ("other", b"[3]")


def test_two_of_one_call_are_two(driver: TestDriver) -> None:
    ask(driver, "two")
    driver.advance(60)
    assert told(driver) == [1]
    driver.advance(60)
    assert told(driver) == [2]


def test_what_is_cancelled_by_its_name_or_id_does_not_come(driver: TestDriver) -> None:
    ask(driver, "remind", 1)
    ask(driver, "remind", 2, name="x")
    ask(driver, "remind", 3, name="y")
    driver.advance(30)
    ask(driver, "cancel-id")
    ask(driver, "cancel", name="x")
    ask(driver, "cancel", name="nobody's")
    driver.advance(60)
    assert told(driver) == [3]


def test_of_a_name_there_is_one_at_a_time(driver: TestDriver) -> None:
    ask(driver, "remind", 1, name="x")
    driver.advance(30)
    ask(driver, "remind", 2, name="x")
    driver.advance(30)
    assert told(driver) == [1]
    driver.advance(60)
    assert told(driver) == []
    ask(driver, "remind", 3, name="x")
    driver.advance(60)
    assert told(driver) == [3]
    assert len(set(reminders.ids)) == 1


@pytest.mark.parametrize("way", ["inline", "session"])
def test_messages_of_one_commit_schedule_and_cancel_in_their_order(way: str) -> None:
    with TestDriver(an_app(**WAYS[way]), partitions=1) as driver:
        asked = [
            ("remind", 1, "x"),
            ("cancel", 0, "x"),
            ("remind", 2, "y"),
            ("cancel", 0, "y"),
            ("remind", 3, "y"),
            ("remind", 4, "y"),
        ]
        for do, n, name in asked:
            driver.log.append("in", 0, b"k", f'{{"do": "{do}", "n": {n}, "name": "{name}"}}'.encode())
        driver.advance(1)
        driver.advance(60)
        assert told(driver) == [3]


@pytest.mark.parametrize("way", ["inline", "session"])
def test_what_a_failed_call_scheduled_is_undone_with_it(way: str) -> None:
    reminders.fails[:] = [ValueError(), ValueError()]
    with TestDriver(an_app(**WAYS[way], attempts=2, backoff_first=1.0), partitions=1) as driver:
        ask(driver, "remind", 1)
        ask(driver, "remind", 2)
        driver.advance("5m")
        assert told(driver) == [2]
        assert [letter.value["n"] for letter in driver.dead_letters()] == [1]


def test_what_is_tried_again_has_scheduled_once() -> None:
    reminders.fails[:] = [ValueError()]
    with TestDriver(an_app(attempts=3, backoff_first=1.0), partitions=1) as driver:
        ask(driver, "remind", 1)
        driver.advance("5m")
        assert told(driver) == [1]
        assert len(reminders.ids) == 2
        assert len(set(reminders.ids)) == 1


def test_completed_groups_schedule_too() -> None:
    with TestDriver(an_app("of_batch", Aggregation(count=2))) as driver:
        driver.send("in", {}, key="k", times=2)
        assert driver.read("late") == []
        driver.advance(30)
        [output] = driver.read("late")
        assert (output.key, output.raw) == ("k", b'{"count":2}')


def test_what_cannot_be_meant_is_refused_in_words() -> None:
    with TestDriver(an_app("wrong")) as driver:
        driver.send("in", {}, key="k")
        values = [output.value for output in driver.read("out")]
        needs = "schedule() needs `after`, a time from 0 on, or `at`, and not both"
        zone = "schedule(): `at` is a datetime with a time zone, from 1970 on"
        assert values == [needs] * 5 + [zone] * 2 + ["schedule() of 2000001 bytes: a message may have 998976"]


def reminded(way: str, deaths: Deaths) -> list[Any]:
    """What comes of three reminders, one of them cancelled."""
    reminders.reset()
    with TestDriver(an_app(**WAYS[way]), partitions=2, deaths=deaths) as driver:
        for n in (1, 2, 3):
            ask(driver, "remind", n, name=f"n{n}")
        ask(driver, "cancel", name="n2")
        driver.advance(61)
        assert driver.dead_letters() == []
        return sorted(told(driver))


def wrong_after_deaths(way: str) -> set[str]:
    """The places where a death makes something else of it."""
    plain = Deaths()
    assert reminded(way, plain) == [1, 3]
    assert {*DISPATCHER} <= {*plain.reached}
    return {name for number, name in enumerate(plain.reached, 1) if reminded(way, Deaths(number)) != [1, 3]}


@pytest.mark.parametrize("way", ["inline", "session"])
def test_whatever_dies_wherever_each_reminder_comes_once(way: str) -> None:
    assert wrong_after_deaths(way) == set()


def test_without_dropping_repeats_one_that_is_sent_twice_counts_twice() -> None:
    with without("receive"):
        assert "lane-sent" in wrong_after_deaths("inline")


@pytest.mark.parametrize(
    "place", ["handler-running", "handler-done", "commit-asked", "commit-answered", "timeout-claimed", "lane-sent"]
)
def test_a_slow_handler_schedules_once_whatever_dies(place: str) -> None:
    with TestDriver(an_app(**WAYS["slow"])) as driver:
        driver.crash(place)
        ask(driver, "remind", 5)
        driver.advance(61)
        assert told(driver) == [5]
        assert driver.deaths.done == [place]
        assert len(set(reminders.ids)) == 1
