"""A table, as a database has it, and the change events that a connector writes of it: plain Python, no engine code."""

import json
import random
from collections import Counter
from fractions import Fraction
from math import isfinite, sqrt
from typing import Any

Row = dict[str, Any]
Event = tuple[str, bytes | None]
"""The primary key, and the value of the record."""

CUSTOMERS = ("ann", "bob", "cyd", None)
STATES = ("new", "paid", "cancelled")
AMOUNTS = (0, 1, 7, -3, 2**70, 0.1, 0.2, 0.3, 1e16, -2.5, 3.0, None, "many")


class Database:
    """`rows` is the table now, and `events` what the connector wrote. At least once: `restart` writes the last events
    again, and `snapshot` the rows of some keys."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: dict[str, Row] = {}
        self.events: list[Event] = []
        self.wraps, self.has_before = self.random.random() < 0.3, self.random.random() < 0.5

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choices(
                (self.upsert, self.delete, self.rename, self.restart, self.snapshot), (60, 15, 5, 4, 4)
            )[0]()

    def row(self, key: str) -> Row:
        pick = self.random.choice
        row = {"id": key, "customer": pick(CUSTOMERS), "status": pick(STATES), "amount": pick(AMOUNTS)}
        if self.random.random() < 0.03:
            del row["amount"]
        return row

    def upsert(self) -> None:
        key = str(self.random.randrange(8))
        before, after = self.rows.get(key), self.row(key)
        if before is not None and self.random.random() < 0.5:
            after["customer"] = before["customer"]
        self.rows[key] = after
        self.write(key, "c" if before is None else "u", before, after)

    def delete(self) -> None:
        if self.rows:
            self.gone(self.random.choice([*self.rows]))

    def gone(self, key: str) -> None:
        self.write(key, "d", self.rows.pop(key), None)
        if self.random.random() < 0.7:
            self.events.append((key, None))

    def rename(self) -> None:
        """Another primary key: the connector writes a delete and an insert."""
        if self.rows:
            key = self.random.choice([*self.rows])
            other, row = str(self.random.randrange(8, 12)), self.rows[key]
            if other not in self.rows:
                self.gone(key)
                self.rows[other] = {**row, "id": other}
                self.write(other, "c", None, self.rows[other])

    def restart(self) -> None:
        self.events += self.events[-self.random.randrange(1, 15) :]

    def snapshot(self) -> None:
        for key in self.random.sample([*self.rows], self.random.randint(0, len(self.rows))):
            self.write(key, "r", None, self.rows[key])

    def write(self, key: str, op: str, before: Row | None, after: Row | None) -> None:
        before = before if self.has_before else None
        event: Any = {"op": op, "before": before, "after": after, "source": {"table": "orders"}, "ts_ms": 1}
        self.events.append((key, json.dumps({"schema": {}, "payload": event} if self.wraps else event).encode()))


def counts(row: Row) -> bool:
    """Whether the row is in a group."""
    amount = row.get("amount")
    return row["customer"] is not None and row["status"] != "cancelled" and type(amount) in (int, float)


def answers(rows: Any) -> dict[str, dict[str, Any]]:
    """What a database would answer, for each customer."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if counts(row):
            groups.setdefault(row["customer"], []).append(row)
    return {customer: _answer(group) for customer, group in groups.items()}


def _answer(rows: list[Row]) -> dict[str, Any]:
    amounts = [row["amount"] for row in rows]
    exact, many = [Fraction(amount) for amount in amounts], len(amounts)
    total, mean = sum(exact), sum(exact) / many
    whole = all(type(amount) is int for amount in amounts)
    variance = float(sum((value - mean) ** 2 for value in exact) / (many - 1)) if many > 1 else None
    assert isfinite(total)
    return {
        "orders": many,
        "spent": int(total) if whole else float(total),
        "average": float(mean),
        "least": min(amounts),
        "most": max(amounts),
        "spread": variance,
        "deviation": None if variance is None else sqrt(variance),
        "by_status": dict(sorted(Counter(row["status"] for row in rows).items())),
        "states": len({row["status"] for row in rows}),
        "amounts": sorted(amounts),
        "ids": sorted(row["id"] for row in rows),
        "rows": sorted(rows, key=lambda row: str(row["id"])),
    }


def in_order(values: dict[str, Any]) -> dict[str, Any]:
    """A table has no order, so lists are compared sorted."""
    lists = {name: sorted(values[name]) for name in ("amounts", "ids")}
    rows = sorted(values["rows"], key=lambda row: str(row["id"]))
    return {**values, **lists, "rows": rows}
