"""A shell completes commands, subcommands and options."""

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main


@pytest.mark.parametrize(
    ("typed", "word", "completed"),
    [
        ("sluicegate gro", 1, "groups"),
        ("sluicegate dead arc", 2, "archive"),
        ("sluicegate check --con", 2, "--connect"),
    ],
)
def test_bash_completes(typed: str, word: int, completed: str) -> None:
    environ = {"_SLUICEGATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(word)}
    result = CliRunner().invoke(main, [], env=environ, prog_name="sluicegate")
    assert completed in result.stdout.split()
