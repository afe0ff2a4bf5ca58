"""What an owner takes for the time, and what it calls a jump of a clock."""

from math import inf

from sluicegate.streams.ownership.store_clock import StoreClock


def settled(store_time: float, monotonic: float) -> StoreClock:
    clock = StoreClock(store_time, monotonic)
    clock.answered(store_time, monotonic, 0.0)
    return clock


def test_time_goes_on_between_two_answers_and_not_back_for_what_a_slow_answer_explains() -> None:
    clock = settled(100.0, 5.0)
    assert clock.now(6.5) == 101.5
    clock.answered(100.6, 7.0, 0.9)
    assert clock.now(7.0) == clock.last == 101.5
    assert not clock.set_back
    clock.answered(200.0, 8.0, 0.1)
    assert clock.now(8.0) == 200.0


def test_time_follows_a_store_whose_clock_is_set_back() -> None:
    clock = settled(3_700.0, 5.0)
    assert clock.now(6.5) == 3_701.5
    clock.answered(102.0, 7.0, 0.1)
    assert clock.set_back
    assert clock.now(8.0) == clock.last == 103.0
    clock.answered(103.5, 8.5, 0.1)
    assert not clock.set_back


def test_a_store_whose_clock_is_set_has_jumped() -> None:
    clock = settled(100.0, 5.0)
    assert clock.answered(3701.0, 6.0, 0.1) == 3600.0
    assert clock.answered(102.0, 7.0, 0.1) == -3600.0


def test_an_answer_that_took_long_is_no_jump_and_nor_is_the_next_quick_one() -> None:
    clock = settled(100.0, 5.0)
    assert clock.answered(100.1, 9.0, 4.0) == 0.0  # it looked at its clock at once, and its answer came 4 s later
    assert clock.answered(105.0, 10.0, 0.1) == 0.0
    assert clock.answered(106.0, 11.0, 0.1) == 0.0
    assert clock.answered(110.0, 12.0, 0.1) == 3.0


def test_a_call_that_nobody_measured_says_nothing_of_jumps() -> None:
    clock = StoreClock(100.0, 5.0)
    assert clock.answered(105.0, 5.5, 0.1) == 0.0
    assert clock.answered(155.0, 6.0, inf) == 0.0
