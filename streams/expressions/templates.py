"""Python code as a tree, made from patterns.

A pattern is text of this program, with names in capitals as its holes. Values of a file or a record fill a hole as a
node of the tree, and never as text of a program.
"""

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

Part = str | ast.expr | Sequence[ast.stmt]
"""The content of a hole: a name, an expression, or statements in the place of a statement that is the hole alone."""


def expression(pattern: str, **parts: Part) -> ast.expr:
    """The expression with its holes filled. A constant or a name may stand in many places, another node
    in one only."""
    [statement] = statements(pattern, **parts)
    assert isinstance(statement, ast.Expr)
    return statement.value


def statements(pattern: str, **parts: Part) -> list[ast.stmt]:
    """Same as `expression`, for statements."""
    return [made for statement in _parsed(pattern) for made in _filled_statement(statement, parts)]


def name(identifier: str) -> ast.Name:
    return ast.Name(identifier, ast.Load())


@cache
def _parsed(pattern: str) -> list[ast.stmt]:
    return ast.parse(pattern).body


def _filled_statement(statement: ast.stmt, parts: Mapping[str, Part]) -> Sequence[ast.stmt]:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Name):
        part = parts.get(statement.value.id)
        if part is not None and not isinstance(part, str | ast.expr):
            return part
    return [_filled(statement, parts)]


def _filled(node: Any, parts: Mapping[str, Part]) -> Any:
    """A copy of the node with its holes filled."""
    if isinstance(node, ast.Name) and node.id in parts:
        part = parts[node.id]
        if isinstance(part, str):
            return ast.Name(part, node.ctx)
        return ast.Constant(part.value) if isinstance(part, ast.Constant) else part
    values: dict[str, Any] = {}
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            copies = [
                _filled_statement(item, parts) if isinstance(item, ast.stmt) else [_filled(item, parts)]
                for item in value
            ]
            values[field] = [item for copy in copies for item in copy]
        else:
            values[field] = _filled(value, parts) if isinstance(value, ast.AST) else value
    return type(node)(**values)
