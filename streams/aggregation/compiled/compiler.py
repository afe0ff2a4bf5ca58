"""Compiles a tree of Python code to a function. No other module compiles or runs generated code.

The tree has names that the program chose, and constants. Text from a file or a record never becomes code.
"""

import ast
import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

MARK = "- "  # the prefix of the text that marks a stage in the code


class MadeFunction(NamedTuple):
    """A function, and its source with a comment for each stage."""

    call: Callable[..., Any]
    source: str


def stage(title: str) -> ast.stmt:
    """A statement without effect. The source shows it as a comment."""
    return ast.Expr(ast.Constant(MARK + title))


def function(place: str, parameters: Sequence[str], body: Sequence[ast.stmt], names: Mapping[str, Any]) -> MadeFunction:
    """Compile a function with this body. `place` is the file name in tracebacks; the source lines are in `linecache`.
    `names` maps the free names of the body to their values."""
    arguments = ast.arguments([], [ast.arg(parameter) for parameter in parameters], None, [], [], None, [])
    made = ast.FunctionDef("made", arguments, [*body], [], None)
    tree = ast.Module([made], [])
    _number(tree.body, 1)
    text = ast.unparse(ast.fix_missing_locations(tree))
    source = "".join(_commented(line) for line in text.splitlines(keepends=True)) + "\n"
    file = f"<{place} {crc32(source.encode()):08x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = dict(names)
    exec(compile(tree, file, "exec"), space)  # nosec B102
    return MadeFunction(space["made"], source)


def _number(statements: Sequence[ast.stmt], line: int) -> int:
    """Give each statement the line number that `ast.unparse` will give it, starting at `line`. Returns the next line
    number. Parsing the text would take three times as long."""
    for statement in statements:
        statement.lineno = statement.end_lineno = line
        statement.col_offset = statement.end_col_offset = 0
        line = _number(getattr(statement, "body", ()), line + 1)
        line = _number(getattr(statement, "handlers", ()), line)
        if others := getattr(statement, "orelse", ()):
            chained = isinstance(statement, ast.If) and len(others) == 1 and isinstance(others[0], ast.If)
            line = _number(others, line if chained else line + 1)
        if last := getattr(statement, "finalbody", ()):
            line = _number(last, line + 1)
    return line


def _commented(line: str) -> str:
    text = line.strip()
    bare = text.strip("'\"")
    return line.replace(text, f"# {bare.removeprefix(MARK)}") if bare != text and bare.startswith(MARK) else line
