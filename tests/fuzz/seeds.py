"""The seed of a run: the date, or the seed that is given.

    SLUICEGATE_FUZZ_SEED=739577 python -m pytest tests/fuzz -k the_one_that_failed

`SLUICEGATE_FUZZ=whole` makes ten times as many.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tests.selection import today

SEED = int(os.environ.get("SLUICEGATE_FUZZ_SEED") or today())
TIMES = 10 if os.environ.get("SLUICEGATE_FUZZ") == "whole" else 1


def drawn(name: str) -> Random:
    """The numbers of one test: of the run's seed and its own name."""
    return Random(f"{SEED}/{name}")


@contextmanager
def replayable() -> Iterator[None]:
    """A failure says with which seed it comes again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"it comes again with SLUICEGATE_FUZZ_SEED={SEED}")
        raise
