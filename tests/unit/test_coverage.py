"""The table of numbered behaviours is complete and true; the check of it finds what is wrong. And the layout of the
project (227)."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.contracts import coverage
from tests.contracts.coverage import PROJECT, Scope

FILE = PROJECT / "tests" / "contracts" / "COVERAGE.md"
ALL = {number: [f"tests/test_a.py::test_{number:03}_says_so"] for number in range(1, coverage.LAST + 1)}
TEXTS = dict.fromkeys(ALL, "what")
AWAITED: list[str] = []


def test_every_number_has_one_test_or_a_reason() -> None:
    assert coverage.problems(coverage.shown(), coverage.scope()) == AWAITED


def test_the_committed_table_names_the_tests_that_there_are() -> None:
    made = coverage.table(coverage.shown(), coverage.scope(), coverage.known_outcomes(FILE.read_text()))
    assert FILE.read_text() == made, "run: python -m tests.contracts.coverage"


@pytest.mark.parametrize(
    ("tests", "reasons", "texts", "problem"),
    [
        ({7: []}, {}, {}, "7: shown by 2 functions"),
        ({}, {9: "why"}, {}, "9: has a test and is said to be out of scope"),
        ({300: ["tests/test_a.py::test_300_x"]}, {}, {}, "300: there is no such behaviour"),
        ({}, {}, {12: ""}, "12: has no text"),
        ({}, dict.fromkeys(range(1, 22), "why"), {}, "21 numbers are out of scope, at most 20"),
        ({}, {5: ""}, {}, "1 numbers are out of scope"),
    ],
)
def test_what_is_wrong_with_the_numbers_is_found(
    tests: dict[int, list[str]], reasons: dict[int, str], texts: dict[int, str], problem: str
) -> None:
    shown = {number: of for number, of in ALL.items() if number not in reasons or len(reasons) == 1}
    shown |= {number: of or [*ALL[number], "tests/test_b.py::test_007_again"] for number, of in tests.items()}
    problems = coverage.problems(shown, Scope(TEXTS | texts, reasons))
    assert any(item.startswith(problem) for item in problems), problems


def test_a_number_without_a_test_is_found() -> None:
    shown = {number: of for number, of in ALL.items() if number != 40}
    assert coverage.problems(shown, Scope(TEXTS, {})) == ["40: has neither a test nor a reason"]
    assert coverage.problems(ALL, Scope(TEXTS, {})) == []


REPORT = """<testsuites><testsuite>
<testcase name="test_017_it[memory]"/><testcase name="test_017_it[redis]"/><testcase \
name="test_017_it[redis-cluster-x]"/>
<testcase name="test_017_it[a-mongodb]"><failure/></testcase><testcase name="test_017_it[b-mongodb]"/>
<testcase name="test_017_it[sqlite]"><skipped/></testcase><testcase name="test_018_it"/><testcase \
name="test_019_it"><error/></testcase>
<testcase name="test_other[memory]"/>
</testsuite></testsuites>"""


def test_outcomes_come_from_reports_and_what_failed_anywhere_did_not_pass(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    expected = {"test_017_it": "memory, redis, redis-cluster", "test_018_it": "passed", "test_019_it": "none"}
    assert coverage.outcomes([tmp_path / "report.xml"]) == expected


def test_a_table_keeps_what_no_report_tells() -> None:
    passed = {"test_001_says_so": "memory, redis"}
    made = coverage.table(ALL, Scope(TEXTS, {}), passed)
    assert coverage.known_outcomes(made)["test_001_says_so"] == "memory, redis"
    assert "| 2 | what | tests/test_a.py::test_002_says_so | not run |" in made


def test_227_the_layout_is_the_one_that_was_asked_for() -> None:
    for folder in ("streams", "connectors", "schemas", "tests"):
        assert list((PROJECT / folder).glob("*.py")), folder
    assert all((PROJECT / file).is_file() for file in ("pyproject.toml", "docker-compose.yml", "README.md"))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(requirement for of in project["optional-dependencies"].values() for requirement in of),
    ]
    names = {re.split(r"[^A-Za-z0-9-]", record)[0] for record in wanted}
    assert {"confluent-kafka", "faust-streaming", "redis", "pymongo", "avro", "pytest", "testcontainers"} <= names
