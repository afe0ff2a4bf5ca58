"""A log out of order under workers that die, and take partitions from one another: the windows that close by event time
are those of one pass over the log, and so are the late records."""

import json
import random
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sluicegate.connectors import open_store
from sluicegate.schemas import codec
from sluicegate.streams import failpoints
from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.events import Fire, Refused
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.windows import intake
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.tumbling_groups import TumblingGroups
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header, memory
from tests.unit.engine.scene import Killed, a_log
from tests.unit.engine.test_windows import NOW, windowed_agent

PARTITIONS = (0, 1)
RECORDS, ROUNDS = 400, 16
PLACES = ("after-poll", "after-decode", "before-commit", "after-commit", "expire-selected", "after-claim", "in-restore")
# the clock closes nothing
AGENT = windowed_agent(Window(5.0, grace=2.0, idle=1e9, at_most=1e9), where="amount > 0")

Found = tuple[list[tuple[Any, ...]], list[tuple[int, int]]]
"""Key, window, first and last offset and total of each result, and the place of each late record."""


def fill(log: Log, chance: random.Random, first: int, last: int) -> None:
    for number in PARTITIONS:
        for index in range(first, last):
            at = NOW * 1000 + index * 150 - round(chance.random() ** 3 * 12_000)
            value = json.dumps({"amount": chance.randint(-1, 9)}).encode()
            log.append("in", number, chance.choice([b"a", b"b", b"c"]), value, at=at)


def expected(log: Log) -> Found:
    """One pass, record by record."""
    results: list[tuple[Any, ...]] = []
    late: list[tuple[int, int]] = []
    for number in PARTITIONS:
        groups = TumblingGroups(Rule(AGENT, codec("json")), AGENT.aggregation.window)
        for record in log.topics["in"][number]:
            intake.take(groups, [record], NOW, None)
            for event in groups.drain():
                if isinstance(event, Fire) and event.window is not None:
                    place = number, event.first, event.last
                    results.append((event.key.decode(), event.window.start, *place, event.values["total"]))
                elif isinstance(event, Refused):
                    late.append((number, event.record.offset()))
    return sorted(results), sorted(late)


def found(log: Log) -> Found:
    results: list[tuple[Any, ...]] = []
    for message in distinct(log, "out"):
        result = json.loads(message.v or b"")
        assert result["window"]["closed_by"] == "event"
        _, number, first = (header(message, "sluicegate-first") or "").split("/")
        last = (header(message, "sluicegate-last") or "").rpartition("/")[2]
        start = round(1000 * header_start(message))
        results.append((result["key"], start, int(number), int(first), int(last), result["total"]))
    letters = distinct(log, "dead")
    assert {header(letter, "sluicegate-dead-reason") for letter in letters} <= {"late"}
    late = [tuple(int(header(e, f"sluicegate-dead-{n}") or -1) for n in ("partition", "offset")) for e in letters]
    return sorted(results), sorted(late)  # type: ignore[arg-type]


def header_start(message: Any) -> float:
    return datetime.fromisoformat((header(message, "sluicegate-window") or "").partition("/")[0]).timestamp()


def play(url: str, folder: Path, seed: int) -> tuple[Found, Found]:
    chance, clock = random.Random(seed), ManualClock()
    log = a_log(partitions=len(PARTITIONS))
    store = memory(clock) if url == "memory://" else open_store(url, str(folder))
    store.migrate()
    for round_ in range(ROUNDS):
        fill(log, chance, round_ * RECORDS // ROUNDS, (round_ + 1) * RECORDS // ROUNDS)
        driver = Driver(AGENT, store, log, clock)
        driver.give(*PARTITIONS) if chance.random() < 0.7 else driver.give(chance.choice(PARTITIONS))
        place, times = chance.choice(PLACES), chance.randint(1, 6)
        with failpoints.watched(Dying(place, times).reach), suppress(Killed):
            driver.turns(chance.randint(2, 9))
        clock.now += 6.0
    Driver(AGENT, store, log, clock).give(*PARTITIONS).turns(40)
    store.close()
    return found(log), expected(log)


class Dying:
    """The process dies when it is at the place for this time."""

    def __init__(self, place: str, times: int) -> None:
        self._place, self._left = place, times

    def reach(self, place: str) -> None:
        self._left -= place == self._place
        if not self._left:
            raise Killed


@pytest.mark.parametrize("url", ["memory://", "sqlite:///state.db"])
@pytest.mark.parametrize("seed", range(6))
def test_the_results_are_those_of_one_pass(url: str, seed: int, tmp_path: Path) -> None:
    got, wanted = play(url, tmp_path, seed)
    assert got == wanted
    assert len(wanted[0]) > 50
    assert len(wanted[1]) > 5


def test_a_watermark_that_is_not_in_the_log_of_the_partition_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventClock, "restore", lambda self, state: None)
    assert any(got != wanted for got, wanted in (play("memory://", tmp_path, seed) for seed in range(4)))


def test_state_that_is_restored_without_its_last_entry_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = Changelog._replay

    def short(self: Changelog, blobs: Any, first: int, last: int, senders: Any) -> None:
        kept = list(blobs)
        replay(self, kept[: len(kept) - 1 or None], first, last - (len(kept) > 1), senders)
        self.last = last

    monkeypatch.setattr(Changelog, "_replay", short)
    assert any(got != wanted for got, wanted in (play("memory://", tmp_path, seed) for seed in range(4)))
