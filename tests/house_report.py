"""`python -m tests.house_report`: files and classes that may have more than one responsibility. Nothing fails by it."""

import ast
from pathlib import Path

from tests.house import attributes, files, sources

FILE_LINES = 400
ATTRIBUTES = 12


def report(root: Path) -> list[str]:
    """One line for each file of more than 400 lines, and for each class of more than 12 attributes."""
    problems = []
    for path in files(root, "*.py"):
        if (lines := len(path.read_text().splitlines())) > FILE_LINES:
            problems.append(f"{path.relative_to(root)}: {lines} lines, more than {FILE_LINES}")
    for path, tree in sources(root):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and (count := len(_fields(node) | attributes(node))) > ATTRIBUTES:
                problems.append(f"{path}:{node.lineno}: {node.name} has {count} attributes, more than {ATTRIBUTES}")
    return problems


def _fields(node: ast.ClassDef) -> set[str]:
    """The annotated names of the class."""
    return {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


if __name__ == "__main__":
    print("\n".join(report(Path(__file__).resolve().parents[1])))
