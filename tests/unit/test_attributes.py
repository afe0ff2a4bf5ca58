"""Most tests run only one day in five, but each test file is imported every day. An import of a name that the product
no longer has fails on that day. A read of a module's attribute does not, so these tests look for it."""

import ast
import importlib
import pkgutil
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
    patch = 'patch.setattr("sluicegate.streams.outbox.sizes.{}", 1)\n'
    gone = list(missing(patch.format("GONE") + patch.format("cut"), "a.py"))
    assert gone == ["a.py:1: there is no sluicegate.streams.outbox.sizes.GONE"]


def missing(text: str, path: str) -> Iterator[str]:
    """Each attribute that is read of an imported module and that the module lacks, one line each."""
    tree = ast.parse(text)
    modules = {name: module for node in ast.walk(tree) for name, module in imported(node)}
    for name in rebound(tree):
        modules.pop(name, None)
    for node in ast.walk(tree):
        if (target := patched(node)) is not None and not exists(target):
            yield f"{path}:{node.lineno}: there is no {target}"
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


def patched(node: ast.AST) -> str | None:
    """The dotted name that a call of `setattr` of pytest patches."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "setattr":
        return None
    name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    return name if isinstance(name, str) and name.startswith("sluicegate.") else None


def exists(target: str) -> bool:
    try:
        pkgutil.resolve_name(target)
    except (AttributeError, ImportError):
        return False
    return True


def rebound(tree: ast.AST) -> set[str]:
    """Names that are something else somewhere in the file: a parameter or a variable."""
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return arguments | stored
