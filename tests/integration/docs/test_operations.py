"""The files of docs/compare/operations.md pass their own tests with a death at every place, and with each reply of the
store lost."""

import pytest

from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes
from tests.unit.docs.test_operations_page import CASES, PAGES


@pytest.mark.parametrize(("file", "name"), CASES)
def test_a_file_passes_its_tests_with_a_death_at_every_place(file: str, name: str) -> None:
    made = loaded(PAGES / file)
    assert made.app is not None, made.problems
    (case,) = [case for case in made.cases if case.name == name]
    verdict = play_with_crashes(made.app, case, lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)
    assert verdict.deaths > 20
