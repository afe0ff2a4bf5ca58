"""The syntax tree of an expression.

Each node holds a column, counted from 1: of its first character, of its operator, or of the name after a dot. Two nodes
are equal when they mean the same: the column is not compared. Operators are calls of the functions that the CEL
specification names `_+_`, `_<_`, `!_`, `_?_:_`, `_&&_` and so on. The macros `has`, `all`, `exists`, `exists_one`,
`map` and `filter` have nodes of their own.
"""

from dataclasses import dataclass, field
from typing import Literal as OneOf

Constant = bool | int | float | str | None
MacroName = OneOf["all", "exists", "exists_one", "map", "filter"]


@dataclass(frozen=True, slots=True)
class Literal:
    """`null`, a boolean, an integer of 64 bits, a finite double or a text."""

    value: Constant
    kind: type = field(init=False)  # 1, 1.0 and true are equal in Python and are three literals here
    column: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value))


@dataclass(frozen=True, slots=True)
class Identifier:
    """A bare name: a field of the record, a computed field, `message`, `group`, or the variable of a macro."""

    name: str
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.name`"""

    operand: "Node"
    name: str
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Has:
    """`has(path)`: whether there is a value. The path is a `Identifier`, a `Select` or an index by a text."""

    path: "Node"
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[a, b]`"""

    items: tuple["Node", ...]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class MapOf:
    """`{"a": b}`"""

    entries: tuple[tuple["Node", "Node"], ...]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A function with its arguments. `target` is what stands before the dot of a method call; operators have none."""

    function: str
    arguments: tuple["Node", ...]
    target: "Node | None" = None
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Macro:
    """`operand.exists(variable, body)` and its like. `condition` is the middle argument of the long form of `map`."""

    macro: MacroName
    operand: "Node"
    variable: str
    body: "Node"
    condition: "Node | None" = None
    column: int = field(default=0, compare=False)


Node = Literal | Identifier | Select | Has | ListOf | MapOf | FunctionCall | Macro
