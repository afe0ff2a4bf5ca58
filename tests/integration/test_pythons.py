"""Results do not depend on the version of Python: all versions give the same bytes, so that workers of two versions may
share a store. `test_wheel.py` plays the demo on each of them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.wheels import PIP, PROJECT, interpreter, python, ran
from tests.selection import RUN
from tests.servers import jars

EXTRAS = "avro,json-schema,mongodb,mysql,otel,postgresql,protobuf,redis,regex,zones"
TOOLS = ("googleapis-common-protos", "grpcio-tools", "hypothesis", "psutil", "pytest", "pytest-timeout")
COMPUTING = ("tests/golden", "tests/unit/aggregation", "tests/unit/expressions", "tests/unit/config")


@pytest.fixture(scope="module", params=jars.PYTHONS, ids=lambda minor: f"3.{minor}")
def environment(
    request: pytest.FixtureRequest, built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An environment of one version, with the wheel and what its unit tests need."""
    program, folder = interpreter(request.param), tmp_path_factory.mktemp("environment")
    ran(program, "-m", "venv", folder, cwd=folder)
    ran(python(folder), *PIP, "install", "--no-compile", f"{built[1]}[{EXTRAS}]", *TOOLS, cwd=folder)
    return folder


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tests", COMPUTING)
def test_its_unit_tests_pass(environment: Path, tests: str) -> None:
    """Those of the core; `golden` compares the bytes of state and results with recorded ones."""
    environ = {**os.environ, RUN: "core", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python(environment)), "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    done = subprocess.run(command, cwd=PROJECT, env=environ, capture_output=True, text=True, timeout=890)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr
