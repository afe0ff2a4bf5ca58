"""The judge of correlations by event time. It folds the log of the internal topic once more, in plain Python."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.tumbling import name
from tests.simulation.fold import loads, open_counts
from tests.simulation.merged_fold import Heard, Origins, Refusals, Rekeyed, origin_of


class Leg(Rekeyed):
    """As fold.Fold, for the agent of one leg."""

    def __init__(self, agent: Agent, records: Sequence[LogRecord], crashed: set[int]) -> None:
        self._leg = agent.leg
        super().__init__(records, crashed)

    def _take(self, record: LogRecord, value: Any) -> None:
        if not isinstance(value, dict) or "leg" not in value:
            self.oracle.refused.append((record.o, "unusable"))
        elif value["leg"] == self._leg:
            wrapped = b'{"%s":%s}' % (self._leg.encode(), record.v or b"")
            self._kept.append((record.o, value["k"].encode(), wrapped))


class Open:
    def __init__(self, first: int) -> None:
        self.first, self.count = first, 0
        self.times: list[int] = []
        self.legs: dict[str, Any] = {}


class Ended(NamedTuple):
    """A result. `due` is the event time from which a leg of it is absent."""

    key: bytes
    first: int
    due: int
    document: dict[str, Any]


class Legs:
    """As fold.Fold, for the agent that correlates; `partitions` is how many partitions the legs' topic has."""

    def __init__(self, agent: Agent, records: Sequence[LogRecord], crashed: set[int], partitions: int) -> None:
        rule = agent.aggregation
        assert rule is not None
        assert rule.window is not None
        assert rule.correlation is not None
        self.failed: list[int] = []
        self.oracle = Refusals()
        self._after, self._last = round(1000 * rule.window.size), rule.correlation.since == "last"
        self._origins = Origins(
            [f"{origin}/{number}" for origin in rule.window.origins for number in range(partitions)]
        )
        self._open: dict[bytes, Open] = {}
        self._ended: dict[bytes, Ended] = {}
        self._counted: set[tuple[str, int]] = set()  # a store that goes back makes its worker write records again
        self._absent: list[tuple[str, int, int, int]] = []  # agent, partition and offset of a late record, and due
        for record in records:
            if record.o not in crashed:
                self._take(record)
        self._place = {result.first: at for at, result in enumerate(self._ended.values())}

    def _due(self, group: Open) -> int:
        return (max(group.times) if self._last else min(group.times)) + self._after

    def _take(self, record: LogRecord) -> None:
        origin = origin_of(record)
        self._origins.hear(origin)
        for key, group in sorted(self._open.items(), key=lambda group: (self._due(group[1]), group[1].first)):
            if self._due(group) < self._origins.watermark:
                self._end(key, "timeout", "event")
        if not origin.state:
            assert record.k is not None
            self._count(record, record.k, origin)

    def _count(self, record: LogRecord, key: bytes, moment: Heard) -> None:
        group, time = self._open.get(key), moment.time
        if self._is_late(key, group, time):
            self.oracle.refused.append((record.o, "late"))
            self._note_late(key, moment)
            return
        self._counted.add((moment.name, moment.offset))
        group = group or self._open.setdefault(key, Open(record.o))
        group.count += 1
        group.times.append(time)
        [(leg, message)] = loads(record.v).items()
        if leg == "payment" or leg not in group.legs:
            group.legs[leg] = message
        if len(group.legs) == 2:
            self._end(key, "until", "")

    def _is_late(self, key: bytes, group: Open | None, time: int) -> bool:
        if group is None:
            return key in self._ended or time + self._after < self._origins.watermark
        near = [*group.times, time]
        if self._last:
            earliest, latest = min(group.times), max(group.times)
            return not earliest - self._after <= time <= latest + self._after
        return max(near) - min(near) > self._after

    def _note_late(self, key: bytes, moment: Heard) -> None:
        """Keep a late record whose leg was called absent before, though it was in time."""
        ended = self._ended.get(key)
        if ended is None or ended.document["reason"] != "timeout" or moment.time > ended.due:
            return
        if not self._origins.was_silent(moment.name) and (moment.name, moment.offset) not in self._counted:
            agent, _, number = moment.name.split("/")
            self._absent.append((agent, int(number), moment.offset, ended.due))

    def _end(self, key: bytes, reason: str, by: str) -> None:
        group = self._open.pop(key)
        due = self._due(group)
        window = {"start": rfc3339(min(group.times) / 1000), "end": rfc3339(due / 1000), "revision": 1}
        window |= {"closed_by": by} if by else {}
        legs = {leg: group.legs.get(leg) for leg in ("order", "payment")}
        document = {"count": group.count, "reason": reason, "window": window, **legs}
        self._ended[key] = Ended(key, group.first, due, document)

    def at(self, offset: int) -> int:
        return self._place[offset]

    def outputs(self) -> list[tuple[int, bytes | None, Any, str]]:
        return [(result.first, result.key, result.document, "out") for result in self._ended.values()]

    def left(self, world: Any, partition: Partition) -> list[str]:
        counts, wanted = open_counts(world, partition), {name(0, key): group.count for key, group in self._open.items()}
        findings = [] if counts in (None, wanted) else [f"{partition}: open groups {counts} instead of {wanted}"]
        return [*findings, *self._too_early(world, partition)]

    def _too_early(self, world: Any, partition: Partition) -> Iterator[str]:
        """No leg is called absent while a record of it that is in time lies unread in a partition that was not idle."""
        for agent, number, offset, due in self._absent:
            before = [loads(record.v) for record in world.log.topics["in"][number] if record.o < offset]
            if not any(value["t"] > due for value in before if isinstance(value, dict) and "t" in value):
                yield f"{partition}: record {offset} of {agent} in/{number} was in time, and its leg was called absent"
