"""The picture of docs/growth.md is drawn from the figures of docs/proof/growth.json, and the page has each axis."""

import json
from pathlib import Path

import pytest

from tests.bench.growth.axes import AXES
from tests.bench.growth.drawing import picture
from tests.bench.growth.slopes import slope

DOCS = Path(__file__).resolve().parents[3] / "docs"
FIGURES = json.loads((DOCS / "proof" / "growth.json").read_text(encoding="utf-8"))
PAGE = (DOCS / "growth.md").read_text(encoding="utf-8")
COMMAND = "run: python -m tests.bench.growth --draw docs/proof/growth.json docs/pictures/growth.svg"


def test_the_picture_is_current() -> None:
    assert (DOCS / "pictures" / "growth.svg").read_text(encoding="utf-8") == picture(FIGURES), COMMAND
    assert "(pictures/growth.svg)" in PAGE


@pytest.mark.parametrize("name", AXES)
def test_the_page_states_the_slope_of_each_axis(name: str) -> None:
    points = [
        (float(x), sorted(outcome["micros"] for outcome in many)[(len(many) - 1) // 2])
        for x, many in FIGURES[name].items()
    ]
    assert f"## {AXES[name].title}" in PAGE
    assert "Slope " in PAGE
    assert slope(points) < 1.1, "above linear: mend it, or say why"
