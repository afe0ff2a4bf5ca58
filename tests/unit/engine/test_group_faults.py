"""Errors of the engine while a group ends, and while a partition is taken over: the group becomes a dead letter after
the third time, the partition is tried again, and everything else goes on."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import structlog

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.agent import Agent, Handler, Window
from sluicegate.streams.aggregation import group_faults
from sluicegate.streams.aggregation.compiled.compiler import MadeFunction
from sluicegate.streams.aggregation.durable.changelog import Changelog
from sluicegate.streams.aggregation.firing import Emitter
from sluicegate.streams.aggregation.rule import Rule
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead import dead_groups
from sluicegate.streams.operations.dead.dead_letters import letters
from sluicegate.streams.outbox import rows
from sluicegate.streams.outbox.rows import Rows
from tests.mutation.twins import without
from tests.unit.engine import handlers, scene
from tests.unit.engine.driver import Driver, Log, ManualClock, distinct, header
from tests.unit.engine.scene import COMPUTE, an_agent, dead, feed, shown, totals

BAD = 47
TUMBLING = Window(10.0, time="amount", unit="s", max_ahead=1e12)
HOPPING = Window(10.0, kind="hopping", every=5.0, time="amount", unit="s", max_ahead=1e12)


def in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Rule.values

    def raises(self: Rule, state: Any, bags: Any) -> dict[str, Any]:
        if (made := values(self, state, bags))["total"] == BAD:
            raise ZeroDivisionError("secret 47")
        return made

    monkeypatch.setattr(Rule, "values", raises)


def in_results(monkeypatch: pytest.MonkeyPatch) -> None:
    emit = Emitter.emit

    def raises(self: Emitter, fire: Any) -> None:
        if fire.values["total"] == BAD:
            raise ZeroDivisionError("secret 47")
        emit(self, fire)

    monkeypatch.setattr(Emitter, "emit", raises)


def in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    fire = Rows._fire

    def raises(self: Rows, event: Any, dead: Any) -> Any:
        if dead is None and event.values["total"] == BAD:
            raise ZeroDivisionError("secret 47")
        return fire(self, event, dead)

    monkeypatch.setattr(Rows, "_fire", raises)
    monkeypatch.setattr(rows, "row_loop", lambda form: MadeFunction(None, ""))  # type: ignore[arg-type]


PLACES: list[Callable[[pytest.MonkeyPatch], None]] = [in_values, in_results, in_rows]


def fed(log: Log) -> None:
    """Three groups of two records; that of `b` has the sum BAD."""
    feed(log, ("a", 1), ("b", 40), ("c", 3), ("a", 1), ("b", 7), ("c", 3))


def driven(log: Log, store: MemoryStore, clock: ManualClock, **rule: Any) -> list[dict[str, Any]]:
    """Run for a minute. Returns the lines of the log."""
    driver = Driver(an_agent(**{"count": 9, "since_first": 30.0} | rule), store, log, clock).give(0)
    with structlog.testing.capture_logs() as lines:
        for _ in range(20):
            driver.later(3).turns(3)
    return list(lines)


@pytest.mark.parametrize("fails", PLACES)
def test_a_group_that_ends_by_its_deadline_is_a_dead_letter_after_the_third_time(
    fails: Any, log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(log)
    fails(monkeypatch)
    lines = driven(log, store, clock)
    assert sorted(totals(log)) == [("a", "timeout", 2, 2), ("c", "timeout", 2, 6)]
    (letter,) = distinct(log, "dead")
    headers = [header(letter, f"sluicegate-dead-{name}") for name in ("reason", "stage", "attempts", "offset")]
    assert headers == ["crash", "crash", "3", "1"]
    assert [header(letter, f"sluicegate-{name}") for name in ("first", "last", "count")] == ["in/0/1", "in/0/4", "2"]
    why = "the engine failed three times at this group; please report it: ZeroDivisionError in "
    assert (header(letter, "sluicegate-dead-error") or "").startswith(why)
    assert (letter.k, json.loads(letter.v or b"null")["total"]) == (b"b", BAD)
    assert [line["event"] for line in lines].count("partition.fault") == group_faults.DEATHS
    assert "secret" not in str(lines)


def broken_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computing the field raises where its value is BAD."""
    made = Rule.__init__

    def breaks(self: Rule, *args: Any) -> None:
        made(self, *args)
        ((name, read),) = self.plan.reads

        def reads(state: Any, bags: Any) -> Any:
            if (value := read(state, bags)) == BAD:
                raise ZeroDivisionError
            return value

        self.plan = self.plan._replace(reads=((name, reads),))

    monkeypatch.setattr(Rule, "__init__", breaks)


def test_a_field_that_cannot_be_computed_is_not_in_the_letter(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(log)
    broken_field(monkeypatch)
    driven(log, store, clock)
    (letter,) = distinct(log, "dead")
    assert "total" not in json.loads(letter.v or b"null")
    assert len(totals(log)) == 2


@pytest.mark.parametrize("fails", PLACES)
@pytest.mark.parametrize("window", [TUMBLING, HOPPING])
def test_the_records_that_end_the_group_are_not_its_cause(
    fails: Any, window: Window, log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each later record closes the window of the first one. None of them becomes a dead letter."""
    feed(log, ("b", BAD), ("a", 60), ("a", 80), ("a", 100))
    fails(monkeypatch)
    driven(log, store, clock, count=None, since_first=None, window=window)
    windows = 2 if window is HOPPING else 1
    assert dead(log) == [("0", "crash")] * windows
    assert [total for _, _, _, total in totals(log)] == [60] * windows + [80] * windows


def test_a_group_that_a_count_ends_keeps_its_records_together(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(log)
    in_rows(monkeypatch)
    driven(log, store, clock, count=2)
    assert (dead(log), sorted(totals(log))) == ([("1", "crash")], [("a", "count", 2, 2), ("c", "count", 2, 6)])


def test_without_the_count_such_a_group_is_tried_without_end(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(log)
    in_results(monkeypatch)
    with without("group-faults"):
        lines = driven(log, store, clock)
    assert (dead(log), totals(log)) == ([], [])
    assert [line["event"] for line in lines].count("partition.fault") > 2 * group_faults.DEATHS


def broken_restore(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Restoring partition 0 raises, until the returned function is called."""
    replay, broken = Changelog.replay, [True]

    def raises(self: Changelog, entries: Any, first: int, last: int, senders: Any) -> None:
        if broken and entries:
            raise ZeroDivisionError("secret 47")
        replay(self, entries, first, last, senders)

    monkeypatch.setattr(Changelog, "replay", raises)
    return broken.clear


def test_an_error_while_a_partition_is_restored_is_of_this_partition(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = scene.a_log(partitions=2)
    agent = an_agent(count=2, compute=COMPUTE)
    feed(log, ("a", 1))
    Driver(agent, store, log, clock).give(0).turns()
    mended = broken_restore(monkeypatch)
    feed(log, ("a", 2))
    feed(log, ("b", 3), ("b", 4), number=1)
    driver = Driver(agent, store, log, clock).give(0, 1)
    with structlog.testing.capture_logs() as lines:
        for _ in range(6):
            driver.later(3).turns(2)
    assert [total for *_, total in totals(log)] == [7]
    reasons, states = shown(driver)
    assert [reason.partition(": ")[2] for reason in reasons] == [states_text(driver)]
    assert states_text(driver).startswith("the engine failed, please report it: ZeroDivisionError in ")
    assert {number: state for (_, number), (state, _) in states.items()} == {0: "claiming", 1: "running"}
    faults = [line for line in lines if line["event"] == "partition.fault"]
    assert len(faults) > 3
    assert "secret" not in str(lines)
    mended()
    driver.later(3).turns(4)
    assert sorted(total for *_, total in totals(log)) == [3, 7]
    assert (dead(log), shown(driver)[0]) == ([], [])


def states_text(driver: Driver) -> str | None:
    """What `status` shows of partition 0."""
    return next(p.detail for p in driver.worker.reports.of(driver.clock.now).partitions if p.number == 0)


def test_without_the_net_such_an_error_ends_the_process(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = an_agent(count=2, compute=COMPUTE)
    feed(log, ("a", 1))
    Driver(agent, store, log, clock).give(0).turns()
    broken_restore(monkeypatch)
    with without("restore-net"), pytest.raises(ZeroDivisionError):
        Driver(agent, store, log, clock).give(0).turns()


def retried(log: Log, store: MemoryStore, agent: Agent) -> None:
    """As `dead retry` of the one group that is a dead letter."""

    def read(ranges: Mapping[TopicPartition, tuple[int, int]]) -> list[Any]:
        return [m for place, (start, end) in ranges.items() for m in log.after(*place, start, 1000) if m.offset() < end]

    whole = [letter for letter in letters(log.topics["dead"][0], "app", ["sums"]) if letter.whole]
    made, rest = dead_groups.groups("app", agent, whole, read)
    assert (len(made), rest) == (1, [])
    assert dead_groups.retry(store, "app", agent, made, lambda: Person("me", "mended", "hand 1"), False) == (1, [])


@pytest.mark.parametrize("function", ["", f"{handlers.__name__}:result"])
@pytest.mark.parametrize("field", [False, True])
def test_the_group_comes_again_with_dead_retry(
    function: str, field: bool, log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(log)
    agent = an_agent(count=9, since_first=30.0)
    agent = replace(agent, handler=Handler((function,))) if function else agent
    with monkeypatch.context() as broken:
        broken_field(broken) if field else in_results(broken)
        driver = Driver(agent, store, log, clock).give(0)
        for _ in range(20):
            driver.later(3).turns(3)
    assert (dead(log), len(distinct(log, "out"))) == ([("1", "crash")], 2)
    retried(log, store, agent)
    driver = Driver(agent, store, log, clock).give(0)
    for _ in range(3):
        driver.later(3).turns(4)
    assert len(distinct(log, "out")) == 3
    document = json.loads(distinct(log, "out")[-1].v or b"null")
    assert document.get("total", document.get("sum")) == BAD
