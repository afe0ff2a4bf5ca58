"""The changes of the tutorial fit the files that `sluicegate init` writes. The whole tutorial runs in
`tests/integration/docs/test_tutorial.py`, which takes minutes."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.streams.cli import main
from tests.integration.docs.walk import blocks, change

PAGE = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_each_change_of_the_tutorial_fits_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["init", "shop"]).exit_code == 0
    changes = [block.text for block in blocks(PAGE) if block.kind == "diff"]
    assert len(changes) > 5
    for edit in changes:
        change(tmp_path, edit)
