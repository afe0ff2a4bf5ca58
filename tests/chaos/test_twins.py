"""Each protection has a twin: without it, the same scenario ends in a verdict that says what the protection is for."""

import pytest

from tests.chaos.cells import Cell
from tests.chaos.test_cells import MakeScene, under_fault

CELLS = [
    ("fence", Cell("before-commit", "stop", "redis"), "duplicate"),
    ("fence", Cell("before-commit", "stop", "sqlite"), "duplicate"),
    ("output-commit", Cell("before-commit", "stop", "sqlite"), "duplicate"),
    ("seek", Cell("before-commit", "lost", "redis"), "lost"),
    ("stale-batch", Cell("before-commit", "lost", "sqlite"), "lost"),
    ("keep-state", Cell("before-commit", "lost", "redis"), "lost"),
]


@pytest.mark.parametrize(("without", "cell", "finding"), CELLS, ids=str)
def test_the_judge_finds_what_happens_without(scene: MakeScene, without: str, cell: Cell, finding: str) -> None:
    verdict = under_fault(scene(cell.store, count=1), cell, without)
    assert getattr(verdict, finding), verdict
