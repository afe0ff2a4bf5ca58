"""`.ci/run` takes the core and then the rest, and fails when either does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / ".ci" / "run"
# installed where they are missing
PROGRAMS = ("java", "mvn", "make", "git", "openssl", "redis-server", "chromium", "prometheus")


@pytest.mark.parametrize(("fails", "code"), [("none", 0), ("test", 1), ("test-rest", 1)])
def test_both_run_even_when_the_first_fails_and_either_failure_counts(tmp_path: Path, fails: str, code: int) -> None:
    said = tmp_path / "said"
    for name in PROGRAMS:
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$2" >> {said}\n[ "$2" != {fails} ]\n')
        program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable}
    done = subprocess.run([RUN], env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert said.read_text().split() == ["setup", "setup-servers", "test", "test-rest"]
    assert [line.split()[1].rstrip(":") for line in done.stdout.splitlines()] == [
        "packages",
        "setup",
        "setup-servers",
        "test",
        "test-rest",
        "all",
    ]
