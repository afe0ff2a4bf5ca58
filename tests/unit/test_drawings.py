"""The drawings of docs/design.md name functions and methods of the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
NAME = re.compile(r"\b(\w+)\.([a-z_]\w*)\b")
FILES = {"shop", "agents", "baskets", "aggregate"}  # of the file that the second drawing follows
OURS = {"Aggregate": {"model_validate"}, "FileModel": {"model_validate"}}  # methods of pydantic's


def defined() -> dict[str, set[str]]:
    """The methods of each class, those of its base classes included, and the functions of each module."""
    lines: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in (path for room in ("streams", "connectors", "schemas") for path in (PROJECT / room).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                lines.setdefault(node.name, set()).update(names(node.body))
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
            lines.setdefault(path.stem, set()).update(names([node]))
    return {name: own.union(*(lines.get(base, set()) for base in lineage(name, bases))) for name, own in lines.items()}


def lineage(name: str, bases: dict[str, list[str]]) -> Iterator[str]:
    for base in bases.get(name, []):
        yield base
        yield from lineage(base, bases)


def names(body: list[ast.stmt]) -> Iterator[str]:
    return (node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef))


def unknown(text: str) -> list[str]:
    known = defined()
    named = {match.groups() for block in BLOCK.findall(text) for match in NAME.finditer(block)}
    return sorted(
        f"{owner}.{name}"
        for owner, name in named
        if owner not in FILES and name not in known.get(owner, set()) | OURS.get(owner, set())
    )


def test_each_name_in_the_drawings_is_in_the_code() -> None:
    text = (PROJECT / "docs/design.md").read_text()
    assert len(BLOCK.findall(text)) == 2
    assert unknown(text) == []


@pytest.mark.parametrize(("old", "new"), [("Worker.turn", "Worker.tick"), ("accept.accept", "accept.take")])
def test_a_name_that_the_code_does_not_have_is_found(old: str, new: str) -> None:
    text = (PROJECT / "docs/design.md").read_text()
    assert unknown(text.replace(old, new)) == [new]
