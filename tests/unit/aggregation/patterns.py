"""The code patterns of the compiled loop. A test replaces one by another."""

from types import ModuleType

import pytest

from sluicegate.streams.aggregation.compiled import bags, dedupe, ends, loop, reducers, values

MODULES = bags, dedupe, ends, loop, reducers, values


def modules_of(name: str) -> list[ModuleType]:
    """The modules that make or import the pattern of this name."""
    return [module for module in MODULES if hasattr(module, name)]


def pattern(name: str) -> str:
    text: str = getattr(modules_of(name)[0], name)
    return text


def replace_pattern(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    for module in modules_of(name):
        monkeypatch.setattr(module, name, text)
