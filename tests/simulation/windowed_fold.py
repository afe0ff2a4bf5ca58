"""The judge of windows in event time: the naive oracles of tests/unit/windows fold the log."""

from collections.abc import Sequence
from math import inf
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.tumbling import name
from tests.simulation.fold import loads, open_counts
from tests.unit.windows.oracle import Oracle, Step
from tests.unit.windows.session_oracle import SessionOracle


def _open(oracle: Oracle | SessionOracle) -> dict[bytes, int]:
    """How many records each open group holds, by its name in the changelog."""
    if isinstance(oracle, Oracle):
        return {name(start, key): len(group.amounts) for (start, key), group in oracle.open.items()}
    every = [(key, each.records) for key, sessions in oracle.open.items() for each in sessions]
    return {name(min(records)[0], key): len(records) for key, records in every}


class Windowed:
    """As fold.Fold, for an agent with windows. The oracles are those of the two kinds of windows."""

    tumbling: type[Oracle] = Oracle
    sessions: type[SessionOracle] = SessionOracle

    def __init__(self, agent: Agent, records: Sequence[LogRecord], crashed: set[int]) -> None:
        rule = agent.aggregation
        assert rule is not None
        assert rule.window is not None
        self.failed: list[int] = []
        self.window = rule.window
        self.oracle = self._oracle(len(records) + 1)
        self._topic = agent.to.topic if agent.to else ""
        for record in records:
            if record.o not in crashed:
                self._take(record)
        self._order = {each.first: at for at, each in enumerate(self.oracle.results)}

    def _oracle(self, many: int) -> Oracle | SessionOracle:
        size, grace = (round(1000 * each) for each in (self.window.size, self.window.grace))
        if self.window.kind == "session":
            return self.sessions(size, grace, inf, inf, inf, many)
        return self.tumbling(size, 0, grace, inf, inf, inf, many)

    def _take(self, record: LogRecord) -> None:
        value = loads(record.v)
        if not isinstance(value, dict) or "n" not in value:
            self.oracle.refused.append((record.o, "undecodable"))
        elif record.k is None:
            self.oracle.refused.append((record.o, "no-key"))
        else:
            self.oracle.take(record.o, Step(0.0, record.k, value["t"], value["n"]))

    def at(self, offset: int) -> int:
        """As fold.Fold: windows close by end and first record."""
        return self._order[offset]

    def outputs(self) -> list[tuple[int, bytes | None, Any, str]]:
        found: list[tuple[int, bytes | None, Any, str]] = []
        for each in self.oracle.results:
            start, end = rfc3339(each.start / 1000), rfc3339(each.end / 1000)
            window = {"start": start, "end": end, "closed_by": "event", "revision": 1}
            document = {"count": each.count, "reason": "window", "total": each.total, "window": window}
            found.append((each.first, each.key, document, self._topic))
        return found

    def left(self, world: Any, partition: Partition) -> list[str]:
        """The windows that are open at the end."""
        counts = open_counts(world, partition)
        wanted = _open(self.oracle)
        return [] if counts in (None, wanted) else [f"{partition}: open windows {counts} instead of {wanted}"]
