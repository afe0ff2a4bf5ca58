"""Separates unexpected errors of the engine from the errors that it raises itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.group_faults import fault
from sluicegate.streams.errors import SluicegateError


@contextmanager
def engine_faults(event: Any = None) -> Iterator[None]:
    """Convert an unexpected error of the engine to EngineFault, or to GroupFault if the event belongs to a group."""
    try:
        yield
    except (SluicegateError, failpoints.Failpoint):
        raise
    except Exception as error:
        raise fault(error, event) from error
