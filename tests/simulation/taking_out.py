"""A protection of the product that is not there for a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from streams import failpoints

TakeOut = str | Callable[[pytest.MonkeyPatch], object]
"""A protection of streams.failpoints, or what patches one away."""


@contextmanager
def taken_out(take_out: TakeOut, calm: ModuleType) -> Iterator[None]:
    """Where nothing is ever done, that is known after fewer rounds than the MOST_ROUNDS of `calm`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calm, "MOST_ROUNDS", 400)
        if callable(take_out):
            take_out(patch)
        else:
            failpoints.arm({"SLUICEGATE_UNSAFE": take_out})
        try:
            yield
        finally:
            failpoints.arm({})
