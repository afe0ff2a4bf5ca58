"""1,000 logs out of order, several graces: the windows that close, and the records that are late, are those of Kafka
Streams 4.2.1. Its answers are recorded; tests/integration/test_kafka_streams_windows.py asks it again."""

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.windows.clock import EventClock
from sluicegate.streams.windows.tumbling import Tumbling
from tests.unit.windows.kafka_streams import FLUSH, LOGS, Answer, Closed, Log, logs, recorded
from tests.unit.windows.oracle import Step
from tests.unit.windows.turning import Turned

NEVER = 1e9  # seconds


def ours(log: Log) -> Answer:
    """The windows are cut into batches of three records, and everything is restored after each commit."""
    partition = Turned(Window(log.size / 1000, grace=log.grace / 1000, idle=None, at_most=NEVER, max_ahead=NEVER))
    steps = [Step(0.0, key.encode(), time, amount) for time, key, amount in log.records]
    for at in range(0, len(steps), 3):
        partition.take(at, steps[at : at + 3])
        partition.expire(0.0)
        partition.commit(0.0, at + len(steps[at : at + 3]))
        partition.restore()
    closed = (
        Closed(each.key.decode(), each.start, each.start + log.size, each.count, each.total)
        for each in partition.results
        if each.closed_by == "event"
    )
    assert {why for _, why in partition.refused} <= {"late"}
    return Answer(sorted(offset for offset, _ in partition.refused), sorted(closed))


def different(count: int = LOGS) -> int:
    return sum(ours(log) != answer for log, answer in zip(logs()[:count], recorded()[:count], strict=True))


def test_the_windows_and_the_late_records_are_those_of_kafka_streams() -> None:
    assert different() == 0


def test_the_logs_have_late_records_and_windows_that_take_records_after_their_end() -> None:
    answers = recorded()
    assert len(answers) == LOGS
    assert sum(bool(answer.late) for answer in answers) > LOGS / 4
    assert sum(len(answer.windows) for answer in answers) > 5 * LOGS
    assert all(closed.start < FLUSH for answer in answers for closed in answer.windows)


def test_a_grace_that_is_one_millisecond_off_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tumbling, "closes", lambda self, start: start + self.size + self.grace + 1)
    assert different(200)


def test_a_watermark_that_goes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(self: EventClock, time: int) -> bool:
        self.watermark = time
        return True

    monkeypatch.setattr(EventClock, "read", read)
    assert different(200)
