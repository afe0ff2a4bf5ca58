"""Functions that are made of trees: where their lines are, and that nothing of a file is their code."""

import random
import re
import traceback
from itertools import count
from types import CodeType
from typing import Any

import pytest

from sluicegate.streams.aggregation.compiled.compiler import function, stage
from sluicegate.streams.expressions.templates import statements
from sluicegate.streams.expressions.tree import FunctionCall, Identifier, Literal, Node, Select
from sluicegate.streams.expressions.typed import TypedCode
from tests.hostile_texts import texts


def names_of(code: CodeType) -> set[str]:
    """All names of the code, and of the code in it."""
    inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {*code.co_names, *code.co_varnames, *code.co_freevars}.union(*map(names_of, inside))


def test_a_traceback_shows_the_lines_of_a_function() -> None:
    body = statements(
        "A\nif read:\n    B\n    1 / read.count(X)\nelse:\n    pass", A=[stage("one")], B=[stage("two")], X="x"
    )
    made = function("where", ("read",), body, {"x": 1})
    assert "    # one\n" in made.source
    with pytest.raises(ZeroDivisionError) as raised:
        made.call([2])
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.filename.startswith("<where ")
    assert last.line == "1 / read.count(x)"
    assert made.source.splitlines()[(last.lineno or 0) - 2].strip() == "# two"


NESTED = """
for record in read:
    try:
        if record:
            A
        elif read:
            A
        elif not read:
            if record:
                A
        else:
            A
        while record:
            A
        else:
            A
    except KeyError:
        A
    except ValueError:
        A
    else:
        A
    finally:
        A
else:
    if record:
        A
    else:
        A
        if record:
            A
"""


def test_each_part_of_the_code_has_the_line_where_the_source_has_it() -> None:
    calls = count()
    pattern = re.sub("A$", lambda _: f"seen({next(calls)})", NESTED, flags=re.MULTILINE)
    made = function("where", ("read",), statements(pattern), {"seen": None})
    lines = made.source.splitlines()
    written = {number for number, line in enumerate(lines, 1) if "seen(" in line}
    assert len(written) == next(calls) == 13
    assert written <= {line for _, _, line in made.call.__code__.co_lines()}
    assert [lines[line - 1].split()[0] for _, _, line in made.call.__code__.co_lines() if line is not None][:2] == [
        "def",
        "for",
    ]


def condition(chance: random.Random, hostile: list[str]) -> Node:
    """A condition of these texts, as names of fields and as literals."""
    node: Node = Literal(True)
    for text in hostile:
        path: Node = Select(Identifier(text), text)
        other = FunctionCall("_==_", (path, Literal(text)))
        node = FunctionCall(
            "_&&_", (node, FunctionCall("startsWith", (Literal(text),), path) if chance.random() < 0.5 else other)
        )
    return node


@pytest.mark.parametrize("seed", range(3))
def test_a_text_of_a_file_is_never_code(seed: int) -> None:
    chance = random.Random(seed)
    plain: Any = made_of(condition(chance, ["a"] * 20))
    hostile = made_of(condition(chance, texts(chance, 20)))
    assert names_of(hostile.__code__) - names_of(plain.__code__) <= LOCALS


def made_of(node: Node) -> Any:
    code = TypedCode({}, ())
    test = code.condition(node)
    return function("test", ("read",), statements("return X", X=test), code.constants()).call


LOCALS = {f"{letter}{number}" for letter in "vtfg" for number in range(200)}
