"""A worker warns once for each topic whose event times are years away from Kafka's timestamps."""

from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Aggregation, Destination, Window
from tests.unit.engine.driver import Driver, Log, ManualClock

NOW = 1_767_225_660


def an_agent(unit: Any, **more: Any) -> Agent:
    rule = Aggregation(window=Window(60.0, time="ts", unit=unit, max_ahead=1e12))
    return Agent("a", ("in", "in2"), rule, Destination("out"), "dead", **more)


def warned(log: Log, store: MemoryStore, clock: ManualClock, agent: Agent, times: Mapping[str, int]) -> list[Any]:
    log.create("in2", 1)
    driver = Driver(agent, store, log, clock)
    driver.input.give(*((topic, 0) for topic in times))
    with capture_logs() as lines:
        for _ in range(3):
            driver.turns()
            for topic, ts in times.items():
                log.append(topic, 0, b"k", b'{"ts": %d}' % ts, at=NOW * 1_000)
        driver.turns()
    return [line for line in lines if line["event"] == "times.implausible"]


def test_seconds_as_milliseconds_are_warned_of_once_for_each_topic(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    lines = warned(log, store, clock, an_agent("ms"), {"in": NOW, "in2": NOW})
    assert [(line["agent"], line["topic"], line["partition"], line["log_level"]) for line in lines] == [
        ("a", "in", 0, "warning"),
        ("a", "in2", 0, "warning"),
    ]
    assert lines[0]["text"] == (
        "the times in the field ts (unit: ms) are 56 years before Kafka's timestamps, such as "
        "1970-01-21T10:53:45.660Z; correct the `unit` of the time, if they have another one"
    )


@pytest.mark.parametrize(
    ("unit", "ts", "count"),
    [
        ("s", NOW, 0),
        ("ms", NOW * 1_000, 0),
        ("us", NOW * 1_000, 1),
        ("s", NOW - 9 * 31_557_600, 0),
        ("s", NOW + 11 * 31_557_600, 1),
    ],
)
def test_only_times_that_are_many_years_away(
    log: Log, store: MemoryStore, clock: ManualClock, unit: str, ts: int, count: int
) -> None:
    assert len(warned(log, store, clock, an_agent(unit), {"in": ts})) == count
