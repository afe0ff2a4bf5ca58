"""The origin of code: the file and line of a call or a function, and the `module:name` by which a worker process finds
it.

Worker processes import functions. A function can be imported if it stands at the top of a module; the program itself
(`__main__`) is imported under the name of its file. Any other function has a name that only this process knows.
"""

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from inspect import isfunction, unwrap
from itertools import count
from types import FrameType
from typing import Any, NamedTuple

from sluicegate.streams.app.keys import HandlerFunction
from sluicegate.streams.causes import short
from sluicegate.streams.errors import ConfigurationError
from sluicegate.streams.importing import define

_HERE = os.path.dirname(os.path.abspath(__file__))
_numbers = count(1)


class CodePlace(NamedTuple):
    """A position in the code, as errors show it."""

    file: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def of_caller() -> tuple[CodePlace, str]:
    """The place of the call into this package, and the folder from which the calling module is imported. Relative paths
    of the app start there."""
    frame = next(
        frame for frame in _frames(sys._getframe(1)) if not frame.f_code.co_filename.startswith(_HERE + os.sep)
    )
    file, module = frame.f_globals.get("__file__"), str(frame.f_globals.get("__name__"))
    place = CodePlace(short(frame.f_code.co_filename), frame.f_lineno)
    if file is None:
        return place, os.getcwd()
    name = _main() if module == "__main__" else module
    folder = os.path.dirname(os.path.abspath(file))
    depth = name.count(".") + (os.path.basename(file) == "__init__.py")
    return place, os.path.normpath(os.path.join(folder, *[".."] * depth))


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def of_function(function: HandlerFunction, otherwise: CodePlace) -> CodePlace:
    """The place of the function's definition; `otherwise` for a callable that has none."""
    code = getattr(unwrap(function), "__code__", None)
    return otherwise if code is None else CodePlace(short(code.co_filename), code.co_firstlineno)


def reference(function: HandlerFunction) -> str:
    """The `module:name` of the function, or the `module.Name` of a class of errors. In this process the name resolves
    without an import. Raises ConfigurationError for anything but a function of `def`."""
    if isinstance(function, type) and issubclass(function, Exception):
        return _error(function)
    if not isfunction(unwrap(function)) or function.__name__ == "<lambda>":
        what = "a handler is a function that `def` or `async def` makes, because worker processes find it by its name"
        raise ConfigurationError(
            f"{what}; write one, and not {type(function).__name__} {getattr(function, '__name__', '')}"
        )
    module = _main() if function.__module__ == "__main__" else function.__module__
    path = f"{module}:{function.__qualname__}"
    if "<locals>" in path or not module or not all(part.isidentifier() for part in re.split("[.:]", path)):
        path = f"this_process:{re.sub(r'[^A-Za-z0-9]+', '_', path).strip('_')}_{next(_numbers)}"
    define(path, function)
    return path


def _error(kind: type[Exception]) -> str:
    module, name = _main() if kind.__module__ == "__main__" else kind.__module__, kind.__qualname__
    if not module.replace(".", "_").isidentifier() or not name.isidentifier():
        raise ConfigurationError(
            f"the class of errors {name} cannot be found by worker processes: put it at the top of a module"
        )
    if module == "builtins":
        return name
    define(f"{module}:{name}", kind)
    return f"{module}.{name}"


def _main() -> str:
    """The module name under which another process imports `__main__`; empty in an interactive session."""
    main: Any = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:
        return str(main.__spec__.name)
    file = getattr(main, "__file__", None)
    return "" if file is None else os.path.splitext(os.path.basename(file))[0]


def unimportable(function: HandlerFunction, path: str, folder: str) -> tuple[str, str] | None:
    """The reason why a worker process cannot import the function by this path, with a remedy. None: it can."""
    module, _, name = path.partition(":")
    if path.startswith("this_process:") or "." in name:
        if function.__module__ == "__main__" and not _main().isidentifier():
            where = f"{_main()}.py" if _main() else "an interactive session"
            return f"worker processes cannot import {where}", "put the function into a module, such as shop.py"
        return "worker processes find only functions at the top of a module", "move it there"
    named = getattr(sys.modules[function.__module__], name, None)
    if named is None:
        return f"{path} does not exist any more", "keep the function under its own name"
    if module in sys.modules:
        return None
    spec = PathFinder.find_spec(module.partition(".")[0], [entry for entry in sys.path if entry] + [folder])
    file = unwrap(function).__code__.co_filename
    if "." not in module and spec is not None and spec.origin and not os.path.samefile(spec.origin, file):
        what = f"worker processes import {spec.origin} under the name {module}"
        return what, f"rename {os.path.basename(file)}"
    return None
