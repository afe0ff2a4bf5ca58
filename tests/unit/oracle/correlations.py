"""What correlations do by the worker's clock: one result for each key, of the records of several topics."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.unit.oracle.reading import Sent
from tests.unit.oracle.results import Output, encoded, routed
from tests.unit.oracle.words import NoAnswer, Row, key_of

NEVER = float("inf")
COMPLETE = {
    "has(a) && size(b) >= 2": lambda legs: legs["a"] is not None and len(legs["b"]) >= 2,
    "has(a) && a.v > 1": lambda legs: legs["a"] is not None and legs["a"]["v"] > 1,
    "has(b)": lambda legs: legs["b"] not in (None, []),
}


@dataclass
class Legs:
    opened: float
    seen: float
    records: list[tuple[str, Any]] = field(default_factory=list)

    def fields(self, keeps: dict[str, str]) -> Row:
        """One field for each leg."""
        row: Row = {}
        for leg, keep in keeps.items():
            of_leg = [document for name, document in self.records if name == leg]
            row[leg] = of_leg if keep == "all" else (of_leg[0 if keep == "first" else -1] if of_leg else None)
        return row


@dataclass
class Correlation:
    """`outputs` are the messages that it sent; those for records of the internal topic have no offset."""

    agent: dict[str, Any]
    open: dict[str, Legs] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rule = self.agent["correlate"]
        self.keeps = {name: leg.get("keep", "first") for name, leg in self.rule["legs"].items()}
        self.after = float(self.rule["timeout"]["after"].removesuffix("s"))
        self.remember = float(self.rule["remember"].removesuffix("s"))

    def take(self, leg: str, sent: Sent) -> None:
        """One record of the topic of a leg."""
        setting = self.rule["legs"][leg]
        if sent.value is None:
            if setting.get("on_null") != "skip":
                self.outputs.append(Output("dead", None, None, "null-value", sent.offset))
            return
        document = json.loads(sent.value)
        key = sent.key
        if "key" in setting:
            if document.get(setting["key"]) is None:
                self.outputs.append(Output("dead", None, None, "missing-field", sent.offset))
                return
            key = key_of(document[setting["key"]])
        if key is None:
            self.outputs.append(Output("dead", None, None, "no-key", sent.offset))
        else:
            self.add(leg, key, document, sent.now)

    def add(self, leg: str, key: str, document: Any, now: float) -> None:
        if key in self.ended and now - self.ended[key] < self.remember:
            if self.rule.get("late") != "skip":
                self.outputs.append(Output("dead", None, document, "late"))
            return
        group = self.open.setdefault(key, Legs(now, now))
        group.records.append((leg, document))
        group.seen = now
        legs = group.fields(self.keeps)
        complete = self.rule.get("complete")
        if COMPLETE[complete](legs) if complete else all(legs[name] not in (None, []) for name in legs):
            self.end(key, "until", now)

    def end(self, key: str, reason: str, now: float) -> None:
        group = self.open.pop(key)
        row = {"key": key, "count": len(group.records), "reason": reason, **group.fields(self.keeps)}
        if self.remember:
            self.ended.pop(key, None)
            self.ended[key] = now
            while len(self.ended) > self.rule.get("max_keys", 1_000_000):
                del self.ended[next(iter(self.ended))]
        try:
            sent = routed(self.agent["to"], row, row)
        except NoAnswer:
            self.outputs.append(Output("dead", key, encoded(row), "expression-failed"))
            return
        self.outputs += [Output(topic, key, encoded(value)) for topic, value in sent]

    def due(self, group: Legs) -> float:
        return self.after + (group.seen if self.rule["timeout"].get("since") == "last" else group.opened)

    def advance(self, until: float) -> None:
        """The worker's clock goes to this time, from deadline to deadline."""
        while due := sorted((self.due(group), key) for key, group in self.open.items() if self.due(group) <= until):
            self.end(due[0][1], "timeout", due[0][0])
