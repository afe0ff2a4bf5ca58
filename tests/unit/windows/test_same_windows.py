"""However a log out of order is cut into batches, and wherever the process dies, the same windows close with the same
records, and the same records are late: compared with a naive oracle over 1,000 random logs."""

import random

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.groups import WindowGroups
from sluicegate.streams.windows.tumbling import Tumbling
from tests.unit.windows.oracle import Oracle, Step
from tests.unit.windows.turning import Turned, judged

LOGS = 1_000
KEYS = (b"a", b"b", b"", b"\xff\x00")


pytestmark = pytest.mark.usefixtures("small")


def a_window(chance: random.Random) -> Window:
    size = chance.choice([1.0, 5.0, 7.5])
    offset = chance.choice([0.0, 0.0, 2.25])
    grace = chance.choice([0.0, 0.5, 3.0, 10.0])
    idle, at_most = chance.choice([2.0, 6.0, 1e9]), size + grace + chance.choice([0.0, 20.0])
    return Window(size, offset, grace=grace, idle=idle, at_most=at_most, max_ahead=9.0)


def a_log(chance: random.Random) -> list[Step]:
    """The records are up to 12 s out of order, some are ahead of the owner's clock, and there is silence."""
    now, steps = 1.0, []
    for _ in range(chance.randint(1, 80)):
        now += chance.choice([0.0, 0.1, 0.4, 2.0]) if chance.random() < 0.95 else chance.uniform(3.0, 40.0)
        if chance.random() < 0.15:
            steps.append(Step(now, None))
            continue
        behind = chance.choice([-0.5, 0.0, 0.2, 1.0, 4.0, 12.0]) if chance.random() < 0.97 else -15.0
        time = max(0, round(1000 * (now - behind * chance.random())))
        steps.append(Step(now, chance.choice(KEYS), time, chance.randint(-5, 5), chance.random() < 0.1))
    return [*steps, Step(now + 100.0, None)]


def expected(window: Window, steps: list[Step], count: int) -> Oracle:
    assert window.idle is not None
    assert window.at_most is not None
    size, offset, grace = (round(1000 * seconds) for seconds in (window.size, window.offset, window.grace))
    oracle = Oracle(size, offset, grace, window.idle, window.at_most, window.max_ahead, count)
    return judged(oracle, steps)


def turned(window: Window, steps: list[Step], count: int, chance: random.Random) -> Turned:
    """Batches of records of one moment, commits and crashes by chance. After a crash all of it comes again."""
    return played(Turned(window, count=None if count > 100 else count), steps, chance)


def played(partition: Turned, steps: list[Step], chance: random.Random) -> Turned:
    at = crashes = 0
    while at < len(steps) or partition.committed < at:
        if at < len(steps) and steps[at].key is None:
            partition.look(steps[at].now)
            at += 1
        elif at < len(steps):
            end = at + 1
            while end < len(steps) and steps[end].key is not None and steps[end].now == steps[at].now:
                if chance.random() < 0.3:
                    break
                end += 1
            partition.take(at, steps[at:end])
            at = end
        if chance.random() < 0.1 and crashes < 5:
            partition.restore()
            at, crashes = partition.committed, crashes + 1
        elif chance.random() < 0.6 or at == len(steps):
            partition.commit(steps[at - 1].now, at)
    return partition


def differences(logs: int = LOGS) -> int:
    """In how many logs the windows, or the records that were refused, differ from those of the oracle."""
    rounds = 0
    for seed in range(logs):
        chance = random.Random(seed)
        window, steps, count = a_window(chance), a_log(chance), chance.choice([3, 10_000])
        oracle, partition = expected(window, steps, count), turned(window, steps, count, chance)
        same = sorted(partition.results) == sorted(oracle.results) and partition.refused == oracle.refused
        rounds += not (same and not partition.groups.states)
    return rounds


def test_any_cut_and_any_crash_give_the_windows_of_the_oracle() -> None:
    assert differences() == 0


def test_the_logs_have_every_kind_of_closing_and_of_refusal() -> None:
    kinds: set[str] = set()
    for seed in range(100):
        chance = random.Random(seed)
        window, steps, count = a_window(chance), a_log(chance), chance.choice([3, 10_000])
        oracle = expected(window, steps, count)
        kinds |= {result.closed_by or result.reason for result in oracle.results} | {why for _, why in oracle.refused}
    assert kinds == {"event", "idle", "at_most", "count", "late", "time-ahead"}


def test_windows_of_one_partition_close_by_end_and_first_record() -> None:
    for seed in range(100):
        chance = random.Random(seed)
        window = a_window(chance)
        steps = [step for step in a_log(chance)[:-1] if step.key is not None]
        oracle, partition = expected(window, steps, 10_000), turned(window, steps, 10_000, chance)
        partition.expire(0.0)
        partition.commit(0.0, len(steps))
        assert [result for result in partition.results if result.closed_by == "event"] == [
            result for result in oracle.results if result.closed_by == "event"
        ]


def test_a_restore_that_forgets_the_watermark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowGroups, "restore_clock", lambda self, clock, origins: None)
    assert differences(100)


def test_a_watermark_that_is_not_in_the_compacted_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = WindowGroups.clock
    monkeypatch.setattr(WindowGroups, "clock", lambda self, whole: None if whole else kept(self, False))
    assert differences(200)


def test_records_that_are_judged_by_batch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    accept = WindowGroups.accept

    def by_batch(self: WindowGroups, records: list, now: float, left_out: set = frozenset()) -> None:  # type: ignore
        for record in records:
            if record.timestamp()[1] <= (now + self.window.max_ahead) * 1000:
                self.event.read(record.timestamp()[1])
        accept(self, records, now, left_out)

    monkeypatch.setattr(WindowGroups, "accept", by_batch)
    assert differences(100)


def test_silence_that_moves_the_watermark_to_the_clock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = EventClock.silent
    monkeypatch.setattr(EventClock, "silent", lambda self, to, at: silent(self, to + 5_000, at))
    assert differences(100)


def test_a_grace_that_is_one_millisecond_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tumbling, "closes", lambda self, start: start + self.size + self.grace + 1)
    assert differences(LOGS)
