"""The typed form against the exact form, on random expressions and records.

Where the typed form has a value, the exact form must have the same one. Where the exact form fails, the typed form must
have none.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.json import Field, bounded, decode_any, wanted
from sluicegate.streams.aggregation.compiled.compiler import function
from sluicegate.streams.expressions.exact import EvaluationError, exact
from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.parse import parse
from sluicegate.streams.expressions.templates import statements
from sluicegate.streams.expressions.tree import Node
from sluicegate.streams.expressions.typed import NotTyped, TypedCode
from tests.expressions.pairs import Pairs

RECORDS = 8  # of each expression
UNPROVEN = "unproven"


class Tally(NamedTuple):
    """How many expressions there were, how many have a typed form, how many values those had, and where one was
    wrong."""

    expressions: int
    typed: int
    values: int
    differences: list[str]


def expressions(seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """Expressions and records, without end."""
    pairs = Pairs(seed, extended=True)
    for number in itertools.count():
        one, other = pairs.next(), pairs.next()
        text = [one.text, f"({one.text}) == ({other.text})", f"({other.text}) ? f : ({one.text})"][number % 3]
        documents = [one.document, *(pairs.document() for _ in range(RECORDS - 1))]
        yield text, [msgspec.json.encode(document) for document in documents]


def typed(node: Node) -> Callable[[bytes], Any] | None:
    """The typed form of the expression as a computed field, and of what it reads of a record."""
    code = TypedCode({"it": node}, ("message", "group"))
    try:
        value = code.value(("it",), "any")
    except NotTyped:
        return None
    want = wanted([Field(name, code.decoded.get(name, "any"), name in code.decoded) for name in code.fields])
    decode = bounded(want.decode) if code.whole else want.decode
    made = function("test", ("read", "value"), statements("return X", X=value), code.constants())
    largest = code.largest()

    def evaluate(record: bytes) -> Any:
        try:
            return made.call(decode(record), record) if len(record) <= largest else UNPROVEN
        except Exception:
            return UNPROVEN

    return evaluate


def exactly(node: Node, record: bytes) -> Any:
    try:
        return exact(node, lambda name: lambda document: document.get(name))(decode_any(record))
    except EvaluationError:
        return "an error"


def compare(count: int, seed: int, form: Callable[[Node], Callable[[bytes], Any] | None] = typed) -> Tally:
    typed_forms, values, differences = 0, 0, list[str]()
    for text, records in itertools.islice(expressions(seed), count):
        try:
            evaluate = form(node := parse(text))
        except ExpressionError:
            continue
        typed_forms += evaluate is not None
        for record in records if evaluate is not None else ():
            value = evaluate(record)  # type: ignore[misc]
            if value is UNPROVEN:
                continue
            values += 1
            if repr(value) != repr(meant := exactly(node, record)):
                differences.append(f"{text} of {record!r}: typed {value!r}, exact {meant!r}")
    return Tally(count, typed_forms, values, differences)
