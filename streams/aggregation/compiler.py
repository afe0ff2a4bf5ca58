"""Makes a function of a tree of Python code. This is the one place that compiles and runs code that the program made.

The tree has names that the program chose, and constants. Nothing of a file or a record is ever text of the code.
"""

import ast
import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

MARK = "- "  # how the text begins that stands before the code of a stage


class MadeFunction(NamedTuple):
    """A function, and its source with a comment for each stage."""

    call: Callable[..., Any]
    source: str


def stage(title: str) -> ast.stmt:
    """A statement that does nothing. The source has it as a comment."""
    return ast.Expr(ast.Constant(MARK + title))


def function(place: str, parameters: Sequence[str], body: Sequence[ast.stmt], names: Mapping[str, Any]) -> MadeFunction:
    """The function with this body. `place` is what tracebacks show as its file; its lines are in `linecache`. `names`
    are the values of the names in the body."""
    arguments = ast.arguments([], [ast.arg(parameter) for parameter in parameters], None, [], [], None, [])
    made = ast.FunctionDef("made", arguments, [*body], [], None)
    tree = ast.fix_missing_locations(ast.Module([made], []))
    text = ast.unparse(tree)
    _place(tree.body, ast.parse(text).body)
    source = "".join(_commented(line) for line in text.splitlines(keepends=True)) + "\n"
    file = f"<{place} {crc32(source.encode()):08x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = dict(names)
    exec(compile(tree, file, "exec"), space)
    return MadeFunction(space["made"], source)


def _place(statements: Sequence[ast.stmt], written: Sequence[ast.stmt]) -> None:
    """Each statement stands in the line where it is in the text."""
    for statement, line in zip(statements, written, strict=True):
        bodies = [getattr(statement, part, ()) for part in _BODIES]
        inside = {id(node) for body in bodies for node in body}
        _locate(statement, line, inside)
        for body, lines in zip(bodies, (getattr(line, part, ()) for part in _BODIES), strict=True):
            _place(body, lines)


_BODIES = ("body", "handlers", "orelse", "finalbody")


def _locate(node: ast.AST, line: ast.stmt, apart: set[int]) -> None:
    if "lineno" in node._attributes:
        node.lineno = node.end_lineno = line.lineno  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = line.col_offset  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        if id(child) not in apart:
            _locate(child, line, apart)


def _commented(line: str) -> str:
    text = line.strip()
    bare = text.strip("'\"")
    return line.replace(text, f"# {bare.removeprefix(MARK)}") if bare != text and bare.startswith(MARK) else line
