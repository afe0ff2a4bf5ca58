"""Windows over a repartitioned topic whose groups are rows of the store: the same windows close with the same records,
and the same records are late, as in a naive oracle of several origins and their time marks. One to three groups stay
hot."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from sluicegate.streams.agent import Window
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.merged import MergedClock
from tests.unit.windows.oracle import Oracle, Step
from tests.unit.windows.session_oracle import SessionOracle
from tests.unit.windows.test_same_cold import PagedTurned
from tests.unit.windows.test_same_sessions import COMPUTE, a_session, crowded
from tests.unit.windows.test_same_sessions import told as session_told
from tests.unit.windows.test_same_windows import a_log, a_window, played
from tests.unit.windows.turning import Turned, judged

LOGS = 200
ORIGINS = [f"re/phones/{number}" for number in range(3)]
IDLE = "idle"

pytestmark = pytest.mark.usefixtures("small")


class OfOrigins:
    """The part of an oracle that finds the watermark. Of each origin it knows the highest time, the state, and the time
    at which its last mark was written."""

    idle: float
    watermark: int
    reading = ""

    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.known: dict[str, tuple[int, str, int]] = dict.fromkeys(ORIGINS, (-1, "unknown", 0))

    def take(self, offset: int, step: Step) -> None:
        self.reading = step.origin
        if not step.state:
            super().take(offset, step)  # type: ignore[misc]
            return
        self.known[step.origin] = max(self.known[step.origin][0], step.time), step.state, round(1000 * step.now)
        self.moved()

    def passed(self, time: int) -> None:
        highest, state, written = self.known[self.reading]
        state = "behind" if state in ("unknown", IDLE) else state
        self.known[self.reading] = max(highest, time), state, written
        self.moved()

    def fresh(self, at: float) -> list[str]:
        """The origins that are idle, and whose last mark is at most three beats older than this time in ms."""
        most = 3_000 * min(10.0, max(1.0, self.idle / 2))
        return [name for name, (_, state, written) in self.known.items() if state == IDLE and at - written <= most]

    def moved(self) -> None:
        idle = self.fresh(max(written for *_, written in self.known.values()))
        to = min(max(time, written) if name in idle else time for name, (time, _, written) in self.known.items())
        if len(idle) < len(ORIGINS) and to > self.watermark:
            self.watermark = to
            self.close("event")  # type: ignore[attr-defined]

    def silent_until(self, now: float) -> float:
        quiet = len(self.fresh(1000 * now)) == len(ORIGINS)
        return min((now - self.idle) * 1000, *(written for *_, written in self.known.values())) if quiet else -inf


class TumblingOfOrigins(OfOrigins, Oracle):
    pass


class SessionsOfOrigins(OfOrigins, SessionOracle):
    pass


class TurnedOfOrigins(Turned):
    """As Turned, over a repartitioned topic."""

    def restore(self) -> None:
        super().restore()
        self.merged.expect(ORIGINS, ["re/phones"])

    @property
    def merged(self) -> MergedClock:
        assert self.groups.merged is not None
        return self.groups.merged

    def records(self, first: int, steps: Sequence[Step]) -> list[LogRecord]:
        return [self.stamped(step, record) for step, record in zip(steps, super().records(first, steps), strict=True)]

    def stamped(self, step: Step, record: LogRecord) -> LogRecord:
        agent, _, place = step.origin.partition("/")
        values = {"agent": agent, "origin": f"{place}/{record.offset()}", "time": f"{step.time}"}
        if step.state:
            values["state"] = f"{step.state}/{round(1000 * step.now)}"
        headers = [(f"sluicegate-{name}", text.encode()) for name, text in values.items()]
        key, value = (None, None) if step.state else (record.key(), record.value())
        return LogRecord("in", 0, record.offset(), key, value, headers, at=step.time)

    def look(self, now: float) -> None:
        self.groups.event.look(now)
        super().look(now)


class PagedOfOrigins(TurnedOfOrigins, PagedTurned):
    pass


def of_origins(steps: Sequence[Step], chance: random.Random) -> list[Step]:
    """The records of a log, each of an origin, with time marks between them. Now and then all origins are idle."""
    highest, made = dict.fromkeys(ORIGINS, 0), list[Step]()

    def marks(now: float, names: Sequence[str], state: str) -> None:
        made.extend(Step(now, b"", highest[name], 0, True, name, state) for name in names)

    for step in steps:
        if step.key is None:
            if chance.random() < 0.5:
                marks(step.now - 0.1, ORIGINS, IDLE)
            made.append(step)
            continue
        origin = chance.choice([*ORIGINS, ORIGINS[0]])
        made.append(step._replace(origin=origin))
        highest[origin] = max(highest[origin], step.time)
        if chance.random() < 0.2:
            marks(step.now, [chance.choice(ORIGINS)], chance.choice(["behind", "at-end", IDLE]))
    return made


def over_origins(window: Window) -> Window:
    return replace(window, origins=("re/phones",))


def an_oracle(window: Window, steps: Sequence[Step]) -> Any:
    size, grace, offset = (round(1000 * seconds) for seconds in (window.size, window.grace, window.offset))
    more = window.idle, window.at_most, window.max_ahead + 60.0, 10_000
    session = window.kind == "session"
    made: Any = SessionsOfOrigins(size, grace, *more) if session else TumblingOfOrigins(size, offset, grace, *more)
    return judged(made, steps)


@pytest.mark.parametrize("state", ["behind", IDLE])
def test_a_late_record_closes_the_earlier_windows_of_its_key_first(state: str) -> None:
    """Time marks of the same batch closed them, or the record does so itself, because it wakes one of the idle origins
    after all their marks."""
    amend = Window(5.0, grace=5.0, idle=None, at_most=None, late="amend", keep=100.0, gather=1.0)
    partition = PagedOfOrigins(over_origins(amend), 1)
    first, later = (Step(10.0, b"k", time, 1, origin=ORIGINS[0]) for time in (0, 6000))
    marks = [Step(10.0, b"", 30_000, 0, True, origin, state) for origin in ORIGINS]
    offset = 0
    for steps in [first], [later], [later], [later], *([marks, [later]] if state == IDLE else [[*marks, later]]):
        assert partition.results == []
        partition.take(offset, steps)
        offset += len(steps)
        partition.commit(10.0, offset)
    assert [result.start for result in partition.results] == [0, 5000]


@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_any_cut_and_any_crash_give_the_windows_of_the_oracle(kind: str) -> None:
    evicted, causes = 0, set[str]()
    for seed in range(LOGS):
        chance = random.Random(f"{kind} {seed}")
        window = over_origins(a_session(chance) if kind == "session" else a_window(chance))
        steps = of_origins(crowded(a_log(chance), chance) if kind == "session" else a_log(chance), chance)
        oracle = an_oracle(window, steps)
        more = {"compute": COMPUTE, "view": session_told} if kind == "session" else {}
        partition = played(PagedOfOrigins(window, chance.randint(1, 3), **more), steps, chance)
        assert sorted(partition.results) == sorted(oracle.results), seed
        assert partition.refused == oracle.refused, seed
        assert (partition.groups.states, partition.groups.cold.count, partition.store.rows.groups) == ({}, 0, {}), seed
        evicted += partition.evicted
        causes |= {result.closed_by for result in oracle.results} | {why for _, why in oracle.refused}
    assert evicted > 2 * LOGS
    assert causes == {"event", "idle", "at_most", "late"}
