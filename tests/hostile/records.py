"""What a program that may write to an input topic sends: each kind of record that once stopped, filled or steered a
worker."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.hostile.agents import LIST

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LARGE = {"none": 900_000, "gzip": 40_000_000, "snappy": 12_000_000, "lz4": 40_000_000, "zstd": 40_000_000}
"""Bytes that a batch of a megabyte can hold of one letter."""
STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj\u200b"
LATER = frozenset({"unpacked"})
"""Kinds that the product does not withstand yet: a batch that unpacks to more than the memory."""

Headers = Sequence[tuple[str, bytes | None]]


class Sent(NamedTuple):
    value: bytes | None
    headers: Headers = ()


class Kind(NamedTuple):
    """`make(random, codec)` is one record for the input of `agent`."""

    name: str
    agent: str
    make: Callable[[Random, str], Sent]


def document(**fields: Any) -> Sent:
    return Sent(json.dumps({"id": 1, **fields}).encode())


def of_json(agent: str) -> list[Kind]:
    """Bytes that are no record, or that are read later than others."""
    values: dict[str, bytes | None] = {
        "no double": b'{"id":1,"x":1e999}',
        "many digits": b'{"id":1,"x":%b}' % (b"9" * 5_000),
        "very many digits": b'{"id":%b}' % (b"9" * 900_000),
        "deep": b'{"id":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "lone surrogate": b'{"id":1,"x":"\\ud83d"}',
        "not a number": b'{"id":1,"x":NaN,"y":-Infinity}',
        "no UTF-8": b'{"id":1,"x":"\xff\xfe"}',
        "many names": b'{"id":1,%b}' % b",".join(b'"n%d":%d' % (n, n) for n in range(60_000)),
        "numbers of one hash": b'{"id":1,"x":[%b]}' % b",".join(b"%d" % (n * ((1 << 61) - 1)) for n in range(20_000)),
        "no end": b'{"id":1,"x":"' + b"a" * 1_000,
        "null": None,
        "empty": b"",
        "no object": b"[" + b"1," * 1_000 + b"1]",
        "zeros": b"\0" * 900_000,
    }
    return [Kind(name, agent, always(Sent(value))) for name, value in values.items()]


def always(sent: Sent) -> Callable[[Random, str], Sent]:
    return lambda random, codec: sent


def noise(random: Random, codec: str) -> Sent:
    return Sent(random.randbytes(random.randrange(1, 5_000)))


def large(random: Random, codec: str) -> Sent:
    """More than a store or a producer takes, and small on the wire."""
    return Sent(b'{"id":1,"x":"' + b"x" * LARGE[codec] + b'"}')


def refused(random: Random, codec: str) -> Sent:
    return Sent(b"{" + b"x" * 900_000)


def copies(random: Random, codec: str) -> Sent:
    """280 MB of JSON, if each item had the note."""
    return document(items=[{"sku": n} for n in range(4_000)], note="n" * 70_000)


def digits(random: Random, codec: str) -> Sent:
    return document(wait="9" * random.choice([102, 4_301, 900_000]))


def steering(random: Random, codec: str) -> Sent:
    return Sent(b"{bad " + STEERING.encode(), [(f"h{STEERING}", STEERING.encode())])


def forged(random: Random, codec: str) -> Sent:
    """Headers of an agent, with numbers and names of nobody."""
    number = b"%d" % random.choice([0, 10**17, 10**30])
    shard = b"app/sums/in/%d@1>in#0" % random.randrange(1 << 30)
    more = [("sluicegate-origin", random.randbytes(20)), ("sluicegate-time", b"9" * 300), ("traceparent", b"x" * 9_000)]
    return document()._replace(headers=[("sluicegate-shard", shard), ("sluicegate-seq", number), *more])


def hiding(random: Random, codec: str) -> Sent:
    """As `dead retry` marks a record of another agent."""
    return document()._replace(
        headers=[("sluicegate-retried-for", random.choice([b"app/none", b"hostile/none", b"/"]))]
    )


def many_headers(random: Random, codec: str) -> Sent:
    return document()._replace(headers=[(f"h{n}", b"x" * 400) for n in range(1_500)])


def slow_pattern(random: Random, codec: str) -> Sent:
    return document(word="a" * random.choice([45, 100_000]) + "!")


def unique(random: Random, codec: str) -> Sent:
    return document(list=[{"n": n} for n in range(5_000)] + [{"n": 1}])


def alternatives(random: Random, codec: str) -> Sent:
    tree: Any = 1
    for _ in range(60):
        tree = {"a": tree}
    return document(tree=tree)


def decimals(random: Random, codec: str) -> Sent:
    size = random.choice([5, 1_000, 900_000])
    length, name = size << 1, b""
    while length >= 0x80:
        name += bytes([length & 0x7F | 0x80])
        length >>= 7
    return Sent(b"\x02" + name + bytes([length]) + b"\x7f" * size)


def lookup(random: Random, codec: str) -> Sent:
    """Names of other kinds of keys, and values that are no name."""
    names = [LIST, "x" * 200_000, 10**30, [1], {}, "a\0b", "*", STEERING, 1e300]
    return document(customer=random.choice(names))


def kinds() -> list[Kind]:
    made = [
        *(each for agent in ("groups", "expressions") for each in of_json(agent)),
        *(Kind("noise", agent, noise) for agent in ("groups", "expressions", "schema", "avro", "lookup")),
        *(Kind("large", agent, large) for agent in ("groups", "schema", "avro")),
        *(Kind("steering", agent, steering) for agent in ("groups", "schema")),
        Kind("copies", "expressions", copies),
        Kind("digits of a duration", "expressions", digits),
        Kind("forged headers", "groups", forged),
        Kind("hiding headers", "groups", hiding),
        Kind("many headers", "groups", many_headers),
        Kind("slow pattern", "schema", slow_pattern),
        Kind("unique items", "schema", unique),
        Kind("alternatives", "schema", alternatives),
        Kind("decimals", "avro", decimals),
        Kind("names of keys", "lookup", lookup),
        *[Kind("letters that Kafka refuses", "refused", refused)] * 3,  # within a minute more than the store may have
    ]
    return [each for each in made if each.name not in LATER]
