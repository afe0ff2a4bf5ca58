"""Gives modules of the product edited source at import. It imports nothing of ours: the process of a twin loads it
first.

The edits stand as JSON in the variable TWIN_EDITS. The process appends lines `pid what` to the file TWIN_LOG: `started`
for itself, the path of each file that it imports edited, and `broken` with the reason for an edit that does not fit.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType
from typing import Any, NamedTuple


class Edit(NamedTuple):
    """`text` stands exactly once in `file` (a path below the project's root); the twin has `instead` in its place."""

    file: str
    text: str
    instead: str


def edited(source: str, edits: Sequence[Edit]) -> str:
    """Raises ImportError when a text does not stand there exactly once."""
    for file, text, instead in edits:
        if (times := source.count(text)) != 1:
            raise ImportError(f"{file} holds this text {times} times and not once: {text}")
        source = source.replace(text, instead)
    return source


class EditedLoader(SourceFileLoader):
    """Loads one module with its edits, and never from or to a cache of bytecode."""

    def __init__(self, name: str, path: str, edits: Sequence[Edit]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        source = edited(self.get_source(fullname) or "", self._edits)
        return self.source_to_code(source.encode(), self.path)  # type: ignore[no-any-return]


class EditedFinder:
    """Finds the modules of edited files, as the first of sys.meta_path. `note` hears of each."""

    def __init__(self, edits: Sequence[Edit], note: Callable[[str], object]) -> None:
        self._edits, self._note = edits, note

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        file = file_of(name)
        mine = [edit for edit in self._edits if edit.file == file]
        spec = PathFinder.find_spec(name, path) if mine else None
        if spec is None or spec.origin is None:
            return None
        loader = EditedLoader(name, spec.origin, mine)
        try:
            loader.get_code(name)
        except ImportError as error:
            self._note(f"broken {error}")
            raise
        self._note(file)
        return spec_from_file_location(name, spec.origin, loader=loader)


PRODUCT = "sluicegate."  # the package that links to the folders of the product


def file_of(module: str) -> str:
    return module.removeprefix(PRODUCT).replace(".", "/") + ".py"


def module_of(file: str) -> str:
    return PRODUCT + file.removesuffix(".py").replace("/", ".")


def install(environ: Mapping[str, str]) -> None:
    """From now on this process imports the product with the edits of its environment."""
    log = environ["TWIN_LOG"]

    def note(what: str) -> None:
        line = " ".join([str(os.getpid()), *what.splitlines()])
        with open(log, "a", encoding="utf-8") as file:
            file.write(line + "\n")

    edits = [Edit(*edit) for edit in json.loads(environ["TWIN_EDITS"])]
    sys.meta_path.insert(0, EditedFinder(edits, note))  # type: ignore[arg-type]
    note("started")
