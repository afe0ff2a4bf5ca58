"""The table of tests/native/twins.py and its report, docs/proof/native.md, stay true."""

from pathlib import Path

import pytest

from tests.native.twins import TWINS, Twin

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.promise)
def test_each_check_stands_where_the_table_says(twin: Twin) -> None:
    assert (PROJECT / "native" / "src" / twin.file).read_text().count(twin.text) == 1
    assert twin.instead != twin.text


def test_the_report_is_of_these_twins_and_all_were_found() -> None:
    report = (PROJECT / "docs" / "proof" / "native.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in report.splitlines() if line.startswith("| ")]
    lines = {row[0]: row[1].strip("`") for row in rows[1:]}
    assert [*lines] == [twin.promise for twin in TWINS]
    assert all(test.startswith("tests/native/test_same.py::") for test in lines.values())
