"""The files of the page that are ours, and those of the demo."""

from pathlib import Path

import pytest

from sluicegate.streams.cli.workers.demo_run import FOLDER
from tests.unit.console.vendored import VENDOR

COLUMNS = 120
OURS = [path for path in sorted((*VENDOR.parent.rglob("*.*"), *FOLDER.rglob("*.*"))) if path.parent != VENDOR]


@pytest.mark.parametrize("path", OURS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_line_is_longer_than_those_of_the_other_sources(path: Path) -> None:
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > COLUMNS] == []
