"""Maven is asked again when a name server or a registry is away for a moment."""

from pathlib import Path

import pytest

from tests.servers import jars
from tests.servers.program import Unavailable


def maven_that_fails(times: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `mvn` on the PATH that fails so many times; return the file that has a line for each call."""
    calls = folder / "calls"
    program = folder / "mvn"
    program.write_text(f'#!/bin/sh\necho call >> {calls}\necho no such host\ntest "$(wc -l < {calls})" -gt {times}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setattr(jars, "PAUSES", (0.0, 0.0))
    return calls


def test_a_fetch_that_fails_twice_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = maven_that_fails(2, tmp_path, monkeypatch)
    jars._maven("Kafka", "copy")
    assert calls.read_text().count("call") == 3


def test_a_fetch_that_fails_three_times_says_what_maven_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = maven_that_fails(3, tmp_path, monkeypatch)
    with pytest.raises(Unavailable, match=r"Maven could not fetch Kafka(.|\n)*no such host"):
        jars._maven("Kafka", "copy")
    assert calls.read_text().count("call") == 3
