"""The names that an expression reads, and iteration over its tree.

A path is a tuple of names: `customer.tier` and `customer["tier"]` are `("customer", "tier")`. A variable of a macro is
a name only in the macro's body. Chains such as `a + b + c` and `a.b.c` are as deep as they are long, so they are walked
without recursion.
"""

from collections.abc import Container, Iterator

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

NamePath = tuple[str, ...]

OPERATORS = frozenset(f"_{sign}_" for sign in ("||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"))
"""The functions of operators between two operands; `@in` is one of them as well."""


def roots(node: Node) -> frozenset[str]:
    """The free names: fields of the record, computed fields, `message` and `group`."""
    return frozenset(path[0] for path in paths(node))


def paths(node: Node) -> frozenset[NamePath]:
    """The longest path that begins with each free name."""
    names: set[NamePath] = set()
    nobody: frozenset[str] = frozenset()
    waiting = [(node, nobody)]
    while waiting:
        child, bound = waiting.pop()
        path = path_of(child)
        if path is not None:
            if path[0] not in bound:
                names.add(path)
        elif isinstance(child, Macro):
            inner = bound | {child.variable}
            waiting.append((child.operand, bound))
            waiting += [(part, inner) for part in inside(child)]
        else:
            operand = left_of(child)
            waiting += [(part, bound) for part in (*([operand] if operand else ()), *right_of(child))]
    return frozenset(names)


def identifiers(node: Node, names: Container[str]) -> Iterator[Identifier]:
    """The nodes that are one of these names."""
    waiting = [node]
    while waiting:
        child = waiting.pop()
        if isinstance(child, Identifier) and child.name in names:
            yield child
        operand = left_of(child)
        waiting += [*([operand] if operand is not None else ()), *right_of(child)]
        waiting += inside(child) if isinstance(child, Macro) else ()


def path_of(node: Node) -> NamePath | None:
    """The path of the node; None: the node is no path."""
    names: list[str] = []
    while True:
        match node:
            case Identifier(name=name):
                return (name, *reversed(names))
            case Select(operand=operand, name=name) | FunctionCall("_[_]", (operand, Literal(value=str(name)))):
                names.append(name)
                node = operand
            case _:
                return None


def left_of(node: Node) -> Node | None:
    """The operand with which the text of a node begins: `a` for `a + b`, `a.b`, `a[b]` and `a.f(b)`."""
    match node:
        case Select(operand=operand) | Macro(operand=operand):
            return operand
        case FunctionCall(target=target) if target is not None:
            return target
        case FunctionCall(function, (operand, *_)) if function in OPERATORS or function in ("@in", "_[_]"):
            return operand
        case _:
            return None


def right_of(node: Node) -> tuple[Node, ...]:
    """The other nodes directly below, in the order of the text."""
    match node:
        case Has(path=path):
            return (path,)
        case ListOf(items=items):
            return items
        case MapOf(entries=entries):
            return tuple(operand for entry in entries for operand in entry)
        case FunctionCall(arguments=arguments, target=target):
            return arguments if target is not None or left_of(node) is None else arguments[1:]
        case Macro():
            return inside(node)
        case _:
            return ()


def inside(macro: Macro) -> tuple[Node, ...]:
    """The nodes that a macro evaluates for each item, with its variable as a name."""
    return (macro.body,) if macro.condition is None else (macro.condition, macro.body)


def joined(node: Node, joint: str) -> list[Node]:
    """The operands of a chain of `&&` (or of `||`), in the order of the text."""
    parts: list[Node] = []
    waiting = [node]
    while waiting:
        child = waiting.pop()
        if isinstance(child, FunctionCall) and child.function == joint:
            waiting += reversed(child.arguments)
        else:
            parts.append(child)
    return parts
