"""docs/tutorial.md, word by word: a new virtual environment, the wheel, no server."""

from pathlib import Path

import pytest

from tests.integration.docs.walk import Walk, blocks
from tests.servers.process import free_port

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial.md"


@pytest.mark.timeout(400)  # pip installs the wheel and what it requires
def test_its_steps_give_what_the_page_shows(built: tuple[Path, Path], tmp_path: Path) -> None:
    install = f'pip install --quiet --disable-pip-version-check --retries 10 "{built[1]}"'
    walk = Walk(tmp_path, {"pip install sluicegate": install, "9464": str(free_port())})
    try:
        for block in blocks(PAGE.read_text(encoding="utf-8")):
            walk.does(block)
    finally:
        walk.close()
    assert walk.background is not None
    assert walk.background.returncode == 0
    assert "partition.halted" not in walk.logged()
