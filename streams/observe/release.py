"""The version of the installed distribution."""

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed


@cache
def version() -> str:
    """The version, such as 0.1.0. Between releases it has a suffix. `unknown` if the package is not installed."""
    try:
        return installed("sluicegate")
    except PackageNotFoundError:
        return "unknown"
