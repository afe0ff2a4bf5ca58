"""`sluicegate version`."""

from streams.cli.outcome import DONE, ending


@ending
def version() -> int:
    """The version of Sluicegate."""
    import importlib.metadata

    print(f"sluicegate {importlib.metadata.version('sluicegate')}")
    return DONE
