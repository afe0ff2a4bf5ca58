"""Imports the user's code by `package.module:name`. An error has the reason, the file and the line."""

import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from sluicegate.streams.causes import cause, message, origin, short
from sluicegate.streams.errors import ConfigurationError

_defined: dict[str, object] = {}
_importing = ContextVar("_importing", default=False)


def define(path: str, value: object) -> None:
    """Let `loaded` find this object of the running process under the path, without an import."""
    _defined[path] = value


def importing() -> bool:
    """Whether this code runs because its module is being imported for a function."""
    return _importing.get()


def loaded(path: str) -> Any:
    """Return the object at `module:name`. Raises ConfigurationError: `path: problem; hint`."""
    if path in _defined:
        return _defined[path]
    before = _importing.set(True)
    try:
        return _imported(path)
    finally:
        _importing.reset(before)


def yields(function: Callable[..., Any]) -> bool:
    """Whether it is a generator, or an asynchronous one: a call creates an object and runs nothing of the function."""
    calls = (function, type(function).__call__)
    return any(inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call) for call in calls)


def waits(function: Callable[..., Any]) -> bool:
    """Whether it is `async def`: a call creates a coroutine."""
    calls = (function, type(function).__call__)
    return any(inspect.iscoroutinefunction(call) for call in calls)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        namespace = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise _refused(path, *_missing(module, error)) from error
    except SyntaxError as error:
        place = short(error.filename or module) + (f":{error.lineno}" if error.lineno else "")
        raise _refused(path, f"{place}: {error.msg} ({type(error).__name__})", "correct the module") from error
    except (Exception, SystemExit) as error:
        raise _refused(path, *_failed(module, error)) from error
    if path in _defined:  # a decorator may have put another object under the name
        return _defined[path]
    if not hasattr(namespace, name):
        raise _refused(path, *_lacking(namespace, name))
    return getattr(namespace, name)


def _refused(path: str, what: str, hint: str) -> ConfigurationError:
    """Separate problem and hint by the only "; " of the text."""
    return ConfigurationError(f"{path}: {what.replace('; ', ', ')}; {hint}")


def _missing(module: str, error: ModuleNotFoundError) -> tuple[str, str]:
    """The problem and the hint for a missing module: the named one, or one that it imports."""
    name = error.name or module
    raised = cause(error)
    if clash := _clash(name):
        return raised.placed(clash[0]), clash[1]
    if module != name and not module.startswith(f"{name}."):
        what = raised.placed(f"importing {module} needs the module {name}, which is not installed")
        return what, f"install {name.partition('.')[0]}, or correct the import"
    parent, _, last = name.rpartition(".")
    if not parent:
        return f"there is no module {name}", f"put {name}.py or the folder {name} next to the file, or install it"
    place = _place(parent)
    what = (
        f"{parent} ({place}) is one module and no package"
        if place.endswith(".py")
        else f"there is no {last}.py in {place}"
    )
    return f"there is no module {name}: {what}", "write it as package.module:name"


def _failed(module: str, error: BaseException) -> tuple[str, str]:
    """The import raised an error."""
    raised = cause(error)
    clash = _clash(error.name) if isinstance(error, ImportError) and error.name else None
    if clash:
        return raised.placed(f"{message(error)}: {clash[0]}"), clash[1]
    return raised.placed(f"importing {module} raised {raised.text}"), "correct the module"


def _lacking(module: Any, name: str) -> tuple[str, str]:
    if clash := _clash(module.__name__):
        return clash
    known = sorted(name for name, value in vars(module).items() if not name.startswith("_") and callable(value))
    near = difflib.get_close_matches(name, known, n=1)
    return (
        f"{_place(module.__name__)} has no {name}",
        f"did you mean {near[0]}?" if near else "correct the name, or define it there",
    )


def _clash(name: str) -> tuple[str, str] | None:
    """Find a user module that another module of the same name, earlier on `sys.path`, hides."""
    top = name.partition(".")[0]
    taken = _place(top)
    if not taken:
        return None
    for folder in sys.path:
        for own in (os.path.join(os.path.abspath(folder), top), os.path.join(os.path.abspath(folder), f"{top}.py")):
            if _is_module(own) and origin(own + os.sep) == "user" and os.path.realpath(own) != os.path.realpath(taken):
                what = f"the name {top} is taken: Python imports {taken}, not {own}"
                return what, f"rename {os.path.basename(own)}"
    return None


def _is_module(path: str) -> bool:
    """Whether the path is a Python file, or a folder with Python files."""
    if path.endswith(".py"):
        return os.path.isfile(path)
    return os.path.isdir(path) and any(file.endswith(".py") for file in os.listdir(path))


def _place(name: str) -> str:
    """The file or folder that Python imports under this name; `Python itself` for a built-in module, empty for none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return ""
    if spec is None:
        return ""
    folders = list(spec.submodule_search_locations or ())
    if folders:
        return os.path.abspath(folders[0])
    return os.path.abspath(spec.origin) if spec.has_location and spec.origin else "Python itself"


def imported(path: str) -> Callable[..., Any]:
    """Import the function at `module:function`. Raises ConfigurationError."""
    function = loaded(path)
    if not callable(function):
        raise ConfigurationError(f"{path}: is not a function")
    return function  # type: ignore[no-any-return]
