"""docs/operations.md names commands that there are, and all that look into a state or change it."""

import re
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from sluicegate.streams.cli import main

TEXT = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
KINDS = ("groups", "parked", "outbox", "timeouts", "dead")


def named() -> set[tuple[str, ...]]:
    """Commands in the text, as `sluicegate groups ls FILE`, or shorter beside one: their words up to the arguments."""
    matches = re.findall(
        r"`(?:sluicegate )?((?:{}) [a-z]+|status|audit|explain|eval|accept-gap)\b[^`]*`".format("|".join(KINDS)), TEXT
    )
    return {tuple(match.split()) for match in matches}


def test_every_command_of_the_page_exists() -> None:
    for words in named():
        result = CliRunner().invoke(main, [*words, "--help"])
        assert result.exit_code == 0, words


def test_every_command_about_state_is_on_the_page() -> None:
    groups = get_command(main).commands  # type: ignore[attr-defined]
    there = {(kind, name) for kind in KINDS for name in groups[kind].commands}
    assert there | {("status",), ("audit",), ("explain",), ("eval",), ("accept-gap",)} == named()
