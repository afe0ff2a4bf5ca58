"""The quick form against the exact form, on random conditions and records.

Where the quick form answers, the exact form must give the same answer. Where the exact form fails, the quick form must
not answer.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from sluicegate.schemas.json import Field, FieldDecoder, decode_any, wanted
from sluicegate.streams.expressions.exact import EvaluationError, exact
from sluicegate.streams.expressions.quick import Quick, quick
from sluicegate.streams.expressions.tree import FunctionCall, Identifier, ListOf, Literal, Node, Select

NAMES = ("a", "b", "c", "d")
PATHS: tuple[Node, ...] = (
    *map(Identifier, NAMES),
    Select(Identifier("o"), "x"),
    Select(Select(Identifier("o"), "p"), "y"),
)
NUMBERS = (0, 1, -1, 2, 2.0, 2.5, -0.0, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), 1e300)
TEXTS = ("", "a", "ab", "b", "é", "\U0001f600", "1", "true")
LARGE = (2**63, 10**30, -(2**64))
COMPARED = ("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_")


class Pair(NamedTuple):
    """A condition and the bytes of a record."""

    condition: Node
    record: bytes


class Tally(NamedTuple):
    """How many pairs there were, how many the quick form answered, and those where it was wrong."""

    pairs: int
    answered: int
    differences: list[str]


def pairs(count: int, seed: int) -> Iterator[Pair]:
    chance = random.Random(seed)
    for _ in range(count):
        joint = chance.choice(("_&&_", "_||_"))
        tests = [_test(chance) for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4, 5)))]
        condition = tests[0]
        for test in tests[1:]:
            joint = joint if chance.random() < 0.95 else chance.choice(("_&&_", "_||_"))
            condition = FunctionCall(joint, (condition, test))
        yield Pair(condition, msgspec.json.encode(_document(chance, _types(condition))))


def _test(chance: random.Random) -> Node:
    """One comparison; now and then one that has no quick form."""
    path, kind = chance.choice(PATHS), chance.randrange(12)
    literal = Literal(chance.choice((*NUMBERS, *TEXTS)))
    match kind:
        case 0:
            return path
        case 1:
            return FunctionCall("!_", (path,))
        case 2:
            values = NUMBERS if chance.random() < 0.5 else TEXTS
            return FunctionCall("@in", (path, ListOf(tuple(map(Literal, chance.sample(values, 3))))))
        case 3 | 4:
            function = chance.choice(("startsWith", "endsWith"))
            return FunctionCall(function, (Literal(chance.choice(TEXTS)),), path)
        case 5:
            return FunctionCall(chance.choice(COMPARED), (path, Literal(chance.choice((True, False, None)))))
        case 6:
            return FunctionCall(chance.choice(COMPARED), (literal, path))
    return FunctionCall(chance.choice(COMPARED), (path, literal))


def _types(condition: Node) -> dict[Any, str]:
    form = quick(condition)
    return {field.path: field.proof for field in form.fields} if form else {}


def _document(chance: random.Random, types: dict[Any, str]) -> Any:
    """A record whose fields mostly have the types that the condition needs."""
    found: dict[str, Any] = {name: _value(chance, types.get((name,))) for name in NAMES}
    found["o"] = {"x": _value(chance, types.get(("o", "x"))), "p": {"y": _value(chance, types.get(("o", "p", "y")))}}
    if chance.random() < 0.05:
        found["o"] = chance.choice((None, 3, [], "x", {"p": None}))
    for name in NAMES:
        if chance.random() < 0.05:
            del found[name]
    return found


def _value(chance: random.Random, proof: str | None) -> Any:
    of_kind: dict[str, Sequence[Any]] = {"number": (*NUMBERS, *LARGE), "text": TEXTS, "boolean": (True, False)}
    if chance.random() < 0.1:
        return chance.choice((None, [], {}, [1], {"x": 1}, *NUMBERS, *TEXTS, True, False))
    return chance.choice(of_kind[proof or chance.choice(list(of_kind))])


def compare(count: int, seed: int) -> Tally:
    answered = 0
    differences = []
    for pair in pairs(count, seed):
        form = quick(pair.condition)
        if form is None:
            continue
        said = quickly(form, proved(form), pair.record)
        if said is None:
            continue
        answered += 1
        if said != (meant := exactly(pair)):
            differences.append(f"{pair.condition} of {pair.record!r}: quick {said!r}, exact {meant!r}")
    return Tally(count, answered, differences)


def proved(form: Quick) -> FieldDecoder:
    """The decoder that proves the types which the quick form needs."""
    return wanted([Field(".".join(field.path), field.proof) for field in form.fields])


def quickly(form: Quick, want: FieldDecoder, record: bytes) -> Any:
    """The quick form's answer, or None where something raised."""
    predicate = form.predicate([chain or "" for chain in want.chains])
    try:
        return predicate(want.decode(record))
    except Exception:
        return None


def exactly(pair: Pair) -> Any:
    try:
        return exact(pair.condition, lambda name: lambda document: document.get(name))(decode_any(pair.record))
    except EvaluationError:
        return "an error"
