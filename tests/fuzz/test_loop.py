"""The compiled loop against the careful way, on more rules than the tests of every change have."""

import pytest

from tests.unit.aggregation.random_rules import compare


@pytest.mark.parametrize("first", range(1_000, 11_000, 1_000))
def test_the_loop_gives_what_the_careful_way_gives(first: int) -> None:
    assert sum(map(compare, range(first, first + 1_000))) > 700
