"""What a program that may write to an input topic sends: each kind of record that once stopped, filled or steered a
worker."""

import json
from typing import Any

from tests.fuzz.binary import field
from tests.hostile import forged, unpacked
from tests.hostile.agents import HALTS, LIST
from tests.hostile.kinds import Kind, Sent, Turn, always

LARGE = {"none": 900_000, "gzip": 40_000_000, "snappy": 12_000_000, "lz4": 40_000_000, "zstd": 40_000_000}
"""Bytes that a batch of a megabyte can hold of one letter."""
REFUSED = {"none": 1, "gzip": 8, "snappy": 8, "lz4": 8, "zstd": 8}
"""Records of a batch: all together more than the store may have of them."""
STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egpj\u200b"


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


def noise(turn: Turn) -> Sent:
    return Sent(turn.random.randbytes(turn.random.randrange(1, 5_000)))


def large(turn: Turn) -> Sent:
    """More than a store or a producer takes, and small on the wire."""
    return Sent(b'{"id":1,"x":"' + b"x" * LARGE[turn.codec] + b'"}')


def refused(turn: Turn) -> Sent:
    return Sent(b"{" + b"x" * 900_000)


def copies(turn: Turn) -> Sent:
    """280 MB of JSON, if each item had the note."""
    return document(items=[{"sku": n} for n in range(4_000)], note="n" * 70_000)


def digits(turn: Turn) -> Sent:
    return document(wait="9" * turn.random.choice([102, 4_301, 900_000]))


def steering(turn: Turn) -> Sent:
    return Sent(b"{bad " + STEERING.encode(), [(f"h{STEERING}", STEERING.encode())])


def hiding(turn: Turn) -> Sent:
    """As `dead retry` marks a record of another agent."""
    return document()._replace(
        headers=[("sluicegate-retried-for", turn.random.choice([b"app/none", b"hostile/none", b"/"]))]
    )


def many_headers(turn: Turn) -> Sent:
    return document()._replace(headers=[(f"h{n}", b"x" * 400) for n in range(1_500)])


def slow_pattern(turn: Turn) -> Sent:
    return document(word="a" * turn.random.choice([45, 100_000]) + "!")


def unique(turn: Turn) -> Sent:
    return document(list=[{"n": n} for n in range(5_000)] + [{"n": 1}])


def alternatives(turn: Turn) -> Sent:
    tree: Any = 1
    for _ in range(60):
        tree = {"a": tree}
    return document(tree=tree)


def decimals(turn: Turn) -> Sent:
    size = turn.random.choice([5, 1_000, 900_000])
    length, name = size << 1, b""
    while length >= 0x80:
        name += bytes([length & 0x7F | 0x80])
        length >>= 7
    return Sent(b"\x02" + name + bytes([length]) + b"\x7f" * size)


def protobuf() -> list[Kind]:
    """Messages that are larger in memory than on the wire, and bytes that are no message."""
    deep = deep_any = b""
    for _ in range(2_000):
        deep = field(2, deep)
    for _ in range(200):
        deep_any = field(3, field(1, b"x/Order") + field(2, deep_any))
    values = {
        "messages without a byte": field(2, b"") * 450_000,
        "deep messages": deep,
        "Any in Any": deep_any,
        "Any of no type": field(3, field(1, b"x/none") + field(2, b"a")),
        "no UTF-8 text": field(4, b"\xff" * 1_000),
        "numbers": field(5, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 80_000),
        "groups": b"\xa3\x06" * 200_000 + b"\xa4\x06" * 200_000,
        "unknown fields": field(99, b"") * 300_000,
        "a length beyond the end": field(4, b"a" * 1_000)[:-1],
    }
    return [Kind(name, "protobuf", always(Sent(value))) for name, value in values.items()]


def lookup(turn: Turn) -> Sent:
    """Names of other kinds of keys, and values that are no name."""
    names = [LIST, "x" * 200_000, 10**30, [1], {}, "a\0b", "*", STEERING, 1e300]
    return document(customer=turn.random.choice(names))


def kinds(largest: int) -> list[Kind]:
    """`largest`: as in unpacked.kinds."""
    return [
        *(record for agent in ("groups", "expressions") for record in of_json(agent)),
        *(Kind("noise", agent, noise) for agent in ("groups", "expressions", "schema", "avro", "protobuf", "lookup")),
        *(Kind("large", agent, large) for agent in ("groups", "schema", "avro")),
        *(Kind("steering", agent, steering) for agent in ("groups", "schema")),
        Kind("copies", "expressions", copies),
        Kind("digits of a duration", "expressions", digits),
        Kind("hiding headers", "groups", hiding),
        Kind("many headers", "groups", many_headers),
        Kind("slow pattern", "schema", slow_pattern),
        Kind("unique items", "schema", unique),
        Kind("alternatives", "schema", alternatives),
        Kind("decimals", "avro", decimals),
        *protobuf(),
        Kind("names of keys", "lookup", lookup),
        Kind("letters that Kafka refuses", HALTS, refused, batch=REFUSED),
        *forged.kinds(),
        *unpacked.kinds(largest),
    ]
