"""The judge of windows that close by silence: each record counts in its window."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.testing.log import LogRecord
from tests.simulation.fold import apart, loads
from tests.simulation.silence import SIZE


class Refusals(NamedTuple):
    """Offsets of records that are refused, each with the reason."""

    refused: list[tuple[int, str]]


class Group(NamedTuple):
    """The records of one key and window."""

    start: int
    key: bytes
    amounts: list[tuple[int, int]]  # offset and amount


class Silent:
    """As fold.Fold: each record counts in its window, whatever closed it."""

    def __init__(self, records: Sequence[LogRecord], crashed: set[int]) -> None:
        self.failed: list[int] = []
        self.oracle = Refusals([])
        self._groups: dict[tuple[int, bytes], Group] = {}
        for record in records:
            if record.o not in crashed:
                self._take(record, loads(record.v))
        self._order = {group.amounts[0][0]: at for at, group in enumerate(sorted(self._groups.values(), key=_closes))}

    def _take(self, record: LogRecord, value: Any) -> None:
        if not isinstance(value, dict) or "n" not in value:
            self.oracle.refused.append((record.o, "undecodable"))
        elif record.k is None:
            self.oracle.refused.append((record.o, "no-key"))
        else:
            start = record.at // SIZE * SIZE
            group = self._groups.setdefault((start, record.k), Group(start, record.k, []))
            group.amounts.append((record.o, value["n"]))

    def at(self, number: int) -> int:
        return self._order[number]

    def outputs(self) -> list[tuple[int, bytes | None, Any, str]]:
        lines: list[tuple[int, bytes | None, Any, str]] = []
        for group in self._groups.values():
            total = sum(amount for _, amount in group.amounts)
            lines.append((group.amounts[0][0], group.key, {"count": len(group.amounts), "total": total}, "out"))
        return lines

    def left(self, world: Any, partition: Partition) -> list[str]:
        return apart(world, partition)


def _closes(group: Group) -> tuple[int, int]:
    return group.start, group.amounts[0][0]
