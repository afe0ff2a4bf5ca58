"""Verdicts on results, dead letters and open groups: what a rule gives, against what was published."""

from collections.abc import Iterator
from typing import Any, NamedTuple

VERDICTS = ("identical", "changed", "missing", "extra", "uncertain")
EXAMPLES = 5


class Extent(NamedTuple):
    """A group by its records: offsets of the first and the last one, how many they are, and why
    it ended."""

    first: int
    last: int
    records: int
    reason: str


class Example(NamedTuple):
    """One verdict. `id` is the id that `sluicegate explain` takes; `live` is what was published, `new` what the rule
    gives; `differs` names what is not the same. `key` is text, for people."""

    verdict: str
    key: str
    topic: str
    partition: int
    id: str
    live: Extent | None
    new: Extent | None
    differs: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        extents = {name: each._asdict() if each else None for name, each in (("live", self.live), ("new", self.new))}
        return {**self._asdict(), **extents, "differs": list(self.differs)}


class Figures:
    """How many of each verdict, and the first examples of each that is not `identical`."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(VERDICTS, 0)
        self.examples: dict[str, list[Example]] = {}

    def count(self, verdict: str, example: Example | None = None) -> None:
        self.counts[verdict] += 1
        if example is not None and len(self.examples.setdefault(verdict, [])) < EXAMPLES:
            self.examples[verdict].append(example)

    def add(self, other: "Figures") -> None:
        for verdict, number in other.counts.items():
            self.counts[verdict] += number
        for verdict, examples in other.examples.items():
            mine = self.examples.setdefault(verdict, [])
            mine += examples[: EXAMPLES - len(mine)]

    def shown(self) -> Iterator[Example]:
        """The examples in the order of the verdicts."""
        for verdict in VERDICTS:
            yield from self.examples.get(verdict, ())

    @property
    def differs(self) -> bool:
        return any(self.counts[verdict] for verdict in ("changed", "missing", "extra"))


class Shadowed:
    """The verdicts on one partition, or the sum over several. `records` were folded; `left_out` groups ended without an
    output, as the rule says; `given` results the rule gives, `published` ones were there. `comparable` is false where
    no result can have a counterpart, since the rule has another key. `notes` say what was not judged, and why."""

    def __init__(self) -> None:
        self.results, self.dead, self.open = Figures(), Figures(), Figures()
        self.records = self.left_out = self.given = self.published = 0
        self.comparable = True
        self.notes: list[str] = []

    def add(self, other: "Shadowed") -> None:
        self.results.add(other.results)
        self.dead.add(other.dead)
        self.open.add(other.open)
        self.records += other.records
        self.left_out += other.left_out
        self.given += other.given
        self.published += other.published
        self.comparable = self.comparable and other.comparable
        for text in other.notes:
            self.note(text)

    def note(self, text: str) -> None:
        """Note this once."""
        if text not in self.notes:
            self.notes.append(text)

    def found(self, wanted: frozenset[str] | set[str]) -> list[str]:
        """Which of these were found: verdicts on results and open groups, `dead` for dead letters that differ."""
        both = {name: self.results.counts[name] + self.open.counts[name] for name in VERDICTS}
        both["uncertain"] += self.dead.counts["uncertain"]
        there = [name for name in VERDICTS if name in wanted and both[name]]
        return there + (["dead"] if "dead" in wanted and self.dead.differs else [])

    def document(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "published": self.published,
            "given": self.given,
            "left_out": self.left_out,
            "comparable": self.comparable,
            **self.results.counts,
            "dead": self.dead.counts,
            "open": self.open.counts,
            "examples": [each.document() for part in (self.results, self.dead, self.open) for each in part.shown()],
            "notes": self.notes,
        }
