"""The input of the steady runs: after its first part, a stream like any other part of itself.

A new key begins with each 100 records, and the 100 records of a key are spread over the next 100 * `keys` records. So
about `keys` keys are open at every moment, and a key is complete with each 100 records, however long the stream is.
Values are those of `load`. The same seed gives the same bytes.
"""

import random
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from tests.bench.load import PER_KEY, SIZE, Expected, create, send

PADS = 997


class Stream(NamedTuple):
    """What must come of each key, and the number of the record that completes the first, the second, ... of them."""

    expected: dict[str, Expected]
    completed: "array[int]"


def keys_of(records: int, keys: int, rnd: random.Random) -> Iterator[int]:
    """The key of each record. A ring of buckets: each record of a new key goes to a bucket by chance, and then the next
    bucket is full."""
    ring: list[list[int]] = [[] for _ in range(keys)]
    for key in range(records // PER_KEY + keys):
        for bucket in rnd.choices(ring, k=PER_KEY) if key < records // PER_KEY else ():
            bucket.append(key)
        bucket = ring[key % keys]
        rnd.shuffle(bucket)
        yield from bucket
        bucket.clear()


def fill(bootstrap: str, topic: str, records: int, keys: int) -> Stream:
    """Make the topic and send so many records."""
    rnd = random.Random(7)
    many = records // PER_KEY
    counts, sums, most, completed = [0] * many, [0] * many, [0] * many, array("L")
    pads = ["".join(rnd.choices("abcdefghijklmnop", k=16)) * (SIZE // 16) for _ in range(PADS)]

    def rows() -> Iterator[tuple[str, bytes]]:
        for number, key in enumerate(keys_of(records, keys, rnd)):
            amount = rnd.randrange(1000)
            counts[key] += 1
            sums[key] += amount
            if amount > most[key]:
                most[key] = amount
            if counts[key] == PER_KEY:
                completed.append(number + 1)
            head = f'{{"id":"{number:010d}","key":"k{key}","amount":{amount},"pad":"'
            yield f"k{key}", (head + pads[number % PADS][: SIZE - len(head) - 2] + '"}').encode()

    create(bootstrap, topic)
    send(bootstrap, topic, rows())
    return Stream({f"k{key}": Expected(sums[key], most[key], b"") for key in range(many)}, completed)
