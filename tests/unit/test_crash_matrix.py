"""docs/proof/crash-matrix.md is what the cells say, and no failpoint is without its row."""

from pathlib import Path

from tests.chaos import matrix
from tests.chaos.cells import KINDS


def test_the_file_is_what_the_generator_makes() -> None:
    assert matrix.FILE.read_text() == matrix.document(), "run: python -m tests.chaos.matrix"


def test_every_failpoint_of_the_code_is_in_a_row_and_every_row_is_one_of_the_code() -> None:
    assert matrix.in_the_code() == set(matrix.points())


def test_a_failpoint_without_a_row_is_found(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "new.py").write_text('if failpoints.armed:\n    failpoints.hit("nobody-tests-this")\n')
    monkeypatch.setattr(matrix, "PROJECT", tmp_path)
    assert matrix.in_the_code() - set(matrix.points()) == {"nobody-tests-this"}


def test_every_place_has_a_test_or_a_reason_and_no_reason_is_given_for_what_is_tested() -> None:
    for point in matrix.points():
        for kind in KINDS:
            tested = [store for store in matrix.COLUMNS if matrix.signs(point, kind, store)]
            assert all(matrix.reason(point, kind, store) for store in matrix.COLUMNS if store not in tested)
            if tested:
                assert (point, kind) not in matrix.OMITTED
    assert {point for point, _ in matrix.OMITTED} | set(matrix.ELSEWHERE) <= set(matrix.points())


def test_what_the_table_calls_a_test_is_there() -> None:
    named = {family.test for family in matrix.FAMILIES} | {single.test for single in matrix.SINGLES}
    assert [test for test in named if not (matrix.PROJECT / test.split(":")[0]).is_file()] == []
    for single in matrix.SINGLES:
        assert single.point in (matrix.PROJECT / single.test.split(":")[0]).read_text(), single


def test_a_run_of_ci_takes_only_cells_that_the_whole_run_has() -> None:
    for family in matrix.FAMILIES:
        assert {cell[:3] for cell in family.cells(False)} <= {cell[:3] for cell in family.cells(True)}
