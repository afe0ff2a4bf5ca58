"""The catalogue of faults is complete and true."""

from tests import faults
from tests.faults import LAST, Fault

ONE = ("unit/test_faults.py::test_every_fault_has_a_test_that_is_there_or_a_reason",)
GOOD = dict.fromkeys(range(1, LAST + 1), Fault("what", "I1", ONE))


def test_every_fault_has_a_test_that_is_there_or_a_reason() -> None:
    assert faults.problems(faults.catalogue()) == []


def test_the_committed_table_is_that_of_the_catalogue() -> None:
    assert faults.TABLE.read_text() == faults.table(faults.catalogue()), "run: python -m tests.faults"


def test_what_is_wrong_with_the_catalogue_is_found() -> None:
    assert faults.problems(GOOD) == []
    assert faults.problems({number: fault for number, fault in GOOD.items() if number != 7}) == [
        "7: is not in the catalogue"
    ]
    assert faults.problems(GOOD | {3: Fault("what", "I1")}) == ["3: needs tests or a reason, one of them"]
    gone = "unit/test_faults.py::test_nothing"
    assert faults.problems(GOOD | {4: Fault("what", "I1", (gone,))}) == [f"4: there is no {gone}"]
    elsewhere = dict.fromkeys(range(1, 24), Fault("what", "I1", ONE, "`make soak`"))
    assert faults.problems(GOOD | elsewhere) == ["only 59 of them are provoked"]


def test_where_a_test_runs_is_told_by_the_selection() -> None:
    assert faults.where(Fault("what", "I1", ONE)) == "`make test`"
    assert faults.where(Fault("what", "I1", ("contracts/test_processes.py::test_x",))) == "the rest"
    assert faults.where(Fault("what", "I1", ONE, "`make soak`")) == "`make soak`"
    assert faults.where(Fault("what", "I1", not_here="why")) == "not run: why"
