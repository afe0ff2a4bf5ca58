"""An expression as text: the canonical text of its tree, and an English phrase for short conditions."""

from sluicegate.streams.expressions.scope import joined, left_of, path_of, right_of
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

# The levels of binding, from the loosest to the tightest.
_TERNARY, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)

# The sign of each operator between two operands, and how tightly it binds. All of them group from the left.
_INFIX = {
    "_||_": ("||", _OR),
    "_&&_": ("&&", _AND),
    **{f"_{sign}_": (sign, _RELATION) for sign in ("==", "!=", "<", "<=", ">", ">=")},
    "@in": ("in", _RELATION),
    **{f"_{sign}_": (sign, _SUM) for sign in "+-"},
    **{f"_{sign}_": (sign, _PRODUCT) for sign in "*/%"},
}
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def normal(node: Node) -> str:
    """The canonical text of a tree. It parses to an equal tree, and equal trees have one text."""
    return _text(node)[0]


def _text(node: Node) -> tuple[str, int]:
    """The text of a node, and how tightly it binds."""
    chain = []
    while (operand := left_of(node)) is not None:
        chain.append(node)
        node = operand
    text, binds = _beginning(node)
    for part in reversed(chain):
        text, binds = _continued(part, text, binds)
    return text, binds


def _beginning(node: Node) -> tuple[str, int]:
    """The text of a node without a left operand."""
    match node:
        case Literal(value=value):
            return literal(value), _UNARY if node.kind in (int, float) else _MEMBER  # `1.a` and `-1.a` are other texts
        case Identifier(name=name):
            return name, _MEMBER
        case Has(path=path):
            return f"has({normal(path)})", _MEMBER
        case ListOf(items=items):
            return f"[{_listed(items)}]", _MEMBER
        case MapOf(entries=entries):
            return "{" + ", ".join(f"{normal(key)}: {normal(value)}" for key, value in entries) + "}", _MEMBER
        case FunctionCall("_?_:_", (condition, then, otherwise)):
            return f"{_as_operand(condition, _OR)} ? {_as_operand(then, _OR)} : {normal(otherwise)}", _TERNARY
        case FunctionCall("!_" | "-_", (operand,)):
            return f"{node.function[0]}{_as_operand(operand, _MEMBER)}", _UNARY
        case FunctionCall(function, arguments):
            return f"{function}({_listed(arguments)})", _MEMBER
    raise AssertionError(type(node).__name__)


def _continued(node: Node, operand: str, binds: int) -> tuple[str, int]:
    """The text of a node whose operand on the left has this text."""
    own = _INFIX[node.function][1] if isinstance(node, FunctionCall) and node.function in _INFIX else _MEMBER
    operand = operand if binds >= own else f"({operand})"
    rest = right_of(node)
    match node:
        case Select(name=name):
            return f"{operand}.{name}", _MEMBER
        case Macro(macro=macro, variable=variable):
            return f"{operand}.{macro}({variable}, {_listed(rest)})", _MEMBER
        case FunctionCall("_[_]"):
            return f"{operand}[{normal(rest[0])}]", _MEMBER
        case FunctionCall(function) if function in _INFIX:
            return f"{operand} {_INFIX[function][0]} {_as_operand(rest[0], own + 1)}", own
        case FunctionCall(function):
            return f"{operand}.{function}({_listed(rest)})", _MEMBER
    raise AssertionError(type(node).__name__)


def _as_operand(node: Node, binds: int) -> str:
    """The text as an operand of an operator with this binding, in parentheses where it binds less tightly."""
    text, own = _text(node)
    return text if own >= binds else f"({text})"


def _listed(nodes: tuple[Node, ...]) -> str:
    return ", ".join(normal(node) for node in nodes)


def literal(value: bool | int | float | str | None) -> str:
    """A constant as an expression writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + "".join(_ESCAPES.get(character) or _printable(character) for character in value) + '"'
    return repr(value)


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_COMPARED = {
    "_==_": "is",
    "_!=_": "is not",
    "_<_": "is less than",
    "_<=_": "is at most",
    "_>_": "is more than",
    "_>=_": "is at least",
}
_MIRRORED = {"_<_": "_>_", "_<=_": "_>=_", "_>_": "_<_", "_>=_": "_<=_"}
_OPPOSITE = {"_==_": "_!=_", "_!=_": "_==_", "_<_": "_>=_", "_<=_": "_>_", "_>_": "_<=_", "_>=_": "_<_"}
_ASKED_OF_TEXT = {
    "startsWith": ("begins with", "does not begin with"),
    "endsWith": ("ends with", "does not end with"),
    "contains": ("contains", "does not contain"),
}
_LONGEST = 60  # characters of an operand in a phrase


def in_words(node: Node) -> str | None:
    """A condition as an English phrase, such as `status is "paid" and country is one of "DE", "FR"`.

    None for a condition that has no short phrase: quote the expression instead.
    """
    for joint, word in (("_&&_", " and "), ("_||_", " or ")):
        if isinstance(node, FunctionCall) and node.function == joint:
            phrases = [_phrase(operand) for operand in joined(node, joint)]
            known = [phrase for phrase in phrases if phrase is not None]
            return word.join(known) if len(known) == len(phrases) else None
    return _phrase(node)


def _phrase(node: Node) -> str | None:
    match node:
        case FunctionCall("!_", (condition,)):
            return _simple(condition, False)
        case _:
            return _simple(node, True)


def _simple(node: Node, holds: bool) -> str | None:
    """A condition without `&&` and `||`, or its opposite."""
    match node:
        case Identifier() | Select():
            return _with_operand(node, f"is {literal(holds)}")
        case Has(path=path):
            return _with_operand(path, "has a value" if holds else "has no value")
        case FunctionCall("@in", (left, ListOf(items=items))) if items and all(
            isinstance(item, Literal) for item in items
        ):
            return _with_operand(left, f"is {'' if holds else 'not '}one of {_listed(items)}")
        case FunctionCall(function, (Literal() as sought,), target) if target and function in _ASKED_OF_TEXT:
            return _with_operand(target, f"{_ASKED_OF_TEXT[function][not holds]} {normal(sought)}")
        case FunctionCall(function, (left, right)) if function in _COMPARED:
            return _comparison(function if holds else _OPPOSITE[function], left, right)
        case _:
            return None


def _comparison(function: str, left: Node, right: Node) -> str | None:
    if isinstance(left, Literal):
        left, right, function = right, left, _MIRRORED.get(function, function)
    if right == Literal(None):
        return _with_operand(left, {"_==_": "has no value", "_!=_": "has a value"}.get(function))
    value = _operand(right)
    return _with_operand(left, f"{_COMPARED[function]} {value}") if value else None


def _with_operand(node: Node, text: str | None) -> str | None:
    operand = _operand(node)
    return f"{operand} {text}" if operand and text else None


def _operand(node: Node) -> str | None:
    """The text of a value in a phrase: a path, a literal, or a short call of them."""
    text = normal(node)
    return text if len(text) <= _LONGEST and _is_value(node) else None


_LOGIC: frozenset[str] = frozenset({"_&&_", "_||_", "!_", "_?_:_", "@in", *_COMPARED, *_ASKED_OF_TEXT})


def _is_value(node: Node) -> bool:
    match node:
        case Literal():
            return True
        case FunctionCall(function, arguments, target):
            parts = arguments if target is None else (target, *arguments)
            return function not in _LOGIC and all(_is_value(part) for part in parts)
        case _:
            return path_of(node) is not None
