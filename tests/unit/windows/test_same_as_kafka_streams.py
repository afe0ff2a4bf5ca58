"""1,000 logs out of order for each kind of windows, several graces: the windows that close, and the records that are
late, are those of Kafka Streams 4.2.1. Its answers are recorded. tests/integration/test_kafka_streams_windows.py asks
it again."""

from dataclasses import replace

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.hopping import NEXT, HoppingGroups
from sluicegate.streams.windows.sessions import SessionGroups
from sluicegate.streams.windows.tumbling import Tumbling, name, start_of
from tests.unit.windows.kafka_streams import FLUSH, KINDS, LOGS, Answer, Closed, Log, logs, recorded
from tests.unit.windows.oracle import Step
from tests.unit.windows.session_oracle import SessionOracle
from tests.unit.windows.turning import Turned

NEVER = 1e9  # seconds


def ours(log: Log, batch: int = 3) -> Answer:
    """The log is cut into batches, and everything is restored after each commit. Kafka Streams drops a record for each
    hopping window that is closed, so records that are partly late are late in its answer: of a batch with such a record
    the last one."""
    window = Window(log.size / 1000, grace=log.grace / 1000, idle=None, at_most=NEVER, max_ahead=NEVER)
    every = log.every / 1000 if log.kind == "hopping" else 0.0
    partition, steps = Turned(replace(window, kind=log.kind, every=every)), steps_of(log)
    partly = []
    for at in range(0, len(steps), batch):
        partition.take(at, steps[at : at + batch])
        partition.expire(0.0)
        done = min(at + batch, len(steps))
        partition.commit(0.0, done)
        partly += [done - 1] * partition.groups.counts.get("partly_late", 0)
        partition.restore()
    long = None if log.kind == "session" else log.size
    closed = (
        Closed(
            result.key.decode(), result.start, result.end if long else result.end - log.size, result.count, result.total
        )
        for result in partition.results
        if result.closed_by == "event"
    )
    assert {why for _, why in partition.refused} <= {"late"}
    return Answer(sorted([*partly, *(offset for offset, _ in partition.refused)]), sorted(closed))


def steps_of(log: Log) -> list[Step]:
    return [Step(0.0, key.encode(), time, amount) for time, key, amount in log.records]


def different(kind: str, count: int | None = None, batch: int = 3) -> int:
    both = zip(logs(kind)[:count], recorded(kind)[:count], strict=True)
    return sum(ours(log, batch) != final(answer) for log, answer in both if not reopens(log))


def reopens(log: Log) -> bool:
    """Whether a record that is not late touches a session that was closed already. It opens a new session here and in
    Flink. In Kafka Streams it joins the closed one, if the store still has it."""
    oracle = SessionOracle(log.size, log.grace, NEVER, NEVER, NEVER, LOGS)
    for offset, step in enumerate(steps_of(log) if log.kind == "session" else ()):
        oracle.take(offset, step)
    return oracle.reopened


def final(answer: Answer) -> Answer:
    """Kafka Streams sends a session when the watermark is at its end + grace. A record may still join it at this
    watermark, and then a longer session follows, which replaces it."""
    windows = [
        window
        for window in answer.windows
        if not any(
            other.count > window.count
            and other.key == window.key
            and other.start <= window.start
            and window.end <= other.end
            for other in answer.windows
        )
    ]
    return answer._replace(windows=windows)


@pytest.mark.parametrize(("kind", "batch"), [("tumbling", 3), ("hopping", 1), ("session", 3)], ids=KINDS)
def test_the_windows_and_the_late_records_are_those_of_kafka_streams(kind: str, batch: int) -> None:
    assert different(kind, batch=batch) == 0


def test_hopping_windows_are_the_same_in_batches() -> None:
    both = zip(logs("hopping"), recorded("hopping"), strict=True)
    assert [log for log, answer in both if ours(log).windows != answer.windows] == []


def test_1000_logs_of_sessions_are_compared() -> None:
    assert sum(not reopens(log) for log in logs("session")) >= LOGS


@pytest.mark.parametrize("kind", KINDS)
def test_the_logs_have_late_records_and_windows_that_take_records_after_their_end(kind: str) -> None:
    answers = recorded(kind)
    assert len(answers) == len(logs(kind)) >= LOGS
    assert sum(bool(answer.late) for answer in answers) > LOGS / 4
    assert sum(len(answer.windows) for answer in answers) > 5 * LOGS
    assert all(closed.start < FLUSH for answer in answers for closed in answer.windows)


def test_a_grace_that_is_one_millisecond_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tumbling, "closes", lambda self, start: start + self.size + self.grace + 1)
    assert different("tumbling", 200)


def test_a_pane_that_is_dropped_a_window_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = HoppingGroups._go_on

    def early(self: HoppingGroups, key: bytes, start: int) -> None:
        go_on(self, key, start)
        if self.panes.get(key, [0])[0] == start + self.tumbling.every:
            self.drop(name(start + self.tumbling.every, key))

    monkeypatch.setattr(HoppingGroups, "_go_on", early)
    assert different("hopping", 20)


def test_windows_that_closed_and_have_a_new_pane_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = HoppingGroups._opened

    def anew(self: HoppingGroups, group: bytes, state: GroupState, now: float) -> None:
        opened(self, group, state, now)
        state[NEXT] = start_of(group) - self.tumbling.size + self.tumbling.every

    monkeypatch.setattr(HoppingGroups, "_opened", anew)
    assert different("hopping", 200)


def test_a_session_that_closes_one_millisecond_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    init = SessionGroups.__init__

    def made(self: SessionGroups, *rest: object, **more: object) -> None:
        init(self, *rest, **more)  # type: ignore[arg-type]
        self.lasts -= 1

    monkeypatch.setattr(SessionGroups, "__init__", made)
    assert different("session", 300)


def test_a_watermark_that_goes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(self: EventClock, time: int) -> bool:
        self.watermark = time
        return True

    monkeypatch.setattr(EventClock, "read", read)
    assert different("tumbling", 200)
