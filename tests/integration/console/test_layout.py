"""Each view has the layout of the checked-in picture, in light and dark, at 1400, 800 and 390 pixels."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.console.judging import OVERLAPPING, WIDTHS
from tests.integration.console.layout import (
    COLOURS,
    OVERLAPS,
    SCHEMES,
    VIEWS,
    Rectangle,
    differences,
    measured,
    opened,
    picture,
)

KNOWN = picture()


def known(view: str, width: int) -> list[Rectangle]:
    return [Rectangle(*item) for item in KNOWN[f"{view} {width}"]]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.partition("?")[0])
def test_a_view_has_the_layout_of_its_picture(browser: Any, view: str, scheme: str) -> None:
    for width in WIDTHS:
        with opened(browser, view, width, scheme) as page:
            assert differences(known(view, width), measured(page), width) == []
            assert page.evaluate(OVERLAPS) + page.evaluate(OVERLAPPING) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_colours_are_those_of_the_picture(browser: Any, scheme: str) -> None:
    with opened(browser, "dead", WIDTHS[0], scheme) as page:
        assert page.evaluate(COLOURS) == KNOWN["colours"][scheme]


@pytest.mark.parametrize("font", ["serif", "monospace"])
def test_the_fonts_of_another_machine_are_no_difference(browser: Any, font: str) -> None:
    for view in VIEWS:
        for width in WIDTHS:
            with opened(browser, view, width, "light") as page:
                page.evaluate("font => { document.body.style.fontFamily = font; }", font)
                assert differences(known(view, width), measured(page), width) == []


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with opened(browser, "dead", WIDTHS[0], "light") as made:
        yield made


def change(page: Any, selector: str, name: str, value: str) -> list[str]:
    """Sets a style of all these elements. Returns what differs from the picture."""
    page.eval_on_selector_all(selector, f"all => all.forEach(each => each.style.{name} = '{value}')")
    return differences(known("dead", WIDTHS[0]), measured(page), WIDTHS[0])


def test_a_panel_that_vanishes_is_found(page: Any) -> None:
    assert "panel Causes: missing" in change(page, "[aria-label=Causes]", "display", "none")


def test_a_column_that_vanishes_is_found(page: Any) -> None:
    hidden = change(page, "[aria-label=Causes] tr > :nth-child(2)", "display", "none")
    assert "column Causes: error: missing" in hidden


def test_a_column_that_lies_over_another_is_found(page: Any) -> None:
    assert page.evaluate(OVERLAPS) == []
    change(page, "[aria-label=Causes] tr > :nth-child(3)", "transform", "translateX(-40px)")
    assert page.evaluate(OVERLAPS) != []


def test_a_text_that_leaves_its_column_is_found(page: Any) -> None:
    change(page, "[aria-label=Causes] table", "tableLayout", "fixed")
    change(page, "[aria-label=Causes] td", "whiteSpace", "nowrap")
    change(page, "[aria-label=Causes] td", "maxWidth", "20px")
    change(page, "[aria-label=Causes] table", "width", "300px")
    assert page.evaluate(OVERLAPS) != []


def test_a_panel_that_is_narrow_or_in_another_place_is_found(page: Any) -> None:
    assert any("its width differs" in problem for problem in change(page, "[aria-label=Causes]", "width", "60%"))
    moved = change(page, "main", "flexDirection", "column-reverse") or change(page, "main", "display", "flex")
    assert any("in the order" in problem or "differs" in problem for problem in moved)


def test_panels_that_lie_over_each_other_are_found(page: Any) -> None:
    change(page, "[aria-label=Causes]", "marginBottom", "-120px")
    assert page.evaluate(OVERLAPS) != []
