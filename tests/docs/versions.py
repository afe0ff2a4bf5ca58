"""docs/compare/versions.md: the products that are compared, and the day on which each was looked at."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

PAGES = Path(__file__).resolve().parents[2] / "docs" / "compare"
PAGE = PAGES / "versions.md"
MOST_DAYS = 90
ROW = re.compile(
    r"^\| (?P<product>[\w -]+) \| (?P<version>\S+) \| (?P<registry>[\w :]+) \| `(?P<package>\S+)` "
    r"\| (?P<looked_at>\d{4}-\d\d-\d\d) \| \[[^]]+\]\((?P<page>[\w-]+\.md)\) \|$",
    re.MULTILINE,
)


class Compared(NamedTuple):
    product: str
    version: str
    registry: str
    package: str
    looked_at: date
    page: str


def rows(text: str) -> list[Compared]:
    return [
        Compared(**{**row.groupdict(), "looked_at": date.fromisoformat(row["looked_at"])}) for row in ROW.finditer(text)
    ]


def overdue(row: Compared, today: date, newest: Callable[[date], str]) -> str:
    """Why a maintainer must look at the product; empty if nothing is due. `newest` is the newest release at the end of
    a day. A release that came after the last look may wait for MOST_DAYS."""
    limit = today - timedelta(days=MOST_DAYS)
    if row.looked_at >= limit:
        return ""
    if row.registry.startswith("none"):
        return f"{row.product} was looked at on {row.looked_at}, and no registry says what came after it"
    seen, released = newest(row.looked_at), newest(limit)
    if not newer(released, seen) or not newer(released, row.version):
        return ""
    return (
        f"{row.product} {released} is out since {limit} or longer, {row.page} compares {row.version}: correct the "
        f"page, or look at it, and set the day in {PAGE.name}"
    )


def newer(one: str, other: str) -> bool:
    return Version(one) > Version(other)
