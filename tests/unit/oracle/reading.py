"""What a record is to an agent before it reaches a group: taken, left out, dropped, or refused with a reason."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.unit.oracle.words import LETS, WHERE, NoAnswer, Refusal, Row, is_number, key_of, there

NUMBERS = ("sum", "min", "max", "mean")


def parts(what: dict[str, Any]) -> tuple[str, str, int]:
    """The kind of a reducer, its field, and how many values it gives at most; 0 for those without such a number."""
    [(kind, source)] = what.items()
    return (kind, source["field"], source["n"]) if isinstance(source, dict) else (kind, source, 0)


@dataclass
class Sent:
    """A record. `at` is its timestamp in ms, `now` the owner's time in seconds when it is read."""

    offset: int
    key: str | None
    value: bytes | None
    header: str | None
    at: int
    now: float


@dataclass
class Reader:
    """The clauses of an agent that look at one record: where, let, dedupe, key, and the fields of reducers."""

    agent: dict[str, Any]
    ids: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rule = self.agent.get("aggregate")
        self.on_error = self.agent.get("on_error", {})
        self.lets = self.agent.get("let", {})

    def broken(self, reason: str) -> Refusal:
        if reason == "null-value" and self.rule is not None:
            policy = self.rule.get("on_null")
        elif reason in ("missing-field", "wrong-type"):
            policy = (self.rule or {}).get("on_missing")
        else:
            policy = self.on_error.get("decode")
        return Refusal(None if policy == "skip" else reason)

    def failed(self) -> Refusal:
        return Refusal(None if self.on_error.get("expression") == "skip" else "expression-failed")

    def document(self, sent: Sent) -> Any:
        """Raises Refusal."""
        if sent.value is None:
            raise self.broken("null-value")
        try:
            return json.loads(sent.value)
        except ValueError:
            raise self.broken("undecodable") from None

    def takes(self, sent: Sent) -> bool:
        """What `where` says. Raises Refusal."""
        where = self.agent.get("where")
        if where is None:
            return True
        document = self.document(sent)
        try:
            return bool(WHERE[where].answer(self.row(document)))
        except NoAnswer:
            raise self.failed() from None

    def row(self, document: Any, names: tuple[str, ...] = ()) -> Row:
        """The fields, with these computed ones. Raises NoAnswer."""
        row: Row = dict(document) if isinstance(document, dict) else {}
        for name in names:
            row[name] = LETS[self.lets[name]].answer(row)
        return row

    def identity(self, sent: Sent) -> str | None:
        """The id of the record; None without `dedupe`, and for a record without an id that is taken all the same.
        Raises Refusal."""
        dedupe = self.agent.get("dedupe")
        if dedupe is None:
            return None
        source = dedupe["id"]
        if source == "key":
            key = sent.key
        elif source == "header:e":
            key = sent.header
        else:
            key = self.id_in_value(sent, source)
        if key:
            return key
        if dedupe.get("on_missing") == "accept" or not self.is_message(sent, source):
            return None
        raise Refusal("no-id")

    def is_message(self, sent: Sent, source: str) -> bool:
        """Whether nothing else is wrong with a record that has no id."""
        if self.rule is None and source in ("key", "header:e"):
            return True
        try:
            json.loads(sent.value or b"")
        except ValueError:
            return False
        return True

    def id_in_value(self, sent: Sent, name: str) -> str | None:
        try:
            document = json.loads(sent.value or b"")
        except ValueError:
            return None
        if name in self.lets:
            try:
                value = self.row(document, (name,))[name]
            except NoAnswer:
                raise self.failed() from None
        else:
            value = document.get(name) if isinstance(document, dict) else None
        return None if value is None or not isinstance(document, dict) else key_of(value)

    def known(self, identity: str, now: float) -> bool:
        return identity in self.ids and now - self.ids[identity] < self.agent["dedupe"]["horizon_s"]

    def note(self, identity: str, now: float) -> None:
        """The record of this id counts."""
        self.ids.pop(identity, None)
        self.ids[identity] = now
        while len(self.ids) > self.agent["dedupe"].get("max_ids", 1_000_000):
            del self.ids[next(iter(self.ids))]

    def fields(self, sent: Sent) -> tuple[str | None, Row]:
        """The key and the fields of a record for its group. Raises Refusal."""
        document = self.document(sent)
        names = self.named()
        try:
            row = self.row(document, tuple(name for name in names if name in self.lets))
        except NoAnswer:
            raise self.failed() from None
        if names and not isinstance(document, dict):
            raise self.broken("wrong-type")
        needed = {name: kind for name, kind in names.items() if kind != "optional"}
        for name, value in row.items():  # the first one in the record is named
            if name in needed and value is None:
                raise self.broken("missing-field")
            if needed.get(name) == "number" and not is_number(value):
                raise self.broken("wrong-type")
        if needed.keys() - row.keys():
            raise self.broken("missing-field")
        by = self.agent.get("key")
        key = sent.key if by is None else key_of(there(row, by))
        return key, row

    def named(self) -> dict[str, str]:
        """The fields that the group needs: `number` and `any` must be there."""
        assert self.rule is not None
        lenient = self.rule.get("on_missing") == "ignore"
        names: dict[str, str] = {}
        for kind, name, _ in (
            parts(definition) for definition in self.rule["compute"].values() if isinstance(definition, dict)
        ):
            kind = "optional" if lenient else "number" if kind in NUMBERS else "any"
            names[name] = "number" if "number" in (kind, names.get(name)) else kind
        if (by := self.agent.get("key")) is not None:
            names[by] = "number" if names.get(by) == "number" else "any"
        until = self.rule.get("until")
        if isinstance(until, dict):
            names.setdefault(until["field"], "optional")
        window = self.rule.get("window", {})
        if isinstance(window.get("time"), dict):
            names.setdefault(window["time"]["field"], "optional")
        source = (self.agent.get("dedupe") or {}).get("id")
        if source in self.lets:
            names.setdefault(source, "optional")
        return names
