"""Reading the file of a test. The variables of its systems may be unset, because they are not used."""

import os
from dataclasses import replace
from pathlib import Path

from sluicegate.streams.agent import App
from sluicegate.streams.config import Loaded, load, values
from sluicegate.streams.errors import ConfigurationError

SYSTEMS = ("kafka", "store", "http")


def loaded(path: str | Path) -> Loaded:
    """As sluicegate.streams.config.load. An unset variable is a problem unless it belongs to a system."""
    return without_systems(load(path, os.environ, tolerant=True))


def without_systems(found: Loaded) -> Loaded:
    """As `loaded`, for a document that was judged with `tolerant`."""
    missing = tuple(p for p in found.unset if p.key.split(".")[0] not in SYSTEMS)
    return replace(found, app=None, problems=(*found.problems, *missing)) if missing else found


def opened(app_or_path: App | str | Path) -> App:
    """Raises ConfigurationError with every problem of the file or of the values."""
    if isinstance(app_or_path, App):
        values.check_without_systems(app_or_path)
        return app_or_path
    return usable(loaded(app_or_path))


def usable(found: Loaded) -> App:
    """The App. Raises ConfigurationError with every problem."""
    if found.app is None:
        raise ConfigurationError("\n".join(map(str, found.problems)))
    return found.app
