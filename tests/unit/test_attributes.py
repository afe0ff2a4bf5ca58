"""Most tests run only one day in five, but each test file is imported every day. An import of a name that the product
no longer has fails on that day. A read of a module's attribute does not, so these tests look for it."""

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
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
    text = "from sluicegate.streams.outbox import sizes\npatch.setattr(sizes, {}, 1)\n"
    assert list(missing(text.format("'cut'"), "a.py")) == []
    gone = list(missing(text.format("'GONE'"), "a.py"))
    assert gone == ["a.py:2: there is no sluicegate.streams.outbox.sizes.GONE"]
    text = "from sluicegate.streams.outbox.rows import Rows\npatch.setattr(Rows, {}, 1)\n"
    assert list(missing(text.format("'make'"), "a.py")) == []
    assert list(missing(text.format("'GONE'").replace("1)", "1, raising=False)"), "a.py")) == []
    gone = list(missing(text.format("'GONE'"), "a.py"))
    assert gone == ["a.py:2: there is no sluicegate.streams.outbox.rows.Rows.GONE"]


def missing(text: str, path: str) -> Iterator[str]:
    """Each attribute that is read of an imported module and that the module lacks, one line each."""
    tree = ast.parse(text)
    owners = {name: value for node in ast.walk(tree) for name, value in imported(node)}
    for name in rebound(tree):
        owners.pop(name, None)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            if (target := patched(node, owners)) is not None and not exists(target):
                yield f"{path}:{node.lineno}: there is no {target}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            module = owners.get(node.value.id)
            if isinstance(module, ModuleType) and not hasattr(module, node.attr):
                yield f"{path}:{node.lineno}: {module.__name__} has no {node.attr}"


def imported(node: ast.AST) -> Iterator[tuple[str, ModuleType | type]]:
    """The modules and classes of the product that an import binds, by name."""
    if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("sluicegate"):
        return
    package = importlib.import_module(node.module or "")
    for alias in node.names:
        if not hasattr(package, alias.name):
            importlib.import_module(f"{package.__name__}.{alias.name}")
        value = getattr(package, alias.name)
        if isinstance(value, ModuleType | type):
            yield alias.asname or alias.name, value


def patched(call: ast.Call, owners: Mapping[str, ModuleType | type]) -> str | None:
    """The dotted name of the product that a call of pytest's `setattr` replaces. With `raising` it may be missing."""
    names = [argument.value for argument in call.args[:2] if isinstance(argument, ast.Constant)]
    if not names or not isinstance(names[0], str) or any(keyword.arg == "raising" for keyword in call.keywords):
        return None
    if not isinstance(call.args[0], ast.Name):
        return names[0] if names[0].startswith("sluicegate.") else None
    owner = owners.get(call.args[0].id)
    if isinstance(owner, type):
        return f"{owner.__module__}.{owner.__qualname__}.{names[0]}"
    return None if owner is None else f"{owner.__name__}.{names[0]}"


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
