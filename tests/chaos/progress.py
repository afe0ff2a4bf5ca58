"""How far the work is, counted as the records come: what a scenario waits for. The verdict does not rest on it."""

from collections import Counter
from collections.abc import Callable, Iterable

from tests.chaos.record import Seen
from tests.chaos.verdict import good

Effect = Callable[[Seen], tuple[int, int]]
"""Of an output: the input partition that it came from, and how many records it covers."""


def of_a_group(record: Seen) -> tuple[int, int]:
    return int(record.headers["sluicegate-first"].rsplit("/", 2)[1]), int(record.headers["sluicegate-count"])


class Progress:
    """Counts of distinct effects; `name` is the app's."""

    def __init__(self, name: str, effect: Effect = of_a_group) -> None:
        self._name, self._effect = name, effect
        self._good = self._bad = 0
        self._covered: dict[str, int] = {}
        self._dead: set[str] = set()
        self._further: dict[str, int] = {}
        self.fired: Counter[int] = Counter()  # groups by input partition

    def take(self, records: Iterable[Seen]) -> None:
        for record in records:
            topic = record.topic.removeprefix(self._name + ".")
            if topic == "in" and good(record):
                self._good += 1
            elif topic == "in":
                self._bad += 1
            elif topic == "dead":
                self._dead.add(record.id)
            elif topic == "totals":
                self._further[record.id] = int(record.headers["sluicegate-count"])
            elif topic == "out" and record.id not in self._covered:
                partition, self._covered[record.id] = self._effect(record)
                self.fired[partition] += 1

    def __str__(self) -> str:
        covered = sum(self._covered.values())
        return (
            f"{covered} of {self._good} records have their effect, {len(self._dead)} of {self._bad} bad ones a "
            "dead letter"
        )

    def complete(self, poison: int, further: bool) -> bool:
        """Has every record of the input its effect? Also further down, if there is somebody."""
        done = sum(self._covered.values()) >= self._good - poison and len(self._dead) >= self._bad + poison
        return done and (not further or sum(self._further.values()) >= len(self._covered))
