"""A batch of records that ends the process that fetches it: the partition halts at it, all others go on, and kills for
other reasons blame nobody."""

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from sluicegate.streams.contracts.record import Record
from sluicegate.streams.contracts.values import UNFETCHABLE, Fetchable, Partition
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.accepting import Gap, Reported, accept, preview
from sluicegate.streams.testing.log import LogInput, LogProbe
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, ManualClock, memory
from tests.unit.engine.scene import Killed, a_log, an_agent, feed, shown, totals, until_killed

PLACE = Partition("app", "sums", "in", 0)
TOGETHER = 8  # records that one answer of the broker has, in batches of one


class SlowProbe(LogProbe):
    """Its result comes when it is asked the second time."""

    asked = 0
    closed = False

    def result(self) -> Fetchable | None:  # type: ignore[override]
        self.asked += 1
        return super().result() if self.asked > 1 else None

    def close(self) -> None:
        self.closed = True


class BombInput(LogInput):
    """The client unpacks an answer before it gives the first record: one of `bombs` in it ends the process."""

    bombs: Sequence[int] = ()
    damaged = False  # they cannot be unpacked, and end nothing
    bounds: dict[tuple[str, int], int]
    probes: list[SlowProbe]

    def probe(self, topic: str, number: int, offset: int) -> LogProbe:
        ahead = [bomb for bomb in self.bombs if number == 0 and offset <= bomb < offset + TOGETHER]
        self.probes.append(SlowProbe(Fetchable(ahead[0], "3 processes ended") if ahead else Fetchable()))
        return self.probes[-1]

    def bound(self, topic: str, number: int, until: int) -> None:
        if until < 0:
            self.bounds.pop((topic, number), None)
        else:
            self.bounds[topic, number] = until

    def bound_reached(self, topic: str, number: int) -> bool:
        return self.positions[topic, number] >= self.bounds.get((topic, number), 1 << 60)

    def consume(self, most: int, timeout: float = 0.0) -> list[Record]:
        at, until = self.positions.get(("in", 0)), self.bounds.get(("in", 0))
        if at is None or ("in", 0) in self.paused:
            return super().consume(min(most, TOGETHER), timeout)
        if until is None:
            if any(at <= bomb < at + TOGETHER for bomb in self.bombs):
                self._unpack()
                return []
            return super().consume(min(most, TOGETHER), timeout)
        if at < until:
            return super().consume(1, timeout)
        paused, self.paused = self.paused, {*self.paused, ("in", 0)}
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

    def start(self, probes_first: bool = False) -> None:
        self.clock.now += 10
        self.driver = Driver(self.agent, self.store, self.log, self.clock, probes_first=probes_first)
        source = self.driver.input
        source.__class__ = BombInput
        assert isinstance(source, BombInput)
        source.bombs, source.damaged, source.bounds, source.probes = self.bombs, self.damaged, {}, []
        self.source = source
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
    assert scene.deaths() <= 3  # the first ones read the records before the answer with the batch
    state = shown(scene.driver)
    assert state[0] == ["halted in/0: unfetchable"]
    assert state[1]["in", 0] == ("halted", "unfetchable")
    (report,) = [p for p in scene.driver.worker.reports.of(scene.clock.now).partitions if p.number == 0]
    assert f"the batch of records at offset {bomb} cannot be fetched: 3 processes ended;" in (report.detail or "")
    assert "sluicegate accept-gap" in (report.detail or "")
    assert "one more than the lastOffset of this batch, which `kafka-dump-log.sh" in (report.detail or "")
    assert scene.keys == before(bomb)
    feed(scene.log, ("1-late", 1), number=1)
    scene.driver.turns(4)
    assert "1-late" in scene.keys


def test_a_probe_that_fails_itself_is_logged_and_the_partition_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(3)
    assert any(until_killed(scene.driver.later(1.0), 4) for _ in range(30))
    monkeypatch.setattr(BombInput, "probe", lambda *_: LogProbe(Fetchable(failure="it did not begin")))
    scene.bombs = ()
    scene.start()
    with capture_logs() as lines:
        scene.driver.later(1.0).turns(9)
    events = [line for line in lines if line["event"] == "partition.probe_failed"]
    assert ("in", 0, 0, "it did not begin") in [(e["topic"], e["partition"], e["offset"], e["error"]) for e in events]
    assert scene.keys == before(20)


@pytest.mark.parametrize("clean", [True, False])
def test_the_next_process_probes_too_and_fetches_it_no_more(clean: bool) -> None:
    scene = Scene(3)
    scene.deaths()
    for _ in range(3):
        if clean:
            scene.driver.worker.run(lambda: True)
        scene.start()
        assert scene.deaths() == 0
        assert shown(scene.driver)[1]["in", 0] == ("halted", "unfetchable")


def test_the_next_process_goes_on_by_itself_if_it_has_the_memory() -> None:
    scene = Scene(3)
    scene.deaths()
    scene.bombs = ()
    scene.start()
    scene.goes_on()
    assert scene.keys == before(20)
    row = scene.store._rows[PLACE].claim
    assert row.trying is None


def test_with_more_memory_an_operator_has_it_fetched_again() -> None:
    scene = Scene(3)
    scene.deaths()
    scene.source.bombs = ()
    gap = scene.accepted()
    assert gap is not None
    assert (gap.error.code, gap.offset, gap.text) == (
        "unfetchable", 3, "it goes on at offset 3, and fetches these records again"
    )  # fmt: skip
    scene.goes_on()
    assert scene.keys == before(20)


def test_without_more_memory_it_is_probed_again_and_ends_nothing() -> None:
    scene = Scene(3)
    scene.deaths()
    for to in (-1, 4):
        scene.source.bombs = range(3, 6)
        assert scene.accepted(to) is not None
        assert scene.deaths() == 0
        assert shown(scene.driver)[1]["in", 0] == ("halted", "unfetchable")


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
    facts = lambda: scene.driver.input.facts("in", 0)  # noqa: E731
    assert preview(scene.store, scene.agent, PLACE, facts) is not None
    assert scene.accepted(to=bomb + 1) is not None
    scene.goes_on()
    assert scene.keys == sorted(set(before(20)) - {f"0-{bomb}"})


def storm(scene: Scene, kills: int = 12) -> None:
    """Kill -9 again and again, between the claim and the first record."""
    for _ in range(kills):
        scene.driver.input.consume = lambda most, timeout=0.0: []  # type: ignore[method-assign]
        scene.driver.input.poll = lambda timeout: None  # type: ignore[method-assign]
        scene.driver.turns(3)
        scene.start()


def test_a_storm_of_kills_blames_nobody_and_costs_a_probe() -> None:
    scene = Scene()
    storm(scene)
    scene.driver.turns(1)
    reasons, states = shown(scene.driver)
    assert states["in", 0] == ("restoring", None)
    assert any("a process of its own fetches them first" in reason for reason in reasons)
    scene.driver.turns(8)
    assert scene.keys == before(20)
    assert shown(scene.driver)[0] == []
    assert [probe.asked for probe in scene.source.probes] == [2, 2]
    assert scene.source.bounds == {}
    assert all(row.claim.trying is None for row in scene.store._rows.values())


def test_a_process_that_lets_go_or_commits_is_no_suspect() -> None:
    scene = Scene()
    scene.driver.turns(2)  # claimed, and read
    scene.start()
    scene.driver.turns(1)
    scene.driver.worker.run(lambda: True)
    scene.start()
    scene.driver.turns(8)
    assert scene.keys == before(20)
    assert scene.source.probes == []


def long_lived(scene: Scene) -> None:
    """All records are processed, and more commits are made than those of a first fetch; then more records come."""
    for _ in range(12):
        scene.driver.later(6.0).turns(4)
    assert scene.keys == before(20)
    for number in (0, 1):
        feed(scene.log, *[(f"{number}-late-{n}", n) for n in range(5)], number=number)


@pytest.mark.parametrize(("probes_first", "deaths"), [(True, 0), (False, 1)])
def test_after_a_death_for_lack_of_memory_each_partition_with_records_is_probed_before_another_process_dies(
    probes_first: bool, deaths: int
) -> None:
    scene = Scene()
    long_lived(scene)
    scene.bombs = (22,)
    scene.start(probes_first)
    assert scene.deaths() == deaths
    assert shown(scene.driver)[1]["in", 0] == ("halted", "unfetchable")
    assert {"0-late-0", "0-late-1", "1-late-4"} <= set(scene.keys)
    assert "0-late-2" not in scene.keys


def test_after_a_death_for_lack_of_memory_each_partition_is_probed_once_and_none_without_records() -> None:
    scene = Scene()
    long_lived(scene)
    scene.start(probes_first=True)
    scene.driver.turns(8)
    assert len(scene.keys) == 50
    assert [probe.asked for probe in scene.source.probes] == [2, 2]
    scene.driver.input.take(("in", 0))
    scene.driver.turns(2)
    feed(scene.log, ("0-again", 1), number=0)
    scene.driver.give(0)
    scene.driver.turns(6)
    assert "0-again" in scene.keys
    assert len(scene.source.probes) == 2
    scene.start(probes_first=True)
    scene.driver.turns(8)
    feed(scene.log, ("0-last", 1), number=0)
    scene.driver.turns(4)
    assert "0-last" in scene.keys
    assert scene.source.probes == []


def test_a_revoked_partition_is_probed_no_longer() -> None:
    scene = Scene()
    storm(scene)
    scene.driver.turns(1)
    scene.driver.input.take(("in", 0))
    scene.driver.turns(1)
    assert scene.source.probes[0].closed
    scene.driver.turns(8)
    assert scene.keys == sorted(OTHERS)


def test_the_mark_of_the_halt_is_in_the_row() -> None:
    scene = Scene(3)
    scene.deaths()
    mark = scene.store._rows[PLACE].claim.trying
    assert mark is not None
    assert (mark.offset, mark.processes[-1]) == (3, UNFETCHABLE)


def test_without_the_probe_each_process_dies() -> None:
    with without("probe"):
        assert Scene(3).deaths(12) == 12


def test_without_the_bound_the_records_before_the_batch_end_the_process() -> None:
    with without("probe-bound"):
        scene = Scene(5)
        assert scene.deaths(12) == 12


def test_without_a_death_as_proof_the_storm_halts_an_innocent_partition() -> None:
    with without("probe-proof"):
        scene = Scene()
        storm(scene)
        scene.driver.turns(8)
        assert scene.keys != before(20)
