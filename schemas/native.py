"""Chooses the code that reads plain Avro records: the native reader of the distribution sluicegate-native, or Python.

The choice is made here and nowhere else. Python reads every record that the native reader declines, and all records
where it is not installed. The environment variable SLUICEGATE_NATIVE is `auto` (the default: the native reader where it
is installed), `off` (Python), or `require` (no start without the native reader).
"""

import importlib
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

SWITCH = "SLUICEGATE_NATIVE"
CONTRACT = 2
"""The version of the interface to the native reader (`avro_plain.py`). The reader must have the same one."""

PlainText = Callable[[bytes], bytes | None]
"""The JSON text of a message; None: the message is declined, and Python must read it."""


class Kernel(NamedTuple):
    """`name` is for the log and `/status`: `native 2`, or `python` with the reason. `module` is None for Python."""

    name: str
    module: ModuleType | None

    def plain_text(self, kind: Any, framed: bool, id: int | None) -> PlainText | None:
        """A reader of messages of a kind (`avro_plain.py`), with Confluent's frame and this schema id or without. None:
        Python reads them."""
        if self.module is None or kind is None:
            return None
        try:
            reader: PlainText = self.module.Reader(kind, framed, id).text
        except ValueError:  # nested too deeply
            return None
        return reader


def kernel() -> Kernel:
    """The code that reads. Raises ValueError with a remedy."""
    wanted = os.environ.get(SWITCH) or "auto"
    if wanted not in ("auto", "off", "require"):
        raise ValueError(f"{SWITCH} is {wanted!r}; write auto, off or require")
    if wanted == "off":
        return Kernel(f"python ({SWITCH} is off)", None)
    try:
        module = importlib.import_module("sluicegate_native")
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == "sluicegate_native"
        return _python("is not installed" if absent else "cannot be imported", wanted)
    contract = getattr(module, "CONTRACT", None)
    if contract != CONTRACT:
        return _python(f"has contract {contract}, not {CONTRACT}", wanted)
    return Kernel(f"native {CONTRACT}", module)


def _python(why: str, wanted: str) -> Kernel:
    if wanted == "require":
        hint = 'pip install "sluicegate[native]", or write auto'
        raise ValueError(f"{SWITCH} is require, but sluicegate-native {why}; {hint}")
    return Kernel(f"python (sluicegate-native {why})", None)
