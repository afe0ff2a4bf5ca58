"""The pytest plugin: its fixture makes drivers, and nothing is imported for those who do not ask for it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
APP = """\
app: shop
kafka: {bootstrap.servers: "localhost:9"}
store: memory://
agents:
  a:
    from: in
    aggregate: {count: 2}
    to: {topic: out}
"""
TESTS = """\
def test_a_full_group(sluicegate_driver):
    driver = sluicegate_driver("shop.yaml")
    driver.send("in", {}, key="k", times=2)
    assert [output.value["count"] for output in driver.read("out")] == [2]

def test_a_crash_that_never_comes(sluicegate_driver):
    sluicegate_driver("shop.yaml", workers=2, partitions=1).crash("expire-selected")
"""
LIGHT = """\
import sys

def test_nothing_heavy_is_loaded():
    heavy = {"sluicegate.streams.testing.driver", "sluicegate.streams.engine.worker", "pydantic", "confluent_kafka"}
    assert heavy & {*sys.modules} == set()
"""


@pytest.fixture
def run(tmp_path: Path):
    """`run(tests)`: pytest with an installed distribution that has our entry points; its exit code and output."""
    with (PROJECT / "pyproject.toml").open("rb") as file:
        points = tomllib.load(file)["project"]["entry-points"]["pytest11"]
    about = tmp_path / "site" / "ours-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[pytest11]\n" + "".join(f"{name} = {module}\n" for name, module in points.items())
    )

    def run(tests: str) -> tuple[int, str]:
        (tmp_path / "shop.yaml").write_text(APP)
        (tmp_path / "test_shop.py").write_text(tests)
        path = os.pathsep.join([str(about.parent), str(PROJECT)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shop.py"]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60
        )
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_fixture_makes_drivers_and_closes_them(run) -> None:
    code, output = run(TESTS)
    assert code == 1
    assert "2 passed, 1 error" in output
    assert "a crash was asked for at expire-selected, which was never reached" in output


def test_it_loads_nothing_before_a_test_asks_for_it(run) -> None:
    code, output = run(LIGHT)
    assert (code, "1 passed" in output) == (0, True), output
