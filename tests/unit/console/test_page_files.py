"""The files of the page that are ours."""

import pytest

from tests.unit.console.vendored import VENDOR

COLUMNS = 120
OURS = [path for path in sorted(VENDOR.parent.rglob("*.*")) if path.parent != VENDOR]


@pytest.mark.parametrize("name", [str(path.relative_to(VENDOR.parent)) for path in OURS])
def test_no_line_is_longer_than_those_of_the_other_sources(name: str) -> None:
    lines = (VENDOR.parent / name).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > COLUMNS] == []
