"""What an aggregation must decide, record by record, in plain Python: json, uuid and lists, no engine code.

A group keeps all its records, and everything is computed from them when it ends. Written from the promises, not from
the engine.
"""

import json
import uuid
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import msgspec

NAMESPACE = uuid.UUID("9c1f6a52-6f0e-5d0b-8a53-0f7d3c1f2e64")
STATS = ("sum", "min", "max", "mean")
MISSING = object()


def fire_id(place: tuple[str, str, str, int], topic_id: str, offset: int) -> str:
    app, agent, topic, number = place
    array = json.dumps(["fire", app, agent, topic, topic_id, number, offset], separators=(",", ":"), ensure_ascii=False)
    return str(uuid.uuid5(NAMESPACE, array))


@dataclass
class Group:
    first: int
    opened: float
    last: int = -1
    seen: float = 0.0
    deadline: float = float("inf")
    records: list[tuple[bytes, Any]] = field(default_factory=list)
    size: int = 0


@dataclass
class Oracle:
    """`fires[key]` are (reason, count, first, last, opened, closed, values) in order; `refused` (offset, reason)."""

    rule: Any  # sluicegate.streams.agent.Aggregation
    loads: Any = json.loads
    shown: Any = json.loads
    functions: dict[str, Any] = field(default_factory=dict)
    groups: dict[bytes, Group] = field(default_factory=dict)
    fires: dict[bytes, list[tuple[Any, ...]]] = field(default_factory=dict)
    refused: list[tuple[int, str]] = field(default_factory=list)
    skipped: int = 0
    fields: bool = True
    where: Any = None
    """A function of the document: whether the record is taken. It raises LookupError where it has no answer."""
    ends: Any = None
    """What an `until` expression means: a function of the document and of the group's values by their names, whether
    the group ends. It raises LookupError where it has no answer."""
    gives: Any = None
    """What a deadline from the data means: a function of the document, the time of the group's first record, and now.
    It gives an instant, infinity for no deadline any more, and None for nothing. It raises LookupError where it has no
    answer."""

    def advance(self, now: float) -> None:
        for key in [key for key, group in self.groups.items() if self.due(group) <= now]:
            self.end(key, "timeout", now)

    def due(self, group: Group) -> float:
        ends = [float("inf")]
        if self.rule.since_first is not None:
            ends.append(group.opened + self.rule.since_first)
        if self.rule.since_last is not None:
            ends.append(group.seen + self.rule.since_last)
        return min(*ends, group.deadline)

    def take(self, offset: int, key: bytes | None, value: bytes | None, now: float) -> None:
        """One record at `now`."""
        self.advance(now)
        if not self.takes(offset, value):
            return
        document = self.read(offset, value)
        if document is MISSING:
            return
        if self.rule.key is not None:
            answer = at(document, self.rule.key)
            key = answer.encode() if isinstance(answer, str) else plain(whole(answer))
        if self.gives is not None and self.deadline(document, 0.0, now) is MISSING:
            self.refused.append((offset, "expression-failed"))
            return
        if key is None:
            self.refused.append((offset, "no-key"))
            return
        if (group := self.room(offset, key, value or b"", now)) is None:
            return
        group.records.append((value or b"", document))
        if (ends := self.until(offset, key, document, group)) is None:
            return
        group.last, group.seen = offset, now
        group.size += len(value or b"") if self.collects else 0
        if (deadline := self.deadline(document, group.opened, now)) is not None:
            group.deadline = deadline
        if self.rule.count is not None and len(group.records) >= self.rule.count:
            self.end(key, "count", now)
        elif ends:
            self.end(key, "until", now)
        elif len(group.records) >= self.rule.max_items:
            self.end(key, "limit", now)
        elif deadline is not None and self.due(group) <= now:
            self.end(key, "timeout", now)

    def deadline(self, document: Any, opened: float, now: float) -> Any:
        """What a record gives. MISSING: the expression has no answer."""
        try:
            return None if self.gives is None else self.gives(document, opened, now)
        except LookupError:
            return MISSING

    def takes(self, offset: int, value: bytes | None) -> bool:
        """Whether `where` lets the record through; what cannot be read is somebody else's to refuse."""
        try:
            return self.where is None or value is None or bool(self.where(self.loads(value)))
        except LookupError:
            self.refused.append((offset, "expression-failed"))
            return False
        except ValueError:
            return True

    def until(self, offset: int, key: bytes, document: Any, group: Group) -> bool | None:
        """Whether the group ends with its newest record. None: the record was refused and is in no group."""
        if self.rule.until is None:
            return False
        if self.ends is None:
            return same(at(document, self.rule.until.field), self.rule.until.equals)
        values = {r.name: self.value(r, group) for r in self.rule.compute} | {"count": len(group.records)}
        try:
            return bool(self.ends(document, {name: v for name, v in values.items() if v is not None}))
        except LookupError:
            self.refused.append((offset, "expression-failed"))
            group.records.pop()
            if not group.records:
                del self.groups[key]
            return None

    @property
    def collects(self) -> bool:
        return any(r.kind == "collect" and r.field is None for r in self.rule.compute)

    def read(self, offset: int, value: bytes | None) -> Any:
        if value is None:
            return self.turn_away(offset, "null-value", self.rule.on_null)
        try:
            document = self.loads(value)
        except ValueError:
            return self.turn_away(offset, "undecodable", "dead-letter")
        if not self.fields or not self.wanted():
            return document
        if not isinstance(document, dict) or any(not good(at(document, path), kind) for path, kind in self.wanted()):
            required = [(path.split("."), kind) for path, kind in self.wanted() if kind != "any"]
            return self.turn_away(offset, misfit(document, required), self.rule.on_missing)
        return document

    def wanted(self) -> list[tuple[str, str]]:
        """(path, kind) of what must be there; kind `any` only asks that the record is an object."""
        lenient = self.rule.on_missing == "ignore"
        schema_fields = [(r.field, "any" if lenient else r.kind) for r in self.rule.compute if r.field is not None]
        schema_fields += [(self.rule.until.field, "any")] if self.rule.until and self.ends is None else []
        return schema_fields + ([(self.rule.key, "key")] if self.rule.key is not None else [])

    def turn_away(self, offset: int, reason: str, policy: str) -> Any:
        if policy == "skip":
            self.skipped += 1
        else:
            self.refused.append((offset, reason))
        return MISSING

    def room(self, offset: int, key: bytes, value: bytes, now: float) -> Group | None:
        """The group for one more record, after the limits had their say."""
        rule, size = self.rule, len(value) if self.collects else 0
        group = self.groups.get(key)
        if size > rule.max_bytes:
            self.refused.append((offset, "too-large"))
            return None
        if group is not None and group.size + size > rule.max_bytes:
            self.end(key, "limit", now)
        if key not in self.groups:
            if len(self.groups) >= rule.max_groups and not self.relieve(offset, now):
                return None
            self.groups[key] = Group(offset, now)
        return self.groups[key]

    def relieve(self, offset: int, now: float) -> bool:
        if self.rule.on_full == "dead-letter":
            self.refused.append((offset, "limit"))
            return False
        self.end(min(self.groups, key=lambda key: self.groups[key].first), "limit", now)
        return True

    def end(self, key: bytes, reason: str, now: float) -> None:
        group = self.groups.pop(key)
        if reason == "timeout" and self.rule.on_timeout == "discard":
            return
        values = {r.name: self.value(r, group) for r in self.rule.compute}
        fire = (reason, len(group.records), group.first, group.last, group.opened, now, values)
        self.fires.setdefault(key, []).append(fire)

    def value(self, reducer: Any, group: Group) -> Any:
        if reducer.kind == "count":
            return len(group.records)
        if reducer.kind == "reduce":
            return reduce(lambda total, pair: self.functions[reducer.function](total, pair[1]), group.records, None)
        if reducer.kind == "collect" and reducer.field is None:
            return [self.shown(value) for value, _ in group.records]
        values = [v for _, document in group.records if (v := at(document, reducer.field)) is not None]
        return of(reducer.kind, values)


def of(kind: str, values: list[Any]) -> Any:
    if kind in STATS:
        values = [v for v in values if is_number(v)]
    if kind == "sum":
        return sum(values)
    if kind == "mean":
        return sum(values) / len(values) if values else None
    if kind == "distinct":
        return len({plain(whole(v)) for v in values})
    if kind == "collect":
        return values
    if not values:
        return None
    return {"min": min, "max": max, "first": lambda v: v[0], "last": lambda v: v[-1]}[kind](values)


def at(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def good(value: Any, kind: str) -> bool:
    return kind == "any" or (is_number(value) if kind in STATS else value is not None)


def misfit(document: Any, required: list[tuple[list[str], str]]) -> str:
    """Why the document does not fit: a decoder meets wrong types in the order of the document, and misses fields at its
    end. Null is missing."""
    if not isinstance(document, dict):
        return "missing-field" if document is None else "wrong-type"
    for name, value in document.items():
        below = [(path[1:], kind) for path, kind in required if path[0] == name]
        if any(not path and not good(value, kind) for path, kind in below):
            return "missing-field" if value is None else "wrong-type"
        deeper = [(path, kind) for path, kind in below if path]
        if deeper and (why := misfit(value, deeper)):
            return why
    return "missing-field" if any(path[0] not in document for path, _ in required) else ""


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(value: Any, wanted: Any) -> bool:
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def whole(value: Any) -> Any:
    """Numbers that are whole, as integers, at any depth."""
    if isinstance(value, dict):
        return {name: whole(v) for name, v in value.items()}
    if isinstance(value, list):
        return [whole(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")  # json.dumps writes some floats otherwise: 6.1e-05
