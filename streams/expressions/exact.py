"""The exact form of an expression: a closure for each node of the tree, with every check. It defines the meaning of an
expression.

A closure takes the record, which is opaque: readers give the values of its names. The variable of a macro lies in a
cell that the closures of its body read. So an evaluator belongs to one thread.
"""

import operator
from collections.abc import Callable
from typing import Any

from sluicegate.streams.expressions import functions, values
from sluicegate.streams.expressions.faults import EvaluationError, ExpressionError, TooCostly
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
from sluicegate.streams.expressions.values import MAX_STEPS, NUMBERS, StepBudget, equal, is_map, kind, refused

Evaluate = Callable[[Any], Any]
ReaderOf = Callable[[str], Evaluate]
"""For a name that is no variable of a macro: the function from a record to its value. None means that it is missing."""

ORDERS = {
    "_<_": values.ordered("<", operator.lt),
    "_<=_": values.ordered("<=", operator.le),
    "_>_": values.ordered(">", operator.gt),
    "_>=_": values.ordered(">=", operator.ge),
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "_-_": values.subtract,
    "_*_": values.multiply,
    "_/_": values.divide,
    "_%_": values.remainder,
}
_FAILED = 3  # steps of an error that does not count, inside of a loop
_SHARE = 4  # nodes of a loop's body that are a step for each item
_FUNCTION = 12  # nodes that the call of a function counts for
_KEYS = (str, bool, int, float)  # what CEL looks up in a map; only texts are found
_BARE: dict[str, Callable[[Any, Any], Any]] = {
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}


def exact(node: Node, reader: ReaderOf, steps: int = MAX_STEPS) -> Evaluate:
    """The function from a record to the expression's value. `steps` limits an evaluation. Raises ExpressionError for a
    function that does not exist. The returned function raises EvaluationError."""
    compiler = _Compiler(reader)
    evaluate = compiler.compile(node)
    if not compiler.costs:
        return evaluate
    budget = compiler.budget

    def bounded(record: Any) -> Any:
        budget.left = steps
        return evaluate(record)

    return bounded


class _Compiler:
    """Compiles one expression. `costs`: a part of the expression has a cost that depends on the record."""

    def __init__(self, reader: ReaderOf) -> None:
        self.budget = StepBudget()
        self.costs = False
        self._reader = reader
        self._variables: dict[str, list[Any]] = {}
        self._loops = 0  # around the node that is compiled
        self._size = 0  # nodes that were compiled so far

    def compile(self, node: Node) -> Evaluate:
        self._size += 1
        match node:
            case Literal(value=value):
                return lambda record: value
            case Identifier(name=name):
                return self._identifier(name)
            case Select(operand=operand, name=name):
                return _present(self._field(self.compile(operand), name), node)
            case Has(path=path):
                compiled = self._maybe(path)
                return lambda record: compiled(record) is not None
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Macro():
                return self._macro(node)
            case FunctionCall():
                return self._call(node)

    # -- values of the record ----------------------------------------------------------------------------------------

    def _identifier(self, name: str) -> Evaluate:
        if name in self._variables:
            cell = self._variables[name]
            return lambda record: cell[0]
        return _present(self._reader(name), Identifier(name))

    def _field(self, operand: Evaluate, name: str) -> Evaluate:
        def field(record: Any) -> Any:
            value = operand(record)
            if type(value) is dict or is_map(value):
                return value.get(name)
            raise EvaluationError(f"{kind(value)} has no field {name}")

        return field

    def _maybe(self, node: Node) -> Evaluate:
        """The value of a path, None where any part of it is missing."""
        match node:
            case Identifier(name=name) if name not in self._variables:
                return self._reader(name)
            case Select(operand=operand, name=name):
                return self._maybe_field(self._maybe(operand), name)
            case FunctionCall("_[_]", (operand, Literal(value=str(name)))):
                return self._maybe_field(self._maybe(operand), name)
            case _:
                return self.compile(node)

    def _maybe_field(self, operand: Evaluate, name: str) -> Evaluate:
        def field(record: Any) -> Any:
            value = operand(record)
            if value is None:
                return None
            if type(value) is dict or is_map(value):
                return value.get(name)
            raise EvaluationError(f"{kind(value)} has no field {name}")

        return field

    # -- lists, maps and macros --------------------------------------------------------------------------------------

    def _list(self, node: ListOf) -> Evaluate:
        items = [self.compile(item) for item in node.items]
        if all(isinstance(item, Literal) for item in node.items):
            return lambda record: [item(record) for item in items]
        self.costs, budget = True, self.budget

        def made(record: Any) -> Any:
            values = [item(record) for item in items]
            budget.keep(values)
            return values

        return made

    def _map(self, node: MapOf) -> Evaluate:
        entries = [(self.compile(key), self.compile(value)) for key, value in node.entries]
        self.costs, budget = True, self.budget

        def made(record: Any) -> Any:
            pairs: dict[str, Any] = {}
            for key_of, value_of in entries:
                key, value = key_of(record), value_of(record)
                if type(key) is not str:
                    raise EvaluationError(f"a key of a map is a text and no {kind(key)}")
                if key in pairs:
                    raise EvaluationError("a map has the same key twice")
                pairs[key] = value
            budget.keep(pairs)
            return pairs

        return made

    def _macro(self, node: Macro) -> Evaluate:
        self.costs = True
        operand = self.compile(node.operand)
        outer, cell = self._variables.get(node.variable), [None]
        self._variables[node.variable] = cell
        self._loops += 1
        before = self._size
        body = self.compile(node.body)
        condition = None if node.condition is None else self.compile(node.condition)
        steps = -(-(self._size - before) // _SHARE)
        self._loops -= 1
        if outer is None:
            del self._variables[node.variable]
        else:
            self._variables[node.variable] = outer
        loop = _LOOPS[node.macro](node.macro, body, condition, cell, self.budget)
        return self._over(operand, cell, loop, steps)

    def _over(self, operand: Evaluate, cell: list[Any], loop: "_Loop", steps: int) -> Evaluate:
        budget = self.budget

        def run(record: Any) -> Any:
            value = operand(record)
            if type(value) is not list and not isinstance(value, tuple) and not is_map(value):
                raise refused("a loop", value)
            before = cell[0]
            try:
                return loop(record, _counted(value, budget, steps))
            finally:
                cell[0] = before

        return run

    # -- functions ---------------------------------------------------------------------------------------------------

    def _call(self, node: FunctionCall) -> Evaluate:
        name, arguments = node.function, node.arguments
        if name in ("_&&_", "_||_"):
            return self._joined(node)
        if name == "_?_:_":
            return self._chosen(*map(self.compile, arguments))
        if name == "!_":
            return self._not(self.compile(arguments[0]))
        if name == "-_":
            operand = self.compile(arguments[0])
            return lambda record: values.negate(operand(record))
        if name in ("_==_", "_!=_"):
            return self._equals(arguments[0], arguments[1], name == "_!=_")
        if name in ORDERS:
            return self._compared(name, *arguments)
        if name in _ARITHMETIC or name == "_+_":
            return self._computed(name, *map(self.compile, arguments))
        if name == "@in":
            return self._contained(*arguments)
        if name == "_[_]":
            return self._indexed(node)
        if name == "default":
            return self._default(node)
        return self._function(node)

    def _joined(self, node: FunctionCall) -> Evaluate:
        """`&&` and `||`: an operand that decides the result absorbs the errors of the others."""
        sign, decides = node.function[1:-1], node.function == "_||_"
        parts = [self.compile(part) for part in _operands(node)]
        budget, steps = self.budget, _FAILED if self._loops else 0

        def evaluate(record: Any) -> bool:
            error: EvaluationError | None = None
            for part in parts:
                try:
                    value = part(record)
                except TooCostly:
                    raise
                except EvaluationError as raised:
                    budget.spend(steps)
                    error = error or raised
                    continue
                if value is decides:
                    return bool(value)
                if type(value) is not bool:
                    error = error or refused(sign, value)
            if error is not None:
                raise error
            return not decides

        return evaluate

    def _chosen(self, condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
        def evaluate(record: Any) -> Any:
            return yes(record) if _boolean("?", condition(record)) else no(record)

        return evaluate

    def _not(self, operand: Evaluate) -> Evaluate:
        def evaluate(record: Any) -> bool:
            return not _boolean("!", operand(record))

        return evaluate

    def _equals(self, left: Node, right: Node, negated: bool) -> Evaluate:
        """`== null` asks whether the value exists; all other comparisons need both values."""
        if _is_null(left) or _is_null(right):
            maybe = self._maybe(right if _is_null(left) else left)
            return lambda record: (maybe(record) is None) is not negated
        one, other = self.compile(left), self.compile(right)
        if isinstance(right, Literal) and type(right.value) is str:
            text = right.value
            return lambda record: (one(record) == text) is not negated
        self.costs, budget = True, self.budget
        return lambda record: equal(one(record), other(record), budget) is not negated

    def _compared(self, name: str, left: Node, right: Node) -> Evaluate:
        one, other, order = self.compile(left), self.compile(right), ORDERS[name]
        if isinstance(right, Literal) and type(right.value) in NUMBERS:
            number, compare = right.value, _BARE[name]

            def with_number(record: Any) -> bool:
                value = one(record)
                if type(value) in NUMBERS:
                    return bool(compare(value, number))
                return order(value, number)

            return with_number
        if not self._loops:
            return lambda record: order(one(record), other(record))
        budget = self.budget

        def in_a_loop(record: Any) -> bool:
            first, second = one(record), other(record)
            budget.compare(first, second)
            return order(first, second)

        return in_a_loop

    def _computed(self, name: str, one: Evaluate, other: Evaluate) -> Evaluate:
        if name == "_+_":
            self.costs, budget = True, self.budget
            return lambda record: values.add(one(record), other(record), budget)
        compute = _ARITHMETIC[name]
        return lambda record: compute(one(record), other(record))

    def _contained(self, item: Node, among: Node) -> Evaluate:
        one = self.compile(item)
        if isinstance(among, ListOf) and all(
            isinstance(element, Literal) and type(element.value) is str for element in among.items
        ):
            texts = frozenset(element.value for element in among.items if isinstance(element, Literal))

            def among_texts(record: Any) -> bool:
                value = one(record)
                return type(value) is str and value in texts

            return among_texts
        other, budget = self.compile(among), self.budget
        self.costs = True

        def contained(record: Any) -> bool:
            value, there = one(record), other(record)
            if is_map(there):
                if type(value) not in _KEYS:
                    raise refused("in", value, there)
                budget.compare(value, value)
                return type(value) is str and there.get(value) is not None
            if not isinstance(there, list | tuple):
                raise refused("in", value, there)
            budget.spend(len(there))
            return any(equal(value, element, budget) for element in there)

        return contained

    def _indexed(self, node: FunctionCall) -> Evaluate:
        operand, index_of = map(self.compile, node.arguments)
        path, budget, in_a_loop = path_text(node), self.budget, self._loops > 0

        def indexed(record: Any) -> Any:
            container, index = operand(record), index_of(record)
            if is_map(container):
                if in_a_loop:
                    budget.compare(index, index)
                value = container.get(index) if type(index) is str else None
                if value is None:
                    raise EvaluationError(f"{path} is missing")
                return value
            if not isinstance(container, list | tuple):
                raise refused("[]", container, index)
            if type(index) not in NUMBERS or index != int(index):
                raise EvaluationError(f"the index of a list is an integer and no {kind(index)}")
            if not 0 <= index < len(container):
                raise EvaluationError(f"{path} is outside of the list")
            return container[int(index)]

        return indexed

    def _default(self, node: FunctionCall) -> Evaluate:
        if len(node.arguments) != 2 or node.target is not None:
            raise ExpressionError(node.column, "default takes a path and a value, such as default(qty, 1)")
        found_of, other = self._maybe(node.arguments[0]), self.compile(node.arguments[1])

        def evaluate(record: Any) -> Any:
            value = found_of(record)
            return other(record) if value is None else value

        return evaluate

    def _function(self, node: FunctionCall) -> Evaluate:
        function = functions.find(node)
        self.costs = True
        self._size += _FUNCTION
        nodes = (() if node.target is None else (node.target,)) + node.arguments
        arguments, budget = [self.compile(argument) for argument in nodes], self.budget
        if len(arguments) == 1:
            [only] = arguments
            return lambda record: function(budget, only(record))
        return lambda record: function(budget, *[argument(record) for argument in arguments])


# -- loops of macros ---------------------------------------------------------------------------------------------------

_Loop = Callable[[Any, Any], Any]


def _counted(value: Any, budget: StepBudget, steps: int) -> Any:
    """The items of a loop. Each costs its steps before it is evaluated: one, and more for a large body."""
    for item in value:
        budget.spend(steps)
        yield item


def _boolean(sign: str, value: Any) -> bool:
    if value is True or value is False:
        return value
    raise refused(sign, value)


def _deciding(macro: str, body: Evaluate, condition: Evaluate | None, cell: list[Any], budget: StepBudget) -> _Loop:
    """`all` and `exists`: an item that decides the result absorbs the errors of the others."""
    decides = macro == "exists"

    def loop(record: Any, items: Any) -> bool:
        error: EvaluationError | None = None
        for cell[0] in items:
            try:
                if _boolean(macro, body(record)) is decides:
                    return decides
            except TooCostly:
                raise
            except EvaluationError as raised:
                budget.spend(_FAILED)
                error = error or raised
        if error is not None:
            raise error
        return not decides

    return loop


def _exactly_one(macro: str, body: Evaluate, condition: Evaluate | None, cell: list[Any], budget: StepBudget) -> _Loop:
    def loop(record: Any, items: Any) -> bool:
        count = 0
        for cell[0] in items:
            count += _boolean(macro, body(record))
        return count == 1

    return loop


def _filtered(macro: str, body: Evaluate, condition: Evaluate | None, cell: list[Any], budget: StepBudget) -> _Loop:
    def loop(record: Any, items: Any) -> list[Any]:
        return [cell[0] for cell[0] in items if _boolean(macro, body(record))]

    return loop


def _mapped(macro: str, body: Evaluate, condition: Evaluate | None, cell: list[Any], budget: StepBudget) -> _Loop:
    def loop(record: Any, items: Any) -> list[Any]:
        made = []
        for cell[0] in items:
            if condition is None or _boolean(macro, condition(record)):
                made.append(body(record))
                budget.keep(made[-1])
        return made

    return loop


_LOOPS = {"all": _deciding, "exists": _deciding, "exists_one": _exactly_one, "filter": _filtered, "map": _mapped}


# -- parts of a tree ---------------------------------------------------------------------------------------------------


def _operands(node: FunctionCall) -> list[Node]:
    """The operands of a chain of one operator, in order."""
    operands: list[Node] = []
    rest: list[Node] = [node]
    while rest:
        part = rest.pop()
        if isinstance(part, FunctionCall) and part.function == node.function:
            rest += reversed(part.arguments)
        else:
            operands.append(part)
    return operands


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def _present(read: Evaluate, node: Node) -> Evaluate:
    path = path_text(node)

    def present(record: Any) -> Any:
        value = read(record)
        if value is None:
            raise EvaluationError(f"{path} is missing")
        return value

    return present


def path_text(node: Node) -> str:
    """A path in the form of error messages. It holds names of the file and never a value."""
    match node:
        case Identifier(name=name):
            return name
        case Select(operand=operand, name=name):
            return f"{path_text(operand)}.{name}"
        case FunctionCall("_[_]", (operand, Literal(value=str(name)))):
            return f"{path_text(operand)}[{name!r}]"
        case FunctionCall("_[_]", (operand, _)):
            return f"{path_text(operand)}[...]"
        case _:
            return "the value"
