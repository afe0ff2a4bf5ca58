"""The input of the steady runs: after its first part, a stream like any other part of itself.

A new key begins with each 100 records, and the 100 records of a key are spread over the next 100 * `keys` records. So
about `keys` keys are open at every moment, and a key is complete with each 100 records, however long the stream is.
Values are those of `load`. The same seed gives the same bytes.
"""

import random
from array import array
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tests.bench.load import PARTITIONS, PER_KEY, SIZE, Expected, create, send

PADS = 997


class Stream(NamedTuple):
    """What must come of each key, and the number of the record that completes the first, the second, ... of them."""

    expected: dict[str, Expected]
    completed: "array[int]"


def keys_of(records: int, keys: int, rnd: random.Random, per_key: int = PER_KEY) -> Iterator[int]:
    """The key of each record. A ring of buckets: each record of a new key goes to a bucket by chance, and then the next
    bucket is full."""
    ring: list[list[int]] = [[] for _ in range(keys)]
    for key in range(records // per_key + keys):
        for bucket in rnd.choices(ring, k=per_key) if key < records // per_key else ():
            bucket.append(key)
        bucket = ring[key % keys]
        rnd.shuffle(bucket)
        yield from bucket
        bucket.clear()


def fill(bootstrap: str, topic: str, records: int, keys: int, partitions: int = PARTITIONS, **shape: int) -> Stream:
    """Make the topic, and `pour` into it."""
    create(bootstrap, topic, partitions=partitions)
    return pour(bootstrap, topic, records, keys, **shape)


def pour(
    bootstrap: str, topic: str, records: int, keys: int, per_key: int = PER_KEY, size: int = SIZE, cut: bool = False
) -> Stream:
    """Send so many records of `size` bytes. `cut`: the stream ends with its keys still open."""
    rnd = random.Random(7)
    longer = records + cut * keys * per_key
    many = longer // per_key
    counts, sums, most, completed = [0] * many, [0] * many, [0] * many, array("L")
    pads = ["".join(rnd.choices("abcdefghijklmnop", k=16)) * (size // 16) for _ in range(PADS if size < 10_000 else 7)]

    def rows() -> Iterator[tuple[str, bytes]]:
        for number, key in enumerate(islice(keys_of(longer, keys, rnd, per_key), records)):
            amount = rnd.randrange(1000)
            counts[key] += 1
            sums[key] += amount
            if amount > most[key]:
                most[key] = amount
            if counts[key] == per_key:
                completed.append(number + 1)
            head = f'{{"id":"{number:010d}","key":"k{key}","amount":{amount},"pad":"'
            yield f"k{key}", (head + pads[number % len(pads)][: size - len(head) - 2] + '"}').encode()

    send(bootstrap, topic, rows())
    complete = (key for key in range(many) if counts[key] == per_key)
    return Stream({f"k{key}": Expected(sums[key], most[key], b"", per_key) for key in complete}, completed)
