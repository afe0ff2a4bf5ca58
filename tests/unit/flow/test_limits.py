"""The limits alone: what processes that use their tokens as late as they may can do within any time."""

import random
from itertools import pairwise
from typing import Any

import pytest

from sluicegate.streams.flow import limits
from sluicegate.streams.flow.limits import CallToken, RateLimiting, SharedLimit, Throttling

SEEDS = range(60)
PAUSE = 1.5


def most_within(times: list[float], per: float) -> int:
    """The most of the times in any half-open interval of this length."""
    ordered, most, first = sorted(times), 0, 0
    for last, time in enumerate(ordered):
        while ordered[first] <= time - per:
            first += 1
        most = max(most, last - first + 1)
    return most


def calls_of(limit: SharedLimit, seed: int, seconds: float, eager: bool = False) -> list[float]:
    """When calls begin of processes that ask at random, and use their tokens early, late, when they all go on after a
    pause, or never."""
    dice, state, now = random.Random(seed), None, 1_000.0
    habit = dice.choice((0, 0, 2))  # to call when all go on after a pause, or any
    longest = dice.choice((0.02, 2.0))
    calls: list[float] = []
    while now < 1_000.0 + seconds:
        for token in limit.grant(state, now, wanted := dice.choice((1, 3, 50, 1000))).tokens:
            begins = max(token.begins, now)
            assert token.ends > now
            choices = 0.0, dice.random() * (token.ends - begins), -begins % PAUSE
            late = 0.0 if eager else choices[habit or dice.randrange(3)]
            if eager or dice.random() < 0.9:
                calls.append(min(begins + late, token.ends - 1e-9))
        state = limit.grant(state, now, wanted).state
        now += 0.001 if eager else dice.choice((0.0, 0.1, 1.0)) * longest * dice.random()
    return calls


@pytest.mark.parametrize("seed", SEEDS)
def test_no_time_has_more_calls_than_the_limit(seed: int) -> None:
    dice = random.Random(seed)
    size, per, burst = dice.choice((1, 3, 100, 1000)), dice.choice((0.2, 1.0, 7.0)), dice.choice((0, 0, 1, 20))
    assert most_within(calls_of(Throttling(size, per, burst), seed, 6 * per), per) <= size + burst
    assert most_within(calls_of(RateLimiting(size, per), seed, 6 * per), per) <= size


@pytest.mark.parametrize("kind", [Throttling, RateLimiting])
def test_a_token_without_a_validity_of_its_own_would_pass_the_limit(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: the limits are kept over the longer time alone."""

    def passed() -> bool:
        return any(most_within(calls_of(_longer(kind(100, 1.0)), seed, 6.0), 1.0) > 100 for seed in SEEDS)

    assert passed()


def _longer(limit: Any) -> SharedLimit:
    """Its tokens are valid for a second more than it believes."""

    class Longer:
        def grant(self, state: Any, now: float, wanted: int) -> limits.Grant:
            grant = limit.grant(state, now, wanted)
            return grant._replace(tokens=[CallToken(begins, ends + 1.0) for begins, ends in grant.tokens])

        def idle(self, state: Any, now: float) -> bool:
            return bool(limit.idle(state, now))

    return Longer()


@pytest.mark.parametrize("limit", [Throttling(100, 1.0), Throttling(1000, 1.0), RateLimiting(100, 1.0)])
def test_under_load_nine_tenths_of_the_limit_begin(limit: SharedLimit) -> None:
    size = 1000 if isinstance(limit, Throttling) and limit.interval < 0.002 else 100
    assert len(calls_of(limit, 1, 10.0, eager=True)) >= 0.9 * size * 10


def test_tokens_of_a_throttle_come_at_equal_distances() -> None:
    begins = [token.begins for token in Throttling(30, 1.0).grant(None, 5.0, 3).tokens]
    assert [round(later - earlier, 6) for earlier, later in pairwise(begins)] == [0.035, 0.035]


def test_a_key_that_was_idle_has_its_burst_at_once() -> None:
    tokens = Throttling(10, 1.0, burst=4, ahead=0.0).grant(None, 5.0, 100).tokens
    assert max(token.begins for token in tokens) <= 5.0
    assert len([token for token in tokens if token.ends > 5.0]) in (4, 5)  # by the rounding


def test_a_process_that_cannot_wait_gets_what_begins_now() -> None:
    limit = Throttling(10, 1.0, ahead=0.0)
    grant = limit.grant(None, 5.0, 100)
    assert len(grant.tokens) == 1
    assert limit.grant(grant.state, grant.again - 0.001, 100).tokens == []
    assert len(limit.grant(grant.state, grant.again, 100).tokens) == 1


def test_a_rate_limit_gives_all_of_it_at_once_and_nothing_until_the_time_has_passed() -> None:
    limit = RateLimiting(10, 1.0)
    grant = limit.grant(None, 5.0, 100)
    assert len(grant.tokens) == 10
    assert grant.again > 6.0
    later = limit.grant(grant.state, grant.again - 0.001, 100)
    assert (later.tokens, later.again) == ([], grant.again)
    assert len(limit.grant(grant.state, grant.again, 100).tokens) == 10


@pytest.mark.parametrize("limit", [Throttling(10, 1.0), RateLimiting(10, 1.0)])
def test_a_clock_that_was_set_back_by_an_hour_holds_nobody_up_for_an_hour(limit: SharedLimit) -> None:
    state = limit.grant(None, 5_000.0, 10).state
    again = limit.grant(state, 1_400.0, 10).again
    assert again < 1_402.0


@pytest.mark.parametrize("limit", [Throttling(10, 1.0, 3), RateLimiting(10, 1.0)])
def test_a_key_is_idle_when_its_state_gives_what_no_state_gives(limit: SharedLimit) -> None:
    state = limit.grant(None, 5.0, 100).state
    assert not limit.idle(state, 5.3)
    later = 5.0
    while not limit.idle(state, later):
        later += 0.01
    assert len(limit.grant(state, later, 100).tokens) == len(limit.grant(None, later, 100).tokens)
