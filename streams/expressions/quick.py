"""The quick form of a simple condition: up to four comparisons of fields with literals, joined by `&&` or by `||`.

It checks nothing. The decoder proves that each field is there and has the type that `Quick.fields` names. When the
decoder refuses a record, the exact form answers. So the quick form answers only where nothing can be wrong, and then
its answer is the exact form's.
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple
from typing import Literal as OneOf

from sluicegate.streams.expressions.scope import NamePath, joined, path_of
from sluicegate.streams.expressions.tree import Constant, FunctionCall, Identifier, ListOf, Literal, Node, Select

Proof = OneOf["number", "text", "boolean"]
RecordTest = Callable[[Any], bool]

MOST_TESTS = 4
DEEPEST_PATH = 3
NO_FIELDS = frozenset({"message", "group"})


class QuickField(NamedTuple):
    """A field that the quick form reads, and the type that the decoder must prove. It must not be null or missing."""

    path: NamePath
    proof: Proof


class FieldTest(NamedTuple):
    """One comparison of a field with a constant: `operation` is a key of `_FORMS`."""

    field: QuickField
    operation: str
    constant: Any


class Quick(NamedTuple):
    """A condition in its quick form. `joint` is `_&&_` or `_||_`."""

    fields: tuple[QuickField, ...]
    tests: tuple[FieldTest, ...]
    joint: str

    def predicate(self, attributes: Sequence[str]) -> RecordTest:
        """The condition on a decoded record. `attributes[i]` is the attribute of `fields[i]` there, or a chain of up to
        three: `f0.f1`."""
        of = {field: chain.split(".") for field, chain in zip(self.fields, attributes, strict=True)}
        if len(self.tests) == 1:
            return _alone(self.tests[0], of[self.tests[0].field])
        if all(len(of[test.field]) == 1 for test in self.tests):
            form = _JOINED[self.joint, len(self.tests)](*map(_called, self.tests))
            return _named(form, [of[test.field][0] for test in self.tests])
        return _COMBINED[self.joint, len(self.tests)](*(_alone(test, of[test.field]) for test in self.tests))


def quick(node: Node, computed: Collection[str] = ()) -> Quick | None:
    """The quick form, or None where only the exact form will do. `computed`: names that are no fields of the record."""
    for joint in ("_&&_", "_||_"):
        parts = joined(node, joint)
        if len(parts) > 1:
            break
    if len(parts) > MOST_TESTS:
        return None
    tests = [_test(part) for part in parts]
    known = tuple(test for test in tests if test is not None)
    fields = tuple(dict.fromkeys(test.field for test in known))
    if len(known) < len(tests) or not _is_readable(fields, NO_FIELDS.union(computed)):
        return None
    return Quick(fields, known, joint)


def _is_readable(fields: Sequence[QuickField], elsewhere: Collection[str]) -> bool:
    """Whether one decoder can prove all of them: fields of the record, one type each, none inside another one."""
    paths = [field.path for field in fields]
    return (
        len(set(paths)) == len(paths)
        and not any(path[0] in elsewhere or len(path) > DEEPEST_PATH or "." in "".join(path) for path in paths)
        and not any(one != other and one == other[: len(one)] for one in paths for other in paths)
    )


_MIRRORED = {"_==_": "_==_", "_!=_": "_!=_", "_<_": "_>_", "_<=_": "_>=_", "_>_": "_<_", "_>=_": "_<=_"}
_PROOFS: dict[type, Proof] = {int: "number", float: "number", str: "text", bool: "boolean"}


def _test(node: Node) -> FieldTest | None:
    match node:
        case Identifier() | Select() | FunctionCall("_[_]"):
            return _field_test(node, "flag", True)
        case FunctionCall("!_", (operand,)):
            return _field_test(operand, "no flag", True)
        case FunctionCall(function, (left, Literal(value=value))) if function in _MIRRORED:
            return _field_test(left, function, value)
        case FunctionCall(function, (Literal(value=value), right)) if function in _MIRRORED:
            return _field_test(right, _MIRRORED[function], value)
        case FunctionCall("@in", (left, ListOf(items=items))):
            return _membership(left, items)
        case FunctionCall("startsWith" | "endsWith" as function, (Literal(value=str(value)),), target) if target:
            return _field_test(target, function, value)
        case _:
            return None


def _field_test(operand: Node, operation: str, constant: Constant) -> FieldTest | None:
    path, proof = path_of(operand), _PROOFS.get(type(constant))
    if path is None or proof is None:
        return None
    if proof == "boolean" and operation in _MIRRORED:
        if operation not in ("_==_", "_!=_"):
            return None
        operation = "flag" if (operation == "_==_") is constant else "no flag"
    return FieldTest(QuickField(path, proof), operation, constant)


def _membership(operand: Node, items: Sequence[Node]) -> FieldTest | None:
    """`in` a list of texts, or of numbers: in a set of both, `true` and 1 would be one."""
    path = path_of(operand)
    values = [item.value for item in items if isinstance(item, Literal)]
    proofs = {_PROOFS.get(type(value)) for value in values}
    if path is None or len(values) < len(items) or len(proofs) != 1 or not proofs <= {"number", "text"}:
        return None
    (proof,) = proofs
    return FieldTest(QuickField(path, proof), "@in", frozenset(values)) if proof else None


# Each form stands here as source, with the placeholders below as attributes. They are renamed in a copy of the
# function's code, where they are as quick as names that were written there.
_PLACEHOLDERS = ("first", "second", "third", "fourth")

_FORMS: dict[str, Callable[[Any], RecordTest]] = {
    "_==_": lambda constant: lambda record: record.first == constant,
    "_!=_": lambda constant: lambda record: record.first != constant,
    "_<_": lambda constant: lambda record: record.first < constant,
    "_<=_": lambda constant: lambda record: record.first <= constant,
    "_>_": lambda constant: lambda record: record.first > constant,
    "_>=_": lambda constant: lambda record: record.first >= constant,
    "@in": lambda constant: lambda record: record.first in constant,
    "startsWith": lambda constant: lambda record: record.first.startswith(constant),
    "endsWith": lambda constant: lambda record: record.first.endswith(constant),
    "flag": lambda constant: lambda record: record.first,
    "no flag": lambda constant: lambda record: not record.first,
}

# The same test as a call on the field's value, for what reads more than one attribute. `partial(lt, 3)(x)` is `3 < x`.
_CALLS: dict[str, Callable[[Any], RecordTest]] = {
    "_==_": lambda constant: partial(operator.eq, constant),
    "_!=_": lambda constant: partial(operator.ne, constant),
    "_<_": lambda constant: partial(operator.gt, constant),
    "_<=_": lambda constant: partial(operator.ge, constant),
    "_>_": lambda constant: partial(operator.lt, constant),
    "_>=_": lambda constant: partial(operator.le, constant),
    "@in": lambda constant: constant.__contains__,
    "startsWith": lambda constant: operator.methodcaller("startswith", constant),
    "endsWith": lambda constant: operator.methodcaller("endswith", constant),
    "flag": lambda constant: operator.truth,
    "no flag": lambda constant: operator.not_,
}

_NESTED: dict[int, Callable[[RecordTest], RecordTest]] = {
    2: lambda test: lambda record: test(record.first.second),
    3: lambda test: lambda record: test(record.first.second.third),
}

_JOINED: dict[tuple[str, int], Callable[..., RecordTest]] = {
    ("_&&_", 2): lambda a, b: lambda record: a(record.first) and b(record.second),
    ("_&&_", 3): lambda a, b, c: lambda record: a(record.first) and b(record.second) and c(record.third),
    ("_&&_", 4): lambda a, b, c, d: (
        lambda record: a(record.first) and b(record.second) and c(record.third) and d(record.fourth)
    ),
    ("_||_", 2): lambda a, b: lambda record: a(record.first) or b(record.second),
    ("_||_", 3): lambda a, b, c: lambda record: a(record.first) or b(record.second) or c(record.third),
    ("_||_", 4): lambda a, b, c, d: (
        lambda record: a(record.first) or b(record.second) or c(record.third) or d(record.fourth)
    ),
}

_COMBINED: dict[tuple[str, int], Callable[..., RecordTest]] = {
    ("_&&_", 2): lambda a, b: lambda record: a(record) and b(record),
    ("_&&_", 3): lambda a, b, c: lambda record: a(record) and b(record) and c(record),
    ("_&&_", 4): lambda a, b, c, d: lambda record: a(record) and b(record) and c(record) and d(record),
    ("_||_", 2): lambda a, b: lambda record: a(record) or b(record),
    ("_||_", 3): lambda a, b, c: lambda record: a(record) or b(record) or c(record),
    ("_||_", 4): lambda a, b, c, d: lambda record: a(record) or b(record) or c(record) or d(record),
}


def _called(test: FieldTest) -> RecordTest:
    return _CALLS[test.operation](test.constant)


def _alone(test: FieldTest, chain: Sequence[str]) -> RecordTest:
    if len(chain) == 1:
        return _named(_FORMS[test.operation](test.constant), chain)
    return _named(_NESTED[len(chain)](_called(test)), chain)


def _named(form: RecordTest, attributes: Sequence[str]) -> RecordTest:
    """The form with attributes in the place of its placeholders."""
    assert isinstance(form, FunctionType)
    names: Mapping[str, str] = dict(zip(_PLACEHOLDERS, attributes, strict=False))
    code = form.__code__
    named = code.replace(co_names=tuple(names.get(name, name) for name in code.co_names))
    return FunctionType(named, form.__globals__, form.__name__, form.__defaults__, form.__closure__)
