"""One input for each kind of agent. For each feature it has something that the feature decides.

Each cause has a partition of its own, in re-keyed topics as well: what halts one partition hides no other cause.
"""

from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import count
from typing import Any, NamedTuple

from sluicegate.streams.testing.hashing import partition_of
from sluicegate.streams.testing.log import START
from tests.pairs.features import CORRELATIONS
from tests.pairs.functions import ALWAYS, AWAY, THRICE

PARTITIONS = 10
REFUSED = "refused"
"""In keys: Kafka refuses what is written under them."""
EVENT = {"ce_specversion": "1.0", "ce_type": "t", "ce_source": "/s", "content-type": "application/json"}
LARGE, SMALL = "x" * 12_000, "x" * 1_000


class Sent(NamedTuple):
    """A record; `after` is its time in seconds since the begin of the test."""

    topic: str
    key: str
    value: Any
    after: float
    headers: dict[str, str]


class Moment(Enum):
    """`BEGIN`: the agent runs for the first time. `CHANGED`: it runs under its changed file."""

    BEGIN = "begin"
    CHANGED = "changed"


class Row(NamedTuple):
    """The row of this key is written."""

    key: str


Step = Sent | Row | Moment | float
"""A number: so many seconds pass."""


@cache
def name(word: str, partition: int) -> str:
    """A name that begins with the word, which as a key has this partition."""
    return next(f"{word}-{n}" for n in count() if partition_of(f"{word}-{n}".encode(), PARTITIONS) == partition)


PLAIN, SAME, LATE, HEAVY = (name(word, 0) for word in ("plain", "same", "late", "heavy"))
BAD, NULL, BIG = name("bad", 1), name("null", 8), name("big", 9)
PART = name("part", 2)
FAILS = name(ALWAYS, 3)
FOURTH, GONE = name(THRICE, 4), name(AWAY, 4)
DENIED = name(REFUSED, 5)
ROWLESS = name("rowless", 6)
MANY = [name(f"many{number}", 7) for number in range(12)]
ALONE, UNPAID = name("alone", 0), name("unpaid", 0)
ELSEWHERE = name("elsewhere", 2)
"""Its records have the id of those of SAME."""


class Input:
    """Makes the steps of one kind."""

    def __init__(self, kind: str) -> None:
        self.correlated, self.table = kind in CORRELATIONS, kind == "table"
        self._numbers = count()

    def record(self, key: str, amount: float | None, after: float = 1.0, **values: Any) -> Iterator[Sent]:
        """An order of a key, or what the legs of a correlation have of it: an order and a payment."""
        number = next(self._numbers)
        own = name(f"{key}.{number}", partition_of(key.encode(), PARTITIONS))
        value = {"id": own, "amount": amount, "at": int(START + after), "status": "open"} | values
        value = {name: part for name, part in value.items() if part is not None}
        headers = EVENT | {"ce_id": own, "event": f"e-{number}"}
        for topic in ("orders", "payments") if self.correlated else ("in",):
            paid = value | {"id": key} if topic == "payments" else value
            changed = {"op": "c", "before": None, "after": value} if self.table else paid
            yield Sent(topic, key, changed, after, headers)

    def steps(self) -> Iterator[Step]:
        yield from self.record(PLAIN, 3.0)
        yield Moment.BEGIN
        first, second = [*self.first()], [*self.second()]
        names = {name for sent in first + second for name in (sent.key, identity(sent))}
        yield from (Row(name) for name in sorted(names) if not name.startswith(ROWLESS))
        yield from first
        yield 0.1
        yield 10.0
        yield Moment.CHANGED
        yield from (Row(name) for name in sorted(names) if name.startswith(ROWLESS))
        yield from self.record(PLAIN, 2.5, 8.0)
        yield from self.record(SAME, 2.5, 8.0, **({} if self.correlated else {"id": SAME}))
        yield 15.0 if self.correlated else 35.0
        yield from second
        yield 0.1
        yield from (25.0,) if self.correlated else (90.0, 60.0)

    def first(self) -> Iterator[Sent]:
        for key in (PLAIN, SAME, ELSEWHERE, LATE, BAD, NULL, PART, BIG, FAILS, FOURTH, GONE, DENIED, ROWLESS, *MANY):
            yield from self.record(key, 4.0)
        for key in (PLAIN, *2 * (FAILS, FOURTH, GONE, DENIED, ROWLESS)):
            yield from self.record(key, 7.0, 2.0, status="closed" if key == PLAIN else "open")
        for _ in range(12):
            yield from self.record(SAME, 3.0, status=SMALL, **({} if self.correlated else {"id": SAME}))
        yield from self.record(ELSEWHERE, 3.0, **({} if self.correlated else {"id": SAME}))
        yield from self.record(PLAIN, -5.0, 3.0)
        for sent in [*self.record(PLAIN, 9.0, 4.0)]:
            yield from (sent, sent)
        for _ in range(12):
            yield from self.record(HEAVY, 1.0, 5.0, status=SMALL)
        yield from (sent._replace(value=b"{") for sent in self.record(BAD, 1.0))
        yield from (sent._replace(value=None) for sent in self.record(NULL, 1.0))
        yield from (sent._replace(headers={}) for sent in self.record(PART, None))
        yield from self.record(PART, 5.0, status=None)
        yield from self.record(PART, 0.25)
        yield from self.record(BIG, 2.0, status=LARGE)
        for key in (BAD, NULL, PART, BIG):
            yield from self.record(key, 6.0, 6.0)
        if self.correlated:
            yield from (sent for sent in self.record(ALONE, 1.0) if sent.topic == "orders")
            yield from self.record(UNPAID, -1.0)

    def second(self) -> Iterator[Sent]:
        """The first windows close, and records come too late."""
        for after in (61.0, 185.0, 7.0, 190.0):
            yield from self.record(LATE, 8.0, after)
        yield from self.record(PLAIN, 2.0, 46.0)


def identity(sent: Sent) -> str:
    """Its id, or its key where it has none."""
    value = sent.value.get("after", sent.value) if isinstance(sent.value, dict) else {"id": sent.key}
    return str(value["id"])


@cache
def steps(kind: str) -> tuple[Step, ...]:
    """What happens to an agent of this kind."""
    return tuple(Input(kind).steps())
