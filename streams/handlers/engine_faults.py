"""Tells errors that the engine raises and does not expect from its own errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sluicegate.streams import failpoints
from sluicegate.streams.aggregation.group_faults import fault
from sluicegate.streams.errors import SluicegateError


@contextmanager
def engine_faults(event: Any = None) -> Iterator[None]:
    """Raises EngineFault for an error that the engine does not expect: GroupFault if the event is one of a group."""
    try:
        yield
    except (SluicegateError, failpoints.Failpoint):
        raise
    except Exception as error:
        raise fault(error, event) from error
