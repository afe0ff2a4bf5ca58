"""The record of a dead letter goes back as it was, once: whoever asks twice, or was killed on the way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from sluicegate.connectors.memory.state import MemoryStore
from sluicegate.streams import failpoints
from sluicegate.streams.contracts.headers import MAC
from sluicegate.streams.contracts.ids import retry_id
from sluicegate.streams.contracts.record import Headers, Record
from sluicegate.streams.contracts.stores import TopicPartition
from sluicegate.streams.contracts.values import Claim, OutboxRow, Partition
from sluicegate.streams.errors import SystemNotReady
from sluicegate.streams.journal import journal
from sluicegate.streams.journal.amending import Person
from sluicegate.streams.operations.dead import dead_letters
from sluicegate.streams.operations.dead.dead_letters import Letter, Retried, letters, retry
from sluicegate.streams.versions import mac_keys
from tests.mutation.twins import without
from tests.unit.engine.driver import Driver, Log, ManualClock, header
from tests.unit.engine.scene import an_agent, dead, feed


class InLog:
    """Satisfies Source. `dies` is when the process ends: before its records are sent, or after."""

    def __init__(self, log: Log, dies: str = "") -> None:
        self.log, self.dies = log, dies

    def places(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [(topic, number) for topic in topics for number in range(len(self.log.topics[topic]))]

    def ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: self.log.high(*place) for place in places}

    def since(self, starts: Mapping[TopicPartition, int]) -> Iterable[Record]:
        return [m for place, start in starts.items() for m in self.log.after(*place, start, 1000)]

    def send(self, rows: Sequence[OutboxRow]) -> None:
        if self.dies == "before":
            raise SystemNotReady("before")
        for row in rows:
            self.log.append(row.topic, row.partition, row.key, row.value, list(row.headers))
        if self.dies == "after":
            raise SystemNotReady("after")


HEADERS: Headers = [
    ("h", b"\xff"),
    ("h", None),
    ("sluicegate-id", b"old"),
    ("sluicegate-shard", b"a/b/c/0>in#x"),
    ("sluicegate-fire", b"f"),
]


class Times:
    """The store's clock, which a retry that waits moves on. `then` is called at the first wait."""

    clock: ManualClock
    waited = 0.0
    then: Callable[[], object] | None = None

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        self.clock.now += seconds
        then, self.then = self.then, None
        if then is not None:
            then()


times = Times()


@pytest.fixture(autouse=True)
def _times(clock: ManualClock) -> None:
    times.clock, times.waited, times.then = clock, 0.0, None


persons = (Person("me@here", "fixed", f"hand {n}") for n in range(1_000_000))


@pytest.fixture
def driver(log: Log, store: MemoryStore, clock: ManualClock) -> Driver:
    """Two records that cannot be decoded, one of them with headers, and a group that timed out."""
    log.append("in", 0, b"k\xff", b"{bad", list(HEADERS))
    feed(log, ("good", 1))
    log.append("in", 0, None, b"worse")
    agent = an_agent(count=5, on_timeout="dead-letter")
    return Driver(agent, store, log, clock).give(0).turns(4).later(40).turns(6)


def found(log: Log, wanted: str = "") -> list[Letter]:
    return [letter for letter in letters(log.topics["dead"][0], "app", ["sums"]) if wanted in ("", letter.place)]


def again(log: Log, store: MemoryStore, place: str = "in/0/0", dies: str = "", **more: Any) -> Retried:
    return retry(store, "app", InLog(log, dies), found(log, place), next(persons), wait=times.wait, **more)


def test_letters_say_what_they_are(driver: Driver, log: Log) -> None:
    log.append("dead", 0, b"", b"of somebody else", [("sluicegate-id", b"x")])
    tuples = [
        (letter.place, letter.stage, letter.reason, letter.whole, letter.key, letter.value) for letter in found(log)
    ]
    why = "decode", "undecodable", False
    assert tuples[:2] == [("in/0/0", *why, b"k\xff", b"{bad"), ("in/0/2", *why, None, b"worse")]
    assert [item[:4] for item in tuples[2:]] == [("in/0/1", "aggregate", "timeout", True)]
    assert (
        list(letters(log.topics["dead"][0], "app", ["other"])),
        list(letters(log.topics["dead"][0], "other", ["sums"])),
    ) == ([], [])
    assert len(list(letters([*log.topics["dead"][0]] * 2, "app", ["sums"]))) == 3


def test_the_record_goes_back_byte_for_byte(driver: Driver, log: Log, store: MemoryStore) -> None:
    assert again(log, store) == Retried(1, 0, [])
    sent = log.topics["in"][0][-1]
    [letter] = found(log, "in/0/0")
    ours = [
        ("sluicegate-id", retry_id(letter.id, 0).encode()),
        ("sluicegate-retried-from", b"in/0/0"),
        ("sluicegate-retried-for", b"app/sums"),
    ]
    headers = [("h", b"\xff"), ("h", None), ("sluicegate-fire", b"f"), *ours]
    assert sent.h is not None
    assert (sent.k, sent.v, sent.h[:-1], sent.h[-1][0]) == (b"k\xff", b"{bad", headers, MAC)
    mac = mac_keys.read(store, "app")
    assert mac is not None
    assert mac.proves(sent)


def test_an_agent_takes_it_as_a_new_record(log: Log, store: MemoryStore, clock: ManualClock) -> None:
    """Of a topic of our own it would be dropped as a repeat, had it kept its number."""
    sent: Headers = [("sluicegate-shard", b"app/a/b/0>in#l"), ("sluicegate-seq", b"7"), ("sluicegate-id", b"old")]
    log.append("in", 0, b"k", b'{"amount": "text"}', sent)
    driver = Driver(an_agent(count=1, receive=("in",)), store, log, clock).give(0).turns(6)
    assert dead(log) == [("0", "wrong-type")]
    assert again(log, store).sent == 1
    driver.turns(6)
    assert dead(log) == [("0", "wrong-type"), ("1", "wrong-type")]
    [second] = found(log, "in/0/1")
    assert retry(store, "app", InLog(log), [second], next(persons)).sent == 1
    assert [header(m, "sluicegate-retried-from") for m in log.topics["in"][0]] == [None, "in/0/0", "in/0/1"]


def test_a_second_retry_is_refused_unless_it_is_wanted(driver: Driver, log: Log, store: MemoryStore) -> None:
    assert [again(log, store) for _ in range(2)] == [Retried(1, 0, []), Retried(0, 0, ["in/0/0"])]
    assert len(log.topics["in"][0]) == 4
    assert again(log, store, again=True) == Retried(1, 0, [])
    [first, second] = log.topics["in"][0][-2:]
    assert header(first, "sluicegate-id") != header(second, "sluicegate-id")
    assert again(log, store) == Retried(0, 0, ["in/0/0"])


def test_twin_without_the_journal_a_second_retry_sends_it_twice(driver: Driver, log: Log, store: MemoryStore) -> None:
    with without("retried"):
        assert [again(log, store).sent for _ in range(2)] == [1, 1]


@pytest.mark.parametrize(("dies", "then"), [("before", Retried(1, 0, [])), ("after", Retried(0, 1, []))])
def test_a_retry_that_was_killed_half_way_is_finished_once(
    driver: Driver, log: Log, store: MemoryStore, dies: str, then: Retried
) -> None:
    with pytest.raises(SystemNotReady):
        again(log, store, dies=dies)
    feed(log, ("other", 1))
    assert again(log, store) == then
    assert again(log, store) == Retried(0, 0, ["in/0/0"])
    assert [header(m, "sluicegate-retried-from") for m in log.topics["in"][0]].count("in/0/0") == 1


def test_twin_whoever_does_not_look_whether_it_came_sends_it_twice(
    driver: Driver, log: Log, store: MemoryStore
) -> None:
    with pytest.raises(SystemNotReady):
        again(log, store, dies="after")
    with without("retry-looked"):
        assert again(log, store) == Retried(1, 0, [])
    assert [header(m, "sluicegate-retried-from") for m in log.topics["in"][0]].count("in/0/0") == 2


@pytest.mark.parametrize("at", ["retry-asked", "retry-sent"])
def test_it_may_be_killed_at_each_failpoint(driver: Driver, log: Log, store: MemoryStore, at: str) -> None:
    failpoints.arm({"SLUICEGATE_FAILPOINTS": f"{at}=raise"})
    with pytest.raises(failpoints.Failpoint):
        again(log, store)
    failpoints.arm({})
    again(log, store)
    assert [header(m, "sluicegate-retried-from") for m in log.topics["in"][0]].count("in/0/0") == 1


class Between(InLog):
    """`ends` and `send` call what another command does meanwhile, once."""

    def __init__(self, log: Log, at: str, other: Callable[[], object]) -> None:
        super().__init__(log)
        self.at, self.other = at, other

    def _once(self, at: str) -> None:
        if self.at == at:
            self.at = ""
            self.other()

    def ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self._once("ends")
        return super().ends(places)

    def send(self, rows: Sequence[OutboxRow]) -> None:
        self._once("send")
        super().send(rows)


def came_back(log: Log) -> int:
    return [header(m, "sluicegate-retried-from") for m in log.topics["in"][0]].count("in/0/0")


def test_another_change_in_between_is_no_reason_to_fail(driver: Driver, log: Log, store: MemoryStore) -> None:
    other = Between(log, "ends", lambda: journal.note(store, "app", next(persons), "outbox drop", "x"))
    assert retry(store, "app", other, found(log, "in/0/0"), next(persons), wait=times.wait) == Retried(1, 0, [])
    assert came_back(log) == 1


class Contended:
    """A store in which another command claims the journal right after each of the next `times` claims."""

    def __init__(self, store: MemoryStore, times: int) -> None:
        self._store, self.times = store, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim(self, partition: Partition, token: str, owner: str) -> Claim:
        claim = self._store.claim(partition, token, owner)
        if self.times:
            self.times -= 1
            self._store.claim(partition, f"other-{self.times}", "other")
        return claim


@pytest.mark.parametrize("lost", [5, 11])
def test_a_retry_that_loses_its_claim_again_and_again_waits_longer_each_time(
    driver: Driver, log: Log, store: MemoryStore, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[float] = []
    monkeypatch.setattr("random.uniform", lambda low, high: bounds.append(high) or high)
    mac_keys.read_or_make(store, "app", lambda: next(persons).token)
    contended: Any = Contended(store, lost)
    done = retry(contended, "app", InLog(log), found(log, "in/0/0"), next(persons), wait=times.wait)
    assert (done, came_back(log)) == (Retried(1, 0, []), 1)
    assert bounds == [min(1.0, 0.02 * 2**n) for n in range(lost)]
    assert times.waited == sum(bounds)


def test_reading_the_ends_of_topics_is_no_part_of_the_time_under_the_claim(
    driver: Driver, log: Log, store: MemoryStore
) -> None:
    """Another command may claim the journal whenever Kafka is asked, and this one still succeeds at the first try."""

    class Slow(InLog):
        def ends(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
            store.claim(journal.place("app"), next(persons).token, "other")
            return super().ends(places)

    assert retry(store, "app", Slow(log), found(log, "in/0/0"), next(persons), wait=times.wait) == Retried(1, 0, [])
    assert times.waited == 0


def retried_by_another(log: Log, store: MemoryStore, retries: list[Retried]) -> None:
    retries.append(retry(store, "app", InLog(log), found(log, "in/0/0"), next(persons), wait=times.wait))


def test_a_second_retry_before_the_announcement_leaves_nothing_to_the_first(
    driver: Driver, log: Log, store: MemoryStore
) -> None:
    second: list[Retried] = []
    source = Between(log, "ends", lambda: retried_by_another(log, store, second))
    first = retry(store, "app", source, found(log, "in/0/0"), next(persons), wait=times.wait)
    assert (first, second) == (Retried(0, 0, ["in/0/0"]), [Retried(1, 0, [])])
    assert came_back(log) == 1


def while_the_first_sends(log: Log, store: MemoryStore) -> tuple[list[Retried], Retried]:
    """A second retry meets an announcement whose record is sent while the second one waits."""
    first: list[Retried] = []

    def sends(rows: Sequence[OutboxRow]) -> None:
        times.then = lambda: InLog(log).send(rows)
        retried_by_another(log, store, first)

    source = InLog(log)
    source.send = sends  # type: ignore[method-assign]
    mine = retry(store, "app", source, found(log, "in/0/0"), next(persons), wait=times.wait)
    return first, mine


def test_a_second_retry_waits_for_the_record_that_is_announced(driver: Driver, log: Log, store: MemoryStore) -> None:
    second, first = while_the_first_sends(log, store)
    assert (first.sent, second[0].sent) == (1, 0)
    assert times.waited > 0
    assert came_back(log) == 1


def test_twin_a_second_retry_that_does_not_wait_sends_it_twice(
    driver: Driver, log: Log, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_under_way", lambda *_: False)
    times.then = None
    first: list[Retried] = []

    class Late(InLog):
        def send(self, rows: Sequence[OutboxRow]) -> None:
            retried_by_another(log, store, first)
            super().send(rows)

    retry(store, "app", Late(log), found(log, "in/0/0"), next(persons), wait=times.wait)
    assert came_back(log) == 2


def test_the_journal_has_who_and_why_and_forgets_after_thirty_days(
    driver: Driver, log: Log, store: MemoryStore, clock: ManualClock
) -> None:
    again(log, store)
    tuples = [(note.who, note.what, note.key, note.why) for note in journal.notes(store, "app")]
    assert tuples == [("me@here", what, "sums in/0/0", "fixed") for what in ("dead retry", "dead retry sent")]
    clock.now += 31 * 24 * 3600
    journal.note(store, "app", next(persons), "outbox drop", "a", "b")
    assert [note.key for note in journal.notes(store, "app")] == ["a", "b"]
    view = store.read(journal.place("app"))
    assert view is not None
    assert len(view.entries) == 1
