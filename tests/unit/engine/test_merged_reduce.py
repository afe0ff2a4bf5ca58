"""A reducer of the user's in sessions: it is called for the whole session, and its error makes a dead letter of it."""

from typing import Any

from sluicegate.streams.agent import Reducer, Window
from sluicegate.streams.aggregation.events import Fire, Unhandled
from tests.unit.windows.turning import open_windows, record

SESSION = Window(10.0, kind="session", grace=60.0, idle=None, max_ahead=1e12)
PLACE = f"{__name__}:listed"


def listed(seen: list[int] | None, message: Any) -> list[int]:
    """The amounts. Raises ZeroDivisionError for 13."""
    assert message["amount"] != 0
    return [*(seen or []), 26 // (message["amount"] - 13) and message["amount"]]


def ended(*records: tuple[int, int]) -> Fire | Unhandled:
    """What happens to the session of these records, each with a time in seconds and an amount."""
    compute = (Reducer("count", "count"), Reducer("all", "reduce", None, PLACE))
    groups = open_windows(SESSION, compute=compute)
    log = [record(offset, b"k", 1000 * at, amount) for offset, (at, amount) in enumerate(records)]
    groups.accept([*log, record(len(log), b"other", 1_000_000, 1)], 1_000.0)
    [event] = groups.drain()
    assert isinstance(event, Fire | Unhandled)
    return event


def test_a_session_that_records_join_is_reduced_once_with_all_of_its_messages() -> None:
    event = ended((0, 1), (18, 2), (9, 3))
    assert isinstance(event, Fire)
    assert event.values == {"count": 3, "all": [1, 3, 2]}


def test_a_session_at_which_the_function_raises_is_a_dead_letter_with_the_other_fields() -> None:
    event = ended((0, 1), (5, 13))
    assert isinstance(event, Unhandled)
    assert (event.reason, event.stage, event.fire.values) == ("reducer", "aggregate", {"count": 2})
    assert "the reducer all raised ZeroDivisionError" in event.error
    assert "test_merged_reduce.py" in event.where


def test_an_open_session_is_shown_without_what_cannot_be_computed() -> None:
    groups = open_windows(SESSION, compute=(Reducer("all", "reduce", None, PLACE),))
    groups.accept([record(0, b"k", 1000, 13)], 1.0)
    [(_, state, bags)] = groups.listed()
    assert groups.rule.shown(state, bags) == {"all": None}
