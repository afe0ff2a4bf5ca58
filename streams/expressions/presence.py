"""The values that are known to exist. In `has(a) && a > 3`, the comparison is evaluated only where `a` exists."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluicegate.streams.expressions.scope import NamePath, joined, path_of
from sluicegate.streams.expressions.tree import FunctionCall, Has, Literal, Node
from sluicegate.streams.expressions.types import ValueType

NULL_LITERAL = Literal(None)


@dataclass(frozen=True)
class Presence:
    """The variables of the enclosing macros, and the paths that are known to have a value."""

    variables: Mapping[str, ValueType]
    there: frozenset[NamePath]

    def binding(self, name: str, type_: ValueType) -> "Presence":
        return Presence({**self.variables, name: type_}, frozenset(path for path in self.there if path[0] != name))

    def knowing(self, paths: Iterable[NamePath]) -> "Presence":
        """A path that has a value has one at each of its names."""
        return Presence(self.variables, self.there | {path[:n] for path in paths for n in range(1, len(path) + 1)})


def proven(node: Node, answer: bool) -> frozenset[NamePath]:
    """The paths that have a value when the condition gives this answer."""
    match node:
        case Has(path=path) if answer:
            return path_in(path)
        case FunctionCall("!_", (operand,)):
            return proven(operand, not answer)
        case FunctionCall("_==_" | "_!=_" as function, (left, right)) if answer is (function == "_!=_"):
            return path_in(left if right == NULL_LITERAL else right if left == NULL_LITERAL else None)
        case FunctionCall("_&&_" | "_||_" as function) if answer is (function == "_&&_"):
            return frozenset(path for part in joined(node, function) for path in proven(part, answer))
        case _:
            return frozenset()


def path_in(node: Node | None) -> frozenset[NamePath]:
    path = path_of(node) if node else None
    return frozenset({path}) if path else frozenset()
