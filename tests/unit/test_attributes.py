"""Most tests run only one day in five, but each test file is imported every day. An import of a name that the product
no longer has fails on that day. A read of a module's attribute does not, so these tests look for it."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

PROJECT = Path(__file__).resolve().parents[2]


def test_each_attribute_of_a_module_of_the_product_that_a_test_reads_exists() -> None:
    files = [path for path in sorted((PROJECT / "tests").rglob("*.py")) if "sluicegate" in path.read_text()]
    assert [problem for path in files for problem in missing(path.read_text(), str(path.relative_to(PROJECT)))] == []


def test_an_attribute_that_is_gone_is_named_with_its_line() -> None:
    text = "from sluicegate.streams.outbox import sizes\nsizes.cut\nsizes.GONE\n"
    assert list(missing(text, "a.py")) == ["a.py:3: sluicegate.streams.outbox.sizes has no GONE"]
    assert list(missing("from sluicegate.streams.outbox import sizes\nsizes.NEW = 1\n", "a.py")) == []
    assert list(missing("from sluicegate.streams.outbox import sizes\ndef f(sizes):\n    sizes.GONE\n", "a.py")) == []


def missing(text: str, path: str) -> Iterator[str]:
    """Each attribute that is read of an imported module and that the module lacks, one line each."""
    tree = ast.parse(text)
    modules = {name: module for node in ast.walk(tree) for name, module in imported(node)}
    for name in rebound(tree):
        modules.pop(name, None)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        module = modules.get(node.value.id)
        if module is not None and isinstance(node.ctx, ast.Load) and not hasattr(module, node.attr):
            yield f"{path}:{node.lineno}: {module.__name__} has no {node.attr}"


def imported(node: ast.AST) -> Iterator[tuple[str, ModuleType]]:
    """The modules of the product that an import binds, by name."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("sluicegate"):
        return
    package = importlib.import_module(node.module or "")
    for alias in node.names:
        if not hasattr(package, alias.name):
            importlib.import_module(f"{package.__name__}.{alias.name}")
        value = getattr(package, alias.name)
        if isinstance(value, ModuleType):
            yield alias.asname or alias.name, value


def rebound(tree: ast.AST) -> set[str]:
    """Names that are something else somewhere in the file: a parameter or a variable."""
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return arguments | stored
