"""Parses the text of an expression into its tree, by recursive descent over the grammar of the CEL specification."""

from math import isinf

from sluicegate.streams.expressions.faults import ExpressionError
from sluicegate.streams.expressions.lexer import Token, tokens
from sluicegate.streams.expressions.tree import (
    Constant,
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

MAX_NODES = 500
MAX_LEVELS = 32

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "in")
_SUMS = ("+", "-")
_PRODUCTS = ("*", "/", "%")
_SIGNS_OF_WORDS = {"and": "&&", "or": "||", "not": "!"}
_CONSTANTS: dict[str, Constant] = {"true": True, "false": False, "null": None}
# Words of the grammar that cannot be names. All of them but `in`, `true`, `false` and `null` may stand after a dot.
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_NEVER_NAMES = frozenset({"in", *_CONSTANTS})
_NAMESPACES = frozenset({"math"})
_MACROS = {"all": (2,), "exists": (2,), "exists_one": (2,), "map": (2, 3), "filter": (2,)}


def parse(text: str) -> Node:
    """The tree of the expression. Raises ExpressionError with a column, and nothing else."""
    return _Parser(tokens(text)).whole()


def is_name(text: str) -> bool:
    """Whether the text alone is an expression that names a field."""
    try:
        return isinstance(parse(text), Identifier)
    except ExpressionError:
        return False


class _Parser:
    """One method for each rule of the grammar. `_levels` counts the open levels around the current token."""

    def __init__(self, words: list[Token]) -> None:
        self._tokens = words
        self._at = 0
        self._nodes = 0
        self._levels = -1  # the whole expression is no level

    def whole(self) -> Node:
        if self._token.kind == "end":
            raise ExpressionError(1, "is empty")
        node = self._expression()
        if self._token.kind != "end":
            raise self._unexpected()
        return node

    # -- operators ---------------------------------------------------------------------------------------------------

    def _expression(self) -> Node:
        self._deeper()
        condition = self._joined("||")
        if self._is_sign("?"):
            column = self._next().column
            chosen = self._joined("||")
            self._expect(":")
            condition = self._call("_?_:_", (condition, chosen, self._expression()), column)
        self._levels -= 1
        return condition

    def _joined(self, sign: str) -> Node:
        left = self._joined("&&") if sign == "||" else self._relation()
        while self._is_sign(sign):
            column = self._next().column
            right = self._joined("&&") if sign == "||" else self._relation()
            left = self._call(f"_{sign}_", (left, right), column)
        return left

    def _relation(self) -> Node:
        operand = self._sum()
        while self._token.value in _RELATIONS and self._token.kind in ("sign", "name"):
            sign, column = self._token.value, self._next().column
            operand = self._call("@in" if sign == "in" else f"_{sign}_", (operand, self._sum()), column)
        return operand

    def _sum(self) -> Node:
        operand = self._product()
        while self._is_sign(*_SUMS):
            sign, column = self._token.value, self._next().column
            operand = self._call(f"_{sign}_", (operand, self._product()), column)
        return operand

    def _product(self) -> Node:
        operand = self._unary()
        while self._is_sign(*_PRODUCTS):
            sign, column = self._token.value, self._next().column
            operand = self._call(f"_{sign}_", (operand, self._unary()), column)
        return operand

    def _unary(self) -> Node:
        """An even number of the same sign cancels out, as in every implementation of CEL. Only a single minus belongs
        to the number after it, so the smallest integer has no second one."""
        if not self._is_sign("!", "-"):
            return self._member()
        sign, column, times = self._token.value, self._token.column, 0
        while self._is_sign(sign):
            if sign == "-" and not times and self._tokens[self._at + 1].kind in ("int", "float"):
                break
            self._next()
            times += 1
        node = self._member(negative=self._is_sign("-") and sign == "-" and bool(self._next()))
        return self._call(f"{sign}_", (node,), column) if times % 2 else node

    # -- members -----------------------------------------------------------------------------------------------------

    def _member(self, negative: bool = False) -> Node:
        node = self._primary(negative)
        levels = self._levels
        while self._is_sign(".", "["):
            self._deeper()
            column = self._next().column
            if self._tokens[self._at - 1].value == "[":
                node = self._call("_[_]", (node, self._expression()), column)
                self._expect("]")
            else:
                node = self._after_dot(node)
        self._levels = levels
        return node

    def _after_dot(self, node: Node) -> Node:
        token = self._next()
        if token.kind not in ("name", "escaped") or token.value in _NEVER_NAMES:
            raise self._unexpected(token)
        name = token.value.strip("`")
        if not self._is_sign("(") or token.kind == "escaped":
            return self._add(Select(node, name, token.column))
        arguments = self._arguments()
        if name in _MACROS and len(arguments) in _MACROS[name]:
            return self._macro(node, name, arguments, token.column)
        if isinstance(node, Identifier) and node.name in _NAMESPACES:
            return self._call(f"{node.name}.{name}", arguments, token.column)
        return self._add(FunctionCall(name, arguments, node, token.column))

    def _macro(self, node: Node, name: str, arguments: tuple[Node, ...], column: int) -> Node:
        variable, body = arguments[0], arguments[-1]
        if not isinstance(variable, Identifier):
            raise ExpressionError(column, f"the first argument of {name} must be a name, such as {name}(x, ...)")
        condition = arguments[1] if len(arguments) == 3 else None
        return self._add(Macro(name, node, variable.name, body, condition, column))  # type: ignore[arg-type]

    def _primary(self, negative: bool) -> Node:
        token = self._next()
        if token.kind in ("int", "float"):
            return self._number(token, negative)
        if token.kind == "text":
            return self._add(Literal(token.value, column=token.column))
        if token.kind == "name":
            return self._named(token)
        if token.kind == "sign" and token.value == "(":
            node = self._expression()
            self._expect(")")
            return node
        if token.kind == "sign" and token.value == "[":
            return self._add(ListOf(self._items("]"), token.column))
        if token.kind == "sign" and token.value == "{":
            return self._add(MapOf(self._entries(), token.column))
        raise self._unexpected(token)

    def _named(self, token: Token) -> Node:
        if token.value in _CONSTANTS:
            return self._add(Literal(_CONSTANTS[token.value], column=token.column))
        if token.value in _RESERVED:
            raise ExpressionError(token.column, f"{token.value} is a reserved word; write message.value.{token.value}")
        if token.value == "in" or not self._is_sign("("):
            if token.value == "in":
                raise self._unexpected(token)
            return self._add(Identifier(token.value, token.column))
        arguments = self._arguments()
        if token.value != "has":
            return self._call(token.value, arguments, token.column)
        if len(arguments) != 1 or not _is_path(arguments[0]):
            raise ExpressionError(token.column, "has takes one path, such as has(customer.tier)")
        return self._add(Has(arguments[0], token.column))

    def _number(self, token: Token, negative: bool) -> Node:
        text = f"-{token.value}" if negative else token.value
        if token.kind == "float":
            number = float(text)
            if isinf(number):
                raise ExpressionError(token.column, "the number is too large")
            return self._add(Literal(number, column=token.column))
        if len(text) > 40:
            raise ExpressionError(token.column, "the integer has more than 64 bits")
        integer = int(text, 16 if "x" in text else 10)
        if not -(2**63) <= integer < 2**63:
            raise ExpressionError(token.column, "the integer has more than 64 bits")
        return self._add(Literal(integer, column=token.column))

    # -- lists of things ---------------------------------------------------------------------------------------------

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        return self._items(")", trailing=False)

    def _items(self, end: str, trailing: bool = True) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._is_sign(end):
            items.append(self._expression())
            if not self._is_sign(","):
                break
            self._next()
            if not trailing and self._is_sign(end):
                raise self._unexpected()
        self._expect(end)
        return tuple(items)

    def _entries(self) -> tuple[tuple[Node, Node], ...]:
        entries: list[tuple[Node, Node]] = []
        while not self._is_sign("}"):
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._is_sign(","):
                break
            self._next()
        self._expect("}")
        return tuple(entries)

    # -- tokens ------------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _is_sign(self, *signs: str) -> bool:
        return self._token.kind == "sign" and self._token.value in signs

    def _next(self) -> Token:
        """Returns the current token and moves past it. The last token stays current."""
        token = self._token
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _expect(self, sign: str) -> None:
        if not self._is_sign(sign):
            raise self._unexpected(wanted=sign)
        self._next()

    def _unexpected(self, token: Token | None = None, wanted: str = "") -> ExpressionError:
        token = token or self._token
        if token.kind == "end":
            return ExpressionError(token.column, f"ends too early; expected {wanted or 'a value'}")
        before = self._tokens[max(0, self._tokens.index(token) - 1)]
        token = before if before.kind == "name" and before.value == "not" else token
        shown = f"'{token.value}'" if token.kind == "sign" else "a text" if token.kind == "text" else token.value
        hint = f"; expected {wanted}" if wanted else ""
        if token.kind == "name" and (sign := _SIGNS_OF_WORDS.get(token.value)) is not None:
            hint = f"; write {sign} for `{token.value}`"
        return ExpressionError(token.column, f"unexpected {shown}{hint}")

    def _deeper(self) -> None:
        self._levels += 1
        if self._levels > MAX_LEVELS:
            raise ExpressionError(self._token.column, f"is nested deeper than {MAX_LEVELS} levels")

    def _call(self, function: str, arguments: tuple[Node, ...], column: int) -> Node:
        return self._add(FunctionCall(function, arguments, column=column))

    def _add(self, node: Node) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ExpressionError(node.column, f"has more than {MAX_NODES} parts")
        return node


def _is_path(node: Node) -> bool:
    if isinstance(node, Select):
        return True
    if isinstance(node, FunctionCall) and node.function == "_[_]":
        index = node.arguments[1]
        return isinstance(index, Literal) and isinstance(index.value, str)
    return isinstance(node, Identifier)
