"""The judge of windows that are open while other versions of their rule are deployed.

Which windows there are, what is late and which records a window has follow from the log alone, because all versions
have the same windows. Each window has one result, which names its rule; what it says follows from that rule.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.rules import rule_of
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation.fold import loads
from tests.simulation.windowed_fold import Windowed
from tests.simulation.windows_deployed import BEGIN
from tests.unit.windows.calendar_oracle import MONDAY, CalendarOracle, boundaries
from tests.unit.windows.oracle import Step
from tests.unit.windows.session_oracle import Session, SessionOracle

APART = 1_000_000  # no sum of n is so large


class WindowedByRule(Windowed):
    """As Windowed, judged by the rule that a result names. The oracle adds both fields up, each APART."""

    def __init__(self, world: Any, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen]) -> None:
        self._agent = world.plan.agents[0]
        super().__init__(self._agent, records, crashed)
        self._rules = {rule_of(file).short: file for file in world.plan.files}
        self._results = [message for message in sent if "sluicegate-window" in message.headers]

    def _take(self, record: LogRecord) -> None:
        value = loads(record.v)
        if not isinstance(value, dict) or "n" not in value or record.k is None:
            super()._take(record)
        else:
            time = value[self.window.time or "t"]
            self.oracle.take(record.o, Step(0.0, record.k, time, value["n"] + APART * value["m"]))

    def _oracle(self, many: int) -> Any:
        if not self.window.calendar:
            return super()._oracle(many)
        edges = boundaries(self.window.zone, self.window.calendar, MONDAY, BEGIN // 1000)
        return CalendarOracle(0, 0, round(1000 * self.window.grace), inf, inf, inf, many, edges=edges)

    def outputs(self) -> list[tuple[int | tuple[int, ...], bytes | None, Any, str]]:
        """As Windowed, without the sums."""
        every = super().outputs()
        for _, _, document, _ in every:
            document.pop("total")
        return every

    def left(self, world: Any, partition: Partition) -> list[str]:
        """What is wrong with the results, and with what is open at the end. Two rules may have panes of one name."""
        return [*self._judged(partition), *([] if self.window.every else super().left(world, partition))]

    def _judged(self, partition: Partition) -> Iterator[str]:
        sums = {
            (result.key, rfc3339(result.start / 1000)): divmod(result.total, APART)[::-1]
            for result in self.oracle.results
        }
        rule_at, converts = dict[str, str](), self._converts()
        for result in self._results:
            start = result.headers["sluicegate-window"].partition("/")[0]
            named, place = (
                result.headers.get("sluicegate-rule", ""),
                f"{partition}: the result of {result.key!r} at {start}",
            )
            if named not in self._rules:
                yield f"{place} names the rule {named}, which was not deployed"
                continue
            compute = (self._rules[named].aggregation or Aggregation()).compute
            wanted = sums.get((result.key or b"", start), (0, 0))["nm".index(compute[0].field or "")]
            if loads(result.value)["total"] != wanted:
                yield f"{place} is {loads(result.value)} instead of {wanted}"
            divided = str(compute[0].field) if converts else named
            if self.window.every and rule_at.setdefault(start, divided) != divided:
                yield f"{place} is of the rule {named}, another one of {rule_at[start]}"

    def _converts(self) -> bool:
        """Whether a change of the rule may convert windows that have closed: those of cold groups, which a commit reads
        in slices. Windows of another sum are never converted."""
        rule = self._agent.aggregation
        return rule is not None and rule.hot_groups is not None


@dataclass
class SessionOfRule(Session):
    """`version` is the number of its rule."""

    version: int = 0


@dataclass
class DividedSessions(SessionOracle):
    """Sessions of several rules: a record that touches an open session of an earlier rule belongs to it, and sessions
    of two rules are not joined. `version_of` returns the rule of a session that begins with this offset. `closers` are
    the offsets that closed the sessions, by their first offsets; `begun` are the rules of new sessions in order."""

    version_of: Callable[[int], int] = int
    closers: dict[int, int] = field(default_factory=dict)
    begun: list[tuple[int, int]] = field(default_factory=list)

    def take(self, offset: int, step: Step) -> None:
        assert step.key is not None
        known = len(self.results)
        self.passed(step.time)
        self.closers |= {result.first: offset for result in self.results[known:]}
        sessions: list[Any] = self.open.setdefault(step.key, [])
        touched = [session for session in sessions if session.begin - self.gap <= step.time <= session.end + self.gap]
        if not touched and step.time + self.gap + self.grace < self.watermark:
            self.late(offset, step)
            return
        if not touched:
            touched = [SessionOfRule(step.now, version=self.version_of(offset))]
            self.begun.append((offset, touched[0].version))
            sessions += touched
        oldest = min(session.version for session in touched)
        mine = [session for session in touched if session.version == oldest]
        self.add(step, offset, sorted(mine, key=lambda batch: min(batch.records, default=(0,))))


class SessionsByRule(Windowed):
    """As Windowed. The results tell under which rule a session began. Which sessions there are follows from the log and
    from these rules; a partition never goes back to an earlier one."""

    def __init__(self, world: Any, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen]) -> None:
        versions = world.deployed.versions
        numbers = {rule_of(version.agent).short: number for number, version in enumerate(versions)}
        self._fields = [version.agent.aggregation.compute[0].field for version in versions]
        self._versions, self._unknown = dict[int, int](), list[str]()
        self._sent_in_order = dict[Any, list[tuple[int, int]]]()
        offsets = {loads(record.v)["at"]: record.o for record in records if b'"at"' in (record.v or b"")}
        for message in sent:
            if "sluicegate-window" not in message.headers:
                continue
            rule = message.headers.get("sluicegate-rule", "")
            self._unknown += [] if rule in numbers else [f"a result names the rule {rule}, which was not deployed"]
            listed = [offsets[at] for at in loads(message.value)["all"] if rule in numbers and at in offsets]
            self._versions |= dict.fromkeys(listed, numbers.get(rule, 0))
            if listed and message.offset >= 0:
                self._sent_in_order.setdefault((message.key, rule, message.topic), []).append(
                    (message.offset, min(listed))
                )
        super().__init__(world.plan.agents[0], records, crashed)

    def _oracle(self, many: int) -> Any:
        gap, grace = round(1000 * self.window.size), round(1000 * self.window.grace)
        latest = max(self._versions.values(), default=0)
        return DividedSessions(
            gap, grace, inf, inf, inf, many, version_of=lambda offset: self._versions.get(offset, latest)
        )

    def _take(self, record: LogRecord) -> None:
        value = loads(record.v)
        if not isinstance(value, dict) or "n" not in value or record.k is None:
            super()._take(record)
        else:
            self.oracle.take(record.o, Step(0.0, record.k, value["t"], value["n"] + APART * value["m"]))

    def at(self, number: Any) -> int:
        """Results of two rules have no order: see `_turned`."""
        return 0

    def outputs(self) -> list[tuple[int | tuple[int, ...], bytes | None, Any, str]]:
        """As Windowed. The sum is that of the session's rule."""
        every = super().outputs()
        for first, _, document, _ in every:
            sums = divmod(document["total"], APART)[::-1]
            document["total"] = sums["nm".index(self._fields[self.oracle.version_of(first)])]  # type: ignore[union-attr]
        return every

    def left(self, world: Any, partition: Partition) -> list[str]:
        begun = self.oracle.begun  # type: ignore[union-attr]
        back = [offset for (_, before), (offset, after) in pairwise(begun) if after < before]
        problems = [
            f"{partition}: the session from {offset} is of an earlier rule than one before it" for offset in back
        ]
        return [*self._unknown, *problems, *self._turned(partition), *super().left(world, partition)]

    def _turned(self, partition: Partition) -> Iterator[str]:
        """The results of a key and a rule come in the order in which its sessions were closed."""
        closers = self.oracle.closers  # type: ignore[union-attr]
        for (key, rule, _), results in self._sent_in_order.items():
            firsts = [first for _, first in sorted(results) if first in closers]
            for before, after in pairwise(firsts):
                if closers[after] < closers[before]:
                    yield f"{partition}: the result of {key!r} from {after} by {rule} comes behind that from {before}"
