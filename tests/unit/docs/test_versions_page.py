"""docs/compare/versions.md names the version that each page was compared with, and one at which no maintainer
has looked is overdue. The registries are asked in tests/integration/docs/test_compared_versions.py."""

import re
from datetime import date, timedelta

import pytest

from tests.bench.peers import environment
from tests.docs import versions

COMPARED = versions.PAGES.parents[1] / "tests" / "integration" / "docs" / "compared"
TEXT = versions.PAGE.read_text(encoding="utf-8")
ROWS = versions.rows(TEXT)
LOOKED_AT = date(2026, 1, 1)
ROW = versions.Compared("Faust", "1.0", "PyPI", "faust-streaming", LOOKED_AT, "faust.md")


def test_each_line_of_the_table_is_a_row() -> None:
    assert len(ROWS) == len(re.findall(r"\.md\) \|$", TEXT, re.MULTILINE)) > 8


def test_each_page_has_a_row_and_names_its_version() -> None:
    pages = {page.name for page in versions.PAGES.glob("*.md")} - {"versions.md", "operations.md"}
    assert {row.page for row in ROWS} == pages
    missing = [row for row in ROWS if row.version not in (versions.PAGES / row.page).read_text(encoding="utf-8")]
    assert missing == []


def test_the_tests_run_the_versions_of_the_table() -> None:
    """But for npm, and for what no registry has."""
    requirements = [
        file.read_text(encoding="utf-8") for file in (environment.REQUIREMENTS, *sorted(COMPARED.glob("*.txt")))
    ]
    pinned = dict(re.findall(r"^([\w-]+)(?:\[\w+\])?==(\S+)$", "\n".join(requirements), re.MULTILINE))
    pom = (COMPARED / "java" / "pom.xml").read_text(encoding="utf-8")
    pinned |= re.findall(r"<artifactId>(\S+)</artifactId>\s*<version>(\S+)</version>", pom)
    pinned |= {"kafka-streams": environment.KAFKA_STREAMS, "flink-streaming-java": environment.FLINK}
    rows = [row for row in ROWS if row.registry in ("PyPI", "Maven")]
    assert {row.package: pinned[row.package.rpartition(":")[2]] for row in rows} == {
        row.package: row.version for row in rows
    }


@pytest.mark.parametrize(
    ("released", "days", "due"),
    [
        ({LOOKED_AT: "1.0"}, 400, False),  # nothing came after the look
        ({LOOKED_AT: "1.0", LOOKED_AT + timedelta(days=10): "1.1"}, 99, False),
        ({LOOKED_AT: "1.0", LOOKED_AT + timedelta(days=10): "1.1"}, 101, True),
        ({LOOKED_AT: "1.1"}, 400, False),  # seen at the look, and nothing to correct
        ({LOOKED_AT: "1.0", LOOKED_AT + timedelta(days=10): "0.9.9"}, 400, False),
    ],
)
def test_a_release_that_nobody_looked_at_is_overdue_after_ninety_days(
    released: dict[date, str], days: int, due: bool
) -> None:
    def newest(day: date) -> str:
        return max((version for known, version in released.items() if known <= day), key=versions.Version)

    assert bool(versions.overdue(ROW, LOOKED_AT + timedelta(days=days), newest)) is due


def test_a_product_without_a_registry_is_looked_at_every_ninety_days() -> None:
    row = ROW._replace(registry="none: an image")
    assert not versions.overdue(row, LOOKED_AT + timedelta(days=90), str)
    assert versions.overdue(row, LOOKED_AT + timedelta(days=91), str)
