"""The pages of tasks and of comparisons: their files pass their tests, and print what the page shows."""

import os
import sys
from pathlib import Path

import pytest

from tests.integration.docs.walk import Walk, blocks

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = sorted([*(DOCS / "how-to").glob("*.md"), *(DOCS / "compare").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_snippets_do_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    found = list(blocks(page.read_text(encoding="utf-8")))
    assert {"yaml", "sh", "text"} <= {block.kind for block in found}
    walk = Walk(tmp_path, {})
    for block in found:
        walk.does(block)


def test_the_list_of_tasks_names_every_page() -> None:
    text = (DOCS / "how-to.md").read_text(encoding="utf-8")
    assert [page.name for page in (DOCS / "how-to").glob("*.md") if f"(how-to/{page.name})" not in text] == []
