"""A protection of the product that is not there for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from sluicegate.streams import failpoints
from tests.mutation.twins import without

TakeOut = str | Callable[[pytest.MonkeyPatch], object]
"""A name of tests/mutation/protections.py, or what patches a protection away."""


@contextmanager
def taken_out(take_out: TakeOut, calm: ModuleType) -> Iterator[None]:
    """Where nothing is ever done, that is known after fewer rounds than the MOST_ROUNDS of `calm`."""
    with pytest.MonkeyPatch.context() as patch, without("" if callable(take_out) else take_out):
        patch.setattr(calm, "MOST_ROUNDS", 400)
        if callable(take_out):
            take_out(patch)
        try:
            yield
        finally:
            failpoints.arm({})
