"""docs/lookups.md says what is there: its file passes its own tests, and its table has every key."""

import re
import sys
from pathlib import Path

import pytest

from sluicegate.streams.config.sections.lookups import LookupModel
from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play_with_crashes

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "lookups.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first of the page: the file with its tests, its tables and its handler."""
    text, *_ = re.findall(rf"```{language}\n(?!agents:)(.*?)```", DOCUMENT, re.S)
    return str(text)


@pytest.mark.parametrize("number", range(5))
def test_its_file_passes_its_own_tests_with_a_death_at_every_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for name, language in (("shop.yaml", "yaml"), ("tables.sql", "sql"), ("bank.py", "python")):
        (tmp_path / name).write_text(block(language), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "bank", raising=False)
    text = loaded(tmp_path / "shop.yaml")
    assert text.app is not None, text.problems
    verdict = play_with_crashes(text.app, text.cases[number], lambda done, total: None)
    assert (verdict.failure, verdict.place) == (None, None)


def test_its_table_names_every_key() -> None:
    assert {key for key in LookupModel.model_fields if not re.search(rf"^\| `{key}: ?", DOCUMENT, re.M)} == set()
