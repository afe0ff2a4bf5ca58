"""The version of the installed distribution."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def version() -> str:
    """Such as 0.1.0; between two releases with more behind it; `unknown` where nothing is installed."""
    try:
        return installed("sluicegate")
    except PackageNotFoundError:
        return "unknown"
