"""The judge of windows in event time: the naive oracles of tests/unit/windows fold the log."""

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from sluicegate.streams.windows.tumbling import name
from tests.simulation.fold import apart, loads, open_counts
from tests.unit.windows.hopping_oracle import HoppingOracle
from tests.unit.windows.late_oracle import AmendOracle
from tests.unit.windows.oracle import Oracle, Result, Step
from tests.unit.windows.session_oracle import SessionOracle, SessionResult


def _open(oracle: Oracle | HoppingOracle | SessionOracle) -> dict[bytes, int]:
    """How many records each open group holds, by its name in the changelog."""
    if isinstance(oracle, Oracle):
        kept = {entry: item.group for entry, item in oracle.kept.items()} if isinstance(oracle, AmendOracle) else {}
        return {name(*item): len(group.amounts) for item, group in (oracle.open | kept).items()}
    if isinstance(oracle, HoppingOracle):
        taken = ((key, record.time) for key, records in oracle.taken.items() for record in records)
        return dict(Counter(name(time // oracle.every * oracle.every, key) for key, time in taken))
    every = [(key, session.records) for key, sessions in oracle.open.items() for session in sessions]
    return {name(min(records)[0], key): len(records) for key, records in every}


class Windowed:
    """As fold.Fold, for an agent with windows. Each kind of windows has its oracle."""

    tumbling: type[Oracle] = Oracle
    amending: type[AmendOracle] = AmendOracle
    hopping: type[HoppingOracle] = HoppingOracle
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
        self._order = {self._number(result): at for at, result in enumerate(self.oracle.results)}
        self._send_what_waits()

    def _send_what_waits(self) -> None:
        """At the end of a run the clock goes on until nothing is due."""
        if isinstance(self.oracle, AmendOracle):
            first = len(self.oracle.results)
            self.oracle.tell_all()
            self._order |= {self._number(result): first for result in self.oracle.results[first:]}

    def _number(self, session_result: Result | SessionResult) -> int | tuple[int, ...]:
        if isinstance(session_result, Result) and session_result.revision > 1:
            return session_result.first, session_result.start, session_result.revision
        return (session_result.first, session_result.start) if self.window.kind == "hopping" else session_result.first

    def _oracle(self, many: int) -> Oracle | HoppingOracle | SessionOracle:
        size, every, grace = (
            round(1000 * seconds) for seconds in (self.window.size, self.window.every, self.window.grace)
        )
        if self.window.kind == "hopping":
            return self.hopping(size, every, 0, grace, inf, inf, inf, many)
        if self.window.kind == "session":
            return self.sessions(size, grace, inf, inf, inf, many)
        if self.window.late == "amend":
            return self.amending(size, 0, grace, inf, inf, inf, many, keep=round(1000 * self.window.keep), gather=inf)
        return self.tumbling(size, 0, grace, inf, inf, inf, many)

    def _take(self, record: LogRecord) -> None:
        value = loads(record.v)
        if not isinstance(value, dict) or "n" not in value:
            self.oracle.refused.append((record.o, "undecodable"))
        elif record.k is None:
            self.oracle.refused.append((record.o, "no-key"))
        else:
            self.oracle.take(record.o, Step(0.0, record.k, value["t"], value["n"]))

    def at(self, number: int | tuple[int, ...]) -> int:
        """As fold.Fold: windows close by end and first record."""
        return self._order[number]

    def outputs(self) -> list[tuple[int | tuple[int, ...], bytes | None, Any, str]]:
        """As fold.Fold. Of hopping windows the start belongs to the identity, too, and of revised results the
        revision."""
        lines: list[tuple[int | tuple[int, ...], bytes | None, Any, str]] = []
        for result in self.oracle.results:
            start, end = rfc3339(result.start / 1000), rfc3339(result.end / 1000)
            revision = result.revision if isinstance(result, Result) else 1
            window = {"start": start, "end": end, "closed_by": result.closed_by, "revision": revision}
            document = {"count": result.count, "reason": "window", "total": result.total, "window": window}
            lines.append((self._number(result), result.key, document, self._topic))
        return lines

    def left(self, world: Any, partition: Partition) -> list[str]:
        """The windows that are open at the end."""
        if both := apart(world, partition):
            return both
        counts = open_counts(world, partition)
        wanted = _open(self.oracle)
        return [] if counts in (None, wanted) else [f"{partition}: open windows {counts} instead of {wanted}"]
