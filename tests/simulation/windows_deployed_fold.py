"""The judge of windows that are open while other versions of their rule are deployed.

Which windows there are, what is late and which records a window has follow from the log alone, because all versions
have the same windows. Each window has one result, which names its rule; what it says follows from that rule.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate.streams.agent import Aggregation
from sluicegate.streams.aggregation.results import rfc3339
from sluicegate.streams.contracts.values import Partition
from sluicegate.streams.rules import rule_of
from sluicegate.streams.testing.log import LogRecord
from tests.chaos.record import Seen
from tests.simulation.fold import loads
from tests.simulation.windowed_fold import Windowed
from tests.unit.windows.oracle import Step

APART = 1_000_000  # no sum of n is so large


class WindowedByRule(Windowed):
    """As Windowed, judged by the rule that a result names. The oracle adds both fields up, each APART."""

    def __init__(self, world: Any, records: Sequence[LogRecord], crashed: set[int], sent: Sequence[Seen]) -> None:
        super().__init__(world.plan.agents[0], records, crashed)
        self._rules = {rule_of(each).short: each for each in world.plan.files}
        self._results = [each for each in sent if "sluicegate-window" in each.headers]

    def _take(self, record: LogRecord) -> None:
        value = loads(record.v)
        if not isinstance(value, dict) or "n" not in value or record.k is None:
            super()._take(record)
        else:
            self.oracle.take(record.o, Step(0.0, record.k, value["t"], value["n"] + APART * value["m"]))

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
        sums = {(each.key, rfc3339(each.start / 1000)): divmod(each.total, APART)[::-1] for each in self.oracle.results}
        rule_at = dict[str, str]()
        for each in self._results:
            start = each.headers["sluicegate-window"].partition("/")[0]
            named, place = (
                each.headers.get("sluicegate-rule", ""),
                f"{partition}: the result of {each.key!r} at {start}",
            )
            if named not in self._rules:
                yield f"{place} names the rule {named}, which was not deployed"
                continue
            compute = (self._rules[named].aggregation or Aggregation()).compute
            wanted = sums.get((each.key or b"", start), (0, 0))["nm".index(compute[0].field or "")]
            if loads(each.value)["total"] != wanted:
                yield f"{place} is {loads(each.value)} instead of {wanted}"
            if self.window.every and rule_at.setdefault(start, named) != named:
                yield f"{place} is of the rule {named}, another one of {rule_at[start]}"
