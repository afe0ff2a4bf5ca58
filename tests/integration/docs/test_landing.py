"""docs/index.md: its Python has at most twelve lines and prints what the page shows. A wrong number would be found."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.integration.docs.walk import Walk, blocks

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "index.md").read_text(encoding="utf-8")


def walked(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    walk = Walk(folder, {})
    for block in blocks(page):
        walk.does(block)


def test_its_app_has_twelve_lines_and_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = [block.text for block in blocks(PAGE) if block.kind == "python"]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    walked(PAGE, tmp_path, monkeypatch)


def test_another_result_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        walked(PAGE.replace("'spent': 17", "'spent': 18"), tmp_path, monkeypatch)


def test_it_has_an_install_line_the_picture_one_comparison_and_three_doors() -> None:
    assert PAGE.index("pip install sluicegate") < PAGE.index("```python") < PAGE.index("(pictures/demo.svg)")
    assert "| Learn | Do | Know |" in PAGE
    [head] = re.findall(r"^\| \| Sluicegate \|.*$", PAGE, re.MULTILINE)
    assert len(re.findall(r"\(compare/[\w-]+\.md\)", head)) == 4
