"""docs/compare/operations.md: each row has a file that passes its own tests, and each file has a row. With a death at
every place they pass in tests/integration/docs/test_operations.py."""

import re
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from sluicegate.streams.testing.files import loaded
from sluicegate.streams.testing.play import play

PAGES = Path(__file__).resolve().parents[3] / "docs" / "compare"
PAGE = (PAGES / "operations.md").read_text(encoding="utf-8")
LINK = re.compile(r"\[[\w.-]+\]\((operations/[\w/.-]+\.yaml)\)")
KSML = {
    *("flatMap", "map", "mapKey", "mapValues", "selectKey", "transformKey", "transformValue", "filter", "filterNot"),
    *("convertKey", "convertValue", "groupBy", "groupByKey", "repartition", "aggregate", "count", "reduce", "join"),
    *("leftJoin", "merge", "outerJoin", "windowBySession", "windowByTime", "forEach", "print", "to"),
    *("toTopicNameExtractor", "branch", "peek"),
}
INNGEST = {"concurrency", "throttling", "rate limiting", "debounce", "priority", "singleton", "batching"}
KAFKA_STREAMS = {"tumbling", "hopping", "sliding", "session", "unlimited"}
FLINK = {"TUMBLE", "HOP", "CUMULATE", "SESSION", "OVER RANGE", "OVER ROWS"}
QUIX = {
    *("tumbling_window", "hopping_window", "sliding_window", "session_window"),
    *("tumbling_count_window", "hopping_count_window", "sliding_count_window"),
}
PEERS = {"KSML": KSML, "Inngest": INNGEST, "Kafka Streams": KAFKA_STREAMS, "Flink SQL": FLINK, "Quix Streams": QUIX}
"""The sections of the page, each with the names of its first column."""


class Row(NamedTuple):
    """`code` is what the file writes. `file` is None where the operation cannot be said."""

    name: str
    code: tuple[str, ...]
    file: str | None


def rows_of(section: str, page: str = PAGE) -> list[Row]:
    """The rows of the table below this heading."""
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    lines = text[text.index("\n|---") :].splitlines()[2:]
    rows = []
    for line in takewhile(lambda line: line.startswith("| "), lines):
        name, _, here, file = (cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        link = LINK.search(file)
        rows.append(Row(name.strip("`"), tuple(re.findall(r"`([^`]+)`", here)), link[1] if link else None))
    return rows


def cases_of(file: str) -> list[str]:
    """The names of the tests of a file."""
    tests = (PAGES / file).read_text(encoding="utf-8").partition("\ntests:\n")[2]
    return re.findall(r"^  (\S.*):$", tests, re.M)


def unlike(page: str) -> list[str]:
    """The files without a row, and the rows whose file is missing."""
    named = {row.file for section in PEERS for row in rows_of(section, page) if row.file}
    return sorted(named ^ {str(file.relative_to(PAGES)) for file in (PAGES / "operations").rglob("*.yaml")})


ROWS = {section: rows_of(section) for section in PEERS}
SAID = [row for rows in ROWS.values() for row in rows if row.file]
CASES = [(file, name) for file in sorted({str(row.file) for row in SAID}) for name in cases_of(file)]


@pytest.mark.parametrize("section", PEERS)
def test_the_table_has_each_operation_of_the_peer_once(section: str) -> None:
    assert sorted(row.name for row in ROWS[section]) == sorted(PEERS[section])
    assert [row.name for row in ROWS[section] if row.file is None] == []


def test_each_file_has_a_row_and_each_row_a_file() -> None:
    assert unlike(PAGE) == []


def test_a_row_without_a_file_and_a_file_without_a_row_are_found() -> None:
    assert unlike(PAGE.replace("(operations/ksml/filter.yaml)", "(operations/ksml/filtered.yaml)")) == [
        "operations/ksml/filter.yaml",
        "operations/ksml/filtered.yaml",
    ]


@pytest.mark.parametrize("row", SAID, ids=lambda row: row.name)
def test_the_file_has_what_the_row_says(row: Row) -> None:
    text = " ".join((PAGES / str(row.file)).read_text(encoding="utf-8").split())
    assert row.code
    assert [part for part in row.code if part not in text] == []


@pytest.mark.parametrize(("file", "name"), CASES)
def test_the_tests_of_each_file_pass(file: str, name: str) -> None:
    made = loaded(PAGES / file)
    assert made.app is not None, made.problems
    (case,) = [case for case in made.cases if case.name == name]
    assert play(made.app, case) is None


def test_no_test_of_a_file_is_left_out() -> None:
    for file in {file for file, _ in CASES}:
        assert [case.name for case in loaded(PAGES / file).cases] == cases_of(file)


def test_print_prints(capsys: pytest.CaptureFixture[str]) -> None:
    made = loaded(PAGES / "operations" / "ksml" / "print.yaml")
    assert made.app is not None
    assert play(made.app, made.cases[0]) is None
    assert "o-1 {'total': 3}" in capsys.readouterr().out
