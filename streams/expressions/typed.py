"""The typed form: an expression as Python code over a decoded record, for records whose values have the types that the
expression needs.

The code proves each type where it uses a value. It raises an error for whatever it cannot prove: a value that is
missing or of another type, an integer that may have more than 64 bits, a record that is too large. Then the exact form
decides about the record. So where the typed form has a value, the exact form has the same one.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn
from typing import Literal as OneOf

from sluicegate.schemas.json import DEEPEST, deep
from sluicegate.streams.expressions import values
from sluicegate.streams.expressions.exact import ORDERS, Evaluate, ReaderOf, exact
from sluicegate.streams.expressions.functions import FUNCTIONS
from sluicegate.streams.expressions.scope import NamePath, joined, path_of, paths, roots
from sluicegate.streams.expressions.templates import expression, name, statements
from sluicegate.streams.expressions.tree import FunctionCall, Has, ListOf, Literal, Node
from sluicegate.streams.expressions.values import LEAST, MAX_LENGTH, MAX_STEPS, MOST

Proof = OneOf["number", "text", "boolean", "any"]
"""What is proven of a value. `any`: nothing; None means that it is missing."""

NEAR = 2**62
"""A result up to here, in both directions, proves that all integers on the way to it have 64 bits."""
SMALL = 2**53
"""The largest constant of a sum with that property. Expressions have so few parts that all of them together are less
than NEAR."""
CHARACTERS = 100 * MAX_STEPS // 2
"""Characters that an expression may read: half of the steps of an evaluation. The exact parts have the other half."""

_PROOFS: dict[type, Proof] = {int: "number", float: "number", str: "text", bool: "boolean"}
_CHECKS: dict[Proof, str] = {
    "number": "T if type(T := X) is int or type(T) is float else unproven()",
    "text": "T if type(T := X) is str else unproven()",
    "boolean": "T if type(T := X) is bool else unproven()",
}
_SHORT = "T if type(T := X) is str and len(T) <= N else unproven()"
"""A text that is not a part of the record's value: `size` has counted on that many characters."""
_NEAR = f"T if {-NEAR} <= (T := X) <= {NEAR} else unproven()"
_COMPARED: dict[str, type[ast.cmpop]] = {
    "_==_": ast.Eq,
    "_!=_": ast.NotEq,
    "_<_": ast.Lt,
    "_<=_": ast.LtE,
    "_>_": ast.Gt,
    "_>=_": ast.GtE,
}
_COMPUTED: dict[str, type[ast.operator]] = {"_+_": ast.Add, "_-_": ast.Sub, "_*_": ast.Mult}
_CALLED: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "_/_": ("divide", values.divide),
    "_%_": ("remainder", values.remainder),
}
OUTSIDE = 4096
"""Characters of a text that is not a part of the record's value, such as its key."""
_CONVERTED: dict[str, tuple[Proof, str]] = {
    "string": ("text", "str(T) if type(T := X) is int else F(None, T)"),
    "int": ("number", "T if type(T := X) is int else F(None, T)"),
    "double": ("number", "T if type(T := X) is float else F(None, T)"),
}
"""Functions of one number or text: the type of what they give, and their code. They take no steps. A call of F costs
some 80 ns."""
_SPELLED = "T == N if type(T := X) is int else F(None, T) == TEXT"
_DIGITS = 32
"""The most characters of a number as text."""
_TEXTS = {"startsWith": "X.startswith(Y)", "endsWith": "X.endswith(Y)", "contains": "Y in X"}
_NOTHING: Mapping[NamePath, Any] = MappingProxyType({})


class NotTyped(Exception):
    """The expression, or a part of it, has no typed form."""


class Unproven(Exception):
    """The typed form cannot prove the type of a value of this record."""


def unproven() -> NoReturn:
    raise Unproven


def sized(items: Any, record: bytes) -> int:
    """The number of items of a list or a map of this record, or of a range. Raises Unproven."""
    if type(items) is range:
        return len(items)
    if type(items) not in (list, dict) or (record.count(b"[") + record.count(b"{") > DEEPEST and deep(items)):
        raise Unproven
    return len(items)


def leaf(value: Any, path: NamePath) -> None:
    """Raises Unproven for a value that is nested too deeply, or that may be."""
    for part in path:
        value = value.get(part)
    if type(value) in (list, dict) and deep(value):
        raise Unproven


def plain(value: Any) -> Any:
    """The value of a computed field if it stays the same when it is written and read. Raises Unproven."""
    if type(value) in (str, bool, float) or (type(value) is int and LEAST <= value <= MOST):
        return value
    raise Unproven


def plain_or_none(value: Any) -> Any:
    """Same as `plain`, for a field that may be missing."""
    return None if value is None else plain(value)


class Operand(NamedTuple):
    """The code of a value, and the facts that the code proves.

    `near`: the integers of a number have 64 bits if its value is up to NEAR. `local`: the path of the field whose value
    the code is. `size`: the most characters of a text: a number for each byte of the record, and a constant. `shallow`:
    a list or a map is not nested too deeply.
    """

    code: ast.expr
    proof: Proof
    near: bool = False
    local: NamePath = ()
    size: tuple[int, int] = (1, 0)
    shallow: bool = False


class TextBounds:
    """How many characters the code reads and makes, where that grows with the record: a number for each byte of the
    record, and a constant. `_longest` is the size of the longest text that is made."""

    __slots__ = ("_constant", "_each_byte", "_longest")

    def __init__(self) -> None:
        self._each_byte = self._constant = 0
        self._longest = (1, 0)

    def read(self, size: tuple[int, int]) -> None:
        """The code reads a text of this size."""
        self._each_byte, self._constant = self._each_byte + size[0], self._constant + size[1]

    def make(self, size: tuple[int, int]) -> None:
        """The code makes a text of this size."""
        self.read(size)
        self._longest = _most(self._longest, size)

    def largest(self) -> int:
        """As TypedCode.largest."""
        times, more = self._longest
        return min((MAX_LENGTH - more) // times, max(CHARACTERS - self._constant, 0) // (self._each_byte or 1))


class TypedCode:
    """The code of some expressions over one record. In the code, `value` holds the record's bytes, and `read` the
    decoded record, with the attributes that `fields` names.

    `decoded`: what the decoder must prove of fields that the code uses for each record.
    `whole`: the code uses values that may be lists or maps, so a record that is nested too deeply must not get here.
    `lets` are the trees of the computed fields, in order. `elsewhere` are names that are no fields; `known` has code
    for some of their paths, or an operand, which also says what is proven. No exact part reads the names in `sealed`.
    The code of one expression uses the values and proofs of the code before it, so it must run after it.
    """

    def __init__(
        self,
        lets: Mapping[str, Node],
        elsewhere: Iterable[str] = (),
        known: Mapping[NamePath, ast.expr | Operand] = _NOTHING,
        sealed: Iterable[str] = (),
    ) -> None:
        self.fields: dict[str, str] = {}
        self.decoded: dict[str, Proof] = {}
        self.whole = False
        self._lets, self._elsewhere = lets, frozenset(elsewhere)
        self._outside, self._sealed = known, frozenset(sealed)
        self._known: dict[NamePath, Operand] = {}
        self._locals: dict[NamePath, str] = {}
        self._temporaries = 0
        self._closures: list[tuple[Node, ReaderOf]] = []
        self._named: set[NamePath] = set()  # the paths of the clause whose code is being made
        self._unsure: set[NamePath] = set()  # the paths that earlier clauses named and did not prove
        self._passed_over: set[NamePath] = set()  # the same, where `where` is false
        self._wide: set[str] = set()  # fields that are more than a number, a text or a boolean
        self._inside: list[str] = []  # computed fields whose code is being made
        self._runs = True  # the code that is being made runs for each record
        self._bounds = TextBounds()

    # -- for callers that make a function ------------------------------------------------------------------------------

    def condition(self, node: Node) -> ast.expr:
        """The code of an expression that must be true or false. Raises NotTyped."""
        self._named |= paths(node)
        code = self._boolean(node)
        self._look_back()
        return code

    def where(self, node: Node) -> ast.expr:
        """As `condition`. The code behind it runs where it is true, so all parts of a conjunction have been true."""
        known, decoded, parts = dict(self._known), dict(self.decoded), joined(node, "_&&_")
        self._named |= paths(node)
        try:
            codes = [self._boolean(parts[0])]
            self._passed_over, self._runs = self._named - self._proven_paths(), False
            codes += [self._boolean(part) for part in parts[1:]]
        except NotTyped:
            self._known, self.decoded, self._runs = known, decoded, True
            code = self.condition(node)
            self._passed_over, self._runs = set(self._unsure), False
            return code
        self._look_back()
        return codes[0] if len(codes) == 1 else ast.BoolOp(ast.And(), codes)

    def value(self, path: NamePath, proof: Proof) -> ast.expr:
        """The code of a field, computed or not. With the proof `any`, its value is None if the field is missing. Raises
        NotTyped."""
        operand = self._path(path)
        self._look_back()
        if proof == "any":
            self._wide.add(path[0])
        else:
            operand = self._proven(operand, proof)
        return self._result(path, operand, "plain(X)")

    def optional(self, path: NamePath) -> ast.expr:
        """The code of a field, computed or not. Its value is None where any part of the path is missing. Raises
        NotTyped."""
        if path[0] in self._lets:
            made = self._path(path)
            self._look_back()
            return self._result(path, made, "plain_or_none(X)")
        self._wide.add(path[0])
        return self._inside_of(path)

    def result(self, node: Node) -> ast.expr:
        """The code of an expression of any type, which may not run for each record. Its value is None for a field that
        is missing. Raises NotTyped."""
        path = path_of(node)
        self._named |= paths(node)
        with self._perhaps():
            if path is not None and path[0] not in self._lets:
                code = self.optional(path)
            else:
                code = self._checked(self._code(node)).code
        self._look_back()
        return code

    def _result(self, path: NamePath, operand: Operand, pattern: str) -> ast.expr:
        if path[0] not in self._lets:
            return operand.code
        if len(path) > 1:
            raise NotTyped
        return expression(pattern, X=operand.code) if operand.proof == "any" else self._checked(operand).code

    def scalars(self) -> list[str]:
        """The fields that the decoder must prove to be no list and no map. The exact form refuses a field that is
        nested too deeply, whether it uses it or not."""
        return [] if self.whole else [field for field in self.fields if field not in self._wide]

    def checks(self, passed_over: bool = False) -> list[ast.stmt]:
        """The statements that prove the same for the other fields, which the code may not read. `passed_over`: for a
        record for which `where` is false."""
        wide = self.fields.keys() & self._wide
        paths = self._passed_over if passed_over else self._unsure
        unsure = [] if self.whole else sorted(path for path in paths if path[0] in wide)
        return [check for path in unsure for check in self._shallow(path)]

    def _shallow(self, path: NamePath) -> list[ast.stmt]:
        inside = ast.Tuple([ast.Constant(part) for part in path[1:]], ast.Load())
        pattern = "if type(T := X) is not str:\n    leaf(T, P)"
        return statements(pattern, T=self._temporary(), X=self._field(path[0]), P=inside)

    def _look_back(self) -> None:
        """Ends the code of a clause: notes the fields that it named and did not prove."""
        self._unsure |= self._named - self._proven_paths()
        self._named = set()

    def _proven_paths(self) -> set[NamePath]:
        return {path for path, operand in self._known.items() if operand.proof != "any" or operand.shallow}

    def _field(self, root: str) -> ast.expr:
        return ast.Attribute(name("read"), self._attribute(root), ast.Load())

    def constants(self) -> dict[str, Any]:
        """The functions that the code calls, by name."""
        steps = MAX_STEPS // (2 * len(self._closures) or 1)
        closures = {f"g{n}": exact(node, reader, steps) for n, (node, reader) in enumerate(self._closures)}
        orders = {f"order{n}": order for n, order in enumerate(ORDERS.values())}
        checks = {"unproven": unproven, "sized": sized, "plain": plain, "plain_or_none": plain_or_none}
        checks["leaf"] = leaf
        conversions = {f"to_{function}": FUNCTIONS[function].call for function in _CONVERTED}
        return {**checks, **conversions, **dict(_CALLED.values()), **orders, **closures}

    def largest(self) -> int:
        """The largest record, in bytes, for which no text is too long and no evaluation too costly."""
        return self._bounds.largest()

    def _reader(self, root: str) -> Evaluate:
        return attrgetter(self._attribute(root))

    # -- values --------------------------------------------------------------------------------------------------------

    def _code(self, node: Node) -> Operand:
        known, decoded = dict(self._known), dict(self.decoded)
        try:
            return self._typed(node)
        except NotTyped:
            self._known, self.decoded = known, decoded
            return self._exact(node)

    def _typed(self, node: Node) -> Operand:
        if (path := path_of(node)) is not None:
            return self._path(path)
        match node:
            case Literal(value=value) if value is not None:
                return Operand(ast.Constant(value), _PROOFS[type(value)], size=(0, len(str(value))))
            case Has(path=inside):
                return Operand(expression("X is not None", X=self._maybe(inside)), "boolean")
            case FunctionCall("_&&_" | "_||_" as joint):
                return self._joined(joint, joined(node, joint))
            case FunctionCall("!_", (operand,)):
                return Operand(expression("not X", X=self._boolean(operand)), "boolean")
            case FunctionCall("-_", (operand,)):
                number = self._number(operand)
                return Operand(expression("-X", X=number.code), "number", near=True)
            case FunctionCall("_?_:_", (condition, yes, no)):
                return self._chosen(condition, yes, no)
            case FunctionCall("_==_" | "_!=_" as sign, (FunctionCall("string", (made,), None), Literal(str() as text))):
                return self._spelled(sign, self._code(made), text)
            case FunctionCall(sign, (left, right), None) if sign in _COMPARED:
                return self._compared(sign, left, right)
            case FunctionCall("_+_" | "_-_" | "_*_" | "_/_" | "_%_" as sign, (left, right)):
                return self._computed(sign, self._code(left), self._code(right))
        return self._called(node)

    def _called(self, node: Node) -> Operand:
        match node:
            case FunctionCall("@in", (item, ListOf(items=items))) if items:
                return self._contained(item, items)
            case FunctionCall("startsWith" | "endsWith" | "contains" as function, (part,), target) if target:
                text, sought = self._text(target), self._text(part)
                self._bounds.read(text.size)
                return Operand(expression(_TEXTS[function], X=text.code, Y=sought.code), "boolean")
            case FunctionCall(function, (operand,), None) if function in _CONVERTED:
                return self._converted(function, self._code(operand))
            case FunctionCall("size", (operand,), None):
                return self._size(operand)
            case FunctionCall("size", (), operand) if operand is not None:
                return self._size(operand)
            case FunctionCall("default", (path, other), None) if path_of(path) is not None:
                return self._default(path, other)
        raise NotTyped

    def _size(self, node: Node) -> Operand:
        pattern, operand = "len(T) if type(T := X) is str else sized(T, value)", self._code(node)
        self._wide.update(operand.local[:1])
        if operand.local:
            self._remembered(operand.local, operand._replace(shallow=True))
        return Operand(expression(pattern, T=self._temporary(), X=operand.code), "number")

    def _converted(self, function: str, operand: Operand) -> Operand:
        if operand.proof not in ("number", "text"):
            raise NotTyped
        proof, pattern = _CONVERTED[function]
        code = expression(pattern, T=self._temporary(), F=f"to_{function}", X=self._checked(operand).code)
        size = operand.size if operand.proof == "text" else (0, _DIGITS)
        return Operand(code, proof, size=size)

    def _exact(self, node: Node) -> Operand:
        """A call of the exact form, for an expression without a typed form."""
        free, read, reader = sorted(roots(node)), expression("read"), self._reader
        if not self._lets.keys().isdisjoint(free) or not self._elsewhere.isdisjoint(free):
            read = ast.Tuple([self._of_root(root, node) for root in free], ast.Load())
            reader = {root: itemgetter(at) for at, root in enumerate(free)}.__getitem__  # type: ignore[assignment]
        else:
            for root in free:
                self._attribute(root)
        self.whole = self.whole or not self._elsewhere.issuperset(free)
        self._closures.append((node, reader))
        return Operand(expression("G(X)", G=f"g{len(self._closures) - 1}", X=read), "any")

    def _of_root(self, root: str, node: Node) -> ast.expr:
        """The code of what an exact part reads of a name."""
        if root not in self._elsewhere:
            return self._path((root,)).code if root in self._lets else self._field(root)
        inside = sorted(path[:2] for path in paths(node) if path[0] == root)
        if root in self._sealed or not self._outside.keys() >= {*inside}:
            raise NotTyped
        parts = {part: self._path(part).code for part in inside}
        return ast.Dict([ast.Constant(part) for _, part in parts], [*parts.values()])

    def _attribute(self, root: str) -> str:
        return self.fields.setdefault(root, f"f{len(self.fields)}")

    def _path(self, path: NamePath) -> Operand:
        if path[0] in self._elsewhere and path[:2] not in self._outside:
            raise NotTyped
        local = self._local(path)
        if path in self._known:
            return self._known[path]._replace(code=name(local))
        if path in self._outside:
            outside = self._outside[path]
            if isinstance(outside, Operand):
                code = expression("(T := X)", T=local, X=outside.code)
                return self._remembered(path, outside._replace(code=code, local=path))
            code = expression("(T := X)", T=local, X=outside)
        elif len(path) > 1:
            self._wide.add(path[0])
            inside = self._path(path[:-1]).code
            code = expression("(T := X.get(N))", T=local, X=inside, N=ast.Constant(path[-1]))
        elif path[0] in self._lets:
            return self._let(path[0])
        else:
            code = expression("(T := X)", T=local, X=self._field(path[0]))
        return self._remembered(path, Operand(code, "any", True, path, self._most_of(path)))

    def _most_of(self, path: NamePath) -> tuple[int, int]:
        """The `size` of a text at this path."""
        return 1, OUTSIDE if path[:2] in self._outside else 0

    def _let(self, field: str) -> Operand:
        """The code of a computed field, which is evaluated once."""
        order = [*self._lets]
        if self._inside and order.index(field) >= order.index(self._inside[-1]):
            raise NotTyped
        self._inside.append(field)
        self._named |= paths(self._lets[field])
        try:
            made = self._present(self._checked(self._code(self._lets[field])))
        finally:
            self._inside.pop()
        if made.proof == "text":
            self._bounds.read(made.size)  # the text becomes part of an output
        code = expression("(T := X)", T=self._local((field,)), X=made.code)
        return self._remembered((field,), made._replace(code=code, local=(field,)))

    def _remembered(self, path: NamePath, operand: Operand) -> Operand:
        self._known[path] = operand
        return operand

    def _maybe(self, node: Node) -> ast.expr:
        """The code of a path's value; None where any part of it is missing."""
        path = path_of(node)
        if path is None:
            raise NotTyped
        self.whole = self.whole or path[:2] not in self._outside
        return self._inside_of(path)

    def _inside_of(self, path: NamePath) -> ast.expr:
        outermost = 2 if path[:2] in self._outside else 1
        code = self._path(path[:outermost]).code
        for part in path[outermost:]:
            code = expression(
                "None if (T := X) is None else T.get(N)", T=self._temporary(), X=code, N=ast.Constant(part)
            )
        return code

    def _local(self, path: NamePath) -> str:
        return self._locals.setdefault(path, f"v{len(self._locals)}")

    def _temporary(self) -> str:
        self._temporaries += 1
        return f"t{self._temporaries}"

    # -- proofs --------------------------------------------------------------------------------------------------------

    def _proven(self, operand: Operand, proof: Proof) -> Operand:
        """Code that raises an error unless the value has this type."""
        if operand.proof == proof:
            return operand
        if operand.proof != "any":
            raise NotTyped
        if self._runs and len(operand.local) == 1 and operand.local[0] in self.fields:
            self.decoded[operand.local[0]] = proof
            return self._remembered(operand.local, operand._replace(proof=proof, near=True))
        code, local = operand.code, self._local(operand.local) if operand.local else self._temporary()
        if isinstance(code, ast.NamedExpr):
            code = code.value
        most = ast.Constant(operand.size[1])
        check = _SHORT if proof == "text" and operand.size[1] else _CHECKS[proof]
        made = operand._replace(code=expression(check, T=local, X=code, N=most), proof=proof, near=True)
        return self._remembered(operand.local, made) if operand.local else made

    def _present(self, operand: Operand) -> Operand:
        """Code that raises an error if the field is missing. In an exact part, None is a value."""
        if operand.proof != "any" or not operand.local:
            return operand
        code = expression("T if (T := X) is not None else unproven()", T=self._temporary(), X=operand.code)
        return operand._replace(code=code, local=())

    def _checked(self, operand: Operand) -> Operand:
        """Code that proves that the integers of a number have 64 bits."""
        if operand.proof != "number" or not operand.near:
            return operand
        code = expression(_NEAR, T=self._temporary(), X=operand.code)
        return operand._replace(code=code, near=False, local=())

    def _bare(self, operand: Operand) -> ast.expr:
        """The code of a compared operand: a field may have any integer."""
        return operand.code if operand.local else self._checked(operand).code

    def _boolean(self, node: Node) -> ast.expr:
        return self._proven(self._code(node), "boolean").code

    def _number(self, node: Node) -> Operand:
        return self._proven(self._code(node), "number")

    def _text(self, node: Node) -> Operand:
        return self._proven(self._code(node), "text")

    @contextmanager
    def _perhaps(self) -> Iterator[None]:
        """Discards, at its end, the proofs of code that may not run."""
        known, runs = dict(self._known), self._runs
        self._runs = False
        yield
        self._known, self._runs = known, runs

    # -- operators -----------------------------------------------------------------------------------------------------

    def _joined(self, joint: str, parts: Sequence[Node]) -> Operand:
        """The code of `&&` and `||`. Where an operand fails, the exact form checks whether another one decides the
        result."""
        codes = [self._boolean(parts[0])]
        with self._perhaps():
            codes += [self._boolean(part) for part in parts[1:]]
        return Operand(ast.BoolOp(ast.And() if joint == "_&&_" else ast.Or(), codes), "boolean")

    def _chosen(self, condition: Node, yes: Node, no: Node) -> Operand:
        test = self._boolean(condition)
        with self._perhaps():
            one = self._present(self._checked(self._code(yes)))
        with self._perhaps():
            other = self._present(self._checked(self._code(no)))
        return _either(expression("Y if C else N", C=test, Y=one.code, N=other.code), one, other)

    def _default(self, path: Node, node: Node) -> Operand:
        present, local = self._maybe(path), self._temporary()
        with self._perhaps():
            other = self._present(self._checked(self._code(node)))
        one = Operand(name(local), "any", near=True, size=self._most_of(path_of(path) or ()))
        if other.proof != "any":
            one = self._checked(self._proven(one, other.proof))
        pattern = "N if (T := X) is None else Y"
        return _either(expression(pattern, T=local, X=present, Y=one.code, N=other.code), one, other)

    def _compared(self, sign: str, left: Node, right: Node) -> Operand:
        equality = sign in ("_==_", "_!=_")
        if _NULL in (left, right):
            if not equality:
                raise NotTyped
            pattern = "X is None" if sign == "_==_" else "X is not None"
            return Operand(expression(pattern, X=self._maybe(right if left == _NULL else left)), "boolean")
        one, other = self._pair(self._code(left), self._code(right))
        if one.proof == "any":
            if equality:
                raise NotTyped
            call = f"order{[*ORDERS].index(sign)}"
            return Operand(expression("O(X, Y)", O=call, X=one.code, Y=other.code), "boolean")
        if equality and one.proof == "text" and not isinstance(right, Literal):
            self._bounds.read(one.size)
        codes = [self._bare(one), self._bare(other)]
        return Operand(ast.Compare(codes[0], [_COMPARED[sign]()], codes[1:]), "boolean")

    def _spelled(self, sign: str, operand: Operand, text: str) -> Operand:
        """The code of `string(X) == "text"`. The text of an integer is not made: only one integer has that text."""
        if operand.proof not in ("number", "text"):
            raise NotTyped
        holes: dict[str, Any] = {"T": self._temporary(), "N": ast.Constant(_integer_of(text))}
        holes |= {"X": self._checked(operand).code, "TEXT": ast.Constant(text)}
        code = expression(_SPELLED, F="to_string", **holes)
        return Operand(code if sign == "_==_" else expression("not X", X=code), "boolean")

    def _pair(self, one: Operand, other: Operand) -> tuple[Operand, Operand]:
        """Two operands of one type, if one of them is known. Raises NotTyped."""
        if one.proof == "any":
            return (one, other) if other.proof == "any" else (self._proven(one, other.proof), other)
        return one, self._proven(other, one.proof)

    def _computed(self, sign: str, one: Operand, other: Operand) -> Operand:
        if "text" in (one.proof, other.proof):
            if sign != "_+_":
                raise NotTyped
            return self._appended(self._proven(one, "text"), self._proven(other, "text"))
        one, other = self._proven(one, "number"), self._proven(other, "number")
        if sign in _CALLED:
            call = expression("F(X, Y)", F=_CALLED[sign][0], X=self._checked(one).code, Y=self._checked(other).code)
            return Operand(call, "number")
        if not _proves(sign, one, other):
            one, other = self._checked(one), self._checked(other)
        return Operand(ast.BinOp(one.code, _COMPUTED[sign](), other.code), "number", near=True)

    def _appended(self, one: Operand, other: Operand) -> Operand:
        made = Operand(ast.BinOp(one.code, ast.Add(), other.code), "text", size=_sum(one.size, other.size))
        self._bounds.make(made.size)
        return made

    def _contained(self, item: Node, items: Sequence[Node]) -> Operand:
        constants = [item.value for item in items if isinstance(item, Literal)]
        proofs = {_PROOFS.get(type(constant)) for constant in constants}
        if len(constants) < len(items) or proofs not in ({"text"}, {"number"}):
            raise NotTyped
        operand = self._proven(self._code(item), proofs.pop())  # type: ignore[arg-type]
        self._bounds.read((0, 100 * len(items)))
        code = self._bare(operand)
        among: Any = frozenset(constants)
        return Operand(ast.Compare(code, [ast.In()], [ast.Constant(among)]), "boolean")


_NULL = Literal(None)


def _proves(sign: str, one: Operand, other: Operand) -> bool:
    """Whether a result up to NEAR proves that its operands are good: one of them is a constant, which changes the
    result by little, or makes it greater."""
    constants = [code.value for code in (one.code, other.code) if isinstance(code, ast.Constant)]
    if len(constants) != 1:
        return False
    size = abs(constants[0])  # type: ignore[arg-type]
    return size >= 1 if sign == "_*_" else size <= SMALL


def _integer_of(text: str) -> int | None:
    """The integer that has this text as an expression writes it; None if no integer has it."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text else None


def _either(code: ast.expr, one: Operand, other: Operand) -> Operand:
    if one.proof != other.proof:
        raise NotTyped
    return Operand(code, one.proof, size=_most(one.size, other.size))


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _most(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), max(one[1], other[1])
