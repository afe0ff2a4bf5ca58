"""The decisions of attempts.py: its two tables, and what must hold for any handler, failure and suspicion."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.streams.agent import Handler
from sluicegate.streams.handlers.attempts import (
    ALONE,
    COMPANY,
    DEATHS,
    UNSUSPECTED,
    Bounds,
    CallFailure,
    DeadLetter,
    Decision,
    Park,
    Rejected,
    Split,
    Stop,
    Suspicion,
    TryAgain,
    begins,
    bounds,
    decide,
    isolates,
    suspicion_of,
)

HANDLER = Handler(("app:handle",), attempts=3, backoff_first=1.0, backoff_most=3.0)
STOPS = replace(HANDLER, then="stop")
PARKS = replace(HANDLER, then="park", concurrency=2)
RAISED = CallFailure()
BEHIND = CallFailure(behind=True)
IN_SESSION = CallFailure(behind=True, session=True)


@pytest.mark.parametrize(
    ("attempt", "failure", "handler", "decision"),
    [
        (1, CallFailure(pause=7.0), HANDLER, TryAgain(0, 7.0, failed=False)),
        (3, CallFailure(pause=7.0), STOPS, TryAgain(2, 7.0, failed=False)),
        (3, CallFailure(pause=7.0, items=9), HANDLER, TryAgain(2, 7.0, failed=False)),
        (3, CallFailure(bad={1: Rejected("too long")}), STOPS, Split({1: Rejected("too long")})),
        (3, CallFailure(items=2), STOPS, Split({})),
        (1, RAISED, HANDLER, TryAgain(1, 1.0)),
        (2, RAISED, HANDLER, TryAgain(2, 2.0)),
        (3, RAISED, replace(HANDLER, attempts=9), TryAgain(3, 3.0)),
        (1, BEHIND, HANDLER, TryAgain(1, 0.0)),
        (2, BEHIND, HANDLER, TryAgain(2, 0.0, same_run=True)),
        (2, IN_SESSION, HANDLER, TryAgain(2, 0.0)),
        (3, RAISED, STOPS, Stop(3)),
        (3, RAISED, PARKS, Park(3)),
        (3, RAISED, replace(PARKS, concurrency=0), Park(3)),
        (3, IN_SESSION, replace(PARKS, concurrency=0), Park(3, apart=True)),
        (3, RAISED, HANDLER, DeadLetter(3)),
        (3, BEHIND, HANDLER, DeadLetter(3)),
        (3, IN_SESSION, HANDLER, DeadLetter(3, apart=True)),
    ],
)
def test_what_follows_a_failed_call(attempt: int, failure: CallFailure, handler: Handler, decision: Decision) -> None:
    assert decide(attempt, failure, handler) == decision


def test_ends_of_the_process_count_as_attempts() -> None:
    assert decide(1, RAISED, HANDLER, Suspicion(alone=2)) == TryAgain(2, 2.0)
    assert decide(1, RAISED, HANDLER, Suspicion(alone=5)) == DeadLetter(5)
    assert decide(1, RAISED, HANDLER, Suspicion(together=5)) == TryAgain(1, 1.0)


@pytest.mark.parametrize(
    ("together", "alone", "limits", "how"),
    [
        (0, 0, Bounds(), "together"),
        (1, 0, Bounds(), "alone"),
        (9, 0, Bounds(), "alone"),
        (0, 2, Bounds(), "alone"),
        (9, 2, Bounds(), "alone"),
        (0, 3, Bounds(), "never"),
        (2, 0, Bounds(company=COMPANY), "together"),
        (3, 0, Bounds(company=COMPANY), "alone"),
        (3, 0, Bounds(proven=True), "alone"),
        (1, 1, Bounds(proven=True), "alone"),
        (2, 1, Bounds(proven=True), "never"),
    ],
)
def test_how_a_suspect_begins(together: int, alone: int, limits: Bounds, how: str) -> None:
    assert begins(Suspicion(together, alone), limits) == how


@pytest.mark.parametrize(
    ("called", "given_up", "rest"),
    [(False, False, Suspicion(1, 1)), (True, False, UNSUSPECTED), (True, True, Suspicion(0, 2))],
)
def test_what_counts_when_a_live_process_gives_an_item_back(called: bool, given_up: bool, rest: Suspicion) -> None:
    assert Suspicion(2, 1).given_back(called, given_up, most=3) == rest


@pytest.mark.parametrize(
    ("stored", "suspicion"),
    [(0, UNSUSPECTED), (1, Suspicion(1)), (1_000, Suspicion(0, 1)), (1_001, Suspicion(1, 1)), (3_002, Suspicion(2, 3))],
)
def test_the_number_that_a_store_keeps_is_understood(stored: int, suspicion: Suspicion) -> None:
    """Stores of the version before hold these numbers."""
    assert suspicion_of(stored) == suspicion
    assert suspicion.stored == stored


def test_messages_of_a_group_are_tried_alone_from_a_number_of_failures_on() -> None:
    assert [isolates(attempt, replace(HANDLER, isolate_after=2)) for attempt in (1, 2, 3)] == [False, True, True]
    assert not isolates(3, HANDLER)


handlers = st.builds(
    Handler,
    st.just(("app:handle",)),
    attempts=st.integers(1, 8),
    concurrency=st.integers(0, 2),
    backoff_first=st.floats(0.0, 10.0),
    backoff_most=st.floats(0.0, 60.0),
    then=st.sampled_from(["dead-letter", "stop", "park"]),
)
failures = st.builds(
    CallFailure,
    pause=st.none() | st.floats(0.0, 30.0),
    bad=st.just({}) | st.just({0: Rejected("bad")}),
    items=st.integers(1, 4),
    behind=st.booleans(),
    session=st.booleans(),
)
ENDS = (DeadLetter, Park, Stop)


@given(handlers, st.lists(failures, max_size=60))
def test_no_item_fails_more_often_than_it_has_attempts(handler: Handler, history: list[CallFailure]) -> None:
    counted = failed = 0
    for failure in history:
        decision = decide(counted + 1, failure, handler)
        alone = failure.pause is None and not failure.bad and failure.items == 1
        failed += alone
        assert failed <= handler.attempts
        assert isinstance(decision, ENDS) == (alone and failed == handler.attempts)
        if isinstance(decision, ENDS):
            assert decision.attempts == handler.attempts
            return
        if isinstance(decision, TryAgain):
            assert decision.pause <= max(handler.backoff_most, failure.pause or 0.0)
            counted = decision.attempts
        assert counted == failed


def _committed(items: list[int], bad: set[int], handler: Handler) -> tuple[set[int], dict[int, int]]:
    """A transaction fails with a bad item in it. Returns the dead letters, and how often each item failed alone."""
    dead, counts = set[int](), dict[int, int]()
    waiting = [items]
    while waiting:
        part = [item for item in waiting.pop() if item not in dead]
        if not bad.intersection(part):
            continue
        first = part[0]
        decision = decide(counts.get(first, 0) + 1, CallFailure(items=len(part)), handler)
        if isinstance(decision, Split):
            waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
        elif isinstance(decision, TryAgain):
            counts[first] = decision.attempts
            waiting.append(part)
        else:
            counts[first] = decision.attempts
            dead.add(first)
    return dead, counts


@given(st.integers(1, 40), st.data(), st.integers(1, 4))
def test_an_item_is_never_a_dead_letter_because_of_its_neighbours(size: int, data: Any, attempts: int) -> None:
    bad = data.draw(st.sets(st.integers(0, size - 1)))
    dead, counts = _committed(list(range(size)), bad, replace(HANDLER, attempts=attempts))
    assert dead == bad
    assert counts == dict.fromkeys(bad, attempts)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 8), st.integers(0, 5), st.booleans())
def test_a_suspect_runs_alone_before_it_is_given_up(
    together: int, alone: int, attempts: int, company: int, proven: bool
) -> None:
    limits = bounds(attempts, company)._replace(proven=proven)
    how = begins(Suspicion(together, alone), limits)
    if how == "never":
        assert alone > 0
        assert alone + together >= max(DEATHS, attempts)
        assert proven or alone >= max(DEATHS, attempts)
    if alone == 0 and together <= company:
        assert how == "together"


@given(st.integers(0, ALONE - 1), st.integers(0, 1_000))
def test_a_suspicion_is_read_as_it_was_stored(together: int, alone: int) -> None:
    assert suspicion_of(Suspicion(together, alone).stored) == Suspicion(together, alone)
