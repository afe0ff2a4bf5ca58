"""The product without protections of the table: in this process, or in processes that a test starts."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import unwrap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tests.mutation.protections import PROTECTIONS
from tests.mutation.twin.edits import Edit, EditedLoader, module_of

HOOK = Path(__file__).with_name("twin")


def edits_of(names: str) -> list[Edit]:
    """The edits of protections whose names are joined by commas; of none for an empty text."""
    return [edit for name in filter(None, names.split(",")) for edit in PROTECTIONS[name]]


# -- in this process ---------------------------------------------------------------------------------------------------


@contextmanager
def without(names: str) -> Iterator[None]:
    """The product without these protections, joined by commas. A Redis store takes its scripts when it is opened: open
    it inside."""
    with pytest.MonkeyPatch.context() as patch:
        take_out(patch, edits_of(names))
        yield


def take_out(patch: pytest.MonkeyPatch, edits: Sequence[Edit]) -> None:
    """Until the patch is undone, functions and texts that differ are as in the edited source. All others stay as they
    are."""
    for file in dict.fromkeys(edit.file for edit in edits):
        real = import_module(module_of(file))
        if not _replace(patch, real, _scratch(real, [edit for edit in edits if edit.file == file])):
            raise AssertionError(f"the edits of {file} change no function and no text")


def _scratch(real: ModuleType, edits: Sequence[Edit]) -> ModuleType:
    """The module once more, from its edited source."""
    assert real.__file__ is not None
    loader = EditedLoader(real.__name__, real.__file__, edits)
    spec = spec_from_file_location(real.__name__, real.__file__, loader=loader)
    assert spec is not None
    made = module_from_spec(spec)
    loader.exec_module(made)
    return made


def _replace(patch: pytest.MonkeyPatch, real: ModuleType, scratch: ModuleType) -> int:
    done = 0
    for name, value in vars(scratch).items():
        if isinstance(value, str) and not name.startswith("__") and value != getattr(real, name):
            patch.setattr(real, name, value)
            done += 1
    known = dict(_functions(real, real.__name__))
    for name, function in _functions(scratch, real.__name__):
        if not _same(known[name].__code__, function.__code__):
            patch.setattr(known[name], "__code__", function.__code__)
            done += 1
    return done


def _functions(place: Any, module: str) -> Iterator[tuple[str, FunctionType]]:
    """All functions and methods that the module itself defines, by their qualified names."""
    for value in vars(place).values():
        if isinstance(value, type) and value.__module__ == module:
            yield from _functions(value, module)
            continue
        for item in (value.fget, value.fset) if isinstance(value, property) else (value,):
            function = unwrap(getattr(item, "__func__", item)) if callable(item) or hasattr(item, "__func__") else None
            if isinstance(function, FunctionType) and function.__module__ == module:
                yield function.__qualname__, function


def _same(one: CodeType, other: CodeType) -> bool:
    """But for the numbers of their lines."""
    return _told(one) == _told(other)


def _told(code: CodeType) -> tuple[Any, ...]:
    constants = tuple(
        _told(constant) if isinstance(constant, CodeType) else (type(constant), constant) for constant in code.co_consts
    )
    return (
        code.co_code,
        constants,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_exceptiontable,
    )


# -- in processes ------------------------------------------------------------------------------------------------------


def environment(names: str, log: Path, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that let a process and all that it starts run without these protections; add them to `source`."""
    path = os.pathsep.join(filter(None, (str(HOOK), source.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "TWIN_EDITS": json.dumps(edits_of(names)), "TWIN_LOG": str(log)}


def check(names: str, log: Path, pids: Iterable[int]) -> None:
    """Raises AssertionError unless the hook ran in these processes, every edit fitted, and each protection was taken
    out in one of them. A twin that kept its protections proves nothing."""
    lines = [line.split(maxsplit=1) for line in log.read_text().splitlines()] if log.exists() else []
    events = [(int(pid), what) for pid, what in lines]
    broken = [what for _, what in events if what.startswith("broken")]
    assert not broken, broken
    started = {pid for pid, what in events if what == "started"}
    assert {*pids} <= started, f"these processes have their protections: {sorted({*pids} - started)}"
    files = {what for _, what in events}
    kept = [name for name in names.split(",") if not files & {edit.file for edit in PROTECTIONS[name]}]
    assert not kept, f"no process was without {kept}"
