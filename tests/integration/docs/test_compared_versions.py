"""What is compared is not older than 90 days behind what its registry serves, unless a maintainer has looked at it. A
registry that does not answer skips the test."""

from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.docs.versions import PAGE, Compared, newer, overdue, rows
from tests.integration.docs.registries import REGISTRIES
from tests.servers import Unavailable

ROWS = rows(PAGE.read_text(encoding="utf-8"))
ASKED = [row for row in ROWS if row.registry in REGISTRIES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("registries")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.product)
def test_a_compared_version_is_not_overdue(row: Compared, folder: Path) -> None:
    newest = partial(REGISTRIES[row.registry], row.package, folder=folder) if row in ASKED else str
    try:
        assert overdue(row, datetime.now(UTC).date(), newest) == ""
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("row", ASKED, ids=lambda row: row.product)
def test_the_registry_served_the_version_on_the_day_of_the_look(row: Compared, folder: Path) -> None:
    try:
        served = REGISTRIES[row.registry](row.package, row.looked_at, folder)
    except Unavailable as error:
        pytest.skip(str(error))
    assert not newer(row.version, served)


@pytest.mark.parametrize(
    ("registry", "package", "day", "version"),
    [
        ("PyPI", "quixstreams", date(2026, 6, 1), "3.23.7"),
        ("npm", "inngest", date(2026, 10, 10), "4.23.0"),
        ("Maven", "org.apache.kafka:kafka-streams", date(2026, 6, 1), "4.3.0"),
    ],
)
def test_a_registry_knows_what_it_served_on_a_day(
    registry: str, package: str, day: date, version: str, folder: Path
) -> None:
    try:
        assert REGISTRIES[registry](package, day, folder) == version
    except Unavailable as error:
        pytest.skip(str(error))
