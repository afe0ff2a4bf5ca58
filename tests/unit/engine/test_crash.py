"""Crash poison: a record that kills the process three times becomes a dead letter; nothing else ever does."""

import json
import random
from typing import Any

import pytest
import structlog

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams.aggregation import accept
from sluicegate.streams.contracts.values import Changes, CrashMark, Partition
from sluicegate.streams.errors import Fenced, PersistenceError
from sluicegate.streams.outbox.rows import Rows
from sluicegate.streams.ownership import crash
from sluicegate.streams.ownership.crash import CrashMarks
from sluicegate.streams.ownership.owner import Owner
from tests.mutation.twins import without
from tests.unit.engine import scene
from tests.unit.engine.driver import Driver, Log, ManualClock
from tests.unit.engine.scene import DIES, an_agent, dead, feed, shown, totals, until_killed

PLACE = Partition("app", "sums", "in", 0)


def deaths(log: Log, store: MemoryStore, clock: ManualClock, most: int = 8) -> int:
    """Start a worker after each death until one lives on; how many died."""
    agent = an_agent(count=1, compute=(DIES,))
    for died in range(most):
        clock.now += 10
        if not until_killed(Driver(agent, store, log, clock).give(0)):
            return died
    return most


@pytest.mark.parametrize("place", [0, 1, 99, 100, 157, 299])
@pytest.mark.parametrize("size", [1, 300])
def test_a_record_that_kills_three_times_is_a_dead_letter_and_all_others_count(
    log: Log, store: MemoryStore, clock: ManualClock, place: int, size: int
) -> None:
    place = min(place, size - 1)
    feed(log, *[(f"k{n}", n) for n in range(size)])
    scene.deadly["now"] = lambda message: message["amount"] == place
    assert deaths(log, store, clock) == crash.DEATHS
    assert dead(log) == [(str(place), "crash")]
    assert sorted(r[0] for r in totals(log)) == sorted(f"k{n}" for n in range(size) if n != place)
    (letter,) = log.topics["dead"][0]
    assert (letter.k, letter.v) == (log.topics["in"][0][place].k, log.topics["in"][0][place].v)
    assert ("sluicegate-dead-attempts", b"3") in (letter.h or [])


def test_two_records_that_kill_are_both_found(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """The second is met in a later batch than the first after a claim: that first death leaves no mark."""
    feed(log, *[(f"k{n}", n) for n in range(400)])
    scene.deadly["now"] = lambda message: message["amount"] in (20, 350)
    assert deaths(log, store, clock) == 2 * crash.DEATHS + 1
    assert dead(log) == [("20", "crash"), ("350", "crash")]
    assert len(totals(log)) == 398


@pytest.mark.parametrize("copies", [1, 3])
def test_a_repeat_that_was_in_hand_when_three_processes_died_is_dropped(
    log: Log, store: MemoryStore, clock: ManualClock, copies: int
) -> None:
    """They died while they dropped it, for another reason: its first copy counted."""
    number = [("sluicegate-shard", b"app/a/src/0>in#token"), ("sluicegate-seq", b"7")]
    agent = an_agent(count=2, receive=("in",))
    log.append("in", 0, b"a", b'{"amount": 1}', number)
    Driver(agent, store, log, clock).give(0).turns()
    for _ in range(copies):
        log.append("in", 0, b"a", b'{"amount": 1}', number)
    claim = store.claim(PLACE, "m", "p")
    store.commit(claim, Changes(claim.offset, claim.epoch, trying=CrashMark(1, ("x", "y!", "z!", "w!"))))
    feed(log, ("a", 1))
    clock.now += 10
    driver = Driver(agent, store, log, clock).give(0).turns()
    assert dead(log) == []
    assert totals(log) == [("a", "count", 2, 2)]
    assert driver.worker.reports.of(clock.now).partitions[0].offset == 2 + copies


def test_a_record_that_ended_three_processes_is_found_behind_records_that_are_read_again(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """It is in one batch with them. It is not processed once more, and the record after it counts."""
    feed(log, *[("a", n) for n in range(6)])
    claim = store.claim(PLACE, "m", "p")
    store.commit(claim, Changes(3, 0, trying=CrashMark(3, ("x", "y+", "z!"))))
    clock.now += 10
    driver = Driver(an_agent(count=1, compute=(DIES,)), store, log, clock).give(0)
    start = driver.input.start
    driver.input.start = lambda topic, number, _, epoch: start(topic, number, 0, epoch)  # type: ignore[method-assign]
    driver.turns()
    assert dead(log) == [("3", "crash")]
    assert len(totals(log)) == 2


def test_without_crash_marks_such_a_record_stands_still_for_ever(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    feed(log, *[(f"k{n}", n) for n in range(30)])
    scene.deadly["now"] = lambda message: message["amount"] == 3
    with without("crash-marks"):
        assert deaths(log, store, clock, most=12) == 12


def killed_while_idle(log: Log, store: MemoryStore, clock: ManualClock) -> list[tuple[str | None, str | None]]:
    """One death in the middle, then kills of idle workers, each after one more good record; the dead letters."""
    feed(log, *[(f"k{n}", n) for n in range(150)])
    feed(log, ("k150", "once"))
    times = iter([True])
    scene.deadly["now"] = lambda message: message["amount"] == "once" and next(times, False)
    agent = an_agent(count=1, compute=(DIES,))
    assert until_killed(Driver(agent, store, log, clock).give(0))
    for n in range(6):
        clock.now += 10
        Driver(agent, store, log, clock).give(0).turns(8)
        feed(log, (f"good{n}", n))
    clock.now += 10
    Driver(agent, store, log, clock).give(0).turns(8)
    return dead(log)


def test_kills_of_idle_workers_never_count(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    assert killed_while_idle(log, store, clock) == []
    assert len(totals(log)) == 157


def test_when_a_mark_stands_over_idle_time_good_records_become_dead_letters(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Owner, "_mark", lambda self, offset: self.marks.opening(offset) if self.marks.step(offset) else None
    )
    assert killed_while_idle(log, store, clock) != []


def test_an_exception_or_a_stop_takes_the_mark_back(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    feed(log, ("a", 1))
    scene.deadly["now"] = lambda message: True
    for _ in range(5):
        clock.now += 10
        driver = Driver(an_agent(count=1, compute=(DIES,)), store, log, clock).give(0)
        with pytest.raises(scene.Killed):
            driver.worker.run(lambda: False)
    assert store._rows[PLACE].claim.trying is None
    scene.deadly.clear()
    Driver(an_agent(count=1, compute=(DIES,)), store, log, clock).give(0).turns()
    assert dead(log) == []
    assert len(totals(log)) == 1


def test_a_lost_partition_takes_the_mark_back_when_the_store_is_back(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """The commit is fenced, and clearing the mark fails at first."""
    feed(log, ("a", 1))
    driver = Driver(an_agent(count=1), store, log, clock).give(0)
    clear_crash_mark, failing = store.clear_crash_mark, [True, True]

    def refuses(*args: Any) -> None:
        if failing:
            failing.pop()
            raise PersistenceError("down")
        clear_crash_mark(*args)

    store.clear_crash_mark = refuses  # type: ignore[method-assign]
    commit = store.commit

    def fenced_once(claim: Any, changes: Any) -> Any:
        if changes.outbox and len(failing) == 2:
            store.claim(PLACE, "zombie", "m")
        return commit(claim, changes)

    store.commit = fenced_once  # type: ignore[method-assign]
    driver.turns(3)
    assert store._rows[PLACE].claim.trying is not None
    for _ in range(4):
        driver.later(1.1).turns(2)
    assert not failing
    assert store._rows[PLACE].claim.trying is None
    assert len(totals(log)) == 1


def test_a_commit_that_reads_nothing_keeps_the_mark_as_it_stands(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    """An expiry between a claim and its first record."""
    agent = an_agent(count=5, compute=(DIES,))
    feed(log, ("slow", 1))
    Driver(agent, store, log, clock).give(0).turns()
    feed(log, ("a", 1))
    scene.deadly["now"] = lambda message: True
    assert until_killed(Driver(agent, store, log, clock).give(0))
    mark = store._rows[PLACE].claim.trying
    clock.now += 60
    driver = Driver(agent, store, log, clock).give(0).turns(1)
    driver.input.pause([("in", 0)])
    driver.turns()
    assert len(totals(log)) == 1
    assert store._rows[PLACE].claim.trying == mark is not None


class Actor:
    """A living process that claims, marks, and cannot get on, as in a duel: only fenced commits, which it notices in
    the end."""

    def __init__(self, name: str, store: MemoryStore, clears: bool = True) -> None:
        self.name, self.store, self.clears = name, store, clears
        self.claim: Any = None
        self.marks, self.opened, self.poisoned = CrashMarks(name), False, False

    def step(self, token: str) -> None:
        if self.claim is None:
            self.claim, self.marks, self.opened = (
                self.store.claim(PLACE, token, self.name),
                CrashMarks(self.name),
                False,
            )
            self.marks.restore(self.claim.trying, max(0, self.claim.offset))
            self.poisoned |= self.marks.poisoned
            return
        try:
            if not self.opened:
                self.claim = self.store.commit(self.claim, Changes(0, trying=self.marks.opening(0)))
                self.opened = True
            elif self.store._rows[PLACE].claim.version != self.claim.version:
                raise Fenced("noticed")
        except Fenced:
            if self.clears and self.marks.names():
                self.store.clear_crash_mark(PLACE, self.claim.token, self.marks.names())
            self.claim = None


def duel(names: str, clears: bool) -> bool:
    """Living owners in any interleaving; did anybody ever find the record to be the cause?"""
    chance = random.Random(11)
    for _ in range(400):
        store = MemoryStore()
        actors = [Actor(name, store, clears) for name in names]
        for n in range(60):
            chance.choice(actors).step(f"token-{n}")
        if any(actor.poisoned for actor in actors):
            return True
    return False


def test_living_owners_who_duel_never_make_a_dead_letter() -> None:
    assert duel("AB", clears=True) is False


def test_when_one_death_in_one_record_is_enough_a_duel_makes_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash, "DEATHS", 1)
    assert duel("AB", clears=True) is True


def test_when_nobody_takes_its_mark_back_a_duel_of_four_makes_a_dead_letter() -> None:
    assert duel("ABCD", clears=False) is True


def test_two_owners_who_both_believe_make_progress_and_no_dead_letter(
    log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    agent = an_agent(count=1)
    one, two = (Driver(agent, store, log, clock).give(0) for _ in range(2))
    for n in range(60):
        feed(log, (f"k{n}", n))
        (one, two)[n % 2].later(0.3).turns(1 + n % 3)
    for _ in range(20):
        one.later(3).turns(1)
        two.turns(1)
    assert sorted(r[0] for r in totals(log)) == sorted(f"k{n}" for n in range(60))
    assert dead(log) == []
    assert shown(one)[1].keys() == {("in", 0)}


def test_a_mark_at_another_offset_is_of_the_past() -> None:
    marks = CrashMarks("me")
    marks.restore(CrashMark(5, ("a", "b+", "c!")), 6)
    assert (marks.poisoned, marks.step(6)) == (False, 0)


def test_the_steps_get_smaller_with_each_death() -> None:
    seen = []
    for names in [(), ("a",), ("a", "b+"), ("a", "b+", "c!")]:
        marks = CrashMarks("me")
        marks.restore(CrashMark(7, names), 7)
        seen.append((marks.step(7), marks.poisoned, marks.opening(7).processes))
    assert seen == [(0, False, ("me",)), (100, False, ("a", "me+")), (1, False, ("a", "b+", "me!")), (0, True, ("me",))]


def test_ones_own_name_is_no_suspect() -> None:
    marks = CrashMarks("me")
    marks.restore(CrashMark(7, ("me", "me+", "me!")), 7)
    assert (marks.step(7), marks.poisoned) == (0, False)


def test_three_deaths_are_no_proof_against_a_record_that_nobody_had_alone() -> None:
    marks = CrashMarks("me")
    marks.restore(CrashMark(7, ("a", "b+", "c+")), 7)
    assert (marks.poisoned, marks.step(7)) == (False, 1)


def broken(message: str, amounts: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine raise an error of its own at the records with these amounts. No rule is compiled: a loop leaves
    to the exact form what raises an error."""
    added = accept.add_to

    def adds(groups: Any, key: Any, state: Any, record: Any, *rest: Any) -> bool:
        if json.loads(record.value())["amount"] in amounts:
            raise ZeroDivisionError(message)
        return added(groups, key, state, record, *rest)

    monkeypatch.setattr(accept, "add_to", adds)
    monkeypatch.setattr(accept, "loop_of", lambda *args: None)


@pytest.mark.parametrize("at", [{0}, {157}, {20, 350}])
def test_an_error_of_the_engine_at_a_record_counts_like_a_death(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, at: set[int]
) -> None:
    """One process lives on, and no other record is lost or repeated."""
    feed(log, *[(f"k{n}", n) for n in range(400)])
    broken("secret 47", at, monkeypatch)
    driver = Driver(an_agent(count=1, compute=(DIES,)), store, log, clock).give(0)
    with structlog.testing.capture_logs() as lines:
        for _ in range(60):
            driver.later(3).turns(3)
    assert dead(log) == [(str(place), "crash") for place in sorted(at)]
    assert sorted(r[0] for r in totals(log)) == sorted(f"k{n}" for n in range(400) if n not in at)
    (letter, *_) = log.topics["dead"][0]
    error = dict(letter.h or [])["sluicegate-dead-error"] or b""
    assert error.startswith(b"the engine failed three times at this record; please report it: ZeroDivisionError in ")
    assert letter.v == log.topics["in"][0][min(at)].v
    faults = [line for line in lines if line["event"] == "partition.fault"]
    assert crash.DEATHS * len(at) <= len(faults) <= (crash.DEATHS + 1) * len(at)
    assert "secret" not in str(lines)


def test_other_partitions_go_on_meanwhile(
    store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = scene.a_log(partitions=2)
    feed(log, ("a", 13))
    feed(log, *[(f"k{n}", n + 100) for n in range(10)], number=1)
    broken("x", {13}, monkeypatch)
    driver = Driver(an_agent(count=1, compute=(DIES,)), store, log, clock).give(0, 1).turns(3)
    assert len(totals(log)) == 10
    state = {number: state for (_, number), (state, _) in shown(driver)[1].items()}
    assert state == {0: "claiming", 1: "running"}


def test_an_error_while_a_commit_is_made_is_of_the_record_that_stands_alone(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(log, *[(f"k{n}", n) for n in range(30)])
    made = Rows.make

    def makes(self: Any, events: Any) -> Any:
        if any(getattr(event, "key", b"") == b"k7" for event in events):
            raise KeyError("k7")
        return made(self, events)

    monkeypatch.setattr(Rows, "make", makes)
    driver = Driver(an_agent(count=1), store, log, clock).give(0)
    for _ in range(20):
        driver.later(3).turns(3)
    assert dead(log) == [("7", "crash")]
    assert len(totals(log)) == 29


def test_without_the_count_of_faults_such_a_record_ends_each_process(
    log: Log, store: MemoryStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(log, ("a", 13))
    broken("x", {13}, monkeypatch)
    with without("engine-faults"):
        for _ in range(6):
            clock.now += 10
            with pytest.raises(ZeroDivisionError):
                Driver(an_agent(count=1, compute=(DIES,)), store, log, clock).give(0).worker.run(lambda: False)
    assert dead(log) == []
