"""How long an evaluation takes: `python -m tests.expressions.bench`. Nanoseconds of CPU time, the best of many rounds.

The records are decoded once, so the figures are the price of a condition alone; an empty call is the first line.
"""

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.json import Field, decode_any, wanted
from sluicegate.streams.aggregation.compiled.compiler import function
from sluicegate.streams.expressions.exact import exact
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.templates import statements
from sluicegate.streams.expressions.typed import TypedCode

DOCUMENT = {
    "id": "o-4711",
    "status": "paid",
    "country": "DE",
    "amount": 47.5,
    "qty": 2,
    "paid": True,
    "customer": {"tier": "gold", "name": "Ada Lovelace", "since": "2024-02-29"},
    "items": [{"sku": "a-1", "price": 7.5}, {"sku": "b-2", "price": 12}, {"sku": "c-3", "price": 20}],
    "note": "leave it at the door",
}
CONDITIONS = [
    "amount > 3",
    'country == "DE"',
    "paid",
    'country in ["FR", "AT", "DE"]',
    'country.startsWith("D")',
    'customer.tier == "gold"',
    'amount > 3 && country in ["DE", "FR"]',
    'amount > 3 && country == "DE" && paid',
    'amount > 3 && country == "DE" && paid && qty < 5',
    'amount > 3 && (country == "FR" || qty < 5)',
    "amount * default(qty, 1) > 90",
    "size(items) > 2 && items.exists(i, i.price > 10)",
    'note.startsWith("leave") && note.contains("door")',
]
CALLS = 20_000
ROUNDS = 15


class Figure(NamedTuple):
    """Nanoseconds an evaluation, of both forms."""

    text: str
    typed: float
    exact: float


def nanoseconds(condition: Callable[[Any], Any], record: Any) -> float:
    """CPU time of one call, the loop around it included."""
    best = float("inf")
    for _ in range(ROUNDS):
        repeated = [record] * CALLS
        gc.collect()
        began = time.thread_time_ns()
        for text in repeated:
            condition(text)
        best = min(best, (time.thread_time_ns() - began) / CALLS)
    return best


def figures() -> Iterator[Figure]:
    data = msgspec.json.encode(DOCUMENT)
    document = decode_any(data)
    for text in CONDITIONS:
        node = parse(text)
        code = TypedCode({}, ())
        body = statements("return X", X=code.condition(node))
        condition = function("bench", ("read",), body, {**code.constants(), "value": data}).call
        fields = [Field(name, code.decoded.get(name, "any"), name in code.decoded) for name in code.fields]
        read = wanted(fields).decode(data)
        assert condition(read) is True
        evaluate = exact(node, lambda name: lambda record: record.get(name))
        assert evaluate(document) is True
        yield Figure(text, nanoseconds(condition, read), nanoseconds(evaluate, document))


def main() -> None:
    argparse.ArgumentParser(prog="python -m tests.expressions.bench", description=__doc__).parse_args()
    print(f"{'an empty call':60} {nanoseconds(lambda record: None, None):8.0f}")
    print(f"{'condition':60} {'typed':>8} {'exact':>8}  ns")
    for text, of_typed, of_exact in figures():
        print(f"{text:60} {of_typed:8.0f} {of_exact:8.0f}")


if __name__ == "__main__":
    main()
