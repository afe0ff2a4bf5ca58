"""What groups without windows do: counts, `until`, timeouts, limits, and what reducers make of their records."""

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from math import isfinite
from operator import add
from typing import Any

from tests.unit.oracle.reading import NUMBERS, Sent, parts
from tests.unit.oracle.words import UNTIL, NoAnswer, Refusal, Row, compact, is_number, key_of


@dataclass
class Counted:
    """A record of a group. `document` is all of it, `row` its fields with computed ones."""

    sent: Sent
    row: Row
    document: Any


@dataclass
class Result:
    """A group that ended. `window` is the start and end in ms, what closed it, and the revision."""

    key: str
    reason: str
    records: list[Counted]
    values: Row
    window: tuple[int, int, str, int] | None = None


@dataclass
class Open:
    opened: float
    records: list[Counted] = field(default_factory=list)

    @property
    def first(self) -> int:
        return min(record.sent.offset for record in self.records)

    @property
    def last(self) -> Counted:
        return max(self.records, key=lambda record: record.sent.offset)


def values(rule: dict[str, Any], records: list[Counted]) -> Row:
    """What the reducers make of the records, in the order in which they were collected."""
    made: Row = {}
    for name, what in rule["compute"].items():
        if what == "count":
            made[name] = len(records)
        elif what == "collect":
            made[name] = [record.document for record in records]
        else:
            kind, source, most = parts(what)
            by_offset = sorted(records, key=lambda record: record.sent.offset) if kind != "collect" else records
            items = [value for record in by_offset if (value := record.row.get(source)) is not None]
            made[name] = counted(kind, items, most) if most or kind == "count_by" else reduced(kind, items)
    return made


def counted(kind: str, items: list[Any], most: int) -> Any:
    """What has a number of records for each value, or up to `most` values."""
    if kind in ("first_n", "last_n"):
        return items[:most] if kind == "first_n" else items[-most:]
    numbers = Counter(map(key_of, items))
    if kind == "count_by":
        return dict(sorted(numbers.items()))
    first = sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))[:most]
    return [{"value": value, "count": number, "error": 0} for value, number in first]


def reduced(kind: str, items: list[Any]) -> Any:
    numbers = [value for value in items if is_number(value)]
    if kind in NUMBERS:
        total = reduce(add, numbers, 0)
        least, most = min(numbers, default=None), max(numbers, default=None)
        mean = total / len(numbers) if numbers else None
        return {"sum": total, "min": least, "max": most, "mean": mean}[kind]
    if kind == "distinct":
        return len({compact(value) for value in items})
    if kind == "collect":
        return items
    return None if not items else items[0] if kind == "first" else items[-1]


def size(rule: dict[str, Any], sent: Sent) -> int:
    """The bytes that a record adds to its group: those of each `collect`."""
    return len(sent.value or b"") * list(rule["compute"].values()).count("collect")


@dataclass
class Groups:
    """The open groups by key, in the order in which they were opened. `results` are those that ended."""

    rule: dict[str, Any]
    failing: Refusal
    open: dict[Any, Open] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)

    def take(self, key: Any, counted: Counted) -> None:
        """Raises Refusal."""
        if key is None:
            raise Refusal("no-key")
        group = self.room(key, counted)
        group.records.append(counted)
        try:
            ends = self.until(group.records)
        except NoAnswer:
            group.records.pop()
            if not group.records:
                del self.open[key]
            raise self.failing from None
        self.judge(key, ends)

    def room(self, name: Any, counted: Counted) -> Open:
        """The group that takes the record, after the limits. Raises Refusal."""
        rule, more = self.rule, size(self.rule, counted.sent)
        most = int(rule.get("max_bytes", "900000B").removesuffix("B"))
        if more > most:
            raise Refusal("too-large")
        if name in self.open and more + sum(size(rule, record.sent) for record in self.open[name].records) > most:
            self.end(name, "limit")
        if name not in self.open:
            if self.places() >= rule.get("max_groups", 1_000_000):
                if rule.get("on_full") == "dead-letter":
                    raise Refusal("limit")
                self.end(self.oldest(), "limit")
            self.open[name] = Open(counted.sent.now)
        return self.open[name]

    def places(self) -> int:
        return len(self.open)

    def oldest(self) -> Any:
        return next(iter(self.open))

    def until(self, records: list[Counted]) -> bool:
        """Whether the group ends with its last record. Raises NoAnswer."""
        until, row = self.rule.get("until"), records[-1].row
        if until is None:
            return False
        if isinstance(until, dict):
            value, equals = row.get(until["field"]), until["equals"]
            return bool(value == equals) and isinstance(value, bool) == isinstance(equals, bool)
        group = {name: value for name, value in values(self.rule, records).items() if finite(value)}
        try:
            return bool(UNTIL[until].answer({**row, "group": {**group, "count": len(records)}}))
        except NoAnswer:
            if until.startswith("group.") and until.partition(" ")[0].partition(".")[2] not in {*group, "count"}:
                return False
            raise

    def judge(self, name: Any, until: bool) -> None:
        many = len(self.open[name].records)
        if many >= self.rule.get("count", many + 1):
            self.end(name, "count")
        elif until:
            self.end(name, "until")
        elif many >= self.rule.get("max_items", many + 1):
            self.end(name, "limit")

    def end(self, name: Any, reason: str) -> None:
        group = self.open.pop(name)
        self.results.append(Result(name, reason, group.records, values(self.rule, group.records)))

    def next_due(self) -> float:
        return min(map(self.due, self.open.values()), default=float("inf"))

    def due(self, group: Open) -> float:
        timeout = self.rule.get("timeout")
        if timeout is None:
            return float("inf")
        since = group.opened if timeout.get("since", "first") == "first" else group.last.sent.now
        return since + float(timeout["after"].removesuffix("s"))

    def look(self, now: float) -> None:
        """The owner's clock has this time."""
        for name in [name for name, group in self.open.items() if self.due(group) <= now]:
            self.end(name, "timeout")


def finite(value: Any) -> bool:
    """Whether it is a value that results can hold."""
    return value is not None and not (isinstance(value, float) and not isfinite(value))
