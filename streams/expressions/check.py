"""Finds errors in an expression before any record is read: unknown names and functions, and types that contradict.

`check` reports only what cannot work. A value of an unknown type may be anything. Warnings are about values that may be
null.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

from sluicegate.streams.expressions import operators
from sluicegate.streams.expressions.presence import NULL_LITERAL, Presence, path_in, proven
from sluicegate.streams.expressions.scope import inside, left_of, path_of
from sluicegate.streams.expressions.signatures import (
    SIGNATURES,
    Kinds,
    counts,
    example,
    is_taken,
    kinds_text,
    single_kind,
)
from sluicegate.streams.expressions.tree import (
    FunctionCall,
    Has,
    Identifier,
    ListOf,
    Literal,
    Macro,
    MapOf,
    Node,
    Select,
)
from sluicegate.streams.expressions.types import (
    BOOLEAN,
    NUMBER,
    NUMBERS,
    TEXT,
    UNKNOWN,
    ValueType,
    are_comparable,
    common,
    list_of,
    map_of,
    nullable,
    present,
    record_of,
    type_of_literal,
)
from sluicegate.streams.expressions.words import literal, normal

TypedNode = tuple[Node, ValueType]

_LONGEST_NAME = 40  # characters of an operand in a message


class Finding(NamedTuple):
    """A problem of an expression, and its column. A warning does not make the expression wrong. `is_name`: the problem
    is a name that its source does not have."""

    column: int
    problem: str
    is_warning: bool = False
    is_name: bool = False


def check(
    node: Node, names: Mapping[str, ValueType], source: str | None = None
) -> tuple[ValueType, tuple[Finding, ...]]:
    """The type of the expression, and its problems. `source` names the definition of the fields, such as
    `invoice.avsc`: then any name that is not in `names` is wrong. Without it, any other name is a field of an unknown
    type."""
    checker = _Checker(names, source)
    type_ = checker.infer(node, Presence({}, frozenset()))
    return type_, tuple(sorted(checker.findings, key=lambda finding: finding.column))


def check_condition(node: Node, names: Mapping[str, ValueType], source: str | None = None) -> tuple[Finding, ...]:
    """The problems of an expression that must give true or false."""
    type_, findings = check(node, names, source)
    if type_.kind not in ("boolean", "unknown"):
        findings = (*findings, Finding(_column(node), f"must be boolean, {_name(node)} is {type_}"))
    elif type_.nullable:
        findings = (*findings, _may_be_null(node))
    return tuple(dict.fromkeys(findings))


def _column(node: Node) -> int:
    """The column at which the text of a node begins. A node's own column is the column of its operator, or of the name
    after its dot."""
    while (operand := left_of(node)) is not None:
        node = operand
    return node.column


def _name(node: Node) -> str:
    """The node as a message quotes it."""
    text = normal(node)
    return text if len(text) <= _LONGEST_NAME else "the value"


def _may_be_null(node: Node) -> Finding:
    path = path_of(node)
    text = _name(node)
    asked = text if path else "the field"
    return Finding(_column(node), f"{text} may be null; ask has({asked}) before, or write default({asked}, ...)", True)


_OTHER_NAMES = {
    "length": "size",
    "len": "size",
    "lower": "lowerAscii",
    "upper": "upperAscii",
    "coalesce": "default",
    "float": "double",
    "str": "string",
    "min": "math.least",
    "max": "math.greatest",
    **{name: f"math.{name}" for name in ("abs", "ceil", "floor", "round")},
}
"""Names of functions in other languages, and ours."""


def _meant(name: str, known: Iterable[str], others: Mapping[str, str] = MappingProxyType({})) -> str:
    near = get_close_matches(name, [*known, *others], n=1)
    return f"; did you mean {others.get(near[0], near[0])}?" if near else ""


class _Checker:
    """Walks one expression. Types go up the tree; facts about null values go down."""

    def __init__(self, names: Mapping[str, ValueType], source: str | None) -> None:
        self.findings: dict[Finding, None] = {}
        self._names = names
        self._source = source

    def infer(self, node: Node, scope: Presence) -> ValueType:
        """The type of a node. A chain is walked along its left operands without recursion."""
        chain: list[tuple[Node, Presence]] = []
        while (operand := left_of(node)) is not None:
            chain.append((node, scope))
            scope = self._left_scope(node, scope)
            node = operand
        type_ = self._known(node, self._beginning(node, scope), scope)
        for part, scope in reversed(chain):
            type_ = self._known(part, self._continued(part, node, type_, scope), scope)
            node = part
        return type_

    def _wrong(self, node: Node, problem: str) -> ValueType:
        """Reports a problem of a value at the column where its text begins."""
        return self._wrong_at(_column(node), problem)

    def _wrong_at(self, column: int, problem: str, is_name: bool = False) -> ValueType:
        self.findings[Finding(column, problem, is_name=is_name)] = None
        return UNKNOWN

    def _used(self, node: Node, type_: ValueType) -> ValueType:
        """The type of a value that must exist."""
        if not type_.nullable or type_.kind == "null":
            return type_
        self.findings[_may_be_null(node)] = None
        return present(type_)

    def _value(self, node: Node, scope: Presence) -> ValueType:
        return self._used(node, self.infer(node, scope))

    @staticmethod
    def _known(node: Node, type_: ValueType, scope: Presence) -> ValueType:
        return present(type_) if type_.nullable and path_of(node) in scope.there else type_

    @staticmethod
    def _left_scope(node: Node, scope: Presence) -> Presence:
        """The facts for the left side of an operator. For `&&` and `||`, facts that the right side proves hold on the
        left, too: each side absorbs an error of the other."""
        match node:
            case FunctionCall("_&&_" | "_||_" as function, (_, right)):
                return scope.knowing(proven(right, function == "_&&_"))
            case FunctionCall("_==_" | "_!=_", (left, right)) if right == NULL_LITERAL:
                return scope.knowing(path_in(left))
        return scope

    def _beginning(self, node: Node, scope: Presence) -> ValueType:
        """The type of a node without a left operand."""
        match node:
            case Literal(value=value):
                return type_of_literal(value)
            case Identifier(name=name):
                return self._named(node, name, scope)
            case Has(path=path):
                self.infer(path, scope.knowing(path_in(path)))
                return BOOLEAN
            case ListOf(items=items):
                return list_of(common([self._value(item, scope) for item in items]))
            case MapOf():
                return self._map(node, scope)
            case FunctionCall("_?_:_", (condition, then, otherwise)):
                self._boolean("? :", condition, self._value(condition, scope))
                branches = ((then, proven(condition, True)), (otherwise, proven(condition, False)))
                return common([self.infer(branch, scope.knowing(proven)) for branch, proven in branches])
            case FunctionCall("default", (path, otherwise), None):
                type_ = present(self.infer(path, scope.knowing(path_in(path))))
                return common((type_, self.infer(otherwise, scope)))
            case FunctionCall("!_", (operand,)):
                return self._boolean("!", operand, self._value(operand, scope))
            case FunctionCall("-_", (operand,)):
                return self._negated(operand, self._value(operand, scope))
            case FunctionCall():
                return self._call(node, None, scope)
        raise AssertionError(type(node).__name__)

    def _continued(self, node: Node, left: Node, type_: ValueType, scope: Presence) -> ValueType:
        """The type of a node whose left operand has this type."""
        match node:
            case FunctionCall("_&&_" | "_||_" as joint, (_, right)):
                for operand, its in ((left, type_), (right, self._right(joint, left, right, scope))):
                    self._boolean(joint.strip("_"), operand, self._used(operand, its))
                return BOOLEAN
            case FunctionCall("_==_" | "_!=_", (_, right)):
                return self._equality(node.function, left, type_, right, scope)
            case Select(name=name):
                return self._member(node, left, type_, name)
            case FunctionCall("_[_]", (_, Literal(value=str(name)))) if type_.kind == "map":
                return self._member(node, left, type_, name)
        type_ = self._used(left, type_)
        match node:
            case Macro():
                return self._macro(node, type_, scope)
            case FunctionCall("_[_]", (_, index)):
                return self._index(left, type_, index, scope)
            case FunctionCall("@in", (_, right)):
                return self._membership(left, type_, right, self._value(right, scope))
            case FunctionCall(function, (_, right), None) if function in operators.TABLE:
                return self._operation(function, (left, type_), (right, self._value(right, scope)))
            case FunctionCall():
                return self._call(node, type_, scope)
        raise AssertionError(type(node).__name__)

    def _right(self, function: str, left: Node, right: Node, scope: Presence) -> ValueType:
        return self.infer(right, scope.knowing(proven(left, function == "_&&_")))

    def _named(self, node: Node, name: str, scope: Presence) -> ValueType:
        if name in scope.variables:
            return scope.variables[name]
        if name in self._names or self._source is None:
            return self._names.get(name, UNKNOWN)
        return self._wrong_at(node.column, f"no field {name} in {self._source}{_meant(name, self._names)}", True)

    def _member(self, node: Node, operand: Node, type_: ValueType, name: str) -> ValueType:
        if type_.kind not in ("map", "unknown"):
            return self._wrong_at(node.column, f"{_name(operand)} is {type_} and has no field {name}")
        if type_.fields is None or type_.of is not None or name in type_.fields:
            member = (type_.fields or {}).get(name, type_.items)
            return nullable(member) if type_.nullable else member  # one warning will name the whole path
        return self._wrong_at(node.column, f"no field {name} in {_name(operand)}{_meant(name, type_.fields)}", True)

    def _index(self, operand: Node, type_: ValueType, index: Node, scope: Presence) -> ValueType:
        its = self._value(index, scope)
        match type_.kind:
            case "list" if not operators.is_kind(its, "number"):
                return self._wrong(index, f"an index of a list is an integer, {_name(index)} is {its}")
            case "list" | "unknown":
                return type_.items
            case "map" if not operators.is_kind(its, "text"):
                return self._wrong(index, f"an index of a map is text, {_name(index)} is {its}")
            case "map":
                return type_.items
        return self._wrong(operand, f"[ ] takes a list or a map, {_name(operand)} is {type_}")

    def _map(self, node: MapOf, scope: Presence) -> ValueType:
        values = [self._value(value, scope) for _, value in node.entries]
        for key, _ in node.entries:
            if not operators.is_kind(its := self._value(key, scope), "text"):
                self._wrong(key, f"the keys of a map are text, {_name(key)} is {its}")
        names = [key.value for key, _ in node.entries if isinstance(key, Literal) and isinstance(key.value, str)]
        if len(names) == len(node.entries):
            return record_of(dict(zip(names, values, strict=True)))
        return map_of(common(values))

    def _macro(self, node: Macro, type_: ValueType, scope: Presence) -> ValueType:
        if type_.kind not in ("list", "map", "unknown"):
            self._wrong(node.operand, f"{node.macro} takes a list or a map, {_name(node.operand)} is {type_}")
        item = TEXT if type_.kind == "map" else type_.items
        inner = scope.binding(node.variable, item)
        *conditions, last = inside(node)
        for condition in conditions if node.macro == "map" else (*conditions, last):
            self._boolean(node.macro, condition, self._value(condition, inner))
        match node.macro:
            case "map":
                return list_of(self._value(last, inner))
            case "filter":
                return list_of(item)
        return BOOLEAN

    def _boolean(self, taker: str, node: Node, type_: ValueType) -> ValueType:
        if not operators.is_kind(type_, "boolean"):
            self._wrong(node, f"{taker} takes booleans, {_name(node)} is {type_}")
        return BOOLEAN

    def _negated(self, node: Node, type_: ValueType) -> ValueType:
        if operators.is_kind(type_, "number"):
            return type_ if type_.kind in NUMBERS else NUMBER
        return self._wrong(node, f"- takes a number, {_name(node)} is {type_}{_hint(node, type_, 'number')}")

    def _operation(self, function: str, left: TypedNode, right: TypedNode) -> ValueType:
        gives = operators.result(function, left[1], right[1])
        if gives is None:
            self._wrong(*_contradiction(function, left, right))
        return gives or (UNKNOWN if function in operators.TAKES else BOOLEAN)

    def _equality(self, function: str, left: Node, type_: ValueType, right: Node, scope: Presence) -> ValueType:
        for node, other in ((left, right), (right, left)):
            if other == NULL_LITERAL:
                if node is right:
                    self.infer(right, scope.knowing(path_in(right)))
                return BOOLEAN
        its = self._value(right, scope)
        type_ = self._used(left, type_)
        if not are_comparable(type_, its):
            self._wrong(
                left, f"{function.strip('_')} compares values of one type, {_pair((left, type_), (right, its))}"
            )
        self._symbol(left, type_, right)
        self._symbol(right, its, left)
        return BOOLEAN

    def _symbol(self, node: Node, type_: ValueType, sought: Node) -> None:
        """Reports a literal that the enum never has."""
        if type_.symbols and isinstance(sought, Literal) and sought.kind is str and sought.value not in type_.symbols:
            near = [literal(match) for match in get_close_matches(str(sought.value), type_.symbols, n=1)]
            meant = f"did you mean {near[0]}?" if near else f"its symbols are {', '.join(type_.symbols)}"
            self._wrong(sought, f"{normal(sought)} is not a symbol of {_name(node)}; {meant}")

    def _membership(self, left: Node, type_: ValueType, right: Node, its: ValueType) -> ValueType:
        if its.kind not in ("list", "map", "unknown"):
            hint = f"; write {_name(right)}.contains({_name(left)})" if its.kind == type_.kind == "text" else ""
            self._wrong(right, f"in takes a list or a map on its right, {_name(right)} is {its}{hint}")
        elif isinstance(right, ListOf):
            for item in right.items:
                if isinstance(item, Literal) and not are_comparable(type_, one := type_of_literal(item.value)):
                    self._wrong(item, f"in compares values of one type, {_pair((left, type_), (item, one))}")
                self._symbol(left, type_, item)
        elif not are_comparable(type_, one := TEXT if its.kind == "map" else its.items):
            self._wrong(
                left, f"in compares values of one type, {_name(left)} is {type_} and {_name(right)} holds {one}"
            )
        return BOOLEAN

    def _call(self, node: FunctionCall, target: ValueType | None, scope: Presence) -> ValueType:
        arguments = [(argument, self._value(argument, scope)) for argument in node.arguments]
        if node.function == "default":
            return self._wrong_at(node.column, "default takes a field and a value, such as default(qty, 1)")
        known = SIGNATURES.get(node.function, ())
        if not known:
            meant = _meant(node.function, (*SIGNATURES, "default", "has"), _OTHER_NAMES)
            return self._wrong_at(node.column, f"no function {node.function}{meant}")
        forms = [form for form in known if (form.target is None) is (target is None)]
        if not forms:
            how = "by itself" if target else "on a value"
            return self._wrong_at(node.column, f"{node.function} is called {how}; write {example(node.function)}")
        fitting = [form for form in forms if form.takes(len(arguments))]
        if not fitting:
            return self._wrong_at(node.column, f"{node.function} takes {counts(forms)}, {len(arguments)} given")
        values = [*([(node.target, target)] if node.target and target else []), *arguments]
        for form in fitting:
            if all(is_taken(type_, kinds) for (_, type_), kinds in zip(values, form.kinds(len(values)), strict=True)):
                return form.result([type_ for _, type_ in values])
        for n, (value, type_) in enumerate(values):
            taken: Kinds = frozenset().union(*(form.kinds(len(values))[n] for form in fitting))
            if not is_taken(type_, taken):
                hint = _hint(value, type_, single_kind(taken))
                return self._wrong(value, f"{node.function} takes {kinds_text(taken)}, {_name(value)} is {type_}{hint}")
        return self._wrong(node, f"{node.function} does not take these values together")


def _hint(node: Node, type_: ValueType, kind: str) -> str:
    """The function that converts a value into this kind, as a hint."""
    conversion = operators.conversion(type_, kind)
    return f"; write {conversion}({_name(node)})" if conversion and not isinstance(node, Literal) else ""


def _contradiction(function: str, left: TypedNode, right: TypedNode) -> tuple[Node, str]:
    """The operand that the operator cannot take, or else the left one, and the problem."""
    takes = f"{function.strip('_')} takes {operators.TAKES.get(function, 'two values of one type')}"
    for one, other in ((left, right), (right, left)):
        if not operators.fits(function, one[1], one is left):
            kind = other[1].kind if other[1].kind in ("time", "duration") else operators.NEEDS.get(function, "")
            return one[0], f"{takes}, {_name(one[0])} is {one[1]}{_hint(*one, kind)}"
    return left[0], f"{takes}, {_pair(left, right, to_text=function == '_+_')}"


def _pair(left: TypedNode, right: TypedNode, to_text: bool = False) -> str:
    """The problem of two values whose types contradict, and a conversion of one of them: of the text, or of the other
    one into text."""
    problem = f"{_name(left[0])} is {left[1]} and {_name(right[0])} is {right[1]}"
    for (node, type_), (_, other) in ((left, right), (right, left)):
        if (other if to_text else type_).kind == "text":
            kind = "number" if other.kind in NUMBERS else other.kind
            return problem + _hint(node, type_, kind)
    return problem
