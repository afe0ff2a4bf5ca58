"""Reading the file of a test. The variables of its systems may be unset, because they are not used."""

import os
from dataclasses import replace
from pathlib import Path

from sluicegate.streams.agent import App
from sluicegate.streams.config import Loaded, load
from sluicegate.streams.config.checking import values
from sluicegate.streams.errors import ConfigurationError

SYSTEMS = ("kafka", "store", "http")


def loaded(path: str | Path) -> Loaded:
    """Same as sluicegate.streams.config.load. An unset variable is a problem unless it belongs to a system."""
    return without_systems(load(path, os.environ, tolerant=True))


def without_systems(file_: Loaded) -> Loaded:
    """Same as `loaded`, for a document that was judged with `tolerant`."""
    missing = tuple(p for p in file_.unset if p.key.split(".")[0] not in SYSTEMS)
    return replace(file_, app=None, problems=(*file_.problems, *missing)) if missing else file_


def opened(app_or_path: App | str | Path) -> App:
    """Raises ConfigurationError with every problem of the file or of the values."""
    if isinstance(app_or_path, App):
        values.check_without_systems(app_or_path)
        return app_or_path
    return usable(loaded(app_or_path))


def usable(file_: Loaded) -> App:
    """The App. Raises ConfigurationError with every problem."""
    if file_.app is None:
        raise ConfigurationError("\n".join(map(str, file_.problems)))
    return file_.app
