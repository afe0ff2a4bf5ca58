"""The topics of the axes, and what must come out of each."""

import random
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from tests.bench import arrivals
from tests.bench.arrivals import Stream
from tests.bench.load import PARTITIONS, PER_KEY, SIZE, create, send

MARKED = 100  # the records of which one ends its group


class Output(msgspec.Struct):
    """A result of a group, or a forwarded record."""

    key: str
    n: int = 1
    sum: int = 0
    max: int = 0
    amount: int = 0


Outcome = tuple[str, int, int, int, int]


class Input(NamedTuple):
    """A topic of `records` records; what must come out, and how many records are read when the first, the second, ...
    output is there. Before `warm` records nothing is measured."""

    topic: str
    records: int
    wanted: Counter[Outcome]
    completed: Sequence[int]
    warm: int


def folded(bootstrap: str, topic: str, records: int, keys: int = 1000, **shape: int) -> Input:
    """So many keys are open at a time; each gives one result."""
    return _folded(
        topic, records, arrivals.fill(bootstrap, topic, records, keys, **shape), shape.get("per_key", PER_KEY)
    )


def poured(bootstrap: str, topic: str, records: int, keys: int = 1000) -> Input:
    """The same, into a topic that is there."""
    return _folded(topic, records, arrivals.pour(bootstrap, topic, records, keys), PER_KEY)


def _folded(topic: str, records: int, stream: Stream, number: int) -> Input:
    wanted = Counter((key, number, totals.total, totals.most, 0) for key, totals in stream.expected.items())
    return Input(topic, records, wanted, stream.completed, max(records // 3, stream.completed[0]))


def touched(bootstrap: str, topic: str, keys: int, records: int) -> Input:
    """One record opens each key. Then come `records` records of keys by chance; each hundredth ends its group."""
    rnd, pad = random.Random(7), "x" * (SIZE - 70)
    groups: dict[int, list[int]] = {}
    wanted: Counter[Outcome] = Counter()
    completed = array("L")
    order = [*range(keys)]
    rnd.shuffle(order)

    def rows() -> Iterator[tuple[str, bytes]]:
        for number in range(keys + records):
            key = order[number] if number < keys else rnd.randrange(keys)
            amount, last = rnd.randrange(1000), number >= keys and number % MARKED == 0
            groups.setdefault(key, []).append(amount)
            if last:
                amounts = groups.pop(key)
                wanted[f"k{key}", len(amounts), sum(amounts), max(amounts), 0] += 1
                completed.append(number + 1)
            yield f"k{key}", f'{{"key":"k{key}","amount":{amount},"last":{str(last).lower()},"pad":"{pad}"}}'.encode()

    create(bootstrap, topic, partitions=PARTITIONS)
    send(bootstrap, topic, rows())
    return Input(topic, keys + records, wanted, completed, keys + records // 5)


def forwarded(bootstrap: str, topic: str, records: int, outputs: int = 1) -> Input:
    """Each record comes out so many times."""
    rnd, pad = random.Random(7), "x" * (SIZE - 50)
    pairs = [(f"k{rnd.randrange(1000)}", rnd.randrange(1000)) for _ in range(records)]
    create(bootstrap, topic)
    send(bootstrap, topic, ((k, f'{{"key":"{k}","amount":{amount},"pad":"{pad}"}}'.encode()) for k, amount in pairs))
    wanted = Counter({(key, 1, 0, 0, amount): 0 for key, amount in pairs})
    for key, amount in pairs:
        wanted[key, 1, 0, 0, amount] += outputs
    completed = (
        range(1, records + 1) if outputs == 1 else [number // outputs + 1 for number in range(records * outputs)]
    )
    return Input(topic, records, wanted, completed, records // 3)


def difference(values: Sequence[bytes], wanted: Counter[Outcome]) -> list[str]:
    """What is wrong, one line; empty: all is right."""
    decode = msgspec.json.Decoder(Output).decode
    counts = Counter((o.key, o.n, o.sum, o.max, o.amount) for o in map(decode, values))
    if counts == wanted:
        return []
    return [f"{(counts - wanted).total()} outputs are wrong or too many, {(wanted - counts).total()} are missing"]
