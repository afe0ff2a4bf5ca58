"""The recipes, the comparisons and docs/time.md: their files pass their tests, and print what the page shows."""

import os
import sys
from pathlib import Path

import pytest

from tests.integration.docs.walk import Walk, blocks

DOCS = Path(__file__).resolve().parents[3] / "docs"
OF_THEIR_OWN = {DOCS / "compare" / name for name in ("operations.md", "versions.md")}
"""Pages that have tests of their own."""
COMPARISONS = {*(DOCS / "compare").glob("*.md")} - OF_THEIR_OWN
PAGES = sorted([*(DOCS / "recipes").glob("*.md"), *COMPARISONS, DOCS / "time.md"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_snippets_do_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    snippets = list(blocks(page.read_text(encoding="utf-8")))
    assert {"yaml", "sh", "text"} <= {block.kind for block in snippets}
    walk = Walk(tmp_path, {})
    try:
        for block in snippets:
            walk.does(block)
    finally:
        walk.close()
