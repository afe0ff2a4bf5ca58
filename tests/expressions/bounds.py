"""Evaluations that a record could make long, the CPU time that they take, and a digest of many results."""

import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from sluicegate.schemas.json import decode_any, encode
from sluicegate.streams.aggregation.clauses import as_field
from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.faults import EvaluationError, TooCostly
from sluicegate.streams.expressions.parse import parse
from tests.expressions.judge import ours
from tests.expressions.pairs import Pairs

MOST = 0.1
"""Seconds of CPU time of one evaluation, on a machine that makes a hundred thousand texts of numbers in NOMINAL."""
NOMINAL = 0.005


def limit() -> float:
    """MOST on a machine as fast as that, and as much longer as this one is slower now."""
    return MOST * max(1.0, min(_texts() for _ in range(5)) / NOMINAL)


def _texts() -> float:
    """Seconds of CPU time."""
    began = time.thread_time()
    for number in range(100_000):
        str(number)
    return time.thread_time() - began


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value, "b": [value]} if levels < 10 else {"a": value}
    return value


RECORDS: dict[str, Any] = {
    "text": {"t": "ab" * (1 << 19), "u": "ab" * (1 << 19)},
    "integers": {"l": list(range(100_000)), "m": list(range(100_000))},
    "doubles": {"l": [0.5] * 100_000, "m": [0.5] * 100_000},
    "texts": {"l": ["abcdefgh"] * 100_000, "m": ["abcdefgh"] * 100_000},
    "objects": {"l": [{"a": 1}] * 100_000, "m": [{"a": 1}] * 100_000},
    "lists": {"l": [list(range(300))] * 330, "m": [list(range(300))] * 330},
    "names": {"l": {f"n{n}": n for n in range(60_000)}, "m": {f"n{n}": n for n in range(60_000)}},
    "long texts": {"l": list(range(50_000)), "m": {"x" * (1 << 17): 1}, "t": "x" * (1 << 17), "u": "x" * (1 << 17)},
    "long names": {"l": [{"x" * 300_000: 1}, {"x" * 300_000: 1}], "m": list(range(50_000))},
    "times": {"l": ["2026-01-31T12:00:00.123456+01:00"] * 30_000, "m": ["1h30m5.5s"] * 60_000},
    "deep": {"l": nested(62), "m": nested(62), "t": "x", "u": "x"},
}
EXPRESSIONS = (
    "l.exists(i, i == -1)",
    "l.all(i, i != -1)",
    "l.exists(i, m.exists(j, i == -1 && j == -1))",
    "l.exists(i, l.exists(j, l.exists(k, l.exists(n, false))))",
    "l.all(i, m.all(j, i != -1 || j != -2))",
    "l.filter(i, m.filter(j, true).size() > 0).size() > 0",
    "l.map(i, m.map(j, l))",
    "l.map(i, m)",
    "l.map(i, l + m)",
    "l.map(i, string(i)).join(',')",
    "l.exists_one(i, i in m)",
    "l.filter(i, i in l)",
    "l == m",
    "[l, l, l, l] == [m, m, m, m]",
    "l.map(i, l == m)",
    "l + m + l + m + l + m",
    "l.join() + l.join()",
    "math.greatest(l) + math.least(m)",
    "size(l) > 0",
    "l.all(i, i.startsWith('abc') && i.contains('fgh') && i.endsWith('h') && i.upperAscii() != i)",
    "l.exists(i, 'x'.startsWith(i) || i / 0 == 1)",
    "t == u",
    "t + u + t + u",
    "t.split('')",
    "t.split('a').map(p, p.replace('b', t))",
    "t.replace('', u)",
    "t.replace('a', 'cccc')",
    "t.contains(u) && t.startsWith(u) && t.endsWith('c')",
    "t.upperAscii().lowerAscii().trim().substring(1, 1000000)",
    "int(t) + int(u)",
    "double(t) > 1.0",
    "timestamp(t) > timestamp(u)",
    "duration(t) > duration(u)",
    "l.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a == 1",
    "[1,2,3,4,5,6,7,8].map(a, [1,2,3,4,5,6,7,8].map(b, t.split('a')))",
    "[1,2,3,4,5,6,7,8].map(a, [1,2,3,4,5,6,7,8].map(b, t.substring(b) + u.substring(a)))",
    "['a','b','c','d'].map(a, t.contains(a + 'c') ? t : t.replace('a', a))",
    "l.map(i, t)",
    " && ".join(["l.all(i, i + 1 != 0 && i * 2 != 5 && i - 1 != -9 && -i != 7)"] * 5),
    f"l.all(i, {' && '.join(['i + 1 != 0'] * 60)})",
    f"l.exists(i, {' || '.join(['i / 0 == 1'] * 60)})",
    f"l.exists(i, {' || '.join(['gone.x == 1'] * 60)})",
    f"l.all(i, {' && '.join(['i.a.a.a != 5'] * 40)})",
    f"l.all(i, {' && '.join(['string(i) != 5'] * 40)})",
    "l.all(i, t == u)",
    "l.all(i, t <= u)",
    "l.all(i, t in m && m[t] == 1)",
    "l.all(i, m[t] == 1)",
    "m.all(i, l[0] == l[1])",
    "l.all(i, timestamp(i) > timestamp('2020-01-01T00:00:00Z'))",
    "l.all(i, timestamp(i).getHours('+01:00') >= 0)",
    "m.all(i, duration(i) > duration('1s'))",
    "m.map(i, string(duration(i)))",
    "l.map(i, [i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i])",
    f"l.map(i, [{', '.join(['i'] * 200)}])",
    "l.map(i, {'a': i, 'b': i})",
    "l.map(i, {'a': i, 't': t})",
    "l.map(i, [t, t])",
    "[t, t, t, t, t, t, t, t].map(i, [i, i, i, i, i, i, i, i].map(j, [j, j, j, j, j, j, j, j]))",
    "[l, l, l, l, l, l, l, l].map(i, i + i + i + i + i + i + i + i)",
    "l.all(i, i < 'a' || i in [1, 2, 3, 4, 5, 6, 7, 8])",
    "l.all(i, default(i.b, 1) == 1 || has(i.c) || i.d == null)",
)


LARGEST = 64 << 20
"""Bytes of the longest value that an evaluation may make, as JSON; RECORDS has records of 1 MB."""


def longest(names: Iterable[str] = RECORDS) -> tuple[int, str, str]:
    """The bytes of the longest value, its record and its expression. A value over LARGEST is not written to its end."""
    return max((_bytes_of(text, record), name, text) for name, text, record in _pairs(names))


def _pairs(names: Iterable[str]) -> Iterator[tuple[str, str, Any]]:
    for name in names:
        record = decode_any(encode(RECORDS[name]))
        for text in EXPRESSIONS:
            yield name, text, record


def _bytes_of(text: str, record: Any) -> int:
    try:
        value = exact(parse(text), lambda field: lambda record: record.get(field))(record)
    except EvaluationError:
        return 0
    return _written(value)


def _written(value: Any) -> int:
    if not isinstance(value, list | dict):
        return len(encode(as_field(value)))
    size = 2
    for part in value.items() if isinstance(value, dict) else value:
        size += 1 + (len(part[0]) + 3 + _written(part[1]) if isinstance(part, tuple) else _written(part))
        if size > LARGEST:
            break
    return size


class Evaluation(NamedTuple):
    text: str
    record: str
    seconds: float
    outcome: str


def evaluations(names: Iterable[str] = RECORDS) -> Iterator[Evaluation]:
    """Each expression on these records. Raises what an evaluation raises besides EvaluationError."""
    for name, text, record in _pairs(names):
        evaluate = exact(parse(text), lambda field: lambda document: document.get(field))
        yield Evaluation(text, name, *_timed(evaluate, record))


def _timed(evaluate: Any, record: Any) -> tuple[float, str]:
    """The CPU time of this thread, the least of up to five where the first is long: caches cost it once, and other
    processes share the core."""
    best, outcome = MOST * 1000, ""
    for turn in range(5):
        began = time.thread_time()
        try:
            evaluate(record)
            outcome = "value"
        except TooCostly:
            outcome = "too costly"
        except EvaluationError:
            outcome = "error"
        best = min(best, time.thread_time() - began)
        if best < (MOST if turn else MOST / 2):
            break
    return best, outcome


def digest(seed: int, count: int) -> str:
    """Of the results of so many pairs: values, errors and their texts."""
    supply, whole = Pairs(seed, extended=True), sha256()
    for _ in range(count):
        pair = supply.next()
        whole.update(repr(ours(pair.text, pair.document)).encode())
    return whole.hexdigest()
