"""Which run is asked for, what it counts, and what is tried again."""

import os
import subprocess
import sys

import pytest

from tests.selection import END, RUN
from tests.stages import PROJECT, STAGES, Count, alone, count, faults, only_late, parsed, stages

BODY = """
import pytest
@pytest.fixture
def broken(): raise ValueError
def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert False
def test_cannot_be_set_up(broken): pass
def test_is_skipped(): pytest.skip("why")
"""


def report_of(folder, body):
    (folder / "test_inner.py").write_text(body)
    report = folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        f"--junit-xml={report}",
        str(folder),
    ]
    plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # none is needed, and they take most of the time
    subprocess.run(command, cwd=folder, env=plain, capture_output=True, timeout=60)
    return report


def test_the_count_is_that_of_the_report(tmp_path):
    assert count(report_of(tmp_path, BODY)) == Count(passed=2, failed=2, skipped=1)


def test_a_call_that_ran_no_test_or_left_no_report_has_failed(tmp_path):
    assert count(report_of(tmp_path, "")) == Count(0, 1, 0)
    assert count(tmp_path / "nothing.xml") == Count(0, 1, 0)


def test_a_file_that_cannot_be_imported_has_failed(tmp_path):
    assert count(report_of(tmp_path, "import nothing_of_that_name")).failed == 1


@pytest.mark.parametrize(("end", "passed", "not_begun"), [("1", 0, 1), ("", 1, 0)])
def test_behind_the_end_of_a_run_no_test_begins(tmp_path, end, passed, not_begun):
    report = tmp_path / "report.xml"
    one = "tests/unit/test_selection.py::test_a_contract_of_the_core_needs_none_of_the_other_stores"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}", one]
    environ = {name: value for name, value in os.environ.items() if name != RUN} | {END: end}
    subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, timeout=100)
    assert count(report) == Count(passed, 0, 0, not_begun)


def test_the_rest_begins_with_another_stage_each_day():
    assert [next(iter(stages("rest", day))) for day in range(len(STAGES))] == list(STAGES)
    assert {frozenset(stages("rest", day)) for day in range(len(STAGES))} == {frozenset(STAGES)}
    assert list(stages("core", 3)) == [name for name in STAGES if name != "soak"]


@pytest.mark.parametrize("args", [[], ["chaos"], ["core", "rest"]])
def test_a_run_that_there_is_not_is_refused(args):
    with pytest.raises(SystemExit, match="usage"):
        parsed(args)


def test_what_is_tried_again_runs_alone():
    assert alone(["tests/chaos", "-n", "3", "--timeout", "300"]) == ["tests/chaos", "--timeout", "300"]
    assert alone(["tests/unit"]) == ["tests/unit"]


def test_only_deadlines_are_tried_again_never_a_verdict(tmp_path):
    late = "def test_late(): raise TimeoutError('it did not come true within 1 s')\n"
    assert only_late(report_of(tmp_path, late))
    assert not only_late(report_of(tmp_path, late + "def test_wrong(): assert 'lost' == ''\n"))
    assert not only_late(report_of(tmp_path, "def test_fine(): pass\n"))
    assert not only_late(tmp_path / "nothing.xml")


def test_each_failed_test_is_named_with_the_end_of_what_it_said(tmp_path):
    [first, second] = faults(report_of(tmp_path, BODY))
    assert first.startswith("test_inner::test_fails\n")
    assert "assert False" in first
    assert second.startswith("test_inner::test_cannot_be_set_up\n")
    assert "ValueError" in second
    assert faults(tmp_path / "nothing.xml") == ["nothing: pytest ended without a report"]
