"""`.ci/run` takes the core, the rest, the native reader where it can be built, the audit, and fails when any does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

RUN = Path(__file__).resolve().parents[2] / ".ci" / "run"
# installed where they are missing
PROGRAMS = ("java", "mvn", "make", "git", "openssl", "redis-server", "chromium", "prometheus")
STAGES = ["packages", "setup", "setup-servers", "test", "test-rest", "native", "audit", "all"]


def ran(folder: Path, cargo: str, fails: str = "none") -> tuple[int, list[str], list[str]]:
    """The exit code, what `make` was called for (with SLUICEGATE_NATIVE where it is set), and the lines of the output.
    All programs are ours."""
    file = folder / "said"
    call = f'#!/bin/sh\necho "$2 $SLUICEGATE_NATIVE" >> {file}\n[ "$2" != {fails} ]\n'
    for name, text in {**dict.fromkeys(PROGRAMS, call), "cargo": f"#!/bin/sh\necho 'cargo {cargo}'\n"}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "SLUICEGATE_NATIVE"}
    environ = {**kept, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": sys.executable}
    done = subprocess.run([RUN], env=environ, capture_output=True, text=True, timeout=60)
    return done.returncode, [line.strip() for line in file.read_text().splitlines()], done.stdout.splitlines()


@pytest.mark.parametrize(
    ("fails", "code"), [("none", 0), ("test", 1), ("test-rest", 1), ("test-native", 1), ("audit", 1)]
)
def test_all_run_even_when_the_first_fails_and_each_failure_counts(tmp_path: Path, fails: str, code: int) -> None:
    output, calls, lines = ran(tmp_path, "1.85.0 (d73d2caf9 2024-12-31)", fails)
    assert output == code
    assert calls == ["setup", "setup-servers", "test off", "test-rest off", "test-native", "audit"]
    assert [line.split()[1].rstrip(":") for line in lines if line.startswith("stage ")] == STAGES


def test_without_a_new_cargo_the_native_reader_is_passed_over_in_one_line(tmp_path: Path) -> None:
    code, calls, lines = ran(tmp_path, "1.63.0")
    assert (code, calls[-2:]) == (0, ["test-rest off", "audit"])
    assert any(line.startswith("native: there is no cargo 1.85 or newer") for line in lines)


def test_only_the_job_that_publishes_has_an_identity_and_nothing_has_a_password() -> None:
    text = (RUN.parents[1] / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    release = yaml.safe_load(text)
    rights = {name: job["permissions"] for name, job in release["jobs"].items()}
    assert release["permissions"] == {}
    assert [name for name, right in rights.items() if "id-token" in right] == ["publish"]
    assert release["jobs"]["publish"]["needs"] == "try"
    assert "secrets." not in text
    assert "grep -n sluicegate.example pyproject.toml" in text  # its address until there is a real one
    assert "It has not been run yet" in text
