"""1,000 logs of two legs: matches and absences are those of an outer join of Kafka Streams 4.2.1 with the same time
difference, where a key has one record of a leg. Its answers are recorded. tests/integration/test_kafka_streams_joins.py
asks it again. The state is restored from its changelog after each batch."""

from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate.streams.agent import Correlation, Reducer, Window
from sluicegate.streams.aggregation.events import Fire
from sluicegate.streams.aggregation.layout import GroupState
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windowers import CORRELATION
from sluicegate.streams.windows.correlated import CorrelatedByTime
from sluicegate.streams.windows.merged import MergedClock
from tests.unit.correlation.kafka_streams import ABSENT, LOGS, Log, Pairs, Record, logs, recorded
from tests.unit.windows.turning import Turned

NAMES = ("left", "right")
ORIGINS = tuple(f"{name}/{name}s" for name in NAMES)
RULE: dict[str, Any] = {
    "compute": tuple(Reducer(name, "first", name) for name in NAMES),
    "until": "has(group.left) && has(group.right)",
    "on_missing": "ignore",
    "correlation": Correlation(1e9),
}


class Legs(Turned):
    """The internal topic: its records have the headers of the agents of two legs, each with one partition."""

    def restore(self) -> None:
        super().restore()
        assert self.groups.merged is not None
        self.groups.merged.expect([f"{origin}/0" for origin in ORIGINS], ORIGINS)

    def take_records(self, first: int, records: Sequence[Record]) -> None:
        self.groups.accept([_written(first + i, record) for i, record in enumerate(records)], 0.0)


def _written(offset: int, record: Record) -> LogRecord:
    name = NAMES[record.leg]
    document = {"agent": name, "origin": f"{name}s/0/{offset}", "time": str(record.time)}
    headers = [(f"sluicegate-{what}", text.encode()) for what, text in document.items()]
    return LogRecord("in", 0, offset, record.key.encode(), b'{"%s":%d}' % (name.encode(), offset), headers)


def _pair(fire: Fire) -> tuple[int, int]:
    left, right = (ABSENT if (value := fire.values.get(name)) is None else int(value) for name in NAMES)
    return left, right


def ours(log: Log, batch: int = 4) -> Pairs:
    """A late record is in no result. Kafka Streams sends it alone."""
    window = Window(log.after / 1000, idle=None, at_most=None, origins=ORIGINS, kind=CORRELATION)
    legs = Legs(window, _pair, **RULE)
    for at in range(0, len(log.records), batch):
        legs.take_records(at, log.records[at : at + batch])
        legs.expire(0.0)
        legs.commit(0.0, min(at + batch, len(log.records)))
        legs.restore()
    alone = [(offset, ABSENT) if log.records[offset].leg == 0 else (ABSENT, offset) for offset, _ in legs.refused]
    assert {why for _, why in legs.refused} <= {"late"}
    return sorted([*legs.results, *alone])


def different(count: int | None = None) -> int:
    return sum(ours(log) != answer for log, answer in zip(logs()[:count], recorded()[:count], strict=True))


def test_matches_and_absences_are_those_of_an_outer_join() -> None:
    assert len(recorded()) == LOGS
    assert different() == 0


def test_the_logs_have_matches_and_absences() -> None:
    pairs = [pair for answer in recorded() for pair in answer]
    absent = sum(ABSENT in pair for pair in pairs)
    assert absent > 5 * LOGS
    assert len(pairs) - absent > 5 * LOGS


def test_twin_a_watermark_of_the_leg_that_is_ahead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def advanced(self: MergedClock) -> bool:
        highest = max(time for time, _, _ in self.origins.values())
        moved, self.watermark = highest > self.watermark, max(highest, self.watermark)
        return moved

    monkeypatch.setattr(MergedClock, "_advanced", advanced)
    assert different(20)


def test_twin_one_millisecond_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    times = CorrelatedByTime._times

    def longer(self: CorrelatedByTime, state: GroupState) -> tuple[int, int]:
        least, most = times(self, state)
        return least, most + 1

    monkeypatch.setattr(CorrelatedByTime, "_times", longer)
    assert different(50)
