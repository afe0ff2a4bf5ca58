"""Times from a fault to the progress of what it met."""

from tests.soak.recovery import Recoveries, percentile


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_fault_is_over_when_every_partition_has_an_effect_of_a_record_that_came_after_it() -> None:
    clock = Clock()
    recoveries = Recoveries(clock)
    recoveries.begin("kill", "one", {("in", 0): 10, ("in", 1): 20})
    clock.now = 1.0
    recoveries.progressed(("in", 0), 9)  # a record from before
    recoveries.progressed(("in", 1), 20)
    assert (recoveries.times(), recoveries.open) == ({}, 1)
    clock.now = 4.0
    recoveries.progressed(("in", 0), 10)
    assert (recoveries.times(), recoveries.open) == ({"kill": [4.0]}, 0)
    assert [(case.name, case.last) for case in recoveries.slowest(3)] == [("one", ("in", 0))]


def test_a_fault_that_was_none_or_met_nothing_is_not_measured() -> None:
    recoveries = Recoveries(Clock())
    recoveries.begin("kill", "nothing", {})
    recoveries.forget(recoveries.begin("kill", "none", {("in", 0): 0}))
    recoveries.progressed(("in", 0), 5)
    assert (recoveries.times(), recoveries.open) == ({}, 0)


def test_percentiles_are_of_the_nearest_rank() -> None:
    hundred = [float(number) for number in range(100, 0, -1)]
    assert (percentile(hundred, 0.5), percentile(hundred, 0.99), percentile([3.0], 0.99)) == (50.0, 99.0, 3.0)
