"""Inputs of about n bytes, of many shapes: each makes a parser do the same small thing as often as it can."""

from collections.abc import Callable, Iterator
from random import Random

Make = Callable[[int], bytes]

UNITS = [
    "a",
    "1",
    "1h",
    "a/",
    "+",
    " ",
    "\u00e9",
    "\U0001f600",
    "x1y",
    "\\u0000",
    "\\\\",
    '\\"',
    "\\ud83d\\ude00",
    "-",
    "_a",
]
ITEMS = ["0", "[]", "{}", "null", '""', '"a"', "1e308", "1.5", "[0]", '{"a":0}', "-0.0", "1e-400", "true", "[[]]"]
ITEMS += ["9" * 4300, "0." + "7" * 300, '{"a":{"b":[null,{}]}}', '"2026-01-31T12:00:00Z"']
COLLIDING = (1 << 61) - 1
"""Multiples of it are numbers of one hash in Python."""


def texts() -> Iterator[tuple[str, Make]]:
    """Texts of JSON, with their quotes."""
    for unit in UNITS:
        yield f"text of {unit}", lambda n, unit=unit: ('"' + unit * max(1, n // len(unit.encode())) + '"').encode()
    for head, unit, tail in (
        ("1", "0", "h"),
        ("2026-01-31T12:00:00.", "1", "Z"),
        ("2026-01-31T12:00:00Z", " ", "x"),
        ("", "9", "."),
        ("-", "1.", "s"),
        ("+", "0", ""),
        ("a", "a", "b"),
        ("1e", "9", ""),
        ("AA", "A", "="),
        ("", ".", ""),
    ):
        yield f"text {head}{unit}..{tail}", lambda n, h=head, u=unit, t=tail: f'"{h}{u * (n // len(u))}{t}"'.encode()


def numbers() -> Iterator[tuple[str, Make]]:
    yield "digits", lambda n: b"9" * n
    yield "digits of a fraction", lambda n: b"0." + b"7" * n
    yield "zeros of a fraction", lambda n: b"0." + b"0" * n + b"1"
    yield "digits and an exponent", lambda n: b"3" * n + b"e-%d" % n
    yield "an exponent of zeros", lambda n: b"1e" + b"0" * n + b"1"


def repeated(item: str) -> Make:
    return lambda n: b"[" + b",".join([item.encode()] * (1 + n // (len(item) + 1))) + b"]"


def arrays() -> Iterator[tuple[str, Make]]:
    for item in ITEMS:
        yield f"array of {item[:20]}", repeated(item)
    yield "array of different numbers", lambda n: b"[" + b",".join(b"%d" % i for i in range(1 + n // 6)) + b"]"
    yield "array of different texts", lambda n: b"[" + b",".join(b'"%d"' % i for i in range(1 + n // 8)) + b"]"
    yield "array of different arrays", lambda n: b"[" + b",".join(b"[%d]" % i for i in range(1 + n // 8)) + b"]"
    yield "numbers of one hash", lambda n: b"[" + b",".join(b"%d" % (i * COLLIDING) for i in range(1 + n // 22)) + b"]"


def objects() -> Iterator[tuple[str, Make]]:
    yield "names", lambda n: b"{" + b",".join(b'"%07d":0' % i for i in range(1 + n // 12)) + b"}"
    yield "names of arrays", lambda n: b"{" + b",".join(b'"%07d":[]' % i for i in range(1 + n // 13)) + b"}"
    yield "one name again and again", lambda n: b"{" + b",".join([b'"a":0'] * (1 + n // 6)) + b"}"
    yield "the name that is read again and again", lambda n: b"{" + b",".join([b'"b":{"c":0}'] * (1 + n // 12)) + b"}"
    yield "a long name", lambda n: b'{"' + b"a" * n + b'":0}'


def broken() -> Iterator[tuple[str, Make]]:
    for unit in (b"[", b'{"a":', b'[{"a":', b" ", b'"', b"\\", b"-", b"\xc3", b"\x00", b"[[],", b"9,"):
        yield f"nothing but {unit!r}", lambda n, unit=unit: unit * (n // len(unit))
    yield "deep arrays", lambda n: b"[" * (n // 2) + b"]" * (n // 2)
    yield "deep objects", lambda n: b'{"a":' * (n // 6) + b"1" + b"}" * (n // 6)
    yield "many deep arrays", lambda n: b"[" + b",".join([b"[" * 60 + b"]" * 60] * (1 + n // 121)) + b"]"
    yield "spaces behind", lambda n: b"{}" + b" " * n


def values() -> Iterator[tuple[str, Make]]:
    """Values of JSON, and what looks like one."""
    yield from texts()
    yield from numbers()
    yield from arrays()
    yield from objects()
    yield from broken()


def mixed(random: Random) -> tuple[str, Make]:
    """One shape inside of another one, drawn."""
    (one, first), (other, second) = random.choice([*values()]), random.choice([*values()])
    form = random.randrange(3)
    if form == 0:
        return f"[{one}, {other}]", lambda n: b"[" + first(n // 2) + b"," + second(n // 2) + b"]"
    if form == 1:
        return f"{{a: {one}, b: {other}}}", lambda n: b'{"a":' + first(n // 2) + b',"b":' + second(n // 2) + b"}"
    few = max(1, random.randrange(2, 60))
    return f"many of {one}", lambda n: b"[" + b",".join([first(few)] * max(1, n // len(first(few)))) + b"]"


def records(random: Random, count: int) -> Iterator[tuple[str, Make]]:
    """Documents with the shape in the fields that a rule reads: all of one shape, and `count` that are drawn."""
    for name, make in [*values(), *(mixed(random) for _ in range(count))]:
        yield name, lambda n, make=make: b'{"t":' + make(n) + b',"b":{"c":1}}'


def headers() -> Iterator[tuple[str, Callable[[int], list[tuple[str, bytes | None]]]]]:
    """Headers of about n bytes altogether."""
    ours = ["sluicegate-shard", "sluicegate-seq", "sluicegate-id", "sluicegate-origin", "sluicegate-origin-value"]
    ours += ["sluicegate-agent", "traceparent", "ce_id", "ce_source", "ce_specversion", "content-type", "id", "x"]
    for name in ours:
        for unit in (b"a", b"/", b"#", b">", b"1", b"\xff", b"a/b+", b"00-"):
            yield f"{name} of {unit!r}", lambda n, name=name, unit=unit: [(name, unit * (n // len(unit)))]
        yield f"{name} many times", lambda n, name=name: [(name, b"1")] * (1 + n // (len(name) + 1))
    for start in ("ce_", "x", "sluicegate-"):
        yield f"names of {start}", lambda n, start=start: [(f"{start}{i:07d}", b"") for i in range(1 + n // 10)]
    yield "a long name", lambda n: [("ce_" + "a" * n, b"1")]
    yield "no values", lambda n: [("x", None)] * (n + 1)
