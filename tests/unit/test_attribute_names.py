"""mypy reads no tests, so nothing else notices that a test reads, or replaces, an attribute whose name is gone. These
tests look for names that exist nowhere: neither in the product, nor in the tests, nor in the libraries. They do not ask
which object an attribute belongs to (test_attributes.py does so for modules and classes of the product)."""

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
OURS = ("tests", "sluicegate", "examples")
ROOMS = ("streams", "connectors", "schemas", "sluicegate")
DEFINED = re.compile(
    r"""\b(?:def|class)[ ](\w+)
    | ^[ ]*((?:[\w.]+(?:,|[ ]=)[ ])*[\w.]+)(?::|[ ]=)  # a field, a variable, or several at once
    | \b(\w+)=  # a keyword may become a field
    | ^[ ]*(?:from[ ]\S+[ ])?import[ ](.+)$
    | "--([a-z-]+)"  # an option of a command""",
    re.MULTILINE | re.VERBOSE,
)
STRINGS = re.compile(r"[\"'](\w+)[\"']")  # slots, and fields of types that are made at run time
READ = re.compile(r"\.([A-Za-z_]\w*)")
REPLACED = re.compile(r"(?:\bsetattr|\bpatch\.object)\((?:[^()\"']|\([^()]*\))+,\s*[\"'](\w+)[\"'](?![^)]*raising=)")
ABSENT = {
    **dict.fromkeys(("src_uri", "abs_src_path", "content_string"), "mkdocs, which only the site needs"),
    **dict.fromkeys(("tumbling_count_window", "dataframe"), "quixstreams, which only a bench needs"),
    "prctl": "libc",
}
"""Names of libraries that are not among the requirements of the tests."""
IMPORTED = re.compile(r"^ *(?:from|import) (\w+)", re.MULTILINE)
WORD = re.compile(r"\w+")


def test_each_attribute_that_a_test_reads_or_replaces_has_a_name_that_exists() -> None:
    product = [path.read_text() for room in ROOMS for path in (PROJECT / room).glob("**/*.py")]
    files = {str(path.relative_to(PROJECT)): path.read_text() for path in sorted((PROJECT / "tests").rglob("*.py"))}
    examples = [path.read_text() for path in (PROJECT / "examples").rglob("*.py")]
    known = {word for path in files for word in WORD.findall(path)} | {*ABSENT, *loaded()}
    known |= {*defined([*product, *examples, *files.values()])}
    known |= {name for text in product for pattern in (READ, STRINGS) for name in pattern.findall(text)}  # mypy's
    assert missing(files, known) == []


def test_a_name_that_exists_nowhere_is_named_with_its_line() -> None:
    known = {*defined(["class Owner:\n    offset: int\n    def __init__(self):\n        self.a, self._b = 1, 2\n"])}
    text = "import json\nowner.offset\nowner.ofset\nowner._b, owner.a, json.loads\nowner.new = 'owner.old'\n"
    assert missing({"a.py": text}, known) == ["a.py:3: nothing has the name ofset"]
    text = "import pytest\npatch.setattr(owner(1), '{}', 2)\n"
    assert missing({"a.py": text.format("offset")}, known) == []
    assert missing({"a.py": text.format("ofset")}, known) == ["a.py:2: nothing has the name ofset"]
    assert missing({"a.py": text.format("ofset").replace("2)", "2, raising=False)")}, known) == []


def missing(files: Mapping[str, str], known: Collection[str]) -> list[str]:
    """The attributes that the files read or replace and whose names are neither known nor in a library, a line each."""
    absent = {name for text in files.values() for name in (*READ.findall(text), *REPLACED.findall(text))} - {*known}
    for library in {name for text in files.values() for name in IMPORTED.findall(text)} | {"_pytest"}:
        absent -= {*words(library, absent)}
    return [
        f"{path}:{line}: nothing has the name {name}" for path in files for line, name in places(files[path], absent)
    ]


def places(text: str, absent: Collection[str]) -> Iterator[tuple[int, str]]:
    """Where the text has one of these names as an attribute: line and name."""
    for match in REPLACED.finditer(text):
        if match[1] in absent:
            yield text.count("\n", 0, match.start()) + 1, match[1]
    if {*READ.findall(text)}.isdisjoint(absent):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in absent:
            yield node.lineno, node.attr


def defined(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for match in DEFINED.findall(text):
            yield from WORD.findall(" ".join(match).replace("-", "_"))


def loaded() -> Iterator[str]:
    """The names in the libraries that this process has loaded."""
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] not in OURS:
            yield from names(module)
    yield from names(builtins)


def names(module: object) -> Iterator[str]:
    """The names in a module, and those in its classes."""
    fields = getattr(module, "__dict__", None)
    for name, value in [*fields.items()] if isinstance(fields, dict) else ():
        yield name
        if isinstance(value, type):
            yield from vars(value)


def words(library: str, wanted: Collection[str]) -> Iterator[str]:
    """Those of the wanted words that the library has."""
    if library in OURS:
        return
    if library in sys.stdlib_module_names:
        yield from names(importlib.import_module(library))
    spec = PathFinder.find_spec(library)  # other tests may have a module of this name without a spec
    if spec is None:
        return
    sources = [path for folder in spec.submodule_search_locations or () for path in Path(folder).rglob("*.py*")]
    for path in sources or [Path(spec.origin or "")]:
        if path.suffix in (".py", ".pyi"):
            yield from {*wanted} & {*WORD.findall(path.read_text(errors="replace"))}
