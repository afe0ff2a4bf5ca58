"""The glossary has one meaning for each word, and no word that the product and its pages do not use."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[3]
TERM = re.compile(r"^\| ([^|]+?) \| (?!meaning)[^-]", re.MULTILINE)


def terms() -> list[str]:
    return [term.strip() for term in TERM.findall((PROJECT / "docs" / "glossary.md").read_text()) if term != "word"]


def test_each_word_has_one_meaning() -> None:
    assert len(terms()) > 60
    assert sorted({*terms()}) == sorted(terms())


def test_each_word_is_used() -> None:
    pages = (path for path in (PROJECT / "docs").rglob("*.md") if path.name != "glossary.md")
    sources = (path for name in ("streams", "connectors", "schemas") for path in (PROJECT / name).rglob("*.py"))
    text = " ".join(" ".join(path.read_text().split()) for path in (*pages, *sources)).lower()
    unused = [term for term in terms() if term.partition(" of a ")[0].lower() not in text]
    assert unused == []
