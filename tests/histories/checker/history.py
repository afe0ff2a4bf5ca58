"""A history: transactions over lists, and a queue's elements and deliveries. As JSON lines, one of them a line."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

Outcome = Literal["ok", "fail", "info"]
"""It committed; it did not; or the client does not know."""


class Append(NamedTuple):
    key: str
    element: int


class Read(NamedTuple):
    key: str
    elements: tuple[int, ...]


Operation = Append | Read


@dataclass(frozen=True)
class Transaction:
    """`begin` and `end` are times of one clock: the transaction took effect between them, if it did. The transactions
    of a process run one after another, in the order of the history."""

    operations: tuple[Operation, ...]
    outcome: Outcome = "ok"
    process: str = ""
    begin: float = 0.0
    end: float = 0.0

    def appends(self) -> list[Append]:
        return [operation for operation in self.operations if isinstance(operation, Append)]

    def reads(self) -> list[Read]:
        return [operation for operation in self.operations if isinstance(operation, Read)]

    def __str__(self) -> str:
        texts = [f"{'r' if isinstance(one, Read) else 'append'} {one[0]} {_short(one[1])}" for one in self.operations]
        return f"T[{self.outcome} {self.process} {self.begin:.3f}-{self.end:.3f}: {', '.join(texts)}]"


class Element(NamedTuple):
    """Put into the queue; the elements of a `key` in this order. Before the time `due` it may not be delivered."""

    name: str
    key: str
    outcome: Outcome = "ok"
    due: float = 0.0


class Delivery(NamedTuple):
    """In the order of their `line` (a partition of a log). A receiver drops a delivery whose `identity` it knows."""

    name: str
    key: str
    line: str
    identity: str
    at: float = 0.0


@dataclass
class History:
    """`about` says which run it comes from."""

    transactions: list[Transaction] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in self._lines()))

    def _lines(self) -> Iterable[dict[str, Any]]:
        yield {"about": self.about}
        for one in self.transactions:
            operations = [["r" if isinstance(step, Read) else "append", *step] for step in one.operations]
            yield {
                "transaction": operations,
                "outcome": one.outcome,
                "process": one.process,
                "begin": one.begin,
                "end": one.end,
            }
        yield from ({"element": list(one)} for one in self.elements)
        yield from ({"delivery": list(one)} for one in self.deliveries)

    @classmethod
    def read(cls, file: Path) -> "History":
        history = cls()
        for line in map(json.loads, file.read_text().splitlines()):
            if "transaction" in line:
                operations = tuple(_operation(*step) for step in line.pop("transaction"))
                history.transactions.append(Transaction(operations, **line))
            elif "element" in line:
                history.elements.append(Element(*line["element"]))
            elif "delivery" in line:
                history.deliveries.append(Delivery(*line["delivery"]))
            else:
                history.about |= line["about"]
        return history


def _operation(kind: str, key: str, value: Any) -> Operation:
    return Read(key, tuple(value)) if kind == "r" else Append(key, value)


def _short(value: int | Sequence[int]) -> str:
    if isinstance(value, int) or len(value) <= 8:
        return str(value if isinstance(value, int) else list(value))
    return f"[.. {len(value) - 4} .. {', '.join(map(str, value[-4:]))}]"
