"""Without the comparison of owners, and without the lock of a poll, the same scenarios fail."""

from collections.abc import Callable, Iterator

import pytest

from tests.contracts.timeouts import test_leases
from tests.contracts.timeouts.given import Place
from tests.contracts.timeouts.test_emission import two_pollers_emit
from tests.mutation.twins import without


@pytest.fixture(autouse=True)
def _without_the_lease() -> Iterator[None]:
    with without("timeout-lease"):
        yield


@pytest.mark.parametrize(
    "scenario",
    [
        test_leases.test_107_remove_by_an_owner_whose_lease_ran_out_and_was_taken_is_refused,
        test_leases.test_108_remove_after_the_lease_ran_out_is_refused_even_if_nobody_took_it,
        test_leases.test_release_after_the_lease_ran_out_is_refused,
    ],
    ids=lambda scenario: scenario.__name__.split("_", 2)[1],
)
def test_without_the_owner_a_late_call_gets_through(place: Place, scenario: Callable[[Place], None]) -> None:
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        scenario(place)


def test_without_the_owner_a_late_poller_sends_what_was_moved(place: Place) -> None:
    assert two_pollers_emit(place) == 1
