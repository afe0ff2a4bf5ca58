"""How many rows a lane asks for."""

from datetime import UTC, datetime

import pytest

from sluicegate.streams.contracts.lane_row import LaneRow
from sluicegate.streams.outbox.batch_size import BYTES, FEWEST, FIRST, MOST, BatchSize


def rows(count: int, size: int | None) -> list[LaneRow]:
    value = None if size is None else b"v" * size
    return [
        LaneRow(number, f"id-{number}", "t", b"k", value, (), None, 0, datetime.now(UTC)) for number in range(count)
    ]


def test_at_first_some_and_after_nothing_as_before() -> None:
    size = BatchSize()
    size.seen([])
    assert size.rows == FIRST


@pytest.mark.parametrize(
    ("length", "wanted"), [(None, MOST), (0, MOST), (200, MOST), (100_000, BYTES // 100_000), (BYTES, FEWEST)]
)
def test_then_as_many_as_a_batch_of_their_size_may_hold(length: int | None, wanted: int) -> None:
    size = BatchSize()
    size.seen(rows(3, length))
    assert size.rows == wanted
