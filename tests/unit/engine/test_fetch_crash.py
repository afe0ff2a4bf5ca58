"""A batch of records that ends the process while it is fetched: the partition halts at it, and all others go on."""

from collections.abc import Sequence

import pytest

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.accepting import Gap, Reported, accept, preview
from sluicegate.streams.ownership import crash, fetching
from sluicegate.streams.testing.log import LogInput
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, ManualClock, memory
from tests.unit.engine.scene import Killed, a_log, an_agent, feed, shown, totals, until_killed

PLACE = Partition("app", "sums", "in", 0)
TOGETHER = 8  # records that one answer of the broker has, in batches of one


class BombInput(LogInput):
    """The client unpacks an answer before it gives the first record: one of `bombs` in it ends the process."""

    bombs: Sequence[int] = ()
    damaged = False  # they cannot be unpacked, and end nothing
    apart: tuple[str, int] | None = None
    waits = False  # a batch was given: the next one is fetched after `resume`

    def resume(self, partitions: Sequence[tuple[str, int]]) -> None:
        super().resume(partitions)
        self.waits = self.waits and self.apart not in partitions

    def start(self, topic: str, number: int, offset: int, epoch: int, apart: bool = False) -> None:
        super().start(topic, number, offset, epoch)
        if apart:
            self.apart, self.waits = (topic, number), False
        elif self.apart == (topic, number):
            self.apart = None

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        at = self.positions.get(("in", 0))
        if at is not None and ("in", 0) not in self.paused and not (self.waits and self.apart == ("in", 0)):
            reach = 1 if self.apart == ("in", 0) else TOGETHER
            if any(at <= bomb < at + reach for bomb in self.bombs):
                self._unpack()
                return []
        return self._taken(most, timeout)

    def _taken(self, most: int, timeout: float) -> list[Record]:
        place = self.apart
        if place is None:
            return super().consume(min(most, TOGETHER), timeout)
        records = [] if self.waits or place in self.paused else self.log.after(*place, self.positions[place], 1)
        if records:
            self.positions[place], self.waits = records[0].o + 1, True
            return list(records)
        paused, self.paused = self.paused, {*self.paused, place}
        others = super().consume(min(most, TOGETHER), timeout)
        self.paused = paused
        return others

    def _unpack(self) -> None:
        if not self.damaged:
            raise Killed
        self.failed.append((("in", 0), "unfetchable", "Decompression failed"))


class Scene:
    """Two partitions with 20 records each."""

    def __init__(self, *bombs: int, damaged: bool = False) -> None:
        self.clock, self.log = ManualClock(), a_log(partitions=2)
        self.store, self.agent = memory(self.clock), an_agent(count=1)
        self.bombs, self.damaged = bombs, damaged
        for number in (0, 1):
            feed(self.log, *[(f"{number}-{n}", n) for n in range(20)], number=number)
        self.start()

    def start(self) -> None:
        self.clock.now += 10
        self.driver = Driver(self.agent, self.store, self.log, self.clock)
        self.driver.input.__class__ = BombInput
        self.driver.input.bombs, self.driver.input.damaged = self.bombs, self.damaged  # type: ignore[attr-defined]
        self.driver.give(0, 1)

    def deaths(self, most: int = 9) -> int:
        """Start a worker after each death until one lives on."""
        for died in range(most):
            if not any(until_killed(self.driver.later(1.0), 4) for _ in range(30)):
                return died
            self.start()
        return most

    @property
    def keys(self) -> list[str]:
        return sorted(key for key, *_ in totals(self.log))

    def accepted(self, to: int = -1) -> Gap | None:
        facts = lambda: self.driver.input.facts("in", 0)  # noqa: E731
        return accept(self.store, self.agent, PLACE, facts, Person("ann", "seen", f"{to}"), reported=Reported(to=to))

    def goes_on(self) -> None:
        for _ in range(4):
            self.driver.later(6).turns(4)


OTHERS = [f"1-{n}" for n in range(20)]


def before(bomb: int) -> list[str]:
    return sorted([*(f"0-{n}" for n in range(bomb)), *OTHERS])


@pytest.mark.parametrize("bomb", [0, 1, 5, 12, 19])
def test_the_partition_halts_at_the_batch_and_what_lies_before_it_and_beside_it_is_processed(bomb: int) -> None:
    scene = Scene(bomb)
    assert scene.deaths() <= crash.DEATHS + 3  # the first ones fetched other partitions, too
    state = shown(scene.driver)
    assert state[0] == ["halted in/0: unfetchable"]
    assert state[1]["in", 0] == ("halted", "unfetchable")
    (report,) = [p for p in scene.driver.worker.describe(scene.clock.now).partitions if p.number == 0]
    assert f"3 processes ended while they fetched the records at offset {bomb}:" in (report.detail or "")
    assert "sluicegate accept-gap" in (report.detail or "")
    assert scene.keys == before(bomb)
    feed(scene.log, ("1-late", 1), number=1)
    scene.driver.turns(4)
    assert "1-late" in scene.keys


def test_the_next_process_fetches_it_no_more() -> None:
    scene = Scene(3)
    scene.deaths()
    for _ in range(3):
        scene.start()
        assert scene.deaths() == 0
        assert shown(scene.driver)[1]["in", 0] == ("halted", "unfetchable")


def test_with_more_memory_an_operator_has_it_fetched_again() -> None:
    scene = Scene(3)
    scene.deaths()
    scene.driver.input.bombs = ()  # type: ignore[attr-defined]
    gap = scene.accepted()
    assert gap is not None
    assert (gap.error.code, gap.offset, gap.text) == (
        "unfetchable", 3, "it goes on at offset 3, and fetches these records again"
    )  # fmt: skip
    scene.goes_on()
    assert scene.keys == before(20)


def test_an_operator_has_it_go_on_behind_the_batch() -> None:
    scene = Scene(3)
    scene.deaths()
    gap = scene.accepted(to=5)
    assert gap is not None
    assert gap.text == "it goes on at offset 5; 2 offsets before it are passed over, without dead letters"
    scene.goes_on()
    assert scene.keys == sorted(key for key in before(20) if key not in ("0-3", "0-4"))


@pytest.mark.parametrize("bomb", [0, 7])
def test_a_batch_that_cannot_be_unpacked_halts_after_the_records_before_it(bomb: int) -> None:
    scene = Scene(bomb, damaged=True)
    assert scene.deaths() == 0
    assert shown(scene.driver)[1]["in", 0] == ("halted", "unfetchable")
    assert scene.keys == before(bomb)
    assert preview(scene.store, scene.agent, PLACE, lambda: scene.driver.input.facts("in", 0)) is None
    assert scene.accepted(to=bomb + 1) is not None
    scene.goes_on()
    assert scene.keys == sorted(set(before(20)) - {f"0-{bomb}"})


@pytest.mark.parametrize("backlog", [True, False])
def test_kills_of_workers_whose_fetch_ends_nothing_never_count(backlog: bool) -> None:
    """The log ends with marks of transactions, say: there is something to fetch, and no record comes."""
    clock, log = ManualClock(), a_log()
    store, agent = memory(clock), an_agent(count=1)
    feed(log, ("a", 1))
    Driver(agent, store, log, clock).give(0).turns()
    if backlog:
        feed(log, ("b", 2))
    for _ in range(6):
        driver = Driver(agent, store, log, clock)
        driver.give(0)
        driver.input.consume = lambda most, timeout=0.0: []  # type: ignore[method-assign]
        driver.turns(3)
        driver.later(70).turns(3)
    driver = Driver(agent, store, log, clock).give(0).later(5).turns(8)
    assert shown(driver)[1]["in", 0][0] == "running"
    assert len(totals(log)) == 1 + backlog


def test_a_process_that_lives_takes_its_mark_back() -> None:
    scene = Scene(0, damaged=True)
    for _ in range(4):
        scene.deaths()
        scene.driver.worker.run(lambda: True)
        assert scene.store._rows[PLACE].claim.trying is None
        scene.start()


def test_without_the_mark_before_the_fetch_each_process_dies() -> None:
    with without("fetch-marks"):
        assert Scene(3).deaths(12) == 12


def test_without_fetching_apart_records_before_the_batch_are_not_processed() -> None:
    with without("fetch-apart"):
        scene = Scene(5)
        scene.deaths(12)
        assert scene.keys != before(5)


def test_without_patience_kills_of_idle_workers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PATIENCE", 1e9)
    with pytest.raises(AssertionError):
        test_kills_of_workers_whose_fetch_ends_nothing_never_count(True)
