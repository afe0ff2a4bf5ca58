"""Files whose rules once computed something wrong, or that stand at an edge: each passes its own tests, as the command
says."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main

FILES = sorted((Path(__file__).parent / "files").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_passes_its_own_tests(file: Path) -> None:
    result = CliRunner().invoke(main, ["test", str(file)])
    warned = [line for line in result.stdout.splitlines() if line.startswith("        warning: ")]
    *lines, last = [line for line in result.stdout.splitlines() if line not in warned]
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines
    assert len(warned) == (file.stem == "window-before-1970")  # of times that are years away from Kafka's
    assert all(line.startswith("ok ") for line in lines)
    assert last == f"{len(lines)} of {len(lines)} tests passed"


def test_there_are_files() -> None:
    assert len(FILES) == 12
