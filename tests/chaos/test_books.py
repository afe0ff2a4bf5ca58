"""Handlers with a session, under every fault: entries, balances, messages and offsets are together, or none of them is
there."""

from collections.abc import Callable

import pytest

from tests.chaos import cells
from tests.chaos.cells import Cell
from tests.chaos.ledger import Ledger
from tests.chaos.test_cells import meet

MakeLedger = Callable[..., Ledger]
GROUPS = {"count": 7, "timeout": {"after": "1s"}, "compute": {"total": {"sum": "v"}}}


@pytest.mark.parametrize("cell", cells.books(), ids=str)
def test_the_books_balance_when_a_worker_fails_at(ledger: MakeLedger, cell: Cell) -> None:
    app = ledger(cell.store)
    meet(app.scene, cell)
    app.scene.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict


@pytest.mark.parametrize("cell", cells.booked_groups(), ids=str)
def test_groups_are_booked_once_when_a_worker_fails_at(ledger: MakeLedger, cell: Cell) -> None:
    app = ledger(cell.store, "book_batch", aggregate=GROUPS)
    meet(app.scene, cell)
    app.scene.flowing()
    verdict = app.verdict()
    assert verdict.clean, verdict


TWINS = [
    ("session", Cell("before-commit", "kill", "postgresql", nth=2)),
    ("session", Cell("before-commit", "lost", "mongodb", nth=2)),
    ("fence", Cell("before-commit", "stop", "redis", nth=2)),
]


@pytest.mark.parametrize(("without", "cell"), TWINS, ids=str)
def test_the_judge_finds_repeats_in_the_books_without(ledger: MakeLedger, without: str, cell: Cell) -> None:
    app = ledger(cell.store)
    meet(app.scene, cell, without)
    verdict = app.verdict(settle=20.0)
    assert verdict.duplicate, verdict


def test_every_failpoint_of_a_handler_is_in_a_cell_or_has_a_reason() -> None:
    there = {cell[:3] for cell in cells.ALL}
    assert {*cells.BOOKS, *cells.BOOKED_GROUPS, *cells.NO_BOOKS} <= there
    assert not {*cells.BOOKS, *cells.BOOKED_GROUPS} & set(cells.NO_BOOKS)
