"""What a day takes of the tests that rotate."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.rotation import DAY, is_due, of_today

BODY = """
import pytest
from tests.rotation import rotate

def pytest_collection_modifyitems(config, items):
    rotate(config, items)
"""
TESTS = """
import pytest
@pytest.mark.rotates(3)
@pytest.mark.parametrize("n", range(12))
def test_some_day(n): pass
@pytest.mark.parametrize("backend", ["redis", "redis-cluster", "mariadb"])
def test_of(backend): pass
def test_each_day(): pass
"""


def taken(folder, day):
    inner = folder / "tests" / "contracts"
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "conftest.py").write_text(BODY)
    (inner / "test_inner.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), "--collect-only", str(folder)]
    env = {name: value for name, value in os.environ.items() if name != DAY} | ({DAY: str(day)} if day else {})
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60).stdout
    return {line.partition("::")[2] for line in out.splitlines() if "::" in line}


def test_within_its_days_each_test_was_run_once_and_the_others_each_day(tmp_path):
    everything, *parts = (taken(tmp_path, day) for day in (0, *range(100, 106)))
    assert len(everything) == 16
    times = Counter(name for part in parts for name in part)
    wanted = dict.fromkeys(everything, 2) | {"test_each_day": 6, "test_of[redis]": 6}
    assert times == wanted
    assert all(part < everything for part in parts)


def test_a_period_of_one_day_is_each_day():
    assert all(is_due("any", 1, day) for day in range(9))


def test_cells_of_a_day_follow_those_of_the_day_before(monkeypatch: pytest.MonkeyPatch):
    said = []
    for day in (700, 701, 702):
        monkeypatch.setenv(DAY, str(day))
        said += of_today("abcdef", 2)
    assert sorted(said) == list("abcdef")
