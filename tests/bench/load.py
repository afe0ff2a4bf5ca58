"""The input of all jobs, and what must come out of it.

200-byte JSON orders over records / 100 keys, exactly 100 per key, so one result per key; each key is active for half of
the stream, so that results come all along its second half. The same seed gives the same bytes.
"""

import random
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import wait_until

PARTITIONS = 4
PER_KEY = 100
SIZE = 200  # bytes of a record's value


class Expected(NamedTuple):
    """The result of one key: sum, maximum and number of its records; `payloads` is the digest of the records, in order,
    byte for byte."""

    total: int
    most: int
    payloads: bytes
    number: int = PER_KEY


def orders(records: int, seed: int = 7, per_key: int = PER_KEY) -> Iterator[tuple[str, int, bytes]]:
    """(key, amount, value) in the order in which they are sent."""
    rnd = random.Random(seed)
    moments: list[tuple[float, int]] = []
    for key in range(records // per_key):
        start = rnd.random() * 0.5
        moments += [(start + rnd.random() * 0.5, key) for _ in range(per_key)]
    moments.sort()
    for number, (_, key) in enumerate(moments):
        amount = rnd.randrange(1000)
        head = f'{{"id":"{number:010d}","key":"k{key}","amount":{amount},"pad":"'
        pad = "".join(rnd.choices("abcdefghijklmnop", k=16)) * (SIZE // 16)
        yield f"k{key}", amount, (head + pad[: SIZE - len(head) - 2] + '"}').encode()


def fill(bootstrap: str, topic: str, records: int, named: bool = False, per_key: int = PER_KEY) -> dict[str, Expected]:
    """Make the topic, send the orders, wait until all are there; what each key must give. `named`: each with an id of
    36 bytes in the header `message-id`."""
    sums: dict[str, int] = {}
    most: dict[str, int] = {}
    digests: dict[str, Any] = {}

    def noted() -> Iterator[tuple[str, bytes]]:
        for key, amount, value in orders(records, per_key=per_key):
            sums[key] = sums.get(key, 0) + amount
            most[key] = max(most.get(key, amount), amount)
            digests.setdefault(key, blake2b(digest_size=16)).update(value)
            yield key, value

    create(bootstrap, topic)
    send(bootstrap, topic, noted(), named)
    return {key: Expected(total, most[key], digests[key].digest()) for key, total in sums.items()}


def send(bootstrap: str, topic: str, rows: Iterable[tuple[str, bytes]], named: bool = False) -> None:
    """Send each (key, value), and wait until all are there."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "log_level": 3,
            "queue.buffering.max.messages": 100_000,
            "batch.size": 262_144,
            "message.max.bytes": 1_100_000,
        }
    )
    for number, (key, value) in enumerate(rows):
        while True:
            try:
                producer.produce(topic, value, key=key, headers=[("message-id", b"%036d" % number)] if named else None)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    wait_until(lambda: producer.flush(5) == 0, 120, "every order in the topic")


def create(bootstrap: str, *topics: str, partitions: int = PARTITIONS) -> None:
    """Make the topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        made.result(30)

    def led() -> bool:
        known = admin.list_topics(timeout=10).topics
        return all(
            t in known and sum(p.leader >= 0 for p in known[t].partitions.values()) == partitions for t in topics
        )

    wait_until(led, 30, "a leader for each partition")


def delete(bootstrap: str, *topics: str) -> None:
    """Remove the topics, so that runs do not fill the disk."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for gone in admin.delete_topics(list(topics)).values():
        gone.result(30)
