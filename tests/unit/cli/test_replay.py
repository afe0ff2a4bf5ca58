"""`sluicegate replay`: what it says when it cannot begin. What it does: tests/unit/engine/test_rebuild.py and others
beside it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.unit.cli.files import FILE, written


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            [],
            "add one of --rebuild, --shadow and --rewind: `sluicegate replay {file} AGENT --rebuild` restores the "
            "state of a lost store, `--shadow` compares the published results with the input, `--rewind --into TOPIC` "
            "corrects it",
        ),
        (["--rewind", "--from", "0"], "--rewind needs --into TOPIC: a topic for the corrections that no agent reads"),
        (
            ["--rewind", "--into", "mended"],
            "--rewind needs --from or --last: the first record whose results are corrected",
        ),
        (["--shadow", "--from", "yesterday"], "--from yesterday: write an offset or an RFC 3339 time, or earliest"),
        (["--shadow", "--to", "soon"], "--to soon: write an offset or an RFC 3339 time"),
        (["--shadow", "--last", "1 hour"], "--last 1 hour: write a duration, such as 1h or 30m"),
        (["--shadow", "--last", "1h", "--from", "0"], "--last and --from both name the start: use one of them"),
        (
            ["--shadow", "--fail-on", "changed,lost"],
            "--fail-on lost: use changed, missing, extra, dead, uncertain, with commas between them",
        ),
        (["--rebuild", "--call-handlers"], "--call-handlers is for --shadow and --rewind: --rebuild calls no handler"),
        (["--rebuild", "--from", "yesterday"], "--from yesterday: write an offset, an RFC 3339 time, or earliest"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(tmp_path: Path, options: list[str], text: str) -> None:
    file = written(tmp_path)
    result = CliRunner().invoke(main, ["replay", file, "totals", *options])
    assert (result.exit_code, result.stderr) == (2, f"sluicegate: {text.replace('{file}', file)}\n")
    assert list(tmp_path.glob("state.db*")) == []


def test_the_embedded_broker_has_nothing_to_rebuild_from(tmp_path: Path) -> None:
    file = written(tmp_path, text=FILE.replace("BOOTSTRAP", "embedded"))
    result = CliRunner().invoke(main, ["replay", file, "totals", "--rebuild"])
    assert result.exit_code == 2
    assert "the embedded broker forgets everything when its run ends" in result.stderr


def test_without_kafka_it_says_so_and_writes_no_state(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["replay", written(tmp_path), "totals", "--rebuild"])
    assert result.exit_code == 3
    assert "Kafka" in result.stderr


def test_the_embedded_broker_has_nothing_to_compare(tmp_path: Path) -> None:
    file = written(tmp_path, text=FILE.replace("BOOTSTRAP", "embedded"))
    result = CliRunner().invoke(main, ["replay", file, "totals", "--shadow"])
    assert result.exit_code == 2
    assert "the embedded broker forgets everything when its run ends" in result.stderr
