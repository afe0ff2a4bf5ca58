"""Every test is in `make test` or, within some days, in the rest; none is lost, and none is in both."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import selection
from tests.selection import CORE, DAY, DAYS, LONG, RUN, taken
from tests.stages import STAGES, stages

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(450)  # the first test waits until all tests are collected
WITHOUT_A_STAGE = ("tests/bounds/test_bounds.py", "tests/native/")  # `make bounds`, `make test-native`


@pytest.fixture(scope="module")
def everything(run_file: Callable[[str, Callable[[], str]], str]) -> tuple[str, ...]:
    """The id of every test of the tree."""
    return tuple(run_file("every-test", lambda: "\n".join(collected(PROJECT / "tests"))).splitlines())


def collected(tests: Path, **environ: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(PROJECT / "pyproject.toml")]
    command += [
        "--override-ini",
        "addopts=--import-mode=importlib",
        "--rootdir",
        str(PROJECT),
        "--collect-only",
        str(tests),
    ]
    kept = {name: value for name, value in os.environ.items() if name not in (DAY, RUN)}
    done = subprocess.run(command, cwd=PROJECT, env=kept | environ, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


def lost(tests: tuple[str, ...]) -> set[str]:
    """Those that no run takes, whatever the day."""
    runs = [taken(tests, "core", 0), *(taken(tests, "rest", day) for day in range(DAYS))]
    return set(tests).difference(*runs)


def test_every_test_is_in_the_core_or_within_some_days_in_the_rest(everything: tuple[str, ...]) -> None:
    assert len(everything) > 8_000
    assert lost(everything) == set()


def test_twin_a_rest_that_passes_a_day_over_loses_tests(
    everything: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    due = selection.is_due
    monkeypatch.setattr(selection, "is_due", lambda test, day: day % DAYS != 1 and due(test, day))
    assert lost(everything)


def test_nothing_is_in_both_and_nothing_comes_twice_within_the_days(everything: tuple[str, ...]) -> None:
    core = taken(everything, "core", 0)
    times = Counter(test for day in range(DAYS) for test in taken(everything, "rest", day))
    assert core & times.keys() == set()
    assert {test for test, days in times.items() if days > 1 and not test.startswith(selection.EACH_DAY)} == set()


def test_the_core_is_the_same_every_day(everything: tuple[str, ...]) -> None:
    assert taken(everything, "core", 1) == taken(everything, "core", 2)
    assert {*collected(PROJECT / "tests" / "chaos", **{RUN: "core", DAY: "700001"})} == {
        test for test in taken(everything, "core", 0) if test.startswith("tests/chaos/")
    }


def test_the_days_of_the_rest_are_about_equal(everything: tuple[str, ...]) -> None:
    sizes = [len(taken(everything, "rest", day)) for day in range(DAYS)]
    assert max(sizes) < 1.2 * min(sizes)


def test_each_entry_of_the_selection_names_a_test(everything: tuple[str, ...]) -> None:
    assert [entry for entry in (*CORE, *LONG) if not any(test.startswith(entry) for test in everything)] == []


def test_a_contract_of_the_core_needs_none_of_the_other_stores() -> None:
    assert selection.is_core("tests/contracts/test_fencing.py::test_x[postgresql]")
    assert not selection.is_core("tests/contracts/test_fencing.py::test_x[redis-cluster]")
    assert not selection.is_core("tests/contracts/test_mongodb_levels.py::test_x")
    assert not selection.is_core("tests/contracts/test_sql_levels.py::test_x[Mariadb]")


def in_a_stage(test: str, run: str) -> bool:
    for options in stages(run).values():
        ignored = [options[at + 1] for at, option in enumerate(options) if option == "--ignore"]
        folders = [option for option in options if option.startswith("tests/") and option not in ignored]
        if test.startswith(tuple(folders)) and not test.startswith(tuple(ignored)):
            return True
    return False


def test_every_test_of_a_run_is_in_one_of_its_stages(everything: tuple[str, ...]) -> None:
    assert {test for test in taken(everything, "core", 0) if not in_a_stage(test, "core")} == set()
    others = {test for test in everything if not in_a_stage(test, "rest")}
    assert {test for test in others if not test.startswith(WITHOUT_A_STAGE)} == set()


def test_a_stage_that_is_left_out_of_the_core_has_no_test_of_it(everything: tuple[str, ...]) -> None:
    absent = [options for name, options in STAGES.items() if name not in stages("core")]
    files = tuple(option for options in absent for option in options if option.startswith("tests/"))
    assert not [test for test in taken(everything, "core", 0) if test.startswith(files)]


def seed(**environ: str) -> str:
    command = [sys.executable, "-c", "from tests.fuzz.seeds import SEED; print(SEED)"]
    kept = {name: value for name, value in os.environ.items() if name not in (DAY, RUN, "SLUICEGATE_FUZZ_SEED")}
    return subprocess.run(
        command, cwd=PROJECT, env=kept | environ, capture_output=True, text=True, timeout=200, check=True
    ).stdout


def test_the_rest_draws_other_fuzz_input_every_day() -> None:
    assert seed(**{RUN: "rest", DAY: "700001"}) != seed(**{RUN: "rest", DAY: "700002"})
