"""The tables of `make mutate` stay true: each guard stands where they say, exactly once."""

import ast
from pathlib import Path

import pytest

from tests.mutation import report
from tests.mutation.__main__ import FAILED, GUARDS, attempt
from tests.mutation.guard import Guard

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.promise)
def test_each_guard_stands_once_in_its_file_and_can_be_taken_out(guard: Guard) -> None:
    text = (PROJECT / guard.file).read_text()
    assert text.count(guard.text) == 1
    without = text.replace(guard.text, guard.instead)
    assert without != text
    if guard.file.endswith(".py"):
        ast.parse(without)
    for tests in guard.tests:
        assert (PROJECT / tests.partition("::")[0]).exists()


def test_no_promise_is_named_twice() -> None:
    assert len({guard.promise for guard in GUARDS}) == len(GUARDS) >= 40


def test_the_report_is_of_these_guards_and_none_survived() -> None:
    tests = report.read(PROJECT, GUARDS)
    assert tests.keys() == {guard.promise for guard in GUARDS}
    assert [promise for promise, test in tests.items() if not report.missed(test)] == []


def test_the_first_line_counts_only_guards_that_were_run(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    report.write(tmp_path, GUARDS[:3], {GUARDS[0].promise: "a.py::b", GUARDS[1].promise: report.SURVIVED})
    text = (tmp_path / report.PLACE).read_text()
    assert "\n2 guards, 1 missed by a test, 1 survived. 1 more were not run.\n" in text


@pytest.mark.parametrize(
    "result", [report.SURVIVED, report.OPEN, f"{report.HUNG} (a.py::b)", f"{report.BROKEN} (a.py::b)"]
)
def test_a_guard_whose_tests_do_not_end_or_fail_with_it_is_not_missed(result: str) -> None:
    assert report.missed("a.py::b")
    assert not report.missed(result)


def test_a_guard_that_nothing_misses_survives_and_one_that_is_missed_names_its_test(tmp_path: Path) -> None:
    (tmp_path / "product.py").write_text("def right():\n    return 1\n")
    (tmp_path / "test_loose.py").write_text("def test_it():\n    import product\n    assert product.right()\n")
    (tmp_path / "test_strict.py").write_text("def test_it():\n    import product\n    assert product.right() == 1\n")
    guard = Guard("p", "product.py", "return 1", "return 2", ("test_loose.py",))
    assert attempt(tmp_path, guard) == report.SURVIVED
    assert attempt(tmp_path, guard._replace(tests=("test_loose.py", "test_strict.py"))) == "test_strict.py::test_it"
    assert "return 1" in (tmp_path / "product.py").read_text()


def test_a_name_with_spaces_is_read_whole() -> None:
    text = "FAILED tests/a.py::test_b[c d] - assert 1 == 2\nERROR tests/a.py::test_e"
    assert FAILED.findall(text) == ["tests/a.py::test_b[c d]", "tests/a.py::test_e"]
