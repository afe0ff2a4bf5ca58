"""Verdicts on results, dead letters and open groups: the rule's output against the published one."""

from collections.abc import Iterator
from typing import Any, NamedTuple

VERDICTS = ("identical", "changed", "missing", "extra", "uncertain")
EXAMPLES = 5


class Extent(NamedTuple):
    """A group as a range of records: offsets of the first and the last one, their number, and the reason of its end."""

    first: int
    last: int
    records: int
    reason: str


class Example(NamedTuple):
    """One verdict. `id` is the id that `sluicegate explain` takes. `live` is the published group, `new` the rule's
    group. `differs` names the fields that differ. `key` is text, for people."""

    verdict: str
    key: str
    topic: str
    partition: int
    id: str
    live: Extent | None
    new: Extent | None
    differs: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        extents = {
            name: extent._asdict() if extent else None for name, extent in (("live", self.live), ("new", self.new))
        }
        return {**self._asdict(), **extents, "differs": list(self.differs)}


class Figures:
    """The number of each verdict, and the first examples of each verdict except `identical`."""

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
    """The verdicts on one partition, or the sum over several. `records` were processed. `left_out` groups ended without
    an output, as the rule demands. The rule gives `given` results; `published` results exist. `comparable` is false
    where no result can have a counterpart, because the rule has another key. `notes` are sentences about parts that
    were not judged."""

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
        """Adds the note unless it exists."""
        if text not in self.notes:
            self.notes.append(text)

    def matches(self, wanted: frozenset[str] | set[str]) -> list[str]:
        """The names among `wanted` that occurred: verdicts on results and open groups, and `dead` for dead letters that
        differ."""
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
            "examples": [
                example.document() for part in (self.results, self.dead, self.open) for example in part.shown()
            ],
            "notes": self.notes,
        }
