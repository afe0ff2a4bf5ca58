"""The judge of windows over a re-keyed topic.

The log of the re-keyed topic has the time marks. The watermark is folded from it here once more, in plain Python.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.simulation.fold import loads
from tests.simulation.windowed_fold import Windowed
from tests.unit.windows.hopping_oracle import HoppingOracle
from tests.unit.windows.late_oracle import AmendOracle
from tests.unit.windows.oracle import Oracle
from tests.unit.windows.session_oracle import SessionOracle

STATE = "sluicegate-state"
FRESH = 30_000  # ms for which the word of an origin counts that it is idle


def is_mark(headers: Any) -> bool:
    return any(name == STATE for name, _ in headers or ())


class Heard(NamedTuple):
    """What a record of the re-keyed topic says of its origin, AGENT/TOPIC/PARTITION. Of a mark there is a `state`, and
    when it was written."""

    name: str
    offset: int
    time: int
    state: str
    moment: int


def origin_of(record: LogRecord) -> Heard:
    texts = {name: (value or b"").decode(errors="backslashreplace") for name, value in record.h or ()}
    origin, _, offset = texts["sluicegate-origin"].rpartition("/")
    state, _, written = texts.get(STATE, "/0").partition("/")
    return Heard(
        f"{texts['sluicegate-agent']}/{origin}", int(offset), int(texts.get("sluicegate-time", -1)), state, int(written)
    )


class Origins:
    """The watermark of origins, folded from what they say. `silent` are those that have said that they are idle."""

    def __init__(self, names: Sequence[str]) -> None:
        self._known = dict.fromkeys(names, (-1, "unknown", 0))
        self._silent: set[str] = set()
        self.watermark = -1

    def hear(self, moment: Heard) -> None:
        known, state, at = self._known[moment.name]
        if moment.state:
            state, at = moment.state, moment.moment
            self._silent |= {moment.name} if state == "idle" else set()
        elif state in ("idle", "unknown"):
            state = "behind"
        self._known[moment.name] = max(known, moment.time), state, at
        newest = max(state[2] for state in self._known.values())
        idle = [state == "idle" and newest - at <= FRESH for _, state, at in self._known.values()]
        if not all(idle):
            times = [
                max(time, at) if item else time for item, (time, _, at) in zip(idle, self._known.values(), strict=True)
            ]
            self.watermark = max(self.watermark, min(times))

    def was_silent(self, name: str) -> bool:
        return name in self._silent


class Refusals:
    """Offsets of records that are refused, each with the reason."""

    def __init__(self) -> None:
        self.refused: list[tuple[int, str]] = []


class Rekeyed:
    """As fold.Fold, for an agent that re-keys."""

    def __init__(self, records: Sequence[LogRecord], crashed: set[int]) -> None:
        self.failed: list[int] = []
        self.oracle = Refusals()
        self._kept: list[tuple[int, bytes, bytes | None]] = []  # offset, key and value
        for record in records:
            if record.o not in crashed:
                self._take(record, loads(record.v))

    def _take(self, record: LogRecord, value: Any) -> None:
        if isinstance(value, dict) and {"s", "t"} <= value.keys():
            self._kept.append((record.o, value["s"].encode(), record.v))
        else:
            self.oracle.refused.append((record.o, "unusable"))

    def at(self, offset: int) -> int:
        return offset

    def outputs(self) -> list[tuple[int, bytes | None, Any, str]]:
        return [(*record, "mid") for record in self._kept]

    def left(self, world: Any, partition: Partition) -> list[str]:
        return []


class Least(Oracle):
    """The watermark is moved by `heard` only."""

    def passed(self, time: int) -> None:
        return

    def heard(self, time: int) -> None:
        super().passed(time)


class LeastOfAmended(AmendOracle):
    """The watermark is moved by `heard` only."""

    def passed(self, time: int) -> None:
        return

    def heard(self, time: int) -> None:
        super().passed(time)


class LeastOfHopping(HoppingOracle):
    """The watermark is moved by `heard` only."""

    def passed(self, time: int) -> None:
        return

    def heard(self, time: int) -> None:
        super().passed(time)


class LeastOfSessions(SessionOracle):
    """The watermark is moved by `heard` only."""

    def passed(self, time: int) -> None:
        return

    def heard(self, time: int) -> None:
        super().passed(time)


class Merged(Windowed):
    """As Windowed; `partitions` is how many origins there are."""

    tumbling, amending, hopping, sessions = Least, LeastOfAmended, LeastOfHopping, LeastOfSessions

    def __init__(self, agent: Agent, records: Sequence[LogRecord], crashed: set[int], partitions: int) -> None:
        self._origins = Origins([f"keyed/in/{number}" for number in range(partitions)])
        self._late: list[tuple[int, int, int]] = []  # number and offset of the input, and the close of the window
        self._counted: set[tuple[int, int]] = set()  # a store that goes back makes its worker write records again
        super().__init__(agent, records, crashed)

    def _take(self, record: LogRecord) -> None:
        origin = origin_of(record)
        self._origins.hear(origin)
        self.oracle.heard(self._origins.watermark)  # type: ignore[attr-defined]
        if not origin.state:
            refused = len(self.oracle.refused)
            super()._take(record)
            number, offset = int(origin.name.rpartition("/")[2]), origin.offset
            if len(self.oracle.refused) == refused:
                self._counted.add((number, offset))
            elif not self._origins.was_silent(origin.name) and (number, offset) not in self._counted:
                self._late.append((number, offset, self._end(origin.time)))

    def _end(self, time: int) -> int:
        """The end of the last window of a record at this time."""
        size, every = round(1000 * self.window.size), round(1000 * (self.window.every or self.window.size))
        return time + size if self.window.kind == "session" else time - time % every + size

    def left(self, world: Any, partition: Partition) -> list[str]:
        return [*super().left(world, partition), *self._too_late(world, partition)]

    def _too_late(self, world: Any, partition: Partition) -> Iterator[str]:
        """A record is late only against its own origin, unless that one has said that it is idle."""
        for number, offset, closes in self._late:
            before = [loads(record.v) for record in world.log.topics["in"][number] if record.o < offset]
            if not any(value["t"] >= closes for value in before if isinstance(value, dict) and "t" in value):
                yield f"{partition}: record {offset} of in/{number} was late against another origin"
