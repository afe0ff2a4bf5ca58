"""Each early result has the first records of its group, and each group counts its results without a gap.

With `count` and `on: change` the records alone tell which results there are. With `every` the number of records of each
is taken from what was sent, and must be more than that of the one before.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate.streams.agent import Agent
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation.fold import Fold, loads

MOST = 1_000  # results of a group, at most


class Early(Fold):
    """As Fold, with the results before the last one."""

    def __init__(
        self, agent: Agent, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen], identify: Any
    ) -> None:
        super().__init__(agent, records, crashed, sent, identify)
        assert agent.aggregation is not None
        assert agent.aggregation.emit is not None
        self._emit = agent.aggregation.emit
        self._values: dict[bytes | None, list[tuple[int, int]]] = {}
        for record in self.usable:
            self._values.setdefault(record.k, []).append((record.o, loads(record.v)["n"]))
        self._counts: dict[int, list[int]] = {}  # of early results with `every`, by the first record of the group
        for message in sent:
            document = loads(message.value)
            if isinstance(document, dict) and document.get("reason") == "early":
                first = int(message.headers["sluicegate-first"].rpartition("/")[2])
                self._counts.setdefault(first, []).append(document["count"])

    def outputs(self) -> list[tuple[Any, bytes | None, Any, str]]:
        wanted: list[tuple[Any, bytes | None, Any, str]] = []
        for key, first, count, reason in self._groups():
            values = [number for offset, number in self._values[key] if offset >= first][:count]
            early = self._early(first, values, ended=reason is not None)
            results = [(records, "early") for records in early] + ([(count, reason)] if reason else [])
            for revision, (records, why) in enumerate(results, 1):
                document = {"count": records, "reason": why, "total": sum(values[:records]), "revision": revision}
                document["final"] = why != "early"
                number = first if revision == 1 else (first, 0, revision)
                wanted.append((number, key, document, "out"))
        return wanted

    def group_of(self, message: Seen) -> str:
        first = message.headers.get("sluicegate-first", "").rpartition("/")[2]
        return str(self.identify(int(first))) if first else ""

    def at(self, number: Any) -> int:
        first, _, revision = (number, 0, 1) if isinstance(number, int) else number
        return int(first * MOST + revision)

    def left(self, world: Any, partition: Partition) -> list[str]:
        never = [f"{partition}: no early result in a whole run"] if self._emit.every and not self._counts else []
        return super().left(world, partition) + never

    def _groups(self) -> Iterator[tuple[bytes, int, int, str | None]]:
        """Key, first record, number of records, and why it ended; of open groups None."""
        for key, fires in self.oracle.fires.items():
            for reason, count, first, *_ in fires:
                yield key, first, count, reason
        for key, group in self.oracle.groups.items():
            yield key, group.first, len(group.records), None

    def _early(self, first: int, values: Sequence[int], ended: bool) -> list[int]:
        """The number of records of each early result of a group. The last record of a group that ended by its count
        makes none. A group that timed out had its last record before."""
        count, whole = self._emit.count, self.agent.aggregation and self.agent.aggregation.count
        last = len(values) - 1 if ended and len(values) == whole else len(values)
        if count:
            return [*range(count, last + 1, count)]
        if self._emit.on:
            return [records for records in range(1, last + 1) if records == 1 or values[records - 1]]
        return sorted({records for records in self._counts.get(first, []) if records <= last})
